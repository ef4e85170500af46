"""Make the error of a key of a server's workload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.errors import Place, Problem, SpecError

if TYPE_CHECKING:
    from roofsim.spec.reading.source import Document


def problem(document: Document, key: str, message: str, hint: str) -> SpecError:
    """Return an error at a key below `workload`, where it is stated."""
    path = ("workload", *key.split("."))
    place = document.place(path)
    unplaced = place.source.startswith("<") and place.line is None
    return SpecError(Problem(message, Place("serve") if unplaced else place, ".".join(path), hint))
