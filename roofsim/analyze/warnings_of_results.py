"""Say what to know before a result is believed: what its interval rests on, what is not priced, what is nearly full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.analyze.host import host_notes
from roofsim.analyze.intervals import inference_is_measured, nearly_full
from roofsim.analyze.pipelines import schedule_notes
from roofsim.spec.constants import many_gpus
from roofsim.spec.engine.facts import description_of, stated_names
from roofsim.spec.engine.schema import Engine, catalog_engine

if TYPE_CHECKING:
    from roofsim.analyze.result import Memory
    from roofsim.evaluate import Evaluation
    from roofsim.spec.resolve import Resolved


def _basis(evaluation: Evaluation) -> list[str]:
    """Say what the interval of the step time rests on, where it is less than measured steps of this card."""
    resolved, served, notes = evaluation.resolved, inference_is_measured(evaluation), []
    level = resolved.constants.level(resolved.gpu.name, resolved.gpu.architecture)
    if resolved.hardware_changed:
        notes.append("the hardware was changed, so the interval is that of GPUs without measured steps")
    elif not level.startswith("gpu"):
        width = ", with the interval of measured inference" if served else ", with the interval of unseen GPUs"
        notes.append(f"no step on {resolved.gpu.name} was measured; the constants are {level}{width}")
    table = many_gpus.shipped()
    known = resolved.gpu.name in table.gpus and resolved.engine.name in table.engines
    if resolved.gpus > 1 and resolved.workload.phase == "train" and not known:
        notes.append(
            f"no step of {resolved.engine.name} on several {resolved.gpu.name} was measured; the interval is 1.5 times "
            "as wide as that of measured GPUs and engines"
        )
    if resolved.workload.phase not in ("train", "forward") and not served:
        notes.append(
            f"too few runs of {resolved.workload.phase} with {resolved.engine.name} on such GPUs were measured; the "
            "interval is 1.5 times as wide as the measurements alone suggest"
        )
    return notes


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


def warnings_of(evaluation: Evaluation, memory: Memory) -> list[str]:
    """Return what to know before a result is believed: what was not measured, not priced, or nearly full."""
    resolved = evaluation.resolved
    notes = [*_basis(evaluation), *_unpriced(resolved), *host_notes(evaluation, memory.off_device)]
    notes += schedule_notes(evaluation)
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
    if resolved.engine.launch.mode == "graphs":
        notes.append("CUDA graphs launch the kernels, so no host time per kernel is counted")
    return notes
