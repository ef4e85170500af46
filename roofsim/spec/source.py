"""Read YAML into plain data that still knows where each value stood; the only module that touches yaml."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from roofsim.errors import Place, Problem, SpecError

#: A specification is a page of text; whatever is larger is something else.
LARGEST_FILE: Final = 4 * 2**20
#: Aliases may repeat a part, but not multiply into a bomb.
MOST_VALUES: Final = 200_000
DEEPEST: Final = 60

_TAG = "tag:yaml.org,2002:"
_Loader: Any = type("_Loader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {})
# YAML 1.1 takes 1e9 for a word, as it has neither point nor sign; 1.2 and people take it for a number.
_Loader.add_implicit_resolver(f"{_TAG}float", re.compile(r"[-+]?\d+(?:\.\d*)?[eE][-+]?\d+$"), list("-+0123456789"))
_scalars = yaml.constructor.SafeConstructor()

Path_ = tuple[str | int, ...]


@dataclass
class Document:
    """Data read from a file (or made in memory), with the place of every key path."""

    data: Any
    source: str
    places: dict[Path_, Place] = field(default_factory=dict)

    def place(self, path: Path_) -> Place:
        """Return where the deepest known part of a path stands."""
        for length in range(len(path), -1, -1):
            found = self.places.get(path[:length])
            if found is not None:
                return found
        return Place(self.source)

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
    """Wrap data that was made in Python."""
    return Document(data, source)


def is_file(path: Path) -> bool:
    """Tell whether there is such a file; a name that no file can have, or a folder that may not be read, has none."""
    try:
        return path.is_file()
    except OSError:
        return False


def is_folder(path: Path) -> bool:
    """Tell whether there is such a folder."""
    try:
        return path.is_dir()
    except OSError:
        return False


def read_yaml(path: Path) -> Document:
    """Read a YAML file.

    Raises
    ------
    SpecError
        For a file that cannot be read, is too large, empty, not UTF-8, not YAML, has duplicate keys, foreign tags,
        cycles, several documents, or aliases that multiply beyond reason.
    """
    return parse_yaml(_text(path), str(path))


def _text(path: Path) -> str:
    try:
        if path.is_dir():
            raise SpecError(Problem("is a directory; expected a YAML file", Place(str(path))))
        if not path.is_file():
            kind = "is not a regular file" if path.exists() else "no such file"
            raise SpecError(Problem(kind, Place(str(path))))
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
            node = loader.get_single_node()
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SpecError(_syntax_problem(error, text, source)) from None
    if node is None:
        raise SpecError(Problem("is empty; expected a mapping such as 'model: gpt'", Place(source, 1)))
    reader = _Reader(source, text.splitlines())
    return Document(reader.value(node, ()), source, reader.places)


def parse_value(text: str, source: str) -> Any:
    """Read one value as YAML would (for ``--set key=value``): a number, a word, a list or mapping in flow style."""
    if not text.strip():
        return None
    return parse_yaml(text, source).data


def _syntax_problem(error: Exception, text: str, source: str) -> Problem:
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or str(error).split("\n", 1)[0]
    lines = text.splitlines()
    if mark is None:
        return Problem(f"is not valid YAML: {what}", Place(source))
    line = lines[mark.line] if mark.line < len(lines) else ""
    return Problem(f"is not valid YAML: {what}", Place(source, mark.line + 1, mark.column + 1, line))


class _Reader:
    """Turn a YAML node graph into data, noting the place of each key."""

    def __init__(self, source: str, lines: list[str]) -> None:
        self.source = source
        self.lines = lines
        self.places: dict[Path_, Place] = {}
        self._open: set[int] = set()
        self._count = 0

    def _place(self, node: yaml.Node) -> Place:
        mark = node.start_mark
        text = self.lines[mark.line] if mark.line < len(self.lines) else None
        return Place(self.source, mark.line + 1, mark.column + 1, text)

    def _fail(self, node: yaml.Node, message: str, path: Path_) -> SpecError:
        return SpecError(Problem(message, self._place(node), ".".join(map(str, path))))

    def value(self, node: yaml.Node, path: Path_) -> Any:
        self._count += 1
        if self._count > MOST_VALUES:
            raise self._fail(node, f"expands to more than {MOST_VALUES} values; aliases multiply too far", ())
        if id(node) in self._open:
            raise self._fail(node, "refers to itself", path)
        if len(path) > DEEPEST:
            raise self._fail(node, f"is nested deeper than {DEEPEST} levels", path[:5])
        self.places.setdefault(path, self._place(node))
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                self._own_tag(node, "seq", path)
                return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
            return self._scalar(node, path)
        finally:
            self._open.discard(id(node))

    def _own_tag(self, node: yaml.Node, kind: str, path: Path_) -> None:
        if node.tag != f"{_TAG}{kind}":
            raise self._fail(node, f"has the tag {node.tag!r}; only plain YAML is read", path)

    def _mapping(self, node: yaml.MappingNode, path: Path_) -> dict[str, Any]:
        self._own_tag(node, "map", path)
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._fail(key_node, "has a key that is not a plain word", path)
            key = str(key_node.value)
            here = (*path, key)
            if key in result:
                first = self.places[here].line
                raise self._fail(key_node, f"duplicate key {key!r} (first on line {first})", path)
            self.places[here] = self._place(key_node)
            result[key] = self.value(value_node, here)
        return result

    def _scalar(self, node: yaml.Node, path: Path_) -> Any:
        kind = node.tag.removeprefix(_TAG)
        if kind in ("int", "float", "bool", "null"):
            try:
                return _scalars.construct_object(node)
            except (ValueError, OverflowError):
                raise self._fail(node, f"cannot read {node.value[:40]!r} as a number", path) from None
        if kind in ("str", "timestamp"):
            return node.value
        raise self._fail(node, f"has the tag {node.tag!r}; only plain YAML is read", path)
