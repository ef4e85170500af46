"""Make the page of an answer that has none of its own: what the command line prints, and its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.result import plain
from roofsim.report import words
from roofsim.report.html.blocks import CellTable, Code, Data, ReportPage, Section, filled, pointer
from roofsim.report.printed import line_of, text_of

if TYPE_CHECKING:
    from roofsim.report.html.asked import AskedReport

_ROWS: Final = 200
_COLUMNS: Final = 18
#: Column -> how its numbers are written, where that is not as their size says.
_WRITERS: Final = {"share": (words.percent,)}


def page(answer: Any, asked: AskedReport) -> ReportPage:
    """Return the page."""
    line = line_of(answer).removeprefix("<").removesuffix(">").partition(": ")[2]
    head, _, rest = line.partition(": ")
    own = plain(answer.to_dict())
    data = Data({"answer": own} if own.get("rows") else {"answer": own, "rows": plain(answer.to_rows())})
    return ReportPage(
        verb=asked.verb,
        headline=head,
        subtitle=(),
        verdict=(rest,) if rest else (),
        sections=filled(
            Section(title="The answer", blocks=(Code(name="As the command line prints it", text=text_of(answer)),)),
            Section(title="Rows", blocks=(rows_table(data, ("answer", "rows") if own.get("rows") else ("rows",)),)),
        ),
        data=data.data,
    )


def rows_table(data: Data, at: tuple[Any, ...] = ("answer", "rows")) -> CellTable | None:
    """Return the rows at a place of the data as a table of their plain values; None where there are none."""
    rows = data.at(pointer(*at))
    if not isinstance(rows, list) or not rows or not isinstance(rows[0], dict):
        return None
    names = [name for name in rows[0] if not isinstance(rows[0][name], dict | list)][:_COLUMNS]
    cells = [
        tuple(data.shown(pointer(*at, place, name), *_WRITERS.get(name, ())) for name in names)
        for place in range(min(len(rows), _ROWS))
    ]
    numeric = tuple(isinstance(rows[0][name], int | float) for name in names)
    return CellTable(heads=tuple(name.replace("_", " ") for name in names), rows=tuple(cells), numeric=numeric)
