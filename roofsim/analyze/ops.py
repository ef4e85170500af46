"""Table the ops of a step: FLOPs, bytes, arithmetic intensity, time and bound, each or in groups, and what else takes time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.shares import NEGLIGIBLE, WAIT_NAMES, Made, Part, made_of
from roofsim.cost.kernels.roofline import BOUNDS
from roofsim.errors import Problem, SpecError, did_you_mean
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.cost.pricing import OpCost
    from roofsim.evaluate import Evaluation
    from roofsim.graph.base import AbstractOp

GROUPS: Final = ("op", "class", "layer", "phase")
ORDERS: Final = ("time", "flops", "bytes", "intensity", "program")
#: What a row belongs to.
_BELONGS: Final = ("phase", "class", "component")
#: What a row counts, besides seconds.
_AMOUNTS: Final = ("launches", "flops", "executed_flops", "bytes_read", "bytes_written")
#: A wait belongs to nothing and launches nothing.
_NOTHING: Final[dict[str, Any]] = {**dict.fromkeys(_BELONGS, ""), **dict.fromkeys(_AMOUNTS, 0.0), "launches": None}


@dataclass(frozen=True, kw_only=True)
class OpTable:
    """What a step is made of.

    Attributes
    ----------
    rows
        One an op or group (`kind` ``op``), and one for whatever else the step takes (``wait``); their times sum to the step.
        `flops` count whole score matrices, `executed_flops` what the kernels run, on which `intensity` rests.
    total
        The same keys of all rows together.
    notes
        What the rows stand for, where that is not the whole step of every rank.
    """

    rows: list[dict[str, Any]]
    total: dict[str, Any]
    notes: list[str]


def op_table(evaluation: Evaluation, *, by: str = "op", sort: str = "time", stage: str | None = None) -> OpTable:
    """Return amounts of one step, seconds at the clock that the card's power allows, share of the step, what binds it.

    Of a training pipeline they are those of one rank of the stage that sets the pace, or of the `stage` of a name; of a
    pipeline of inference those on the longest way of a pass.

    Raises
    ------
    SpecError
        For an unknown grouping, order or stage, and for sizes or hardware that are arrays.
    """
    for value, known, name in ((by, GROUPS, "--by"), (sort, ORDERS, "--sort")):
        if value not in known:
            raise SpecError(Problem(f"unknown value {value!r}", path=name, hint=did_you_mean(value, known)))
    made = made_of(evaluation, stage)
    groups: dict[str, dict[str, Any]] = {}
    for part in made.parts:
        for cost, times, seconds in part.kernels():
            _add(groups, part, cost, _key(cost, by), times, seconds)
    rows = [_finished(row, made.step) for row in groups.values()] + _waits(evaluation, made)
    if sort != "program":
        rows.sort(key=lambda row: -(row[sort] if row[sort] is not None else 0.0))
    return OpTable(rows=rows, total=_total(rows, made.step), notes=_notes(evaluation, made))


def op_rows(evaluation: Evaluation, *, by: str = "op", sort: str = "time") -> list[dict[str, Any]]:
    """Return the rows of `op_table`."""
    return op_table(evaluation, by=by, sort=sort).rows


def _key(cost: OpCost, by: str) -> str:
    op = cost.op
    return {"op": op.name, "class": str(op.group), "layer": op.layer, "phase": str(op.phase)}[by]


def kernel_row(part: Part, cost: OpCost, times: float, seconds: float, whole: float) -> dict[str, Any]:
    """Return the row of one op of a step of `whole` seconds, of which all its runs together take some."""
    rows: dict[str, dict[str, Any]] = {}
    _add(rows, part, cost, _key(cost, "op"), times, seconds)
    (row,) = rows.values()
    return _finished(row, whole)


def _component(op: AbstractOp) -> str:
    """Return the part of the model that an op belongs to: of a backward op, that of its forward."""
    return op.name if op.component is None else str(op.component)


def _add(rows: dict[str, dict[str, Any]], part: Part, cost: OpCost, key: str, times: float, seconds: float) -> None:
    op = cost.op
    belongs = {"phase": str(op.phase), "class": str(op.group), "component": _component(op)}
    row = rows.setdefault(key, {"name": key, **belongs, **dict.fromkeys((*_AMOUNTS, "time", *BOUNDS), 0.0)})
    for name, value in belongs.items():
        row[name] = value if row[name] == value else ""  # of a group: what all of it have in common
    amounts = (cost.launches, op.flops(), op.executed_flops(), op.bytes_read(), op.bytes_written())
    for name, amount in zip(_AMOUNTS, amounts, strict=True):
        row[name] += part.over(amount * op.count) * times
    row["time"] += seconds
    for name in BOUNDS:
        row[name] += part.over(getattr(cost, name) * op.count) * times


def _finished(row: dict[str, Any], whole: float) -> dict[str, Any]:
    # Collectives and copies run beside the kernels: what shows of them is a wait.
    bound = max(BOUNDS, key=lambda part: row[part]) if row["time"] else None
    return _row(row, "op", row["time"], whole, bound)


def _waits(evaluation: Evaluation, made: Made) -> list[dict[str, Any]]:
    """Return a row for each thing that a step waits for."""
    resources = evaluation.step.resources
    feeds = ("storage", "host_link", "host_compute")
    rows = []
    for name, seconds in made.waits.items():
        if abs(seconds) <= NEGLIGIBLE * made.step:
            continue
        text, bound = WAIT_NAMES[name]
        if name == "input":
            bound = max(feeds, key=lambda one: float(resources.get(one, 0.0)))
        rows.append(_row({**_NOTHING, "name": text}, "wait", seconds, made.step, bound))
    return rows


def _row(row: dict[str, Any], kind: str, seconds: float, whole: float, bound: str | None) -> dict[str, Any]:
    """Return a row of the table, in the order of its keys."""
    moved = row["bytes_read"] + row["bytes_written"]
    return {
        "name": row["name"],
        "kind": kind,
        **{name: row[name] for name in (*_BELONGS, *_AMOUNTS)},
        "bytes": moved,
        "intensity": row["executed_flops"] / moved if moved else None,
        "time": seconds,
        "share": seconds / whole if whole else 0.0,
        "bound": bound,
    }


def _total(rows: list[dict[str, Any]], whole: float) -> dict[str, Any]:
    amounts = {name: sum(row[name] or 0.0 for row in rows) for name in _AMOUNTS}
    return _row({**_NOTHING, **amounts, "name": "step"}, "total", sum(row["time"] for row in rows), whole, None)


def _notes(evaluation: Evaluation, made: Made) -> list[str]:
    """Say whose step it is."""
    program = evaluation.program
    if made.stage is not None:
        shown = made.parts[0].place
        others = [stage.name for place, stage in enumerate(program.stages) if place != shown]
        paces = shown == evaluation.pace
        which = "which sets the pace of the pipeline" if paces else "one of the pipeline"
        return [f"one rank of {made.stage}, {which}; --stage shows another: {', '.join(others)}"] if others else []
    if program.chains():
        return ["the longest way of a pass through the stages of the pipeline, one rank of each"]
    return ["one rank; all do the same"] if evaluation.resolved.gpus > 1 else []
