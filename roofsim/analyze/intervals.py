"""Say how far a step time or a figure of memory may be off: 80 % intervals from the residuals of measured steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from roofsim.numeric import divide, maximum, where
from roofsim.spec.constants import inference_spreads, many_gpus, memory_spreads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roofsim.analyze.result import Memory
    from roofsim.evaluate import Evaluation
    from roofsim.numeric import Real
    from roofsim.spec.constants.inference_spreads import Regime
    from roofsim.spec.constants.kernels import Spreads
    from roofsim.spec.resolve import Resolved

#: What shares a source of error: kernels of one group err together, so their errors add linearly inside it.
GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "products": ("matmul", "weights", "attention"),
    "convolution": ("convolution",),
    "depthwise": ("depthwise", "depthwise_backward"),
    "normalization": (
        "normalization",
        "batch_normalization",
        "batch_normalization_narrow",
        "batch_normalization_last",
    ),
    "random": ("dropout", "softmax", "embedding", "gather", "sort", "scan", "loss"),
    "streams": ("elementwise", "copy", "cast", "reduction", "pooling", "pooling_backward", "resize"),
    "optimizer": ("optimizer", "optimizer_loop"),
}
_GROUP_OF: Final = {kind: group for group, kinds in GROUPS.items() for kind in kinds}


def shares(evaluation: Evaluation) -> dict[str, Any]:
    """Return the shares of a step that each group of kernels, launches and the power limit take; they sum to 1."""
    step = evaluation.step
    busy: dict[str, Real] = dict.fromkeys(GROUPS, 0.0)
    for stage, priced in zip(evaluation.program.stages, evaluation.priced, strict=True):
        for name, seconds in priced.seconds_by_class().items():
            mean = _mean(seconds) if stage.averaged else seconds
            busy[_GROUP_OF[name]] = busy[_GROUP_OF[name]] + mean * stage.times
    launch, power = step.resources["launch"] / step.step, step.resources["power"] / step.step
    kernels: Real = 0.0
    for seconds in busy.values():
        kernels = kernels + seconds
    rest = maximum(1.0 - launch - power, 0.0)
    kernel_shares = {name: divide(rest * seconds, kernels) for name, seconds in busy.items()}
    return kernel_shares | {"launch": launch, "power": power}


def _mean(seconds: Real) -> Real:
    """Return the plain mean over contexts, the last axis."""
    if isinstance(seconds, float):
        return seconds
    mean: Real = seconds.mean(axis=-1)
    return float(mean) if np.ndim(mean) == 0 else mean


def spread(parts: Mapping[str, Any], spreads: Spreads) -> Any:
    """Return the standard deviation of the logarithm of a step: linear inside a group, in quadrature across groups."""
    squares: Real = spreads.common**2
    for name, value in spreads.groups.items():
        squares = squares + (parts[name] * value) ** 2
    return squares**0.5


def interval(evaluation: Evaluation, *, crowded: Any = False) -> tuple[Any, Any] | None:
    """Return the 80 % interval of a step time, or None where the constants carry no spreads.

    `crowded` memory may cost time that nobody can foresee: the upper end lies half as far again.

    Cards whose own steps were measured have the spread of held-out steps; others that of cards left out of every fit;
    architectures without measured kernels, and phases without measured steps, half as much again.
    """
    resolved = evaluation.resolved
    step = evaluation.step.step
    served, speaks = _inference(evaluation)
    if speaks:
        return _around(step, served, served)
    table = resolved.constants.spreads
    if not table:
        return None
    seen = resolved.gpu.name in resolved.constants.gpus and not resolved.hardware_changed
    spreads = table["seen" if seen else "unseen"]
    width: Real = spreads.quantile * spread(shares(evaluation), spreads)
    if not resolved.architecture.measured or resolved.workload.phase not in ("train", "forward"):
        width = width * resolved.constants.physics["unmeasured_width"]
    if resolved.gpus > 1:
        width = maximum(width, _many_gpus(evaluation))
    width = maximum(width, served)
    return _around(step, width, width * where(crowded, resolved.constants.physics["unmeasured_width"], 1.0))


def _around(step: Real, below: Real, above: Real) -> tuple[Real, Real]:
    low, high = step * np.exp(-below), step * np.exp(above)
    return (low, high) if np.ndim(low) or np.ndim(high) else (float(low), float(high))


def nearly_full(memory: Memory, share: float) -> Any:
    """Tell whether a step that fits takes more than a share of the memory.

    Of the published runs of several GPUs predicted to be so full one in seven was 20 % slower than its neighbours, the
    others were not slow at all.
    """
    crowded = memory.device_total > share * memory.capacity
    return memory.fits & crowded


def inference_regime(evaluation: Evaluation) -> Regime | None:
    """Return the regime of inference whose measurements speak for a run; None: those of training steps do."""
    resolved = evaluation.resolved
    phase = resolved.workload.phase
    if evaluation.program.networks:
        return "pipeline"
    if phase == "forward" and "train" in resolved.engine.phases and not resolved.model.decoder_only():
        return None
    return None if phase == "train" else cast("Regime", phase)


def _inference(evaluation: Evaluation) -> tuple[float, bool]:
    """Return the half width that measured inference asks for, and whether it speaks for this engine and architecture.

    Where it does not, the interval is half as wide again, and no narrower than that of training steps.
    """
    regime, resolved, table = inference_regime(evaluation), evaluation.resolved, inference_spreads.shipped()
    if regime is None:
        return 0.0, False
    width = table.width(resolved.engine.name, regime, many=resolved.gpus > 1)
    known = regime in table.engines.get(resolved.engine.name, {}) and not resolved.hardware_changed
    known = known and (resolved.gpus == 1 or regime in table.many_gpus)
    speaks = known and resolved.architecture.name in table.architectures
    return (width, True) if speaks else (width * resolved.constants.physics["unmeasured_width"], False)


def inference_is_measured(evaluation: Evaluation) -> bool:
    """Tell whether measured inference of this engine on such cards speaks for a run, so that nothing is added for the lack."""
    return _inference(evaluation)[1]


def regime_of(phase: str) -> str:
    """Return what kind of program's memory was measured: that of training steps, or of inference."""
    return "train" if phase == "train" else "infer"


def memory_is_measured(resolved: Resolved) -> bool:
    """Tell whether the memory of some run of this engine, in this regime, was held against its prediction."""
    return resolved.engine.name in memory_spreads.shipped().engines.get(regime_of(resolved.workload.phase), ())


def _many_gpus(evaluation: Evaluation) -> float:
    """Return the half width that measured steps of several GPUs ask for; half as much again without such of card or engine."""
    resolved, table = evaluation.resolved, many_gpus.shipped()
    parallel = resolved.parallel
    splits = any(getattr(parallel, name) > 1 for name in ("tensor", "pipeline", "context", "expert"))
    width = table.model_parallel if splits else table.sharded
    known = resolved.gpu.name in table.gpus and resolved.engine.name in table.engines and not resolved.hardware_changed
    return width if known else width * resolved.constants.physics["unmeasured_width"]


def memory_intervals(memory: Memory, resolved: Resolved) -> dict[str, tuple[Any, Any]]:
    """Return the 80 % intervals, in bytes, of what is allocated, reserved and shown by the device; arrays where these are.

    Neither end of a figure lies below that of what it contains: what is reserved holds what is allocated, and that the
    parameters and the cache, whose bytes are known. Engines of which no run was measured have intervals half as wide again.
    """
    widths = memory_spreads.shipped().widths(regime_of(resolved.workload.phase))
    factor = 1.0 if memory_is_measured(resolved) else resolved.constants.physics["unmeasured_width"]
    intervals: dict[str, tuple[Any, Any]] = {}
    low = high = memory.components["parameters"] + memory.components["key_value_cache"]
    for name in memory_spreads.FIGURES:
        value, width = getattr(memory, name), float(getattr(widths, name)) * factor
        low, high = maximum(low, value * float(np.exp(-width))), maximum(high, value * float(np.exp(width)))
        intervals[name] = low, high
    return intervals
