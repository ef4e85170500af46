"""Answer questions where Python runs in the browser: text in, text out, and packages that are fetched once something needs them."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec


class PackageWanted(BaseException):  # not an error: the question is asked again with the package
    """A package is needed that is not here yet; nothing on the way may take it for a failure of the question."""


class _Later(MetaPathFinder):
    """Find packages that have yet to be fetched: behind all other finders, so that it is asked for what is not here."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = set(names)

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Return nothing, or end the question.

        Raises
        ------
        PackageWanted
            For a package that can be fetched.
        """
        if name in self.names:
            raise PackageWanted(name)
        return None


def expect_later(names: Sequence[str]) -> None:
    """Say which packages are fetched only when something imports them."""
    sys.meta_path.append(_Later(names))


def arrived() -> None:
    """Say that all of them are here now, or will never be: from now on they are imported as anything is."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Later)]
    sys.path_importer_cache.clear()


def warm() -> None:
    """Import and read what a first answer takes, before the memory of this Python is kept for those who visit the page."""
    from roofsim.web.ask import CATALOG
    from roofsim.web.worker import WARM, warm

    warm([(verb, request) for verb, request in WARM if verb != CATALOG])  # the page has the catalog as a file


def answer(verb: str, request: str) -> str:
    """Return the answer to a question, both as JSON; nothing where it needs packages that have yet to be fetched."""
    from roofsim.web.worker import answered

    try:
        return answered(verb.encode("ascii", "replace") + b"\0" + request.encode())[1:].decode("ascii")
    except PackageWanted:
        return ""
