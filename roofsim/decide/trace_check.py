"""Compare a recorded step with a scenario, and say which measured figures it stands for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from roofsim.traces.compare import TraceComparison, compared
from roofsim.traces.mapping import ENOUGH, Mapping, mapped
from roofsim.traces.predicted import predicted_of
from roofsim.traces.read import read_trace

if TYPE_CHECKING:
    from collections.abc import Mapping as Mapping_
    from pathlib import Path

    from roofsim.evaluate import Evaluation
    from roofsim.spec.hardware.schema import Gpu
    from roofsim.traces.recorded import RecordedStep

_STEP: Final = "step_time"
_EXPOSED: Final = "time.exposed_communication"


def compared_trace(evaluation: Evaluation, path: str | Path, stage: str | None = None) -> TraceComparison:
    """Read a trace and compare its median step with the prediction.

    Raises
    ------
    SpecError
        For a file that is no trace, and a stage that the scenario does not have.
    """
    step = read_trace(path)
    mapping = mapped(step, predicted_of(step, evaluation, stage))
    step_time = float(evaluation.step.step)
    shows = float(evaluation.step.breakdown.get("exposed_communication", 0.0))
    return compared(mapping, step_time=step_time, exposed_communication=shows, remarks=contradictions(step, evaluation))


def trace_figures(
    comparison: TraceComparison, known: Mapping_[str, float], given: Mapping_[str, float]
) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return the figures that a trace measures and nobody else did, and what to know of them.

    A trace of which too little is mapped measures nothing: it may be of something else.
    """
    step = comparison.mapping.step
    if not comparison.decides:
        return {}, (
            f"{no_verdict(comparison.mapping)}; the trace seems to be of another model, of other sizes, or run otherwise",
        )
    figures, notes = {}, []
    if _STEP in given:
        notes.append(
            f"the trace's own step took {step.seconds:.4g} s, with the profiler on; step_time as it was given counts"
        )
    else:
        figures[_STEP] = step.seconds
    if comparison.exposed > 0.0 and known.get(_EXPOSED, 0.0) > 0.0 and _EXPOSED not in given:
        figures[_EXPOSED] = comparison.exposed
    return figures, tuple(notes)


def no_verdict(mapping: Mapping, *, alone: bool = False) -> str:
    """Say that too little of a trace is mapped; `alone`: to what its own calls say."""
    share, heavy, least = (f"{100.0 * part:.1f} %" for part in (mapping.share, mapping.heavy, ENOUGH))
    if alone:
        what = f"{share} of the device's time, and {heavy} of that of products and attention"
        return f"No verdict: the trace says the work of {what}; {least} of both are needed"
    if mapping.share >= ENOUGH:
        return (
            f"No verdict: trace and scenario have {heavy} of their products and attention in common, less than {least}"
        )
    return f"No verdict: {share} of the device's time could be mapped to ops of the scenario, less than {least}"


def contradictions(step: RecordedStep, evaluation: Evaluation) -> tuple[str, ...]:
    """Say where trace and scenario contradict each other: the card, the number of ranks."""
    resolved, said = evaluation.resolved, []
    if step.card and not is_named(resolved.gpu, step.card):
        said.append(f"the trace ran on {step.card!r}; the scenario says {resolved.gpu.name}")
    if step.ranks and step.ranks != resolved.gpus:
        said.append(f"the trace is of a job of {step.ranks} ranks; the scenario has {resolved.gpus} GPUs")
    return (*said, *step.notes)


def is_named(gpu: Gpu, name: str) -> bool:
    """Tell whether what a driver calls a card can be this one: the digits of its model are those of the card's name.

    >>> from types import SimpleNamespace
    >>> is_named(SimpleNamespace(name="a100-sxm4-80gb"), "NVIDIA A100-SXM4-80GB")
    True
    >>> is_named(SimpleNamespace(name="rtx4090"), "NVIDIA H100 80GB HBM3")
    False
    """
    words = re.findall(r"[a-z]*\d+[a-z]*", name.lower())
    models = [word for word in words if not re.fullmatch(r"\d+gb|hbm\d\w*|sxm\d?|\d", word)]
    own = re.sub(r"[^a-z0-9]", "", gpu.name.lower())
    return not models or any(word in own for word in models)
