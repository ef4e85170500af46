"""Draw memory: what is alive over the step, by what it is, with the peak marked and the card's capacity as a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.alive import curve_rows, fullest_stage
from roofsim.memory.profile import CATEGORIES
from roofsim.report import words
from roofsim.report.html.blocks import Chart, LegendKey, pointer
from roofsim.report.html.plane import Dot, Guide, Plane, Stroke, chart
from roofsim.report.html.svg import PlotAxis
from roofsim.report.palette import MEMORY

if TYPE_CHECKING:
    from roofsim.evaluate import Evaluation

#: Instants that are kept of a longer curve: more than pixels of a phone, and every peak.
_MOST: Final = 360
#: A capacity so many times the peak would press the curve flat; it is said in words.
_FAR: Final = 2.2


def memory_data(evaluation: Evaluation) -> dict[str, Any] | None:
    """Return bytes alive at the instants of a step, on the stage that holds most, in the order of the program."""
    if not evaluation.profiles or not evaluation.profiles[0].curve:
        return None
    rows = curve_rows(evaluation)
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["stage"], []).append(row)
    stage = None
    if evaluation.program.pipelined:
        stage, rows = list(groups.items())[fullest_stage(evaluation)]
    kept = _thinned([row["allocated"] for row in rows])
    shown = [name for name in CATEGORIES if any(rows[place][name] for place in kept)]
    return {
        "stage": stage,
        "instants": len(rows),
        "index": kept,
        "op": [rows[place]["op"] for place in kept],
        "phase": [rows[place]["phase"] for place in kept],
        "allocated": [rows[place]["allocated"] for place in kept],
        "parts": {name: [rows[place][name] for place in kept] for name in shown},
    }


def _thinned(totals: list[float]) -> list[int]:
    """Return the places to keep: of each stretch the first, the highest and the lowest."""
    if len(totals) <= _MOST:
        return list(range(len(totals)))
    each = len(totals) / (_MOST / 3.0)
    kept: set[int] = {0, len(totals) - 1}
    start = 0.0
    while start < len(totals):
        places = range(int(start), min(int(start + each), len(totals)))
        if places:
            kept |= {
                places[0],
                max(places, key=lambda place: totals[place]),
                min(places, key=lambda place: totals[place]),
            }
        start += each
    return sorted(kept)


def memory_curve(data: dict[str, Any], capacity: float, steps: tuple[Any, ...]) -> Chart:
    """Return the stacked curve; `steps` lead to its data on the page."""
    across = [float(place) for place in data["index"]]
    totals = data["allocated"]
    top = max(totals)
    peak = totals.index(top)
    near = capacity < _FAR * top
    y = PlotAxis(
        label="allocated memory, bytes (1 GiB = 2^30)",
        low=0.0,
        high=max(top, capacity if near else 0.0) * 1.12,
        write=words.gibibytes,
        unit="B",
        binary=True,
    )
    x = PlotAxis(
        label="kernels of the step, in program order (number)", low=0.0, high=max(across[-1], 1.0), write=words.count
    )
    lines, below = [], tuple((place, 0.0) for place in across)
    for name, values in data["parts"].items():
        above = tuple((at, under[1] + value) for at, under, value in zip(across, below, values, strict=True))
        most = words.gibibytes(max(values))
        lines.append(
            Stroke(points=above, below=below, colour=MEMORY[name], tip=f"{name.replace('_', ' ')}: up to {most}")
        )
        below = above
    rules = [Guide(axis="x", at=at, label=phase) for at, phase in _phases(data)]
    if near:
        rules.append(Guide(axis="y", at=capacity, label=f"capacity {words.gibibytes(capacity)}", strong=True))
    mark = Dot(
        x=across[peak],
        y=top,
        colour="currentColor",
        radius=5.0,
        shape="down",
        label=f"peak {words.gibibytes(top)}",
        tip=f"peak: {words.gibibytes(top)} allocated\nin {data['phase'][peak]}, at {data['op'][peak]}",
        key=pointer(*steps, "allocated", peak),
        value=top,
    )
    legend = [LegendKey(name=name.replace("_", " "), colour=MEMORY[name]) for name in data["parts"]]
    where = "" if data["stage"] is None else f" of {data['stage']}, which holds most"
    far = "" if near else f" The card has {words.gibibytes(capacity)}."
    return chart(
        Plane(x=x, y=y, lines=tuple(lines), rules=tuple(rules), dots=(mark,), tall=260.0),
        name="Memory over the step",
        about=f"What is allocated at each kernel of the step{where}; the peak is {words.gibibytes(top)}, "
        f"in {data['phase'][peak]}.{far}",
        legend=tuple(legend),
        data=pointer(*steps),
        frame={
            "step": {"at": across, "total": totals, "op": data["op"], "phase": data["phase"], "parts": data["parts"]}
        },
    )


def _phases(data: dict[str, Any]) -> list[tuple[float, str]]:
    """Return where each phase begins, but the first; what is computed again belongs to the backward pass."""
    begins, before = [], ""
    for at, phase in zip(data["index"], data["phase"], strict=True):
        major = "backward" if phase == "recompute" else phase
        if major != before and before:
            begins.append((float(at), major))
        before = major
    return begins if len(begins) <= 6 else []
