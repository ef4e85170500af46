"""List what the catalogs hold: ``roofsim list``, ``roofsim list gpus``."""

from __future__ import annotations

from typing import Annotated

from roofsim.cli.complete import choices
from roofsim.cli.flags import Csv, Json
from roofsim.cli.request import as_rows, console
from roofsim.cli.words import Argument

KINDS = {"gpus": "gpu", "systems": "system", "engines": "engine", "models": "model", "architectures": "architecture"}

PLUGINS = "plugins"

What = Annotated[
    str | None,
    Argument(
        metavar="CATALOG", complete=choices([*KINDS, PLUGINS]),
        help=f"One of: {', '.join(KINDS)}, {PLUGINS}. Left out: how many entries each has.",
    ),
]  # fmt: skip


def list_names(*, what: What = None, json: Json = False, csv: Csv = False) -> None:
    """List the models, GPUs, systems, engines and architectures of the catalog, or the plug-ins."""
    from roofsim.analyze.catalogs import catalog_rows, overview_rows
    from roofsim.errors import Problem, UnknownNameError, did_you_mean

    if what is None:
        rows = overview_rows(KINDS)
        if not as_rows(rows, json=json, csv=csv):
            from roofsim.report.tables import print_overview

            print_overview(console(), rows)
        return

    if what.lower() in (PLUGINS, "plugin"):
        _list_plugins(json=json, csv=csv)
        return
    kind = KINDS.get(what.lower()) or KINDS.get(f"{what.lower()}s")
    if kind is None:
        raise UnknownNameError(Problem(f"unknown catalog {what!r}", hint=did_you_mean(what, [*KINDS, PLUGINS])))
    rows = catalog_rows(kind)
    if not as_rows(rows, json=json, csv=csv):
        from roofsim.report.tables import print_catalog

        print_catalog(console(), rows)


def _list_plugins(*, json: bool, csv: bool) -> None:
    from roofsim.analyze.plugins import plugin_rows

    rows = plugin_rows()
    if not as_rows(rows, json=json, csv=csv):
        from roofsim.report.tables import print_plugins

        print_plugins(console(), rows)
