"""Look into a scenario: its ops, its memory, when things happen, where a figure comes from; and what collectives take.

Each function takes what `roofsim.run` takes and returns an answer whose `print` is the text of the command line's verb of that
name, whose `to_rows` are flat rows and whose `to_dict` is plain data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.analyze.printed import Drawn, Table, flattened
from roofsim.api import answer, resolve
from roofsim.evaluate import evaluate
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from roofsim.analyze.allocation import Allocation, Measured
    from roofsim.analyze.explanation import Explanation
    from roofsim.analyze.ops import OpTable
    from roofsim.analyze.result import Memory
    from roofsim.analyze.timeline import Timeline
    from roofsim.evaluate import Evaluation
    from roofsim.graph.diagram import Diagram
    from roofsim.spec.scenario.workload import Scenario


def _title(evaluation: Evaluation) -> str:
    resolved = evaluation.resolved
    return f"{resolved.model.name} · {resolved.workload.phase} · {resolved.gpus} x {resolved.gpu.name}"


# -- ops ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, repr=False)
class OpsView(Table):
    """The ops of a step, or groups of them, and what else it waits for; `rows` are the first `top` of the table, or all."""

    by: str
    table: OpTable
    ledger: Memory
    top: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data: the rows, the sum of all of them, and whose step it is."""
        return {**super().to_dict(), "total": self.table.total, "notes": self.table.notes}


def ops(
    scenario: str | Path | dict[str, Any] | Scenario,
    *,
    by: str = "op",
    sort: str = "time",
    stage: str | None = None,
    top: int | None = None,
    **overrides: Any,
) -> OpsView:
    """List what runs in a step, and what else it waits for; times of all rows sum to the step.

    Parameters
    ----------
    by
        One row per ``op``, ``class``, ``layer`` or ``phase``.
    sort
        ``time``, ``flops``, ``bytes``, ``intensity`` or ``program`` (the order of execution).
    stage
        Of a training pipeline: the stage to show. Left out: the one that sets the pace.
    top
        Keep this many rows.

    Returns
    -------
    OpsView
        Rows with seconds, FLOPs and bytes of one step, all launches together.

    Raises
    ------
    SpecError
        When the request is wrong.
    """
    return ops_of(evaluate(resolve(scenario, **overrides)), by=by, sort=sort, stage=stage, top=top)


def ops_of(
    evaluation: Evaluation, *, by: str = "op", sort: str = "time", stage: str | None = None, top: int | None = None
) -> OpsView:
    """Return the ops of an evaluation."""
    from roofsim.analyze.ledger import memory_of
    from roofsim.analyze.ops import op_table

    table = op_table(evaluation, by=by, sort=sort, stage=stage)
    ledger = memory_of(evaluation)
    return OpsView(title=_title(evaluation), rows=table.rows[:top], by=by, table=table, ledger=ledger, top=top)


# -- graph ----------------------------------------------------------------------------------------------------------


def graph(
    scenario: str | Path | dict[str, Any] | Scenario,
    *,
    only: str | None = None,
    stage: str | None = None,
    block: str | None = None,
    unrolled: bool = False,
    **overrides: Any,
) -> Diagram:
    """Return the op graph of a step as a ``networkx.DiGraph``, whose writers take it as it is.

    Nodes are ops in program order (views, which launch nothing, are passed through), with these attributes: ``name``,
    ``class``, ``function``, ``phase`` (of a step: forward, backward, recompute, optimizer), ``component``, ``stage``,
    ``block`` and ``repeat`` (layers that are alike stand once), ``order``, ``output``; over all runs in a step ``launches``,
    ``flops``, ``executed_flops``, ``bytes_read``, ``bytes_written``, ``time`` (seconds), ``share`` of the step, ``bound``, and
    ``beside`` (seconds of communication or host work that runs beside the kernels). Edges have ``tensor``, ``dtype``, ``shape``
    and ``bytes``.

    Parameters
    ----------
    only
        Of a step only the ops of this phase: ``forward``, ``backward``, ``recompute`` or ``optimizer``.
    block
        Only the ops of this block of layers.
    stage
        Of a training pipeline: the stage to show; left out: the one that sets the pace. Of inference: only this pass.
    unrolled
        Whether every layer is written out.

    Returns
    -------
    networkx.DiGraph
        One node per op, one edge per tensor that an op hands to another.

    Raises
    ------
    SpecError
        When the request is wrong.
    """
    evaluation = evaluate(resolve(scenario, **overrides))
    return graph_of(evaluation, only=only, stage=stage, block=block, unrolled=unrolled)


def graph_of(
    evaluation: Evaluation,
    *,
    only: str | None = None,
    stage: str | None = None,
    block: str | None = None,
    unrolled: bool = False,
) -> Diagram:
    """Return the op graph of an evaluation."""
    from roofsim.analyze.op_graph import op_graph

    return op_graph(evaluation, only=only, stage=stage, block=block, unrolled=unrolled)


# -- memory ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, repr=False)
class MemoryLedger(Table, Drawn):
    """What takes memory at the peak: one row per component; `to_dict` has the whole ledger."""

    evaluation: Evaluation
    ledger: Memory
    allocation: Allocation | None = None
    measured: Measured | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the ledger as plain data."""
        from roofsim.analyze.intervals import memory_intervals
        from roofsim.analyze.result import plain

        fields = (
            "allocated_peak", "reserved", "device_total", "saved_activations", "capacity", "fits", "verdict", "fit_probability",
            "shortfall", "peak_op", "peak_phase", "components", "off_device",
        )  # fmt: skip
        row = {name: getattr(self.ledger, name) for name in fields}
        row["off_device_missing"] = self.ledger.missing_off_device
        row["peak"] = row["device_total"]
        row["intervals"] = memory_intervals(self.ledger, self.evaluation.resolved)
        row["phase_peaks"] = self.evaluation.profiles[0].phase_peaks
        row["allocator"] = None if self.allocation is None else self.allocation.to_dict()
        if self.measured is not None:
            row["snapshot"] = self.measured.to_dict()
        data: dict[str, Any] = plain(row)
        return data


@dataclass(frozen=True, kw_only=True, repr=False)
class MemoryView(Table):
    """What is alive at the peak by op, layer, role or stage (`view`), the ``curve``, or the life of a ``tensor``."""

    view: str
    every: list[dict[str, Any]]
    top: int | None = None


def memory(
    scenario: str | Path | dict[str, Any] | Scenario,
    *,
    by: str | None = None,
    tensor: str | int | None = None,
    curve: bool = False,
    top: int | None = None,
    **overrides: Any,
) -> MemoryLedger | MemoryView:
    """Show what takes memory.

    Parameters
    ----------
    by
        What is alive at the peak by ``op``, ``layer`` or ``role``; or each ``stage``. Left out: the ledger of the peak.
    tensor
        The name of a tensor, for its life. A number is the tensor-parallel degree, as everywhere.
    curve
        What is alive at every op, in program order.
    top
        Keep this many rows.

    Returns
    -------
    MemoryLedger or MemoryView
        Rows with bytes of the fullest rank.

    Raises
    ------
    SpecError
        When the request is wrong.
    """
    from roofsim.errors import Problem, SpecError

    if tensor is not None and not isinstance(tensor, str):
        overrides, tensor = {**overrides, "tensor": tensor}, None
    views = [name for name, given in (("by", by), ("tensor", tensor), ("curve", curve or None)) if given is not None]
    if len(views) > 1:
        raise SpecError(Problem(f"{' and '.join(views)} are different views; give one"))
    evaluation = evaluate(resolve(scenario, **overrides), with_curve=True)
    return memory_view_of(evaluation, by=by, tensor=tensor, top=top) if views else memory_ledger_of(evaluation)


def memory_view_of(
    evaluation: Evaluation, *, by: str | None = None, tensor: str | None = None, top: int | None = None
) -> MemoryView:
    """Return a view of the memory of an evaluation: by something, of a tensor, or the curve."""
    from roofsim.analyze import alive

    if tensor is not None:
        view, every = "tensor", alive.tensor_rows(evaluation, tensor)
    elif by is not None:
        view, every = by, alive.alive_rows(evaluation, by=by)
    else:
        view, every = "curve", alive.curve_rows(evaluation)
    return MemoryView(title=_title(evaluation), rows=every[:top], view=view, every=every, top=top)


def memory_ledger_of(evaluation: Evaluation) -> MemoryLedger:
    """Return the ledger of an evaluation."""
    from roofsim.analyze.allocation import allocation_of
    from roofsim.analyze.ledger import memory_of
    from roofsim.analyze.result import plain
    from roofsim.numeric import divide

    ledger = memory_of(evaluation)
    rows = [
        {"name": name, "bytes": plain(amount), "share": plain(divide(amount, ledger.device_total))}
        for name, amount in ledger.components.items()
    ]
    allocation = allocation_of(evaluation)
    return MemoryLedger(
        title=_title(evaluation), rows=rows, evaluation=evaluation, ledger=ledger, allocation=allocation
    )


# -- timeline, explain ----------------------------------------------------------------------------------------------


def timeline(scenario: str | Path | dict[str, Any] | Scenario, **overrides: Any) -> Timeline:
    """Say when each part of a step runs, and how much of the communication is hidden.

    Returns
    -------
    Timeline
        One row per piece of work: its lane, when it starts, and how long it runs, in seconds.

    Raises
    ------
    SpecError
        When the request is wrong, or sizes are arrays.
    """
    from roofsim.analyze.timeline import timeline as timeline_of

    return timeline_of(evaluate(resolve(scenario, **overrides)))


def explain(
    scenario: str | Path | dict[str, Any] | Scenario, figure: str = "step_time", **overrides: Any
) -> Explanation:
    """Trace a figure back to ops, formulas, constants and sources; one row per line of the explanation.

    Parameters
    ----------
    figure
        A key of the result (``step_time``, ``memory.peak``, ``mfu`` ...) or the name of an op.

    Returns
    -------
    Explanation
        Seconds, bytes or a share, as the figure has, with the parts that it consists of.

    Raises
    ------
    SpecError
        When the request is wrong.
    """
    from roofsim.analyze.explain import explain as unfold

    evaluation = evaluate(resolve(scenario, **overrides))
    return unfold(evaluation, answer(evaluation), figure)


# -- collectives ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, repr=False)
class CollectivesView(Table, Drawn):
    """Time and bandwidth of a collective: one row per size and number of ranks."""

    def to_rows(self) -> list[dict[str, Any]]:
        """Return flat rows."""
        return [flattened(row) for row in self.rows]


def collectives(
    system: str,
    op: str = "all_reduce",
    *,
    gpu: str | None = None,
    ranks: Sequence[int] | None = None,
    sizes: Sequence[float | str] | None = None,
    stride: int = 1,
    engine: str | None = None,
) -> CollectivesView:
    """Predict time and bandwidth of a collective on a system.

    Parameters
    ----------
    system, gpu
        Catalog names; the GPU left out is the system's own.
    op
        ``all_reduce``, ``all_gather``, ``reduce_scatter``, ``all_to_all``, ``broadcast`` or ``send_recv``.
    ranks
        Members of the group. Left out: powers of two up to a node, and some nodes.
    sizes
        Bytes of the full tensor, as numbers or as texts (``"64 MiB"``). Left out: 1 KiB to 4 GiB.
    stride
        Distance of neighbouring members in rank order.
    engine
        An engine, whose own all-reduce kernels are used where it has some.

    Returns
    -------
    CollectivesView
        One row per size and number of ranks: seconds, and bytes per second of the algorithm and of the bus.

    Raises
    ------
    SpecError
        When the request is wrong.
    """
    from roofsim.analyze.collectives import SIZES, collective_rows, system_and_gpu, usual_ranks
    from roofsim.errors import Place, Problem, SpecError
    from roofsim.units import parse

    node, card = system_and_gpu(system, gpu)
    counts = usual_ranks(node) if ranks is None else [int(count) for count in ranks]
    if not counts:
        message = f"{node.name} has one GPU and states no network: there is nothing to communicate with"
        raise SpecError(Problem(message, Place("--system")))
    wanted = SIZES if sizes is None else [parse(size, "B") if isinstance(size, str) else float(size) for size in sizes]
    rows = collective_rows(node, card, op, counts, wanted, stride=stride, custom=_own_kernels(engine))
    return CollectivesView(title=f"{rows[0]['op']} on {rows[0]['system']}", rows=rows)


def _own_kernels(engine: str | None) -> str | None:
    """Return the engine if it has all-reduce kernels of its own; others call the library."""
    from roofsim.spec import catalog
    from roofsim.spec.engine.schema import catalog_engine

    if engine is None:
        return None
    name = catalog.resolve_name("engine", engine)
    return name if catalog_engine(name).communication.all_reduce == "custom" else None
