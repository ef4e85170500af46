"""List what the catalogs hold: ``roofsim list``, ``roofsim list gpus``."""

from __future__ import annotations

from typing import Annotated, Any

from roofsim.cli.complete import choices
from roofsim.cli.flags import Csv, Json
from roofsim.cli.request import as_rows, console
from roofsim.cli.words import Argument

KINDS = {"gpus": "gpu", "systems": "system", "engines": "engine", "models": "model", "architectures": "architecture"}

PLUGINS = "plugins"
CONSTANTS = "constants"
PRICES = "prices"
OTHERS = ("families", "schedules", CONSTANTS, PLUGINS, PRICES)

What = Annotated[
    str | None,
    Argument(
        metavar="CATALOG",
        complete=choices([*KINDS, *OTHERS]),
        help=f"One of: {', '.join([*KINDS, *OTHERS])}. Left out: how many entries each has.",
    ),
]


def list_names(*, what: What = None, json: Json = False, csv: Csv = False) -> None:
    """List the models, GPUs, systems, engines and architectures of the catalog, or families, schedules, constants and plug-ins."""
    from roofsim.analyze.listed import catalog_rows, overview_rows
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
    if what.lower() == PRICES:
        from roofsim.analyze.catalogs import price_rows

        rows = price_rows()
        if not as_rows(rows, json=json, csv=csv):
            from roofsim.report.tables import print_prices

            print_prices(console(), rows)
        return
    if what.lower() == CONSTANTS:
        from roofsim.analyze.catalogs import constant_rows

        _print(constant_rows(), json=json, csv=csv)
        return
    if what.lower() in OTHERS:
        from roofsim.analyze import protocols

        rows = protocols.family_rows() if what.lower() == "families" else protocols.schedule_rows()
        _print(rows, json=json, csv=csv)
        return
    kind = KINDS.get(what.lower()) or KINDS.get(f"{what.lower()}s")
    if kind is None:
        raise UnknownNameError(Problem(f"unknown catalog {what!r}", hint=did_you_mean(what, [*KINDS, *OTHERS])))
    _print(catalog_rows(kind), json=json, csv=csv)


def _print(rows: list[dict[str, Any]], *, json: bool, csv: bool) -> None:
    if not as_rows(rows, json=json, csv=csv):
        from roofsim.report.tables import print_catalog

        print_catalog(console(), rows)


def _list_plugins(*, json: bool, csv: bool) -> None:
    from roofsim.analyze.plugins import plugin_rows

    rows = plugin_rows()
    if not as_rows(rows, json=json, csv=csv):
        from roofsim.report.tables import print_plugins

        print_plugins(console(), rows)
