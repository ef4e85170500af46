"""Map recorded kernels to predicted ops: by who launched them, class, sizes and order.

Products, convolutions and attention stand in the same order in both, so they are aligned first. Every other kernel runs between two
of them, and belongs to an op of its class that is predicted between the same two. What fits nowhere stays unmapped.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from roofsim.graph.base import Kind
from roofsim.records import dataclass
from roofsim.traces.alignment import aligned, summed, tokens_of
from roofsim.traces.classes import ANCHORS, PART_OF, class_of
from roofsim.traces.recorded import COLLECTIVE, COPY, TRANSFER, WAIT
from roofsim.traces.sizes import flops_of

if TYPE_CHECKING:
    from collections.abc import Mapping as Mapping_
    from collections.abc import Sequence

    from roofsim.traces.predicted import PredictedOp
    from roofsim.traces.recorded import RecordedKernel, RecordedStep

#: Share of the device's time that must be mapped for a verdict.
ENOUGH: Final = 0.90
_PHASES: Final = {"forward": 0, "backward": 1, "optimizer": 2}


@dataclass(frozen=True, kw_only=True)
class Mapping:
    """A recorded step, and the op that each of its kernels is.

    Attributes
    ----------
    ops
        The predicted ops, in program order.
    places
        For each kernel of the step the place of its op; -1: none.
    kinds
        The class of each kernel; empty where nothing says.
    parts
        Op -> the ops that the framework fused with it: their seconds are compared together.
    """

    step: RecordedStep
    ops: tuple[PredictedOp, ...]
    places: tuple[int, ...]
    kinds: tuple[str, ...]
    parts: Mapping_[int, tuple[int, ...]]

    def seconds(self, place: int) -> float:
        """Return the predicted seconds of an op and of those that are fused with it."""
        return sum(self.ops[one].seconds for one in (place, *self.parts.get(place, ())))

    @property
    def share(self) -> float:
        """Share of the device's time whose op is known."""
        pairs = zip(self.step.kernels, self.places, strict=True)
        known = sum(kernel.seconds for kernel, place in pairs if place >= 0 and kernel.sort != WAIT)
        return known / self.step.busy if self.step.busy else 0.0

    @property
    def heavy(self) -> float:
        """Share of products, convolutions and attention that trace and scenario have in common, by seconds of either.

        The other kernels of two models are much alike: these are not.
        """
        rows = zip(self.step.kernels, self.places, self.kinds, strict=True)
        recorded = [(one.seconds, place >= 0) for one, place, kind in rows if kind in ANCHORS]
        seen = {one for place in set(self.places) for one in (place, *self.parts.get(place, ()))}
        predicted = [(op.seconds, place in seen) for place, op in enumerate(self.ops) if op.kind in ANCHORS]
        return min(_share(recorded), _share(predicted))

    @property
    def decides(self) -> bool:
        """Whether enough is mapped for a verdict."""
        return self.share >= ENOUGH and self.heavy >= ENOUGH

    def members(self) -> dict[int, list[RecordedKernel]]:
        """Return the kernels of each op that has any."""
        by_op: dict[int, list[RecordedKernel]] = defaultdict(list)
        for kernel, place in zip(self.step.kernels, self.places, strict=True):
            if place >= 0 and kernel.sort != WAIT:
                by_op[place].append(kernel)
        return dict(by_op)


def mapped(step: RecordedStep, ops: Sequence[PredictedOp]) -> Mapping:
    """Map the kernels of a step to ops: those of `predicted_of` the step."""
    finder = _Finder(step, tuple(ops))
    places = finder.by_key() if step.form == "roofsim" else finder.by_order()
    return Mapping(step=step, ops=tuple(ops), places=tuple(places), kinds=tuple(finder.kinds), parts=finder.parts)


class _Finder:
    """One search: kernels in the order of their launches, and the ops that they may be."""

    def __init__(self, step: RecordedStep, ops: tuple[PredictedOp, ...]) -> None:
        self.kernels, self.ops = step.kernels, ops
        self.kinds = [kind_of(kernel) for kernel in step.kernels]
        self.order = sorted(range(len(self.kernels)), key=lambda place: _launch(self.kernels[place]))
        self.places = [-1] * len(self.kernels)
        self.parts: dict[int, tuple[int, ...]] = {}
        self.by_kind: dict[str, list[int]] = defaultdict(list)
        for place, op in enumerate(ops):
            self.by_kind["optimizer" if op.phase == "optimizer" and not op.function else op.kind].append(place)

    def by_key(self) -> list[int]:
        """Map the kernels of roofsim's own trace, which say which op they are."""
        known = {op.key: place for place, op in enumerate(self.ops)}
        for place, kernel in enumerate(self.kernels):
            key = kernel.facts.get("key")
            if key is not None:
                self.places[place] = known.get(key, -1)
        return self.places

    def by_order(self) -> list[int]:
        """Map the kernels of anybody's trace."""
        anchors = self._anchors()
        self._between(anchors)
        self._messages()
        self._in_turn([place for place in self.order if self.kernels[place].sort == TRANSFER], Kind.HOST_TRANSFER)
        return self.places

    # -- what orders everything else ----------------------------------------------------------------------------------

    def _anchors(self) -> list[tuple[int, int]]:
        """Map products, convolutions and attention; return their places in the order of launches and among the ops."""
        calls = self._calls()
        codes = {str(kind): number for number, kind in enumerate(sorted(ANCHORS))}
        recorded = tokens_of(
            [codes[self.kinds[members[0]]] for members in calls],
            [_flops(self.kernels[members[0]]) for members in calls],
            [_PHASES.get(self.kernels[members[0]].phase, -1) for members in calls],
        )
        chosen = [place for place, op in enumerate(self.ops) if op.kind in codes]
        predicted = tokens_of(
            [codes[self.ops[place].kind] for place in chosen],
            [self.ops[place].flops if self.ops[place].kind == Kind.MATMUL else None for place in chosen],
            [_PHASES.get(self.ops[place].phase, -1) for place in chosen],
        )
        pairs = aligned(recorded, predicted)
        matched = [([call], [target]) for call, target in enumerate(pairs.tolist()) if target >= 0]
        ranks = {place: rank for rank, place in enumerate(self.order)}
        anchors = []
        for own, targets in (*matched, *summed(recorded, predicted, pairs)):
            first, *others = (chosen[target] for target in targets)
            self.parts |= {first: tuple(others)} if others else {}
            for place in (place for call in own for place in calls[call]):
                self.places[place] = first
            anchors.append((ranks[calls[own[-1]][-1]], first))
        return sorted(anchors)

    def _calls(self) -> list[list[int]]:
        """Return the kernels of each call of a heavy operator: those that it launches together are one op."""
        calls: list[list[int]] = []
        last: tuple[int, str] = (0, "")
        for place in self.order:
            kernel, kind = self.kernels[place], self.kinds[place]
            if kind not in ANCHORS or kernel.sort in (TRANSFER, COLLECTIVE, WAIT) or kernel.phase == "optimizer":
                continue
            key = (kernel.call, kind)
            if calls and kernel.call and key == last and not _several(kernel):
                calls[-1].append(place)
            else:
                calls.append([place])
            last = key
        return calls

    # -- what runs between ----------------------------------------------------------------------------------------------

    def _between(self, anchors: list[tuple[int, int]]) -> None:
        """Map each other kernel to an op of its class between the same two anchors, or beside them."""
        at, targets = [rank for rank, _ in anchors], [target for _, target in anchors]
        counts: dict[tuple[int, str], int] = defaultdict(int)
        every = sorted(place for place, op in enumerate(self.ops) if op.kind in ANCHORS)
        for rank, place in enumerate(self.order):
            kernel, kind = self.kernels[place], self.kinds[place]
            if self.places[place] >= 0 or kernel.sort in (TRANSFER, COLLECTIVE, WAIT) or not kind:
                continue
            if kind == Kind.OPTIMIZER or kernel.phase == "optimizer":
                self.places[place] = self._update(kind)
                continue
            if kind in ANCHORS:
                continue
            before = bisect_right(at, rank) - 1
            low = targets[before] if before >= 0 else -1
            high = targets[before + 1] if before + 1 < len(targets) else len(self.ops)
            number = counts[before, kind]
            counts[before, kind] += 1
            self.places[place] = self._light(kernel, kind, low, high, number, every)

    def _update(self, kind: str) -> int:
        updates = self.by_kind["optimizer"]
        same = [place for place in updates if self.ops[place].group == kind]
        return next(iter(same or updates), -1)

    def _light(self, kernel: RecordedKernel, kind: str, low: int, high: int, number: int, anchors: list[int]) -> int:
        """Return the op that a light kernel is: of its class, else one that frameworks make of such kernels."""
        below = bisect_left(anchors, low) - 1
        above = bisect_right(anchors, high)
        wider = (
            anchors[below] if low >= 0 and below >= 0 else -1,
            anchors[above] if above < len(anchors) else len(self.ops),
        )
        for one in (kind, *PART_OF.get(Kind(kind), ())):
            for start, stop in ((low, high), wider):
                candidates = self._within(str(one), start, stop, kernel.phase)
                if candidates:
                    return candidates[min(number, len(candidates) - 1)]
        return -1

    def _within(self, kind: str, low: int, high: int, phase: str) -> list[int]:
        own = self.by_kind[kind]
        chosen = own[bisect_right(own, low) : bisect_left(own, high)]
        return [place for place in chosen if not phase or self.ops[place].phase == phase]

    # -- messages -------------------------------------------------------------------------------------------------------

    def _messages(self) -> None:
        """Map collectives: those of the same function and size in turn, the rest in turn to those of the same function."""
        recorded = [place for place in self.order if self.kernels[place].sort == COLLECTIVE]
        predicted = self.by_kind[Kind.COLLECTIVE]
        functions = {name: number for number, name in enumerate(dict.fromkeys(_sent(self.ops[p]) for p in predicted))}
        messages = [self.kernels[place].message for place in recorded]
        own = tokens_of(
            [-1 if one is None else functions.get(one.function, -1) for one in messages],
            [None if one is None else one.size for one in messages],
            [-1 for _ in messages],
        )
        theirs = tokens_of(
            [functions[_sent(self.ops[place])] for place in predicted],
            [self.ops[place].moved for place in predicted],
            [-1 for _ in predicted],
        )
        for place, target in zip(recorded, aligned(own, theirs).tolist(), strict=True):
            if target >= 0:
                self.places[place] = predicted[target]
        for function in functions:
            left = [
                place
                for place, one in zip(recorded, messages, strict=True)
                if self.places[place] < 0 and one is not None and one.function == function
            ]
            self._spread(left, [place for place in predicted if _sent(self.ops[place]) == function])

    def _in_turn(self, recorded: list[int], kind: Kind) -> None:
        self._spread(recorded, self.by_kind[str(kind)])

    def _spread(self, recorded: list[int], predicted: list[int]) -> None:
        """Map some kernels to some ops in order, where there are more or fewer of one than of the other."""
        for number, place in enumerate(recorded if predicted else []):
            self.places[place] = predicted[number * len(predicted) // len(recorded)]


def _share(seconds: Sequence[tuple[float, bool]]) -> float:
    whole = sum(one for one, _ in seconds)
    return sum(one for one, known in seconds if known) / whole if whole else 1.0


def kind_of(kernel: RecordedKernel) -> str:
    """Return the class of a kernel; empty where nothing says."""
    if kernel.sort == COLLECTIVE:
        return str(Kind.COLLECTIVE)
    if kernel.sort == TRANSFER:
        return str(Kind.HOST_TRANSFER)
    if kernel.sort == COPY:
        return str(Kind.COPY)
    kind = class_of(kernel.name, kernel.operator)
    return "" if kind is None else str(kind)


def _launch(kernel: RecordedKernel) -> tuple[float, float]:
    return (kernel.start if kernel.launched is None else kernel.launched, kernel.start)


def _flops(kernel: RecordedKernel) -> float | None:
    return flops_of(kernel.operator, kernel.dims)


def _several(kernel: RecordedKernel) -> bool:
    """Tell whether a call launches several products, of which each is an op: a backward of two gradients."""
    return kernel.operator.rpartition("::")[2] in ("convolution_backward", "cudnn_convolution_backward")


def _sent(op: PredictedOp) -> str:
    return "send_recv" if op.function in ("send", "ring") else op.function
