"""Fit the widths of inference's intervals: hardware/constants/inference_spreads.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.calibrate.cases import STEP_TIME
from roofsim.calibrate.score import grouped
from roofsim_evidence.widths import half_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.calibrate.predict import Prediction

    Rows = Sequence[Prediction]

FILE: Final = "inference_spreads.yaml"
COMMAND: Final = "evidence fit inference --write"
#: Fitted rows from which an engine's regime has a width of its own.
ENOUGH: Final = 8
#: No interval is narrower: hosts and versions differ by so much (measured on equal machines).
NARROWEST: Final = 0.03
HEADER: Final = f"""\
# How far predicted inference is off: half widths of 80 % intervals, as logarithms (0.1: 10 % to either side);
# `{COMMAND}` wrote it from evidence/measurements/inference.jsonl.
# The meaning of each number is in roofsim/spec/constants/inference_spreads.py.
schema: 1
"""


def times(rows: Rows) -> list[Prediction]:
    """Return the rows whose seconds were measured."""
    return [row for row in rows if row.case.quantity == STEP_TIME]


def widths(rows: Rows) -> dict[str, dict[str, float]]:
    """Return the widths of regimes on one GPU and on many, from the rows that may be fitted."""
    mine = [row for row in times(rows) if row.case.fits]
    return {
        "one_gpu": _by_regime([row for row in mine if row.case.gpus == 1], 1),
        "many_gpus": _by_regime([row for row in mine if row.case.gpus > 1], ENOUGH),
    }


def engine_widths(rows: Rows) -> dict[str, dict[str, float]]:
    """Return the widths of engines with rows enough."""
    mine = [row for row in times(rows) if row.case.fits and row.case.gpus == 1]
    widths = {
        engine: _by_regime(group, ENOUGH) for engine, group in grouped(mine, lambda row: row.case.software).items()
    }
    return {engine: own for engine, own in widths.items() if own}


def _by_regime(rows: Rows, enough: int) -> dict[str, float]:
    """Return the half width of each regime with so many rows."""
    groups = grouped(rows, lambda row: row.case.regime)
    widths = {regime: half_width(group, NARROWEST) for regime, group in groups.items() if len(group) >= enough}
    return {regime: width for regime, width in widths.items() if width is not None}


def text_of(rows: Rows) -> str:
    """Return the file of widths as YAML."""
    lines = [HEADER.rstrip("\n")]
    lines += [f"{name}: {_flow(table)}" for name, table in widths(rows).items()]
    own_widths = engine_widths(rows)
    lines.append("engines:" if own_widths else "engines: {}")
    lines += [f"  {engine}: {_flow(own)}" for engine, own in own_widths.items()]
    timed = times(rows)
    fitted = sum(row.case.fits for row in timed)
    lines += [
        f"architectures: [{', '.join(sorted({row.architecture for row in timed}))}]",
        "sources:",
        f'  one_gpu: "residuals of every third row of evidence/measurements/inference.jsonl, {fitted} of {len(timed)} in all"',
        "  many_gpus: as one_gpu",
        f"  engines: as one_gpu, of engines with {ENOUGH} such rows",
        "fitted:",
        f'  command: "{COMMAND}"',
    ]
    return "\n".join(lines) + "\n"


def _flow(table: dict[str, float]) -> str:
    return f"{{{', '.join(f'{regime}: {width:g}' for regime, width in table.items())}}}"
