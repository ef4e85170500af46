"""Predict the measured steps and print ratios: ``python benchmarks/device/against.py FILE.jsonl ...``.

One line per step: predicted over measured time, whether the measurement lies inside the 80 % interval, and the same ratios of
the allocated peak and of the bytes kept between forward and backward; then the median and mean error of each file. The card is the
one that a file's name begins with, up to the date, or `--gpu`.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any

import roofsim
from roofsim.errors import SpecError


def line_of(case: dict[str, Any], gpu: str) -> tuple[str, float | None]:
    """Return what is printed of one measured step, and its predicted over its measured time, if there are both."""
    scenario, measured = case["scenario"] | {"hardware": {"gpu": gpu}}, case["measured"]
    work = scenario["workload"]
    if case.get("compile", "default") not in (None, "default"):  # a mode of torch.compile is a variant of its engine
        work = work | {"engine": f"{work['engine']}+{case['compile']}"}
        scenario["workload"] = work
    head = f"{scenario['model']:19} {work['phase']:9} {work['precision']:9} {work['engine']:31}"
    if "error" in measured:
        return f"{head} not measured: {measured['error']}", None
    try:
        predicted = roofsim.run(scenario).to_dict()
    except SpecError as error:
        return f"{head} refused: {error}", None
    low, high = predicted["step_time_interval"]
    inside = "inside" if low <= measured["step_time_s"] <= high else "OUTSIDE"
    memory, kept = predicted["memory"], measured["kept_after_forward"]
    saved = f"{memory['saved_activations'] / kept:.3f}" if kept else "-"
    ratio = predicted["step_time"] / measured["step_time_s"]
    line = (
        f"{head} time {ratio:5.2f} {inside:8} allocated "
        f"{memory['allocated_peak'] / measured['allocated_peak']:.3f} saved {saved}"
    )
    return line, ratio


def card_of(results: Path) -> str:
    """Return the card that the name of a file of results begins with."""
    match = re.match(r"(.+?)-\d{4}-\d{2}-\d{2}", results.name)
    if match is None:
        raise SystemExit(f"{results.name}: expected a name such as h100-sxm5-80gb-2026-11-22-steps.jsonl; state --gpu")
    return match[1]


def main() -> None:
    """Print a line per step of files of results, and the errors of each file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--gpu", help="the card of all files; left out: the one that their names begin with")
    options = parser.parse_args()
    for results in options.results:
        gpu, errors = options.gpu or card_of(results), []
        for row in results.read_text(encoding="utf-8").splitlines():
            line, ratio = line_of(json.loads(row), gpu)
            errors += [] if ratio is None else [abs(ratio - 1.0)]
            sys.stdout.write(line + "\n")
        median, mean = (100.0 * of(errors) for of in (statistics.median, statistics.mean))
        sys.stdout.write(f"{gpu}: {len(errors)} steps, error of time {median:.1f} % (median), {mean:.1f} % (mean)\n")


if __name__ == "__main__":
    main()
