"""Fill docs/track-record.md: the scores of each release, of today, and as an ordinary user would ask."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from roofsim.calibrate.score import NOMINAL_COVERAGE
from roofsim.report.figure import new_figure, save_figure
from roofsim_evidence.markdown import met, table
from roofsim_evidence.pages import DocsPage, filled
from roofsim_evidence.record.check import FORM, POINTS, SHARE
from roofsim_evidence.record.left_out import PREFIX
from roofsim_evidence.record.line import STATED
from roofsim_evidence.record.scores import FEWEST, WHOLE
from roofsim_evidence.record.sets import SETS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from roofsim_evidence.record.line import ScoreLine
    from roofsim_evidence.record.scores import CellScore

PATH: Final = "docs/track-record.md"
PICTURE: Final = "track-record.png"
#: The median as an ordinary user asks is to be at most so many times that of the full statement.
GOAL: Final = 1.2
#: Cells that are shown, the ones with the largest errors.
WORST: Final = 25
TODAY: Final = "today"
_DPI: Final = 100
_COLORS: Final = ("#4c72b0", "#c44e52", "#55a868", "#8172b3", "#dd8452", "#64b5cd", "#937860", "#da8bc3")


def page(releases: Sequence[ScoreLine], now: ScoreLine) -> DocsPage:
    """Return the page, from the lines of releases and the scores of today."""
    every = [*releases, now]
    labels = [*(f"{one.version} ({one.date})" for one in releases), f"{TODAY} ({now.date})"]
    text = filled(
        "track-record.md",
        medians=_by_line(every, labels, lambda cell: cell.median, _share),
        means=_by_line(every, labels, lambda cell: cell.mean, _share),
        biases=_by_line(every, labels, lambda cell: cell.bias, lambda value: f"{value:+.1%}"),
        coverages=_by_line(every, labels, lambda cell: cell.coverage, lambda value: f"{value:.0%}"),
        left_out=_left_out(now),
        plain=plain_table(now),
        gaps=gaps_table(now),
        worst=_worst(now),
        points=f"{POINTS:.0%}".removesuffix("%").strip(),
        share=f"{SHARE:.0%}".replace("%", " %"),
        goal=GOAL,
        fewest=FEWEST,
        form=FORM,
        hashes=_hashes(every, labels),
    )
    return DocsPage(path=PATH, text=text, draw=partial(_draw, every, labels))


def _share(value: float) -> str:
    return f"{value:.1%}"


def _by_line(
    every: Sequence[ScoreLine],
    labels: Sequence[str],
    figure: Callable[[CellScore], float | None],
    shown: Callable[[float], str],
) -> str:
    """Return a table of one figure: a row for each set, a column for each line."""
    rows = []
    for name, one in SETS.items():
        whole = [line.whole(name) for line in every]
        values = [None if cell is None else figure(cell) for cell in whole]
        last = next((cell.n for cell in reversed(whole) if cell is not None), 0)
        rows.append((one.about, str(last), *("" if value is None else shown(value) for value in values)))
    return table(("set", "n", *labels), rows)


def _left_out(now: ScoreLine) -> str:
    """Return median error and bias of each set with the shipped constants, and by what their fit left out."""
    ways = list(dict.fromkeys(way for every in now.sets.values() for way in every if way.startswith(PREFIX)))
    if not ways:
        return "No predictions out of fold were stored."
    rows = []
    for name, one in SETS.items():
        whole = [now.whole(name, way) for way in (STATED, *ways)]
        shown = [
            "" if cell is None or cell.median is None else f"{cell.median:.1%} ({cell.bias:+.1%})" for cell in whole
        ]
        if any(shown[1:]):
            rows.append((one.about, *shown))
    return table(("set", "all fitted", *(f"{way.removeprefix(PREFIX)} left out" for way in ways)), rows)


def ratio_of(now: ScoreLine, name: str) -> float | None:
    """Return the median of a set as an ordinary user asks, over that of the full statement; None where there is none."""
    stated, plain = now.whole(name), now.whole(name, "plain")
    if stated is None or plain is None or not stated.median or plain.median is None:
        return None
    return plain.median / stated.median


def plain_table(now: ScoreLine) -> str:
    """Return both ways of asking side by side, for each set."""
    rows = []
    for name, one in SETS.items():
        stated, plain, ratio = now.whole(name), now.whole(name, "plain"), ratio_of(now, name)
        if stated is None or plain is None or ratio is None:
            continue
        rows.append((one.about, *_both(stated, plain), f"{ratio:.2f}", met(ratio <= GOAL)))
    return table((*PLAIN_HEADS, "ratio of medians", f"at most {GOAL:g}"), rows)


PLAIN_HEADS: Final = (
    "set", "n", "median, stated", "median, plain", "bias, stated", "bias, plain", "in interval, stated", "in interval, plain",
    "does not fit, stated", "does not fit, plain", "refused, plain",
)  # fmt: skip


def _both(stated: CellScore, plain: CellScore) -> tuple[str, ...]:
    pairs: list[str] = [str(stated.n)]
    for figure, shown in (("median", "{:.1%}"), ("bias", "{:+.1%}"), ("coverage", "{:.0%}")):
        pairs += ["" if (value := getattr(one, figure)) is None else shown.format(value) for one in (stated, plain)]
    return (*pairs, str(stated.no_room), str(plain.no_room), str(plain.refused))


def gaps_table(now: ScoreLine, name: str | None = None) -> str:
    """Return the sources where defaults cost most: of one set, or of all."""
    rows = []
    for one in SETS if name is None else (name,):
        stated, plain = now.cells(one), now.cells(one, "plain")
        for key, cell in stated.items():
            other = plain.get(key)
            if key[0] == "source" and other is not None and cell.median and other.median is not None:
                rows.append((other.median - cell.median, one, key[1], cell, other))
    rows.sort(key=lambda row: (-row[0], row[1], row[2]))
    cells = [
        (
            SETS[one].about,
            source,
            str(cell.n),
            _share(cell.median or 0.0),
            _share(other.median or 0.0),
            f"{other.bias or 0.0:+.1%}",
        )
        for _, one, source, cell, other in rows[:WORST]
    ]
    return table(("set", "source", "n", "median, stated", "median, plain", "bias, plain"), cells, left=2)


def both_ways(now: ScoreLine, names: Sequence[str]) -> str:
    """Return the scores of some sets as stated and plain, in all and by each kind of cell."""
    rows = []
    for name in names:
        stated, plain = now.cells(name), now.cells(name, "plain")
        for key, cell in stated.items():
            other = plain.get(key)
            if other is not None and cell.median and other.median is not None:
                label = SETS[name].about if key[0] == WHOLE else f"{key[0]} {key[1]}"
                rows.append((label, *_both(cell, other), f"{other.median / cell.median:.2f}"))
    return table((*PLAIN_HEADS, "ratio of medians"), rows)


def _worst(now: ScoreLine) -> str:
    """Return the cells with the largest median errors."""
    cells = [
        (cell.median, SETS[name].about, cell)
        for name in SETS
        for cell in now.cells(name).values()
        if cell.by != WHOLE and cell.median is not None
    ]
    cells.sort(key=lambda row: (-row[0], row[1], row[2].by, row[2].cell))
    shown = [(about, cell.by, cell.cell, *_figures(cell)) for _, about, cell in cells[:WORST]]
    heads = ("set", "cell", "name", "n", "median", "mean", "p90", "bias", "rank", "in interval")
    return table(heads, shown, left=3)


def _figures(cell: CellScore) -> tuple[str, ...]:
    shares = [getattr(cell, name) for name in ("median", "mean", "p90")]
    return (
        str(cell.n),
        *("" if value is None else _share(value) for value in shares),
        "" if cell.bias is None else f"{cell.bias:+.1%}",
        "" if cell.rank is None else f"{cell.rank:.3f}",
        "" if cell.coverage is None else f"{cell.coverage:.0%}",
    )


def _hashes(every: Sequence[ScoreLine], labels: Sequence[str]) -> str:
    rows = [(label, line.version, f"`{line.constants[:16]}`") for line, label in zip(every, labels, strict=True)]
    return table(("line", "version", "constants, SHA-256 begins with"), rows, left=3, last="left")


# -- the picture --------------------------------------------------------------------------------------------------------


def _draw(every: Sequence[ScoreLine], labels: Sequence[str], folder: Path) -> list[Path]:
    """Draw median error, bias and coverage of each set over the releases."""
    figure = new_figure(14.0, 5.0)
    grid = figure.add_gridspec(1, 3)
    panels: tuple[tuple[str, str], ...] = (
        ("median", "median error, %"), ("bias", "bias, % (above 0: too slow)"), ("coverage", "inside the 80 % interval, %"),
    )  # fmt: skip
    for place, (name, label) in enumerate(panels):
        axes = figure.add_subplot(grid[0, place])
        _panel(axes, every, name)
        axes.set(ylabel=label, xlim=(-0.3, len(every) - 0.7))
        axes.set_xticks(range(len(every)), labels, rotation=20, ha="right", fontsize=8)
        axes.grid(visible=True, alpha=0.3)
        if name == "coverage":
            axes.axhline(100.0 * NOMINAL_COVERAGE, color="black", linewidth=0.8, linestyle="--")
            axes.legend(fontsize=8, loc="best")
        if name == "bias":
            axes.axhline(0.0, color="black", linewidth=0.8)
    path = folder / PICTURE
    save_figure(figure, path, dpi=_DPI, repeatable=True)
    return [path]


def _panel(axes: Axes, every: Sequence[ScoreLine], name: str) -> None:
    for (key, one), color in zip(SETS.items(), _COLORS, strict=False):
        whole = [line.whole(key) for line in every]
        points: list[tuple[int, Any]] = [
            (place, getattr(cell, name)) for place, cell in enumerate(whole) if cell is not None
        ]
        shown = [(place, 100.0 * value) for place, value in points if value is not None]
        if shown:
            axes.plot(*zip(*shown, strict=True), marker="o", color=color, label=one.about)
