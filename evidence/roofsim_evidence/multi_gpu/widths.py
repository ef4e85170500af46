"""Fit the widths of intervals of steps on several GPUs: hardware/constants/many_gpus.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim_evidence.multi_gpu.cases import splits_model
from roofsim_evidence.widths import half_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.calibrate.predict import Prediction

FILE: Final = "many_gpus.yaml"
COMMAND: Final = "evidence fit multi-gpu --write"
HEADER: Final = f"""\
# How far steps of several GPUs are off: half widths of 80 % intervals, as logarithms;
# `{COMMAND}` wrote it from evidence/measurements/multi-gpu.jsonl.
# The meaning of each number is in roofsim/spec/constants/many_gpus.py.
schema: 1
"""


def widths(rows: Sequence[Prediction]) -> dict[str, float]:
    """Return the half width of each kind of layout, from the rows that may be fitted; the others score it."""
    by_layout = {}
    for name, split in (("sharded", False), ("model_parallel", True)):
        width = half_width(row for row in rows if splits_model(row.case) is split and row.case.fits)
        if width is not None:
            by_layout[name] = width
    return by_layout


def text_of(rows: Sequence[Prediction]) -> str:
    """Return the file of widths as YAML."""
    lines = [HEADER.rstrip("\n"), *(f"{name}: {width:g}" for name, width in widths(rows).items())]
    lines.append(f"gpus: [{', '.join(sorted({row.case.gpu for row in rows}))}]")
    lines.append(f"engines: [{', '.join(sorted({row.case.software for row in rows}))}]")
    fitted = sum(row.case.fits for row in rows)
    lines += [
        "sources:",
        f'  sharded: "residuals of every third row of evidence/measurements/multi-gpu.jsonl, {fitted} of {len(rows)} in all"',
        "  model_parallel: as sharded",
        "fitted:",
        f'  command: "{COMMAND}"',
    ]
    return "\n".join(lines) + "\n"
