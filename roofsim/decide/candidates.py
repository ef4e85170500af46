"""List what may be otherwise about a scenario on its hardware: the schema's choices, what engines have, sizes of the batch."""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any, Final, Literal

from roofsim.records import dataclass
from roofsim.schema.base import BaseModel
from roofsim.schema.fields import alternatives, choices_of
from roofsim.spec import catalog
from roofsim.spec.engine.choice import read_choice
from roofsim.spec.engine.facts import BY_CARD, groups, paths
from roofsim.spec.engine.schema import Engine, catalog_engine
from roofsim.spec.precision.roles import NAMES, TRAINING
from roofsim.spec.scenario.document import SECTIONS
from roofsim.spec.scenario.offload import TIERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from roofsim.errors import Place
    from roofsim.spec.resolve import Resolved

#: Keys of the workload that say what is asked for, not how it is done; and the engine, which has candidates of its own.
_ASKED: Final = ("phase", "adapter", "engine")
#: Groups of engine facts that a user of the engine can have otherwise; the others say what its code is.
SWITCHES: Final = ("attention", "fusion", "convolution", "launch", "training", "communication", "data_parallel")
#: Choices of image models.
_OF_IMAGES: Final = ("memory_format",)
#: Facts that mean something together only: which kernel runs, and of which generation it is.
_TOGETHER: Final = (("attention", "attention_generation"),)
#: Factors on the micro batch that are tried.
_BATCHES: Final = ("0.5x", "2x", "4x")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Something that may be otherwise.

    Attributes
    ----------
    group
        What it is about: a key of the workload, a group of engine facts, ``engine``, ``batch`` ...
    changes
        Keys of the scenario and their values.
    origin
        Which engines have it, in words; nothing where the schema does.
    exact
        Whether the model computes and learns the same: other number formats, optimizers and sizes of a step do not.
    stated
        Whether the scenario itself says otherwise: then somebody meant it so.
    """

    group: str
    changes: dict[str, Any]
    origin: str = ""
    exact: bool = True
    stated: bool = False

    @property
    def text(self) -> str:
        """The changes as options of the command line have them."""
        return ",".join(f"{key}={written(value)}" for key, value in self.changes.items())


def written(value: Any) -> str:
    """Return a value as the command line takes it.

    >>> written(True), written(("qkv", "gate_up")), written("2x"), written({"kind": "qlora", "rank": 8})
    ('true', '[qkv, gate_up]', '2x', '{kind: qlora, rank: 8}')
    """
    if isinstance(value, bool) or value is None:
        return "null" if value is None else str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(written, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {written(one)}' for key, one in value.items())}}}"
    return str(value)


def candidates(resolved: Resolved, scenario: Mapping[str, Any], asked: Any) -> list[Candidate]:
    """Return single changes of a scenario that leave its hardware, each once.

    Parameters
    ----------
    scenario
        The scenario as it was resolved.
    asked
        What the user wrote: what stands there was meant so.
    """
    every = [
        *schema_choices(resolved, scenario, asked),
        *engines(resolved, asked),
        *borrowed_facts(resolved, SWITCHES),
        *_batches(resolved, asked),
        *_input(resolved),
        *_offload(scenario),
    ]
    unique = {candidate.text: candidate for candidate in reversed(every)}
    return [candidate for candidate in every if unique[candidate.text] is candidate]


# -- choices of the schema -------------------------------------------------------------------------------------------


def schema_choices(resolved: Resolved, scenario: Mapping[str, Any], asked: Any) -> Iterator[Candidate]:
    """Yield the other words of each key of the workload and, of several GPUs, of the layout."""
    for section in ("workload", "parallel") if resolved.gpus > 1 else ("workload",):
        for key, field in SECTIONS[section].model_fields.items():
            if key in _ASKED or not _applies(key, resolved):
                continue
            now, own = _now(scenario[section].get(key)), _is_stated(asked, section, key)
            words: list[Any] = choices_of(field)
            if key == "precision":
                words = list(TRAINING if resolved.workload.phase == "train" else NAMES)
            if bool in alternatives(field.annotation):
                words = [True, False]
            same = key not in ("precision", "optimizer")
            for word in words:
                if word != now:
                    changes = {f"{section}.{key}" if section == "parallel" else key: word}
                    exact = same or (key == "optimizer" and _method(word, resolved) == _method(str(now), resolved))
                    yield Candidate(group=key, changes=changes, exact=exact, stated=own)


def _applies(key: str, resolved: Resolved) -> bool:
    """Tell whether a choice is one for such a model: images alone have channels that come first or last."""
    return key not in _OF_IMAGES or resolved.model.sample_unit == "images"


def _now(value: Any) -> Any:
    """Return the word of a choice, where a mapping may stand for it."""
    if isinstance(value, dict):
        return value.get("name", value.get("policy"))
    return value


def _method(optimizer: str, resolved: Resolved) -> str:
    from roofsim.passes.manager import optimizer_kernel

    return optimizer_kernel(optimizer, resolved.engine)[0]


def _is_stated(asked: Any, section: str, key: str) -> bool:
    part = asked.get(section) if isinstance(asked, dict) else None
    return isinstance(part, dict) and part.get(key) is not None


# -- what engines have ------------------------------------------------------------------------------------------------


def engines_for(resolved: Resolved) -> Iterator[Engine]:
    """Yield the engines of the catalog that run this phase of such models, other than the scenario's own."""
    for name in catalog.names("engine"):
        engine = catalog_engine(name)
        runs = resolved.workload.phase in engine.phases
        if runs and name != resolved.engine.name and engine.takes(resolved.model.family):
            yield engine


def engines(resolved: Resolved, asked: Any) -> Iterator[Candidate]:
    """Yield other engines, and the variants of the scenario's own."""
    stated = _is_stated(asked, "workload", "engine")
    for engine in engines_for(resolved):
        yield Candidate(group="engine", changes={"engine": engine.name}, stated=stated)
    own = resolved.engine
    choice = read_choice(resolved.workload.engine, _nowhere())
    for variant in own.variants:
        if variant not in choice.variants:
            other = choice.model_copy(update={"variant": "+".join((*choice.variants, variant))})
            yield Candidate(
                group="engine",
                changes={"engine": other.label(own.name)},
                origin=own.variants[variant].description,
                stated=stated,
            )


def earlier_engines(resolved: Resolved) -> Iterator[Candidate]:
    """Yield earlier versions of the scenario's engine: those before each of its changes, and the last of each year."""
    own, choice = resolved.engine, read_choice(resolved.workload.engine, _nowhere())
    last: dict[str, str] = {}
    for version, released in own.releases.items():
        last[released[:4]] = version
    moments = {"version": list(last.values())} if last else {"released": [one.released for one in own.versions]}
    for key, values in moments.items():
        for value in values:
            other = choice.model_copy(update={"version": None, "released": None, key: value})
            yield Candidate(group="library", changes={"engine": other.label(own.name)}, stated=choice.narrows)


def _nowhere() -> Place:
    from roofsim.errors import Place

    return Place("workload.engine")


def borrowed_facts(resolved: Resolved, kinds: tuple[str, ...]) -> Iterator[Candidate]:
    """Yield facts of the scenario's engine with the values that other engines of its phase and family have on this card.

    Only facts that have a few values: words, yes or no, and lists of words.
    """
    owners: dict[tuple[tuple[str, str], ...], list[str]] = {}
    values: dict[tuple[tuple[str, str], ...], tuple[str, dict[str, Any]]] = {}
    own = _facts_in_sets(resolved.engine, resolved.gpu.architecture, kinds)
    for engine in engines_for(resolved):
        for names, (group, facts) in _facts_in_sets(engine, resolved.gpu.architecture, kinds).items():
            if names not in own or not all(_applies(name, resolved) for name in names):
                continue  # part of what this engine does not have at all, or says nothing of such a model
            changed = {name: value for name, value in facts.items() if value not in (None, own[names][1].get(name))}
            if changed:
                key = tuple((name, written(value)) for name, value in changed.items())
                values[key] = group, changed
                owners.setdefault(key, []).append(engine.name)
    for key, (group, facts) in values.items():
        changes = {f"engine_facts.{name}": value for name, value in facts.items()}
        yield Candidate(group=group, changes=changes, origin=f"as in {', '.join(owners[key][:3])}")


def _facts_in_sets(
    engine: Engine, architecture: str, kinds: tuple[str, ...]
) -> dict[tuple[str, ...], tuple[str, dict[str, Any]]]:
    """Return the facts of an engine that have a few values, with their group: each alone, those that belong together in one."""
    sets: dict[tuple[str, ...], tuple[str, dict[str, Any]]] = {}
    for group, name, value in _switches(engine, architecture, kinds):
        names = next((names for names in _TOGETHER if name in names), (name,))
        sets.setdefault(names, (group, {}))[1][name] = value
    return sets


def _switches(engine: Engine, architecture: str, kinds: tuple[str, ...]) -> Iterator[tuple[str, str, Any]]:
    """Yield group, flat name and value of the facts of an engine that have a few values, on one architecture."""
    facts, names = engine.facts(), {path: name for name, path in paths(Engine).items()}
    for group in kinds:
        for leaf, field in groups(Engine)[group].model_fields.items():
            name = names[group, leaf]
            value = facts[name]
            table = BY_CARD.get((group, leaf))
            if table is not None:
                value = facts[names[table[0], table[1]]].get(architecture, value)
            for part, one in _parts(name, field.annotation, value):
                yield group, part, one


def _parts(name: str, annotation: Any, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and value of a fact of a few values; of a group of such facts, each."""
    kinds = [kind for kind in alternatives(annotation) if kind is not type(None)]
    below = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
    if below is not None and isinstance(value, dict):
        for leaf, field in below.model_fields.items():
            yield from _parts(f"{name}.{leaf}", field.annotation, value.get(leaf))
    elif kinds and all(_is_few(kind) for kind in kinds):
        yield name, list(value) if isinstance(value, tuple) else value


def _is_few(kind: Any) -> bool:
    if typing.get_origin(kind) is tuple:
        return all(typing.get_origin(part) is Literal for part in typing.get_args(kind) if part is not ...)
    return kind is bool or typing.get_origin(kind) is Literal


# -- sizes, input, places ---------------------------------------------------------------------------------------------


def _batches(resolved: Resolved, asked: Any) -> Iterator[Candidate]:
    whole = resolved.workload.phase == "train" and _is_stated(asked, "workload", "global_batch_size")
    for factor in _BATCHES:
        yield Candidate(group="batch", changes={"micro_batch_size": factor}, exact=whole)


def _input(resolved: Resolved) -> Iterator[Candidate]:
    if resolved.workload.input is not None:
        yield Candidate(group="input", changes={"input.workers": 2 * resolved.workload.input.workers})


def _offload(scenario: Mapping[str, Any]) -> Iterator[Candidate]:
    for part, place in scenario["parallel"]["offload"].items():
        if place in TIERS or isinstance(place, dict):
            yield Candidate(group="offload", changes={f"parallel.offload.{part}": "none"})
