"""Hold the practitioners' formula for a target beside the prediction, and say why they differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.decide.resources import needed
from roofsim.graph.tensor import DTYPES
from roofsim.numeric import real
from roofsim.records import dataclass
from roofsim.units import binary_bytes, count, percent

if TYPE_CHECKING:
    from roofsim.analyze.result import Result
    from roofsim.evaluate import Evaluation


@dataclass(frozen=True, kw_only=True)
class RuleOfThumb:
    """A formula that people use, what it asks of one card, and what the prediction does.

    Attributes
    ----------
    formula
        In words.
    resource, unit
        Of which it says how much is needed.
    value, ours
        That figure by the formula, and by the prediction; None where no amount is enough.
    reasons
        Why they differ.
    """

    formula: str
    resource: str
    unit: str
    value: float
    ours: float | None
    reasons: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return dict(self.__dict__) | {"reasons": list(self.reasons)}


def rule_of_thumb(evaluation: Evaluation, now: Result, allowed: float) -> RuleOfThumb | None:
    """Return the formula for a decode step (parameter bytes x 2 x batch / time), or for others (FLOPs / time).

    Parameters
    ----------
    allowed
        Seconds that a step may take.

    Returns
    -------
    RuleOfThumb or None
        None where the card states no such figure.
    """
    return (
        _of_bytes(evaluation, now, allowed)
        if evaluation.resolved.workload.phase == "decode"
        else _of_flops(evaluation, now, allowed)
    )


def _of_bytes(evaluation: Evaluation, now: Result, allowed: float) -> RuleOfThumb:
    resolved = evaluation.resolved
    batch = float(real(resolved.workload.micro_batch_size or 1))
    stated = (
        float(now.parameters["total"]) * float(DTYPES[resolved.precision.parameters].itemsize) / float(resolved.gpus)
    )
    alone = needed(evaluation, "memory_bandwidth", allowed)
    cache = float(now.memory.components["key_value_cache"])
    share = float(evaluation.step.resources["memory_bandwidth"]) / float(evaluation.step.step)
    return RuleOfThumb(
        formula="parameter bytes x 2 x batch / time",
        resource="memory_bandwidth",
        unit="B/s",
        value=stated * 2.0 * batch / allowed,
        ours=None if alone.factor is None else alone.factor * float(resolved.gpu.memory.bandwidth),
        reasons=(
            f"it moves the parameters twice for each of {count(batch)} sequences; a step reads them once for all",
            f"it leaves out the key-value cache ({binary_bytes(cache)}) and what kernels reach of the datasheet's bandwidth",
            f"only {percent(share)} of the step waits for memory bandwidth",
        ),
    )


def _of_flops(evaluation: Evaluation, now: Result, allowed: float) -> RuleOfThumb | None:
    resolved = evaluation.resolved
    peak = resolved.gpu.peak.get(resolved.precision.math)
    if peak is None:
        return None
    alone = needed(evaluation, "tensor_flops", allowed)
    share = float(evaluation.step.resources["compute"]) / float(evaluation.step.step)
    return RuleOfThumb(
        formula="FLOPs / time",
        resource="tensor_flops",
        unit="FLOP/s",
        value=float(now.model_flops) / allowed / resolved.gpus,
        ours=None if alone.factor is None else alone.factor * float(peak),
        reasons=(
            f"it takes matrix units for always busy at their peak; this step reaches {percent(float(now.mfu))} of it",
            f"only {percent(share)} of the step waits for arithmetic, so faster units shorten that part alone",
        ),
    )
