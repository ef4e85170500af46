"""Turn an error into plain data: what the command line says of it, and where on the page it belongs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import shortened
from roofsim.web.options import option_at

if TYPE_CHECKING:
    from roofsim.errors import Problem

_EXPECTED: Final = re.compile(r"expected (?P<expected>.+?); (?:got|found) (?P<found>.+)", re.DOTALL)
_NEAR: Final = re.compile(r"Did you mean (?P<names>.+?)\?")
_QUOTED: Final = re.compile(r"'([^']*)'")


def error_document(error: Exception, verb: str = "") -> dict[str, Any]:
    """Return an error as data: the message of the command line, the key and the line that it is about, and near matches.

    Of what is wrong with an option of the `verb`, ``option`` names it.
    """
    from roofsim.errors import NoDataError, SpecError

    if isinstance(error, SpecError):
        problems = [_of(problem, verb) for problem in error.problems]
        return {"ok": False, "error": {"message": str(error), **problems[0], "problems": problems}}
    if isinstance(error, NoDataError):
        return _plain(str(error))
    if isinstance(error, MemoryError):
        return _plain("the answer takes more memory than a question may; ask for less: fewer values, cards or GPUs")
    if isinstance(error, RecursionError):
        return _plain("is nested too deeply")
    return _plain(
        f"this is a defect of roofsim, please report it: {type(error).__name__}: {shortened(str(error), 1000)}"
    )


def _plain(message: str) -> dict[str, Any]:
    return {"ok": False, "error": {"message": message, **_NOTHING, "problems": []}}


_NOTHING: Final[dict[str, Any]] = {
    "key": None,
    "option": None,
    "line": None,
    "expected": None,
    "found": None,
    "near": [],
}


def _of(problem: Problem, verb: str) -> dict[str, Any]:
    """Return one problem: its key, its line, and what its message says was expected and found."""
    place = problem.place
    stated = _EXPECTED.search(problem.message)
    near = _NEAR.search(problem.hint)
    option = option_at(verb, problem.path if place is None else place.source)
    return {
        "message": str(problem),
        "key": problem.path or _key_of(None if place is None else place.source),
        "option": option,
        "line": None if place is None else place.line,
        "expected": None if stated is None else stated["expected"],
        "found": None if stated is None else stated["found"],
        "near": [] if near is None else _QUOTED.findall(near["names"]),
    }


def _key_of(source: str | None) -> str | None:
    """Return the key that an option of the command line sets; None for what is no option."""
    if source is None or not source.startswith("--"):
        return None
    return source.rpartition(" ")[2].lstrip("-").replace("-", "_")
