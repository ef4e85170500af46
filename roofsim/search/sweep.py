"""Answer a sweep: resolve its points, group them by structure, and evaluate each group as arrays."""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.printed import flattened
from roofsim.errors import Problem, RoofsimError, SpecError, did_you_mean
from roofsim.evaluate import evaluate
from roofsim.points import Diverged, Points
from roofsim.records import dataclass, field, replace
from roofsim.search.axes import AxisGrid, cards_of, read_axes
from roofsim.search.base import check_base, check_refused
from roofsim.search.families import MOST_RESOLVED, families_of, rows_of
from roofsim.search.mesh import TRACED, fitting, mesh_of
from roofsim.search.pieces import NOT_FOR_ARRAYS, PieceReader
from roofsim.search.resolving import SharedResolver
from roofsim.search.sampling import FIGURES
from roofsim.search.stacking import PointBatch, Structure, structures_of
from roofsim.search.table import Columns, Evaluated, SweepTable
from roofsim.search.whole import WholeFamily, evaluate_whole
from roofsim.spec.own_prices import price_of_one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from roofsim.analyze.result import Result
    from roofsim.evaluate import Evaluation
    from roofsim.search.families import Rows
    from roofsim.spec.reading.source import Document
    from roofsim.spec.reading.told_apart import Importer

#: Points that are evaluated as one array: enough to share the work of a program, few enough to stay in the processor's cache.
MOST_TOGETHER: Final = 1024
#: Points of the largest table: one figure of them takes 2 GiB.
MOST_POINTS: Final = 1 << 28
#: Whether groups are evaluated as arrays.
TOGETHER = True
#: Points of a family from which on a trace of a few of them is replayed for all, where it has the figures that are asked for.
REPLAYED_FROM = 4096
#: Where an axis states what hardware is changed in, prices among it.
_OVERRIDE: Final = ("hardware", "override")
#: The figure that follows from two others.
_FITS: Final = "memory.fits"
#: Parts of a result that say what was run, not how it runs.
_NOT_FIGURES: Final = ("schema", "scenario", "warnings", "provenance")
#: Parts that ask for the step on other hardware.
_LIMITS: Final = ("bound", "bandwidth_bound", "runner_up", "elasticity", "networks")


def sweep_document(
    document: Document,
    axes: Mapping[str, Iterable[Any]],
    answer: Callable[..., Result],
    importer: Importer | None = None,
    *,
    figures: str | Sequence[str] | None = None,
    keywords: Mapping[str, Any] | None = None,
    progress: Callable[[Sequence[int]], Iterable[int]] = iter,
) -> SweepTable:
    """Answer every combination of the values of some axes; see `roofsim.sweep`.

    Parameters
    ----------
    keywords
        What the caller gave for all points beside the axes; `document` has it already.

    Raises
    ------
    SpecError
        When an axis is wrong, a figure unknown, or the scenario itself wrong, whatever the axes say. A point that is not possible
        is not an error: it is not feasible, and says why.
    """
    wanted = None if figures is None else (figures,) if isinstance(figures, str) else tuple(figures)
    parts = None if wanted is None else {key.partition(".")[0] for key in wanted}
    asked = partial(
        answer, limits=parts is None or not parts.isdisjoint(_LIMITS), work=parts is None or "work" in parts
    )
    sweep = _Sweep(document, read_axes(axes, keywords), asked, importer, wanted)
    if not any(axis.path[:2] == _OVERRIDE and ".price." in axis.path[-1] for axis in sweep.space.axes):
        price_of_one(document, cards_of(sweep.space.axes))
    if sweep.space.size > MOST_POINTS:
        message = f"{sweep.space.size:,} points are more than a table holds ({MOST_POINTS:,})"
        hint = "Give fewer values, or sweep parts of an axis one after the other and keep what you need of each."
        raise SpecError(Problem(message, path="axes", hint=hint))
    check_base(SharedResolver(document, importer, sweep.reader.shared), sweep.space)
    places = iter(progress(range(sweep.space.size)))

    def heard(number: int) -> None:
        deque(islice(places, number), maxlen=0)

    for family, at in families_of(document, sweep.space):
        sweep.add_family(WholeFamily(family, at), heard)
    sweep.evaluate()
    table = sweep.table()
    if not table.feasible.any():
        check_refused(sweep.run_base, sweep.reader.refusals.each(), sweep.space)
    return table


@dataclass
class _Sweep:
    document: Document
    space: AxisGrid
    answer: Callable[[Evaluation], Result]
    importer: Importer | None
    wanted: tuple[str, ...] | None
    forms: dict[int, Any] = field(default_factory=dict)
    groups: dict[Structure, list[PointBatch]] = field(default_factory=dict)
    together: int = 0
    alone: int = 0
    structures: int = 0

    def __post_init__(self) -> None:
        self.columns = Columns(self.space)
        self.reader = PieceReader(self.document, self.space, self.importer)

    @property
    def traceable(self) -> bool:
        """Whether a trace has all that is asked for."""
        return self.wanted is not None and TRACED.issuperset(self.wanted) and TOGETHER

    def add_family(self, whole: WholeFamily, heard: Callable[[int], None]) -> None:
        """Work out the points of a family by a trace, on an open mesh; resolve what is left of them."""
        if not self.traceable or len(whole) < REPLAYED_FROM:
            for rows in rows_of(whole.family, whole.at):
                self.add(rows)
                heard(len(rows))
            return
        assert self.wanted is not None
        mesh = mesh_of(whole.family, self.importer, self.reader.shared)
        names = FIGURES if _FITS in self.wanted else tuple(name for name in FIGURES if name in self.wanted)
        answer = evaluate_whole(mesh, whole, names or FIGURES[:1], heard)
        refused = np.flatnonzero(answer.refused >= 0)
        self.reader.refusals.add_coded(
            whole.rows(refused).places, answer.refused.ravel()[refused].astype(np.int64), answer.codes, self._said_of
        )
        self.together += answer.answered
        self.structures += answer.programs
        figures: dict[str, NDArray[Any]] = {
            name: values for name, values in answer.figures.items() if name in self.wanted
        }
        if _FITS in self.wanted:
            figures[_FITS] = fitting(answer.figures)
        self.columns.put_whole(whole.index(), figures, ~answer.left & (answer.refused < 0))
        left = np.flatnonzero(answer.left)
        for first in range(0, len(left), MOST_RESOLVED):
            rows = whole.rows(left[first : first + MOST_RESOLVED])
            self.add(rows)
            heard(len(rows))

    def add(self, rows: Rows) -> None:
        """Work out points by a trace, or resolve them and put those of one structure side by side."""
        fine = np.flatnonzero(rows.readable() & self.traceable)
        if not self.traceable or len(fine) < REPLAYED_FROM:
            self._add_resolved(rows)
            return
        part = rows.part(fine)
        mesh = mesh_of(part.family, self.importer, self.reader.shared)
        answer = mesh.evaluate(part)
        open_ = np.flatnonzero(~np.isnan(answer.figures["step_time"]))
        figures = {name: values[open_] for name, values in answer.all_figures().items()}
        self._keep(part.places, figures, open_)
        self.reader.refusals.add_coded(part.places, answer.refused, answer.codes, self._said_of)
        self.together += len(open_)
        self.structures += answer.programs
        left = np.flatnonzero(np.isnan(answer.figures["step_time"]) & (answer.refused < 0))
        others = np.setdiff1d(np.arange(len(rows)), fine[np.setdiff1d(np.arange(len(fine)), left)])
        if len(others):
            self._add_resolved(rows.part(others))

    def _said_of(self, place: int) -> str:
        """Return why a point is refused."""
        try:
            SharedResolver(self.space.document(self.document, place), self.importer, self.reader.shared).run()
        except RoofsimError as error:
            return error.reason
        raise AssertionError(f"point {place} of the sweep is refused by a trace and by nothing else")

    def _add_resolved(self, rows: Rows) -> None:
        """Resolve points, and put those of one structure side by side."""
        for piece in self.reader.read(rows):
            self._add_piece(piece)

    def _add_alone(self, places: NDArray[Any]) -> None:
        """Resolve points one by one."""
        for piece in self.reader.alone(places):
            self._add_piece(piece)

    def _add_piece(self, piece: PointBatch) -> None:
        if piece.resolved is None:
            self._add_alone(piece.places)
            return
        for structure, chosen in structures_of(piece.resolved, self.forms):
            if len(chosen) < len(piece) and len(chosen) == 1:
                self._add_alone(piece.places[chosen])
            else:
                self.groups.setdefault(structure, []).append(piece.part(chosen))

    def evaluate(self) -> None:
        """Evaluate all groups, and parts of a group apart where their numbers decide on another program."""
        left = deque(piece for pieces in self.groups.values() for piece in _evened(pieces))
        while left:
            left.extendleft(reversed(self._group(left.popleft())))

    def _group(self, piece: PointBatch) -> list[PointBatch]:
        """Evaluate points of one structure, or return the parts that they fall into."""
        if len(piece) == 1 or piece.resolved is None or not TOGETHER:
            self._each(piece)
            return []
        try:
            answers = [(chosen, self.answer(part)) for chosen, part in _by_pace(evaluate(piece.resolved))]
        except Diverged as diverged:
            labels = diverged.labels
            if len(labels) == len(piece) and (labels != labels[0]).any():
                return piece.parts(labels)
        except (RoofsimError, *NOT_FOR_ARRAYS):  # each point says for itself what is wrong
            pass
        else:
            for chosen, result in answers:
                self._put(piece.places, result, chosen)
            self.together += len(piece)
            self.structures += 1
            return []
        self._each(piece)
        return []

    def _each(self, piece: PointBatch) -> None:
        """Evaluate points one by one."""
        for place in piece.places.tolist():
            resolved = piece.resolved if len(piece) == 1 else None
            resolved = self.reader.one(place) if resolved is None else resolved
            if resolved is None:
                continue
            try:
                result = self.answer(evaluate(resolved))
            except RoofsimError as error:
                self.reader.refusals.add(place, error)
                continue
            self._put(place, result)
            self.alone += 1

    def _put(self, places: Any, result: Result, chosen: NDArray[Any] | None = None) -> None:
        """Keep the wanted figures of some points; of all that a result has where no `chosen` are named."""
        figures = figures_of(result)
        if chosen is not None:
            figures = {name: _of(value, chosen) for name, value in figures.items()}
        self._keep(places, figures, chosen)

    def _keep(self, places: Any, figures: dict[str, Any], chosen: NDArray[Any] | None) -> None:
        """Keep the wanted ones of the figures of points."""
        wanted = self.wanted
        if wanted is not None:
            unknown = next((key for key in wanted if not any(_is_of(name, key) for name in figures)), None)
            if unknown is not None:
                raise SpecError(
                    Problem(f"no figure {unknown!r} in a result", path="figures", hint=did_you_mean(unknown, figures))
                )
            figures = {name: value for name, value in figures.items() if any(_is_of(name, key) for key in wanted)}
        self.columns.put(places if chosen is None else places[chosen], figures)

    def run_base(self) -> Result:
        """Answer the scenario without the axes."""
        return self.answer(evaluate(SharedResolver(self.document, self.importer, self.reader.shared).run()))

    def table(self) -> SweepTable:
        """Return all that was found out."""
        feasible = self.reader.refusals.possible(self.space.size).reshape(self.space.shape)
        return SweepTable(
            axes={axis.given: list(axis.values) for axis in self.space.axes},
            rows=self.columns.arrays(),
            feasible=feasible,
            refusals=self.reader.refusals,
            evaluated=Evaluated(self.together, self.alone, int((~feasible).sum()), self.structures),
        )


def _evened(pieces: list[PointBatch]) -> Iterator[PointBatch]:
    """Yield points of one structure, `MOST_TOGETHER` at a time."""
    waiting: list[PointBatch] = []
    for piece in pieces:
        for first in range(0, len(piece), MOST_TOGETHER):
            cut = piece.part(np.arange(first, min(first + MOST_TOGETHER, len(piece))))
            if sum(map(len, waiting)) + len(cut) > MOST_TOGETHER:
                yield PointBatch.of(waiting)
                waiting = []
            waiting.append(cut)
    if waiting:
        yield PointBatch.of(waiting)


def _by_pace(evaluation: Evaluation) -> list[tuple[NDArray[Any] | None, Evaluation]]:
    """Return the points on whose pipelines each kind of stage sets the pace, each with what is true of them.

    Where all have the same, that is one pair: None for all points, and the evaluation as it is.
    """
    if not any(isinstance(pace, Points) for pace in evaluation.paces):
        return [(None, evaluation)]
    pace, memory = np.asarray(evaluation.paces[0]), evaluation.profiles
    return [
        (np.flatnonzero(pace == place), replace(evaluation, paces=(int(place),), followed=memory))
        for place in np.unique(pace)
    ]


def _of(value: Any, chosen: NDArray[Any]) -> Any:
    """Return a figure of some of its points."""
    if isinstance(value, tuple):
        return tuple(_of(end, chosen) for end in value)
    return value[chosen] if isinstance(value, np.ndarray) and value.ndim else value


def _is_of(name: str, key: str) -> bool:
    """Tell whether a figure is the one, or of the section, that a key names."""
    return name == key or name.startswith(f"{key}.")


def figures_of(result: Result) -> dict[str, Any]:
    """Return the figures of a result by dotted key: numbers, texts, pairs of numbers; arrays where the result has arrays."""
    document = {key: value for key, value in result.figures().items() if key not in _NOT_FIGURES}
    networks = document.pop("networks", ())
    document |= {"networks": {network["name"]: network for network in networks}} if networks else {}
    return flattened(document)
