"""Hold a measured run beside its prediction: whether it is inside the interval, where they differ, what would explain it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.intervals import memory_intervals
from roofsim.analyze.printed import Printed, flattened
from roofsim.decide.causes import kinds_of_time
from roofsim.decide.explained import Explaining
from roofsim.decide.measured import figures_of, read_measured, read_memory
from roofsim.decide.trace_check import compared_trace, trace_figures
from roofsim.decide.whatif import Asking
from roofsim.errors import Place, Problem, SpecError
from roofsim.records import dataclass
from roofsim.spec.scenario.document import load_scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from roofsim.analyze.result import Result
    from roofsim.decide.explained import LikelyCause
    from roofsim.spec.reading.source import Document
    from roofsim.spec.scenario.workload import Scenario
    from roofsim.traces.compare import TraceComparison

SCHEMA: Final = "roofsim/check/1"
#: Figures of memory that are of one card.
ON_CARD: Final = ("memory.peak", "memory.device_total", "memory.reserved", "memory.allocated_peak")


@dataclass(frozen=True, kw_only=True)
class CheckedFigure:
    """One measured figure and its prediction, in SI units.

    Attributes
    ----------
    interval
        80 % interval of the prediction; None where none is known.
    """

    figure: str
    measured: float
    predicted: float
    interval: tuple[float, float] | None

    @property
    def inside(self) -> bool | None:
        """Whether the measurement lies inside the interval; None where there is none."""
        return None if self.interval is None else self.interval[0] <= self.measured <= self.interval[1]

    @property
    def ratio(self) -> float:
        """The measurement over the prediction."""
        return self.measured / self.predicted

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        interval = None if self.interval is None else list(self.interval)
        return dict(self.__dict__) | {"interval": interval, "inside": self.inside, "ratio": self.ratio}


@dataclass(frozen=True, kw_only=True)
class TimeShare:
    """A kind of time of a step, and how much longer it alone would have to be.

    Attributes
    ----------
    predicted
        Seconds.
    measured
        Seconds, where they were measured; else None.
    factor
        How many times as long it would have to take for the step to be as measured, all else as predicted; None where no factor
        does it, or no step was measured.
    """

    kind: str
    predicted: float
    measured: float | None
    factor: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return dict(self.__dict__)


@dataclass(frozen=True, kw_only=True, repr=False)
class Check(Printed):
    """The answer of `roofsim.check`.

    Attributes
    ----------
    result
        The prediction.
    figures
        Each measured figure beside it.
    times
        The kinds of time of the step, the longest first.
    causes
        What would explain the measurement, the likeliest first; nothing where prediction and measurement are the same.
    tried
        Scenarios that were priced to find these.
    trace
        A recorded step beside its prediction, kernel by kernel; None where no trace was given.
    notes
        What to know of the measurement.
    """

    result: Result
    figures: tuple[CheckedFigure, ...]
    times: tuple[TimeShare, ...]
    causes: tuple[LikelyCause, ...]
    tried: int
    trace: TraceComparison | None = None
    notes: tuple[str, ...] = ()

    @property
    def inside(self) -> bool | None:
        """Whether every figure that has an interval lies inside of it; None where none has."""
        known = [one.inside for one in self.figures if one.inside is not None]
        return all(known) if known else None

    @property
    def too_large(self) -> tuple[CheckedFigure, ...]:
        """Amounts of memory that were measured and are more than the card of the scenario has."""
        most = float(self.result.memory.capacity)
        return tuple(one for one in self.figures if one.figure in ON_CARD and one.measured > most)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data of schema roofsim/check/1, in SI units."""
        return {
            "schema": SCHEMA,
            "measured": {one.figure: one.measured for one in self.figures},
            "predicted": {one.figure: one.predicted for one in self.figures},
            "interval": {one.figure: None if one.interval is None else list(one.interval) for one in self.figures},
            "inside": self.inside,
            "figures": [one.to_dict() for one in self.figures],
            "times": [one.to_dict() for one in self.times],
            "causes": [one.to_dict() for one in self.causes],
            "tried": self.tried,
            "trace": None if self.trace is None else self.trace.to_dict(),
            "notes": list(self.notes),
            "too_large": [one.figure for one in self.too_large],
            "result": self.result.to_dict(),
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a flat row for each measured figure, then one for each cause."""
        rows = [{"kind": "figure", "name": one.figure, **one.to_dict()} for one in self.figures]
        rows += [{"kind": "cause", "name": one.cause, **one.to_dict()} for one in self.causes]
        if self.trace is not None:
            parts = {"class": self.trace.classes, "op": self.trace.ops, "stream": self.trace.streams}
            rows += [{"kind": kind, **row.to_dict()} for kind, own in parts.items() for row in own]
        return [flattened(row) for row in rows]


def check(
    scenario: str | Path | dict[str, Any] | Scenario,
    measured: Mapping[str, Any] | Iterable[str] = (),
    *,
    memory: str | Path | None = None,
    trace: str | Path | None = None,
    stage: str | None = None,
    **overrides: Any,
) -> Check:
    """Hold a measured run beside its prediction.

    Parameters
    ----------
    measured
        Figure -> value: ``{"step_time": "212ms", "memory.peak": "61GiB"}``; any figure of a result's step time, latency, time,
        throughput and memory. Texts with units, or numbers in SI units.
    memory
        A file of memory over time: a CSV table, or what ``nvidia-smi --query-gpu=memory.used --format=csv`` writes.
    trace
        A file that a profiler wrote: PyTorch's (``.json``, ``.json.gz``), Nsight Systems' (``.sqlite``), rocprof's (``.csv``), or
        roofsim's own. Its median step is compared kernel by kernel; its time is ``step_time``, unless that is measured otherwise.
    stage
        Of a training pipeline: the stage that the trace is of. Left out: the one that sets the pace.
    overrides
        Values of the scenario, as for `roofsim.run`.

    Returns
    -------
    Check
        Measured and predicted figures (seconds, bytes, units per second) with 80 % intervals, and the facts that would explain the
        difference, each with what the scenario predicts with it.

    Raises
    ------
    SpecError
        When the scenario is wrong, or nothing was measured that it has.
    """
    return check_document(load_scenario(scenario, overrides), measured, memory=memory, trace=trace, stage=stage)


def check_document(
    document: Document,
    measured: Mapping[str, Any] | Iterable[str],
    *,
    memory: str | Path | None = None,
    trace: str | Path | None = None,
    stage: str | None = None,
    command: str = "SCENARIO.yaml",
    origin: str = "measured",
    progress: Callable[[Sequence[Any]], Iterable[Any]] = iter,
) -> Check:
    """Answer a request that was read already; see `check`.

    Raises
    ------
    SpecError
        When the scenario is wrong, or nothing was measured that it has.
    """
    asking = Asking(document)
    known = figures_of(asking.before)
    given = read_measured(measured, known, origin)
    for figure, value in ({} if memory is None else read_memory(memory)).items():
        if figure in given:
            raise SpecError(Problem(f"{figure} is measured twice: by {origin} and in {memory}", Place(origin)))
        given[figure] = value
    notes: tuple[str, ...] = ()
    comparison = None if trace is None else compared_trace(asking.evaluation, trace, stage)
    if comparison is not None:
        figures_of_trace, notes = trace_figures(comparison, known, given)
        given |= figures_of_trace
    if not given and comparison is None:
        hint = "For example step_time=212ms, memory.peak=61GiB or throughput.tokens_per_second=9700."
        raise SpecError(Problem("expected a measured figure", Place(origin), hint=hint))
    explaining = Explaining(asking, given, command)
    intervals = _intervals(asking)
    figures = tuple(
        CheckedFigure(figure=key, measured=value, predicted=known[key], interval=intervals.get(key))
        for key, value in given.items()
    )
    causes = explaining.run(progress) if given else ()
    return Check(
        result=asking.before,
        figures=figures,
        times=_times(asking, given),
        causes=causes,
        tried=explaining.tried,
        trace=comparison,
        notes=notes,
    )


def _intervals(asking: Asking) -> dict[str, tuple[float, float]]:
    """Return the 80 % interval of each figure that has one; latencies and rates err as the step does."""
    before = asking.before
    ends: dict[str, tuple[float, float]] = {}
    if before.step_time_interval is not None:
        low, high = (float(end) / float(before.step_time) for end in before.step_time_interval)
        for key, value in figures_of(before).items():
            head = key.partition(".")[0]
            if head in ("step_time", "latency"):
                ends[key] = value * low, value * high
            elif head in ("throughput", "mfu", "hfu"):
                ends[key] = value / high, value / low
    for figure, (low, high) in memory_intervals(before.memory, asking.evaluation.resolved).items():
        ends[f"memory.{figure}"] = float(low), float(high)
    if before.memory.interval is not None:
        low, high = before.memory.interval
        ends["memory.peak"] = float(low), float(high)
    return ends


def _times(asking: Asking, measured: Mapping[str, float]) -> tuple[TimeShare, ...]:
    step = float(asking.before.step_time)
    more = None if "step_time" not in measured else measured["step_time"] - step
    shares = []
    for kind, seconds in sorted(kinds_of_time(asking.evaluation).items(), key=lambda item: -item[1]):
        if seconds > 0.0:
            factor = None if more is None or seconds + more <= 0.0 else (seconds + more) / seconds
            shares.append(TimeShare(kind=kind, predicted=seconds, measured=measured.get(f"time.{kind}"), factor=factor))
    return tuple(shares)
