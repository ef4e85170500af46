"""Evaluate layouts of GPT-3 175B by the thousand and by the million: layouts per second, array elements per layout, peak memory.

    python benchmarks/layouts.py [--most 1e7] [--record]

Layouts are all products of tensor and pipeline degree, micro batch, number of GPUs (and with it the data-parallel degree), sequence
length and global batch. *first*: nothing is known of these words, so that programs are traced. *again*: layouts of the same words
with other batches (shifted by seven values), none of which was asked for in this way before. *possible*: those that break no rule
and so have a time and a memory; of the others the rule is found. Seconds are those of the process.

Elements are the numbers of arrays that are worked out, looked up or handed out. Those inside of operations that are noted as one
(the tiles of a matrix product, a simulated pipeline) are not counted, nor, with llvmlite (extra ``roofsim[fast]``), what an
operation leaves in a register of the processor: *operations* says how many of these a layout takes.

Words (recomputation, sharding, offload) are traced one by one; those that are numbers are replayed together.
`benchmarks/plan_speed.py` lists the options of Calculon's space.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import roofsim
from benchmarks.results import record, table
from roofsim.api import import_model
from roofsim.search.mesh import forget
from roofsim.search.product import evaluate_product
from roofsim.spec.scenario.document import load_scenario

WORDS: dict[str, Any] = {"precision": "bf16", "gpu": "a100-sxm4-80gb", "engine": "megatron-core"}
#: All products of these, and of batches.
AXES: dict[str, list[int]] = {
    "tensor": [2, 4, 8],
    "pipeline": [4, 8, 16, 32],
    "micro_batch_size": [1, 2, 4, 8],
    "gpus": [64 * 2**power for power in range(8)],
    "sequence_length": [1024, 2048, 4096, 8192],
}
ROWS = math.prod(map(len, AXES.values()))
#: Layouts that are evaluated in one call at most: enough to share work, few enough to bound memory. Calls are of equal size: a last
#: one of a single batch would take another program.
AT_ONCE = 1_500_000
#: Batches that lie between those asked for first and those asked for again.
SHIFT = 7


def batches(least: float, first: int = 1) -> list[int]:
    """Return batches of which there are at least so many layouts, as many in each call: multiples of 256 from this one on."""
    calls = math.ceil(least / AT_ONCE)
    each = max(math.ceil(least / ROWS / calls), 1)
    return [256 * number for number in range(first, first + calls * each)]


def measure(sizes: list[int]) -> dict[str, float]:
    """Return what evaluating all layouts of these batches takes: seconds, elements, operations, programs that were traced."""
    document = load_scenario("gpt3-175b", WORDS)
    total = dict.fromkeys(("layouts", "evaluated", "seconds", "elements", "operations", "programs"), 0.0)
    for some in np.array_split(sizes, math.ceil(len(sizes) * ROWS / AT_ONCE)):
        start = time.process_time()
        answer = evaluate_product(document, AXES | {"global_batch_size": some.tolist()}, import_model)
        total["seconds"] += time.process_time() - start
        total["layouts"] += answer.figures["step_time"].size
        total["evaluated"] += float(np.isfinite(answer.figures["step_time"]).sum())
        total["elements"] += answer.elements
        total["operations"] += answer.operations
        total["programs"] += answer.programs
    return total


def main() -> None:
    """Print a table of numbers of layouts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--most", type=float, default=1e7)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    roofsim.run("gpt2", gpu="a100")  # imports, catalogs
    rows, least = [], 1e4
    while least <= options.most:
        forget()
        first, again = measure(batches(least)), measure(batches(least, 1 + SHIFT))
        rows.append(
            (
                f"{again['layouts']:,.0f}",
                f"{again['evaluated']:,.0f}",
                f"{first['programs']:.0f}",
                f"{first['seconds']:.2f}",
                f"{again['seconds']:.2f}",
                f"{again['layouts'] / again['seconds']:,.0f}",
                f"{again['elements'] / again['evaluated']:.1f}",
                f"{again['operations'] / again['evaluated']:.0f}",
                f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}",
            )
        )
        least *= 10.0
    names = ("layouts", "possible", "programs", "first s", "again s", "layouts/s", "elements", "operations", "peak MiB")
    print(table(names, rows))
    if options.record:
        print(record("layouts", {"rows": [dict(zip(names, row, strict=True)) for row in rows]}))


if __name__ == "__main__":
    main()
