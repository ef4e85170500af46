"""Change some fields of a model that a scenario names: ``model: {inherits: gpt2, num_layers: 6}``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.errors import Problem, SpecError
from roofsim.spec.reading.factor import refuse_empty
from roofsim.spec.settle.hardware import leaves

if TYPE_CHECKING:
    from roofsim.spec.reading.source import Document


def parent_of(given: dict[str, Any], scenario: Document) -> str:
    """Return the name or the file of the model that others are taken from.

    Raises
    ------
    SpecError
        When it is no text.
    """
    parent = given["inherits"]
    if isinstance(parent, str):
        return parent
    message = f"expected the name or the file of a model; got {parent!r}"
    raise SpecError(Problem(message, scenario.place(("model", "inherits")), "model.inherits"))


def with_changes(document: Document, name: str, given: dict[str, Any], scenario: Document) -> Document:
    """Return what describes a model, with the fields that a scenario states instead of its own, each with its place there."""
    changes = {"name": f"{name} (changed)"} | {key: value for key, value in given.items() if key != "inherits"}
    for path, value in leaves(changes):
        refuse_empty(value, scenario.place(("model", *path)), ".".join(("model", *path)))
        document = document.with_value(path, value, scenario.place(("model", *path)))
    return document
