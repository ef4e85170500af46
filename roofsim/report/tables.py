"""Print tables of ops, catalogs and explanations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text
from rich.tree import Tree

from roofsim.report import words
from roofsim.report.grid import Column, Grid, number, text
from roofsim.units import humanize

if TYPE_CHECKING:
    from rich.console import Console

    from roofsim.analyze.explain import Explanation


def print_ops(console: Console, rows: list[dict[str, Any]], *, by: str, top: int) -> None:
    """Print the rows of `op_rows`, the first `top` of them, and a line for the rest."""
    heads = [text(by), text("phase", 2), text("class", 4)] if by == "op" else [text(by)]
    numbers = [
        number("launches", 5),
        number("FLOPs", 3),
        number("bytes", 3),
        number("FLOP/B", 6),
        number("time"),
        number("share"),
    ]
    table = Grid([*heads, *numbers, text("bound", 1)], roomy=False)
    for row in rows[:top]:
        first = [row["name"], row["phase"], row["class"]] if by == "op" else [row["name"]]
        table.add(*first, *_op_cells(row))
    console.print(table)
    if len(rows) > top:
        rest = sum(row["time"] for row in rows[top:])
        console.print(
            f"... and {len(rows) - top} more, {words.seconds(rest)} in all (--top {len(rows)} shows them)", style="dim"
        )


def _op_cells(row: dict[str, Any]) -> list[str]:
    return [
        words.count(row["launches"]),
        humanize(row["flops"], "FLOP", 3) if row["flops"] else "-",
        words.gibibytes(row["bytes"]),
        "-" if row["intensity"] is None else words.count(row["intensity"]),
        words.seconds(row["time"]),
        words.percent(row["share"]),
        words.short_bound(row["bound"]),
    ]


def print_catalog(console: Console, rows: list[dict[str, Any]]) -> None:
    """Print catalog rows."""
    first, *others = rows[0]
    figures = [name for name in others if all(str(row[name])[:1].isdigit() or row[name] == "-" for row in rows)]
    columns = [Column(name, number=name in figures, leaves=place) for place, name in enumerate(others, 1)]
    table = Grid([Column(first, whole=True), *columns])
    for row in rows:
        table.add(*(", ".join(value) if isinstance(value, list) else str(value) for value in row.values()))
    console.print(table)
    console.print(f"{len(rows)} entries", style="dim")


def print_overview(console: Console, rows: list[dict[str, Any]]) -> None:
    """Print how many entries each catalog has, and how to see them."""
    table = Grid([text("catalog"), number("entries"), text("for example")])
    for row in rows:
        table.add(row["catalog"], words.count(row["entries"]), ", ".join(row["examples"]))
    console.print(table)
    console.print(
        "`roofsim list gpus` lists a catalog; `roofsim show h100` shows an entry with its sources.", style="dim"
    )


def print_entry(console: Console, data: dict[str, Any]) -> None:
    """Print a catalog entry with the source of each number beside it."""
    sources = data.get("sources") or {}
    console.print(Text(f"{data['kind']} {data['name']}", style="bold"))
    table = Grid([text("field"), text("value"), text("source")])
    before = ""
    for path, value in _leaves({key: item for key, item in data.items() if key not in ("kind", "schema", "sources")}):
        source = _source(sources, path)
        table.add(path, str(value), "(same)" if source and source == before else source)
        before = source
    console.print(table)


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
