"""Serve the page: ``roofsim web``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from roofsim.cli.words import Option

Host = Annotated[str, Option("--host", metavar="ADDRESS", help="The address to listen on.")]
Port = Annotated[int, Option("--port", minimum=0, metavar="N", help="The port to listen on; 0: any that is free.")]
Open = Annotated[bool, Option("--open", help="Open the page in a browser.")]
Folder = Annotated[
    Path | None,
    Option("--folder", metavar="DIR", help="Save reports in this folder. [default: nothing is written]"),
]
Limit = Annotated[str, Option("--limit", metavar="SECONDS", help="The longest that an answer may take.")]
Workers = Annotated[int, Option("--workers", minimum=1, metavar="N", help="Processes that answer.")]


def web(
    *,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    open: Open = False,  # noqa: A002  # the option's name
    folder: Folder = None,
    limit: Limit = "60",
    workers: Workers = 2,
) -> None:
    """Open a page in the browser that asks, answers and shows all of this, served from this machine to itself."""
    from roofsim.web.listening import listen

    listen(host=host, port=port, browser=open, folder=folder, limit=float(limit), workers=workers)
