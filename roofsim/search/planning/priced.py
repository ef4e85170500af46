"""Price layouts of one structure: their memory first, and the step of those that fit.

This is the one place of a search over layouts that asks for figures; all else compares them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.ledger import memory_of
from roofsim.analyze.money import JOULES_PER_KWH, cost
from roofsim.analyze.throughput import units_per_step
from roofsim.errors import RoofsimError
from roofsim.evaluate import evaluate, unpriced_of
from roofsim.points import Diverged, number_at
from roofsim.records import dataclass, replace
from roofsim.search.pieces import NOT_FOR_ARRAYS
from roofsim.search.stacking import PointBatch, alike, mapped, parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from roofsim.evaluate import Evaluation
    from roofsim.search.pieces import PieceReader
    from roofsim.spec.resolve import Resolved

    Array = NDArray[np.float64]
    #: Figures of an evaluation by dotted key.
    Figures = Callable[[Evaluation], dict[str, Any]]

#: What is known of each layout that was priced: seconds, bytes, dollars and joules of a million tokens or images.
FIGURES: Final = ("step_time", "memory", "cost", "energy", "gpus")


@dataclass(frozen=True)
class PricedLayouts:
    """Layouts that were priced.

    Attributes
    ----------
    places
        Their numbers in the space.
    fits
        Whether each fits in memory; only those that do have a step.
    figures
        Key of `FIGURES`, or a figure that was asked for -> a number of each.
    """

    places: NDArray[np.int64]
    fits: NDArray[np.bool_]
    figures: dict[str, Array]


@dataclass(frozen=True, kw_only=True)
class Pricer:
    """Price layouts.

    Attributes
    ----------
    reader
        Notes those that cannot be.
    figures
        Gives further figures that a constraint is about; None: none is asked for.
    wanted
        Their dotted keys.
    """

    reader: PieceReader
    figures: Figures | None = None
    wanted: Sequence[str] = ()

    def price(self, piece: PointBatch) -> Iterator[PricedLayouts]:
        """Yield the layouts of a piece, in parts that have the same program."""
        left = [piece]
        while left:
            part = left.pop()
            if part.resolved is None:
                left += reversed(list(self.reader.alone(part.places)))
                continue
            try:
                yield self._together(part.places, part.resolved)
            except Diverged as diverged:
                left += reversed(_parted(part, diverged.labels))
            except RoofsimError as error:
                if len(part) == 1:
                    self.reader.refusals.add(int(part.places[0]), error)
                else:
                    left += _singles(part)
            except NOT_FOR_ARRAYS:
                if len(part) == 1:
                    raise
                left += _singles(part)

    def _together(self, places: NDArray[np.int64], resolved: Resolved) -> PricedLayouts:
        unpriced = unpriced_of(resolved)
        memory = memory_of(unpriced)
        fits = _each(memory.fits, len(places)).astype(bool)
        figures = {"memory": _each(memory.device_total, len(places)), "gpus": _each(resolved.gpus, len(places))}
        if fits.any():
            evaluation = evaluate(resolved, program=unpriced.program)
            step = _each(evaluation.step.step, len(places))
            figures["step_time"] = step
            figures |= {name: _each(scale, len(places)) * step for name, scale in rates_of(resolved).items()}
            if self.figures is not None:
                known = self.figures(evaluation)
                figures |= {key: _each(known.get(key), len(places)) for key in self.wanted}
        else:
            figures |= {name: np.full(len(places), np.nan) for name in (*FIGURES, *self.wanted) if name not in figures}
        return PricedLayouts(places, fits, figures)


def rates_of(resolved: Resolved) -> dict[str, Any]:
    """Return what a million tokens or images cost for each second that a step takes: dollars and joules; NaN: not known."""
    _, units, unit = units_per_step(resolved)
    known = cost(resolved.gpu, resolved.system, resolved.gpus, 1.0, units, unit)
    dollars, energy = known[f"usd_per_million_{unit}"], known[f"kwh_per_million_{unit}"]
    return {
        "cost": np.nan if dollars is None else dollars,
        "energy": np.nan if energy is None else energy * JOULES_PER_KWH,
    }


def _each(value: Any, count: int) -> Array:
    """Return a figure as one number of each layout."""
    known = np.nan if value is None else value
    return np.array(np.broadcast_to(np.asarray(known, dtype=np.float64), (count,)))


def _parted(piece: PointBatch, labels: NDArray[Any]) -> list[PointBatch]:
    """Return the parts of a piece whose layouts do not agree on what decides their program."""
    if len(labels) == len(piece) and (labels != labels[0]).any():
        return [part_of(piece, chosen) for chosen in alike(labels)]
    return _singles(piece)


def part_of(piece: PointBatch, chosen: NDArray[Any]) -> PointBatch:
    """Return some layouts of a piece; a single one with plain numbers."""
    if len(chosen) > 1 or len(piece) == 1 or piece.resolved is None:
        return piece.part(chosen)
    return PointBatch(piece.places[chosen], single(piece.resolved, int(chosen[0])))


def _singles(piece: PointBatch) -> list[PointBatch]:
    """Return the layouts of a piece one by one."""
    if piece.resolved is None or piece.resolved.points == 1:
        return [PointBatch(np.array([place]), None) for place in piece.places.tolist()]
    return [PointBatch(piece.places[[at]], single(piece.resolved, at)) for at in range(len(piece))]


def single(resolved: Resolved, place: int) -> Resolved:
    """Return the scenario of one of several points, with plain numbers."""
    parts = {name: getattr(resolved, name) for name in parts_of(resolved)}
    update = {name: mapped(part, lambda numbers: number_at(numbers, place)) for name, part in parts.items()}
    return replace(resolved, **{**update, "points": 1})
