"""Write the table of a sweep as a Parquet file: a row per point, a column per axis and figure."""

from __future__ import annotations

import importlib
import io
from typing import TYPE_CHECKING, Any

from roofsim.errors import NoDataError
from roofsim.output import save_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from roofsim.search.table import SweepTable


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
    rows = swept.to_rows()
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: _column([row.get(name) for row in rows]) for name in names}
    table = arrow.table(columns).replace_schema_metadata({"schema": "roofsim/sweep/1", "axes": "\n".join(swept.axes)})
    out = io.BytesIO()
    parquet.write_table(table, out)
    save_bytes(path, out.getvalue())


def _column(values: list[Any]) -> list[Any]:
    """Return values of one kind: numbers as they are, whole ones beside others as floats, anything mixed as text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    if len(kinds) > 1 or dict in kinds:
        return [None if value is None else str(value) for value in values]
    return values
