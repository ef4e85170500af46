"""Fit the widths of inference's intervals and write its page: ``evidence fit inference --write``."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.output import save_text
from roofsim.spec.constants import inference_spreads
from roofsim_evidence.inference.cases import BYTES, SERVED, TIME, load_inference_cases, predict_all
from roofsim_evidence.inference.fit import read_left_out
from roofsim_evidence.inference.notes import DECIDES, HEAD, LABELS, LEFT, REMAINS, SERVERS
from roofsim_evidence.places import checkout, constants
from roofsim_evidence.score import NOMINAL_COVERAGE, grouped, score
from roofsim_evidence.steps.scorecard import MOVED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roofsim_evidence.inference.cases import InferenceCase, InferencePrediction

    Rows = Sequence[InferencePrediction]
    Unpriced = Sequence[tuple[InferenceCase, str]]

COMMAND: Final = "evidence fit inference --write"
PAGE: Final = "docs/inference-accuracy.md"
WORST: Final = 15
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


def times(rows: Rows) -> list[InferencePrediction]:
    """Return the rows whose seconds were measured."""
    return [row for row in rows if row.case.metric == TIME]


def half_width(rows: Rows) -> float:
    """Return the half width that holds 80 % of some rows and of one more: the ceil(0.8 (n + 1))-th smallest of theirs."""
    logs = sorted(abs(float(np.log1p(row.error))) for row in rows)
    place = min(int(np.ceil(NOMINAL_COVERAGE * (len(logs) + 1))), len(logs))
    return max(round(logs[place - 1], 4), NARROWEST)


def widths(rows: Rows) -> dict[str, dict[str, float]]:
    """Return the widths of regimes on one GPU and on many, from the rows that may be fitted."""
    mine = [row for row in times(rows) if row.case.fits]
    one = grouped([row for row in mine if row.case.gpus == 1], lambda row: row.case.regime)
    many = grouped([row for row in mine if row.case.gpus > 1], lambda row: row.case.regime)
    return {
        "one_gpu": {regime: half_width(group) for regime, group in one.items()},
        "many_gpus": {regime: half_width(group) for regime, group in many.items() if len(group) >= ENOUGH},
    }


def engine_widths(rows: Rows) -> dict[str, dict[str, float]]:
    """Return the widths of engines with rows enough."""
    found: dict[str, dict[str, float]] = {}
    mine = [row for row in times(rows) if row.case.fits and row.case.gpus == 1]
    for engine, group in grouped(mine, lambda row: row.case.software).items():
        own = {regime: half_width(part) for regime, part in _by_regime(group).items() if len(part) >= ENOUGH}
        if own:
            found[engine] = own
    return found


def _by_regime(rows: Rows) -> dict[str, list[InferencePrediction]]:
    return grouped(rows, lambda row: row.case.regime)


def text_of(rows: Rows) -> str:
    """Return the file of widths as YAML."""
    lines = [HEADER.rstrip("\n")]
    for name, table in widths(rows).items():
        lines.append(f"{name}: {{{', '.join(f'{regime}: {width:g}' for regime, width in table.items())}}}")
    own_widths = engine_widths(rows)
    lines.append("engines:" if own_widths else "engines: {}")
    for engine, own in own_widths.items():
        lines.append(f"  {engine}: {{{', '.join(f'{regime}: {width:g}' for regime, width in own.items())}}}")
    lines.append(f"architectures: [{', '.join(sorted({row.architecture for row in times(rows)}))}]")
    fitted = sum(row.case.fits for row in times(rows))
    lines += [
        "sources:",
        f'  one_gpu: "residuals of every third row of evidence/measurements/inference.jsonl, {fitted} of {len(times(rows))} in all"',
        "  many_gpus: as one_gpu",
        f"  engines: as one_gpu, of engines with {ENOUGH} such rows",
        "fitted:",
        f'  command: "{COMMAND}"',
    ]
    return "\n".join(lines) + "\n"


def page(rows: Rows, unpriced: Unpriced) -> str:
    """Return the page."""
    timed = times(rows)
    one, many = [row for row in timed if row.case.gpus == 1], [row for row in timed if row.case.gpus > 1]
    servers = sum(row.case.metric in SERVED for row in rows)
    head = HEAD.format(
        command=COMMAND, total=len(rows) + len(unpriced), priced=len(rows), servers=servers,
        waiting=len(unpriced), fitted=sum(row.case.fits for row in rows),
    )  # fmt: skip
    parts = [
        head,
        "## Engines, one GPU\n", *_table(one, lambda row: f"{row.case.software}, {row.case.regime}"), "",
        "## Several GPUs\n", *_table(many, lambda row: f"{row.case.software}, {row.case.regime}"), "",
        "## Regimes\n", *_table(timed, lambda row: f"{row.case.regime}, {'one GPU' if row.case.gpus == 1 else 'several'}"), "",
        "## Sources\n", *_table(timed, lambda row: f"{LABELS[row.case.source]}, quality {row.case.quality}"), "",
        "## Card families, one GPU\n", *_table(one, lambda row: f"{row.architecture}, {row.case.software}, {row.case.regime}"), "",
        "## Servers\n", SERVERS, *_servers(rows), "",
        "## A card left out\n", *_left_out(timed), "",
        "## Memory\n", *_memory(rows), "",
        "## Rows without a prediction\n", *_unpriced(unpriced), "", DECIDES, "## Worst rows\n", *_worst(timed), "", REMAINS,
    ]  # fmt: skip
    return "\n".join(parts).rstrip() + "\n"


def _table(rows: Rows, key: Callable[[InferencePrediction], str]) -> list[str]:
    lines = [
        "| group | n | median | held out | mean | p90 | bias | rank | in interval |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [_line(name, mine) for name, mine in grouped(rows, key).items()]
    return [*lines, _line("all", rows)] if rows else lines


def _line(name: str, rows: Rows) -> str:
    found = score(rows)
    held = [row for row in rows if not row.case.fits]
    rest = f"{score(held).median:.1%}" if held else ""
    inside = score(held).coverage if held else None
    rank = "" if found.rank is None else f"{found.rank:.2f}"
    covered = "" if inside is None else f"{inside:.0%}"
    return (
        f"| {name} | {found.n} | {found.median:.1%} | {rest} | {found.mean:.1%} | {found.p90:.1%} | {found.bias:+.1%} | {rank} "
        f"| {covered} |"
    )


def _memory(rows: Rows) -> list[str]:
    held = [row for row in rows if row.case.metric in BYTES]
    return _table(held, lambda row: f"{row.case.software}, {row.case.metric}")


def _servers(rows: Rows) -> list[str]:
    """Return the scores of servers: time per token and to the first one at fixed concurrency, rates of saturated ones."""
    served = [row for row in rows if row.case.metric in SERVED]
    by_kind = _table(served, lambda row: f"{row.case.metric}, {'experts' if row.experts else 'dense'}")
    return [*by_kind[:-1], *_table(served, lambda row: f"{row.case.metric}, {row.case.software}")[2:-1]]


def _left_out(rows: Rows) -> list[str]:
    """Return the scores of predictions by constants that never saw the card, where they belong to today's predictions."""
    stored = read_left_out()
    known = [row for row in rows if row.case.name in stored]
    moved = [row for row in known if abs(stored[row.case.name][0] / row.predicted - 1.0) > MOVED]
    if moved:
        return [
            f"{len(moved)} shipped predictions have moved since `python -m roofsim_evidence.inference.fit` ran; run it again."
        ]
    lines = [
        "Constants of engines without measured kernels, refitted without any row of the scored card.\n",
        "| engine, regime | cards | n | median | median without the card | p90 without |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, mine in grouped(known, lambda row: f"{row.case.software}, {row.case.regime}").items():
        with_card, without = score(mine), score(mine, [stored[row.case.name][1] for row in mine])
        cards = len({row.case.gpu for row in mine})
        lines.append(
            f"| {name} | {cards} | {len(mine)} | {with_card.median:.1%} | {without.median:.1%} | {without.p90:.1%} |"
        )
    return lines


def _unpriced(unpriced: Unpriced) -> list[str]:
    """Return what is in the file and waits, and what was left out of it."""
    counts = Counter((LABELS[case.source], _reason(case, why)) for case, why in unpriced)
    lines = ["In the file, not predicted yet:\n", "| source | rows | why |", "| --- | ---: | --- |"]
    lines += [f"| {source} | {number} | {why} |" for (source, why), number in sorted(counts.items())]
    lines += ["", "Excluded from the file:\n", "| rows | why |", "| ---: | --- |"]
    return lines + [f"| {number} | {why} |" for number, why in LEFT]


def _reason(case: InferenceCase, why: str) -> str:
    if case.metric in SERVED:
        return why
    return "pipeline stages in inference" if "pipeline" in why else why.partition(": ")[2] or why


def _worst(rows: Rows) -> list[str]:
    worst = sorted(rows, key=lambda row: -abs(float(np.log1p(row.error))))[:WORST]
    lines = [
        "| row | engine | card | model | measured | predicted | error |",
        "| --- | --- | --- | --- | ---: | ---: | ---: |",
    ]
    return lines + [
        f"| {row.case.name} | {row.case.software}, {row.case.regime} | {row.case.gpu} | {row.case.family} "
        f"| {row.case.measured:.3g} s | {row.predicted:.3g} s | {row.error:+.0%} |"
        for row in worst
    ]


def main() -> None:
    """Print the scores; with ``--write`` replace the file of widths, then the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help="Write hardware/constants/inference_spreads.yaml and the page."
    )
    arguments = parser.parse_args()
    rows, unpriced = predict_all(load_inference_cases())
    if not arguments.write:
        sys.stdout.write("\n".join(_table(times(rows), lambda row: f"{row.case.software}, {row.case.regime}")) + "\n")
        return
    save_text(constants() / "inference_spreads.yaml", text_of(rows))
    inference_spreads.shipped.cache_clear()
    rows, unpriced = predict_all(load_inference_cases())
    save_text(checkout() / PAGE, page(rows, unpriced))


if __name__ == "__main__":
    main()
