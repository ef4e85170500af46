"""Print the JSON Schema of a file: ``roofsim schema scenario``."""

from __future__ import annotations

from typing import Annotated

from roofsim.cli.complete import choices
from roofsim.cli.request import write_text
from roofsim.cli.words import Argument

KINDS = ("scenario", "model", "gpu", "system", "engine", "architecture", "capture")

What = Annotated[
    str,
    Argument(
        metavar="KIND",
        complete=choices(KINDS),
        show_default=False,
        help=f"Kind of file. One of: {', '.join(KINDS)}. [default: scenario]",
    ),
]


def schema(*, what: What = "scenario") -> None:
    """Print the JSON Schema of a file, for editors to complete and check it."""
    from roofsim.analyze.catalogs import json_schema
    from roofsim.report.tabular import to_json

    write_text(to_json(json_schema(what)))
