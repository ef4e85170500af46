"""Make records: what `dataclasses` makes, at a fifth of the cost of a class, and faster to create and to change.

The standard library writes and compiles six functions when a class is created, half a millisecond each time, whether they are
needed or not. Here all classes share them; only the constructor of a class that is used often is compiled.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace

    Record = Any

    def computed(*names: str) -> Any:
        """Describe a field that ``__post_init__`` works out of other fields."""
        del names
        return field(init=False)


__all__ = ["MISSING", "asdict", "computed", "dataclass", "field", "fields", "is_dataclass", "replace"]

#: Objects of a class after which its constructor is compiled: that takes as long as making a hundred of them without.
_OFTEN: Final = 40
_FIELDS: Final = "__record_fields__"
#: Gives a new record all its values at once, frozen or not.
_give: Final = object.__setattr__


class _Missing:
    """What a field without a default has for one."""

    def __repr__(self) -> str:
        return "MISSING"


class _Field:
    """A field of a record: its name, its default, and what it takes part in."""

    __slots__ = ("compare", "default", "default_factory", "init", "kw_only", "name", "of", "repr", "type")

    def __init__(
        self,
        default: Any,
        default_factory: Any,
        init: bool,
        repr: bool,  # noqa: A002
        compare: bool,
        of: tuple[str, ...] | None = None,
    ) -> None:
        self.default, self.default_factory = default, default_factory
        self.init, self.repr, self.compare, self.of = init, repr, compare, of
        self.name, self.type, self.kw_only = "", "", False

    @property
    def required(self) -> bool:
        return self.init and self.default is MISSING and self.default_factory is MISSING


class _StandardFields:
    """The fields as `dataclasses` knows them, for its own functions; made when somebody asks."""

    def __get__(self, record: Any, owner: type) -> dict[str, Any]:
        import dataclasses

        made = {}
        for name, ours in getattr(owner, _FIELDS).items():
            default = dataclasses.MISSING if ours.default is MISSING else ours.default
            factory: Any = dataclasses.MISSING if ours.default_factory is MISSING else ours.default_factory
            given: dict[str, Any] = (
                {"default": default} if factory is dataclasses.MISSING else {"default_factory": factory}
            )
            theirs: Any = dataclasses.field(
                init=ours.init, repr=ours.repr, compare=ours.compare, kw_only=ours.kw_only, **given
            )
            theirs.name, theirs.type = name, ours.type
            theirs._field_type = dataclasses._FIELD  # type: ignore[attr-defined]
            made[name] = theirs
        return made


if not TYPE_CHECKING:
    MISSING = _Missing()

    def field(*, default=MISSING, default_factory=MISSING, init=True, repr=True, compare=True):  # noqa: A002
        """Describe a field, as `dataclasses.field` does."""
        return _Field(default, default_factory, init, repr, compare)

    def computed(*names):
        """Describe a field that ``__post_init__`` works out of other fields, of these names, and of nothing else."""
        return _Field(MISSING, MISSING, init=False, repr=True, compare=True, of=names)

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True, kw_only=False, slots=False):  # noqa: A002
        """Make a class a record, as `dataclasses.dataclass` does; `slots` is accepted and changes nothing."""
        del slots
        if cls is None:
            return lambda decorated: _made(decorated, frozen, eq, repr, kw_only)
        return _made(cls, frozen, eq, repr, kw_only)

    def fields(record):
        """Return the fields of a record or of its class, in order."""
        return tuple(getattr(record, _FIELDS).values())

    def is_dataclass(value):
        """Tell whether a value is a record, or a class of records."""
        return hasattr(value, _FIELDS)

    def replace(record, /, **changes):
        """Return a copy of a record in which some fields have other values.

        Raises
        ------
        TypeError
            For a name that is no field of it, or of one that is computed.
        """
        cls = type(record)
        known = cls.__record_fields__
        copy = cls.__new__(cls)
        values = record.__dict__ | changes
        if len(values) != len(known):  # a cached property, or a name that is no field
            wrong = [name for name in changes if name not in known]
            if wrong:
                raise TypeError(f"{cls.__qualname__} has no field {wrong[0]!r}")
            for name in [name for name in values if name not in known]:
                del values[name]
        _give(copy, "__dict__", values)
        if not cls.__record_plain__ and not (cls.__record_of__ and cls.__record_of__.isdisjoint(changes)):
            _work_out(copy, changes)
        return copy

    def asdict(record):
        """Return a record as a dictionary, with all records inside it as dictionaries too."""
        return {name: _plain(getattr(record, name)) for name in getattr(record, _FIELDS)}


def _work_out(copy: Any, changes: dict[str, Any]) -> None:
    """Give a changed copy anew what its class computes from its other fields, as its constructor does."""
    cls = type(copy)
    for name, one in cls.__record_computed__.items():
        if name in changes:
            raise TypeError(f"{cls.__qualname__} has no field {name!r}: it is computed")
        if one.default_factory is not MISSING:
            copy.__dict__[name] = one.default_factory()
        elif one.default is not MISSING:
            copy.__dict__[name] = one.default
    if hasattr(cls, "__post_init__"):
        copy.__post_init__()


def _plain(value: Any) -> Any:
    if hasattr(type(value), _FIELDS):
        return asdict(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_plain, value))
    if isinstance(value, list | tuple | set):
        return type(value)(map(_plain, value))
    if isinstance(value, dict):
        return type(value)((_plain(key), _plain(each)) for key, each in value.items())
    return value


def _made(cls: Any, frozen: bool, eq: bool, shown: bool, kw_only: bool) -> Any:
    """Give a class its fields and the functions that all records share."""
    known: dict[str, _Field] = {}
    for base in reversed(cls.__mro__[1:]):
        known.update(base.__dict__.get(_FIELDS, {}))
    own = cls.__dict__
    for name, annotation in own.get("__annotations__", {}).items():
        if _is_class_variable(annotation):
            continue
        known[name] = _field_of(cls, name, annotation, kw_only)
    cls.__record_fields__ = known
    cls.__record_computed__ = {name: one for name, one in known.items() if not one.init}
    cls.__record_plain__ = not hasattr(cls, "__post_init__") and not cls.__record_computed__
    # What all that is computed depends on, with its own names, which no change may have; nothing where a class does not say.
    stated = [(name, *one.of) for name, one in cls.__record_computed__.items() if one.of is not None]
    cls.__record_of__ = frozenset().union(*stated if len(stated) == len(cls.__record_computed__) else ())
    cls.__record_frozen__ = frozen
    cls.__dataclass_fields__ = _StandardFields()
    setattr(cls, "__match_args__", tuple(name for name, one in known.items() if one.init and not one.kw_only))  # noqa: B010
    cls.__init__ = _first_constructor(cls)
    if shown and "__repr__" not in own:
        cls.__repr__ = _shown
    if frozen:
        cls.__setattr__ = _refuse_to_set
        cls.__delattr__ = _refuse_to_delete
    if eq:
        if "__eq__" not in own:
            cls.__eq__ = _equal
        if own.get("__hash__") is None:
            cls.__hash__ = _hashed if frozen else None
    return cls


def _is_class_variable(annotation: Any) -> bool:
    text = annotation if isinstance(annotation, str) else repr(annotation)
    return text.startswith(("ClassVar", "typing.ClassVar"))


def _field_of(cls: Any, name: str, annotation: Any, kw_only: bool) -> _Field:
    default = cls.__dict__.get(name, MISSING)
    if isinstance(default, _Field):
        made: Any = default
        if made.default is MISSING:
            delattr(cls, name)
        else:
            setattr(cls, name, made.default)
    else:
        if isinstance(default, list | dict | set):
            raise TypeError(
                f"{cls.__qualname__}.{name}: a default that can change is shared by all; use default_factory"
            )
        made = _Field(default, MISSING, init=True, repr=True, compare=True)
    made.name, made.type, made.kw_only = name, annotation, kw_only
    return made  # type: ignore[no-any-return]


# -- constructors -------------------------------------------------------------------------------------------------------


def _first_constructor(cls: Any) -> Callable[..., None]:
    """Return a constructor that needs no code of its own; it gives way to a compiled one when it was called often."""
    calls = 0

    def __init__(self: Any, /, *args: Any, **given: Any) -> None:  # noqa: N807
        nonlocal calls
        calls += 1
        if calls > _OFTEN or not _filled(self, cls, args, given):
            _compiled(cls)(self, *args, **given)  # says what is wrong, if something is
        elif not cls.__record_plain__ and hasattr(self, "__post_init__"):
            self.__post_init__()

    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    return __init__


def _filled(self: Any, cls: Any, args: tuple[Any, ...], given: dict[str, Any]) -> bool:
    """Give a new record its values; False where arguments are missing, too many, or meant for no field."""
    rest = dict(zip(cls.__match_args__, args, strict=False))
    if len(rest) < len(args) or rest.keys() & given.keys():
        return False
    rest.update(given)
    values, met = self.__dict__, 0
    for name, one in cls.__record_fields__.items():
        if name in rest and one.init:
            values[name] = rest[name]
            met += 1
        elif one.default is not MISSING:
            values[name] = one.default
        elif one.default_factory is not MISSING:
            values[name] = one.default_factory()
        elif one.init:
            return False
    return met == len(rest)


def _compiled(cls: Any) -> Callable[..., None]:
    """Write the constructor of a class, give it to the class, and return it."""
    known: dict[str, _Field] = cls.__record_fields__
    names: dict[str, Any] = {"_MISSING": MISSING}
    ordered = [one for one in known.values() if one.init and not one.kw_only]
    named = [one for one in known.values() if one.init and one.kw_only]
    parameters = ["self", *(_parameter(one, names) for one in ordered)]
    if named:
        parameters += ["*", *(_parameter(one, names) for one in named)]
    body = ["_values = self.__dict__"]
    for name, one in known.items():
        if one.default_factory is not MISSING:
            names[f"_make_{name}"] = one.default_factory
            made = f"_make_{name}()"
            body.append(
                f"_values[{name!r}] = {made} if {name} is _MISSING else {name}"
                if one.init
                else f"_values[{name!r}] = {made}"
            )
        elif one.init:
            body.append(f"_values[{name!r}] = {name}")
        elif one.default is not MISSING:
            body.append(f"_values[{name!r}] = _default_{name}")
            names[f"_default_{name}"] = one.default
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    source = f"def __init__({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in body)
    exec(compile(source, f"<constructor of {cls.__qualname__}>", "exec"), names)
    constructor: Any = names["__init__"]
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    cls.__init__ = constructor
    return constructor  # type: ignore[no-any-return]


def _parameter(one: _Field, names: dict[str, Any]) -> str:
    if one.default is not MISSING:
        names[f"_default_{one.name}"] = one.default
        return f"{one.name}=_default_{one.name}"
    return one.name if one.required else f"{one.name}=_MISSING"


# -- what all records share ---------------------------------------------------------------------------------------------


def _shown(self: Any) -> str:
    running = _shown.__dict__.setdefault("running", set())
    if id(self) in running:
        return "..."
    running.add(id(self))
    try:
        parts = (f"{name}={getattr(self, name)!r}" for name, one in self.__record_fields__.items() if one.repr)
        return f"{type(self).__qualname__}({', '.join(parts)})"
    finally:
        running.discard(id(self))


def _compared(cls: Any) -> Callable[[Any], Any]:
    """Return what reads the fields that a class is compared by, made once."""
    own = cls.__dict__.get("__record_compared__")
    if own is None:
        names = [name for name, one in cls.__record_fields__.items() if one.compare]
        own = attrgetter(*names) if names else _nothing
        cls.__record_compared__ = own
    return own  # type: ignore[no-any-return]


def _nothing(record: Any) -> tuple[()]:
    del record
    return ()


def _equal(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    if self is other:
        return True
    read = _compared(self.__class__)
    return (read(self),) == (read(other),)


def _hashed(self: Any) -> int:
    return hash(_compared(self.__class__)(self))


def _refuse_to_set(self: Any, name: str, value: Any) -> None:
    del value
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r} of {type(self).__qualname__}")


def _refuse_to_delete(self: Any, name: str) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r} of {type(self).__qualname__}")
