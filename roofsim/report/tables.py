"""Print tables of ops, catalogs and explanations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from roofsim.report import words
from roofsim.units import humanize

if TYPE_CHECKING:
    from rich.console import Console

    from roofsim.analyze.explain import Explanation


def print_ops(console: Console, rows: list[dict[str, Any]], *, by: str, top: int) -> None:
    """Print the rows of `op_rows`, the first `top` of them, and a line for the rest."""
    table = Table(box=SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    heads = [by, "phase", "class"] if by == "op" else [by]
    for name in heads:
        table.add_column(name, overflow="fold")
    for name in ("launches", "FLOPs", "bytes", "FLOP/B", "time", "share"):
        table.add_column(name, justify="right")
    table.add_column("bound")
    for row in rows[:top]:
        first = [row["name"], row["phase"], row["class"]] if by == "op" else [row["name"]]
        table.add_row(*first, *_op_cells(row))
    console.print(table)
    if len(rows) > top:
        rest = sum(row["time"] for row in rows[top:])
        console.print(
            f"... and {len(rows) - top} more, {words.seconds(rest)} together (--top {len(rows)} shows all)", style="dim"
        )


def _op_cells(row: dict[str, Any]) -> list[str]:
    return [
        words.count(row["count"]),
        humanize(row["flops"], "FLOP", 3) if row["flops"] else "-",
        words.gibibytes(row["bytes"]),
        "-" if row["intensity"] is None else words.count(row["intensity"]),
        words.seconds(row["time"]),
        words.percent(row["share"]),
        words.short_bound(row["bound"]),
    ]


def print_catalog(console: Console, rows: list[dict[str, Any]]) -> None:
    """Print catalog rows."""
    table = Table(box=SIMPLE, pad_edge=False)
    for name in rows[0]:
        table.add_column(name)
    for row in rows:
        table.add_row(*(", ".join(value) if isinstance(value, list) else str(value) for value in row.values()))
    console.print(table)
    console.print(f"{len(rows)} entries", style="dim")


def print_entry(console: Console, data: dict[str, Any]) -> None:
    """Print a catalog entry with the source of each number beside it."""
    sources = data.get("sources") or {}
    console.print(Text(f"{data['kind']} {data['name']}", style="bold"))
    table = Table("field", "value", "source", box=SIMPLE, pad_edge=False)
    before = ""
    apart = ("kind", "schema", "sources", "versions", "variants")
    for path, value in _leaves({key: item for key, item in data.items() if key not in apart}):
        source = _source(sources, path)
        table.add_row(path, str(value), "(same)" if source and source == before else source)
        before = source
    console.print(table)
    _print_otherwise(console, data)


def _print_otherwise(console: Console, data: dict[str, Any]) -> None:
    """Print which facts of an engine were otherwise before a version, or are in a variant."""
    parts = [(_moment(entry), entry) for entry in data.get("versions") or []]
    parts += [(f"{data['name']}+{name}", entry) for name, entry in (data.get("variants") or {}).items()]
    if not parts:
        return
    table = Table("where", "fact", "value", "source", box=SIMPLE, pad_edge=False)
    for where, entry in parts:
        before = ""
        for number, (fact, value) in enumerate(_leaves(entry["facts"])):
            shown = "" if number else f"{where}: {entry['description']}" if "description" in entry else where
            source = _source(entry.get("sources") or {}, fact)
            table.add_row(shown, fact, str(value), "(same)" if source and source == before else source)
            before = source
        table.add_section()
    console.print(Text("What is otherwise, by version and variant", style="bold"))
    console.print(table)


def _moment(entry: dict[str, Any]) -> str:
    return f"before {entry['before']} ({entry['released']})" if entry.get("before") else f"before {entry['released']}"


def _leaves(data: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in data.items():
        if isinstance(value, dict):
            found += _leaves(value, f"{prefix}{key}.")
        else:
            found.append((f"{prefix}{key}", ", ".join(map(str, value)) if isinstance(value, list) else value))
    return found


def _source(sources: dict[str, str], path: str) -> str:
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in sources:
            return sources[".".join(parts[:length])]
    return ""


def print_explanation(console: Console, explanation: Explanation) -> None:
    """Print an explanation as a tree."""
    console.print(_branch(explanation, None))


def _branch(explanation: Explanation, tree: Tree | None) -> Tree:
    label = Text.assemble((explanation.title, "bold" if tree is None else "cyan"), "  ", explanation.value)
    if explanation.formula:
        label.append(f"\n{explanation.formula}", style="dim")
    if explanation.source:
        label.append(f"\nsource: {explanation.source}", style="dim italic")
    node = Tree(label) if tree is None else tree.add(label)
    for part in explanation.parts:
        _branch(part, node)
    return node
