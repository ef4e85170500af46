"""Find the layers of a captured program that repeat, so that each kind of layer stands in the graph once."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from roofsim.importers.captured.form import Capture, CapturedOp


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """A run of ops that repeats: `count` times `period` ops from `start` on.

    `carries`: number of the tensor that enters the first iteration -> that of the one that leaves it, for what each hands to the
    next. `last`: number of a tensor of the last iteration -> that of the first one's twin.
    """

    name: str
    start: int
    period: int
    count: int
    carries: dict[int, int]
    last: dict[int, int]

    @property
    def stop(self) -> int:
        """Where the op behind it is."""
        return self.start + self.period * self.count


def repeats(capture: Capture, chosen: Sequence[int], splits: Mapping[int, Hashable] | None = None) -> list[Repeat]:
    """Return what repeats among the ops of a program that are chosen, in order; positions are those in `chosen`.

    `splits` says how ranks divide tensors: what repeats is divided alike.
    """
    return list(_Folder(capture, [capture.ops[at] for at in chosen], splits or {}).within(0, len(chosen), 0))


class _Folder:
    def __init__(self, capture: Capture, ops: Sequence[CapturedOp], splits: Mapping[int, Hashable]) -> None:
        self.capture = capture
        self.splits = splits
        self.ops = ops
        self.paths = [_levels(op.module) for op in ops]
        self.maker = {number: at for at, op in enumerate(ops) for number in op.makes}
        self.readers: dict[int, int] = {}
        for at, op in enumerate(ops):
            for number in op.reads:
                self.readers[number] = at
        beyond = [*capture.outputs, *([] if capture.loss is None else [capture.loss])]
        self.readers.update(dict.fromkeys(beyond, len(ops)))
        self.shown: dict[int, list[int]] = defaultdict(list)

    def within(self, start: int, stop: int, level: int) -> Iterator[Repeat]:
        """Yield what repeats between two positions, outermost lists of modules first."""
        runs = list(self._runs(start, stop, level))
        at = 0
        while at < len(runs):
            first, last, key = runs[at]
            if key is None:
                at += 1
                continue
            repeat = self._longest(runs, at)
            if repeat is None:
                yield from self.within(first, last, level + 1)
                at += 1
            else:
                yield repeat
                at += repeat.count

    def _runs(self, start: int, stop: int, level: int) -> Iterator[tuple[int, int, tuple[str, int] | None]]:
        """Yield runs of ops of one item of a list of modules (its path and index), or of none."""
        begin = start
        for at in range(start, stop + 1):
            here = self._key(at, level) if at < stop else None
            if at == stop or here != self._key(begin, level):
                if at > begin:
                    yield begin, at, self._key(begin, level)
                begin = at

    def _key(self, at: int, level: int) -> tuple[str, int] | None:
        levels = self.paths[at]
        return levels[level] if level < len(levels) else None

    def _longest(self, runs: Sequence[Any], at: int) -> Repeat | None:
        """Return the longest repetition that begins with a run; None: there is none of two."""
        first, last, key = runs[at]
        period, count = last - first, 1
        for start, stop, (*other,) in ((s, e, k or ("", -1)) for s, e, k in runs[at + 1 :]):
            if stop - start != period or start != first + count * period or other[0] != key[0]:
                break
            count += 1
        form = self._form(first, period)
        alike = 1
        while alike < count and self._form(first + alike * period, period) == form:
            alike += 1
        return self._folded(key[0], first, period, alike) if alike > 1 else None

    def _form(self, start: int, period: int) -> Hashable:
        """Return what equal iterations have in common: ops, sizes, and which of them reads what of which."""
        names: dict[int, Hashable] = {}
        form: list[Hashable] = []
        for at in range(start, start + period):
            op = self.ops[at]
            reads = tuple(names.setdefault(number, self._outer(number, len(names))) for number in op.reads)
            made = []
            for place, number in enumerate(op.makes):
                tensor = self.capture.tensors[number]
                base = (
                    None if tensor.base is None else names.setdefault(tensor.base, self._outer(tensor.base, len(names)))
                )
                names[number] = ("made", at - start, place)
                made.append((tensor.shape, tensor.dtype, base, self.splits.get(number)))
            given = tuple(sorted((key, repr(value)) for key, value in op.given.items()))
            # Of what is held only what the iteration made itself: what its caller hands on is held by that.
            held = tuple(
                names[number] for number in op.holds if self.maker.get(number, -1) >= start and number in names
            )
            form.append((op.op, op.writes, given, reads, tuple(made), held))
        return tuple(form)

    def _outer(self, number: int, place: int) -> Hashable:
        tensor = self.capture.tensors[number]
        return tensor.role, tensor.shape, tensor.dtype, tensor.trained, place, self.splits.get(number)

    def _folded(self, name: str, start: int, period: int, count: int) -> Repeat | None:
        """Return a repetition of so many iterations, or the most of them that hand on what they read; None: fewer than two."""
        outer = [self._outer_reads(start + index * period, period) for index in range(count)]
        carries: dict[int, int] = {}
        for place, number in enumerate(outer[0]):
            handed = self._handed(number, place, outer, start, period)
            if handed is None:
                return None
            if handed >= 0:
                carries[number] = handed
        if not self._stays_inside(start, period, count, carries):
            return None
        shift = period * (count - 1)
        last = {
            mine: own
            for at in range(start, start + period)
            for own, mine in zip(self.ops[at].makes, self.ops[at + shift].makes, strict=True)
        }
        return Repeat(name=name, start=start, period=period, count=count, carries=carries, last=last)

    def _outer_reads(self, start: int, period: int) -> list[int]:
        """Return the tensors that an iteration reads, or shows, and does not make, in order."""
        made: set[int] = set()
        outer: dict[int, None] = {}
        for at in range(start, start + period):
            op = self.ops[at]
            bases = [self.capture.tensors[number].base for number in op.makes]
            for number in (*op.reads, *(base for base in bases if base is not None)):
                if number not in made:
                    outer.setdefault(number)
            made.update(op.makes)
        return list(outer)

    def _handed(self, number: int, place: int, outer: list[list[int]], start: int, period: int) -> int | None:
        """Return what of an iteration the next one reads in the place of a tensor; -1: the same tensor, or one of its own."""
        each = [reads[place] if place < len(reads) else None for reads in outer]
        if all(other == number for other in each):
            return -1
        if None in each:
            return None
        tensor = self.capture.tensors[number]
        if tensor.role != "activation":
            return -1 if len(set(each)) == len(each) else None
        leaving: set[tuple[int, int]] = set()
        for index, other in enumerate(each[1:], 1):
            at = self.maker.get(other, -1) if other is not None else -1
            if not start + (index - 1) * period <= at < start + index * period:
                return None
            leaving.add((at - start - (index - 1) * period, self.ops[at].makes.index(other)))
        if len(leaving) != 1:
            return None
        ((offset, output),) = leaving
        return self.ops[start + offset].makes[output]

    def _stays_inside(self, start: int, period: int, count: int, carries: dict[int, int]) -> bool:
        """Tell whether nothing behind an iteration reads what it made, but for the next one what is handed to it."""
        handed = {
            (self.maker[leaving] - start, self.ops[self.maker[leaving]].makes.index(leaving))
            for leaving in carries.values()
        }
        for at in range(start, start + period * (count - 1)):
            end = start + ((at - start) // period + 1) * period
            for place, number in enumerate(self.ops[at].makes):
                until = self.readers.get(number, -1)
                reach = end + period if ((at - start) % period, place) in handed else end
                if until >= reach:
                    return False
        return True


def _levels(path: str) -> list[tuple[str, int]]:
    """Return the lists of modules that a path goes through, outermost first, each with the index in it.

    >>> _levels("layers.0.blocks.1.mlp")
    [('layers', 0), ('layers.0.blocks', 1)]
    """
    parts = path.split(".")
    return [(".".join(parts[:at]), int(part)) for at, part in enumerate(parts) if part.isdecimal() and len(part) < 9]
