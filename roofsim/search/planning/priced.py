"""Price layouts of one structure: their memory first, and the step of those that fit.

This is the one place of a search over layouts that asks for figures; all else compares them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.ledger import memory_of
from roofsim.analyze.money import MILLION, SECONDS_PER_HOUR, quote_of
from roofsim.analyze.throughput import units_per_step
from roofsim.analyze.watts import drawn_watts
from roofsim.errors import Place, Problem, RoofsimError, SpecError, did_you_mean
from roofsim.evaluate import evaluate, unpriced_of
from roofsim.kept import Kept
from roofsim.points import Diverged, number_at
from roofsim.records import dataclass, field, replace
from roofsim.search.mesh import mesh_of
from roofsim.search.pieces import NOT_FOR_ARRAYS
from roofsim.search.sampling import WATTS
from roofsim.search.stacking import PointBatch, alike, mapped, parts_of, taken, varying

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from roofsim.evaluate import Evaluation
    from roofsim.program import Program
    from roofsim.search.families import Rows
    from roofsim.search.pieces import PieceReader
    from roofsim.spec.resolve import Resolved

    Array = NDArray[np.float64]
    #: Figures of an evaluation by dotted key.
    Figures = Callable[[Evaluation], dict[str, Any]]

#: What is known of each layout that was priced: seconds, bytes, dollars and joules of a million tokens or images.
FIGURES: Final = ("step_time", "memory", "cost", "energy", "gpus")
#: Programs that are kept from the memory of some layouts to their steps.
_LATEST: Final = 4


class UnknownFigureError(SpecError):
    """A constraint is on a figure that no result has."""

    def __init__(self, figure: str, known: Iterable[str]) -> None:
        hint = did_you_mean(figure, list(known))
        super().__init__(Problem(f"no figure {figure[:80]!r} in a result", Place("--constraint"), hint=hint))


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
        Key of `FIGURES`, or a figure that was asked for -> a number of each; NaN where it was not worked out.
    """

    places: NDArray[np.int64]
    fits: NDArray[np.bool_]
    figures: dict[str, Array]


@dataclass(frozen=True)
class Waiting:
    """Layouts of one structure that may be among the best.

    Attributes
    ----------
    piece
        The layouts.
    bounds
        What the objective of each is at least.
    groups
        Which numbers of GPUs each has, of those that have a best of their own.
    memory
        Bytes of each, all of which fit; None: not worked out yet.
    """

    piece: PointBatch
    bounds: Array
    groups: NDArray[np.int64]
    memory: Array | None = None

    def __len__(self) -> int:
        return len(self.piece)

    @property
    def rank(self) -> tuple[float, int]:
        """Return what they are ordered by: the least bound, and the first place."""
        return float(self.bounds.min()), int(self.piece.places[0])

    def part(self, chosen: NDArray[Any]) -> Waiting:
        """Return some of them."""
        if len(chosen) == len(self):
            return self
        memory = None if self.memory is None else self.memory[chosen]
        return Waiting(part_of(self.piece, chosen), self.bounds[chosen], self.groups[chosen], memory)

    def parted(self, labels: NDArray[Any]) -> list[Waiting]:
        """Return those apart that do not agree on what decides their program."""
        if len(labels) == len(self) and (labels != labels[0]).any():
            return [self.part(chosen) for chosen in alike(labels)]
        return self.singles()

    def singles(self) -> list[Waiting]:
        """Return them one by one."""
        if self.piece.resolved is not None and len(self) > 1:
            return [self.part(np.array([at])) for at in range(len(self))]
        return [
            Waiting(PointBatch(np.array([place]), None), self.bounds[[at]], self.groups[[at]])
            for at, place in enumerate(self.piece.places.tolist())
        ]


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
    programs
        Those of the latest layouts that all fit, by their numbers: as a rule they are timed next.
    """

    reader: PieceReader
    figures: Figures | None = None
    wanted: Sequence[str] = ()
    programs: Kept[Program] = field(default_factory=lambda: Kept(_LATEST))

    def price(self, piece: PointBatch) -> Iterator[PricedLayouts]:
        """Yield the layouts of a piece, in parts that have the same program."""
        left = [Waiting(piece, np.zeros(len(piece)), np.zeros(len(piece), dtype=np.int64))]
        while left:
            part = left.pop()
            priced, more = self.held(part) if part.memory is None else self.timed(part)
            yield from priced
            left += reversed(more)

    def replayed(self, rows: Rows, waiting: Waiting) -> tuple[list[PricedLayouts], list[Waiting]]:
        """Return layouts of one family as a trace of a few of them prices all, and those that it does not.

        Traces take as long as some ten thousand layouts as arrays, and then microseconds a layout.
        """
        piece = waiting.piece
        resolved = piece.resolved
        if resolved is None or self.figures is not None:
            return [], [waiting]
        dollars, joules = (_of_each(resolved, rate) for rate in (dollars_per_second, joules_per_watt))
        answer = mesh_of(rows.family, self.reader.importer, self.reader.shared).evaluate(rows, watts=True)
        step, memory = answer.figures["step_time"], answer.figures["memory.peak"]
        fits = answer.fits()
        step = np.where(fits, step, np.nan)
        figures = {"step_time": step, "memory": memory, "gpus": _each(resolved.gpus, len(piece))}
        figures |= {"cost": dollars * step, "energy": joules * answer.figures[WATTS] * step}
        known, left = np.flatnonzero(~np.isnan(memory)), np.flatnonzero(np.isnan(memory))
        priced = PricedLayouts(piece.places[known], fits[known], {name: each[known] for name, each in figures.items()})
        return [priced], [waiting.part(left)] if len(left) else []

    def held(self, part: Waiting) -> tuple[list[PricedLayouts], list[Waiting]]:
        """Return the layouts that do not fit in memory, and the others, to be timed."""
        if part.piece.resolved is None:
            alone = [(at, self.reader.one(place)) for at, place in enumerate(part.piece.places.tolist())]
            pieces = [(at, PointBatch(part.piece.places[[at]], one)) for at, one in alone if one is not None]
            return [], [Waiting(piece, part.bounds[[at]], part.groups[[at]]) for at, piece in pieces]
        return self._tried(part, self._held)

    def timed(self, part: Waiting) -> tuple[list[PricedLayouts], list[Waiting]]:
        """Return layouts that fit with their steps, and those that must be worked on apart."""
        return self._tried(part, self._timed)

    def _tried(
        self, part: Waiting, work: Callable[[Waiting, Resolved], tuple[list[PricedLayouts], list[Waiting]]]
    ) -> tuple[list[PricedLayouts], list[Waiting]]:
        resolved = part.piece.resolved
        assert resolved is not None
        try:
            return work(part, resolved)
        except Diverged as diverged:
            return [], part.parted(np.asarray(diverged.labels))
        except UnknownFigureError:  # of none of the layouts
            raise
        except RoofsimError as error:
            if len(part) > 1:
                return [], part.singles()
            self.reader.refusals.add(int(part.piece.places[0]), error)
            return [], []
        except NOT_FOR_ARRAYS:
            if len(part) > 1:
                return [], part.singles()
            raise

    def _held(self, part: Waiting, resolved: Resolved) -> tuple[list[PricedLayouts], list[Waiting]]:
        unpriced = unpriced_of(resolved)
        memory = memory_of(unpriced)
        fits = _each(memory.fits, len(part)).astype(bool)
        if fits.all():
            self.programs.get(part.piece.places.tobytes(), lambda: unpriced.program)
        known = replace(part, memory=_each(memory.device_total, len(part)))
        out, left = np.flatnonzero(~fits), np.flatnonzero(fits)
        none = {name: np.full(len(out), np.nan) for name in (*FIGURES, *self.wanted)}
        refused = PricedLayouts(part.piece.places[out], fits[out], none)
        return [refused] if len(out) else [], [known.part(left)] if len(left) else []

    def _timed(self, part: Waiting, resolved: Resolved) -> tuple[list[PricedLayouts], list[Waiting]]:
        count = len(part)
        evaluation = evaluate(resolved, program=self.programs.known(part.piece.places.tobytes()))
        step = _each(evaluation.step.step, count)
        figures = {"memory": _each(part.memory, count), "gpus": _each(resolved.gpus, count), "step_time": step}
        watts = drawn_watts(evaluation)
        figures |= {
            "cost": _each(dollars_per_second(resolved), count) * step,
            "energy": _each(joules_per_watt(resolved), count) * _each(watts, count) * step,
        }
        if self.figures is not None:
            known = self.figures(evaluation)
            for key in self.wanted:
                if key not in known:
                    raise UnknownFigureError(key, (*FIGURES, *known))
                figures[key] = _each(known[key], count)
        return [PricedLayouts(part.piece.places, np.ones(count, dtype=bool), figures)], []


def dollars_per_second(resolved: Resolved) -> Any:
    """Return the dollars of a million tokens or images for each second of a step; NaN: no price is known."""
    quote = quote_of(resolved.gpu, resolved.system, resolved.gpus)
    if quote is None:
        return np.nan
    return quote.per_gpu * resolved.gpus / SECONDS_PER_HOUR * _steps_of_a_million(resolved)


def joules_per_watt(resolved: Resolved) -> Any:
    """Return the joules of a million tokens or images for each second of a step and watt that each GPU draws."""
    return resolved.gpus * _steps_of_a_million(resolved)


def _steps_of_a_million(resolved: Resolved) -> Any:
    _, units, _ = units_per_step(resolved)
    return MILLION / units if np.all(np.asarray(units) > 0.0) else np.nan


def _of_each(resolved: Resolved, rate: Callable[[Resolved], Any]) -> Array:
    """Return a rate of each of several layouts."""
    count = resolved.points
    try:
        return _each(rate(resolved), count)
    except Diverged as diverged:  # whole nodes may have another price than single cards
        rates = np.full(count, np.nan)
        for chosen in alike(np.asarray(diverged.labels)):
            rates[chosen] = _of_each(taken(resolved, chosen, varying(resolved)), rate)
        return rates


def _each(value: Any, count: int) -> Array:
    """Return a figure as one number of each layout."""
    known = np.nan if value is None else value
    return np.array(np.broadcast_to(np.asarray(known, dtype=np.float64), (count,)))


def part_of(piece: PointBatch, chosen: NDArray[Any]) -> PointBatch:
    """Return some layouts of a piece; a single one with plain numbers."""
    if len(chosen) > 1 or len(piece) == 1 or piece.resolved is None:
        return piece.part(chosen)
    return PointBatch(piece.places[chosen], single(piece.resolved, int(chosen[0])))


def single(resolved: Resolved, place: int) -> Resolved:
    """Return the scenario of one of several points, with plain numbers."""
    parts = {name: getattr(resolved, name) for name in parts_of(resolved)}
    update = {name: mapped(part, lambda numbers: number_at(numbers, place)) for name, part in parts.items()}
    return replace(resolved, **{**update, "points": 1})
