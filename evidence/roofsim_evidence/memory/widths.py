"""Fit the widths of memory's intervals: hardware/constants/memory.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.spec.constants.memory_spreads import FIGURES
from roofsim_evidence.widths import half_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.calibrate.predict import Prediction

FILE: Final = "memory.yaml"
COMMAND: Final = "evidence fit memory --write"
REGIMES: Final = ("train", "infer")
#: No interval is narrower: a source prints its gigabytes with two or three digits.
NARROWEST: Final = 0.005
HEADER: Final = f"""\
# How far predicted memory is off: half widths of 80 % intervals, as logarithms (0.01: 1 % to either side);
# `{COMMAND}` wrote it from evidence/measurements/memory.jsonl.
# The meaning of each number is in roofsim/spec/constants/memory_spreads.py.
schema: 1
"""
SOURCES: Final = {
    "train": (
        "evidence/measurements/memory.jsonl; litgpt and simumax print allocated memory, torchtitan reserved memory; "
        "BLOOM used a monitor"
    ),
    "infer": (
        "evidence/measurements/memory.jsonl; AutoAWQ and exllama print allocated memory; FasterTransformer used a monitor"
    ),
}


def widths(rows: Sequence[Prediction]) -> dict[str, dict[str, float]]:
    """Return the half width of each figure in each regime, from the rows that may be fitted.

    A figure without rows takes the widest of its regime.
    """
    by_regime: dict[str, dict[str, float]] = {}
    for regime in REGIMES:
        mine = [row for row in rows if row.case.fits and row.case.regime == regime]
        own = {
            figure: half_width((row for row in mine if row.case.quantity == figure), NARROWEST) for figure in FIGURES
        }
        widest = max(width for width in own.values() if width is not None)
        by_regime[regime] = {figure: widest if width is None else width for figure, width in own.items()}
    return by_regime


def text_of(rows: Sequence[Prediction]) -> str:
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
