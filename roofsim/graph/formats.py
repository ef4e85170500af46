"""Write a diagram as text: GraphML, GEXF and node-link JSON by networkx, DOT for graphviz."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any, Final

from roofsim.output import visible
from roofsim.units import duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.graph.diagram import Diagram

#: The version of what `--json` and a file of JSON hold.
SCHEMA: Final = "roofsim/graph/1"


def node_link(diagram: Diagram) -> dict[str, Any]:
    """Return plain data, which ``networkx.node_link_graph(data, edges="edges")`` reads back."""
    import networkx as nx

    return {"schema": SCHEMA, **nx.node_link_data(diagram, edges="edges")}


def _json(diagram: Diagram) -> str:
    return json.dumps(node_link(diagram), indent=1, allow_nan=False) + "\n"


def _graphml(diagram: Diagram) -> str:
    import networkx as nx

    out = io.BytesIO()
    nx.write_graphml_xml(_speakable(diagram), out)
    return out.getvalue().decode("utf-8") + "\n"


def _gexf(diagram: Diagram) -> str:
    import networkx as nx

    out = io.BytesIO()
    nx.write_gexf(_speakable(diagram), out)
    return out.getvalue().decode("utf-8") + "\n"


def _speakable(diagram: Diagram) -> Diagram:
    """Return the diagram without characters that XML cannot hold."""
    import networkx as nx

    shown: Diagram = nx.relabel_nodes(
        diagram, {node: visible(node) for node in diagram if visible(node) != node}, copy=True
    )
    for has in (shown.graph, *(has for _, has in shown.nodes(data=True)), *(has for *_, has in shown.edges(data=True))):
        has.update({key: visible(value) for key, value in has.items() if isinstance(value, str)})
    return shown


#: Colours of nodes by what binds them, on which black text is read; the same in DOT and in pictures.
FILLS: Final = {
    "compute": "#a9c4e8",
    "memory_bandwidth": "#f6c9a0",
    "launch": "#d4d4d4",
    "power": "#d9c2ec",
    "communication": "#f2a9ab",
    "host_link": "#a9dbe6",
    "": "#f4f4f4",
}
#: What the colours mean.
FILL_WORDS: Final = {
    "compute": "bound by compute",
    "memory_bandwidth": "bound by memory bandwidth",
    "launch": "bound by kernel launches",
    "power": "bound by power",
    "communication": "communication",
    "host_link": "host",
    "": "takes no time of its own",
}


def fill_of(node: dict[str, Any]) -> str:
    """Return the key of `FILLS` for a node: communication and host work for what runs beside kernels."""
    if node["class"] == "collective":
        return "communication"
    if node["class"] == "host_transfer":
        return "host_link"
    return node["bound"] if node["bound"] in FILLS else ""


def _dot(diagram: Diagram) -> str:
    """Return the diagram in graphviz's language; nodes of a block that repeats stand in a box."""
    lines = ["digraph {", "  rankdir=TB", '  node [shape=box style="rounded,filled" fontname="Helvetica" fontsize=10]']
    lines += [f"  label={_quoted(str(diagram.graph.get('name', '')))}", "  labelloc=t"]
    blocks: dict[str, list[str]] = {}
    for node, has in diagram.nodes(data=True):
        box = "" if not has["block"] else f"{has['stage']}, {has['phase']}: {has['block']} x{has['repeat']:g}"
        text = f"{has['name']}\n{has['class']}, {duration(has['time'])}, {has['share']:.1%}"
        hint = f"{has['flops']:.4g} FLOP, {has['bytes_read']:.4g} B read, {has['bytes_written']:.4g} B written"
        colour = FILLS[fill_of(has)]
        blocks.setdefault(box, []).append(
            f"{_quoted(node)} [label={_quoted(text)} tooltip={_quoted(hint)} fillcolor={_quoted(colour)}]"
        )
    for number, (box, nodes) in enumerate(blocks.items()):
        if box:
            lines += [f"  subgraph cluster_{number} {{", f"    label={_quoted(box)}", "    color=gray"]
        lines += [f"    {node}" if box else f"  {node}" for node in nodes]
        lines += ["  }"] if box else []
    for source, target, has in diagram.edges(data=True):
        hint = f"{has['tensor']}: {has['dtype']} {has['shape']}, {has['bytes']:.4g} B"
        lines.append(f"  {_quoted(source)} -> {_quoted(target)} [tooltip={_quoted(hint)}]")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    r"""Return a quoted string of DOT; a line feed becomes ``\n``, as graphviz writes it.

    >>> _quoted('a "b"')
    '"a \\"b\\""'
    """
    kept = visible(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{kept}"'


#: Ending of a file -> the text of a diagram.
TEXTS: Final[dict[str, Callable[[Diagram], str]]] = {".graphml": _graphml, ".gexf": _gexf, ".dot": _dot, ".json": _json}
