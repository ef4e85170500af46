"""What `evidence` does with the tables of aiconfigurator-core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.calibrate.kernels.constants import write_fit
from roofsim_evidence.external_kernels.page import page as filled
from roofsim_evidence.external_kernels.reader import installed_version
from roofsim_evidence.external_kernels.scores import examine, scores

if TYPE_CHECKING:
    from pathlib import Path

    from roofsim_evidence.external_kernels.scores import Examination
    from roofsim_evidence.pages import DocsPage


def score(*, data: Path | None = None, groups: bool = False) -> str:
    """Return the errors of the shipped constants, as a page."""
    return _page(examine(data), data, groups=groups).text


def fit(*, data: Path | None = None, output: Path | None = None, sample: bool = False) -> str:
    """Fit constants to some rows of each group; return the errors on the others, and on cards that were left out.

    `sample`: fit nothing, but draw the rows that kernels.csv.gz holds of these tables.
    """
    if sample:
        from roofsim_evidence.external_kernels.sample import as_csv

        return as_csv(data)
    examination = examine(data, refit=True)
    if output is not None and examination.fit is not None and examination.refit is not None:
        write_fit(output, examination.fit, scores(examination.refit))
    return _page(examination, data).text


def page(*, data: Path | None = None, groups: bool = False) -> DocsPage:
    """Return docs/external-kernels.md."""
    return _page(examine(data, refit=True), data, groups=groups)


def _page(examination: Examination, data: Path | None, *, groups: bool = False) -> DocsPage:
    return filled(examination, "of a folder" if data else installed_version(), groups=groups)
