"""Print the JSON Schema of a file: ``roofsim schema scenario``."""

from __future__ import annotations

from typing import Annotated

import typer

from roofsim.cli.request import write_text

What = Annotated[str, typer.Argument(help="scenario, model, gpu, system, engine or architecture.")]


def schema(*, what: What = "scenario") -> None:
    """Print the JSON Schema that editors complete and check files with."""
    from roofsim.analyze.catalogs import json_schema
    from roofsim.report.tabular import to_json

    write_text(to_json(json_schema(what)))
