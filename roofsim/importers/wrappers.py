"""Take the language model out of a multimodal configuration, and count the networks beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.importers.class_defaults import CLASS_DEFAULTS, VERSION
from roofsim.importers.fields import Fields
from roofsim.importers.towers import ALIASES, TOWERS, WRAPPERS, Parts
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Where wrappers keep the configuration of their language model.
_TEXT: Final = ("text_config", "llm_config", "language_config")
#: Configurations of networks beside it whose class roofsim does not know.
_OTHERS: Final = ("vision_config", "audio_config", "vision_tower_config", "speech_config")
#: Keys of nested configurations that say where they came from.
_NAMING: Final = ("_name_or_path", "architectures")


@dataclass(frozen=True)
class Unwrapped:
    """A language model's configuration, and what stood around it.

    Attributes
    ----------
    config
        Of the language model alone, defaults of its class filled in.
    path
        Where it stands in the file, for messages.
    wrapper
        The whole file, or None: it was a language model's to begin with.
    filled
        Keys that the file leaves out.
    """

    config: dict[str, Any]
    path: str = ""
    wrapper: Fields | None = None
    filled: tuple[str, ...] = ()


def unwrap(config: dict[str, Any], where: str) -> Unwrapped:
    """Return the language model of a configuration: itself, or what it wraps."""
    fields = Fields(config, where)
    kind = config.get("model_type")
    key = next((key for key in _TEXT if isinstance(config.get(key), dict)), None)
    known = WRAPPERS.get(kind) if isinstance(kind, str) else None
    if key is None:
        if known is None or not fields.has("hidden_size"):
            return _whole(known, fields) if known is not None else Unwrapped(config)
        # The language model's keys stand beside vision_config (the older form of Qwen2-VL, Phi-4-multimodal).
        return Unwrapped({**_own(config), "model_type": known.text}, wrapper=fields)
    given = _own(fields.part(key).data)
    kind = given.get("model_type") or (known.text if known is not None else None)
    given = {**given, "model_type": kind} if kind is not None else given
    defaults = CLASS_DEFAULTS.get(str(kind), {})
    text = {**defaults, **given}
    if config.get("tie_word_embeddings") is not None and "tie_word_embeddings" not in given:
        text["tie_word_embeddings"] = config["tie_word_embeddings"]
    filled = tuple(name for name in defaults if name not in given and defaults[name] not in (False, [], None))
    return Unwrapped(text, f"{key}.", fields, filled)


def _whole(known: Any, fields: Fields) -> Unwrapped:
    """Return the class's own language model where the file names none."""
    defaults = {**CLASS_DEFAULTS.get(known.text, {}), "model_type": known.text}
    return Unwrapped(defaults, "text_config.", fields, tuple(defaults))


def _own(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in _NAMING}


def notes_of(unwrapped: Unwrapped, mapping: dict[str, Any]) -> tuple[list[str], list[str], list[dict[str, Any]]]:
    """Return what was assumed of a wrapped model, warnings of what is not priced, and the networks beside it."""
    wrapper = unwrapped.wrapper
    if wrapper is None:
        return [], [], []
    kind = wrapper.data.get("model_type")
    assumed = [
        f"{kind} wraps several networks: its language model ({unwrapped.config['model_type']}) is what is priced"
    ]
    if unwrapped.filled:
        values = ", ".join(f"{name} {unwrapped.config[name]}" for name in unwrapped.filled)
        assumed.append(f"left out by the file, defaults of the class ({VERSION}): {values}")
    beside, uncounted = _beside(wrapper, mapping)
    warnings = [
        f"neither memory nor work of {' and '.join(uncounted)} is counted: roofsim does not know their class"
        for _ in uncounted[:1]
    ]
    return assumed, warnings, beside


def _beside(wrapper: Fields, mapping: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the networks beside a language model whose parameters are known, and the keys of the others."""
    known = WRAPPERS.get(str(wrapper.data.get("model_type")))
    others = [key for key in _OTHERS if isinstance(wrapper.data.get(key), dict)]
    given = wrapper.part("vision_config").data
    kind = str(given.get("model_type") or (known.vision if known is not None else ""))
    kind = ALIASES.get(kind, kind)
    if known is None or kind not in TOWERS:
        return [], others or ["the networks beside it"]
    if "hidden_size" not in mapping:
        wrapper.fail("text_config", f"expected a language model; found a {mapping.get('family')}")
    data = {**CLASS_DEFAULTS.get(kind, {}), **dict(known.vision_defaults), **given}
    vision = Fields({key: value for key, value in data.items() if value is not None}, wrapper.where, "vision_config.")
    parts = Parts(wrapper, vision, mapping["hidden_size"], mapping.get("intermediate_size") or 0)
    beside = [{"name": "vision tower", "parameters": TOWERS[kind](vision)}]
    projector = known.projector(parts)
    if projector:
        beside.append({"name": "projector", "parameters": projector})
    return beside, [key for key in others if key != "vision_config"]
