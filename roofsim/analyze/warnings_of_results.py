"""Say what to know before a result is believed: what its interval rests on, what is not priced, what is nearly full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roofsim.analyze.host import host_notes
from roofsim.analyze.intervals import interval_parts, nearly_full, recalled_figures
from roofsim.analyze.pipelines import schedule_notes
from roofsim.analyze.verdicts import FITS
from roofsim.analyze.watts import unheld_watts
from roofsim.cost.kernels.engine import host_times
from roofsim.cost.links.communication import FREE
from roofsim.graph.ops import Collective
from roofsim.spec.constants.intervals import shipped
from roofsim.spec.engine.facts import description_of, stated_names
from roofsim.spec.engine.schema import Engine, catalog_engine
from roofsim.units import humanize

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roofsim.analyze.result import Memory
    from roofsim.evaluate import Evaluation
    from roofsim.spec.resolve import Resolved


def _basis(evaluation: Evaluation) -> list[str]:
    """Say what the interval of the step time rests on, where it is less than measured runs of this card, engine and model."""
    resolved, parts, notes = evaluation.resolved, interval_parts(evaluation), []
    level = resolved.constants.level(resolved.gpu.name, resolved.gpu.architecture)
    wider = "the interval is wider for it"
    if resolved.hardware_changed:
        notes.append("the hardware was changed, so the interval is that of GPUs without measured steps")
    elif not level.startswith("gpu"):
        basis = "with the interval of unseen GPUs" if _fresh(parts) else "with the interval of measured inference"
        notes.append(f"no step on {resolved.gpu.name} was measured; the constants are {level}, {basis}")
    elif _fresh(parts):
        notes.append(f"no {resolved.workload.phase} on {resolved.gpu.name} was measured; {wider}")
    if "engine" in parts:
        notes.append(f"no {resolved.workload.phase} with {resolved.engine.name} was measured; {wider}")
    if "pair" in parts:
        slower = np.expm1(shipped().time["pair"].above)
        notes.append(
            f"no {resolved.workload.phase} with {resolved.engine.name} on {resolved.architecture.name} was measured: software "
            f"takes time to use a chip, and one pair in ten that was new so far was {slower:.0%} slower than predicted or more"
        )
    if resolved.parallel.offload.experts_at != "none" and resolved.engine.offload.layers == "computed":
        notes.append(
            "no run with experts on the host is among the measurements: its processors are priced at the share of the memory's "
            f"bandwidth that two public runs reached, {resolved.constants.physics['host_experts_efficiency']:.0%}"
        )
    figures = recalled_figures(evaluation)
    if figures:
        notes.append(f"no public source was found for {', '.join(figures)}: recalled; {wider}")
    return notes


def _fresh(parts: Mapping[str, Any]) -> bool:
    return "card" in parts or "architecture" in parts


def _unpriced(resolved: Resolved) -> list[str]:
    """Name the engine facts that the scenario overrides and that this version states, but does not price."""
    names = stated_names(Engine, resolved.workload.engine_facts)
    stated = [name for name in names if "not yet priced" in description_of(Engine, name)]
    own = catalog_engine(resolved.engine.name) if stated else None
    return [
        f"engine fact {name} is stated, but this version does not model it"
        for name in stated
        if own is not None and resolved.engine.fact(name) != own.fact(name)
    ]


def _ways_out(resolved: Resolved, memory: Memory) -> list[str]:
    """Name the engine's own choices that keep less, where a step does not fit or may not."""
    if resolved.points > 1 or memory.verdict == FITS:
        return []
    from roofsim.analyze.leaner import experts_may_move, leaner_choices

    if experts_may_move(resolved):
        where = "multiplies experts on the host, where their weights may lie"
        return [f"{resolved.engine.name} {where}: --offload experts=host keeps all others on the device"]
    choices = [f"{key}: {_written(value)}" for _, key, value in leaner_choices(resolved)]
    if not choices:
        return []
    return [f"{resolved.engine.name} keeps less with {' or '.join(choices)}; roofsim fit says what is enough"]


def _written(value: Any) -> str:
    return (
        f"{{{', '.join(f'{role}: {name}' for role, name in value.items())}}}" if isinstance(value, dict) else str(value)
    )


def _over_the_limit(evaluation: Evaluation) -> list[str]:
    """Say that a card which is held to less power lowers its clock even where the power limit slows no kernel."""
    gpu = evaluation.resolved.gpu
    if gpu.power_held == 1.0 or gpu.tdp is None or evaluation.resolved.points > 1:
        return []
    watts = unheld_watts(evaluation)
    if watts is None or float(watts) <= float(gpu.tdp):
        return []
    drawn = humanize(float(watts), "W", 3)
    return [
        f"streaming and waiting draw {drawn}, more than the limit: the card lowers its clock; roofsim power says what that costs"
    ]


def _launches_around_messages(evaluation: Evaluation) -> list[str]:
    """Say how long the host may take to launch messages that no CUDA graph holds, and the graphs behind them."""
    resolved = evaluation.resolved
    launch = resolved.engine.launch
    if launch.mode != "graphs" or launch.graph_collectives or resolved.points > 1:
        return []
    messages = sum(
        float(op.count * stage.times)
        for stage in evaluation.program.stages
        for op in stage.graph.ops
        if isinstance(op, Collective) and op.function not in FREE
    )
    if not messages or resolved.gpus == 1:
        return []
    most = humanize(2.0 * messages * float(host_times(resolved).issue), "s", 3)
    what = (
        f"the host launches {messages:g} of them and the graphs behind, up to {most} that the step time does not hold"
    )
    return [f"CUDA graphs of {resolved.engine.name} hold no collectives: {what}, where the host is not ahead"]


def warnings_of(evaluation: Evaluation, memory: Memory) -> list[str]:
    """Return what to know before a result is believed: what was not measured, not priced, or nearly full."""
    resolved = evaluation.resolved
    notes = [
        *_ways_out(resolved, memory),
        *_basis(evaluation),
        *_unpriced(resolved),
        *host_notes(evaluation, memory.off_device),
    ]
    notes += schedule_notes(evaluation)
    notes += _over_the_limit(evaluation)
    if not resolved.architecture.measured:
        notes.append(
            f"no kernel was measured on architecture {resolved.architecture.name}; its achieved fractions are assumed"
        )
    if evaluation.device.vector_rate is None:
        notes.append(f"{resolved.gpu.name} states no vector_peak.fp32: elementwise ops are priced by their bytes alone")
    if nearly_full(memory, resolved.constants.physics["nearly_full"]):
        notes.append("memory is more than 95 % full: allocator retries may slow the step, which is not modelled")
    if resolved.model.denoises and resolved.workload.phase == "forward":
        pipeline = resolved.model.traits().whole_pipeline
        whole = f"; for whole images, use model {pipeline}" if pipeline else ""
        notes.append(f"a pass of {resolved.model.name} is one denoising step, not an image{whole}")
    notes += _launches_around_messages(evaluation)
    if resolved.engine.launch.mode == "graphs":
        notes.append("CUDA graphs launch the kernels, so no host time per kernel is counted")
    return notes
