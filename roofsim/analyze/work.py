"""Count what a step does: FLOPs, bytes and seconds by phase and class of op, and the parameters behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.analyze.utilization import flops_of
from roofsim.cost.links.communication import FREE
from roofsim.cost.scales import Scales
from roofsim.evaluate import host_path_of, mean_over_contexts, messages_of
from roofsim.graph.base import Phase
from roofsim.graph.ops import Collective, GroupedMatmul, HostCompute, HostTransfer, HostUpdate
from roofsim.graph.tensor import Role
from roofsim.numeric import Real, any_above, maximum, real
from roofsim.structures import whole_graph

if TYPE_CHECKING:
    from roofsim.evaluate import Evaluation, Unpriced


def work_of(evaluation: Evaluation) -> dict[str, dict[str, dict[str, Real]]]:
    """Return FLOPs, bytes and seconds of one step by phase and class of op, on one rank: of a pipeline, on the slowest.

    Kernels take the seconds that they take at the clock which the card's power allows: with the step's `waits` they are the step.
    Collectives and copies, which run beside them, take all of theirs, hidden or not.
    """
    table: dict[str, dict[str, dict[str, Real]]] = {}
    micro = evaluation.program.num_micro_batches
    several = any_above(evaluation.resolved.gpus, 1.0)
    beside = beside_the_slowest(evaluation)
    for place, (stage, priced) in enumerate(zip(evaluation.program.stages, evaluation.priced, strict=True)):
        if place in beside:
            continue
        stretch = evaluation.own_step(place).stretch
        messages = messages_of(evaluation.resolved, averaged=stage.averaged) if several else None
        flops, read, written = (priced.amounts(name) for name in ("flops", "bytes_read", "bytes_written"))
        for index, (cost, count) in enumerate(zip(priced.per_op(), priced.counts, strict=True)):
            op = cost.op
            times = stage.times * (1.0 if op.phase is Phase.OPTIMIZER else micro)
            row = table.setdefault(str(op.phase), {}).setdefault(
                str(op.group), {"flops": 0.0, "bytes_read": 0.0, "bytes_written": 0.0, "time": 0.0}
            )
            time, stretched = cost.time + cost.held, _over(cost.drawn * count, averaged=stage.averaged) * stretch
            if messages is not None and isinstance(op, Collective):
                time = messages.time_of(op, Scales()).seconds if op.function not in FREE else 0.0
            elif isinstance(op, HostCompute | HostTransfer | HostUpdate):
                path = host_path_of(evaluation.resolved, averaged=stage.averaged)
                time = path.of(op).pace
            amounts = (flops[index], read[index], written[index], time)
            for key, amount in zip(row, amounts, strict=True):
                row[key] = row[key] + _over(amount * count, averaged=stage.averaged) * times
            row["time"] = row["time"] + stretched * times
    for classes in table.values():
        classes.pop("view", None)
    return table


def beside_the_slowest(evaluation: Evaluation) -> set[int]:
    """Return the places of stages of a pipeline that are not its slowest."""
    program = evaluation.program
    chains = [list(range(len(program.stages)))] if program.pipelined else program.chains()
    return {place for places in chains for place in places} - set(evaluation.paces)


def _over(value: Real, *, averaged: bool) -> Real:
    return mean_over_contexts(value) if averaged else value


def parameters_of(evaluation: Unpriced) -> dict[str, Real]:
    """Return parameters in all, and those that one token uses: a share of the experts, no networks beside the model."""
    resolved, traits = evaluation.resolved, evaluation.resolved.model.traits()
    if evaluation.program.networks:
        return _of_networks(evaluation)
    graph = whole_graph(resolved) if any_above(resolved.gpus, 1.0) else evaluation.program.stages[0].graph
    total: Real = 0.0
    for tensor, copies in graph.parameters().items():
        if tensor.role is Role.PARAMETER:
            total = total + tensor.numel * copies
    idle: Real = traits.parameters_beside
    for op in graph:
        if isinstance(op, GroupedMatmul) and op.phase is Phase.FORWARD:
            weights = op.inputs[1].numel * op.count
            idle = idle + weights * maximum(0.0, 1.0 - real(traits.experts_per_token) / op.experts)
    return {"total": total, "active": total - idle}


def _of_networks(evaluation: Unpriced) -> dict[str, Real]:
    """Return the parameters of all networks of a program, those that never run among the total."""
    total: Real = 0.0
    for stage in evaluation.program.stages:
        for tensor, copies in stage.graph.parameters().items():
            if tensor.role is Role.PARAMETER:
                total = total + tensor.numel * copies
    return {"total": total + real(evaluation.resolved.model.traits().idle_parameters), "active": total}


__all__ = ["beside_the_slowest", "flops_of", "parameters_of", "work_of"]
