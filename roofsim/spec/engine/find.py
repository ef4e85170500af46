"""Find the engine that a scenario names, by name, version, date and variant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError, did_you_mean
from roofsim.records import dataclass
from roofsim.spec import catalog
from roofsim.spec.engine.choice import EngineChoice, decimal_year, is_of, nearest, older, read_choice
from roofsim.spec.engine.schema import Engine, catalog_engine, stated_engine
from roofsim.spec.engine.versions import EarlierFacts, Releases, Variant
from roofsim.spec.hardware.schema import UNKNOWN_VENDOR
from roofsim.spec.precision.formats import format_family, weight_format
from roofsim.spec.precision.roles import PrecisionRoles
from roofsim.spec.reading.source import Document
from roofsim.spec.reading.validate import validate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    from roofsim.spec.engine.facts import Stated
    from roofsim.spec.hardware.schema import Gpu
    from roofsim.spec.precision.formats import FormatFamily

    class Wanted(Protocol):
        """What a workload asks of an engine: its phase, and its precision, if it states one."""

        @property
        def phase(self) -> str:
            """The phase."""

        @property
        def precision(self) -> str | PrecisionRoles | None:
            """The name of a precision, or the types of its roles."""


_TRAINER: Final = "sets up trainings of transformers, whose kernels its configuration chooses"
_TRAINERS: Final = "Write huggingface, huggingface+liger or huggingface+unsloth, whichever it turns on."
_DRIVER: Final = "drives a server and a trainer of others, one after the other"
_DRIVEN: Final = (
    "Ask for its parts: vllm or sglang with --phase generate, pytorch-fsdp or megatron-core with --phase train."
)
_STARTER: Final = "starts another engine"
_STARTED: Final = "Write the one that it starts: vllm, sglang or tensorrt-llm."
_PACKER: Final = "packs weights; another stack runs them"
_PACKED: Final = "Write the stack that runs them, with its precision: huggingface with nf4, vllm with int4."
#: Stacks that people ask for and that have no file of facts -> why, and what to do instead.
WITHOUT_FACTS: Final = {
    "mlx": (
        "runs on Apple's chips, of which the catalog has none",
        "On a card of the catalog llama.cpp runs the same models.",
    ),
    "openvino": (
        "runs on Intel's processors and integrated graphics",
        "On a card of the catalog use onnxruntime or llama.cpp.",
    ),
    "unsloth": ("is a set of kernels for models of transformers", "Write huggingface+unsloth."),
    "liger": ("is a set of kernels for models of transformers", "Write huggingface+liger."),
    **dict.fromkeys(("axolotl", "llama-factory"), (_TRAINER, _TRAINERS)),
    **dict.fromkeys(("verl", "openrlhf"), (_DRIVER, _DRIVEN)),
    **dict.fromkeys(("dynamo", "nim", "deepspeed-mii"), (_STARTER, _STARTED)),
    **dict.fromkeys(("bitsandbytes", "autogptq", "gptqmodel", "hqq"), (_PACKER, _PACKED)),
    "torchtune": (
        "trains PyTorch's own modules under FSDP, compiled where it is asked to",
        "torchtitan is the same on several GPUs, pytorch-compile or pytorch-eager on one.",
    ),
    "ctranslate2": (
        "has kernels of its own, which nobody has measured here",
        "tensorrt-llm and vllm run the same models.",
    ),
    "faster-whisper": ("runs CTranslate2, whose kernels nobody has measured here", "huggingface runs Whisper."),
    "flexgen": (
        "attends on the host's processors, which are not priced",
        "Weights on the host whose layers are copied are --engine vllm --set parallel.offload.parameters=host.",
    ),
    "powerinfer": (
        "computes on the host's processors what is rarely used, which is not priced",
        "llama.cpp is what it began as.",
    ),
    "comfyui": ("runs PyTorch's modules in an order that its graph chooses", "diffusers-2024 runs the same models."),
    "dgl": ("has kernels of graphs that nobody has measured here", "pytorch-eager runs gcn-ogbn-arxiv and its kin."),
    "pyg": ("is a library on PyTorch", "pytorch-eager runs gcn-ogbn-arxiv and its kin."),
    "torchrec": ("is a library on PyTorch", "pytorch-eager runs dlrm-dcnv2; --tables row deals its tables over GPUs."),
}
_SPELLINGS: Final = {
    "mlx-lm": "mlx",
    "mlxlm": "mlx",
    "kt": "ktransformers",
    "liger-kernel": "liger",
    "openvino-genai": "openvino",
    "llamafactory": "llama-factory",
    "nvidia-dynamo": "dynamo",
    "mii": "deepspeed-mii",
    "torch-geometric": "pyg",
    "pytorch-geometric": "pyg",
    "auto-gptq": "autogptq",
}


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """An engine's document with the facts of a version, its name in one word, and what is to be said of it.

    Attributes
    ----------
    sources
        Where the facts of the version and the variant are from, by fact.
    """

    stated: Stated
    label: str
    notes: tuple[str, ...]
    sources: Mapping[str, str]


def without_facts(name: str) -> tuple[str, str] | None:
    """Return why a stack has no facts, and what to do instead; None of any other name."""
    key = catalog.normal(name)
    return WITHOUT_FACTS.get(_SPELLINGS.get(key, key))


def _check_known(name: str, place: Place) -> None:
    """Refuse a stack that is known to have no facts, with the reason."""
    known = without_facts(name)
    if known is not None:
        raise SpecError(Problem(f"engine {name[:40]} {known[0]}", place, "workload.engine", known[1]))


def choose(given: str | EngineChoice, place: Place, precision: str | None = None) -> Chosen:
    """Return the engine that a scenario names, with the facts of its version, and of the variant that runs its precision.

    Raises
    ------
    SpecError
        For an unknown engine, version or variant.
    """
    choice = read_choice(given, place)
    _check_known(choice.name, place)
    name = catalog.resolve_name("engine", choice.name, place, "workload.engine")
    stated = stated_engine(catalog.load("engine", name))
    parts = _releases(stated.document) if choice.narrows or "precision_variants" in stated.document.data else Releases()
    _check_version(choice, parts, name, place)
    notes = [] if catalog.normal(choice.name) == name else [f"engine {choice.name}: {name}"]
    changed: list[str] = []
    sources: dict[str, str] = {}
    for entry in parts.versions:
        if _is_before(choice, entry, parts, name, place):
            stated = _with(stated, entry.facts, place)
            changed += entry.facts
            sources |= entry.sources
    when = _moment(choice, parts)
    if when is not None and parts.library_date == "release":
        stated = _with(stated, {"library_released": when}, place)
    elif (choice.version or choice.released) and not changed:
        notes.append(f"engine {choice.label(name)}: no fact is known to have been different then")
    own = parts.precision_variants.get((precision or "").lower())
    if own is not None and not choice.variants:
        choice = EngineChoice(name=choice.name, version=choice.version, released=choice.released, variant=own)
        notes.append(f"engine {name}: {choice.label(name)}, as its {precision} runs are")
    for variant in choice.variants:
        own_facts = _variant(parts, variant, name, place)
        stated = _with(stated, own_facts.facts, place)
        sources |= own_facts.sources
    return Chosen(stated=stated, label=choice.label(name), notes=tuple(notes), sources=sources)


def version_assumed(engine: Engine, label: str) -> bool:
    """Tell whether an engine's facts are today's although nobody says so: it had others once, and no version or date is stated.

    `label` is the engine in one word, as a resolved workload has it (``vllm@0.6.3``).
    """
    choice = read_choice(label, Place("engine"))
    return bool(engine.versions) and choice.version is None and choice.released is None


def handed_over(given: str | EngineChoice, place: Place) -> str | None:
    """Return the engine that runs models which do not generate, where the one that a scenario names leaves them to it.

    None also for a name that `choose` refuses.
    """
    try:
        name = catalog.resolve_name("engine", read_choice(given, place).name, place, "workload.engine")
    except SpecError:
        return None
    stated = catalog.load("engine", name).data.get("hands_over", {})
    return stated.get("others") if isinstance(stated, dict) else None


def said_of(given: str | EngineChoice, name: str) -> str:
    """Return what is to be said of an engine that another one stands for."""
    label = given if isinstance(given, str) else given.label(given.name)
    return f"engine {label} runs models that generate token by token; this one is priced as {name} runs it. State engine: {name}"


def _releases(document: Document) -> Releases:
    stated = {key: document.data[key] for key in Releases.model_fields if key in document.data}
    return validate(Releases, Document(stated, document.source, document.places))


def _with(stated: Stated, facts: dict[str, Any], place: Place) -> Stated:
    return stated.with_facts(Engine, facts, lambda _: place, "workload.engine")


def _variant(parts: Releases, wanted: str, name: str, place: Place) -> Variant:
    variant = parts.variants.get(wanted.strip().lower())
    if variant is None:
        hint = did_you_mean(wanted, parts.variants) or f"{name} has no variants: leave +{wanted} out."
        raise SpecError(Problem(f"unknown variant {wanted[:40]!r} of {name}", place, "workload.engine", hint))
    return variant


def _check_version(choice: EngineChoice, parts: Releases, name: str, place: Place) -> None:
    """Refuse a version that an engine's list of releases does not have; patch releases belong to the one that they patch."""
    if choice.version is None or not parts.releases or any(is_of(choice.version, one) for one in parts.releases):
        return
    near = nearest(choice.version, list(parts.releases), 3)
    known = ", ".join(f"{one} ({parts.releases[one]})" for one in near)
    hint = f"Nearest known: {known}. For another, state when it came out: {name}@YYYY-MM."
    raise SpecError(Problem(f"unknown version {choice.version!r} of {name}", place, "workload.engine", hint))


def _is_before(choice: EngineChoice, entry: EarlierFacts, parts: Releases, name: str, place: Place) -> bool:
    """Tell whether a choice is older than a change."""
    if choice.version is not None and entry.before is not None:
        return older(choice.version, entry.before)
    when = _moment(choice, parts)
    if when is not None:
        return when < decimal_year(entry.released)
    if choice.version is None:
        return False
    message = f"changes of {name} are known by date, not by version; got {choice.version!r}"
    raise SpecError(Problem(message, place, "workload.engine", f"State when it came out: {name}@YYYY-MM."))


def _moment(choice: EngineChoice, parts: Releases) -> float | None:
    """Return when the chosen version came out, as a decimal year; None where nobody says."""
    if choice.released is not None:
        return decimal_year(choice.released)
    if choice.version is None:
        return None
    known = [when for version, when in parts.releases.items() if not older(choice.version, version)]
    return decimal_year(known[-1]) if known else None


def check_phase(engine: Engine, phase: str, place: Place) -> None:
    """Refuse a phase that the engine does not run, and name engines that do.

    Raises
    ------
    SpecError
        With the phases that it runs.
    """
    if phase in engine.phases:
        return
    able = [name for name in catalog.names("engine") if phase in catalog_engine(name).phases]
    message = f"engine {engine.name} does not run phase {phase}; it runs {', '.join(engine.phases)}"
    hint = f"Choose one of these phases, or an engine that runs {phase}: {', '.join(able)}."
    if engine.hands_over.generating in able:
        hint = f"Models that generate run in {engine.hands_over.generating}: state that engine."
    raise SpecError(Problem(message, place, "workload.engine", hint))


def check_card(engine: Engine, gpu: Gpu, family: str, wanted: Wanted, place: Place) -> None:
    """Refuse a card that the engine does not run on, and name engines that run models of a family there as they are asked for.

    Raises
    ------
    SpecError
        With what it runs on.
    """
    if _runs_on(engine, gpu):
        return
    phase, stored = wanted.phase, None if wanted.phase == "train" else _weights_asked_for(wanted.precision)
    others = (catalog_engine(name) for name in catalog.names("engine"))
    others = (other for other in others if phase in other.phases and other.takes(family) and _runs_on(other, gpu))
    able = [other.name for other in others if _has_kernels(other, stored, gpu)]
    runs = phase if stored is None else f"{phase} with {stored}"
    kernels = engine.kernels
    reason, changed = (
        (f"it runs on those of {' and '.join(kernels.vendors)} alone", "vendors")
        if kernels.vendors and gpu.vendor not in kernels.vendors
        else (f"it has no kernels for architecture {gpu.architecture}", "not_on")
    )
    raise SpecError(
        Problem(
            f"engine {engine.name} does not run on {gpu.name}: {reason}",
            place,
            "workload.engine",
            f"Engines that run {runs} there, as far as is stated: {', '.join(able) or 'none'}. `roofsim show {engine.name}` says "
            f"where that is known from. If yours does, state workload.engine_facts.{changed}: [].",
        )
    )


def _runs_on(engine: Engine, gpu: Gpu) -> bool:
    """Tell whether an engine runs on a card, as far as either states it."""
    kernels = engine.kernels
    return gpu.architecture not in kernels.not_on and (
        not kernels.vendors or gpu.vendor in (*kernels.vendors, UNKNOWN_VENDOR)
    )


def _weights_asked_for(precision: str | PrecisionRoles | None) -> FormatFamily | None:
    """Return the family of the weight format that a precision names, or None where it names none."""
    name = precision.parameters if isinstance(precision, PrecisionRoles) else precision
    return None if name is None or weight_format(name) is None else format_family(name)


def _has_kernels(engine: Engine, stored: FormatFamily | None, gpu: Gpu) -> bool:
    """Tell whether an engine states that it runs a family of weight formats on a card; of none, always."""
    facts = engine.precision
    return stored is None or (
        stored in (facts.formats or ()) and gpu.architecture not in facts.formats_not_on.get(stored, ())
    )
