"""List what the catalogs hold: ``roofsim list``, ``roofsim list gpus``."""

from __future__ import annotations

from typing import Annotated, Any

from roofsim.cli.complete import choices
from roofsim.cli.flags import Csv, Json
from roofsim.cli.request import as_rows, console
from roofsim.cli.words import Argument, Option

KINDS = {"gpus": "gpu", "systems": "system", "engines": "engine", "models": "model", "architectures": "architecture"}

PLUGINS = "plugins"
CONSTANTS = "constants"
PRICES = "prices"
OTHERS = ("families", "schedules", CONSTANTS, PLUGINS, PRICES)
#: What has no columns to choose by.
_PLAIN = (*OTHERS, "plugin")

What = Annotated[
    str | None,
    Argument(
        metavar="CATALOG",
        complete=choices([*KINDS, *OTHERS]),
        help=f"One of: {', '.join([*KINDS, *OTHERS])}. Left out: how many entries each has.",
    ),
]


_FILTERS = "Filters"


def _of(flag: str, metavar: str, about: str) -> Any:
    return Option(flag, metavar=metavar, panel=_FILTERS, help=about)


def list_names(
    *,
    what: What = None,
    vendor: Annotated[str | None, _of("--vendor", "NAME", "Of GPUs: nvidia, amd, intel.")] = None,
    architecture: Annotated[str | None, _of("--architecture", "NAME", "Of GPUs: hopper, rdna3 ...")] = None,
    family: Annotated[
        str | None,
        _of(
            "--family", "NAME", "Of models: resnet; what names begin with: llama, yolov8; diffusion, gnn, hybrid, moe."
        ),
    ] = None,
    gpu: Annotated[str | None, _of("--gpu", "NAME", "Of systems: what they come with; h100 is every H100.")] = None,
    min_memory: Annotated[str | None, _of("--min-memory", "SIZE", "Of GPUs: 24GiB.")] = None,
    min_bandwidth: Annotated[str | None, _of("--min-bandwidth", "RATE", "Of GPUs: 1TB/s.")] = None,
    since: Annotated[str | None, _of("--since", "YEAR", "Of GPUs and systems: of this year or later.")] = None,
    max_price: Annotated[str | None, _of("--max-price", "USD/h", "Of GPUs and systems: 2, or 2USD/h.")] = None,
    min_parameters: Annotated[str | None, _of("--min-parameters", "N", "Of models: 1B.")] = None,
    max_parameters: Annotated[str | None, _of("--max-parameters", "N", "Of models: 8B.")] = None,
    measured: Annotated[
        bool, Option("--measured", panel=_FILTERS, help="Of GPUs and models: those of which runs were measured.")
    ] = False,
    recalled: Annotated[
        bool, Option("--recalled", panel=_FILTERS, help="Of GPUs and systems: those with figures from memory.")
    ] = False,
    sort: Annotated[
        str | None,
        Option(
            "--sort",
            metavar="COLUMN",
            panel=_FILTERS,
            help="Order by a column: price, memory, year, name ...; cheapest, largest, latest first; -price turns it round.",
        ),
    ] = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """List the models, GPUs, systems, engines and architectures of the catalog, or families, schedules, constants and plug-ins."""
    wanted: dict[str, str | bool | None] = {
        "vendor": vendor,
        "architecture": architecture,
        "family": family,
        "gpu": gpu,
        "min-memory": min_memory,
        "min-bandwidth": min_bandwidth,
        "since": since,
        "max-price": max_price,
        "min-parameters": min_parameters,
        "max-parameters": max_parameters,
        "measured": measured,
        "recalled": recalled,
    }
    kind = None if what is None else KINDS.get(what.lower()) or KINDS.get(f"{what.lower()}s")
    if kind is not None:
        _list_catalog(kind, wanted, sort, json=json, csv=csv)
        return
    given = [name for name, text in {**wanted, "sort": sort}.items() if text]
    if given and (what is None or what.lower() in _PLAIN):
        from roofsim.errors import Problem, SpecError

        raise SpecError(
            Problem(f"--{given[0]} chooses among {', '.join(KINDS)}", hint="For example `roofsim list gpus`.")
        )
    _list_others(what, json=json, csv=csv)


def _list_others(what: str | None, *, json: bool, csv: bool) -> None:
    if what is None:
        from roofsim.analyze.listed import overview_rows

        rows = overview_rows(KINDS)
        if not as_rows(rows, json=json, csv=csv):
            from roofsim.report.tables import print_overview

            print_overview(console(), rows)
        return
    if what.lower() in (PLUGINS, "plugin"):
        _list_plugins(json=json, csv=csv)
    elif what.lower() == PRICES:
        from roofsim.analyze.catalogs import price_rows

        rows = price_rows()
        if not as_rows(rows, json=json, csv=csv):
            from roofsim.report.tables import print_prices

            print_prices(console(), rows)
    elif what.lower() == CONSTANTS:
        from roofsim.analyze.catalogs import constant_rows

        _print(constant_rows(), json=json, csv=csv)
    elif what.lower() in OTHERS:
        from roofsim.analyze import protocols

        rows = protocols.family_rows() if what.lower() == "families" else protocols.schedule_rows()
        _print(rows, json=json, csv=csv)
    else:
        from roofsim.errors import Problem, UnknownNameError, did_you_mean

        raise UnknownNameError(Problem(f"unknown catalog {what!r}", hint=did_you_mean(what, [*KINDS, *OTHERS])))


def _list_catalog(kind: str, wanted: dict[str, str | bool | None], sort: str | None, *, json: bool, csv: bool) -> None:
    from roofsim.analyze.listed import catalog_rows, same_card

    rows = catalog_rows(kind)
    if sort is not None or any(wanted.values()):
        from roofsim.analyze.filters import chosen

        rows = chosen(rows, kind, wanted, sort=sort, same_card=same_card, kinds_of=_kinds_of)
    _print(rows, json=json, csv=csv)


def _kinds_of(name: str) -> frozenset[str]:
    from roofsim.analyze.kinds import kinds_of

    return kinds_of(name)


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
