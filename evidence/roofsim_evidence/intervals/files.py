"""Write the terms of intervals: hardware/constants/intervals.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import yaml

from roofsim.spec.constants.intervals import MeasuredRuns
from roofsim_evidence.intervals.fit import COUNTS_AS
from roofsim_evidence.intervals.terms import MEMORY, TIME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roofsim_evidence.intervals.fit import Ends
    from roofsim_evidence.intervals.terms import TermText

FILE: Final = "intervals.yaml"
COMMAND: Final = "evidence fit intervals --write"
HEAD: Final = f"""\
# How far predictions may be off: 80 % intervals from residuals out of fold (evidence/measurements/out_of_fold);
# `{COMMAND}` wrote it. `below` and `above` are logarithms of measured over predicted (0.1: 10 %) that a tenth of
# measurements lies beyond at each end, for every unit of what a term counts; terms add in quadrature. `measured` is what stands
# behind each regime. roofsim/spec/constants/intervals.py describes the keys.
schema: 1
"""
_SET: Final = "residuals out of fold: sources, cards and families left out of every fit"


def text_of(time: Ends, memory: Ends, measured: Mapping[str, MeasuredRuns], fitted: Mapping[str, str]) -> str:
    """Return the file."""
    lines = [HEAD.rstrip("\n")]
    for key, ends, texts in (("time", time, TIME), ("memory", memory, MEMORY)):
        lines.append(f"{key}:")
        for name, text in texts.items():
            lines += _term(name, ends[name], text)
    lines.append("measured:")
    for regime, known in measured.items():
        lines.append(f"  {regime}:")
        for field in MeasuredRuns.model_fields:
            lines.append(f"    {field}: {_flow(list(getattr(known, field)))}")
    lines.append("fitted:")
    lines += [f"  {name}: {_flow(text)}" for name, text in fitted.items()]
    return "\n".join(lines) + "\n"


def _term(name: str, ends: tuple[float, float], text: TermText) -> list[str]:
    source = f"quantiles of {text.drawn}, sources left out" if text.drawn else _SET
    if ends[1] == text.expected:
        source = text.source
    return [
        f"  {name}: {{below: {ends[0]:g}, above: {ends[1]:g}, range: [{text.range[0]:g}, {text.range[1]:g}],",
        f"    counts: {_flow(text.counts)},",
        f"    meaning: {_flow(text.meaning)},",
        f"    source: {_flow(source)}}}",
    ]


def about(times: int, peaks: int, inside: Mapping[str, float]) -> dict[str, str]:
    """Return what the file says of its fit."""
    shares = ", ".join(f"{kind} {share:.0%}" for kind, share in inside.items())
    return {
        "command": COMMAND,
        "rows": f"{times} times and {peaks} peaks of memory; rows of one source and regime count as {COUNTS_AS:g} at most",
        "inside": f"of times, by what was left out: {shares}",
    }


def _flow(value: object) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10**6, allow_unicode=True)
    return text.strip()
