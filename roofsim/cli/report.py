"""Write the report of an answer: ``--html FILE.html``, on every verb that has one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from roofsim.cli.request import checked_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from roofsim.evaluate import Evaluation
    from roofsim.spec.reading.source import Document


def checked_report(path: Path | None) -> Path | None:
    """Return the path of a report, which ends as one, in a folder that there is, and is none itself; before anything is computed.

    Raises
    ------
    SpecError
        Otherwise.
    """
    from roofsim.errors import Problem, SpecError
    from roofsim.spec.reading.source import is_folder

    if path is not None and is_folder(path):
        raise SpecError(
            Problem(f"cannot write {path}: it is a directory. Name a file in it, such as {path / 'report.html'}")
        )
    return checked_path(path, ".html", ".htm")


def write_report(
    path: Path | None,
    answer: Any,
    verb: str,
    document: Document | None = None,
    arguments: Mapping[str, Any] | None = None,
    *,
    evaluation: Evaluation | None = None,
    shown: tuple[str, ...] = (),
    places: tuple[int, ...] | None = None,
    printed: dict[str, Any] | None = None,
    also: tuple[Any, ...] = (),
) -> None:
    """Write the report of an answer, where one was asked for.

    Parameters
    ----------
    document
        What was asked, with the options of the command put in.
    arguments
        What else the Python function of that name takes.
    evaluation
        Of a result: what it was made of.
    shown, places
        Of a sweep: which figures are shown, and which points in which order.
    printed, also
        What ``--json`` prints where that is more than the answer itself, and the answers that it holds beside.
    """
    if path is None:
        return
    import shlex

    from roofsim.report.html.asked import AskedReport
    from roofsim.report.html.page import write_page

    asked = AskedReport(
        verb=verb,
        command=shlex.join(["roofsim", *sys.argv[1:]]),
        scenario=None if document is None else document.data,
        arguments=arguments or {},
        evaluation=evaluation,
        figures=shown,
        places=places,
        printed=printed,
        also=also,
    )
    write_page(answer, asked, path)
