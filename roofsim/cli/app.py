"""The command line: one module per verb, one place that prints errors and chooses the exit code."""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
from contextlib import redirect_stdout, suppress
from typing import Any, Final

from roofsim.cli.answers import Answer
from roofsim.cli.parse import plain_call
from roofsim.errors import OutputError, shortened
from roofsim.output import visible

#: Objects between two searches for cycles (Python's own: 700).
_ALLOCATIONS: Final = 200_000
#: Set where the user has not: threads of a linear-algebra library that has nothing to do here take longer to start than a run.
_THREADS: Final = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main() -> None:
    """Run the command line. Exit code 0 for an answer, 2 for a bad request, 1 for what cannot be written or a defect of ours."""
    # A command makes many objects and little garbage: looking for cycles less often saves a tenth of a short one's time.
    gc.set_threshold(_ALLOCATIONS)
    for name in _THREADS:
        os.environ.setdefault(name, "1")
    atexit.register(
        gc.freeze
    )  # when the process ends, nobody needs its memory searched once more: a sixth of a short command
    sys.exit(_run(Answer(sys.stdout)))


def _run(answer: Answer) -> int:
    try:
        try:
            with redirect_stdout(answer):
                code = _called(sys.argv[1:])
        except OutputError:
            answer.deliver()  # what was found is worth reading although a file of it could not be written
            raise
        answer.deliver()
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if _is_of_typer(error, "Abort"):
            return 130
        text, code = _said_of(error)
        with suppress(OSError, ValueError, AttributeError):  # standard error may be closed as well
            sys.stderr.write(visible(text))
        return code


def _called(words: list[str]) -> Any:
    """Answer a command line: an ordinary one by itself, any other through the parser's library."""
    try:
        plainly = plain_call(words)
        if plainly is not None:
            return plainly()
        from roofsim.cli.lazy import app

        return app(prog_name="roofsim", standalone_mode=False)
    except SystemExit as stop:  # completion ends so
        return stop.code


def _is_of_typer(error: Exception, name: str) -> bool:
    """Tell whether an error is one of the parser's, if that was imported at all."""
    typer = sys.modules.get("typer")
    if typer is None:
        return False
    kind: Any = typer.BadParameter.__base__ if name == "UsageError" else getattr(typer, name)
    return isinstance(error, kind)


def _said_of(error: Any) -> tuple[str, int]:
    """Return what to say of an error, and the exit code."""
    from roofsim.errors import NoDataError, SpecError

    if _is_of_typer(error, "UsageError"):  # the ancestor of all its complaints about arguments
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
    if isinstance(error, MemoryError):
        return "roofsim: memory ran out: ask for fewer points at once, or on a machine with more\n", 1
    return (
        f"roofsim: this is a defect of roofsim, please report it: {type(error).__name__}: {shortened(str(error), 1000)}\n"
        "(set ROOFSIM_DEBUG=1 for the traceback)\n"
    ), 1


if __name__ == "__main__":
    main()
