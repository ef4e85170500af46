"""Score steps of several GPUs, fit the width of their intervals: ``evidence fit multi-gpu --write``."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.output import save_text
from roofsim.records import replace
from roofsim_evidence.cases import FIT_SHARE, Case, case_order, engine_name, folder
from roofsim_evidence.multi_gpu.notes import COMPOSED, FOREIGN, HEAD, LABELS, LEVERS, MEMORY, PEERS, REMAINS
from roofsim_evidence.places import checkout, constants
from roofsim_evidence.score import NOMINAL_COVERAGE, Prediction, grouped, predict_cases, score

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMAND: Final = "evidence fit multi-gpu --write"
PAGE: Final = "docs/multi-gpu-accuracy.md"
WORST: Final = 15
#: Degrees that split a model; without them ranks only share state and batch.
SPLITS: Final = ("tensor", "pipeline", "context", "expert")
HEADER: Final = f"""\
# How far steps of several GPUs are off: half widths of 80 % intervals, as logarithms;
# `{COMMAND}` wrote it from evidence/measurements/multi-gpu.jsonl.
# The meaning of each number is in roofsim/spec/constants/many_gpus.py.
schema: 1
"""


def load_multi_cases() -> tuple[Case, ...]:
    """Return the shipped steps of several GPUs, in the order of the file, with a flag of what may be fitted."""
    with (folder() / "multi.csv").open(encoding="utf-8", newline="") as file:
        cases = [_case(row) for row in csv.DictReader(file)]
    measured = [case for case in cases if case.source not in (COMPOSED, *FOREIGN)]
    drawn = {case.name for case in sorted(measured, key=case_order)[::FIT_SHARE]}
    return tuple(replace(case, fits=case.name in drawn) for case in cases)


def _case(row: dict[str, str]) -> Case:
    scenario = json.loads(row["scenario"])
    return Case(
        name=row["id"],
        source=row["source"],
        year=int(row["year"]),
        gpu=row["gpu"],
        software=engine_name(scenario),
        regime="train",
        family=row["family"],
        measured=float(row["value"]),
        scenario=scenario,
        note="; ".join(filter(None, (f"grade {row['grade']}", row["citation"], row["note"]))),
    )


def splits_model(case: Case) -> bool:
    """Tell whether a layout splits the model itself."""
    return any(case.scenario["parallel"].get(name, 1) > 1 for name in SPLITS)


def widths(rows: Sequence[Prediction]) -> dict[str, float]:
    """Return the half width that holds 80 % of the rows that may be fitted, for each kind of layout; the others score it.

    The quantile of a new row beside n others is the ceil(0.8 (n + 1))-th smallest of theirs.
    """
    found = {}
    for name, split in (("sharded", False), ("model_parallel", True)):
        mine = [row for row in rows if splits_model(row.case) is split and row.case.fits]
        logs = sorted(abs(float(np.log1p(row.error))) for row in mine)
        place = min(int(np.ceil(NOMINAL_COVERAGE * (len(logs) + 1))), len(logs))
        found[name] = round(logs[place - 1], 4)
    return found


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


def group_of(row: Prediction) -> str:
    """Return the line of the table that a row belongs to."""
    case = row.case
    gpu = case.gpu.upper().split("-")
    card = f"{gpu[0]} {gpu[2]}" if gpu[0] == "A100" else "H100 500 W" if "500W" in gpu else gpu[0]
    narrow = " fp8" if case.scenario["workload"]["precision"] == "fp8" else ""
    return f"{LABELS[case.source]}: {case.family}, {card}{narrow}"


def page(rows: Sequence[Prediction], composed: Sequence[Prediction]) -> str:
    """Return the page."""
    held = [row for row in rows if not row.case.fits]
    table = [_head("sets"), *(_line(name, mine) for name, mine in grouped(rows, group_of).items())]
    by_source = grouped(rows, lambda row: LABELS[row.case.source])
    sources = [_head("source"), *(_line(name, mine, PEERS) for name, mine in by_source.items())]
    sources += [_line("all", rows), _line("held out", held)]
    worst = sorted(rows, key=lambda row: -abs(row.error))[:WORST]
    bad = ["| row | source | measured | predicted | error |", "| --- | --- | ---: | ---: | ---: |"]
    bad += [
        f"| {row.case.name} | {LABELS[row.case.source]} | {row.case.measured:.3g} s | {row.predicted:.3g} s | {row.error:+.1%} |"
        for row in worst
    ]
    parts = [
        HEAD.format(total=len(rows), fitted=len(rows) - len(held), command=COMMAND), "## Sources\n", *sources, "",
        "## Sets\n", *table, "", "## Composed steps\n", COMPOSED_NOTE, _head("set"), _line(LABELS[COMPOSED], composed), "", LEVERS,
        "## Memory\n", MEMORY.format(total=len(rows), refused=sum(not row.fits for row in rows)), "",
        "## Worst rows\n", *bad, "", REMAINS,
    ]  # fmt: skip
    return "\n".join(parts).rstrip() + "\n"


COMPOSED_NOTE: Final = """\
vTrain's single-node file contains no measurements: its times are exact sums of per-micro-batch and per-layer parts, to the
nanosecond where nothing is reduced. It tests the structure of another simulator, host-bound kernels included, and does not
count in the tables above. Its tracer's host needs 95 us for one kind of forward kernel and 12 us for another. These two
numbers, stated in the scenarios, were fitted to every ninth row; nothing else is fitted.
"""


def _head(what: str) -> str:
    rule = "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
    return f"| {what} | n | mean | median | p90 | bias | rank | in interval | published peer, mean |\n{rule}"


def _line(name: str, rows: Sequence[Prediction], peers: dict[str, str] | None = None) -> str:
    found = score(rows)
    rank = "" if found.rank is None else f"{found.rank:.2f}"
    inside = "" if found.coverage is None else f"{found.coverage:.0%}"
    return (
        f"| {name} | {found.n} | {found.mean:.1%} | {found.median:.1%} | {found.p90:.1%} | {found.bias:+.1%} | {rank} "
        f"| {inside} | {(peers or {}).get(name, '')} |"
    )


def main() -> None:
    """Print the scores; with ``--write`` replace the file of widths, then the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="Write hardware/constants/many_gpus.yaml and the page.")
    arguments = parser.parse_args()
    cases = load_multi_cases()
    rows = predict_cases(case for case in cases if case.source != COMPOSED)
    if not arguments.write:
        for name, mine in grouped(rows, group_of).items():
            sys.stdout.write(_line(name, mine) + "\n")
        return
    save_text(constants() / "many_gpus.yaml", text_of(rows))
    _forget()
    rows = predict_cases(case for case in cases if case.source != COMPOSED)
    composed = predict_cases(case for case in cases if case.source == COMPOSED)
    save_text(checkout() / PAGE, page(rows, composed))


def _forget() -> None:
    from roofsim.spec.constants import many_gpus

    many_gpus.shipped.cache_clear()


if __name__ == "__main__":
    main()
