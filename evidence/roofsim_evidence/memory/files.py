"""Fit the widths of memory's intervals and score memory: ``evidence fit memory --write``."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.output import save_text
from roofsim.spec.constants.memory_spreads import FIGURES
from roofsim_evidence.memory.cases import FIGURE_OF, predict_all, stated
from roofsim_evidence.memory.notes import CHOSEN, GROUPS, INTRODUCTION, PEERS, REMAINS, SOURCES, note
from roofsim_evidence.places import checkout, constants
from roofsim_evidence.score import NOMINAL_COVERAGE, grouped, score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from roofsim_evidence.memory.cases import MemoryPrediction

COMMAND: Final = "evidence fit memory --write"
PAGE: Final = "docs/memory-accuracy.md"
REGIMES: Final = ("train", "infer")
WORST: Final = 15
#: No interval is narrower: a source prints its gigabytes with two or three digits.
NARROWEST: Final = 0.005
HEADER: Final = f"""\
# How far predicted memory is off: half widths of 80 % intervals, as logarithms (0.01: 1 % to either side);
# `{COMMAND}` wrote it from evidence/measurements/memory.jsonl.
# The meaning of each number is in roofsim/spec/constants/memory_spreads.py.
schema: 1
"""
HEADS: Final = ("source", "measured", "n", "median", "mean", "p90", "worst", "bias", "in interval", "state alone: mean")

Rows = list["MemoryPrediction"]


def widths(rows: Sequence[MemoryPrediction]) -> dict[str, dict[str, float]]:
    """Return the half width of each figure in each regime that holds 80 % of the fitted rows, of as few as they are.

    The quantile of a new row beside n others is the ceil(0.8 (n + 1))-th smallest of theirs. A figure without rows takes
    the widest of its regime.
    """
    found: dict[str, dict[str, float]] = {}
    for regime in REGIMES:
        mine = [row for row in rows if row.case.fits and row.case.regime == regime]
        own = {figure: _quantile(row for row in mine if FIGURE_OF[row.case.quantity] == figure) for figure in FIGURES}
        widest = max(width for width in own.values() if width is not None)
        found[regime] = {figure: widest if width is None else width for figure, width in own.items()}
    return found


def _quantile(rows: Iterable[MemoryPrediction]) -> float | None:
    logs = sorted(abs(float(np.log1p(row.error))) for row in rows)
    if not logs:
        return None
    place = min(int(np.ceil(NOMINAL_COVERAGE * (len(logs) + 1))), len(logs))
    return max(round(logs[place - 1], 4), NARROWEST)


def text_of(rows: Sequence[MemoryPrediction]) -> str:
    """Return the file of widths as YAML."""
    lines = [HEADER.rstrip("\n")]
    for regime, parts in widths(rows).items():
        lines.append(f"{regime}: {{{', '.join(f'{name}: {value:g}' for name, value in parts.items())}}}")
    lines.append("engines:")
    for regime in REGIMES:
        engines = sorted({row.case.engine for row in rows if row.case.regime == regime})
        lines.append(f"  {regime}: [{', '.join(engines)}]")
    fitted = sum(row.case.fits for row in rows)
    lines += ["fitted:", f'  command: "{COMMAND}"', f"  rows: {fitted} of {len(rows)}, every third"]
    lines += ["sources:", *(f"  {name}: {text}" for name, text in SOURCES.items())]
    lines += ["ranges:", *(f'  {name}: "0.01-0.25"' for name in REGIMES)]
    return "\n".join(lines) + "\n"


def page(rows: Sequence[MemoryPrediction]) -> str:
    """Return the document with the scores."""
    known = stated(rows)
    held = [row for row in known if not row.case.fits]
    parts = [
        INTRODUCTION.format(rows=len(rows), fitted=sum(row.case.fits for row in rows), apart=len(rows) - len(known)),
        "## Goals\n\n" + _table(("rows", "goal", "now", "met"), _goals(known), left=2),
        "## By source\n\n" + _scores(known) + "\n" + _legend(known),
        "## By what was measured\n\n"
        + _table(HEADS, [_line(name, members) for name, members in _by(known, _quantity).items()], left=2),
        "## Rows scored separately\n\nA setting that affects their memory is not stated; the scenario shows the assumption.\n\n"
        + _scores([row for row in rows if row.case.apart]),
        _intervals(held),
        "## Choices made on these rows\n\n" + "\n".join(f"- {text}" for text in CHOSEN),
        "## Other tools\n\n"
        + _table(("tool", "repository", "rows", "its mean error", "roofsim's"), _peers(known), left=3),
        f"## The worst {WORST} rows\n\n" + _worst(known),
        "## Known errors\n\n" + "\n".join(f"- {text}" for text in REMAINS),
    ]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _peers(rows: Rows) -> list[tuple[str, ...]]:
    """Return mean absolute errors of others beside ours: of published predictions row by row, or as measured elsewhere."""
    found = []
    for name in ("simumax", "simumax-moe"):
        mine = [row for row in rows if row.case.source == name]
        theirs = score(mine, [row.case.peer or np.nan for row in mine]).mean
        ours = score(mine).mean
        found.append(
            ("SimuMax", "`MooreThreads/SimuMax`", f"`{name}`, {len(mine)} rows", f"{theirs:.2%}", f"{ours:.2%}")
        )
    titan = score([row for row in rows if row.case.source == "torchtitan"]).mean
    return [*found, *((*peer, _share(titan)) for peer in PEERS)]


def _goals(rows: Rows) -> list[tuple[str, ...]]:
    sources = grouped(rows, lambda row: row.case.source)
    found = []
    for name, kind, limit in (("simumax", "mean", 0.01), ("torchtitan", "mean", 0.06)):
        value = getattr(score(sources[name]), kind)
        found.append((f"`{name}`: {kind}", f"<= {_share(limit)}", _share(value), _met(value <= limit)))
    others = {name: score(members).median for name, members in sources.items() if name not in ("simumax", "torchtitan")}
    for name, value in others.items():
        found.append((f"`{name}`: median", "<= 10.0 %", _share(value), _met(value <= 0.1)))
    inside = score([row for row in rows if not row.case.fits]).coverage or 0.0
    return [
        *found,
        ("80 % intervals, rows that were not fitted", "75 % to 85 %", _share(inside), _met(0.75 <= inside <= 0.85)),
    ]


def _scores(rows: Rows) -> str:
    return _table(HEADS, [_line(name, members) for name, members in _by(rows, _source).items()], left=2)


def _source(row: MemoryPrediction) -> str:
    return f"`{row.case.source}`|{row.case.quantity}"


def _quantity(row: MemoryPrediction) -> str:
    return f"all, {'training' if row.case.regime == 'train' else 'inference'}|{row.case.quantity}"


def _by(rows: Rows, key: Callable[[MemoryPrediction], str]) -> dict[str, Rows]:
    return grouped(rows, key)


def _line(name: str, members: Rows) -> tuple[str, ...]:
    """Return a line of a table of scores; coverage is that of the rows to which no width was fitted."""
    found, held = score(members), [row for row in members if not row.case.fits]
    inside = score(held).coverage if held else None
    state = score(members, [row.state for row in members])
    errors = (found.median, found.mean, found.p90, found.worst)
    bias = f"{100.0 * found.bias:+.1f} %"
    return (*name.split("|"), str(found.n), *map(_share, errors), bias, _share(inside), _share(state.mean))


def _legend(rows: Rows) -> str:
    names = sorted({row.case.source for row in rows})
    return "\n".join(f"- `{name}`: {GROUPS[name]}" for name in names)


def _intervals(held: Rows) -> str:
    lines = []
    for name, members in grouped(held, _quantity).items():
        shares = [(row.interval[1] / row.interval[0]) ** 0.5 - 1.0 for row in members if row.interval is not None]
        lines.append(
            (*name.split("|"), str(len(members)), _share(float(np.median(shares))), _share(score(members).coverage))
        )
    heads = ("regime", "measured", "n", "half width", "inside")
    inside = _share(score(held).coverage)
    return f"""## Intervals

{inside} of the held-out rows are inside their 80 % interval. Widths come from every third row, by regime and by measured quantity;
engines without a measured run get intervals 1.5 times as wide. Neither end of an interval of `reserved` or `device` is below that
of the figure it contains.

{_table(heads, lines, left=2)}"""


def _worst(rows: Rows) -> str:
    found = sorted(rows, key=lambda row: -abs(row.error))[:WORST]
    lines = [
        (
            f"`{row.case.name}`",
            row.case.source,
            note(row),
            _gib(row.case.measured),
            _gib(row.predicted),
            f"{100.0 * row.error:+.1f} %",
        )
        for row in found
    ]
    return _table(("row", "source", "known cause", "measured", "predicted", "error"), lines, left=3)


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100.0 * value:.1f} %"


def _met(holds: bool) -> str:
    return "yes" if holds else "**no**"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, left: int) -> str:
    rules = ["---"] * left + ["---:"] * (len(heads) - left)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, rules, *rows)) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the scores; with ``--write`` fit the widths and write them and the page, ``--page`` the page alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="fit, and write hardware/constants/memory.yaml")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE}")
    options = parser.parse_args(arguments)
    rows = predict_all()
    sys.stdout.write(_scores(stated(rows)))
    if options.write:
        path = constants() / "memory.yaml"
        save_text(path, text_of(rows))
        sys.stdout.write(f"wrote {path.name}; --page writes the page with the new widths\n")
    elif options.page:
        save_text(checkout() / PAGE, page(rows))
