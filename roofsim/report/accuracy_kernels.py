"""The part of docs/accuracy.md about single kernels: errors of the kernel models on rows that a fit had not seen."""

from __future__ import annotations

import statistics
from typing import Any, Final

from roofsim.report.accuracy_tables import share
from roofsim.spec import catalog
from roofsim.spec.source import read_yaml

#: Class of kernels -> operations of the table.
CLASSES: Final = {
    "products": ("gemm", "bmm"),
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
            "Kernel models (`roofsim/cost/kernel_models`) against the 33,629 kernels of `measurements/kernels.csv.gz`, each group",
            "one card, operation, number format and measuring engine; errors on the half of the rows that a fit to the other",
            "half had not seen. Medians over rows, and each card with constants of the others only, are printed by",
            "`python -m roofsim.calibrate.kernels` and `... --transfer`. Steps use of them the tiles and waves of products; the",
            "rest of a step is priced by the constants of steps, which the tables above are about.",
            "NeuSight's convolutions are scored with their place in its sweep (`planned`, measurements/README.md), for the host's",
            "time of a call grew along it by up to 700 us; at the middle of the sweep, for lack of it, their median is 16 %.",
            "",
            *lines,
            "",
        ]
    )


def _measured() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_yaml(catalog.root() / "hardware" / "constants" / "kernels.yaml").data["measured"]
    return [row for row in found if "error" in row]
