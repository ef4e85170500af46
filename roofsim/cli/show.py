"""Show one catalog entry with its sources: ``roofsim show gpu a100``."""

from __future__ import annotations

from typing import Annotated

from roofsim.cli.complete import entries
from roofsim.cli.flags import Json
from roofsim.cli.request import console, write_text
from roofsim.cli.words import Argument, Option

What = Annotated[
    str,
    Argument(
        metavar="NAME|KIND",
        complete=entries,
        help="A name; or a kind (gpu, system, engine, model, architecture), if the name follows; or constants, physics.",
    ),
]
Name = Annotated[str | None, Argument(metavar="NAME", complete=entries, help="The entry's name or alias.")]
Yaml = Annotated[bool, Option("--yaml", help="Print the file itself: a start for one of your own.")]


def show(*, what: What, name: Name = None, json: Json = False, yaml: Yaml = False) -> None:
    """Show one entry of the catalog: every figure, with its source."""
    from roofsim.analyze.catalogs import entry, file_of

    if yaml:
        write_text(file_of(what, name))
        return
    data = entry(what, name)
    if json:
        from roofsim.report.tabular import to_json

        write_text(to_json(data))
        return
    from roofsim.report.tables import print_entry

    print_entry(console(), data)
