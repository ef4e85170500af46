"""Time tables of prices: processor seconds per row, the first table of a kind and a second one with other numbers.

    python benchmarks/predict_batch.py [--rows 20000] [--record]

*first*: nothing is kept. *again*: the same kind and scenario, other rows.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import roofsim
from benchmarks.results import record, table

ROWS = 20_000


def tables(rows: int, seed: int) -> dict[str, tuple[str, dict[str, Any], str | None, dict[str, Any]]]:
    """Return the tables: kind, columns, scenario, and the rest of it."""
    chosen = np.random.default_rng(seed).integers
    sizes = {name: chosen(16, 8192, rows) for name in ("m", "n", "k")}
    serving = {"gpu": "h100", "engine": "vllm"}
    return {
        "kernel: matmul": ("kernel", {"op": ["matmul"], **sizes}, None, {"gpu": "h100"}),
        "kernel: attention": (
            "kernel",
            {"op": ["attention"], "heads": [32], "head_size": [128], "q_length": chosen(16, 8192, rows)},
            None,
            {"gpu": "h100"},
        ),
        "kernel: elementwise": (
            "kernel",
            {"op": ["elementwise"], "elements": chosen(16, 10**8, rows)},
            None,
            {"gpu": "h100"},
        ),
        "collective": (
            "collective",
            {"bytes": chosen(1024, 2**30, rows), "ranks": [8]},
            None,
            {"gpu": "h100", "gpus": 8},
        ),
        "decode step": (
            "decode",
            {"batch_size": chosen(1, 256, rows), "context_length": chosen(128, 8192, rows)},
            "llama3-8b",
            serving,
        ),
        "prefill step": (
            "prefill",
            {"batch_size": [1], "prompt_length": chosen(128, 8192, rows)},
            "llama3-8b",
            serving,
        ),
        "training step": (
            "train",
            {"micro_batch_size": chosen(1, 16, rows), "sequence_length": chosen(1, 64, rows) * 128},
            "llama3-8b",
            {"gpu": "h100", "gpus": 8, "sharding": "full"},
        ),
        "layer": (
            "layer",
            {"micro_batch_size": chosen(1, 16, rows // 4), "sequence_length": chosen(1, 64, rows // 4) * 128},
            "llama3-8b",
            {"gpu": "h100"},
        ),
    }


def measure(rows: int = ROWS) -> dict[str, float]:
    """Return microseconds of the processor per row, by table."""
    figures: dict[str, float] = {}
    for seed, when in ((0, "first"), (1, "again")):
        for name, (kind, columns, scenario, options) in tables(rows, seed).items():
            start = time.process_time()
            priced = roofsim.predict_batch(kind, columns, scenario, **options)
            figures[f"{name}, {when}"] = (time.process_time() - start) / len(priced) * 1e6
    return figures


def main() -> None:
    """Print the figures, and keep them where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--record", action="store_true")
    asked = parser.parse_args()
    figures = measure(asked.rows)
    print(table(("table", "us per row"), [(name, f"{value:.2f}") for name, value in figures.items()]))
    if asked.record:
        print(record("predict_batch", figures))


if __name__ == "__main__":
    main()
