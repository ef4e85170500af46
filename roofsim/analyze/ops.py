"""Table the ops of a step: FLOPs, bytes, arithmetic intensity, time and bound, each or in groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.cost.roofline import BOUNDS
from roofsim.errors import Problem, SpecError, did_you_mean
from roofsim.graph.base import Kind, Phase

if TYPE_CHECKING:
    from roofsim.cost.pricing import OpCost
    from roofsim.evaluate import Evaluation
    from roofsim.graph.base import AbstractOp

GROUPS: Final = ("op", "class", "layer", "phase")
ORDERS: Final = ("time", "flops", "bytes", "intensity", "program")
#: What a row counts, besides seconds.
_AMOUNTS: Final = ("launches", "flops", "bytes_read", "bytes_written")


def op_rows(evaluation: Evaluation, *, by: str = "op", sort: str = "time") -> list[dict[str, Any]]:
    """Return one row an op (or group): amounts of one step, seconds, share of the step, what binds it.

    Of a pipeline they are those of all its stages, one rank each.

    Raises
    ------
    SpecError
        For an unknown grouping or order.
    """
    for value, known, name in ((by, GROUPS, "--by"), (sort, ORDERS, "--sort")):
        if value not in known:
            raise SpecError(Problem(f"unknown value {value!r}", path=name, hint=did_you_mean(value, known)))
    rows: dict[str, dict[str, Any]] = {}
    for stage, priced in zip(evaluation.program.stages, evaluation.priced, strict=True):
        for cost in priced.per_op():
            if cost.op.kind is not Kind.VIEW:
                _add(rows, evaluation, cost, _key(cost, by), stage.times * stage.positions)
    whole = float(evaluation.step.device)
    program = evaluation.program
    if program.pipelined or program.chains():  # stages work side by side: shares are of the work of all
        whole = sum(row["time"] for row in rows.values())
    found = [_finished(row, whole) for row in rows.values()]
    if sort != "program":
        found.sort(key=lambda row: -(row[sort] if row[sort] is not None else 0.0))
    return found


def _key(cost: OpCost, by: str) -> str:
    op = cost.op
    return {"op": op.name, "class": str(op.group), "layer": op.layer, "phase": str(op.phase)}[by]


def _component(op: AbstractOp) -> str:
    """Return the part of the model that an op belongs to: of a backward op, that of its forward."""
    name = op.origin or op.name
    return name.rpartition(".")[0] or name


def _add(rows: dict[str, dict[str, Any]], evaluation: Evaluation, cost: OpCost, key: str, times: Any) -> None:
    op = cost.op
    micro = 1.0 if op.phase is Phase.OPTIMIZER else evaluation.program.num_micro_batches
    runs = _number(op.count) * _number(times) * _number(micro)
    belongs = {"phase": str(op.phase), "class": str(op.group), "component": _component(op)}
    row = rows.setdefault(key, {"name": key, **belongs, **dict.fromkeys((*_AMOUNTS, "time", *BOUNDS), 0.0)})
    for name, value in belongs.items():
        row[name] = value if row[name] == value else ""  # of a group: what all of it have in common
    amounts = (1.0, op.flops(), op.bytes_read(), op.bytes_written())
    for name, amount in zip(_AMOUNTS, amounts, strict=True):
        row[name] += runs * _number(amount)
    for part in ("time", *BOUNDS):
        row[part] += runs * _number(getattr(cost, part))


def _number(value: Any) -> float:
    """Return a number; of the contexts of a decode, their mean."""
    return float(value) if isinstance(value, float) else float(value.mean())


def _finished(row: dict[str, Any], whole: float) -> dict[str, Any]:
    moved = row["bytes_read"] + row["bytes_written"]
    bound = max(BOUNDS, key=lambda part: row[part])
    return {
        "name": row["name"],
        "phase": row["phase"],
        "class": row["class"],
        "component": row["component"],
        **{name: row[name] for name in _AMOUNTS},
        "bytes": moved,
        "intensity": row["flops"] / moved if moved else None,
        "time": row["time"],
        "share": row["time"] / whole if whole else 0.0,
        "bound": bound,
    }
