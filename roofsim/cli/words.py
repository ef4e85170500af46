"""Declare the arguments and options of verbs, in words that need no parser: `typer` is imported when a command asks for it."""

from __future__ import annotations

import importlib
import types
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from roofsim.cli.verbs import Verb

#: What the text of an argument is turned into, by the name of its kind.
KINDS: Final[dict[str, Any]] = {"flag": bool, "text": str, "path": Path, "whole": int}


class Declared:
    """An argument (without flags) or an option of a verb, as its annotation states it.

    Attributes
    ----------
    flags
        Its names on the command line; none of an argument.
    help, metavar
        What it means, and what stands for its value.
    panel
        Section of the help; None: what to print.
    minimum
        Of a whole number.
    show_default
        Whether the help states the default of the function.
    complete
        What completes its value.
    """

    __slots__ = ("complete", "flags", "help", "hidden", "metavar", "minimum", "panel", "show_default")

    def __init__(
        self,
        flags: tuple[str, ...],
        help: str,  # noqa: A002
        metavar: str | None,
        panel: str | None = None,
        minimum: int | None = None,
        show_default: bool = True,
        hidden: bool = False,
        complete: Callable[[str], list[str]] | None = None,
    ) -> None:
        self.flags, self.help, self.metavar, self.panel = flags, help, metavar, panel
        self.minimum, self.show_default, self.hidden, self.complete = minimum, show_default, hidden, complete


def Option(*flags: str, help: str = "", metavar: str | None = None, **others: Any) -> Declared:  # noqa: A002, N802
    """Declare an option."""
    return Declared(flags, help, metavar, **others)


def Argument(*, help: str = "", metavar: str | None = None, **others: Any) -> Declared:  # noqa: A002, N802
    """Declare an argument."""
    return Declared((), help, metavar, **others)


class VerbParameter:
    """A parameter of a verb's function: what is declared of it, the kind of its values, and what it is if left out."""

    def __init__(self, name: str, kind: Any, declared: Declared, default: Any, *, required: bool) -> None:
        self.name, self.declared, self.default, self.required = name, declared, default, required
        self.many = typing.get_origin(kind) is list
        self.kind = "text" if self.many else _kind_of(kind)
        self.type = kind

    @property
    def flags(self) -> tuple[str, ...]:
        """Its names on the command line."""
        return self.declared.flags


def _kind_of(annotation: Any) -> str:
    kinds = [kind for kind in _alternatives(annotation) if kind is not type(None)]
    return next(name for name, kind in KINDS.items() if kind in kinds)


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return typing.get_args(annotation) if union else (annotation,)


def parameters_of(function: Callable[..., Any]) -> list[VerbParameter]:
    """Return the parameters of a verb's function: those that it declares, then those that `scenario_options` gave it."""
    verb: Any = getattr(function, "__wrapped__", function)
    defaults = dict(verb.__kwdefaults__ or {})
    positional = verb.__code__.co_varnames[: verb.__code__.co_argcount]
    given = verb.__defaults__ or ()
    defaults.update(zip(positional[len(positional) - len(given) :], given, strict=True))
    parameters = []
    for name, text in verb.__annotations__.items():
        annotation = (
            eval(text, verb.__globals__) if isinstance(text, str) and name not in ("overrides", "return") else None
        )
        if typing.get_origin(annotation) is Annotated:
            kind, declared = typing.get_args(annotation)
            parameters.append(
                VerbParameter(name, _unwrapped(kind), declared, defaults.get(name), required=name not in defaults)
            )
    more: Callable[[], Iterable[VerbParameter]] = getattr(function, "more_parameters", tuple)
    return [*parameters, *more()]


def _unwrapped(kind: Any) -> Any:
    """Return the list in ``list[str] | None``, other kinds as they are."""
    return next((each for each in _alternatives(kind) if typing.get_origin(each) is list), kind)


def target_of(verb: Verb) -> Any:
    """Return what a verb's table names: its function, or the table of a group."""
    module, _, name = verb.home.partition(":")
    return getattr(importlib.import_module(module), name)
