"""Check the coverage of intervals: in every column and large cell, and by terms that never saw the publisher of a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roofsim.spec.constants.intervals import shipped
from roofsim_evidence.folds.kinds import KINDS, publisher_of
from roofsim_evidence.intervals.fit import fitted, pool_of
from roofsim_evidence.intervals.rows import MEMORY, TIMES, rows_of
from roofsim_evidence.markdown import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.numeric import Array
    from roofsim_evidence.intervals.fit import ResidualPool
    from roofsim_evidence.intervals.known import Residual

HEADS = ("set", "n", *(f"{kind} left out" for kind in KINDS), "source left out, of the widths too")


def coverage() -> str:
    """Return the table of coverage by set."""
    sets = {name: rows_of(name) for name in TIMES}
    times, peaks = pool_of([row for rows in sets.values() for row in rows]), pool_of(rows_of(MEMORY), memory=True)
    cells = [_cells(name, times, rows, memory=False) for name, rows in sets.items() if rows]
    cells.append(_cells("times", times, [row for rows in sets.values() for row in rows], memory=False))
    return table(HEADS, [*cells, _cells(MEMORY, peaks, rows_of(MEMORY), memory=True)])


def _cells(name: str, pool: ResidualPool, rows: Sequence[Residual], *, memory: bool) -> tuple[str, ...]:
    names = {row.case.name for row in rows}
    mine = np.array([row.case.name in names for row in pool.rows], dtype=bool)
    inside = pool.inside(shipped().ends("memory" if memory else "time"))
    shares = [f"{inside[mine & pool.of(kind)].mean():.0%}" for kind in KINDS]
    return name, str(len(rows)), *shares, f"{_without(pool, memory=memory)[mine & pool.of('source')].mean():.0%}"


def _without(pool: ResidualPool, *, memory: bool) -> Array:
    """Tell which measurements are inside intervals whose terms never saw their publisher."""
    publishers = np.array([publisher_of(row.case) for row in pool.rows])
    inside = np.zeros(len(publishers), dtype=bool)
    for name in sorted(set(publishers)):
        mine = publishers == name
        inside[mine] = pool.inside(fitted(pool, memory=memory, left_out=name))[mine]
    return inside
