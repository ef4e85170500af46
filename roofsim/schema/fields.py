"""Hold what schemas are made of: fields with their types and limits, functions that read and check values, and their values."""

from __future__ import annotations

import sys
import types
import typing
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class _Unset:
    """What a field without a default has for one."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final[Any] = _Unset()
BOUNDS: Final = ("gt", "ge", "lt", "le")
#: Options of a field that limit no values, or that `roofsim.schema.accept` knows.
_KNOWN: Final = frozenset(
    {*BOUNDS, "default", "default_factory", "alias", "description", "examples", "min_length", "max_length", "strict"}
)


class FieldOf:
    """A field of a schema; its annotation is evaluated when somebody reads it."""

    __slots__ = (
        "_annotation", "_metadata", "alias", "check", "default", "default_factory", "description", "examples", "name",
        "options", "owner", "text",
    )  # fmt: skip

    def __init__(self, default: Any = UNSET, **options: Any) -> None:
        self.default = default
        self.default_factory = options.get("default_factory")
        self.alias = options.get("alias")
        self.description = options.get("description")
        self.examples = options.get("examples")
        self._metadata: tuple[Any, ...] = ()
        self.options = options
        self.name = self.text = ""
        self.owner: Any = None
        self.check: Any = None
        self._annotation: Any = UNSET

    @classmethod
    def from_annotation(cls, annotation: Any) -> FieldOf:
        """Return a blank field of a type: that of an entry of a free mapping."""
        made = cls()
        made.text = annotation
        return made

    @property
    def bounds(self) -> dict[str, Any]:
        """Limits on a number, by pydantic's words for them."""
        return {word: self.options[word] for word in BOUNDS if self.options.get(word) is not None}

    @property
    def asks_more(self) -> bool:
        """Whether an option limits values in a way that only pydantic checks."""
        return any(word not in _KNOWN for word, asked in self.options.items() if asked is not None)

    @property
    def annotation(self) -> Any:
        """The type of the field, without what stands beside it in an outer `Annotated`, which is its `metadata`."""
        self._evaluate()
        return self._annotation

    @property
    def metadata(self) -> tuple[Any, ...]:
        """What stands beside the type in an outer `Annotated`."""
        self._evaluate()
        return self._metadata

    @property
    def whole(self) -> Any:
        """The type of the field as it was written."""
        if not isinstance(self.text, str):
            return self.text
        return eval(self.text, vars(sys.modules[self.owner.__module__]), vars(self.owner))

    def _evaluate(self) -> None:
        if self._annotation is UNSET:
            whole = self.whole
            self._metadata = getattr(whole, "__metadata__", ())
            self._annotation = whole.__origin__ if self._metadata else whole

    def is_required(self) -> bool:
        """Tell whether data must have it."""
        return self.default is UNSET and self.default_factory is None

    def get_default(self, *, call_default_factory: bool = True) -> Any:
        """Return the value of a field that data does not have."""
        if self.default_factory is not None and call_default_factory:
            return self.default_factory()
        return self.default.copy() if isinstance(self.default, dict | list | set) else self.default


class _Function:
    """A function of values, and whether it asks what surrounds them."""

    __slots__ = ("func", "takes_info")

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func
        code = getattr(func, "__code__", None)
        self.takes_info = code is not None and code.co_argcount > 1


class Before(_Function):
    """A function that reads a value before its type is checked."""


class After(_Function):
    """A function that checks or changes a value whose type is right."""


class JsonSchema:
    """What the JSON Schema says of a type."""

    __slots__ = ("json_schema",)

    def __init__(self, json_schema: dict[str, Any]) -> None:
        self.json_schema = json_schema


class Validator:
    """A validator on its way into a class."""

    __slots__ = ("fields", "func")

    def __init__(self, fields: tuple[str, ...], func: Any) -> None:
        self.fields, self.func = fields, func


class SchemaType(type):
    """The type of schemas: collects fields and validators, and evaluates nothing."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
        """Make a class of annotations: its fields and those of its bases."""
        fields: dict[str, FieldOf] = {}
        checks: dict[str, Validator] = {}
        config: dict[str, Any] = {}
        for base in reversed(bases):
            fields.update(getattr(base, "__schema_fields__", {}))
            checks.update(getattr(base, "__schema_checks__", {}))
            config.update(getattr(base, "model_config", {}))
        annotations = namespace.get("__annotations__", {})
        own = {key: namespace.pop(key, UNSET) for key in annotations if _is_field(key, annotations[key])}
        for key, value in list(namespace.items()):
            if isinstance(value, Validator):
                checks[key] = value
                namespace[key] = value.func
        namespace["model_config"] = config | namespace.get("model_config", {})
        made = super().__new__(cls, name, bases, namespace, **options)
        for key, default in own.items():
            field = default if isinstance(default, FieldOf) else FieldOf(default)
            field.name, field.text, field.owner = key, annotations[key], made
            fields[key] = field
        made.__schema_fields__ = fields  # type: ignore[attr-defined]
        made.__schema_checks__ = checks  # type: ignore[attr-defined]
        return made

    @property
    def model_fields(cls) -> dict[str, FieldOf]:
        """The fields by name, in order."""
        return cls.__schema_fields__  # type: ignore[attr-defined, no-any-return]


def _is_field(name: str, annotation: Any) -> bool:
    text = annotation if isinstance(annotation, str) else repr(annotation)
    return not name.startswith("_") and name != "model_config" and not text.startswith(("ClassVar", "typing.ClassVar"))


def fill(instance: Any, values: Mapping[str, Any], given: Any) -> Any:
    """Put values into a new instance, and note which of them were given."""
    instance.__dict__.update(values)
    object.__setattr__(instance, "_given", given)
    return instance


def form_in(instance: Any, form: Callable[[Any], Any]) -> Any:
    """Return the class and the values of an instance as `form` gives them, worked out once: nobody changes it."""
    try:
        return instance._form
    except AttributeError:
        made = (type(instance), *(form(value) for _, value in instance))
        object.__setattr__(instance, "_form", made)
        return made


def validators_of(schema: Any) -> tuple[list[Any], dict[str, list[Any]]]:
    """Return the methods that check whole instances, and by field those that check fields."""
    whole: list[Any] = []
    by_field: dict[str, list[Any]] = {}
    for name, check in schema.__schema_checks__.items():
        if not check.fields:
            whole.append(getattr(schema, name))
        for field in check.fields:
            by_field.setdefault(field, []).append(getattr(schema, name))
    return whole, by_field


def dumped(value: Any, exclude_unset: bool = False, exclude_none: bool = False) -> Any:
    """Return a value with the schemas in it as mappings."""
    if isinstance(type(value), SchemaType):
        return value.model_dump(exclude_unset=exclude_unset, exclude_none=exclude_none)
    if isinstance(value, dict):
        return {
            key: dumped(each, exclude_unset, exclude_none)
            for key, each in value.items()
            if not (exclude_none and each is None)
        }
    if isinstance(value, list | tuple | set):
        return type(value)(dumped(each, exclude_unset, exclude_none) for each in value)
    return value


def choices_of(field: Any) -> list[str]:
    """Return the words that a field takes: those of its type, or the examples where its type is wider."""
    words = [
        word
        for part in alternatives(field.annotation)
        if typing.get_origin(part) is Literal
        for word in typing.get_args(part)
    ]
    return [str(word) for word in words or field.examples or ()]


def alternatives(annotation: Any) -> list[Any]:
    """Return the types that an annotation allows: the parts of its unions, without what is said beside them."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return alternatives(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return [part for each in typing.get_args(annotation) for part in alternatives(each)]
    return [annotation]
