"""Price steps, and the layers in them, for rows that differ in keys of one scenario."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.ledger import memory_of
from roofsim.api import import_model, resolve_document
from roofsim.errors import Place, Problem, RoofsimError, SpecError, did_you_mean
from roofsim.evaluate import Evaluation, evaluate
from roofsim.oracle.layers import seconds_of_layers
from roofsim.oracle.table import Column, PredictedTable, answered
from roofsim.points import Diverged
from roofsim.records import replace
from roofsim.search.axes import AxisGrid, read_axes
from roofsim.search.families import Rows, ScenarioFamily, inner_of, numbers_of, tables_of
from roofsim.search.mesh import mesh_of
from roofsim.search.resolving import NoneLeftError, RowsResolver, Shared
from roofsim.search.sampling import MISSING, NOT_FOR_ARRAYS
from roofsim.search.stacking import alike
from roofsim.spec.reading.spoken import SHORT
from roofsim.spec.scenario.document import SECTIONS, load_scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from roofsim.spec.reading.source import Document

#: Rows of one scenario's words from which on a trace of a few of them is replayed for all; what was traced before is used anyway.
_REPLAYED_FROM: Final = 512
#: Rows that are priced as one array.
_TOGETHER: Final = 4096
#: Values of a column up to which each is read.
_FEW: Final = 8
_FIGURES: Final = {"time": "step_time", "memory_peak": "memory.peak", "capacity": "memory.capacity", "missing": MISSING}

Answers = dict[str, "NDArray[np.float64]"]


def predict_steps(
    kind: str, columns: Mapping[str, Column], scenario: Any, overrides: Mapping[str, Any]
) -> PredictedTable:
    """Return seconds and memory of steps of one phase.

    Raises
    ------
    SpecError
        For a missing scenario, unknown columns, and what is wrong with the scenario whatever its rows.
    """
    pricing = _Pricing(columns, scenario, {**overrides, "phase": kind})
    answers, reasons = pricing.run(_step_figures, traced=True)
    fits = (answers["memory_peak"] <= answers.pop("capacity")) & (answers.pop("missing") <= 0.0)
    return answered(kind, {**answers, "fits": fits}, reasons)


def predict_layers(columns: Mapping[str, Column], scenario: Any, overrides: Mapping[str, Any]) -> PredictedTable:
    """Return the seconds of one layer of each kind that a model repeats, by phase, and of its messages.

    Raises
    ------
    SpecError
        As `predict_steps`, and for a model that repeats no layers.
    """
    pricing = _Pricing(columns, scenario, overrides)
    answers, reasons = pricing.run(seconds_of_layers, traced=False)
    if not answers:
        raise SpecError(Problem("the model repeats no layers", Place("scenario"), hint="Ask for kernels or steps."))
    return answered("layer", dict(answers), reasons)


def _step_figures(evaluation: Evaluation) -> dict[str, Any]:
    memory = memory_of(evaluation)
    missing: Any = sum(memory.missing_off_device.values(), 0.0)
    known = {"time": evaluation.step.step, "memory_peak": memory.device_total}
    return {**known, "capacity": memory.capacity, "missing": missing}


class _Pricing:
    """One request: the scenario, and the value of each row on every axis."""

    def __init__(self, columns: Mapping[str, Column], scenario: Any, overrides: Mapping[str, Any]) -> None:
        if scenario is None and "model" not in overrides and "model" not in columns:
            hint = 'For example predict_batch("decode", table, "llama3-8b", gpu="h100").'
            raise SpecError(Problem("expected a scenario", Place("scenario"), hint=hint))
        for name in columns:
            _refuse_unknown(name)
        given = {} if scenario is None else scenario
        if scenario is None and "model" not in overrides:  # until a row says which
            given = {"model": str(columns["model"][0])}
        self.document = load_scenario(given, dict(overrides))
        self.count = len(next(iter(columns.values())))
        values: dict[str, list[Any]] = {}
        self.at: list[NDArray[np.int64]] = []
        for name, column in columns.items():
            different, index = _distinct(column)
            values[name] = different
            self.at.append(index)
        self.space = read_axes(values)
        self.shared = _SHARED
        self.answers: Answers = {}
        self.reasons: dict[int, str] = {}

    def run(self, figures: Callable[[Evaluation], dict[str, Any]], *, traced: bool) -> tuple[Answers, dict[int, str]]:
        """Return the figures of every row, NaN where it has none, and why."""
        for rows in self._families():
            left = self._replayed(rows) if traced else np.arange(len(rows))
            for first in range(0, len(left), _TOGETHER):
                self._as_arrays(rows.part(left[first : first + _TOGETHER]), figures)
        if len(self.reasons) == self.count:
            first = min(self.reasons)
            message = f"no row can be priced; row {first}: {self.reasons[first]}"
            raise SpecError(Problem(message, Place("table")))
        return self.answers, self.reasons

    def _families(self) -> Iterator[Rows]:
        """Yield the rows that share their words."""
        numbers, tables = _numbers_of(self.document, self.space), tables_of(self.space)
        inner = inner_of(numbers, tables)
        words = [place for place in range(len(self.space.axes)) if place not in inner]
        labels = np.stack([self.at[place] for place in words], axis=1) if words else np.zeros((self.count, 1), np.int64)
        for chosen in alike(labels):
            document = self.document
            for place, axis in enumerate(self.space.axes):
                document = axis.put(document, axis.values[int(self.at[place][chosen[0]])])
            family = ScenarioFamily(document, self.space, numbers, tables)
            rows = Rows(family, chosen, tuple(index[chosen] for index in self.at))
            readable = rows.readable()
            for unreadable in rows.places[~readable].tolist():
                self._alone(unreadable, None)
            if readable.any():
                yield rows.part(np.flatnonzero(readable))

    def _replayed(self, rows: Rows) -> NDArray[np.int64]:
        """Put the figures of rows that a trace gives; return the others."""
        mesh = mesh_of(rows.family, import_model, self.shared)
        if len(rows) < _REPLAYED_FROM and not mesh.programs:
            return np.arange(len(rows))
        answer = mesh.evaluate(rows)
        open_ = ~np.isnan(answer.figures["step_time"])
        for name, figure in _FIGURES.items():
            self._put(name, rows.places[open_], answer.figures[figure][open_])
        for place in np.flatnonzero(answer.refused >= 0):
            self._alone(int(rows.places[place]), None)
        return np.flatnonzero(~open_ & (answer.refused < 0))

    def _as_arrays(self, rows: Rows, figures: Callable[[Evaluation], dict[str, Any]]) -> None:
        """Price rows as one array, apart where their numbers decide on other programs, alone where nothing else works."""
        if len(rows) == 1:
            self._alone(int(rows.places[0]), figures)
            return
        resolver = RowsResolver(rows, import_model, self.shared)
        try:
            with np.errstate(all="ignore"):
                resolved = resolver.run()
                if not resolver.checks.open.all():
                    self._apart(rows, np.where(resolver.checks.open, 1, 0), figures, refused=~resolver.checks.open)
                    return
                priced = figures(evaluate(resolved))
        except Diverged as diverged:
            if len(diverged.labels) == len(rows) and (diverged.labels != diverged.labels[0]).any():
                self._apart(rows, diverged.labels, figures)
                return
        except (NoneLeftError, RoofsimError, *NOT_FOR_ARRAYS):
            pass
        else:
            for name, value in priced.items():
                self._put(name, rows.places, np.broadcast_to(np.asarray(value, dtype=np.float64), len(rows)))
            return
        for place in rows.places.tolist():
            self._alone(place, figures)

    def _apart(
        self,
        rows: Rows,
        labels: NDArray[Any],
        figures: Callable[[Evaluation], dict[str, Any]],
        refused: NDArray[np.bool_] | None = None,
    ) -> None:
        for chosen in alike(np.asarray(labels)):
            if refused is not None and refused[chosen[0]]:
                for place in rows.places[chosen].tolist():
                    self._alone(place, figures)
            else:
                self._as_arrays(rows.part(chosen), figures)

    def _alone(self, row: int, figures: Callable[[Evaluation], dict[str, Any]] | None) -> None:
        """Price one row as `roofsim.run` does; of one that is refused, keep the reason."""
        try:
            document = self._document(row)
            resolved = resolve_document(document, self.shared)
            if figures is None:
                figures = _step_figures
            for name, value in figures(evaluate(resolved)).items():
                self._put(name, np.array([row]), np.array([float(value)]))
        except RoofsimError as error:
            self.reasons[row] = error.reason

    def _document(self, row: int) -> Document:
        document = self.document
        for axis, index in zip(self.space.axes, self.at, strict=True):
            document = axis.put(document, axis.values[int(index[row])])
        return document

    def _put(self, name: str, rows: NDArray[Any], values: NDArray[np.float64]) -> None:
        if name not in self.answers:
            self.answers[name] = np.full(self.count, np.nan)
        self.answers[name][rows] = values


_SHARED: Final = Shared()


def _distinct(column: Column) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the different values of a column, whole numbers as such, and which of them each row has."""
    if column.dtype.kind in "iufb":
        values, index = np.unique(column, return_inverse=True)
        listed = [int(value) if float(value).is_integer() else float(value) for value in values.tolist()]
        return ([bool(value) for value in values.tolist()] if column.dtype.kind == "b" else listed), index.ravel()
    places: OrderedDict[Any, int] = OrderedDict()
    index = np.array([places.setdefault(value, len(places)) for value in column.tolist()], dtype=np.int64)
    return list(places), index


def _numbers_of(document: Document, space: AxisGrid) -> dict[str, tuple[int, list[Any]]]:
    """Return what `numbers_of` does: of an axis of whole numbers, its ends are read, between which a scenario takes all."""
    ends = AxisGrid(tuple(replace(axis, values=_ends(axis.values)) for axis in space.axes))
    read = numbers_of(document, ends)
    every: dict[str, tuple[int, list[Any]]] = {}
    for name, (place, values) in read.items():
        axis = space.axes[place]
        plain = len(values) < len(axis.values) and list(ends.axes[place].values) == values
        every[name] = place, list(axis.values) if plain else numbers_of(document, space)[name][1]
    return every


def _ends(values: tuple[Any, ...]) -> tuple[Any, ...]:
    whole = len(values) > _FEW and all(type(value) is int for value in values)
    return (min(values), max(values)) if whole else values


def _refuse_unknown(name: str) -> None:
    """Refuse a column that is no key of a scenario.

    Raises
    ------
    SpecError
        Lists near matches.
    """
    known = [*SHORT, *(key for schema in SECTIONS.values() for key in schema.model_fields)]
    if "." not in name and name not in known and name != "model":
        raise SpecError(Problem("is no key of a scenario", Place(f"table {name}"), hint=did_you_mean(name, known)))
