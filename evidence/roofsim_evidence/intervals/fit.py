"""Fit the terms of intervals to residuals out of fold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.analyze.distance import amounts, memory_amounts
from roofsim.records import dataclass
from roofsim_evidence.folds.kinds import KINDS, publisher_of
from roofsim_evidence.intervals import draws
from roofsim_evidence.intervals.known import measured, measured_without
from roofsim_evidence.intervals.quantiles import Sample, covered, scales, source_weights
from roofsim_evidence.intervals.terms import MEMORY, TIME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from roofsim.numeric import Array, Real
    from roofsim.spec.constants.intervals import MeasuredRuns
    from roofsim_evidence.intervals.known import Residual
    from roofsim_evidence.intervals.terms import TermText

#: Rows of one source count as so many at most.
COUNTS_AS: Final = 30.0
Ends = dict[str, tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class ResidualPool:
    """Residuals of many rows in every way to leave something out, with what each term has of them.

    Attributes
    ----------
    rows, kinds
        Of each residual: its row, and what was left out.
    """

    terms: tuple[str, ...]
    rows: tuple[Residual, ...]
    kinds: tuple[str, ...]
    sample: Sample

    def of(self, kind: str) -> Array:
        """Return which residuals are those of a kind."""
        return np.array([one == kind for one in self.kinds], dtype=bool)

    def inside(self, ends: Mapping[str, tuple[float, float]]) -> Array:
        """Tell which measurements are inside their intervals."""
        below, above = np.array([ends[name] for name in self.terms]).T
        return covered(self.sample, below, above)


def amounts_of(
    row: Residual, known: Mapping[str, MeasuredRuns], *, predicted: float, memory: bool
) -> Mapping[str, Real]:
    """Return how much of each term a row has, beside what else was measured; `predicted` in the unit of what was measured."""
    if memory:
        return memory_amounts(row.traits, row.case.quantity, predicted, known)
    return amounts(row.traits, known)


def pool_of(rows: Sequence[Residual], *, memory: bool = False) -> ResidualPool:
    """Put residuals together: each row as often as there are kinds of folds, seen from what its fold leaves."""
    terms = tuple(MEMORY if memory else TIME)
    weights = source_weights([f"{publisher_of(row.case)}, {row.traits.regime}" for row in rows], COUNTS_AS) / len(KINDS)
    logs, every = [], []
    everything = measured(rows)
    for kind, name_of in KINDS.items():
        known = measured_without(rows, kind)
        for row in rows:
            # Facts of memory belong to engines, so they stay where a card or a family is left out.
            stays = memory and kind != "source"
            beside = everything if stays else known[name_of(row.case)]
            own = amounts_of(row, beside, predicted=row.case.measured / np.exp(row.logs[kind]), memory=memory)
            logs.append(row.logs[kind])
            every.append([float(own.get(name, 0.0)) for name in terms])
    return ResidualPool(
        terms=terms,
        rows=tuple(rows) * len(KINDS),
        kinds=tuple(kind for kind in KINDS for _ in rows),
        sample=Sample(logs=np.array(logs), amounts=np.array(every), weights=np.tile(weights, len(KINDS))),
    )


def fitted(pool: ResidualPool, *, memory: bool = False, left_out: str | None = None) -> Ends:
    """Return both scales of each term; without the rows of one publisher, if one is named."""
    texts = MEMORY if memory else TIME
    kept = np.array([publisher_of(row.case) != left_out for row in pool.rows], dtype=bool)
    rows = [row for row, keep, kind in zip(pool.rows, kept, pool.kinds, strict=True) if keep and kind == "source"]
    ends: Ends = {} if memory else drawn(rows)
    sample = pool.sample.only(kept)
    both = [_scales(sample, pool.terms, texts, ends, above=above) for above in (False, True)]
    return {name: (low, high) for name, low, high in zip(pool.terms, *both, strict=True)}


def drawn(rows: Sequence[Residual]) -> Ends:
    """Return the scales of terms that whole groups decide."""
    seen = [row for row in rows if row.traits.in_sight]
    return {
        "engine": draws.ends_of(list(draws.biases(seen, draws.engine_of).values())),
        "pair": draws.ends_of(list(draws.biases(seen, draws.young_pair).values())),
        "version": draws.ends_of(draws.version_draws(rows)),
    }


def _scales(
    sample: Sample, terms: Sequence[str], texts: Mapping[str, TermText], fixed: Ends, *, above: bool
) -> list[float]:
    """Return the scales at one end: fixed ones as they are, and others fitted beside them."""
    held = {name: fixed[name][above] for name in fixed} | {
        name: 0.0 if texts[name].slows and not above else texts[name].expected
        for index, name in enumerate(terms)
        if not sample.amounts[:, index].any() and name not in fixed
    }
    free = [index for index, name in enumerate(terms) if name not in held]
    rest = [index for index, name in enumerate(terms) if name in held]
    floor = np.square(sample.amounts[:, rest]) @ np.square([held[terms[index]] for index in rest])
    expected = np.array([texts[terms[index]].expected for index in free])
    values = scales(sample.columns(free, floor), expected, above=above)
    by_name = held | {terms[index]: float(value) for index, value in zip(free, values, strict=True)}
    return [float(np.clip(round(by_name[name], 4), *texts[name].range)) for name in terms]
