"""Put scenarios that differ in numbers alone into one whose numbers are `Points`, and say which may be put together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.numeric import real
from roofsim.points import together
from roofsim.records import dataclass, fields, is_dataclass, replace
from roofsim.schedule.pipeline.registry import schedule_named
from roofsim.schema.base import BaseModel
from roofsim.spec.settle.hardware import flat_override

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from roofsim.spec.resolve import Resolved

#: Texts of a scenario that decide nothing.
_TEXTS: Final = ("assumed", "warnings", "origins")
#: Degrees of parallelism that change the graph where they exceed 1.
_DEGREES: Final = (
    "tensor", "pipeline", "virtual_stages", "data", "context", "context_heads", "expert", "expert_tensor",
)  # fmt: skip
#: Stands for any number in the form of a scenario.
_NUMBER: Final = "number"


@dataclass(frozen=True)
class Structure:
    """What decides the program of a scenario before any of its numbers is looked at: points of one structure are priced together.

    Attributes
    ----------
    split
        The degrees of parallelism that exceed 1.
    accumulates
        Whether a training step has several micro batches.
    nodes
        Whether it fills a node.
    pipeline
        Of a training pipeline whose closed form is not exact, the numbers of stages, micro batches and chunks that it is run with;
        none where it is exact.
    form
        All of the scenario but its numbers: model family, phase, engine and its words, card, system, sharding, recomputation,
        schedule, precision.
    """

    split: frozenset[str]
    accumulates: bool
    nodes: bool
    pipeline: tuple[int, ...]
    form: Hashable


def structure_of(resolved: Resolved, forms: dict[int, tuple[object, Hashable]] | None = None) -> Structure:
    """Return the structure of a scenario; `forms` keeps those of parts that scenarios share."""
    return Structure(
        split=frozenset(name for name in _DEGREES if (getattr(resolved.parallel, name) or 1) > 1),
        accumulates=_micro_batches(resolved) > 1,
        nodes=resolved.gpus >= resolved.system.gpus_per_node,
        pipeline=_pipeline(resolved),
        form=_form_of_scenario(resolved, {} if forms is None else forms),
    )


def _micro_batches(resolved: Resolved) -> int:
    """Return the micro batches of a training step; 1 in inference."""
    workload, data = resolved.workload, resolved.parallel.data or 1
    whole, own = workload.global_batch_size, workload.micro_batch_size
    return 1 if whole is None or own is None else whole // (own * data)


def _pipeline(resolved: Resolved) -> tuple[int, ...]:
    parallel = resolved.parallel
    if parallel.pipeline == 1 or resolved.workload.phase != "train":
        return ()
    stages, micro_batches, virtual = parallel.pipeline, _micro_batches(resolved), parallel.virtual_stages
    schedule = schedule_named(parallel.schedule, real(virtual))
    exact = schedule.is_exact(real(stages), real(micro_batches), real(virtual))
    return () if exact else (stages, micro_batches, virtual)


def _form_of_scenario(resolved: Resolved, forms: dict[int, tuple[object, Hashable]]) -> Hashable:
    key: list[Hashable] = [tuple(path for path, _ in flat_override(resolved.override))]
    for name in _parts(resolved):
        part = getattr(resolved, name)
        if not isinstance(part, BaseModel):
            key.append(_form(part))
            continue
        if id(part) not in forms:
            forms[id(part)] = part, _form(part)
        key.append(forms[id(part)][1])
    return tuple(key)


def _parts(resolved: Resolved) -> list[str]:
    """Return the fields of a scenario that decide what is computed."""
    return [field.name for field in fields(resolved) if field.name not in (*_TEXTS, "override", "choice", "points")]


def _form(value: Any) -> Hashable:
    form: Hashable = repr(value)
    if value is None or isinstance(value, str | bool):
        form = value
    elif isinstance(value, int | float):
        form = _NUMBER
    elif isinstance(value, BaseModel):
        form = type(value), tuple(_form(part) for part in value.__dict__.values())
    elif isinstance(value, dict):
        form = tuple((str(key), _form(part)) for key, part in value.items())
    elif isinstance(value, list | tuple):
        form = tuple(_form(part) for part in value)
    elif is_dataclass(value):
        form = type(value), tuple(_form(getattr(value, field.name)) for field in fields(value))
    return form


def stacked(scenarios: Sequence[Resolved]) -> Resolved:
    """Return one scenario for several of the same `structure_of`: numbers that differ are `Points`, one element per scenario."""
    first = scenarios[0]
    update: dict[str, Any] = {name: _stack([getattr(one, name) for one in scenarios]) for name in _parts(first)}
    return replace(first, points=len(scenarios), **update | dict.fromkeys(_TEXTS, ()))


def _stack(values: list[Any]) -> Any:
    first = values[0]
    stacked = first
    if all(value is first for value in values):
        return first
    if isinstance(first, int | float) and not isinstance(first, bool):
        stacked = together(values)
    elif isinstance(first, BaseModel):
        columns = {name: _stack([value.__dict__[name] for value in values]) for name in first.__dict__}
        update = {name: value for name, value in columns.items() if value is not first.__dict__[name]}
        stacked = first.model_copy(update=update)
    elif isinstance(first, dict):
        stacked = {key: _stack([value[key] for value in values]) for key in first}
    elif isinstance(first, list | tuple):
        stacked = type(first)(_stack(list(column)) for column in zip(*values, strict=True))
    elif is_dataclass(first):
        names = [field.name for field in fields(first) if field.init]
        stacked = replace(first, **{name: _stack([getattr(value, name) for value in values]) for name in names})  # type: ignore[type-var]
    return stacked
