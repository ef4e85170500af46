"""Print the JSON Schema of a file: ``roofsim schema scenario``; or write all of them: ``roofsim schema --write schemas``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from roofsim.cli.complete import choices
from roofsim.cli.request import write_text
from roofsim.cli.words import Argument, Option

KINDS = ("scenario", "model", "gpu", "system", "engine", "architecture", "capture")

What = Annotated[
    str | None,
    Argument(
        metavar="KIND",
        complete=choices(KINDS),
        show_default=False,
        help=f"Kind of file. One of: {', '.join(KINDS)}. [default: scenario]",
    ),
]
Write = Annotated[
    Path | None,
    Option(
        "--write",
        metavar="DIR",
        help="Write the schemas of all kinds of files into a folder, or the one that is named.",
    ),
]


def schema(*, what: What = None, write: Write = None) -> None:
    """Print the JSON Schema of a file, for editors to complete and check it, or write those of all kinds of files."""
    if write is None:
        from roofsim.analyze.catalogs import json_schema
        from roofsim.report.tabular import to_json

        write_text(to_json(json_schema(what or "scenario")))
        return
    from roofsim.report.schema_files import write_schemas

    written = write_schemas(write, KINDS if what is None else (what,))
    write_text("".join(f"Wrote {path}.\n" for path in written))
