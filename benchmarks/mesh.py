"""Count the points per second of one array evaluation against one scenario at a time, through the same code."""

from __future__ import annotations

import time

import numpy as np

from roofsim.api import resolve
from roofsim.evaluate import evaluate
from roofsim.spec.mesh import axes, with_values

BATCHES = [float(size) for size in range(1, 101)]
BANDWIDTHS = np.linspace(0.5, 8.0, 1000) * 1e12
SAMPLE = 40


def measure() -> dict[str, float]:
    """Price 100 batch sizes x 1,000 bandwidths of a training step of llama3-8b, and a sample of its points alone."""
    request = resolve({"model": "llama3-8b", "workload": {"sequence_length": 2048, "precision": "bf16"}})
    mesh = dict(
        zip(("workload.micro_batch_size", "gpu.memory.bandwidth"), axes([BATCHES, list(BANDWIDTHS)]), strict=True)
    )
    evaluate(request)
    start = time.perf_counter()
    whole = evaluate(with_values(request, mesh))
    together = time.perf_counter() - start
    picks = np.random.default_rng(0).integers((0, 0), (len(BATCHES), len(BANDWIDTHS)), (SAMPLE, 2))
    start = time.perf_counter()
    alone = [
        evaluate(
            with_values(
                request, {"workload.micro_batch_size": BATCHES[i], "gpu.memory.bandwidth": float(BANDWIDTHS[j])}
            )
        )
        for i, j in picks
    ]
    single = (time.perf_counter() - start) / SAMPLE
    worst = max(
        abs(float(whole.step.step[i, j]) / float(one.step.step) - 1.0) for (i, j), one in zip(picks, alone, strict=True)
    )
    points = float(np.size(whole.step.step))
    return {
        "points": points,
        "seconds together": together,
        "points per second": points / together,
        "seconds for one point alone": single,
        "times faster than one by one": single * points / together,
        "largest difference (relative)": worst,
    }
