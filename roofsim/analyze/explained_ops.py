"""Unfold an op: its work, the roofline of each kernel that it launches, and what the power limit makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.explanation import Explanation, figure_text, of_seconds, seconds_text
from roofsim.analyze.ops import op_table
from roofsim.cost.kernels.models.streaming import unit_reach
from roofsim.cost.kernels.ops import kernels_of_all
from roofsim.numeric import is_scalar
from roofsim.units import humanize

if TYPE_CHECKING:
    from roofsim.cost.device import Device
    from roofsim.cost.kernels.work import KernelWork
    from roofsim.evaluate import Evaluation
    from roofsim.graph.base import AbstractOp

#: How many ops of a sum are written out; the rest is one line.
SHOWN: Final = 12


def op_named(evaluation: Evaluation, name: str) -> Explanation | None:
    """Return what an op is made of; None where no graph of the step has it."""
    for place, stage in enumerate(evaluation.program.stages):
        op = next((op for op in stage.graph if op.name == name), None)
        if op is not None:
            return op_parts(evaluation, place, op)
    return None


def class_named(evaluation: Evaluation, name: str) -> Explanation | None:
    """Return what a class of ops (``matmul``, ``attention`` ...) or a wait takes of a step; None where the step has none."""
    rows = [row for row in op_table(evaluation).rows if name in (row["class"], row["name"])]
    if not rows:
        return None
    whole = sum(row["time"] for row in rows)
    if rows[0]["kind"] == "wait":
        return of_seconds(name, whole, "seconds of the step in which no kernel of the rank runs")
    work = sum(row["executed_flops"] for row in rows)
    moved = sum(row["bytes"] for row in rows)
    root = of_seconds(
        name, whole, f"sum over its ops: {humanize(work, 'FLOP', 4)} and {humanize(moved, 'B', 4)} in all"
    )
    root.parts = longest_ops(evaluation, rows)
    return root


def classes_of(evaluation: Evaluation) -> list[str]:
    """Return the classes of ops of a program."""
    return sorted({str(op.group) for stage in evaluation.program.stages for op in stage.graph})


def _unfold(evaluation: Evaluation, part: Explanation) -> None:
    """Give a line of a sum the parts of the op that it names; the op's own seconds are those of one launch."""
    op = op_named(evaluation, part.title)
    if op is None:
        return
    for one in op.parts:
        one.seconds = None
    part.parts, part.asked = op.parts, part.title


def longest_ops(evaluation: Evaluation, rows: list[dict[str, Any]]) -> list[Explanation]:
    """Return the ops of rows of `op_table` that take longest, each with what it is made of, and the rest as one line."""
    parts = [
        of_seconds(
            row["name"],
            row["time"],
            f"{100 * row['share']:.1f} % of the step: {_launches(row['launches'])}, "
            f"{humanize(row['executed_flops'], 'FLOP', 4)}, {humanize(row['bytes'], 'B', 4)} in all"
            + (f"; bound by {row['bound'].replace('_', ' ')}" if row["bound"] else ""),
        )
        for row in rows[:SHOWN]
    ]
    for part in parts:
        _unfold(evaluation, part)
    if len(rows) > SHOWN:
        rest = sum(row["time"] for row in rows[SHOWN:])
        parts.append(of_seconds(f"{len(rows) - SHOWN} other ops", rest, "`roofsim ops` lists them all"))
    return parts


def _launches(count: float) -> str:
    return f"{count:g} launch{'' if count == 1 else 'es'}"


def op_parts(evaluation: Evaluation, place: int, op: AbstractOp) -> Explanation:
    """One op of a stage: its work, the roofline of each kernel it launches, and what the power limit makes of it."""
    context = evaluation.priced[place].context
    root = Explanation(op.name, f"{type(op).__name__}, {op.phase}, runs {figure_text(op.count)} times per pass")
    root.parts.append(Explanation("FLOPs", figure_text(op.flops(), "FLOP"), _dimensions(op)))
    if figure_text(op.executed_flops()) != figure_text(op.flops()):
        root.parts.append(
            Explanation(
                "FLOPs executed", figure_text(op.executed_flops(), "FLOP"), "without masked scores; this sets the time"
            )
        )
    for name, tensors, amount in (
        ("bytes read", op.inputs, op.bytes_read()),
        ("bytes written", op.outputs, op.bytes_written()),
    ):
        parts = [Explanation(str(tensor), figure_text(tensor.bytes, "B"), str(tensor.root.role)) for tensor in tensors]
        root.parts.append(Explanation(name, figure_text(amount, "B"), "distinct tensors", parts=parts))
    root.parts += [_kernel(work, context.device) for _, work in kernels_of_all([op], context)]
    cost = next(one for one in evaluation.priced[place].per_op() if one.op is op)
    if is_scalar(cost.time, evaluation.step.step) and cost.time:
        alone, lasting = float(cost.time), float(cost.lasting(evaluation.own_step(place).stretch))
        text = f"{seconds_text(alone)} at full clock, {seconds_text(lasting - alone)} for the power that it draws"
        root.parts.append(Explanation("time of one launch", seconds_text(lasting), text, seconds=lasting))
    return root


def _kernel(work: KernelWork, device: Device) -> Explanation:
    """One kernel: its roofline, the achieved fractions by name, and the level that they come from."""
    rate, drawn = work.flop_peak * work.compute_share, work.bandwidth_share * unit_reach(work.load)
    moved, source = device.bandwidth * drawn, f"stream x {work.bandwidth_key}"
    if np.any(np.asarray(work.limit) < moved):
        moved, source = (
            np.minimum(work.limit, moved),
            "what the loads of its compute units draw at most, with this engine's kernels",
        )
        drawn = moved / device.bandwidth
    arithmetic = f"{figure_text(work.flops, 'FLOP')} / {figure_text(rate, 'FLOP/s')}"
    tiled = () if work.product is None else (f"tiles and waves {figure_text(work.tiling)}",)
    traffic = f"{figure_text(work.traffic, 'B')} / {figure_text(moved, 'B/s')}"
    return Explanation(
        "kernel",
        f"norm({arithmetic}, {traffic}) + {seconds_text(device.architecture.kernel_floor)}",
        f"{figure_text(work.compute_share)} of {figure_text(work.flop_peak, 'FLOP/s')} "
        f"({' x '.join((*work.compute_keys, *tiled))}); "
        f"{figure_text(drawn)} of {figure_text(device.bandwidth, 'B/s')} ({source}); "
        f"norm: power sum with exponent {device.constants.norm:g}",
        f"constants {device.level}: {device.constants.sources.get('compute', '')}",
    )


def _dimensions(op: AbstractOp) -> str:
    names = (
        "batch",
        "m",
        "n",
        "k",
        "heads",
        "q_length",
        "kv_length",
        "head_size",
        "in_channels",
        "out_channels",
        "groups",
        "rows",
        "experts",
    )
    dimensions = [f"{name}={figure_text(getattr(op, name))}" for name in names if hasattr(op, name)]
    return ", ".join(dimensions)
