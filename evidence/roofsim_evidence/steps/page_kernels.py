"""The part of docs/accuracy.md about single kernels: errors of the kernel models on rows that a fit had not seen."""

from __future__ import annotations

import statistics
from typing import Any, Final

from roofsim.spec.reading.source import read_yaml
from roofsim_evidence.places import constants
from roofsim_evidence.steps.tables import share

#: Class of kernels -> operations of the table.
CLASSES: Final = {
    "GEMM": ("gemm", "bmm"),
    "convolution": ("conv2d",),
    "attention, prefill": ("attention_prefill",),
    "attention, decode": ("attention_decode", "mla_decode"),
    "experts": ("moe_gemm",),
    "memory-bound": ("elementwise", "layernorm", "rmsnorm", "softmax", "embedding"),
}


def section() -> str:
    """Return the section: a table by class, and what it means."""
    rows = _measured()
    lines = [
        "| class | groups | rows | median of groups | worst group | p90 of groups, median |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, ops in CLASSES.items():
        own = [row for row in rows if row["op"] in ops]
        errors = [float(row["error"]) for row in own]
        worst = max(own, key=lambda row: float(row["error"]))
        lines.append(
            f"| {name} | {len(own)} | {sum(int(row['rows']) for row in own):,} | {share(statistics.median(errors))} | "
            f"{share(float(worst['error']))} ({worst['gpu']}, {worst['op']} {worst['dtype']}, {worst['engine']}) | "
            f"{share(statistics.median(float(row['p90']) for row in own))} |"
        )
    return "\n".join(
        [
            "## Single kernels",
            "",
            "Kernel models (`roofsim/cost/kernels/models`) against the 33,629 kernels of `evidence/measurements/kernels.csv.gz`. A group is",
            "one card, operation, number format and measuring engine; errors are those of held-out rows, the half that a fit to",
            "the other half had not seen. `python -m roofsim.calibrate.kernels` prints medians over rows; with `--transfer`, also",
            "those of each card with constants of the other cards only. Steps use only the tiles and waves of GEMMs from these",
            "models; the rest of a step is priced with the constants of steps, which the tables above score.",
            "NeuSight's convolutions are scored with their position in its sweep (`planned`, measurements/README.md), because the",
            "host time per call grew along the sweep by up to 700 us. Without it, at the middle of the sweep, their median error",
            "is 16 %.",
            "",
            *lines,
            "",
        ]
    )


def _measured() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_yaml(constants() / "kernels.yaml").data["measured"]
    return [row for row in found if "error" in row]
