"""Make constants of measurements: ``roofsim calibrate measure --output mycard.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roofsim.cli.request import checked_path, write_text

app = typer.Typer(
    help="Measure a card, and make constants of measurements.", no_args_is_help=True, rich_markup_mode=None
)

Output = Annotated[
    Path | None, typer.Option("--output", metavar="FILE.py", help="Write the script to a new file instead of printing.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if there is one.")]


@app.callback()
def _group() -> None:
    """Keep the verbs below this one named, however few they are."""


@app.command("measure")
def measure(*, output: Output = None, force: Force = False) -> None:
    """Write a script, in need of PyTorch only, that measures the card of the machine it runs on."""
    from roofsim.calibrate.script import script_text, write_script

    if output is None:
        write_text(script_text())
        return
    checked_path(output, ".py")
    write_script(output, force=force)
    table = output.with_suffix(".csv").name
    typer.echo(f"wrote {output}; on the machine with the card: python {output.name} --output {table}")
