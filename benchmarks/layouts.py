"""Evaluate layouts of GPT-3 175B by the thousand and by the million: layouts per second, array elements per layout, peak memory.

    python benchmarks/layouts.py [--most 1e6] [--record]

Layouts differ in tensor and pipeline degree, micro batch, number of GPUs (and with it the data-parallel degree), global batch and
sequence length. *first*: nothing is known of these words, so that programs are traced. *again*: other layouts of the same words,
replayed. Elements are the numbers of arrays that the replay works out, what it looks up included; those inside of operations that
are noted as one (the tiles of a matrix product, a simulated pipeline) are not counted.

Words (recomputation, sharding, offload) are traced one by one; those that are numbers are replayed together.
`benchmarks/plan_speed.py` lists the options of Calculon's space.
"""

from __future__ import annotations

import argparse
import itertools
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
from roofsim.search.mesh import evaluate_layouts, forget
from roofsim.spec.scenario.document import load_scenario

WORDS: dict[str, Any] = {"precision": "bf16", "gpu": "a100-sxm4-80gb", "engine": "megatron-core"}
#: Layouts that are evaluated in one call: enough to share work, few enough to bound memory.
AT_ONCE = 200_000


def layouts(least: float) -> dict[str, Any]:
    """Return at least so many layouts: a column of each of their numbers."""
    tensor, pipeline, micro = [2, 4, 8], [4, 8, 16, 32], [1, 2, 4, 8]
    gpus, lengths = [64 * 2**power for power in range(8)], [1024, 2048, 4096, 8192]
    batches = max(int(np.ceil(least / (len(tensor) * len(pipeline) * len(micro) * len(gpus) * len(lengths)))), 1)
    batch = [256 * number for number in range(1, batches + 1)]
    rows = np.array(list(itertools.product(batch, tensor, pipeline, micro, gpus, lengths)), dtype=np.float64)
    names = ("global_batch_size", "tensor", "pipeline", "micro_batch_size", "gpus", "sequence_length")
    return dict(zip(names, np.ascontiguousarray(rows.T), strict=True))


def measure(columns: dict[str, Any]) -> dict[str, float]:
    """Return what evaluating layouts takes: seconds, elements, how many have an answer, programs that were traced."""
    document = load_scenario("gpt3-175b", WORDS)
    size = len(columns["tensor"])
    total = {"layouts": float(size), "evaluated": 0.0, "seconds": 0.0, "elements": 0.0, "programs": 0.0}
    for first in range(0, size, AT_ONCE):
        part = {name: values[first : first + AT_ONCE] for name, values in columns.items()}
        start = time.perf_counter()
        answer = evaluate_layouts(document, part, import_model)
        total["seconds"] += time.perf_counter() - start
        total["evaluated"] += float(np.isfinite(answer.figures["step_time"]).sum())
        total["elements"] += answer.elements
        total["programs"] += answer.programs
    return total


def main() -> None:
    """Print a table of numbers of layouts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--most", type=float, default=1e6)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    roofsim.run("gpt2", gpu="a100")  # imports, catalogs
    rows, least = [], 1e4
    while least <= options.most:
        forget()
        columns = layouts(least)
        first, again = measure(columns), measure(columns)
        rows.append(
            (
                f"{again['layouts']:,.0f}",
                f"{again['evaluated']:,.0f}",
                f"{first['programs']:.0f}",
                f"{first['seconds']:.2f}",
                f"{again['seconds']:.2f}",
                f"{again['layouts'] / again['seconds']:,.0f}",
                f"{again['elements'] / again['evaluated']:.0f}",
                f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}",
            )
        )
        least *= 10.0
    names = ("layouts", "possible", "programs", "first s", "again s", "layouts/s", "elements/layout", "peak MiB")
    print(table(names, rows))
    if options.record:
        print(record("layouts", {"rows": [dict(zip(names, row, strict=True)) for row in rows]}))


if __name__ == "__main__":
    main()
