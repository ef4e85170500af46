"""Answer agents: ``roofsim mcp`` speaks the Model Context Protocol over standard input and output."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

from roofsim.cli.words import Option

Folder = Annotated[
    list[str] | None,
    Option(
        "--folder",
        metavar="DIR",
        help="Let calls name files inside this folder; relative names begin in the first. Left out: no file. May be repeated.",
    ),
]
TimeLimit = Annotated[int, Option("--time-limit", minimum=1, metavar="SECONDS", help="Stop a call that takes longer.")]
Together = Annotated[int, Option("--together", minimum=1, metavar="N", help="Calls that run at once; others wait.")]
Characters = Annotated[
    int,
    Option(
        "--characters",
        minimum=1000,
        metavar="N",
        help="Longest answer; what is left out is said, and can be asked for.",
    ),
]


def mcp(
    *, folder: Folder = None, time_limit: TimeLimit = 120, together: Together = 2, characters: Characters = 30_000
) -> None:
    """Answer agents: tools of the Model Context Protocol on standard input and output."""
    from roofsim.agents.server import ServerLimits, serve_agents
    from roofsim.errors import Place, Problem, SpecError
    from roofsim.spec.reading.source import is_folder

    for name in folder or ():
        if not is_folder(Path(name)):
            raise SpecError(Problem(f"no such folder: {name}", Place("--folder")))
    folders = tuple(str(Path(name).resolve()) for name in folder or ())
    # The protocol's library takes the real stream, and leaves what else is printed to standard error.
    with redirect_stdout(sys.__stdout__):
        serve_agents(ServerLimits(folders=folders, seconds=time_limit, together=together, characters=characters))
