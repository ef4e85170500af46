"""Read and change the scenarios of servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.spec.scenario.document import with_override

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from roofsim.spec.reading.source import Document


def with_server(document: Document, changes: Mapping[str, Mapping[str, Any]]) -> Document:
    """Return a scenario with the keys of a server."""
    for section, keys in changes.items():
        for key, value in keys.items():
            whole = {**(value_at(document, (section, key)) or {}), **value} if key == "serving" else value
            document = with_override(document, f"{section}.{key}", whole, "serve")
    return document


def without_load(document: Document) -> Document:
    """Return a scenario that says nothing of what a server is to do."""
    for key in ("request_rate", "concurrency", "serving"):
        if document.states("workload", key):
            document = with_override(document, f"workload.{key}", None, "serve")
    return document


def value_at(document: Document, path: Sequence[str]) -> Any:
    """Return what stands at a path of keys; None: nothing."""
    at: Any = document.data
    for part in path:
        at = at.get(part) if isinstance(at, dict) else None
    return at
