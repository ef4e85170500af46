"""The command line: one module per verb, one place that prints errors and chooses the exit code."""

from __future__ import annotations

import gc
import io
import os
import sys
from contextlib import redirect_stdout, suppress
from typing import Annotated, Any, Final

import typer

from roofsim.cli.answers import Answer
from roofsim.cli.lazy import VerbGroup
from roofsim.errors import OutputError, shortened
from roofsim.output import visible

app = typer.Typer(
    name="roofsim",
    cls=VerbGroup,
    help="Predict step time, memory and limits of a neural network on given hardware, without a GPU.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    options_metavar="[OPTIONS]",
    subcommand_metavar="COMMAND ...",
)


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


#: What the parser of arguments raises: the ancestor of all its complaints.
_UsageError: Final[Any] = typer.BadParameter.__base__
#: Objects between two searches for cycles (Python's own: 700).
_ALLOCATIONS: Final = 200_000


def main() -> None:
    """Run the command line. Exit code 0 for an answer, 2 for a bad request, 1 for what cannot be written or a defect of ours."""
    # A command makes many objects and little garbage: looking for cycles less often saves a tenth of a short one's time.
    gc.set_threshold(_ALLOCATIONS)
    sys.exit(_run(Answer(sys.stdout)))


def _run(answer: Answer) -> int:
    try:
        try:
            with redirect_stdout(answer):
                code = _called()
        except OutputError:
            answer.deliver()  # what was found is worth reading although a file of it could not be written
            raise
        answer.deliver()
        return code if isinstance(code, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except Exception as error:
        text, code = _said_of(error)
        with suppress(OSError, ValueError, AttributeError):  # standard error may be closed as well
            sys.stderr.write(visible(text))
        return code


def _called() -> Any:
    try:
        return app(prog_name="roofsim", standalone_mode=False)
    except SystemExit as stop:  # completion ends so
        return stop.code


def _said_of(error: Exception) -> tuple[str, int]:
    """Return what to say of an error, and the exit code."""
    from roofsim.errors import NoDataError, SpecError

    if isinstance(error, _UsageError):
        said = io.StringIO()
        error.show(file=said)
        return "\n".join(shortened(line, 1000) for line in said.getvalue().split("\n")), int(error.exit_code)
    if isinstance(error, SpecError | NoDataError):
        lines = str(error).splitlines()
        return "".join(f"{line}\n" if line.startswith("    ") else f"roofsim: {line}\n" for line in lines), 2
    if os.environ.get("ROOFSIM_DEBUG"):
        raise error
    if isinstance(error, OutputError):
        return f"roofsim: {error}\n", 1
    if isinstance(error, OSError):
        about = "" if error.filename is None else f"{shortened(str(error.filename), 1000)}: "
        return f"roofsim: {about}{error.strerror or error}\n", 1
    return (
        f"roofsim: this is a defect of roofsim, please report it: {type(error).__name__}: {shortened(str(error), 1000)}\n"
        "(set ROOFSIM_DEBUG=1 for the traceback)\n"
    ), 1


if __name__ == "__main__":
    main()
