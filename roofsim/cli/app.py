"""The command line: one module a verb, one place that prints errors and chooses the exit code."""

from __future__ import annotations

import gc
import os
import sys
from typing import Annotated, Final

import typer

from roofsim.cli import (
    calibrate,
    collectives,
    compare,
    explain,
    fit,
    init,
    listing,
    memory,
    ops,
    run,
    schema,
    serve,
    show,
    timeline,
    validate,
)

app = typer.Typer(
    name="roofsim",
    help="Predict step time, memory and what limits a neural network on given hardware, without a GPU.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("run")(run.run)
app.command("compare")(compare.compare)
app.command("fit")(fit.fit)
app.command("serve")(serve.serve)
app.command("ops")(ops.ops)
app.command("memory")(memory.memory)
app.command("timeline")(timeline.timeline)
app.command("collectives")(collectives.collectives)
app.command("explain")(explain.explain)
app.command("init")(init.init)
app.command("list")(listing.list_names)
app.command("show")(show.show)
app.command("schema")(schema.schema)
app.command("validate")(validate.validate)
app.add_typer(calibrate.app, name="calibrate")


def _version(wanted: bool) -> None:
    if wanted:
        from roofsim import __version__

        typer.echo(f"roofsim {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    del version


#: Objects between two searches for cycles (Python's own: 700).
_ALLOCATIONS: Final = 200_000


def main() -> None:
    """Run the command line. Exit code 0 for an answer, 2 for a bad request, 1 for a defect of ours."""
    # A command makes many objects and little garbage: looking for cycles less often saves a tenth of a short one's time.
    gc.set_threshold(_ALLOCATIONS)
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader has gone (`roofsim ops | head`): nothing is wrong. Keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        sys.exit(_report(error))


def _report(error: Exception) -> int:
    from roofsim.errors import NoDataError, SpecError

    if isinstance(error, SpecError | NoDataError):
        for line in str(error).splitlines():
            sys.stderr.write(f"{line}\n" if line.startswith("    ") else f"roofsim: {line}\n")
        return 2
    if os.environ.get("ROOFSIM_DEBUG"):
        raise error
    sys.stderr.write(
        f"roofsim: this is a defect of roofsim, please report it: {type(error).__name__}: {error}\n"
        "(set ROOFSIM_DEBUG=1 for the traceback)\n"
    )
    return 1


if __name__ == "__main__":
    main()
