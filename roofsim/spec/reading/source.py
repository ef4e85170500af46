"""Read YAML into plain data that still knows where each value stood; the only module that touches yaml."""

from __future__ import annotations

import re
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import yaml

from roofsim.errors import Place, Problem, SpecError, shortened
from roofsim.output import may_read
from roofsim.records import dataclass, field, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

T = TypeVar("T")

#: A specification is a page of text; whatever is larger is something else.
LARGEST_FILE: Final = 4 * 2**20
#: Aliases may repeat a part, but not multiply into a bomb.
MOST_VALUES: Final = 50_000
DEEPEST: Final = 60
#: Characters of a number: beyond them it is no count and no quantity, and reading it takes time.
LONGEST_NUMBER: Final = 300

_TAG = "tag:yaml.org,2002:"
_Loader: Any = type("_Loader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {})
# YAML 1.1 takes 1e9 for a word, as it has neither point nor sign; 1.2 and people take it for a number.
_Loader.add_implicit_resolver(f"{_TAG}float", re.compile(r"[-+]?\d+(?:\.\d*)?[eE][-+]?\d+$"), list("-+0123456789"))
_scalars = yaml.constructor.SafeConstructor()
_NUMBERS: Final = {
    "int": _scalars.construct_yaml_int,
    "float": _scalars.construct_yaml_float,
    "bool": _scalars.construct_yaml_bool,
    "null": _scalars.construct_yaml_null,
}

Path_ = tuple[str | int, ...]


@dataclass
class Document:
    """Data read from a file (or made in memory), with the place of every key path."""

    data: Any
    source: str
    places: dict[Path_, Place] = field(default_factory=dict)
    made: dict[Hashable, Any] | None = field(default=None, compare=False, repr=False)
    """Of a file of the catalog, which is read once: what was made of it. Nobody changes such a document; `with_value` copies."""

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what was made of this document under a key, or make it; only files of the catalog remember."""
        if self.made is None:
            return make()
        if key not in self.made:
            self.made[key] = make()
        made: T = self.made[key]
        return made

    def named(self, name: str) -> Document:
        """Return a mapping with a name, where it has none of its own."""
        made = None if self.made is None else dict[Any, Any]()
        return self.once(("named", name), lambda: Document({"name": name, **self.data}, self.source, self.places, made))

    def place(self, path: Path_) -> Place:
        """Return where the deepest known part of a path stands."""
        for length in range(len(path), -1, -1):
            place = self.places.get(path[:length])
            if place is not None:
                return place
        return Place(self.source)

    def states(self, *path: str) -> bool:
        """Tell whether a key has a value of its own, whichever way it came: in the file, by a flag, in a mapping."""
        at = self.data
        for part in path:
            if not isinstance(at, dict) or at.get(part) is None:
                return False
            at = at[part]
        return True

    def part(self, path: Path_, data: Any) -> Document:
        """Return the document below a path, with its places."""
        size = len(path)
        places = {key[size:]: place for key, place in self.places.items() if key[:size] == path}
        return Document(data, self.source, places)

    def with_value(self, path: Path_, value: Any, place: Place) -> Document:
        """Return a copy in which `path` holds `value`; mappings on the way are made where missing.

        Raises
        ------
        SpecError
            When something on the way is not a mapping.
        """
        value = plain(value)
        data = dict(self.data) if isinstance(self.data, dict) else {}
        at: dict[Any, Any] = data
        for depth, key in enumerate(path[:-1]):
            below = at.get(key)
            if below is not None and not isinstance(below, dict):
                where = ".".join(map(str, path[: depth + 1]))
                raise SpecError(Problem(f"{where} is {below!r}, not a mapping that could hold {path[-1]!r}", place))
            at[key] = dict(below or {})
            at = at[key]
        at[path[-1]] = value
        return Document(data, self.source, {**self.places, path: place})


def from_mapping(data: Any, source: str = "<mapping>") -> Document:
    """Wrap data that was made in Python; numbers of numpy (and so of pandas) become those of Python."""
    return Document(plain(data), source)


def plain(data: Any, depth: int = 0) -> Any:
    """Return data with the scalars of numpy as Python's; what is nested beyond reason stays as it is.

    >>> import numpy as np
    >>> plain({"batch_size": np.int64(4), "parallel": [np.float64(2.5), "a"]})
    {'batch_size': 4, 'parallel': [2.5, 'a']}
    """
    if depth > DEEPEST:
        return data
    if isinstance(data, dict):
        return {plain(key, depth + 1): plain(value, depth + 1) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [plain(value, depth + 1) for value in data]
    is_scalar = getattr(data, "shape", None) == () and hasattr(data, "item")
    return data.item() if is_scalar else data


def is_file(path: Path) -> bool:
    """Tell whether there is such a file; a name that no file can have, or a folder that may not be read, has none."""
    try:
        return may_read(path) and path.is_file()
    except OSError:
        return False


def is_folder(path: Path) -> bool:
    """Tell whether there is such a folder."""
    try:
        return may_read(path) and path.is_dir()
    except OSError:
        return False


#: What the bundle for browsers holds beside the YAML files of the catalog (`roofsim.spec.reading.parsed`).
_PARSED: Final = Path(__file__).resolve().parents[2] / "_catalog" / "parsed.bin"


def read_yaml(path: Path) -> Document:
    """Read a YAML file.

    Raises
    ------
    SpecError
        For a file that cannot be read, is too large, empty, not UTF-8, not YAML, has duplicate keys, foreign tags,
        cycles, several documents, or aliases that multiply beyond reason.
    """
    text = read_text(path)
    if not _PARSED.exists():
        return parse_yaml(text, str(path))
    from roofsim.spec.reading.parsed import parsed

    known = parsed(path, text)
    return parse_yaml(text, str(path)) if known is None else Document(known[0], str(path), known[1])


#: Files of the catalog that were read, each with the time and size of what was read.
_KEPT: Final[dict[Path, tuple[tuple[int, int], Document]]] = {}


def read_kept(path: Path) -> Document:
    """Return a file of the catalog, read again only where it has changed. The document is shared: it must not be changed."""
    try:
        status = path.stat()
    except OSError:
        return read_yaml(path)  # says what is wrong
    version = status.st_mtime_ns, status.st_size
    known = _KEPT.get(path)
    if known is None or known[0] != version:
        known = version, replace(read_yaml(path), made={})
        _KEPT[path] = known
    return known[1]


def read_text(path: Path, kind: str = "YAML file") -> str:
    """Return the text of a file.

    Raises
    ------
    SpecError
        For a file that cannot be read, is too large or not UTF-8, and for what is no file.
    """
    try:
        if path.is_dir():
            raise SpecError(Problem(f"is a directory; expected a {kind}", Place(str(path))))
        if not path.is_file():
            problem = "is not a regular file" if path.exists() else "no such file"
            raise SpecError(Problem(problem, Place(str(path))))
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise SpecError(
                Problem(
                    f"has {size / 2**20:.0f} MiB; a specification has at most {LARGEST_FILE // 2**20}", Place(str(path))
                )
            )
        raw = path.read_bytes()
    except OSError as error:
        raise SpecError(Problem(f"cannot be read: {error.strerror or error}", Place(str(path)))) from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise SpecError(Problem(f"is not UTF-8 text (byte {error.start})", Place(str(path), line))) from None


def parse_yaml(text: str, source: str) -> Document:
    """Read YAML text; `source` names it in messages."""
    try:
        loader = _Loader(text)
        try:
            reader = _YamlReader(loader, source, text.splitlines())
            data = reader.document()
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SpecError(_syntax_problem(error, text, source)) from None
    return Document(data, source, reader.places)


def parse_value(text: str, source: str) -> Any:
    """Read one value as YAML would (for ``--set key=value``): a number, a word, a list or mapping in flow style."""
    if not text.strip():
        return None
    return parse_yaml(text, source).data


def _syntax_problem(error: Exception, text: str, source: str) -> Problem:
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or str(error).split("\n", 1)[0]
    lines = text.splitlines()
    wrong = f"is nested deeper than {DEEPEST} levels" if "nesting depth" in what else f"is not valid YAML: {what}"
    if mark is None:
        return Problem(wrong, Place(source))
    line = lines[mark.line] if mark.line < len(lines) else ""
    return Problem(wrong, Place(source, mark.line + 1, mark.column + 1, line))


@dataclass(frozen=True)
class _Anchored:
    """A part of a document that aliases repeat: its data, the paths below it, and the characters of its texts."""

    data: Any
    root: Path_
    paths: list[Path_]
    characters: int


class _YamlReader:
    """Turn the events of a YAML parser into data, noting the place of each key.

    Depth, values and characters are bounded event by event, with what aliases repeat: nothing is read, let alone
    expanded, that goes beyond them.
    """

    def __init__(self, loader: Any, source: str, lines: list[str]) -> None:
        self.loader = loader
        self.source = source
        self.lines = lines
        self.places: dict[Path_, Place] = {}
        self._order: list[Path_] = []
        self._anchors: dict[str, _Anchored | None] = {}  # None: still open
        self._characters = 0

    def document(self) -> Any:
        """Return the data of the only document.

        Raises
        ------
        SpecError
            When there is none, or more than one, or it goes beyond a bound.
        """
        self.loader.get_event()  # the start of the stream
        event = self.loader.get_event()
        if isinstance(event, yaml.StreamEndEvent):
            raise SpecError(Problem("is empty; expected a mapping such as 'model: gpt'", Place(self.source, 1)))
        data = self._value(self.loader.get_event(), ())
        self.loader.get_event()  # the end of the document
        event = self.loader.get_event()
        if not isinstance(event, yaml.StreamEndEvent):
            raise self._fail(event, "is not valid YAML: a second document begins here; expected one", ())
        return data

    def _place(self, event: Any) -> Place:
        mark = event.start_mark
        assert mark is not None
        text = self.lines[mark.line] if mark.line < len(self.lines) else None
        return Place(self.source, mark.line + 1, mark.column + 1, text)

    def _fail(self, event: Any, message: str, path: Path_) -> SpecError:
        return SpecError(Problem(message, self._place(event), ".".join(map(str, path))))

    def _value(self, event: Any, path: Path_) -> Any:
        if isinstance(event, yaml.AliasEvent):
            return self._repeated(event, path)
        self._note(event, path, self._place(event))
        first, before = len(self._order), self._characters
        assert isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent | yaml.ScalarEvent)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        if isinstance(event, yaml.MappingStartEvent):
            data: Any = self._mapping(event, path)
        elif isinstance(event, yaml.SequenceStartEvent):
            data = self._sequence(event, path)
        else:
            data = self._scalar(event, path)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(data, path, self._order[first:], self._characters - before)
        return data

    def _note(self, event: Any, path: Path_, place: Place) -> None:
        """Count a value and keep its place, unless its key's is known.

        Raises
        ------
        SpecError
            When it is one too many, or too deep.
        """
        if len(path) > DEEPEST:
            raise self._fail(event, f"is nested deeper than {DEEPEST} levels", path[:5])
        self.places.setdefault(path, place)
        self._order.append(path)
        if len(self._order) > MOST_VALUES:
            raise self._fail(event, f"expands to more than {MOST_VALUES} values; aliases multiply too far", ())

    def _repeated(self, event: Any, path: Path_) -> Any:
        if event.anchor not in self._anchors:
            raise self._fail(event, f"is not valid YAML: alias of an anchor that is not there: {event.anchor!r}", path)
        part = self._anchors[event.anchor]
        if part is None:
            raise self._fail(event, "refers to itself", path)
        size = len(part.root)
        self._note(event, path, self.places[part.root])
        for inner in part.paths:
            self._note(event, path + inner[size:], self.places[inner])
        self._count(event, part.characters)
        return deepcopy(part.data)

    def _count(self, event: Any, characters: int) -> None:
        self._characters += characters
        if self._characters > LARGEST_FILE:
            raise self._fail(event, f"expands to more than {LARGEST_FILE} characters; aliases multiply too far", ())

    def _own_tag(self, event: Any, kind: str, path: Path_) -> None:
        if event.tag not in (None, "!", f"{_TAG}{kind}"):
            raise self._fail(event, f"has the tag {event.tag!r}; only plain YAML is read", path)

    def _sequence(self, event: Any, path: Path_) -> list[Any]:
        self._own_tag(event, "seq", path)
        result: list[Any] = []
        while not isinstance(item := self.loader.get_event(), yaml.SequenceEndEvent):
            result.append(self._value(item, (*path, len(result))))
        return result

    def _mapping(self, event: Any, path: Path_) -> dict[str, Any]:
        self._own_tag(event, "map", path)
        result: dict[str, Any] = {}
        while not isinstance(item := self.loader.get_event(), yaml.MappingEndEvent):
            if not isinstance(item, yaml.ScalarEvent):
                raise self._fail(item, "has a key that is not a plain word", path)
            key = str(item.value)
            here = (*path, key)
            if key in result:
                raise self._fail(item, f"duplicate key {key!r} (first on line {self.places[here].line})", path)
            self._count(item, len(key))
            self.places[here] = self._place(item)
            result[key] = self._value(self.loader.get_event(), here)
        return result

    def _scalar(self, event: Any, path: Path_) -> Any:
        tag = event.tag
        if tag in (None, "!"):
            tag = self.loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        kind = str(tag).removeprefix(_TAG)
        self._count(event, len(event.value))
        if kind in _NUMBERS:
            try:
                if len(event.value) <= LONGEST_NUMBER:
                    return _NUMBERS[kind](yaml.ScalarNode(tag, event.value))
            except (ValueError, OverflowError, KeyError):  # a word tagged as a number, a number no double holds
                pass
            raise self._fail(event, f"cannot read {shortened(event.value, 40)!r} as a number", path)
        if kind in ("str", "timestamp"):
            return event.value
        raise self._fail(event, f"has the tag {tag!r}; only plain YAML is read", path)
