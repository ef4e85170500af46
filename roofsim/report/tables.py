"""Print tables of ops, catalogs and explanations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.text import Text
from rich.tree import Tree

from roofsim.report import words
from roofsim.report.grid import Column, Grid, number, text
from roofsim.units import humanize

if TYPE_CHECKING:
    from rich.console import Console

    from roofsim.analyze.explanation import Explanation
    from roofsim.analyze.ops import OpTable

#: Share of a step up to which a table does not show a wait.
UNSEEN: Final = 5e-5


def print_ops(console: Console, op_table: OpTable, *, by: str, top: int) -> None:
    """Print the first `top` rows, a line for the rest, and their sum: the step."""
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
    seen = [row for row in op_table.rows if row["kind"] != "wait" or abs(row["share"]) > UNSEEN]
    rest = seen[top:]
    more = [_summed(rest, op_table.total)] if rest else []
    for row in (*seen[:top], *more):
        table.add(*_op_heads(row, by), *_op_cells(row))
    table.line()
    table.add(*_op_heads(op_table.total, by), *_op_cells(op_table.total))
    console.print(table)
    if rest:
        console.print(f"--top {len(seen)} shows all rows", style="dim", highlight=False)
    for note in op_table.notes:
        console.print(f"{note[0].upper()}{note[1:]}.", style="dim", highlight=False)


def _summed(rows: list[dict[str, Any]], total: dict[str, Any]) -> dict[str, Any]:
    """Return rows as one."""
    keys = ("launches", "executed_flops", "bytes", "time", "share")
    sums = {key: sum(row[key] or 0.0 for row in rows) for key in keys}
    return total | sums | {"name": f"{words.count(len(rows))} more", "intensity": None}


def _op_heads(row: dict[str, Any], by: str) -> list[str]:
    return [row["name"], row["phase"], row["class"]] if by == "op" else [row["name"]]


def _op_cells(row: dict[str, Any]) -> list[str]:
    return [
        words.count(row["launches"]) if row["launches"] else "-",
        humanize(row["executed_flops"], "FLOP", 3) if row["executed_flops"] else "-",
        words.gibibytes(row["bytes"]) if row["bytes"] else "-",
        "-" if row["intensity"] is None else words.count(row["intensity"]),
        words.seconds(row["time"]) if row["time"] else "-",
        words.percent(row["share"]) if row["time"] else "-",
        words.short_bound(row["bound"]) if row["bound"] else "",
    ]


#: Units of figures in catalog rows; where there is little room, those named first stay longest.
_CATALOG_UNITS: Final = {
    "16-bit peak": "FLOP/s",
    "fp32 peak": "FLOP/s",
    "memory": "B",
    "bandwidth": "B/s",
    "tdp": "W",
    "network": "B/s",
}
_STAY: Final = {"memory": 1, "bandwidth": 2, "16-bit peak": 3, "architecture": 4, "USD/h": 5, "year": 6}


def print_catalog(console: Console, rows: list[dict[str, Any]]) -> None:
    """Print catalog rows; under them, what of their files is from memory."""
    if not rows:
        console.print("0 entries", style="dim")
        return
    first, *others = (name for name in rows[0] if name != "recalled")
    figures = {name for name in others if all(isinstance(row[name], int | float | None) for row in rows)} - {"measured"}
    columns = [
        Column(name, number=name in figures, leaves=_STAY.get(name, len(_STAY) + place))
        for place, name in enumerate(others, 1)
    ]
    table = Grid([Column(first, whole=True), *columns])
    for row in rows:
        table.add(*(_catalog_cell(name, row[name]) for name in (first, *others)))
    console.print(table)
    console.print(f"{len(rows)} entries", style="dim")
    unsure = [f"{row['name']} ({', '.join(row['recalled'])})" for row in rows if row.get("recalled")]
    if unsure:
        console.print(f"From memory, with no source that was found: {', '.join(unsure)}", style="dim", highlight=False)


def print_plugins(console: Console, rows: list[dict[str, Any]]) -> None:
    """Print what is plugged in, and under it what cannot be used."""
    if not rows:
        console.print("no plug-ins are installed", style="dim")
        return
    table = Grid([Column(name, whole=name == "distribution") for name in ("distribution", "version", "group", "adds")])
    for row in rows:
        adds = row["adds"] if row["problem"] is None else ["cannot be used"]
        table.add(row["distribution"], row["version"], row["group"], ", ".join(adds))
    console.print(table)
    for problem in dict.fromkeys(row["problem"] for row in rows if row["problem"] is not None):
        console.print(problem, highlight=False, markup=False)


def _catalog_cell(name: str, value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "yes" if value else "-"
    if name == "year":
        return str(value)
    if name.startswith("USD"):
        return f"{value:,.10g}"
    if name in _CATALOG_UNITS:
        return humanize(float(value), _CATALOG_UNITS[name], 4)
    if isinstance(value, int | float):
        return words.count(value)
    return ", ".join(value) if isinstance(value, list) else str(value)


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
    apart = ("kind", "schema", "sources", "versions", "variants")
    price = dict(data.get("price") or {})
    offers = price.pop("offers", [])
    own = {key: item for key, item in data.items() if key not in apart} | ({"price": price} if price else {})
    for path, value in _leaves(own):
        source = _source(sources, path)
        table.add(path, str(value), "(same)" if source and source == before else source)
        before = source
    console.print(table)
    if offers:
        print_prices(console, [{"name": data["name"], **offer} for offer in offers])
    _print_otherwise(console, data)


def print_prices(console: Console, offers: list[dict[str, Any]]) -> None:
    """Print prices of cards and nodes, one a line, with what kind of price it is, whose and of when; below, where from."""
    table = Grid([text("name"), text("per"), number("USD"), text("kind"), text("seller"), text("date"), text("source")])
    sources: dict[str, int] = {}
    for offer in offers:
        high = offer.get("usd_high")
        amount = f"{offer['usd']:,.10g}" + ("" if high is None else f" to {high:,.10g}")
        seller = ", ".join(str(offer[key]) for key in ("seller", "region") if offer.get(key) not in (None, "any"))
        date = f"{offer.get('date') or '?'}{', old' if offer.get('old') else ''}"
        place = sources.setdefault(offer.get("source") or "not stated", len(sources) + 1)
        table.add(offer["name"], offer["per"], amount, offer.get("kind") or "?", seller or "?", date, f"[{place}]")
    console.print(Text("Prices", style="bold"))
    console.print(table)
    for source, place in sources.items():
        console.print(Text(f"[{place}] {source}"))


def _print_otherwise(console: Console, data: dict[str, Any]) -> None:
    """Print which facts of an engine differed before a version, or differ in a variant."""
    parts = [(_moment(entry), entry) for entry in data.get("versions") or []]
    parts += [(f"{data['name']}+{name}", entry) for name, entry in (data.get("variants") or {}).items()]
    if not parts:
        return
    table = Grid([text("where"), text("fact"), text("value"), text("source")])
    for where, entry in parts:
        before = ""
        if table.rows:
            table.line()
        for place, (fact, value) in enumerate(_leaves(entry["facts"])):
            shown = "" if place else f"{where}: {entry['description']}" if "description" in entry else where
            source = _source(entry.get("sources") or {}, fact)
            table.add(shown, fact, str(value), "(same)" if source and source == before else source)
            before = source
    console.print(Text("What differs, by version and variant", style="bold"))
    console.print(table)


def _moment(entry: dict[str, Any]) -> str:
    return f"before {entry['before']} ({entry['released']})" if entry.get("before") else f"before {entry['released']}"


def _leaves(data: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    leaves: list[tuple[str, Any]] = []
    for key, value in data.items():
        if isinstance(value, dict):
            leaves += _leaves(value, f"{prefix}{key}.")
        else:
            leaves.append((f"{prefix}{key}", ", ".join(map(str, value)) if isinstance(value, list) else value))
    return leaves


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
    for part in () if explanation.asked and tree is not None else explanation.parts:
        _branch(part, node)
    return node
