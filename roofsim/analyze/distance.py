"""Say how unlike the measured runs a run is: what its interval counts, term by term (hardware/constants/intervals.yaml)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.numeric import divide, maximum, minimum, real
from roofsim.records import dataclass, replace
from roofsim.spec.constants.intervals import MeasuredRuns
from roofsim.units import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roofsim.evaluate import Evaluation
    from roofsim.numeric import Real
    from roofsim.spec.constants.intervals import Intervals
    from roofsim.spec.resolve import Resolved

#: Classes of kernels whose algorithms libraries choose, and products; all others stream tensors through ordinary units.
CONVOLUTIONS: Final = ("convolution", "depthwise", "depthwise_backward")
PRODUCTS: Final = ("matmul", "weights", "attention")
#: Figure of a server under load -> its regime.
SERVED: Final = {
    "time_per_output_token": "token",
    "time_to_first_token": "first_token",
    "output_tokens_per_second": "output_rate",
    "requests_per_second": "output_rate",
}
#: Formats that the same units multiply at the same rate.
_SAME: Final = {"bf16": "fp16"}
#: Terms that err alike on all cards that run one scenario with one engine.
SHARED: Final = ("source", "version", "engine", "family", "experts")
#: What the terms of an engine's own memory are counted in.
GIBIBYTE: Final = parse("1 GiB", "B")
_NOTHING: Final = MeasuredRuns()
_MEMORY: Final = "memory of "


@dataclass(frozen=True, kw_only=True)
class RunTraits:
    """What of a run its interval depends on. Numbers may be arrays.

    Attributes
    ----------
    regime
        Kind of run that measurements are compared with: train, passes (forward under an engine that trains), prefill, decode,
        generate, forward, pipeline, a value of `SERVED`, or memory of train or infer.
    card
        Name; empty where the scenario changes its numbers.
    kernels
        Whether kernels of the architecture were measured.
    number_format
        That products are computed in.
    versioned
        Whether the scenario says how old the engine is.
    experts
        Whether the model is a mixture of experts.
    convolutions, streams
        Shares of the time of kernels.
    host
        Share of the step that the host is busy.
    communication
        Share of the step that shows communication.
    nodes
        Nodes, or domains of fast links, that the run takes.
    own
        Share of the kernels' time whose classes were measured on the card itself, at such sizes (`--calibration`).
    in_sight
        Whether whoever described the engine had runs of the same source in sight; never so of a user's run.
    """

    regime: str
    card: str
    architecture: str
    kernels: bool
    engine: str
    family: str
    number_format: str
    versioned: bool
    experts: bool
    convolutions: Real = 0.0
    streams: Real = 0.0
    host: Real = 0.0
    communication: Real = 0.0
    nodes: Real = 1.0
    own: Real = 0.0
    in_sight: bool = False


def regime_of_time(evaluation: Evaluation) -> str:
    """Return the regime whose measurements speak for a step."""
    resolved = evaluation.resolved
    if evaluation.program.networks:
        return "pipeline"
    if resolved.workload.phase == "forward" and "train" in resolved.engine.phases and not resolved.model.decoder_only():
        return "passes"
    return resolved.workload.phase


def regime_of_memory(phase: str) -> str:
    """Return what kind of program's memory was measured: that of training steps, or of inference."""
    return "train" if phase == "train" else "infer"


def traits_of(evaluation: Evaluation) -> RunTraits:
    """Return the traits of a step."""
    step, shares, own = evaluation.step, _shares(evaluation), own_kernels(evaluation)
    return replace(
        _named(evaluation.resolved, regime_of_time(evaluation)),
        convolutions=shares["convolutions"] * (1.0 - own.convolutions),
        streams=shares["streams"] * (1.0 - own.streams),
        own=own.share,
        host=0.0 if evaluation.device.deviation.launches else minimum(divide(step.host, step.step), 1.0),
        communication=divide(step.breakdown["exposed_communication"], step.step),
    )


def traits_of_server(resolved: Resolved, figure: str) -> RunTraits:
    """Return the traits of a server under load: what is asked of it is a key of `SERVED`."""
    return _named(resolved, SERVED[figure])


def traits_of_memory(resolved: Resolved) -> RunTraits:
    """Return the traits of what a run takes of the memory."""
    return _named(resolved, f"{_MEMORY}{regime_of_memory(resolved.workload.phase)}")


def _named(resolved: Resolved, regime: str) -> RunTraits:
    math = resolved.precision.math
    return RunTraits(
        regime=regime,
        card="" if resolved.hardware_changed else resolved.gpu.name,
        architecture=resolved.architecture.name,
        kernels=resolved.architecture.measured,
        engine=resolved.engine.name,
        family=resolved.model.family,
        number_format=_SAME.get(math, math),
        versioned=_says_when(resolved),
        experts=bool(resolved.model.traits().experts),
        nodes=maximum(real(resolved.gpus) / resolved.places, 1.0),
    )


def _says_when(resolved: Resolved) -> bool:
    return "@" in str(resolved.workload.engine) or resolved.engine.kernels.library_released is not None


def _shares(evaluation: Evaluation) -> dict[str, Real]:
    """Return the shares of the kernels' time that convolutions and streams take."""
    kernels: Real = 0.0
    parts: dict[str, Real] = {"convolutions": 0.0, "streams": 0.0}
    for stage, priced in zip(evaluation.program.stages, evaluation.priced, strict=True):
        for name, seconds in priced.seconds_by_class().items():
            mean = (_mean(seconds) if stage.averaged else seconds) * stage.times
            kernels = kernels + mean
            if part := _kind(name):
                parts[part] = parts[part] + mean
    return {part: divide(seconds, kernels) for part, seconds in parts.items()}


@dataclass(frozen=True, kw_only=True)
class OwnKernels:
    """How much of a step runs in kernels of classes that were measured on the card itself.

    Attributes
    ----------
    share, convolutions, streams
        Of the time of all kernels, of convolutions, and of kernels that stream.
    error
        What the measurements leave of these kernels' time, as a share of that of all, as a logarithm.
    """

    share: Real = 0.0
    convolutions: Real = 0.0
    streams: Real = 0.0
    error: Real = 0.0


def own_kernels(evaluation: Evaluation) -> OwnKernels:
    """Return how much of a step runs in kernels of classes that were measured on the card itself (`--calibration`)."""
    measured = evaluation.device.deviation.kernels
    if not measured:
        return OwnKernels()
    names = ("share", "convolutions", "streams")
    whole: dict[str, Real] = dict.fromkeys(names, 0.0)
    own: dict[str, Real] = dict.fromkeys((*names, "error"), 0.0)
    for stage, priced in zip(evaluation.program.stages, evaluation.priced, strict=True):
        for (index, work), cost in zip(priced.works, priced.prices(), strict=True):
            seconds = (cost.compute + cost.memory_bandwidth) * priced.counts[index]
            mean = (_mean(seconds) if stage.averaged else seconds) * stage.times
            known = measured.get(str(priced.graph.ops[index].group))
            kind = _kind(work.bandwidth_key)
            for name in names if kind else names[:1]:
                if name in ("share", kind):
                    whole[name] = whole[name] + mean
                    own[name] = own[name] + mean * (0.0 if known is None else known.share)
            own["error"] = own["error"] + mean * (0.0 if known is None else known.share * known.error)
    shares = {name: divide(own[name], whole[name]) for name in names}
    return OwnKernels(**shares, error=divide(own["error"], whole["share"]))


def _kind(name: str) -> str:
    """Return which of the shares of `_shares` a class of kernels counts in; products in none."""
    if name in PRODUCTS:
        return ""
    return "convolutions" if name in CONVOLUTIONS else "streams"


def _mean(seconds: Real) -> Real:
    """Return the plain mean over contexts, the last axis."""
    if isinstance(seconds, float):
        return seconds
    mean: Real = seconds.mean(axis=-1)
    return float(mean) if np.ndim(mean) == 0 else mean


def amounts(traits: RunTraits, measured: Mapping[str, MeasuredRuns]) -> dict[str, Real]:
    """Return how much of each term a run has; terms that it has nothing of are left away.

    Parameters
    ----------
    measured
        By regime what stands behind the intervals: that of the catalog, or for scores what a fold leaves of it.
    """
    known = measured.get(traits.regime, _NOTHING)
    apart: dict[str, Real] = {traits.regime: 1.0, **_novelty(traits, known)}
    if traits.experts:
        apart["experts"] = 1.0
    if not traits.in_sight:
        apart["source"] = 1.0
        if not traits.versioned:
            apart["version"] = 1.0
    for name in ("convolutions", "streams", "host", "communication"):
        share = getattr(traits, name)
        if not (isinstance(share, float) and share == 0.0):
            apart[name] = share
    if not (isinstance(traits.nodes, float) and traits.nodes == 1.0):
        apart["nodes"] = np.log10(traits.nodes)
    return apart


def _novelty(traits: RunTraits, known: MeasuredRuns) -> dict[str, Real]:
    """Return what of a run was never measured in its regime.

    An architecture that is new brings constants of others, and software that has to learn it: two errors. What is about a card's
    kernels goes with the share of them that was not measured on the card itself.
    """
    fresh: dict[str, Real] = {}
    new_chip = traits.architecture not in known.architectures
    new_engine = traits.engine not in known.engines
    if new_chip or not traits.kernels:
        fresh["architecture"] = 1.0 - traits.own
    elif traits.card not in known.cards:
        fresh["card"] = 1.0 - traits.own
    if new_engine:
        fresh["engine"] = 1.0
    elif f"{traits.engine} on {traits.architecture}" not in known.pairs:
        fresh["pair"] = 1.0
    if traits.family not in known.families:
        fresh["family"] = 1.0
    if not new_chip and f"{traits.number_format} on {traits.architecture}" not in known.formats:
        fresh["format"] = 1.0 - traits.own
    return fresh


def parts_of(apart: Mapping[str, Real], ends: Mapping[str, tuple[float, float]]) -> dict[str, tuple[Any, Any]]:
    """Return how far each term alone puts the lower and the upper end, as logarithms."""
    return {name: (amount * ends[name][0], amount * ends[name][1]) for name, amount in apart.items() if name in ends}


def spread(parts: Mapping[str, tuple[Any, Any]]) -> tuple[Any, Any]:
    """Return how far all terms put both ends: they err apart from each other, so they add in quadrature."""
    below: Real = 0.0
    above: Real = 0.0
    for low, high in parts.values():
        below, above = below + low**2, above + high**2
    return below**0.5, above**0.5


def apart_from(
    parts: Mapping[str, tuple[Any, Any]], others: Mapping[str, tuple[Any, Any]]
) -> dict[str, tuple[Any, Any]]:
    """Return the terms of a run without those that err alike in another: they cancel in the ratio of both."""
    return {name: ends for name, ends in parts.items() if name not in SHARED or others.get(name) != ends}


def time_amounts(traits: RunTraits, intervals: Intervals) -> dict[str, Real]:
    """Return how much of each term a time has, beside all that was measured."""
    return amounts(traits, intervals.measured)


def memory_amounts(
    traits: RunTraits, figure: str, predicted: Real, measured: Mapping[str, MeasuredRuns]
) -> dict[str, Real]:
    """Return how much of each term a figure of memory has: what a tensor takes depends on neither card nor model.

    What an engine keeps beside tensors (contexts, libraries, buffers of collectives) has a size of its own, so the less is
    predicted, bytes, the more it may matter.
    """
    known = measured.get(traits.regime, _NOTHING)
    apart: dict[str, Real] = {f"{traits.regime.removeprefix(_MEMORY)}_{figure}": 1.0}
    if traits.engine not in known.engines:
        apart[f"engine_{figure}"] = np.log1p(divide(GIBIBYTE, predicted))
    if not traits.in_sight:
        apart["source"] = 1.0
    return apart


def memory_parts(traits: RunTraits, figure: str, predicted: Real, intervals: Intervals) -> dict[str, tuple[Any, Any]]:
    """Return how far each term alone puts the ends of a figure of memory that was predicted, bytes."""
    return parts_of(memory_amounts(traits, figure, predicted, intervals.measured), intervals.ends("memory"))
