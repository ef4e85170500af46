"""What `evidence` does with intervals."""

from __future__ import annotations

from roofsim.output import save_text
from roofsim.spec.constants import intervals
from roofsim_evidence.folds.kinds import KINDS
from roofsim_evidence.intervals import files
from roofsim_evidence.intervals.check import coverage
from roofsim_evidence.intervals.fit import fitted, pool_of
from roofsim_evidence.intervals.known import measured
from roofsim_evidence.intervals.rows import MEMORY, all_rows, rows_of
from roofsim_evidence.places import constants


def fit(*, write: bool = False) -> str:
    """Fit the terms of intervals to what `evidence fit folds --write` stored."""
    times, peaks = all_rows(), rows_of(MEMORY)
    pool = pool_of(times)
    ends, of_memory = fitted(pool), fitted(pool_of(peaks, memory=True), memory=True)
    inside = pool.inside(ends)
    about = files.about(len(times), len(peaks), {kind: float(inside[pool.of(kind)].mean()) for kind in KINDS})
    text = files.text_of(ends, of_memory, measured([*times, *peaks]), about)
    if write:
        save_text(constants() / files.FILE, text)
        intervals.shipped.cache_clear()
    return text


def score() -> str:
    """Return the coverage of the shipped terms by set and by what is left out, and with the terms' own publisher left out too."""
    return coverage()
