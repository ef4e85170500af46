"""Say how much of the card's arithmetic a step uses: FLOPs by both conventions, those that kernels run, against which peak."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.evaluate import mean_over_contexts
from roofsim.graph.base import Phase
from roofsim.numeric import Real, divide, maximum, real
from roofsim.points import everywhere
from roofsim.records import dataclass
from roofsim.spec.scenario.layout import layout_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roofsim.cost.kernels.work import KernelWork
    from roofsim.cost.pricing import PricedGraph
    from roofsim.evaluate import Evaluation

#: What `model_flops` and `mfu` count of attention.
CONVENTION: Final = "of attention the scores that the mask shows"


@dataclass(frozen=True, kw_only=True)
class Utilization:
    """FLOPs of matmuls, convolutions and attention of one step, over all GPUs.

    Attributes
    ----------
    model
        Those that have to be computed: of scores what the mask shows, nothing a second time.
    usual
        The same with the masked part of causal scores, as PaLM, Megatron and MosaicML count.
    hardware
        Those that kernels run: recomputation and masked scores too, where a kernel does not skip them; fewer than the
        model's where Winograd's algorithm needs fewer than the direct convolution.
    counted
        Those of `model` without what Winograd's algorithm makes needless.
    math, stated
        The fastest number format in which a kernel of these multiplies, and its dense peak on the datasheet of one GPU.
    peak
        The same, or what the fastest of these kernels reaches where boards hold clocks above the stated one.
    seconds, gpus
        Of the step.
    """

    model: Real
    usual: Real
    hardware: Real
    counted: Real
    math: str
    stated: Real
    peak: Real
    seconds: Real
    gpus: Real

    @property
    def mfu(self) -> Real:
        """Model FLOPs, as `counted`, against what the peak allows in the time of the step."""
        return divide(self.counted, self.seconds * self.peak * self.gpus)

    @property
    def hfu(self) -> Real:
        """FLOPs that the kernels run against what the peak allows in the time of the step."""
        return divide(self.hardware, self.seconds * self.peak * self.gpus)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data: what the figures count, and FLOP/s by the convention of publications, which are no share."""
        return {
            "convention": CONVENTION,
            "math": self.math,
            "stated_peak": self.stated,
            "peak": self.peak,
            "model_flops_with_masked": self.usual,
            "flops_per_second_per_gpu": divide(self.model, self.seconds * self.gpus),
            "flops_per_second_per_gpu_with_masked": divide(self.usual, self.seconds * self.gpus),
        }


def utilization_of(evaluation: Evaluation) -> Utilization:
    """Return how much of the card's arithmetic a step uses."""
    model, hardware = flops_of(evaluation)
    math, stated = _stated(evaluation)
    counted = _summed(evaluation, "needed_flops", spared=True)
    return Utilization(
        model=model,
        usual=_summed(evaluation, "model_flops"),
        hardware=hardware,
        counted=counted,
        math=math,
        stated=stated,
        peak=maximum(stated, _reached(evaluation)),
        seconds=evaluation.step.step,
        gpus=real(evaluation.resolved.gpus),
    )


def flops_of(evaluation: Evaluation) -> tuple[Real, Real]:
    """Return the FLOPs of one step that the model asks for, and those that the hardware runs, over all GPUs."""
    model = _summed(evaluation, "needed_flops")
    return model, _summed(evaluation, "hardware_flops", again=True, spared=True)


def _summed(evaluation: Evaluation, flops: str, *, again: bool = False, spared: bool = False) -> Real:
    """Return FLOPs of one step over all GPUs: with what is computed `again`, without what kernels are `spared`, or not."""
    total: Real = 0.0
    program, layout = evaluation.program, layout_of(evaluation.resolved.parallel)
    for stage, priced in zip(program.stages, evaluation.priced, strict=True):
        # Every rank of a stage does as much; where there is no pipeline, all ranks run the same.
        times = stage.times * program.num_micro_batches * stage.positions * layout.ranks / layout.pipeline
        left, amounts = priced.left() if spared else {}, priced.amounts(flops)
        for index, op in priced.heavy:
            if again or op.phase is not Phase.RECOMPUTE:
                runs = amounts[index] * left.get(index, 1.0) * op.count
                total = total + (mean_over_contexts(runs) if stage.averaged else runs) * times
    return total


def _heavy(priced: PricedGraph) -> Iterator[tuple[int, KernelWork]]:
    """Iterate over the kernels with matrix arithmetic, with the number of their op."""
    heavy = {index for index, _ in priced.heavy}
    return ((index, work) for index, work in priced.works if index in heavy)


def _stated(evaluation: Evaluation) -> tuple[str, Real]:
    """Return the fastest number format that matrix arithmetic of the step runs in, and its dense peak on the datasheet."""
    device, math, best = evaluation.device, evaluation.resolved.precision.math, None
    for stage, priced in zip(evaluation.program.stages, evaluation.priced, strict=True):
        for _, work in _heavy(priced):
            peak = work.flop_peak
            if stage.averaged and not isinstance(peak, float):
                peak = peak.max(axis=-1)  # over its contexts
                peak = float(peak) if peak.ndim == 0 else peak
            best = peak if best is None else maximum(best, peak)
    if best is None:  # the host computes everything
        return math, device.rate(math)[0]
    return _name(evaluation, best), best


def _name(evaluation: Evaluation, peak: Real) -> str:
    """Return the number format of a peak: of several with the same that of the precision, or of integer kernels."""
    device, math = evaluation.device, evaluation.resolved.precision.math
    integer = any(priced.context.library.engine.matmul.weight_only.integer is not None for priced in evaluation.priced)
    first = [math, *(["int8"] if integer else [])]
    others = sorted({*device.tensor, *device.vector}, key=lambda name: name.endswith("_fp16"))
    rates = ((name, device.rate(name)[0]) for name in (*first, *others) if device.has(name))
    return next((name for name, rate in rates if everywhere(rate == peak)), math)


def _reached(evaluation: Evaluation) -> Real:
    """Return the FLOP/s of the fastest op with matrix arithmetic, at full clock."""
    best: Real = 0.0
    for stage, priced in zip(evaluation.program.stages, evaluation.priced, strict=True):
        left, costs, amounts = priced.left(), priced.per_op(), priced.amounts("executed_flops")
        for index in {index for index, _ in _heavy(priced)}:
            time, flops = costs[index].time, amounts[index] * left.get(index, 1.0)
            if stage.averaged:
                flops, time = mean_over_contexts(flops), mean_over_contexts(time)
            best = maximum(best, divide(flops, time))
    return best
