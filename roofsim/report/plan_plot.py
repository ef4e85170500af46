"""Draw a plan: the front over time, memory and numbers of GPUs, and the best layouts with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.report import words
from roofsim.report.figure import NORMAL, SMALL, ink, new_figure, save_figure
from roofsim.report.palette import CARDS
from roofsim.report.plan import headline, one_layout
from roofsim.report.plot import bytes_axis, legend_below

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from roofsim.search.planning.answer import Plan, Planned

#: Signs for cards.
_SIGNS: Final = "osD^v<>PX"
#: Characters of the name of a layout beside its bar.
_WIDEST: Final = 58


def draw_plan(plan: Plan, path: Path | None = None) -> Any:
    """Return the picture of the front (time, memory, GPUs, cards) and of the steps of the best layouts."""
    several = len({one.gpus for one in plan.front}) > 1
    figure = new_figure(13.0, 8.5)
    grid = figure.add_gridspec(2, 2 if several else 1, height_ratios=(1.2, 1.0))
    members = plan.front or plan.top
    if members:
        _memory_over_time(figure.add_subplot(grid[0, 0]), members, plan.top)
        if several:
            _time_over_gpus(figure.add_subplot(grid[0, 1]), members)
        _best(figure.add_subplot(grid[1, :]), plan.top)
    figure.suptitle(headline(plan), fontsize=NORMAL)
    return save_figure(figure, path)


def _memory_over_time(axes: Axes, front: tuple[Planned, ...], top: tuple[Planned, ...]) -> None:
    """Draw each member of the front where its step and its memory are; numbers mark the best of the table."""
    for label, signed, colour, group in _groups(front):
        ordered = sorted(group, key=lambda one: one.step_time)
        steps, bytes_ = [one.step_time for one in ordered], [one.memory for one in ordered]
        axes.plot(steps, bytes_, linestyle=":", linewidth=1.0, color=colour, marker=signed, markersize=6, label=label)
    for place, one in enumerate(top, 1):
        axes.annotate(
            str(place), (one.step_time, one.memory), xytext=(4, 4), textcoords="offset points", fontsize=SMALL
        )
        axes.plot([one.step_time], [one.memory], "o", markersize=11, fillstyle="none", color=ink(), linewidth=0.8)
    axes.set_xlabel("step (s)")
    axes.set_ylabel("memory of the fullest GPU")
    bytes_axis(axes.yaxis, max(one.memory for one in (*front, *top)))
    axes.set_title("no layout that was priced is as good in everything; numbers: the best")
    legend_below(axes)


def _time_over_gpus(axes: Axes, front: tuple[Planned, ...]) -> None:
    """Draw the fastest member of the front on each number of GPUs, card by card, and what perfect scaling would be."""
    cards = list(dict.fromkeys(one.gpu for one in front))
    for at, card in enumerate(cards):
        least: dict[int, float] = {}
        for one in front:
            if one.gpu == card:
                least[one.gpus] = min(least.get(one.gpus, one.step_time), one.step_time)
        counts = sorted(least)
        colour = CARDS[at % len(CARDS)]
        axes.plot(counts, [least[count] for count in counts], "o-", color=colour, markersize=5, label=card or "fastest")
        perfect = [least[counts[0]] * counts[0] / count for count in counts]
        axes.plot(counts, perfect, linestyle="--", linewidth=0.8, color=colour)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("GPUs")
    axes.set_ylabel("step (s)")
    axes.set_title("fastest of the front; dashed: perfect scaling")
    legend_below(axes)


def _best(axes: Axes, top: tuple[Planned, ...]) -> None:
    """Draw the steps of the best layouts, the best on top, with their 80 % intervals."""
    names = [f"{place}. {one_layout(one)}" for place, one in enumerate(top, 1)]
    shown = [name if len(name) <= _WIDEST else f"{name[: _WIDEST - 1]}\u2026" for name in names]
    for place, one in enumerate(top):
        axes.barh(place, one.step_time, color=CARDS[0], alpha=0.35, height=0.6)
        if one.interval is not None:
            low, high = one.interval
            ends = [[one.step_time - low], [high - one.step_time]]
            axes.errorbar([one.step_time], [place], xerr=ends, color=ink(), capsize=3, linewidth=1.0)
        axes.text(0.0, place, f" {words.seconds(one.step_time)}", va="center", fontsize=SMALL, color=ink())
    axes.set_yticks(range(len(top)), shown, fontsize=SMALL)
    axes.invert_yaxis()
    axes.set_xlabel("step (s), 80 % interval; errors that layouts share are in all of them alike")


def _groups(front: tuple[Planned, ...]) -> list[tuple[str, str, str, list[Planned]]]:
    """Return the members by card and number of GPUs, each with a label, a sign for the card and a colour for the number."""
    cards, counts = list(dict.fromkeys(one.gpu for one in front)), sorted({one.gpus for one in front})
    groups = []
    for card in cards:
        for count in counts:
            group = [one for one in front if (one.gpu, one.gpus) == (card, count)]
            if group:
                label = f"{count} x {card}" if card else words.plural(str(count), "GPU")
                sign, colour = _SIGNS[cards.index(card) % len(_SIGNS)], CARDS[counts.index(count) % len(CARDS)]
                groups.append((label, sign, colour, group))
    return groups
