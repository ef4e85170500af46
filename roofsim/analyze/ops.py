"""Table the ops of a step: FLOPs, bytes, arithmetic intensity, time and bound, each or in groups, and what else takes time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.shares import NEGLIGIBLE, WAIT_NAMES, Made, Part, made_of
from roofsim.cost.roofline import BOUNDS
from roofsim.errors import Problem, SpecError, did_you_mean

if TYPE_CHECKING:
    from roofsim.cost.pricing import OpCost
    from roofsim.evaluate import Evaluation

GROUPS: Final = ("op", "class", "layer", "phase")
ORDERS: Final = ("time", "flops", "bytes", "intensity", "program")

#: What a row counts, besides seconds.
_AMOUNTS: Final = ("count", "flops", "executed_flops", "bytes")
_NOTHING: Final[dict[str, float | None]] = {"count": None, "flops": 0.0, "executed_flops": 0.0, "bytes": 0.0}


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


def _add(rows: dict[str, dict[str, Any]], part: Part, cost: OpCost, key: str, times: float, seconds: float) -> None:
    op = cost.op
    row = rows.setdefault(
        key,
        {
            "name": key, "phase": str(op.phase), "class": str(op.group), "count": 0.0, "flops": 0.0,
            "executed_flops": 0.0, "bytes": 0.0, "time": 0.0, "compute": 0.0, "memory_bandwidth": 0.0, "launch": 0.0,
        },
    )  # fmt: skip
    row["count"] += part.over(op.count) * times
    row["flops"] += part.over(op.flops() * op.count) * times
    row["executed_flops"] += part.over(op.executed_flops() * op.count) * times
    row["bytes"] += part.over((op.bytes_read() + op.bytes_written()) * op.count) * times
    row["time"] += seconds
    for name in BOUNDS:
        row[name] += part.over(getattr(cost, name) * op.count) * times


def _finished(row: dict[str, Any], whole: float) -> dict[str, Any]:
    # Collectives and copies run beside the kernels: what shows of them is a wait.
    bound = max(BOUNDS, key=lambda part: row[part]) if row["time"] else None
    amounts = {name: row[name] for name in _AMOUNTS}
    return _row(row["name"], "op", row["time"], whole, bound, phase=row["phase"], group=row["class"], amounts=amounts)


def _waits(evaluation: Evaluation, made: Made) -> list[dict[str, Any]]:
    """Return a row for each thing that a step waits for."""
    resources = evaluation.step.resources
    feeds = ("storage", "host_link", "host_compute")
    found = []
    for name, seconds in made.waits.items():
        if abs(seconds) <= NEGLIGIBLE * made.step:
            continue
        text, bound = WAIT_NAMES[name]
        if name == "input":
            bound = max(feeds, key=lambda one: float(resources.get(one, 0.0)))
        found.append(_row(text, "wait", seconds, made.step, bound))
    return found


def _row(
    name: str, kind: str, seconds: float, whole: float, bound: str | None, *, phase: str = "", group: str = "",
    amounts: dict[str, float | None] | None = None,
) -> dict[str, Any]:  # fmt: skip
    amounts = _NOTHING if amounts is None else amounts
    moved, executed = amounts["bytes"], amounts["executed_flops"]
    return {
        "name": name,
        "kind": kind,
        "phase": phase,
        "class": group,
        **amounts,
        "intensity": executed / moved if moved and executed is not None else None,
        "time": seconds,
        "share": seconds / whole if whole else 0.0,
        "bound": bound,
    }


def _total(rows: list[dict[str, Any]], whole: float) -> dict[str, Any]:
    amounts: dict[str, float | None] = {name: sum(row[name] or 0.0 for row in rows) for name in _AMOUNTS}
    return _row("step", "total", sum(row["time"] for row in rows), whole, None, amounts=amounts)


def _notes(evaluation: Evaluation, made: Made) -> list[str]:
    """Say whose step it is."""
    program = evaluation.program
    if made.stage is not None:
        others = [stage.name for stage in program.stages if stage.name != made.stage]
        paces = made.stage == program.stages[evaluation.pace].name
        which = "which sets the pace of the pipeline" if paces else "one of the pipeline"
        return [f"one rank of {made.stage}, {which}; --stage shows another: {', '.join(others)}"] if others else []
    if program.chains():
        return ["the longest way of a pass through the stages of the pipeline, one rank of each"]
    return ["one rank; all do the same"] if evaluation.resolved.gpus > 1 else []
