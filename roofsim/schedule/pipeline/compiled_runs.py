"""Run the work of a pipeline in machine code, where llvmlite is installed (extra ``roofsim[fast]``).

A schedule is a recurrence over pieces of work, each of which waits for two others: nothing for arrays to do at once, and slow as
plain Python. These loops do the same sums and comparisons in the same order, so that results are the same to the last bit; they are
compiled once somebody has run so much that it pays.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

#: Pieces of work, times columns, that are run by Python before the loops are compiled, which takes as long.
FROM: Final = 100_000


#: Of pieces of work: whose result each takes, and what its stage did before (the number of pieces for none); 1 where a result comes
#: from another stage; which of the durations each takes.
WorkPieces = tuple["NDArray[np.intp]", "NDArray[np.intp]", "NDArray[np.float64]", "NDArray[np.intp]"]


@dataclass(frozen=True)
class CompiledRuns:
    """Loops over pieces of work.

    Attributes
    ----------
    engine
        What holds the machine code.
    """

    engine: Any
    _ends: Any
    _path: Any
    _levels: Any

    def ends(self, work: WorkPieces, durations: NDArray[np.float64], delay: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return when each piece ends; one row more, of zeros, for nothing to wait for.

        Parameters
        ----------
        durations
            Finite seconds: (rows, columns).
        delay
            Seconds of a message: (columns,).
        """
        pieces, columns = len(work[0]), durations.shape[1]
        end = np.zeros((pieces + 1, columns))
        given = np.ascontiguousarray(durations), np.ascontiguousarray(delay, dtype=np.float64), end
        self._ends(*(each.ctypes.data for each in (*_arrays(work), *given)), pieces, columns)
        return end

    def paths(
        self,
        work: WorkPieces,
        end: NDArray[np.float64],
        delay: NDArray[np.float64],
        kinds: int,
    ) -> NDArray[np.float64]:
        """Return how often the longest path of each column takes the seconds of each kind, and last those of a message.

        (columns, kinds + 1), of what `ends` returned.
        """
        pieces, columns = len(work[0]), end.shape[1]
        counts = np.zeros((columns, kinds + 1))
        given = np.ascontiguousarray(end), np.ascontiguousarray(delay, dtype=np.float64), counts
        self._path(*(each.ctypes.data for each in (*_arrays(work), *given)), pieces, columns, kinds)
        return counts

    def levels(self, numbers: Sequence[NDArray[np.intp]], needs: NDArray[np.intp]) -> NDArray[np.int64] | None:
        """Return the level of each piece, one above what it waits for; -1 for what no stage does; None where the order is stuck."""
        nothing, stages = len(needs), len(numbers)
        order = np.concatenate(numbers).astype(np.int64, copy=False)
        offsets = np.concatenate([[0], np.cumsum([len(each) for each in numbers])]).astype(np.int64)
        level = np.full(nothing + 1, -1, dtype=np.int64)
        at, free = offsets[:-1].copy(), np.zeros(stages, dtype=np.int64)
        given = order, offsets, np.ascontiguousarray(needs, dtype=np.int64), level, at, free
        left = self._levels(*(each.ctypes.data for each in given), stages, nothing, len(order))
        return level if left == 0 else None


def _arrays(work: WorkPieces) -> tuple[NDArray[Any], ...]:
    """Return pieces of work as the loops take them."""
    needs, before, crosses, rows = work
    whole = [np.ascontiguousarray(each, dtype=np.int64) for each in (needs, before, rows)]
    return whole[0], whole[1], np.ascontiguousarray(crosses), whole[2]


class _Done:
    """What Python has run so far."""

    pieces = 0


def compiled_runs(pieces: int) -> CompiledRuns | None:
    """Return the loops for so many more pieces of work times columns; None while Python does them, or where it has to."""
    _Done.pieces += pieces
    return _made() if _Done.pieces > FROM else None


@cache
def _made() -> CompiledRuns | None:
    from roofsim.traced.compiled import is_there, machine_code  # what few runs need

    if not is_there():
        return None
    engine, address = machine_code(_TEXT)
    pointer, whole = ctypes.c_void_p, ctypes.c_int64
    ends = ctypes.CFUNCTYPE(None, *[pointer] * 7, whole, whole)(address)
    path = ctypes.CFUNCTYPE(None, *[pointer] * 7, whole, whole, whole)(engine.get_function_address("path"))
    levels = ctypes.CFUNCTYPE(whole, *[pointer] * 6, whole, whole, whole)(engine.get_function_address("levels"))
    return CompiledRuns(engine, ends, path, levels)


_TEXT: Final = """
define void @loop(ptr noalias %needs, ptr noalias %before, ptr noalias %crosses, ptr noalias %rows, ptr noalias %durations,
                  ptr noalias %delay, ptr noalias %end, i64 %pieces, i64 %columns) {
entry:
  %some = icmp sgt i64 %pieces, 0
  br i1 %some, label %piece, label %done
piece:
  %p = phi i64 [ 0, %entry ], [ %p.next, %last ]
  %at.need = getelementptr i64, ptr %needs, i64 %p
  %need = load i64, ptr %at.need
  %at.before = getelementptr i64, ptr %before, i64 %p
  %earlier = load i64, ptr %at.before
  %at.cross = getelementptr double, ptr %crosses, i64 %p
  %cross = load double, ptr %at.cross
  %at.row = getelementptr i64, ptr %rows, i64 %p
  %row = load i64, ptr %at.row
  %need.first = mul i64 %need, %columns
  %earlier.first = mul i64 %earlier, %columns
  %row.first = mul i64 %row, %columns
  %p.first = mul i64 %p, %columns
  br label %column
column:
  %k = phi i64 [ 0, %piece ], [ %k.next, %column ]
  %need.k = add i64 %need.first, %k
  %at.result = getelementptr double, ptr %end, i64 %need.k
  %result = load double, ptr %at.result
  %at.delay = getelementptr double, ptr %delay, i64 %k
  %message = load double, ptr %at.delay
  %wait = fmul double %cross, %message
  %there = fadd double %result, %wait
  %earlier.k = add i64 %earlier.first, %k
  %at.free = getelementptr double, ptr %end, i64 %earlier.k
  %free = load double, ptr %at.free
  %later = fcmp ogt double %there, %free
  %begin = select i1 %later, double %there, double %free
  %row.k = add i64 %row.first, %k
  %at.seconds = getelementptr double, ptr %durations, i64 %row.k
  %seconds = load double, ptr %at.seconds
  %over = fadd double %begin, %seconds
  %p.k = add i64 %p.first, %k
  %at.end = getelementptr double, ptr %end, i64 %p.k
  store double %over, ptr %at.end
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %columns
  br i1 %more, label %column, label %last
last:
  %p.next = add i64 %p, 1
  %again = icmp slt i64 %p.next, %pieces
  br i1 %again, label %piece, label %done
done:
  ret void
}

define void @path(ptr noalias %needs, ptr noalias %before, ptr noalias %crosses, ptr noalias %rows, ptr noalias %end,
                  ptr noalias %delay, ptr noalias %counts, i64 %pieces, i64 %columns, i64 %kinds) {
entry:
  %width = add i64 %kinds, 1
  br label %column
column:
  %k = phi i64 [ 0, %entry ], [ %k.next, %next ]
  %at.delay = getelementptr double, ptr %delay, i64 %k
  %message = load double, ptr %at.delay
  %own.first = mul i64 %k, %width
  %own = getelementptr double, ptr %counts, i64 %own.first
  %at.messages = getelementptr double, ptr %own, i64 %kinds
  %at.zero = getelementptr double, ptr %end, i64 %k
  %zero = load double, ptr %at.zero
  br label %search
search:
  %p = phi i64 [ 0, %column ], [ %p.next, %search ]
  %best = phi i64 [ 0, %column ], [ %best.next, %search ]
  %most = phi double [ %zero, %column ], [ %most.next, %search ]
  %p.first = mul i64 %p, %columns
  %p.k = add i64 %p.first, %k
  %at.end = getelementptr double, ptr %end, i64 %p.k
  %over = load double, ptr %at.end
  %larger = fcmp ogt double %over, %most
  %best.next = select i1 %larger, i64 %p, i64 %best
  %most.next = select i1 %larger, double %over, double %most
  %p.next = add i64 %p, 1
  %searching = icmp slt i64 %p.next, %pieces
  br i1 %searching, label %search, label %walk
walk:
  %piece = phi i64 [ %best.next, %search ], [ %from, %step ]
  %at.row = getelementptr i64, ptr %rows, i64 %piece
  %row = load i64, ptr %at.row
  %at.count = getelementptr double, ptr %own, i64 %row
  %count = load double, ptr %at.count
  %counted = fadd double %count, 1.0
  store double %counted, ptr %at.count
  %at.need = getelementptr i64, ptr %needs, i64 %piece
  %need = load i64, ptr %at.need
  %at.before = getelementptr i64, ptr %before, i64 %piece
  %earlier = load i64, ptr %at.before
  %at.cross = getelementptr double, ptr %crosses, i64 %piece
  %cross = load double, ptr %at.cross
  %need.first = mul i64 %need, %columns
  %need.k = add i64 %need.first, %k
  %at.result = getelementptr double, ptr %end, i64 %need.k
  %result = load double, ptr %at.result
  %wait = fmul double %cross, %message
  %there = fadd double %result, %wait
  %earlier.first = mul i64 %earlier, %columns
  %earlier.k = add i64 %earlier.first, %k
  %at.free = getelementptr double, ptr %end, i64 %earlier.k
  %free = load double, ptr %at.free
  %some = icmp ne i64 %need, %pieces
  %late = fcmp oge double %there, %free
  %by.need = and i1 %some, %late
  br i1 %by.need, label %crossed, label %step
crossed:
  %messages = load double, ptr %at.messages
  %sent = fadd double %messages, %cross
  store double %sent, ptr %at.messages
  br label %step
step:
  %from = select i1 %by.need, i64 %need, i64 %earlier
  %on = icmp ne i64 %from, %pieces
  br i1 %on, label %walk, label %next
next:
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %columns
  br i1 %more, label %column, label %done
done:
  ret void
}

define i64 @levels(ptr noalias %order, ptr noalias %offsets, ptr noalias %needs, ptr noalias %level, ptr noalias %at,
                   ptr noalias %free, i64 %stages, i64 %nothing, i64 %all) {
entry:
  br label %turn
turn:
  %left = phi i64 [ %all, %entry ], [ %left.over, %turned ]
  br label %stage
stage:
  %s = phi i64 [ 0, %turn ], [ %s.next, %staged ]
  %left.s = phi i64 [ %left, %turn ], [ %left.w, %staged ]
  %at.place = getelementptr i64, ptr %at, i64 %s
  %place.s = load i64, ptr %at.place
  %at.ready = getelementptr i64, ptr %free, i64 %s
  %ready.s = load i64, ptr %at.ready
  %s.next = add i64 %s, 1
  %at.stop = getelementptr i64, ptr %offsets, i64 %s.next
  %stop = load i64, ptr %at.stop
  br label %work
work:
  %place = phi i64 [ %place.s, %stage ], [ %place.next, %done ]
  %ready = phi i64 [ %ready.s, %stage ], [ %ready.next, %done ]
  %left.w = phi i64 [ %left.s, %stage ], [ %left.next, %done ]
  %some = icmp slt i64 %place, %stop
  br i1 %some, label %look, label %staged
look:
  %at.work = getelementptr i64, ptr %order, i64 %place
  %piece = load i64, ptr %at.work
  %at.need = getelementptr i64, ptr %needs, i64 %piece
  %need = load i64, ptr %at.need
  %at.below = getelementptr i64, ptr %level, i64 %need
  %below = load i64, ptr %at.below
  %above = add i64 %below, 1
  %unknown = icmp eq i64 %above, 0
  %waits = icmp ne i64 %need, %nothing
  %stuck = and i1 %unknown, %waits
  br i1 %stuck, label %staged, label %done
done:
  %higher = icmp sgt i64 %above, %ready
  %own = select i1 %higher, i64 %above, i64 %ready
  %at.own = getelementptr i64, ptr %level, i64 %piece
  store i64 %own, ptr %at.own
  %ready.next = add i64 %own, 1
  %place.next = add i64 %place, 1
  %left.next = sub i64 %left.w, 1
  br label %work
staged:
  store i64 %place, ptr %at.place
  store i64 %ready, ptr %at.ready
  %again = icmp slt i64 %s.next, %stages
  br i1 %again, label %stage, label %turned
turned:
  %left.over = phi i64 [ %left.w, %staged ]
  %some.left = icmp sgt i64 %left.over, 0
  %moved = icmp slt i64 %left.over, %left
  %on = and i1 %some.left, %moved
  br i1 %on, label %turn, label %end
end:
  ret i64 %left.over
}
"""
