"""Fill docs/external-training.md: measurements of training that nothing was fitted to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.calibrate.cases import BYTES
from roofsim_evidence.cases import load
from roofsim_evidence.external import scores
from roofsim_evidence.markdown import table
from roofsim_evidence.pages import DocsPage, filled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.calibrate.cases import Case
    from roofsim.calibrate.predict import Prediction

    Rows = Sequence[Prediction]

PATH: Final = "docs/external-training.md"
LABELS: Final = {
    "dgxc": "NVIDIA's recipes for clouds (NeMo, Megatron-Core)",
    "together": "a cloud's own runs of such recipes (B200, GB200)",
    "fms-acceleration": "fine-tuning with the transformers library",
    "fms-fsdp": "PyTorch FSDP on 128 A100",
}
#: The most GPUs of each size of run, and its name.
SIZES: Final = ((2, "1 or 2"), (32, "8 to 32"), (256, "64 to 256"), (4096, "512 to 2,304"))
#: Predictions farther off than this are listed one by one.
FAR: Final = 0.25


def external_cases() -> tuple[Case, ...]:
    """Return the measurements that may not be fitted, in the order of their file."""
    return load("external-training")


def by_source(rows: Rows) -> str:
    """Return the table of scores by source and quantity."""
    return scores(rows, lambda row: f"{LABELS[row.case.source]}{', memory' if row.case.quantity in BYTES else ''}")


def page(rows: Rows, unpriced: Sequence[tuple[Case, str]]) -> DocsPage:
    """Return the page."""
    times = [row for row in rows if row.case.quantity not in BYTES]
    text = filled(
        "external-training.md",
        total=len(rows) + len(unpriced),
        sources=by_source(rows),
        cards=scores(times, lambda row: f"{row.case.gpu}, {_precision(row.case)}"),
        families=scores(times, lambda row: row.case.family),
        gpus=scores(times, lambda row: _size(row.case.gpus)),
        far=_far(times),
        unpriced=unpriced,
    )
    return DocsPage(path=PATH, text=text)


def _size(gpus: int) -> str:
    return next(name for most, name in SIZES if gpus <= most)


def _precision(case: Case) -> str:
    return str(case.scenario["workload"]["precision"])


def _far(rows: Rows) -> str:
    """Return the table of the predictions that are farthest off."""
    far = sorted((row for row in rows if abs(row.error) > FAR), key=lambda row: -abs(row.error))
    cells = [
        (row.case.name, _model(row.case), row.case.gpu, str(row.case.gpus), _precision(row.case), f"{row.error:+.0%}")
        for row in far
    ]
    return table(("row", "model", "card", "GPUs", "precision", "error"), cells)


def _model(case: Case) -> str:
    model = case.scenario["model"]
    return model if isinstance(model, str) else str(model.get("name") or model.get("inherits"))
