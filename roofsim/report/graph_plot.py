"""Draw an op graph: a box an op, coloured by what binds it, with its time; layers that repeat in a frame."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Problem, SpecError
from roofsim.graph.formats import FILL_WORDS, FILLS, fill_of
from roofsim.report import words
from roofsim.report.figure import new_figure, save_figure
from roofsim.report.graph_layout import Drawing, layout_of

if TYPE_CHECKING:
    from pathlib import Path

    from roofsim.graph.diagram import Diagram

#: Boxes of a picture at most.
MOST_NODES: Final = 500
#: Inches of a box and its surroundings, and what the title and the legend need.
WIDTH, HEIGHT, MARGIN, HEAD, FOOT = 2.45, 0.56, 0.35, 0.75, 0.6
#: Share of these that a box takes, and characters that fit into it.
BOX_WIDTH, BOX_HEIGHT, LETTERS = 0.94, 0.66, 44
LEAST_WIDTH: Final = 7.5


def check_drawable(diagram: Diagram) -> None:
    """Refuse to draw what nobody could read.

    Raises
    ------
    SpecError
        When a diagram has more ops than a picture can show.
    """
    if len(diagram) > MOST_NODES:
        message = f"a picture shows at most {MOST_NODES} operations; these are {words.count(len(diagram))}"
        hint = "Show fewer with --block or --only, leave out --unrolled, or write .graphml, .gexf, .dot or .json."
        raise SpecError(Problem(message, path="--output", hint=hint))


def draw_diagram(diagram: Diagram, path: Path) -> None:
    """Draw a diagram into a file whose ending says the format.

    Raises
    ------
    SpecError
        When it has more ops than a picture can show.
    OutputError
        When the file cannot be written; one that was there is as it was.
    """
    check_drawable(diagram)
    layout = layout_of(diagram)
    width = max(layout.width * WIDTH + 2.0 * MARGIN, LEAST_WIDTH)
    height = layout.height * HEIGHT + HEAD + FOOT
    figure = new_figure(width, height)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    spare = (width - layout.width * WIDTH) / 2.0
    axes.set_xlim(-spare / WIDTH, (width - spare) / WIDTH)
    axes.set_ylim(layout.height - 0.5 + FOOT / HEIGHT, -0.5 - HEAD / HEIGHT)
    _frames(axes, diagram, layout)
    for points in layout.edges.values():
        _edge(axes, points)
    each = _of_one_layer(diagram)
    longest = max((has["time"] for _, has in diagram.nodes(data=True)), default=0.0)
    for node, has in diagram.nodes(data=True):
        _box(axes, layout.nodes[node], has, longest, has["repeat"] if each else 1.0)
    _title(figure, diagram, layout, each=each)
    _legend(figure, {fill_of(has) for _, has in diagram.nodes(data=True)})
    save_figure(figure, path, repeatable=True)


def _of_one_layer(diagram: Diagram) -> bool:
    """Tell whether all ops are of one kind of layers, so that a box says what one of them takes."""
    repeats = {(has["block"], has["repeat"]) for _, has in diagram.nodes(data=True)}
    return len(repeats) == 1 and next(iter(repeats))[1] > 1.0


def _box(axes: Any, at: tuple[float, float], has: dict[str, Any], longest: float, times: float) -> None:
    """Draw an op: its name, its class and time, and a bar as long as its part of the longest time."""
    from matplotlib.patches import FancyBboxPatch, Rectangle

    x, y = at[0] - BOX_WIDTH / 2.0, at[1] - BOX_HEIGHT / 2.0
    box = FancyBboxPatch(
        (x, y),
        BOX_WIDTH,
        BOX_HEIGHT,
        boxstyle="round,pad=0,rounding_size=0.04",
        mutation_aspect=WIDTH / HEIGHT,
        facecolor=FILLS[fill_of(has)],
        edgecolor="#606060",
        linewidth=0.6,
        zorder=3,
    )
    axes.add_patch(box)
    if longest and has["time"]:
        bar = Rectangle((x, y + BOX_HEIGHT - 0.07), BOX_WIDTH * has["time"] / longest, 0.07, color="#404040", zorder=4)
        bar.set_clip_path(box)
        axes.add_patch(bar)
    axes.text(at[0], at[1] - 0.17, _name(has), ha="center", va="center", fontsize=6.6, zorder=5)
    axes.text(at[0], at[1] + 0.1, _facts(has, times), ha="center", va="center", fontsize=6.2, color="#303030", zorder=5)


def _name(has: dict[str, Any]) -> str:
    """Return the name of an op in its block; of a long one the end."""
    name: str = has["name"]
    inner = name.removeprefix(f"{has['block']}.")
    return inner if len(inner) <= LETTERS else f"...{inner[3 - LETTERS :]}"


def _facts(has: dict[str, Any], times: float) -> str:
    if has["time"]:
        return f"{has['class']}   {words.seconds(has['time'] / times)}   {words.percent(has['share'])}"
    return f"{has['class']}   {words.seconds(has['beside'] / times)} beside" if has["beside"] else str(has["class"])


def _edge(axes: Any, points: list[tuple[float, float]]) -> None:
    """Draw an edge from the foot of a box to the head of another, rounded at its joints."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path as Line

    (x0, y0), *between, (x1, y1) = points
    half = BOX_HEIGHT / 2.0
    if y1 <= y0:  # the next column
        start, end = (x0 + BOX_WIDTH / 2.0, y0), (x1 - BOX_WIDTH / 2.0, y1)
        middle = (start[0] + end[0]) / 2.0
        line = Line([start, (middle, y0), (middle, y1), end], [Line.MOVETO, Line.CURVE4, Line.CURVE4, Line.CURVE4])
        look: dict[str, Any] = {"color": "#b8b8b8", "linewidth": 0.6, "linestyle": "--"}
    else:
        places = [(x0, y0 + half)]
        for x, y in between:
            places += [(x, y - half), (x, y + half)]
        places.append((x1, y1 - half))
        line, look = _rounded(places), {"color": "#808080", "linewidth": 0.8}
    arrow = FancyArrowPatch(path=line, arrowstyle="-|>", mutation_scale=6.0, zorder=2, shrinkA=0.0, shrinkB=0.0, **look)
    axes.add_patch(arrow)


def _rounded(places: list[tuple[float, float]]) -> Any:
    """Return an S-shaped line through places: upright at each."""
    from matplotlib.path import Path as Line

    points, codes = [places[0]], [Line.MOVETO]
    for (x0, y0), (x1, y1) in pairwise(places):
        middle = (y0 + y1) / 2.0
        points += [(x0, middle), (x1, middle), (x1, y1)]
        codes += [Line.CURVE4] * 3
    return Line(points, codes)


def _frames(axes: Any, diagram: Diagram, layout: Drawing) -> None:
    """Draw a frame around the layers of each block that repeats, in each column and phase."""
    from matplotlib.patches import FancyBboxPatch

    groups: dict[tuple[Any, ...], list[tuple[float, float]]] = defaultdict(list)
    runs: dict[tuple[str, str], int] = {}
    last: dict[tuple[str, str], float] = {}
    for node, (x, y) in sorted(layout.nodes.items(), key=lambda item: diagram.nodes[item[0]]["order"]):
        has = diagram.nodes[node]
        if not has["block"]:
            continue
        key = has["phase"], has["block"]
        if y < last.get(key, y) - layout.height / 2.0:  # it goes on in the next column
            runs[key] = runs.get(key, 0) + 1
        last[key] = y
        groups[*key, has["repeat"], runs.get(key, 0)].append((x, y))
    for (_, block, repeat, _), places in groups.items():
        xs, ys = [x for x, _ in places], [y for _, y in places]
        x, y = min(xs) - BOX_WIDTH / 2.0 - 0.035, min(ys) - 0.6
        wide, high = max(xs) - min(xs) + BOX_WIDTH + 0.07, max(ys) - min(ys) + 1.04
        frame = FancyBboxPatch(
            (x, y),
            wide,
            high,
            boxstyle="round,pad=0,rounding_size=0.04",
            mutation_aspect=WIDTH / HEIGHT,
            facecolor="#f7f7fb",
            edgecolor="#a0a0c8",
            linewidth=0.8,
            zorder=0,
        )
        axes.add_patch(frame)
        label = f"{block} x {words.count(repeat)}" if repeat > 1.0 else block
        axes.text(x + 0.02, y + 0.01, label, fontsize=7.0, color="#5050a0", va="top", zorder=5)


def _title(figure: Any, diagram: Diagram, layout: Drawing, *, each: bool) -> None:
    figure.text(
        0.5, 1.0 - 0.24 / figure.get_figheight(), str(diagram.graph["name"]), ha="center", va="center", fontsize=10
    )
    shown = sum(has["time"] for _, has in diagram.nodes(data=True))
    step = float(diagram.graph["step_time"])
    facts = [f"{words.count(len(diagram))} operations, {words.seconds(shown)} of a step of {words.seconds(step)}"]
    if each:
        _, has = next(iter(diagram.nodes(data=True)))
        facts.append(f"times are those of one layer, shares those of all {words.count(has['repeat'])}")
    elif any(has["repeat"] > 1.0 for _, has in diagram.nodes(data=True)):
        facts.append("times of layers that repeat are those of all of them")
    if layout.hidden:
        facts.append(f"{words.count(layout.hidden)} edges to a later phase (what backward keeps) are not drawn")
    text = "; ".join(facts)
    figure.text(0.5, 1.0 - 0.46 / figure.get_figheight(), text, ha="center", va="center", fontsize=7, color="#505050")


def _legend(figure: Any, shown: set[str]) -> None:
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=colour, edgecolor="#606060", linewidth=0.6, label=FILL_WORDS[bound])
        for bound, colour in FILLS.items()
        if bound in shown
    ]
    figure.legend(handles=handles, loc="lower center", ncols=min(len(handles), 4), fontsize=7, frameon=False)
