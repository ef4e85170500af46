"""Count the points per second of a sweep over layouts, and the array elements that each point takes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import roofsim
from roofsim.cost import priced_kernels

#: Layouts and batches of llama3-70b on up to 512 GPUs.
SCENARIO = {
    "model": "llama3-70b",
    "workload": {"sequence_length": 4096, "precision": "bf16"},
    "hardware": {"gpu": "h100"},
}
AXES: dict[str, list[Any]] = {
    "parallel.tensor": [1, 2, 4, 8],
    "parallel.pipeline": [1, 2, 4, 5, 8, 10],
    "parallel.data": [1, 2, 4, 8],
    "workload.micro_batch_size": [1, 2, 4],
    "workload.global_batch_size": [128, 256, 512],
    "hardware.override.gpu.memory.bandwidth": ["2 TB/s", "3.35 TB/s"],
}
SAMPLE = 20


class _Counted:
    """Count the kernels that are priced, an element for each point and each change of the hardware."""

    def __init__(self) -> None:
        self.elements = 0
        self._own = priced_kernels.price

    def __enter__(self) -> _Counted:
        priced_kernels.price = self._price
        return self

    def _price(self, *numbers: Any) -> Any:
        price = self._own(*numbers)
        self.elements += int(np.size(price.time))
        return price

    def __exit__(self, *_: object) -> None:
        priced_kernels.price = self._own


def measure() -> dict[str, float]:
    """Sweep layouts, and run a sample of the points alone."""
    with _Counted() as counted:
        start = time.perf_counter()
        table = roofsim.sweep(SCENARIO, AXES)
        together = time.perf_counter() - start
    rows = [row for row in table.to_rows() if row["feasible"]]
    picks = [rows[place] for place in np.random.default_rng(0).integers(0, len(rows), SAMPLE)]
    roofsim.run(SCENARIO)
    start = time.perf_counter()
    alone = [roofsim.run(SCENARIO, **{path: row[path] for path in AXES}).step_time for row in picks]
    single = (time.perf_counter() - start) / SAMPLE
    worst = max(abs(row["step_time"] / step - 1.0) for row, step in zip(picks, alone, strict=True))
    points = len(table)
    return {
        "points": points,
        "evaluated together": table.evaluated.together,
        "evaluated alone": table.evaluated.alone,
        "refused": table.evaluated.refused,
        "programs": table.evaluated.structures,
        "seconds": together,
        "points per second": points / together,
        "kernels priced per point": counted.elements / points,
        "seconds for one run": single,
        "times faster than one by one": single * points / together,
        "largest difference (relative)": worst,
    }
