"""Check data against a schema and report every problem with its place, what was expected and what was found."""

from __future__ import annotations

import json
import types
import typing
from typing import TYPE_CHECKING, Any, TypeVar

from roofsim.errors import Problem, SpecError, did_you_mean
from roofsim.schema.accept import UnsureError, accepted, doubted
from roofsim.schema.base import BaseModel, FieldInfo
from roofsim.spec.reading.quantity import SI

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from roofsim.spec.reading.source import Document, Path_

M = TypeVar("M", bound=BaseModel)


def validate(schema: type[M], document: Document, *, prefix: str = "", si: bool = False) -> M:
    """Return `document` as an instance of `schema`; `si`: bare numbers are quantities in SI units.

    Raises
    ------
    SpecError
        With all problems of the document, each located; `prefix` stands before key paths in messages.
    """
    return document.once((schema, si), lambda: _checked(schema, document, prefix, si=si))


def _checked(schema: type[M], document: Document, prefix: str, *, si: bool) -> M:
    if not isinstance(document.data, dict):
        given = type(document.data).__name__
        raise SpecError(Problem(f"expected a mapping of keys to values; got {given}", document.place(()), prefix))
    try:
        return accepted(schema, document.data, {SI: si})  # type: ignore[no-any-return]
    except UnsureError:
        pass
    try:
        from pydantic import ValidationError
    except ImportError:  # in a browser that is offline
        raise SpecError(_doubts(schema, document, prefix, si=si)) from None
    try:
        # JSON mode is the strict one that still takes a list for a tuple and 3 for 3.0.
        return schema.model_validate_json(json.dumps(document.data), strict=True, context={SI: si})
    except ValidationError as error:
        problems = _merged([_problem(schema, detail, document, prefix) for detail in error.errors()])
    except RecursionError:
        raise SpecError(Problem("is nested too deeply", document.place(()), prefix)) from None
    except (TypeError, ValueError) as error:
        raise SpecError(
            Problem(f"expected plain numbers, texts, lists and mappings: {error}", document.place(()), prefix)
        ) from None
    raise SpecError(problems)


def _doubts(schema: type[BaseModel], document: Document, prefix: str, *, si: bool) -> list[Problem]:
    """Return where a document is wrong, as far as that can be said without `pydantic`, which knows what was expected."""
    problems = []
    for path, said in doubted(schema, document.data, {SI: si}).items():
        dotted = ".".join(part for part in (prefix, *path) if part)
        known, at = keys_at(schema, path[:-1]), document.data
        for key in path[:-1]:
            at = at[key]
        place = document.place(path)
        if path[-1] not in at:
            problems.append(Problem("required key is missing", place, dotted))
        elif path[-1] not in known:
            problems.append(Problem(f"unknown key {path[-1]!r}", place, dotted, did_you_mean(path[-1], known)))
        else:
            problems.append(Problem(f"cannot be {_shown(at[path[-1]])}", place, dotted, said))
    return problems or [
        Problem("is not what was expected; pydantic, which says why, is not here", document.place(()), prefix)
    ]


def _merged(problems: list[Problem]) -> list[Problem]:
    """Join what the alternatives of one value say: "expected a text or a mapping; got 3"."""
    by_path: dict[tuple[str, str], list[Problem]] = {}
    for problem in problems:
        by_path.setdefault((problem.path, str(problem.place)), []).append(problem)
    # Where one alternative (a mapping) went deeper, that the value is none of the others says nothing more.
    deeper = {above for path, _ in by_path for above in _above(path)}
    return [
        _one(group)
        for (path, _), group in by_path.items()
        if not (path in deeper and all(problem.message.startswith("expected ") for problem in group))
    ]


def _above(path: str) -> list[str]:
    """Return the key paths that a path goes through.

    >>> _above("layers.1.linear")
    ['layers.1', 'layers']
    """
    above = []
    while path := path.rpartition(".")[0]:
        above.append(path)
    return above


def _one(group: list[Problem]) -> Problem:
    # What an alternative says of the contents is worth more than "expected another kind of value".
    first = next((problem for problem in group if not problem.message.startswith("expected ")), group[0])
    split = [problem.message.removeprefix("expected ").split("; got ") for problem in group]
    if len(group) == 1 or not all(problem.message.startswith("expected ") for problem in group):
        return first
    wanted = " or ".join(dict.fromkeys(part[0] for part in split))
    hint = next((problem.hint for problem in group if problem.hint), "")
    return Problem(f"expected {wanted}; got {split[0][-1]}", first.place, first.path, hint)


def _problem(schema: type[BaseModel], detail: ErrorDetails, document: Document, prefix: str) -> Problem:
    path = _data_path(detail["loc"], document.data, keep_last=detail["type"] in ("missing", "extra_forbidden"))
    dotted = ".".join(part for part in (prefix, *map(str, path)) if part)
    message, hint = _message(schema, detail, path)
    return Problem(message, document.place(path), dotted, hint)


def _data_path(loc: tuple[int | str, ...], data: Any, *, keep_last: bool) -> Path_:
    """Drop the parts of a pydantic location that name a union member instead of a key.

    `keep_last` for problems about a key that the data does not have.
    """
    path: list[str | int] = []
    at = data
    for index, part in enumerate(loc):
        inside = isinstance(at, dict) and part in at
        listed = isinstance(at, list | tuple) and isinstance(part, int) and part < len(at)
        if inside or listed:
            at = at[part]
            path.append(part)
        elif keep_last and index == len(loc) - 1:
            path.append(part)
    return tuple(path)


def _message(schema: type[BaseModel], detail: ErrorDetails, path: Path_) -> tuple[str, str]:
    kind, given, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        known = keys_at(schema, path[:-1])
        return f"unknown key {path[-1]!r}", did_you_mean(str(path[-1]), known)
    if kind == "missing":
        return "required key is missing", ""
    if kind == "value_error":
        return str(context.get("error", detail["msg"])), ""
    if kind == "literal_error":
        options = str(context.get("expected", "")).replace(" or ", ", ")
        words = [word.strip().strip("'") for word in options.split(",")]
        return f"expected one of {options}; got {_shown(given)}", did_you_mean(str(given), words) if _near(
            given, words
        ) else ""
    return f"expected {_expectation(kind, context, detail['msg'])}; got {_shown(given)}", ""


def _near(given: Any, words: list[str]) -> bool:
    return isinstance(given, str) and did_you_mean(given, words).startswith("Did")


_EXPECTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a whole number of reasonable size",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a text",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
}


def _expectation(kind: str, context: dict[str, Any], message: str) -> str:
    if kind in _EXPECTED:
        return _EXPECTED[kind]
    for name, word in (("gt", "more than"), ("ge", "at least"), ("lt", "less than"), ("le", "at most")):
        if name in context:
            return f"a number {word} {context[name]:g}"
    return message.removeprefix("Input should be ")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def keys_at(schema: type[BaseModel], path: Path_) -> list[str]:
    """Return the keys that a schema knows below a path."""
    at: Any = schema
    for part in path:
        if isinstance(part, int):
            at = _element_of(at)
            continue
        models = [model for model in models_of(at) if _name_of(model, part) is not None]
        if not models:
            return []
        at = models[0].model_fields[str(_name_of(models[0], part))].annotation
    names: list[str] = []
    for model in models_of(at):
        names += [field.alias or name for name, field in model.model_fields.items()]
    return names


def _name_of(model: type[BaseModel], key: str) -> str | None:
    """Return the field of a schema that a key of a file names, which may have another name in Python."""
    if key in model.model_fields:
        return key
    return next((name for name, field in model.model_fields.items() if field.alias == key), None)


def _element_of(annotation: Any) -> Any:
    """Return the type of what a list holds, of a list among alternatives too."""
    if typing.get_origin(annotation) in (list, tuple):
        return typing.get_args(annotation)[0]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType, typing.Annotated):
        return next((each for part in typing.get_args(annotation) if (each := _element_of(part)) is not None), None)
    return None


def field_at(schema: type[BaseModel], path: Path_) -> FieldInfo | None:
    """Return the field of a schema that a path names, of an entry of a free mapping one of its type; None if there is none."""
    at: Any = schema
    field: FieldInfo | None = None
    for part in path:
        models = [model for model in models_of(at) if part in model.model_fields]
        if models:
            field = models[0].model_fields[str(part)]
            at = field.annotation
        elif field is not None and typing.get_origin(at) is dict:
            at = typing.get_args(at)[1]
            field = FieldInfo.from_annotation(at)
        else:
            return None
    return field


def models_of(annotation: Any) -> list[type[BaseModel]]:
    """Return the models that a value of an annotation may be."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType, typing.Annotated):
        return [model for part in typing.get_args(annotation) for model in models_of(part)]
    return []
