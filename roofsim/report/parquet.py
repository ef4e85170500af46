"""Write the table of a sweep as a Parquet file: a row per point, a column per axis and figure, some thousand points at a time."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.errors import NoDataError
from roofsim.output import replacing

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from roofsim.search.table import SweepTable

#: Points of a group of rows: what is in memory beside the table.
AT_ONCE: Final = 250_000


def write_parquet(swept: SweepTable, path: Path) -> None:
    """Write the points of a sweep; ends of intervals are lists of two numbers, values of axes that differ in kind are texts.

    Raises
    ------
    NoDataError
        When pyarrow is not installed.
    OutputError
        When the file cannot be written; one that was there is as it was.
    """
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise NoDataError(
            "Parquet files need pyarrow, which is not installed: pip install 'roofsim[parquet]'"
        ) from None
    columns = _columns(swept, arrow)
    about = {"schema": "roofsim/sweep/1", "axes": "\n".join(swept.axes)}
    schema = arrow.schema([(name, values.type) for name, values in columns.items()], metadata=about)
    with replacing(path) as file, parquet.ParquetWriter(str(file), schema) as writer:
        for first in range(0, len(swept), AT_ONCE):
            places = np.arange(first, min(first + AT_ONCE, len(swept)))
            index = dict(zip(swept.axes, np.unravel_index(places, swept.shape), strict=True)) if swept.shape else {}
            taken = [values.take(arrow.array(index.get(name, places))) for name, values in columns.items()]
            writer.write_table(arrow.Table.from_arrays(taken, schema=schema))


def _columns(swept: SweepTable, arrow: Any) -> dict[str, Any]:
    """Return the columns: of an axis its values, of all else one element per point."""
    axes = {name: arrow.array(_column(list(values))) for name, values in swept.axes.items()}
    reasons = {} if swept.feasible.all() else {"reason_code": swept.reason_code, "reason": swept.reason}
    nothing = arrow.nulls(len(swept), arrow.string())
    said = {
        name: arrow.array(_column(reasons[name].ravel().tolist()), arrow.string()) if name in reasons else nothing
        for name in ("reason", "reason_code")
    }
    own = {"feasible": arrow.array(swept.feasible.ravel()), **said}
    figures = {key: _figure(values, len(swept.shape), arrow) for key, values in swept.rows.items() if key not in axes}
    return axes | own | figures


def _figure(values: NDArray[Any], rank: int, arrow: Any) -> Any:
    """Return a figure of all points; nothing where a point has none."""
    if values.ndim > rank:
        ends = values.reshape(-1, values.shape[-1])
        return arrow.array([None if np.isnan(pair[0]) else pair.tolist() for pair in ends])
    if values.dtype == object:
        return arrow.array(_column(values.ravel().tolist()))
    return arrow.array(values.ravel(), from_pandas=True)


def _column(values: list[Any]) -> list[Any]:
    """Return values of one kind: numbers as they are, whole ones beside others as floats, anything mixed as text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    if len(kinds) > 1 or dict in kinds:
        return [None if value is None else str(value) for value in values]
    return values
