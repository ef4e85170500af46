"""List what the catalogs hold: ``roofsim list gpus``."""

from __future__ import annotations

from typing import Annotated

import typer

from roofsim.cli.request import as_rows, console
from roofsim.cli.run import Csv, Json

KINDS = {"gpus": "gpu", "systems": "system", "engines": "engine", "models": "model", "architectures": "architecture"}

What = Annotated[str, typer.Argument(help=f"{', '.join(KINDS)}.")]


def list_names(*, what: What, json: Json = False, csv: Csv = False) -> None:
    """List a catalog: GPUs, systems, engines, models or architectures."""
    from roofsim.analyze.catalogs import catalog_rows
    from roofsim.errors import Problem, UnknownNameError, did_you_mean

    kind = KINDS.get(what) or KINDS.get(f"{what}s")
    if kind is None:
        raise UnknownNameError(Problem(f"unknown catalog {what!r}", hint=did_you_mean(what, KINDS)))
    rows = catalog_rows(kind)
    if not as_rows(rows, json=json, csv=csv):
        from roofsim.report.tables import print_catalog

        print_catalog(console(), rows)
