"""Find the facts of an engine by name: in their groups, as files and code have them, or by flat names, as scenarios may.

``fusion.cross_entropy`` and ``cross_entropy`` are the same fact. A flat name is that of the field, or the one of its `Flat`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from roofsim.errors import Problem, SpecError, did_you_mean
from roofsim.records import dataclass, field, replace
from roofsim.schema.base import BaseModel
from roofsim.spec.engine.base import Facts, Flat
from roofsim.spec.engine.versions import NO_FACTS
from roofsim.spec.reading.factor import refuse_empty
from roofsim.spec.reading.source import Document
from roofsim.spec.reading.validate import field_at, models_of, validate

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.errors import Place

E = TypeVar("E", bound=BaseModel)

#: A fact's keys: that of its group and its own, or its own alone.
Path_ = tuple[str, ...]

#: Facts that an engine may state by the architecture of the card, and where.
BY_CARD: Final[Mapping[Path_, Path_]] = {("attention", "generation"): ("attention", "generation_on")}


@cache
def groups(schema: type[BaseModel]) -> dict[str, type[Facts]]:
    """Return the groups of facts of an engine's schema."""
    fields = {name: field.annotation for name, field in schema.model_fields.items()}
    return {name: kind for name, kind in fields.items() if isinstance(kind, type) and issubclass(kind, Facts)}


@cache
def paths(schema: type[BaseModel]) -> dict[str, Path_]:
    """Return the flat name of every fact in a group, and where it is.

    Raises
    ------
    ValueError
        When two facts have one flat name.
    """
    by_name: dict[str, Path_] = {}
    for group, kind in groups(schema).items():
        for leaf, info in kind.model_fields.items():
            name = next((one.name for one in info.metadata if isinstance(one, Flat)), leaf)
            if name in by_name:
                raise ValueError(f"{'.'.join(by_name[name])} and {group}.{leaf} have one flat name, {name}")
            by_name[name] = (group, leaf)
    return by_name


def path_of(schema: type[BaseModel], name: str) -> Path_ | None:
    """Return where the fact of a flat or dotted name is; what follows a dot may go deeper. None: there is none."""
    head, *rest = name.split(".")
    known, inside = paths(schema), groups(schema)
    if rest and head in inside:
        return (head, *rest) if rest[0] in inside[head].model_fields else None
    if head in known:
        return (*known[head], *rest)
    return (head, *rest) if head in schema.model_fields and head not in inside else None


def names(schema: type[BaseModel]) -> list[str]:
    """Return every way to write a fact: flat, and in its group."""
    alone = [name for name in schema.model_fields if name not in groups(schema) and name not in NO_FACTS]
    return [*paths(schema), *alone, *map(".".join, paths(schema).values())]


def flat_name(schema: type[BaseModel], path: Path_) -> str:
    """Return the flat name of a fact; of a part of it with the rest behind a dot."""
    names = {where: name for name, where in paths(schema).items()}
    return ".".join((names[path[:2]], *path[2:])) if path[:2] in names else ".".join(path)


def for_all_cards(schema: type[BaseModel], facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return facts under which one that is stated holds on every card, unless its table by card is stated as well."""
    stated = [path_of(schema, ".".join(keys)) for keys, _ in leaves(schema, facts)]
    tables = {where: table for where, table in BY_CARD.items() if where in stated}
    named = {path[:2] for path in stated if path is not None}
    return {**facts, **{flat_name(schema, table): {} for table in tables.values() if table not in named}}


@dataclass(frozen=True)
class Stated:
    """An engine's document with its facts in their groups, and the names under which some were written."""

    document: Document
    written: dict[Path_, str] = field(default_factory=dict)

    def with_facts(
        self, schema: type[BaseModel], facts: Mapping[str, Any], place: Callable[[Path_], Place], path: str = ""
    ) -> Stated:
        """Return the document with other facts: flat, dotted or in their groups; the values of a group are kept beside them.

        Parameters
        ----------
        place
            Where the value of some keys in `facts` stands.
        path
            Of `facts` in what the user wrote.

        Raises
        ------
        SpecError
            For a fact that there is not, for one that is stated twice, and for a group without facts.
        """
        for key, value in facts.items():
            if key in groups(schema):
                refuse_empty(value, place((key,)), ".".join(filter(None, (path, str(key)))))
        changed, seen = self, dict[Path_, str]()
        for keys, value in leaves(schema, facts):
            name = ".".join(keys)
            where = path_of(schema, name)
            if where is None or where[0] in NO_FACTS:
                raise SpecError(_unknown(schema, name, place(keys), path))
            if where in seen:
                twice = (
                    f"{name!r} is stated twice"
                    if name == seen[where]
                    else f"{name!r} and {seen[where]!r} state the same engine fact"
                )
                raise SpecError(Problem(twice, place(keys), path))
            seen[where] = name
            document = changed.document.with_value(where, value, place(keys))
            written = {key: old for key, old in changed.written.items() if key != where}
            changed = Stated(document, written | ({where: name} if name != ".".join(where) else {}))
        return changed

    def read(self, schema: type[E], *, prefix: str = "", si: bool = False) -> E:
        """Return the engine; its problems name facts as they were written.

        Raises
        ------
        SpecError
            With all problems of the document.
        """
        try:
            return validate(schema, self.document, prefix=prefix, si=si)
        except SpecError as error:
            raise SpecError([self._as_written(schema, one, prefix) for one in error.problems]) from None

    def _as_written(self, schema: type[BaseModel], problem: Problem, prefix: str) -> Problem:
        start = f"{prefix}." if prefix else ""
        if not problem.path.startswith(start):
            return problem
        path = tuple(problem.path.removeprefix(start).split("."))
        if len(path) == 1 and problem.message.startswith("unknown key"):
            return replace(problem, hint=did_you_mean(path[0], [*schema.model_fields, *paths(schema)]))
        for length in range(len(path), 0, -1):
            if path[:length] in self.written:
                return replace(problem, path=start + ".".join((self.written[path[:length]], *path[length:])))
        return problem


def _unknown(schema: type[BaseModel], name: str, place: Place, path: str) -> Problem:
    """Return the problem of a fact that there is not; of a group without facts, with how to write one."""
    if name in groups(schema):
        fact = next(iter(groups(schema)[name].model_fields))
        hint = f"State facts of it: {name}: {{{fact}: ...}}, or {name}.{fact}."
        return Problem(f"{name} is a group of engine facts; expected a mapping", place, path, hint)
    return Problem(f"unknown engine fact {name!r}", place, path, did_you_mean(name, names(schema)))


def leaves(schema: type[BaseModel], facts: Mapping[str, Any]) -> list[tuple[Path_, Any]]:
    """Return keys and value of each fact that is stated, and of each part of one that has parts.

    Tables, whose keys are the user's, are one value. The flat names of some facts are those of groups as well; a mapping is then
    the group.
    """
    inside = groups(schema)
    stated: list[tuple[Path_, Any]] = []
    for key, value in facts.items():
        whole = key in inside and isinstance(value, Mapping)
        known = [((key, str(leaf)), one) for leaf, one in value.items()] if whole else [((str(key),), value)]
        for keys, one in known:
            stated += _parts(schema, keys, one)
    return stated


def _parts(schema: type[BaseModel], keys: Path_, value: Any) -> list[tuple[Path_, Any]]:
    """Return keys and value of each part of a fact; its own of one without parts, and of ``{}``: all parts as by default."""
    if not has_parts(schema, keys) or not isinstance(value, Mapping) or not value:
        return [(keys, value)]
    return [part for key, one in value.items() for part in _parts(schema, (*keys, str(key)), one)]


def has_parts(schema: type[BaseModel], keys: Path_) -> bool:
    """Tell whether a fact has parts of names of their own, each of which may be stated by itself."""
    where = path_of(schema, ".".join(keys))
    info = None if where is None else field_at(schema, where)
    return info is not None and bool(models_of(info.annotation))


def stated_names(schema: type[BaseModel], facts: Mapping[str, Any]) -> list[str]:
    """Return the flat names of the facts that are stated, however they are written; facts that there are not are left out."""
    stated = (path_of(schema, ".".join(keys)) for keys, value in leaves(schema, facts) if value is not None)
    return list(dict.fromkeys(flat_name(schema, path[:2]) for path in stated if path is not None))


def description_of(schema: type[BaseModel], name: str) -> str:
    """Return what a fact means; nothing for one that there is not."""
    path = path_of(schema, name)
    info = None if path is None else field_at(schema, path)
    return "" if info is None else info.description or ""


def in_groups(schema: type[BaseModel], document: Document) -> Stated:
    """Return an engine's document with flat facts in their groups, those of its versions' and variants' sources too.

    Raises
    ------
    SpecError
        For a fact that is stated flat and in its group.
    """
    if not isinstance(document.data, dict):
        return Stated(document)
    known, inside = paths(schema), groups(schema)
    flat = {
        key for key, value in document.data.items() if key in known and not (key in inside and isinstance(value, dict))
    }
    stated = Stated(Document({key: value for key, value in document.data.items() if key not in flat}, *_rest(document)))
    for key in document.data:
        if key in flat:
            stated = _moved(stated, document, key, known[key])
    data = stated.document.data
    if isinstance(data.get("sources"), dict):
        data = data | {"sources": {_dotted(schema, key): value for key, value in data["sources"].items()}}
    return replace(stated, document=replace(stated.document, data=data))


def _rest(document: Document) -> tuple[str, dict[Any, Place]]:
    return document.source, document.places


def _moved(stated: Stated, document: Document, key: str, path: Path_) -> Stated:
    """Return the document with a flat fact in its group, and the places of its parts."""
    group, leaf = path
    below = stated.document.data.get(group)
    place = document.place((key,))
    if isinstance(below, dict) and leaf in below:
        raise SpecError(Problem(f"{key!r} and {'.'.join(path)!r} state the same engine fact", place, key))
    moved = stated.document.with_value(path, document.data[key], place)
    places = {(*path, *where[1:]): at for where, at in document.places.items() if where[:1] == (key,)}
    moved = replace(moved, places=moved.places | places)
    return Stated(moved, stated.written | {path: key})


def _dotted(schema: type[BaseModel], name: Any) -> str:
    path = path_of(schema, str(name))
    return str(name) if path is None else ".".join(path)
