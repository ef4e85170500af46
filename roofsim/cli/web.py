"""Serve the page: ``roofsim web``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from roofsim.cli.complete import scenarios
from roofsim.cli.words import Argument, Option

Scenario = Annotated[
    str | None,
    Argument(
        metavar="SCENARIO",
        complete=scenarios,
        help="What the page opens with: a scenario or model file, a folder with a config.json, or the name of a model.",
    ),
]
Host = Annotated[str, Option("--host", metavar="ADDRESS", help="The address to listen on.")]
AllowOthers = Annotated[
    bool, Option("--allow-others", help="Let other machines reach the page, those that have the token that is printed.")
]
Port = Annotated[int, Option("--port", minimum=0, metavar="N", help="The port to listen on; 0: any that is free.")]
Open = Annotated[bool, Option("--open", help="Open the page in a browser.")]
Folder = Annotated[
    Path | None,
    Option("--folder", metavar="DIR", help="Save reports in this folder, and list them. [default: nothing is written]"),
]
Limit = Annotated[str, Option("--limit", metavar="SECONDS", help="The longest that an answer may take.")]
Workers = Annotated[int, Option("--workers", minimum=1, metavar="N", help="Processes that answer.")]


def web(
    *,
    scenario: Scenario = None,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    allow_others: AllowOthers = False,
    open_browser: Open = False,
    folder: Folder = None,
    limit: Limit = "60",
    workers: Workers = 2,
) -> None:
    """Open a page in the browser that asks, answers and shows, served from this machine to itself."""
    from roofsim.web.listening import Listening, listen, read_limit

    listen(
        Listening(
            host=host,
            port=port,
            others=allow_others,
            browser=open_browser,
            folder=folder,
            limit=read_limit(limit),
            workers=workers,
            scenario=None if scenario is None else _opened(scenario),
        )
    )


def _opened(given: str) -> dict[str, Any]:
    """Return a scenario with all that it names by a file in it: the page itself reads none."""
    from roofsim.spec.scenario.document import load_scenario
    from roofsim.web.pasted import with_files

    return with_files(load_scenario(given, {}))
