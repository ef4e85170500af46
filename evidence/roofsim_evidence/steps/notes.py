"""Say what is known about rows of steps that predictions miss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim_evidence.steps.cases import StepPrediction

#: Batch of a forward pass up to which issuing kernels, not running them, takes the time.
SMALL_BATCH: Final = 16


def note(row: StepPrediction) -> str:
    """Return what is known about a row, whatever its error; empty where nothing is."""
    return "; ".join(text for text, applies in _KNOWN if applies(row))


def _batch(row: StepPrediction) -> float:
    return float(row.case.scenario["workload"]["micro_batch_size"])


def _compiled(row: StepPrediction) -> bool:
    return "compile" in row.case.software


def _early_ampere(row: StepPrediction) -> bool:
    return row.case.source == "lambda" and row.case.year <= 2021 and row.architecture.startswith("ampere")


#: What is known -> rows that it is known of.
_KNOWN: Final[tuple[tuple[str, Callable[[StepPrediction], bool]], ...]] = (
    ("TensorFlow, scored with a PyTorch engine", lambda row: row.case.source == "dle-tf"),
    (
        "compiled: Inductor may choose channels-last convolutions by itself",
        lambda row: _compiled(row) and row.case.family == "cnn",
    ),
    ("compiled", lambda row: _compiled(row) and row.case.family != "cnn"),
    (
        "container of 2020, whose cuDNN ran SSD in true FP32 faster than later ones",
        lambda row: row.case.family == "ssd" and row.case.precision == "fp32" and row.case.year <= 2020,
    ),
    ("75 W: the clock falls under load", lambda row: row.case.gpu == "p4"),
    ("72 W in true FP32: the clock is lowered by the power limit", lambda row: row.case.gpu == "l4"),
    ("passively cooled", lambda row: row.case.gpu == "a40"),
    ("AMD in FP32: units used by the library are unknown", lambda row: row.architecture.startswith("cdna")),
    ("first container for this card", lambda row: row.case.gpu.startswith("b200")),
    ("container of the chip's first year", _early_ampere),
    (
        "small batch: host-bound",
        lambda row: row.case.regime == "forward" and row.case.source == "dle-infer" and _batch(row) <= SMALL_BATCH,
    ),
    ("group width is not a power of two", lambda row: row.case.model.startswith("regnety")),
    ("depthwise convolutions", lambda row: row.case.model.startswith(("efficientnet", "mobilenet"))),
)
