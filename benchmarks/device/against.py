"""Predict the measured steps and print ratios: ``python benchmarks/device/against.py FILE.jsonl --gpu NAME``.

One line per step: predicted over measured time, whether the measurement lies inside the 80 % interval, and the same ratios of
the allocated peak and of the bytes kept between forward and backward.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import roofsim
from roofsim.errors import SpecError


def line_of(case: dict, gpu: str) -> str:
    """Return what is printed of one measured step."""
    scenario, measured = case["scenario"] | {"hardware": {"gpu": gpu}}, case["measured"]
    work = scenario["workload"]
    if case.get("compile", "default") not in (None, "default"):  # a mode of torch.compile is a variant of its engine
        work = work | {"engine": f"{work['engine']}+{case['compile']}"}
        scenario["workload"] = work
    head = f"{scenario['model']:19} {work['phase']:9} {work['precision']:9} {work['engine']:31}"
    if "error" in measured:
        return f"{head} not measured: {measured['error']}"
    try:
        predicted = roofsim.run(scenario).to_dict()
    except SpecError as error:
        return f"{head} refused: {error}"
    low, high = predicted["step_time_interval"]
    inside = "inside" if low <= measured["step_time_s"] <= high else "OUTSIDE"
    memory, kept = predicted["memory"], measured["kept_after_forward"]
    saved = f"{memory['saved_activations'] / kept:.3f}" if kept else "-"
    return (
        f"{head} time {predicted['step_time'] / measured['step_time_s']:5.2f} {inside:8} allocated "
        f"{memory['allocated_peak'] / measured['allocated_peak']:.3f} saved {saved}"
    )


def main() -> None:
    """Print a line per step of a file of results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--gpu", default="h100-sxm5-80gb")
    options = parser.parse_args()
    for line in options.results.read_text(encoding="utf-8").splitlines():
        sys.stdout.write(line_of(json.loads(line), options.gpu) + "\n")


if __name__ == "__main__":
    main()
