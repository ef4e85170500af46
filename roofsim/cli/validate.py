"""Score predictions against published measurements: ``roofsim validate``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

from roofsim.cli.flags import Csv
from roofsim.cli.request import as_rows, console
from roofsim.cli.words import Option
from roofsim.output import save_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from roofsim.calibrate.cases import Case
    from roofsim.calibrate.score import Prediction

Source = Annotated[
    list[str] | None,
    Option("--source", metavar="NAME", help="Score the measurements of one source only. May be repeated."),
]
Json = Annotated[bool, Option("--json", help="Print JSON: one object per measurement.")]
Write = Annotated[bool, Option("--write", help="Write docs/accuracy.md and its plots (in a checkout).")]
LeaveOut = Annotated[
    bool,
    Option(
        "--leave-cards-out",
        help="First fit again without each GPU in turn, for the page (takes minutes; in a checkout).",
    ),
]


def validate(
    *,
    source: Source = None,
    json: Json = False,
    csv: Csv = False,
    write: Write = False,
    leave_cards_out: LeaveOut = False,
) -> None:
    """Score predictions against published measurements."""
    cases = _chosen(source)
    docs = _docs(source) if write or leave_cards_out else None
    rows = _predicted(cases)
    if leave_cards_out:
        _leave_cards_out(rows)
    if not as_rows([_row(row) for row in rows], json=json, csv=csv):
        _print(rows)
    if write and docs is not None:
        _write(rows, docs)


def _chosen(sources: Sequence[str] | None) -> list[Case]:
    """Return the cases of some sources, or all."""
    from roofsim.calibrate.cases import load_cases
    from roofsim.errors import Place, Problem, UnknownNameError, did_you_mean

    known = sorted({case.source for case in load_cases()})
    for name in sources or ():
        if name not in known:
            raise UnknownNameError(Problem(f"no source {name!r}. {did_you_mean(name, known)}", Place("--source")))
    return [case for case in load_cases() if not sources or case.source in sources]


def _docs(sources: Sequence[str] | None) -> Path:
    """Return the folder of the page, if there is a checkout to write to and all rows are asked for."""
    from roofsim.errors import Problem, SpecError
    from roofsim.spec import catalog

    if sources:
        raise SpecError(Problem("--write and --leave-cards-out need all rows; leave out --source"))
    docs = catalog.root() / "docs"
    if not docs.is_dir():
        raise SpecError(Problem(f"cannot write the page: {catalog.root()} is not a checkout of the repository"))
    return docs


def _predicted(cases: Sequence[Case]) -> list[Prediction]:
    """Predict in one pass, with a bar where someone watches."""
    from roofsim.calibrate.score import predict_cases

    if not sys.stderr.isatty():
        return predict_cases(cases)
    from rich.console import Console
    from rich.progress import track

    return predict_cases(track(cases, "predicting", console=Console(stderr=True), transient=True))


def _leave_cards_out(rows: Sequence[Prediction]) -> None:
    from roofsim.calibrate.scorecard import predict_left_out, write_left_out

    cases = [row.case for row in rows]
    write_left_out([case.name for case in cases], [row.predicted for row in rows], predict_left_out(cases))


def _row(row: Prediction) -> dict[str, Any]:
    low, high = row.interval or (None, None)
    case = row.case
    return {
        "name": case.name, "source": case.source, "gpu": case.gpu, "measured": case.measured, "predicted": row.predicted,
        "error": row.error, "low": low, "high": high, "fitted": case.fits, "architecture": row.architecture,
        "model": row.model, "family": case.family, "precision": case.precision, "regime": case.regime,
    }  # fmt: skip


def _print(rows: Sequence[Prediction]) -> None:
    from roofsim.report.accuracy_text import print_scores

    print_scores(console(), rows)


def _write(rows: Sequence[Prediction], docs: Path) -> None:
    from roofsim.calibrate.scorecard import scorecard
    from roofsim.errors import OutputError
    from roofsim.report.accuracy import page
    from roofsim.report.accuracy_plots import draw

    card = scorecard(rows)
    pictures = docs / "pictures"
    try:
        pictures.mkdir(exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make {pictures}: {error.strerror}") from None
    drawn = draw(card, pictures)
    path = docs / "accuracy.md"
    save_text(path, page(card))
    sys.stderr.write(f"wrote {', '.join(str(file.relative_to(docs.parent)) for file in (path, *drawn))}\n")
