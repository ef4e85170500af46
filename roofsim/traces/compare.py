"""Compare a recorded step with its prediction: by class of op, op, layer and stream; gaps, messages that show, and why."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from roofsim.records import dataclass
from roofsim.traces.idle import GAPS, exposed, gaps_of
from roofsim.traces.reasons import clock_factor, reason
from roofsim.traces.recorded import COLLECTIVE, TRANSFER, WAIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from roofsim.traces.mapping import Mapping
    from roofsim.traces.predicted import PredictedOp
    from roofsim.traces.recorded import RecordedKernel

#: Version of what `to_dict` returns.
SCHEMA: Final = "roofsim/trace-check/1"
#: Names of kernels that are listed of those that no op fits.
_UNMAPPED: Final = 12
#: Share of measured seconds up to which a difference is rounding.
_ROUNDING: Final = 1e-5


@dataclass(frozen=True, kw_only=True)
class ComparedRow:
    """Kernels of a step that belong together, beside their prediction, in seconds.

    Attributes
    ----------
    runs
        Ops that were seen.
    kernels
        Kernels that they took.
    roofline
        The least that the datasheet's rates allow; 0 where there is none.
    gap
        In which the device waited for the launch of one of them.
    cause, why
        Why it is slower than predicted, in a word (of `roofsim.traces.reasons.CAUSES`) and in a sentence; empty where it is not.
    """

    name: str
    group: str = ""
    phase: str = ""
    layer: str = ""
    runs: int
    kernels: int
    measured: float
    predicted: float
    roofline: float
    gap: float = 0.0
    cause: str = ""
    why: str = ""

    @property
    def ratio(self) -> float | None:
        """Measured over predicted; None where nothing is predicted."""
        return self.measured / self.predicted if self.predicted else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return dict(self.__dict__) | {"ratio": self.ratio, "difference": self.measured - self.predicted}


@dataclass(frozen=True, kw_only=True)
class TraceComparison:
    """A recorded step beside its prediction.

    Attributes
    ----------
    mapping
        Which kernel is which op.
    classes, ops, layers, streams
        Rows, those that differ most first.
    gaps
        Reason (of `roofsim.traces.idle.GAPS`) -> seconds in which the device did nothing.
    exposed, predicted_exposed
        Seconds in which messages show: recorded, and predicted.
    copies
        Seconds in which copies to and from the host show.
    unmapped
        Name of a kernel -> seconds, of what fits no op.
    unseen
        Op -> predicted seconds, of what was not recorded.
    remarks
        What is true of the whole step, and where it contradicts the scenario.
    """

    mapping: Mapping
    step_time: float
    classes: tuple[ComparedRow, ...]
    ops: tuple[ComparedRow, ...]
    layers: tuple[ComparedRow, ...]
    streams: tuple[ComparedRow, ...]
    gaps: dict[str, float]
    exposed: float
    predicted_exposed: float
    copies: float
    unmapped: dict[str, float]
    unseen: dict[str, float]
    remarks: tuple[str, ...] = ()

    @property
    def decides(self) -> bool:
        """Whether enough of the device's time is mapped for a verdict."""
        return self.mapping.decides

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, in SI units."""
        step = self.mapping.step
        return {
            "schema": SCHEMA,
            "source": step.source,
            "form": step.form,
            "step": step.name,
            "step_time": step.seconds,
            "steps": list(step.steps),
            "device": step.card,
            "mapped": self.mapping.share,
            "products_in_common": self.mapping.heavy,
            "verdict": self.decides,
            "busy": step.busy,
            "predicted_step_time": self.step_time,
            "classes": [row.to_dict() for row in self.classes],
            "ops": [row.to_dict() for row in self.ops],
            "layers": [row.to_dict() for row in self.layers],
            "streams": [row.to_dict() for row in self.streams],
            "gaps": self.gaps,
            "exposed_communication": {"measured": self.exposed, "predicted": self.predicted_exposed},
            "exposed_copies": self.copies,
            "unmapped": self.unmapped,
            "unseen": self.unseen,
            "remarks": list(self.remarks),
        }


def compared(
    mapping: Mapping, *, step_time: float, exposed_communication: float, remarks: Iterable[str] = ()
) -> TraceComparison:
    """Compare a mapped step with what is predicted of the whole: seconds of the step, and of communication that shows."""
    step, gaps = mapping.step, gaps_of(mapping.step)
    before: dict[int, float] = {}
    by_reason: dict[str, float] = dict.fromkeys(GAPS, 0.0)
    for gap in gaps:
        by_reason[gap.why] += gap.seconds
        if gap.before is not None and gap.why in ("launch", "synchronization"):
            before[gap.before] = gap.seconds
    clock = clock_factor(mapping)
    rows = _RowMaker(mapping, before, clock)
    ops = rows.by(lambda op: (op.name, op.group, op.phase, op.layer.partition("[")[0]), reasons=True)
    return TraceComparison(
        mapping=mapping,
        step_time=step_time,
        classes=(*rows.by(lambda op: (op.group, op.group, "", "")), *rows.of_unmapped()),
        ops=ops,
        layers=rows.by(lambda op: (op.layer, "", "", op.layer)),
        streams=rows.by_stream(),
        gaps={name: seconds for name, seconds in by_reason.items() if seconds > 0.0},
        exposed=exposed(step, COLLECTIVE),
        predicted_exposed=exposed_communication,
        copies=exposed(step, TRANSFER),
        unmapped=_unmapped(mapping),
        unseen=_unseen(mapping),
        remarks=(*remarks, *_of_clock(clock)),
    )


_CLOCK: Final = "lower clocks than assumed, by a cap, power or heat (nvidia-smi -q -d CLOCK,PERFORMANCE)"


def _of_clock(clock: float | None) -> tuple[str, ...]:
    return () if clock is None else (f"products take {clock:.2f} times as long as predicted, all alike: {_CLOCK}",)


class _RowMaker:
    """Groups ops with their kernels."""

    def __init__(self, mapping: Mapping, gaps: dict[int, float], clock: float | None) -> None:
        self.mapping, self.clock = mapping, clock
        self.members: dict[int, list[RecordedKernel]] = mapping.members()
        self.gaps: dict[int, float] = defaultdict(float)
        for place, seconds in gaps.items():
            if mapping.places[place] >= 0:
                self.gaps[mapping.places[place]] += seconds

    def by(self, key: Callable[[PredictedOp], tuple[str, ...]], *, reasons: bool = False) -> tuple[ComparedRow, ...]:
        """Return a row for each key of ops that were seen, those that differ most first."""
        groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for place in self.members:
            groups[key(self.mapping.ops[place])].append(place)
        rows = [self._row(names, places, reasons=reasons) for names, places in groups.items()]
        return tuple(sorted(rows, key=_differs))

    def _row(self, names: tuple[str, ...], places: list[int], *, reasons: bool) -> ComparedRow:
        kernels = [one for place in places for one in self.members[place]]
        ops = self._with_parts(places)
        measured, predicted = sum(one.seconds for one in kernels), sum(op.seconds for op in ops)
        gap = sum(self.gaps[place] for place in places)
        step, clock = self.mapping.step, self.clock
        cause, why = reason(kernels, ops, step, gap=gap, clock=clock) if reasons else ("", "")
        name, group, phase, layer = names
        return ComparedRow(
            name=name,
            group=group,
            phase=phase,
            layer=layer,
            runs=len(places),
            kernels=len(kernels),
            measured=measured,
            predicted=predicted,
            roofline=sum(op.roofline for op in ops),
            gap=gap,
            cause=cause,
            why=why,
        )

    def _with_parts(self, places: Iterable[int]) -> list[PredictedOp]:
        mapping = self.mapping
        return [mapping.ops[one] for place in places for one in (place, *mapping.parts.get(place, ()))]

    def of_unmapped(self) -> list[ComparedRow]:
        """Return a row for what fits no op."""
        own = [
            kernel
            for kernel, place in zip(self.mapping.step.kernels, self.mapping.places, strict=True)
            if place < 0 and kernel.sort != WAIT
        ]
        if not own:
            return []
        seconds = sum(one.seconds for one in own)
        why = "no op of the scenario fits these kernels"
        return [
            ComparedRow(
                name="(not mapped)", runs=0, kernels=len(own), measured=seconds, predicted=0.0, roofline=0.0, why=why
            )
        ]

    def by_stream(self) -> tuple[ComparedRow, ...]:
        """Return a row for each stream: what ran on it, and what is predicted of the same ops."""
        step, mapping = self.mapping.step, self.mapping
        streams: dict[str, list[int]] = defaultdict(list)
        for place, kernel in enumerate(step.kernels):
            if kernel.sort != WAIT:
                streams[kernel.stream].append(place)
        rows, told = [], set[int]()
        for stream, places in streams.items():
            seconds: dict[str, float] = defaultdict(float)
            for place in places:
                seconds[mapping.kinds[place] or "unknown"] += step.kernels[place].seconds
            ops = dict.fromkeys(mapping.places[place] for place in places if mapping.places[place] >= 0)
            new = [place for place in ops if place not in told]
            told.update(new)
            mostly = max(seconds, key=lambda kind: seconds[kind])
            rows.append(
                ComparedRow(
                    name=stream,
                    group=mostly,
                    runs=len(new),
                    kernels=len(places),
                    measured=sum(step.kernels[place].seconds for place in places),
                    predicted=sum(mapping.seconds(place) for place in new),
                    roofline=sum(op.roofline for op in self._with_parts(new)),
                )
            )
        return tuple(sorted(rows, key=lambda row: -row.measured))


def _differs(row: ComparedRow) -> tuple[float, float]:
    """Order rows by their difference; those that are as predicted by their seconds."""
    difference = abs(row.measured - row.predicted)
    return -difference if difference > _ROUNDING * row.measured else 0.0, -row.measured


def _unmapped(mapping: Mapping) -> dict[str, float]:
    seconds: dict[str, float] = defaultdict(float)
    for kernel, place in zip(mapping.step.kernels, mapping.places, strict=True):
        if place < 0 and kernel.sort != WAIT:
            sizes = "x".join(str(list(one)) for one in kernel.dims if one)
            seconds[f"{kernel.operator or kernel.name[:60]} {sizes}".strip()] += kernel.seconds
    ordered = sorted(seconds.items(), key=lambda item: -item[1])
    return dict(ordered[:_UNMAPPED])


def _unseen(mapping: Mapping) -> dict[str, float]:
    seen = {one for place in set(mapping.places) for one in (place, *mapping.parts.get(place, ()))}
    seconds: dict[str, float] = defaultdict(float)
    for place, op in enumerate(mapping.ops):
        if place not in seen and op.seconds > 0.0:
            seconds[op.name] += op.seconds
    return dict(sorted(seconds.items(), key=lambda item: -item[1]))
