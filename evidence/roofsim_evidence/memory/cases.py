"""Load the shipped measurements of peak memory and predict them: ``python -m roofsim_evidence.memory.cases``."""

from __future__ import annotations

import csv
import hashlib
import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.intervals import memory_intervals, regime_of
from roofsim.analyze.ledger import memory_of
from roofsim.api import resolve
from roofsim.evaluate import evaluate
from roofsim.records import dataclass, replace
from roofsim_evidence.cases import FIT_SHARE, engine_name, folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from roofsim.evaluate import Evaluation

#: What a source measured -> the figure of the answer that it is held against.
FIGURE_OF: Final = {"allocated": "allocated_peak", "reserved": "reserved", "device": "device_total"}
#: What a model of parameters, gradients and optimizer state alone would count.
_STATE: Final = ("parameters", "gradients", "optimizer_state")


@dataclass(frozen=True, kw_only=True)
class MemoryCase:
    """One measured peak of memory on one device.

    Attributes
    ----------
    source
        Short name of the publication (measurements/README.md).
    quantity
        allocated (tensors), reserved (the allocator's pools) or device (all that the card shows).
    measured
        Bytes.
    scenario
        What was run.
    reference
        Repository and file that print the number.
    apart
        Why the row scores apart: a setting that moves its memory is not stated. Empty for all others.
    peer
        Bytes that the source's own simulator predicts, where it publishes them.
    fits
        Whether widths of intervals may be fitted to it.
    """

    name: str
    source: str
    quantity: str
    measured: float
    scenario: dict[str, Any]
    reference: str
    apart: str = ""
    note: str = ""
    peer: float | None = None
    fits: bool = False

    @property
    def regime(self) -> str:
        """What sort of program it is: train or infer."""
        return regime_of(self.scenario["workload"].get("phase", "train"))

    @property
    def engine(self) -> str:
        """Catalog name of the engine."""
        return engine_name(self.scenario)

    def evaluate(self) -> Evaluation:
        """Price the scenario with the shipped constants."""
        return evaluate(resolve(self.scenario))


@dataclass(frozen=True, kw_only=True)
class MemoryPrediction:
    """A case and what is predicted for it. Bytes.

    Attributes
    ----------
    state
        Parameters, gradients and optimizer state alone: what a model without activations would answer.
    peak_op
        The op at the predicted peak.
    """

    case: MemoryCase
    predicted: float
    state: float
    interval: tuple[float, float] | None
    peak_op: str

    @property
    def error(self) -> float:
        """The relative error: positive where the prediction is too high."""
        return self.predicted / self.case.measured - 1.0


@cache
def load_memory_cases() -> tuple[MemoryCase, ...]:
    """Return all shipped cases, in the order of the file; every third, sorted, may be fitted."""
    with (folder() / "memory.csv").open(encoding="utf-8", newline="") as file:
        cases = [_case(row) for row in csv.DictReader(file)]
    drawn = {case.name for case in sorted((case for case in cases if not case.apart), key=_order)[::FIT_SHARE]}
    return tuple(replace(case, fits=case.name in drawn) for case in cases)


def _order(case: MemoryCase) -> tuple[str, ...]:
    return (case.quantity, case.regime, case.source, hashlib.sha256(case.name.encode()).hexdigest())


def _case(row: dict[str, str]) -> MemoryCase:
    return MemoryCase(
        name=row["id"],
        source=row["source"],
        quantity=row["quantity"],
        measured=float(row["value"]),
        scenario=json.loads(row["scenario"]),
        reference=row["reference"],
        apart=row["apart"],
        note=row["note"],
        peer=float(row["peer"]) if row["peer"] else None,
    )


@cache
def predict_memory(case_name: str) -> MemoryPrediction:
    """Predict one shipped case with the shipped constants."""
    case = next(case for case in load_memory_cases() if case.name == case_name)
    evaluation = case.evaluate()
    memory = memory_of(evaluation)
    figure = FIGURE_OF[case.quantity]
    intervals = memory_intervals(memory, evaluation.resolved)
    return MemoryPrediction(
        case=case,
        predicted=float(getattr(memory, figure)),
        state=_state(evaluation),
        interval=None if intervals is None else intervals[figure],
        peak_op=memory.peak_op,
    )


def _state(evaluation: Evaluation) -> float:
    """Return the state of the fullest stage; a gradient counts as if all were kept to the end."""
    found = []
    for profile in evaluation.profiles:
        phases = profile.phase_live.values()
        found.append(sum(max(_number(parts[name]) for parts in phases) for name in _STATE))
    return max(found)


def _number(value: Any) -> float:
    """Return a number, or the last of an array of contexts."""
    return float(value) if not getattr(value, "shape", ()) else float(value[..., -1])


def predict_all(cases: Iterable[MemoryCase] | None = None) -> list[MemoryPrediction]:
    """Predict some cases, or all that are shipped."""
    return [predict_memory(case.name) for case in (load_memory_cases() if cases is None else cases)]


def stated(rows: Sequence[MemoryPrediction]) -> list[MemoryPrediction]:
    """Return the rows whose settings are all known."""
    return [row for row in rows if not row.case.apart]


if __name__ == "__main__":
    from roofsim_evidence.memory.files import main

    main()
