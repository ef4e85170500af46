"""Load and predict the shipped measurements of inference: ``evidence fit inference --write``."""

from __future__ import annotations

import csv
import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.intervals import interval
from roofsim.analyze.ledger import memory_of
from roofsim.api import resolve, serve
from roofsim.errors import NoDataError, SpecError
from roofsim.evaluate import Evaluation, evaluate
from roofsim.records import dataclass, replace
from roofsim_evidence.cases import FIT_SHARE, Case, case_order, engine_name, folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: What was measured -> what of an evaluation it is held against. `tpot`, `ttft` and `output_rate` are those of a server.
TIME: Final = "time"
SERVED: Final = ("tpot", "ttft", "output_rate")
BYTES: Final = ("reserved", "weights")


@dataclass(frozen=True, kw_only=True)
class InferenceCase(Case):
    """One measurement of inference.

    Attributes
    ----------
    metric
        ``time``: seconds of what the phase is (one decode step in the mean, a whole prefill, generation or pass); ``tpot``,
        ``ttft`` (seconds) and ``output_rate`` (tokens per second) of a server; ``reserved``, ``weights``: bytes.
    quality
        A: every setting is stated; B: one is not, or the host may show.
    citation
        File or table.
    """

    metric: str
    quality: str
    citation: str

    @property
    def gpus(self) -> int:
        """GPUs of the run."""
        found: int = self.scenario["hardware"].get("gpus", 1)
        return found

    @property
    def batch(self) -> int:
        """Sequences or images of a pass."""
        found: int = self.scenario["workload"].get("batch_size", 1)
        return found


@dataclass(frozen=True, kw_only=True)
class InferencePrediction:
    """A case and what is predicted for it, in the unit of what was measured."""

    case: InferenceCase
    architecture: str
    predicted: float
    interval: tuple[float, float] | None = None
    experts: bool = False
    """Of a server: whether its model is a mixture of experts."""

    @property
    def error(self) -> float:
        """The relative error: positive where more is predicted than was measured."""
        return self.predicted / self.case.measured - 1.0


@cache
def load_inference_cases(name: str = "inference.csv") -> tuple[InferenceCase, ...]:
    """Return the measurements of inference of a file in its order; of the shipped ones every third may be fitted.

    Those of any other file may not.
    """
    with (folder() / name).open(encoding="utf-8", newline="") as file:
        cases = [_case(row) for row in csv.DictReader(file)]
    if name != "inference.csv":
        return tuple(cases)
    drawn = {case.name for case in sorted(cases, key=case_order)[::FIT_SHARE]}
    return tuple(replace(case, fits=case.name in drawn) for case in cases)


def _case(row: dict[str, str]) -> InferenceCase:
    scenario = json.loads(row["scenario"])
    return InferenceCase(
        name=row["id"],
        source=row["source"],
        year=int(row["year"]),
        gpu=row["gpu"],
        software=engine_name(scenario),
        regime=row["regime"],
        family=_model_name(scenario["model"]),
        measured=float(row["value"]),
        scenario=scenario,
        note=row["note"],
        metric=row["metric"],
        quality=row["quality"],
        citation=row["citation"],
    )


def _model_name(model: Any) -> str:
    return model if isinstance(model, str) else str(model["name"])


def _seconds(evaluation: Evaluation) -> float:
    return float(evaluation.step.step)


def _reserved(evaluation: Evaluation) -> float:
    return float(memory_of(evaluation).reserved)


def _weights(evaluation: Evaluation) -> float:
    return float(memory_of(evaluation).components["parameters"])


#: Metric -> what is read off an evaluation; those of a server are read off what `serve` answers.
READ: Final[dict[str, Callable[[Evaluation], float]]] = {TIME: _seconds, "reserved": _reserved, "weights": _weights}


def _served(case: InferenceCase) -> InferencePrediction | str:
    """Predict a server in its steady state; without `concurrency` with as many requests as fit."""
    found = serve(case.scenario)
    if found.steady is None:
        return "no steady state"
    answer = found.to_dict()
    latency, rates = answer["latency"], answer["throughput"]
    name = {"tpot": "time_per_output_token", "ttft": "time_to_first_token"}.get(case.metric)
    ends = None if name is None else latency[f"{name}_range"]
    return InferencePrediction(
        case=case,
        architecture=found.plan.resolved.architecture.name,
        predicted=float(rates["output_tokens_per_second"] if name is None else latency[name]),
        interval=None if ends is None else (float(ends[0]), float(ends[1])),
        experts=bool(found.plan.resolved.model.traits().experts),
    )


def predict_inference(case: InferenceCase) -> InferencePrediction | str:
    """Predict a case with the shipped constants, or say why it is not priced."""
    try:
        if case.metric in SERVED:
            return _served(case)
        evaluation = evaluate(resolve(case.scenario))
    except (SpecError, NoDataError) as problem:
        return str(problem).splitlines()[0]
    return InferencePrediction(
        case=case,
        architecture=evaluation.resolved.architecture.name,
        predicted=READ[case.metric](evaluation),
        interval=interval(evaluation) if case.metric == TIME else None,
    )


def predict_all(
    cases: Iterable[InferenceCase] | None = None,
) -> tuple[list[InferencePrediction], list[tuple[InferenceCase, str]]]:
    """Predict some cases, or all that are shipped; those that are not priced come with the reason."""
    rows, unpriced = [], []
    for case in load_inference_cases() if cases is None else cases:
        found = predict_inference(case)
        if isinstance(found, str):
            unpriced.append((case, found))
        else:
            rows.append(found)
    return rows, unpriced


if __name__ == "__main__":
    from roofsim_evidence.inference.files import main

    main()
