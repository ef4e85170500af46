"""Score predictions against measurements: ``roofsim validate mine.jsonl``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from roofsim.cli.flags import Csv, Html
from roofsim.cli.report import checked_report, write_report
from roofsim.cli.request import as_rows, console
from roofsim.cli.words import Argument, Option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.calibrate.cases import Case
    from roofsim.calibrate.predict import Prediction

File = Annotated[
    Path | None,
    Argument(
        metavar="FILE.jsonl",
        help="Measurements of your own: one JSON object per line, with `scenario` and `measured`. "
        "Left out: how far predictions of published measurements are off.",
    ),
]
Source = Annotated[
    list[str] | None,
    Option("--source", metavar="NAME", help="Show the measurements of one source only. May be repeated."),
]
Json = Annotated[bool, Option("--json", help="Print JSON: one object per measurement, or per published source.")]


def validate(
    file: File = None, *, source: Source = None, html: Html = None, json: Json = False, csv: Csv = False
) -> None:
    """Score predictions against measurements: your own, or those that were published."""
    checked_report(html)
    if file is None:
        _report(html, _published(source, json=json, csv=csv), published=True)
        return
    from roofsim.calibrate.cases import read_cases

    rows, unpriced = _predicted(_chosen(read_cases(file), source))
    if not as_rows([_row(row) for row in rows], json=json, csv=csv):
        from roofsim.report.scores import print_predictions

        print_predictions(console(), rows)
    for case, reason in unpriced:
        sys.stderr.write(f"roofsim: not predicted: {case.name}: {reason}\n")
    if unpriced and not rows:
        from roofsim.errors import Place, Problem, SpecError

        raise SpecError(Problem(f"none of the {len(unpriced)} measurements can be predicted", Place(str(file))))
    _report(html, [_row(row) for row in rows], published=False)


def _report(html: Path | None, rows: list[dict[str, Any]], *, published: bool) -> None:
    if html is not None:
        from roofsim.report.html.of_validate import ScoredRows

        write_report(html, ScoredRows(rows=rows, published=published), "validate")


def _published(sources: Sequence[str] | None, *, json: bool, csv: bool) -> list[dict[str, Any]]:
    """Show the scores of the published measurements, which travel with roofsim as a table; returns its rows."""
    from roofsim.calibrate.published import published
    from roofsim.report.scores import print_published

    rows = published()
    _known(sources, {row["source"] for row in rows})
    rows = [row for row in rows if not sources or row["source"] in sources]
    if not as_rows(rows, json=json, csv=csv):
        print_published(console(), rows)
    return rows


def _known(wanted: Sequence[str] | None, known: set[str]) -> None:
    """Refuse sources that there are not.

    Raises
    ------
    UnknownNameError
        With near matches.
    """
    from roofsim.errors import Place, Problem, UnknownNameError, did_you_mean

    for name in wanted or ():
        if name not in known:
            raise UnknownNameError(
                Problem(f"no source {name!r}. {did_you_mean(name, sorted(known))}", Place("--source"))
            )


def _chosen(cases: Sequence[Case], sources: Sequence[str] | None) -> list[Case]:
    """Return the cases of some sources, or all."""
    _known(sources, {case.source for case in cases})
    return [case for case in cases if not sources or case.source in sources]


def _predicted(cases: Sequence[Case]) -> tuple[list[Prediction], list[tuple[Case, str]]]:
    """Predict in one pass, with a bar where someone watches; what cannot be predicted comes with the reason."""
    from roofsim.calibrate.predict import predict_case
    from roofsim.errors import NoDataError, SpecError

    rows: list[Prediction] = []
    unpriced: list[tuple[Case, str]] = []
    for case in _watched(cases):
        try:
            rows.append(predict_case(case))
        except (SpecError, NoDataError) as problem:
            unpriced.append((case, str(problem).splitlines()[0]))
    return rows, unpriced


def _watched(cases: Sequence[Case]) -> Any:
    if not sys.stderr.isatty():
        return cases
    from rich.console import Console
    from rich.progress import track

    return track(cases, "predicting", console=Console(stderr=True), transient=True)


def _row(row: Prediction) -> dict[str, Any]:
    low, high = row.interval or (None, None)
    case = row.case
    return {
        "name": case.name,
        "source": case.source,
        "gpu": case.gpu,
        "quantity": case.quantity,
        "measured": case.measured,
        "predicted": row.predicted,
        "error": row.error,
        "low": low,
        "high": high,
        "architecture": row.architecture,
        "model": case.model,
        "family": case.family,
        "precision": case.precision,
        "regime": case.regime,
    }
