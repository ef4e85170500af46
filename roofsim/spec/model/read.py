"""Read a model of a known family, and refuse what is wrong with it as a whole, with the place in its file."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from roofsim.errors import Problem, SpecError
from roofsim.spec.reading.validate import validate

if TYPE_CHECKING:
    from roofsim.spec.model.base import ModelSpec
    from roofsim.spec.reading.source import Document

M = TypeVar("M", bound="ModelSpec")


def read_model(schema: type[M], document: Document, prefix: str = "") -> M:
    """Return `document` as a model of a family; `prefix` stands before key paths in messages.

    Raises
    ------
    SpecError
        With all problems, each located.
    """
    model = validate(schema, document, prefix=prefix)
    problems = [
        Problem(
            wrong.message,
            document.place(wrong.path),
            ".".join(part for part in (prefix, *map(str, wrong.path)) if part),
            wrong.hint,
        )
        for wrong in model.problems()
    ]
    if problems:
        raise SpecError(problems)
    return model
