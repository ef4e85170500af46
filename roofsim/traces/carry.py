"""Carry the residuals of a recorded step over to another prediction of it, and lay it out again."""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import quantiles
from typing import TYPE_CHECKING, Any, Final

from roofsim.records import dataclass, replace
from roofsim.traces.recorded import COLLECTIVE, KERNEL, WAIT, RecordedKernel, RecordedStep
from roofsim.traces.replay import replayed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.evaluate import Evaluation
    from roofsim.traces.mapping import Mapping
    from roofsim.traces.predicted import PredictedOp

#: Stream of messages that the recorded step does not have.
_MESSAGES: Final = "added messages"
#: Runs of an op from which the spread of their residuals is told.
_SEVERAL: Final = 4


@dataclass(frozen=True, kw_only=True)
class CarriedRow:
    """An op, or a class of ops: its seconds as recorded, as predicted there and here, and as carried over.

    Attributes
    ----------
    residual
        Recorded over predicted on the hardware it ran on; None where nothing is predicted.
    spread
        Residuals of its runs that a tenth lie below, and above; None of few runs.
    interval
        80 % interval of its carried seconds; None where none is known.
    """

    name: str
    group: str
    recorded: float
    predicted: float
    predicted_there: float
    carried: float
    residual: float | None
    spread: tuple[float, float] | None = None
    interval: tuple[float, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        ends = {name: getattr(self, name) for name in ("spread", "interval")}
        return dict(self.__dict__) | {name: None if two is None else list(two) for name, two in ends.items()}


@dataclass(frozen=True, kw_only=True)
class Carried:
    """A recorded step, as it would be elsewhere.

    Attributes
    ----------
    step
        Its seconds.
    kernels
        Its kernels, at the times and for the seconds that they would have.
    classes, ops
        Rows, the longest first.
    assumed
        Share of the recorded device time that no op fits: it is scaled like what is known of its class.
    added, dropped
        Seconds of what runs there only, and of what was recorded and does not run there.
    """

    step: float
    kernels: tuple[RecordedKernel, ...]
    classes: tuple[CarriedRow, ...]
    ops: tuple[CarriedRow, ...]
    assumed: float
    added: float
    dropped: float


def carried(mapping: Mapping, there: Sequence[PredictedOp], evaluation: Evaluation) -> Carried:
    """Carry a step over to other hardware.

    Parameters
    ----------
    mapping
        The step, mapped to the ops of the prediction for where it was recorded.
    there
        The ops of the prediction for where it is carried to.
    evaluation
        That prediction as a whole.
    """
    if mapping.step.form == "roofsim":
        return _of_own(mapping, there, evaluation)
    return _Carrying(mapping, there, evaluation).run()


def with_intervals(moved: Carried, interval: tuple[float, float]) -> Carried:
    """Return a carried step whose rows have intervals, from that of the step.

    Classes of kernels err apart from each other. So that together they put the step off by ``w``, each is off by ``w / sqrt(sum of
    squared shares)``, as `roofsim.analyze.ratio` has it of kinds of time; ops err as their class does.
    """
    whole = sum(row.carried for row in moved.classes)
    shares = math.sqrt(sum((row.carried / whole) ** 2 for row in moved.classes)) if whole else 0.0
    if not shares or not moved.step:
        return moved
    low, high = ((end / moved.step) ** (1.0 / shares) for end in interval)

    def rows(given: tuple[CarriedRow, ...]) -> tuple[CarriedRow, ...]:
        return tuple(replace(row, interval=(row.carried * low, row.carried * high)) for row in given)

    return replace(moved, classes=rows(moved.classes), ops=rows(moved.ops))


class _Carrying:
    """Scales kernels, adds what runs there only, and lays the step out again."""

    def __init__(self, mapping: Mapping, there: Sequence[PredictedOp], evaluation: Evaluation) -> None:
        self.mapping, self.there, self.evaluation = mapping, there, evaluation
        self.known = {op.key: op for op in there}
        self.factors = {place: self._factor(place) for place in set(mapping.places) if place >= 0}
        self.by_class = self._class_factors()

    def _factor(self, place: int) -> float:
        ops = [self.mapping.ops[one] for one in (place, *self.mapping.parts.get(place, ()))]
        here = sum(op.seconds for op in ops)
        return sum(self.known[op.key].seconds for op in ops if op.key in self.known) / here if here else 1.0

    def _class_factors(self) -> dict[str, float]:
        """Return by how much the mapped kernels of each class change; under an empty name all but messages and copies."""
        old: dict[str, float] = defaultdict(float)
        new: dict[str, float] = defaultdict(float)
        for kernel, place, kind in zip(self.mapping.step.kernels, self.mapping.places, self.mapping.kinds, strict=True):
            if place >= 0:
                for name in (kind, "") if kernel.sort == KERNEL else (kind,):
                    old[name] += kernel.seconds
                    new[name] += kernel.seconds * self.factors[place]
        return {name: new[name] / seconds for name, seconds in old.items() if seconds}

    def run(self) -> Carried:
        """Return the step as it would be."""
        step, mapping = self.mapping.step, self.mapping
        seconds, assumed, dropped = [], 0.0, 0.0
        for kernel, place, kind in zip(step.kernels, mapping.places, mapping.kinds, strict=True):
            if place >= 0:
                factor = self.factors[place]
                dropped += kernel.seconds if factor == 0.0 else 0.0
            else:
                factor = self.by_class.get(kind, self.by_class.get("", 1.0) if kernel.sort == KERNEL else 1.0)
                assumed += kernel.seconds
            seconds.append(kernel.seconds * factor)
        more, amounts = self._added()
        whole, lasting = _merged(step, seconds, more, amounts)
        laid = replayed(whole, lasting)
        kernels = tuple(
            replace(kernel, start=start, seconds=took)
            for kernel, start, took in zip(whole.kernels, laid.starts, laid.seconds, strict=True)
        )
        return Carried(
            step=laid.step,
            kernels=kernels,
            classes=_rows(mapping, self.factors, by_class=True),
            ops=_rows(mapping, self.factors, by_class=False),
            assumed=assumed / step.busy if step.busy else 0.0,
            added=sum(amounts),
            dropped=dropped,
        )

    def _added(self) -> tuple[list[RecordedKernel], list[float]]:
        """Return what runs there only: each op behind the one before it, and the share of messages that shows among them."""
        known = {op.key for op in self.mapping.ops}
        last: dict[tuple[str | int, ...], RecordedKernel] = {}
        for kernel, place in zip(self.mapping.step.kernels, self.mapping.places, strict=True):
            if place >= 0:
                last[self.mapping.ops[place].key] = kernel
        shows, kernels, amounts = self._shows(), list[RecordedKernel](), list[float]()
        after = self.mapping.step.kernels[0]
        for op in self.there:
            after = last.get(op.key, after)
            if op.key in known or not op.seconds:
                continue
            facts = {"added": True, "op": op.name}
            for stream, share in (
                ((_MESSAGES, 1.0 - shows), (after.stream, shows)) if op.function else ((after.stream, 1.0),)
            ):
                if share > 0.0:
                    kernels.append(
                        RecordedKernel(
                            name=op.name,
                            sort=COLLECTIVE if op.function else KERNEL,
                            start=after.end,
                            seconds=0.0,
                            stream=stream,
                            phase=op.phase,
                            facts=facts,
                        )
                    )
                    amounts.append(op.seconds * share)
        return kernels, amounts

    def _shows(self) -> float:
        """Return the share of messages that shows there."""
        whole = sum(op.seconds for op in self.there if op.function)
        shown = float(self.evaluation.step.breakdown.get("exposed_communication", 0.0))
        return min(shown / whole, 1.0) if whole else 0.0


def _merged(
    step: RecordedStep, seconds: list[float], more: list[RecordedKernel], amounts: list[float]
) -> tuple[RecordedStep, list[float]]:
    """Return a step with further kernels among its own, in the order of their starts."""
    every = [*zip(step.kernels, seconds, strict=True), *zip(more, amounts, strict=True)]
    every.sort(key=lambda pair: pair[0].start)
    return replace(step, kernels=tuple(kernel for kernel, _ in every)), [amount for _, amount in every]


def _of_own(mapping: Mapping, there: Sequence[PredictedOp], evaluation: Evaluation) -> Carried:
    """Carry over a trace of roofsim's own: the timeline of there, each piece by the residual of its recorded one."""
    from roofsim.analyze.timeline import timeline

    lane = mapping.step.kernels[0].facts.get("lane")
    drawn = timeline(evaluation)
    spans = [span for span in drawn.spans if span.lane == (lane if isinstance(lane, int) else 0)]
    residuals: dict[tuple[str | int, ...], float] = {}
    for kernel, place in zip(mapping.step.kernels, mapping.places, strict=True):
        if place >= 0 and mapping.ops[place].seconds > 0.0:
            residuals[mapping.ops[place].key] = kernel.seconds / mapping.ops[place].seconds
    sorts = {"communication": COLLECTIVE, "wait": WAIT, "host": WAIT}
    pieces = [
        (
            RecordedKernel(
                name=span.name,
                sort=sorts.get(span.kind, KERNEL),
                start=span.start,
                seconds=span.seconds,
                stream=span.stream,
                phase=span.kind,
                facts=dict(span.facts),
            ),
            span.seconds * residuals.get(op.key, 1.0),
        )
        for span, op in zip(spans, there, strict=True)
    ]
    pieces.sort(key=lambda pair: pair[0].start)
    base = RecordedStep(
        source=mapping.step.source,
        form="roofsim",
        name=drawn.title,
        seconds=drawn.step,
        steps=(drawn.step,),
        kernels=tuple(kernel for kernel, _ in pieces),
    )
    laid = replayed(base, [seconds for _, seconds in pieces])
    known = {op.key: op.seconds for op in there}
    factors = {
        place: known.get(mapping.ops[place].key, 0.0) / mapping.ops[place].seconds
        if mapping.ops[place].seconds
        else 1.0
        for place in set(mapping.places)
        if place >= 0
    }
    keys = {op.key for op in mapping.ops}
    return Carried(
        step=laid.step,
        kernels=tuple(
            replace(kernel, start=start, seconds=took)
            for kernel, start, took in zip(base.kernels, laid.starts, laid.seconds, strict=True)
        ),
        classes=_rows(mapping, factors, by_class=True),
        ops=_rows(mapping, factors, by_class=False),
        assumed=1.0 - mapping.share,
        added=sum(op.seconds for op in there if op.key not in keys),
        dropped=sum(op.seconds for op in mapping.ops if op.key not in known),
    )


def _rows(mapping: Mapping, factors: dict[int, float], *, by_class: bool) -> tuple[CarriedRow, ...]:
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    members = mapping.members()
    for place in members:
        op = mapping.ops[place]
        groups[op.group if by_class else op.name, op.group].append(place)
    rows = []
    for (name, group), places in groups.items():
        recorded = {place: sum(kernel.seconds for kernel in members[place]) for place in places}
        predicted = {place: mapping.seconds(place) for place in places}
        residuals = [recorded[place] / predicted[place] for place in places if predicted[place]]
        whole, expected = sum(recorded.values()), sum(predicted.values())
        tenths = quantiles(residuals, n=10) if len(residuals) >= _SEVERAL else None
        rows.append(
            CarriedRow(
                name=name,
                group=group,
                recorded=whole,
                predicted=expected,
                predicted_there=sum(predicted[place] * factors[place] for place in places),
                carried=sum(recorded[place] * factors[place] for place in places),
                residual=whole / expected if expected else None,
                spread=None if tenths is None else (tenths[0], tenths[-1]),
            )
        )
    return tuple(sorted(rows, key=lambda row: -row.carried))
