"""Write the script that captures a PyTorch model: ``roofsim capture --write capture.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from roofsim.cli.words import Option

Write = Annotated[
    Path | None,
    Option("--write", metavar="FILE.py", help="Write the script to a new file instead of printing it."),
]
Force = Annotated[bool, Option("--force", help="Replace the file if it exists.")]


def capture(*, write: Write = None, force: Force = False) -> None:
    """Write a script that captures any PyTorch model as a file that every verb takes in a model's place."""
    from roofsim.calibrate.script import CAPTURE, script_text, write_script
    from roofsim.cli.request import checked_path, write_text

    if write is None:
        write_text(script_text(package=CAPTURE))
        return
    checked_path(write, ".py")
    write_script(write, force=force, package=CAPTURE)
    write_text(
        f"Wrote {write}. Run it where PyTorch is: `python {write.name} my_model.py` writes model.roofsim.json; "
        f"`python {write.name} --help` says what my_model.py holds. Then `roofsim run model.roofsim.json --gpu h100`."
    )
