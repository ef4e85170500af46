"""Count what a step does: FLOPs, bytes and seconds by phase and class of op, and the parameters behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.cost.communication import FREE
from roofsim.cost.pricing import Scales
from roofsim.evaluate import host_path_of, mean_over_contexts, messages_of
from roofsim.graph.base import HEAVY_KINDS, Phase
from roofsim.graph.ops import Collective, GroupedMatmul, HostCompute, HostTransfer, HostUpdate
from roofsim.graph.tensor import Role
from roofsim.numeric import Real, any_above, maximum, real
from roofsim.program import whole_model
from roofsim.spec.layout import layout_of

if TYPE_CHECKING:
    from roofsim.evaluate import Evaluation


def work_of(evaluation: Evaluation) -> dict[str, dict[str, dict[str, Real]]]:
    """Return FLOPs, bytes and seconds of one step by phase and class of op, on one rank: of a pipeline, on the slowest."""
    table: dict[str, dict[str, dict[str, Real]]] = {}
    micro = evaluation.program.num_micro_batches
    several = any_above(evaluation.resolved.gpus, 1.0)
    beside = _beside_the_slowest(evaluation)
    for place, (stage, priced) in enumerate(zip(evaluation.program.stages, evaluation.priced, strict=True)):
        if place in beside:
            continue
        messages = messages_of(evaluation.resolved, averaged=stage.averaged) if several else None
        for cost, count in zip(priced.per_op(), priced.counts, strict=True):
            op = cost.op
            times = stage.times * (1.0 if op.phase is Phase.OPTIMIZER else micro)
            row = table.setdefault(str(op.phase), {}).setdefault(
                str(op.group), {"flops": 0.0, "bytes_read": 0.0, "bytes_written": 0.0, "time": 0.0}
            )
            time = cost.time
            if messages is not None and isinstance(op, Collective):
                time = messages.time_of(op, Scales()).seconds if op.function not in FREE else 0.0
            elif isinstance(op, HostCompute | HostTransfer | HostUpdate):
                path = host_path_of(evaluation.resolved, averaged=stage.averaged)
                time = path.of(op).pace
            amounts = (op.flops(), op.bytes_read(), op.bytes_written(), time)
            for key, amount in zip(row, amounts, strict=True):
                row[key] = row[key] + _over(amount * count, averaged=stage.averaged) * times
    for classes in table.values():
        classes.pop("view", None)
    return table


def _beside_the_slowest(evaluation: Evaluation) -> set[int]:
    """Return the places of stages of a pipeline that are not its slowest."""
    program = evaluation.program
    chains = [list(range(len(program.stages)))] if program.pipelined else program.chains()
    return {place for places in chains for place in places} - set(evaluation.paces)


def _over(value: Real, *, averaged: bool) -> Real:
    return mean_over_contexts(value) if averaged else value


def flops_of(evaluation: Evaluation) -> tuple[Real, Real]:
    """Return the FLOPs of one step that the model asks for, and those that the hardware runs, over all GPUs.

    Both count matmuls, convolutions and attention. The model's leave out recomputation and the second computation of
    scores in fused attention's backward; both count a causal score matrix in full, as the usual formulas do, and of a
    window only what it shows.
    """
    model: Real = 0.0
    hardware: Real = 0.0
    layout = layout_of(evaluation.resolved.parallel)
    for stage in evaluation.program.stages:
        # Every rank of a stage does as much; where there is no pipeline, all ranks run the same.
        ranks = stage.positions * layout.ranks / layout.pipeline
        for op in stage.graph:
            if op.group not in HEAVY_KINDS:
                continue
            times = stage.times * evaluation.program.num_micro_batches * ranks
            hardware = hardware + _over(op.hardware_flops() * op.count, averaged=stage.averaged) * times
            if op.phase is not Phase.RECOMPUTE:
                model = model + _over(op.model_flops() * op.count, averaged=stage.averaged) * times
    return model, hardware


def parameters_of(evaluation: Evaluation) -> dict[str, Real]:
    """Return parameters in all, and those that one token uses: a share of the experts, no networks beside the model."""
    resolved = evaluation.resolved
    if evaluation.program.networks:
        return _of_networks(evaluation)
    graph = whole_model(resolved) if any_above(resolved.gpus, 1.0) else evaluation.program.stages[0].graph
    total: Real = 0.0
    for tensor, copies in graph.parameters().items():
        if tensor.role is Role.PARAMETER:
            total = total + tensor.numel * copies
    idle: Real = float(sum(network.parameters for network in getattr(resolved.model, "beside", ())))
    per_token = getattr(resolved.model, "experts_per_token", 1)
    for op in graph:
        if isinstance(op, GroupedMatmul) and op.phase is Phase.FORWARD:
            weights = op.inputs[1].numel * op.count
            idle = idle + weights * maximum(0.0, 1.0 - real(per_token) / op.experts)
    return {"total": total, "active": total - idle}


def _of_networks(evaluation: Evaluation) -> dict[str, Real]:
    """Return the parameters of all networks of a program, those that never run among the total."""
    total: Real = 0.0
    for stage in evaluation.program.stages:
        for tensor, copies in stage.graph.parameters().items():
            if tensor.role is Role.PARAMETER:
                total = total + tensor.numel * copies
    return {"total": total + real(getattr(evaluation.resolved.model, "idle_parameters", 0)), "active": total}
