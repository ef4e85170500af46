"""Hold the answers of a sweep: an array per figure over all points, which points have an answer, and why others have none."""

from __future__ import annotations

import importlib
import math
from collections import Counter
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.printed import Drawn
from roofsim.errors import NoDataError, SpecError, did_you_mean
from roofsim.records import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from roofsim.search.axes import AxisGrid
    from roofsim.search.refusals import Refusals


#: What is kept beside the figures that were asked for: whether a point fits.
_FITS: Final = ("memory.fits", "memory.verdict")
#: Whose prices costs rest on: in words, and what prices share that can be compared.
PRICE: Final = ("cost.price", "cost.price_kind", "cost.price_seller", "cost.price_region")
#: Points from which on it is not said of one that fits whether it does so within its error bar: that is no figure of a trace.
_MANY: Final = 100_000


def worked_out(figures: Sequence[str], *others: str, points: int = 1) -> list[str] | None:
    """Return the figures that are worked out where some are asked for: those, `others`, and what goes with them; None: all.

    That is whether a point fits (of very many points whether the prediction does, and not how surely), and with costs whose prices
    they rest on.
    """
    if not figures:
        return None
    asked = [*figures, *others]
    prices = PRICE if any(key.startswith("cost.") for key in asked) else ()
    return list(dict.fromkeys((*asked, *prices, *_FITS[: 1 if points >= _MANY else None])))


@dataclass(frozen=True)
class Evaluated:
    """How the points of a sweep were computed.

    Attributes
    ----------
    together
        Points that were evaluated as elements of arrays.
    alone
        Points that were evaluated one by one.
    refused
        Points whose scenario is not possible.
    structures
        Programs that were built for the points together.
    """

    together: int = 0
    alone: int = 0
    refused: int = 0
    structures: int = 0


@dataclass(frozen=True, kw_only=True, repr=False)
class SweepTable(Drawn):
    """The answers of a sweep; ``table["step_time"]`` is an array with one dimension per axis.

    Attributes
    ----------
    axes
        Key of the scenario, as it was given -> its values. The first axis is the first dimension of every array.
    rows
        Dotted key of a result (``step_time``, ``memory.peak``, ``step_time_interval``) -> array of the shape of the axes. Seconds,
        bytes and FLOPs as in a result; NaN, or None in arrays of texts, where a point has no such figure.
    feasible
        Whether a point has an answer: whether `roofsim.run` of it gives one. Shape of the axes.
    evaluated
        How many points were computed which way.
    """

    axes: dict[str, list[Any]]
    rows: Mapping[str, NDArray[Any]]
    feasible: NDArray[np.bool_]
    refusals: Refusals
    evaluated: Evaluated = field(default_factory=Evaluated)

    def __len__(self) -> int:
        return int(self.feasible.size)

    @cached_property
    def reason(self) -> NDArray[np.object_]:
        """Why a point is not feasible, as `roofsim.run` says; None where it is. Shape of the axes. Written when it is asked for."""
        return self.refusals.texts(self.feasible.size).reshape(self.shape)

    @cached_property
    def reason_code(self) -> NDArray[np.object_]:
        """The code of the rule that a point breaks (``tensor-divides-model``), or the kind of its error; None if it is possible."""
        return self.refusals.codes(self.feasible.size).reshape(self.shape)

    def __getitem__(self, key: str) -> NDArray[Any]:
        try:
            return self.rows[key]
        except KeyError:
            if not self.feasible.any():
                more = "" if len(self) == 1 else "; `reason` of the table says it of each point"
                raise SpecError(f"no point is possible: {(self.refusals.text(0) or '').rstrip('.')}{more}") from None
            raise SpecError(f"no figure {key!r} in this table. {did_you_mean(key, self.rows)}".rstrip()) from None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.to_rows())

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values of each axis."""
        return self.feasible.shape

    def refused(self) -> dict[str, int]:
        """Return how many points are not feasible, by the code of the reason; the most frequent first."""
        if self.feasible.all():
            return {}
        return dict(Counter(self.reason_code[~self.feasible].tolist()).most_common())

    def order(self, figure: str = "step_time", *, descending: bool = False) -> NDArray[np.int64]:
        """Return the places of all points by a figure: those that fit first, then those that do not, then those without it.

        Places count with the last axis running fastest; ties stay in that order.

        Raises
        ------
        SpecError
            For a figure that the table has not, or that is no number.
        """
        values = self[figure]
        if values.dtype.kind not in "fib" or values.ndim > len(self.shape):
            raise SpecError(f"points cannot be ordered by {figure}: it is no number")
        keys = values.ravel().astype(float) * (-1.0 if descending else 1.0)
        return np.lexsort((keys, self._beyond(), np.isnan(keys))).astype(np.int64)

    def best(self, figure: str = "step_time", *, descending: bool = False) -> int | None:
        """Return the place of the point with the least of a figure among those that fit; None where there is none."""
        if not self.feasible.any() or figure not in self.rows:
            return None
        first = int(self.order(figure, descending=descending)[0])
        usable = self.feasible.ravel()[first] and not self._beyond()[first]
        return first if usable else None

    def _beyond(self) -> NDArray[np.bool_]:
        """Return which points are known not to fit in memory."""
        fits = self.rows.get("memory.fits")
        if fits is None:
            return np.zeros(len(self), dtype=bool)
        if fits.dtype == bool:
            return ~fits.ravel()
        return np.array([value is not None and not value for value in fits.ravel().tolist()])

    def to_rows(self, places: Iterable[int] | None = None) -> list[dict[str, Any]]:
        """Return one flat mapping per point: its value on each axis, `feasible`, `reason`, `reason_code`, and every figure.

        ``pandas.DataFrame(table.to_rows())`` is a frame. Keys of axes win over figures of the same name.

        Parameters
        ----------
        places
            Of the points wanted, counted with the last axis running fastest; all, if left out.
        """
        chosen = np.arange(len(self)) if places is None else np.fromiter(places, dtype=np.int64)
        states = {name: getattr(self, name).ravel()[chosen].tolist() for name in ("feasible", "reason_code")}
        if places is None:
            states["reason"] = self.reason.ravel().tolist()
        else:
            states["reason"] = [self.refusals.text(place) for place in chosen.tolist()]
        columns = {key: _listed(values, len(self.shape), chosen) for key, values in self.rows.items()}
        rows = []
        for row, index in enumerate(zip(*np.unravel_index(chosen, self.shape), strict=True) if self.shape else [()]):
            point = {path: values[at] for (path, values), at in zip(self.axes.items(), index, strict=True)}
            own = {name: states[name][row] for name in ("feasible", "reason", "reason_code")}
            rows.append(point | own | {key: column[row] for key, column in columns.items()} | point)
        return rows

    def to_dict(self, places: Iterable[int] | None = None) -> dict[str, Any]:
        """Return plain data: the axes, and the rows of all points or of those at some places."""
        return {
            "schema": "roofsim/sweep/1",
            "axes": self.axes,
            "points": len(self),
            "possible": int(self.feasible.sum()),
            "refused": self.refused(),
            "rows": self.to_rows(places),
        }

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Hand the rows to what speaks Arrow: ``polars.DataFrame(table)``, DuckDB; values of axes of several kinds become text.

        Raises
        ------
        NoDataError
            When pyarrow is not installed.
        """
        arrow, kinds = _library("pyarrow"), {path: {*map(type, values)} for path, values in self.axes.items()}
        texts = {
            path for path, own in kinds.items() if not (own <= {int, float} or len(own) == 1) or own & {dict, list}
        }
        columns = {
            name: arrow.array(values if isinstance(values, list) else values.ravel(), from_pandas=True)
            for name, values in self.columns(as_text=texts).items()
        }
        return arrow.table(columns).__arrow_c_stream__(requested_schema)

    def columns(self, *, as_text: Collection[str] = ()) -> dict[str, Any]:
        """Return what `to_rows` has by columns: one element per point, the last axis running fastest; an array, or a list of pairs.

        Parameters
        ----------
        as_text
            Axes whose values are to be texts.
        """
        size = len(self)
        index = np.unravel_index(np.arange(size), self.shape) if self.shape else ()
        axes: dict[str, Any] = {}
        for (path, values), at in zip(self.axes.items(), index, strict=True):
            own = [str(value) for value in values] if path in as_text else values
            numbers = {*map(type, own)} in ({int}, {float}, {bool})
            column = np.array(own) if numbers else np.empty(len(own), dtype=object)
            if not numbers:
                column[:] = [float(value) if {*map(type, own)} == {int, float} else value for value in own]
            axes[path] = np.take(column, at)
        none = np.full(size, None, dtype=object)
        fine = bool(self.feasible.all())
        states = {
            "feasible": self.feasible.ravel(),
            "reason": none if fine else self.reason.ravel(),
            "reason_code": none if fine else self.reason_code.ravel(),
        }
        figures = {
            key: values.ravel() if values.ndim == len(self.shape) else _listed(values, len(self.shape), np.arange(size))
            for key, values in self.rows.items()
            if key not in axes
        }
        return axes | states | figures

    def to_pandas(self) -> Any:
        """Return a pandas frame with one row per point.

        Raises
        ------
        NoDataError
            When pandas is not installed.
        """
        return _library("pandas").DataFrame(self.columns())

    def to_polars(self) -> Any:
        """Return a polars frame with one row per point; values of axes that are mappings become text.

        Raises
        ------
        NoDataError
            When polars is not installed.
        """
        texts = [path for path, values in self.axes.items() if any(_label(value) is not value for value in values)]
        columns = self.columns(as_text=texts)
        return _library("polars").DataFrame(columns, strict=False, nan_to_null=True)

    def to_xarray(self) -> Any:
        """Return an xarray data set with one dimension per axis; ends of intervals are a dimension of their own, `end`.

        Raises
        ------
        NoDataError
            When xarray is not installed.
        """
        names = list(self.axes)
        arrays = {"feasible": self.feasible, "reason": self.reason, "reason_code": self.reason_code, **self.rows}
        ends = {len(self.shape): (), len(self.shape) + 1: ("end",)}
        return _library("xarray").Dataset(
            {key: ((*names, *ends[values.ndim]), values) for key, values in arrays.items() if key not in self.axes},
            coords={name: [_label(value) for value in values] for name, values in self.axes.items()},
        )


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise NoDataError(f"this needs {name}, which is not installed: pip install {name}") from None


def _label(value: Any) -> Any:
    return value if value is None or isinstance(value, int | float | str) else str(value)


def _listed(values: NDArray[Any], rank: int, places: NDArray[np.int64]) -> list[Any]:
    """Return a column as plain values, one per point wanted; None for NaN."""
    if values.ndim > rank:
        rows = values.reshape(-1, values.shape[-1])[places].tolist()
        return [None if math.isnan(row[0]) else row for row in rows]
    chosen = values.ravel()[places].tolist()
    return [None if isinstance(value, float) and math.isnan(value) else value for value in chosen]


class Columns:
    """The figures of a sweep as they come, a group of points at a time."""

    def __init__(self, space: AxisGrid) -> None:
        self.space = space
        self._parts: dict[str, list[tuple[Any, Any]]] = {}
        self._whole: dict[str, NDArray[Any]] = {}
        self._known: dict[str, NDArray[np.bool_]] = {}

    def put_whole(self, index: tuple[Any, ...], figures: Mapping[str, NDArray[Any]], known: NDArray[np.bool_]) -> None:
        """Take the figures of all points of a part of the space, of which some are `known`; the others have none yet."""
        shape, every = self.space.shape, known.shape == self.space.shape
        for key, values in figures.items():
            if key not in self._whole:
                none = np.zeros if values.dtype == bool else partial(np.full, fill_value=np.nan)
                self._whole[key] = values if every else none(shape, dtype=values.dtype)
                self._known[key] = known if every else np.zeros(shape, dtype=bool)
            if not every:
                self._whole[key][index], self._known[key][index] = values, known

    def put(self, places: Any, figures: Mapping[str, Any]) -> None:
        """Take the figures of some points: each a value for all of them, or an array with one element per point."""
        for key, value in figures.items():
            self._parts.setdefault(key, []).append((places, value))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return one array per figure, in the shape of the axes."""
        return {key: self._array(key, self._parts.get(key, [])) for key in {**self._whole, **self._parts}}

    def _array(self, key: str, parts: list[tuple[Any, Any]]) -> NDArray[Any]:
        size = self.space.size
        if key in self._whole:
            values, known = self._whole[key], self._known[key]
            if not parts and (values.dtype != bool or known.all()):
                return values
            at = np.flatnonzero(known)
            parts = [(at, values.ravel()[at]), *parts]
        if any(isinstance(value, tuple) for _, value in parts):
            pairs = np.full((size, 2), np.nan)
            for places, value in parts:
                if value is not None:
                    pairs[places] = np.stack([np.broadcast_to(end, np.shape(places)) for end in value], axis=-1)
            return pairs.reshape(*self.space.shape, 2)
        kinds = {_kind(value) for _, value in parts} - {"none"}
        whole = kinds == {"bool"} and sum(np.size(places) for places, _ in parts) == size
        column: NDArray[Any]
        if whole:
            column = np.zeros(size, dtype=bool)
        elif kinds <= {"number"}:
            column = np.full(size, np.nan)
        else:
            column = np.full(size, None, dtype=object)
        for places, value in parts:
            if value is not None:
                column[places] = value
        return column.reshape(self.space.shape)


def _kind(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, np.ndarray):
        return {"b": "bool", "f": "number", "i": "number", "u": "number"}.get(value.dtype.kind, "text")
    if isinstance(value, bool | np.bool_):
        return "bool"
    return "number" if isinstance(value, int | float | np.number) else "text"
