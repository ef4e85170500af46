"""The part of docs/accuracy.md about single kernels: errors of the kernel models on rows that a fit had not seen."""

from __future__ import annotations

import statistics
from typing import Any, Final

from roofsim.report.scores import share
from roofsim.spec.reading.source import read_yaml
from roofsim_evidence.markdown import table
from roofsim_evidence.places import constants

#: Class of kernels -> operations of the table.
CLASSES: Final = {
    "GEMM": ("gemm", "bmm"),
    "convolution": ("conv2d",),
    "attention, prefill": ("attention_prefill",),
    "attention, decode": ("attention_decode", "mla_decode"),
    "experts": ("moe_gemm",),
    "memory-bound": ("elementwise", "layernorm", "rmsnorm", "softmax", "embedding"),
}


def by_class() -> str:
    """Return the table of errors by class of kernels."""
    rows = _measured()
    cells = []
    for name, ops in CLASSES.items():
        own = [row for row in rows if row["op"] in ops]
        errors = [float(row["error"]) for row in own]
        worst = max(own, key=lambda row: float(row["error"]))
        cells.append(
            (
                name,
                str(len(own)),
                f"{sum(int(row['rows']) for row in own):,}",
                share(statistics.median(errors)),
                f"{share(float(worst['error']))} ({worst['gpu']}, {worst['op']} {worst['dtype']}, {worst['engine']})",
                share(statistics.median(float(row["p90"]) for row in own)),
            )
        )
    return table(("class", "groups", "rows", "median of groups", "worst group", "p90 of groups, median"), cells)


def _measured() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_yaml(constants() / "kernels.yaml").data["measured"]
    return [row for row in rows if "error" in row]
