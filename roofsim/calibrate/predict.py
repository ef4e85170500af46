"""Predict what was measured: one prediction for one measurement, with its 80 % interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.analyze.intervals import interval, memory_intervals
from roofsim.analyze.ledger import memory_of
from roofsim.api import resolve_document
from roofsim.calibrate.bounded import output_rate_within
from roofsim.calibrate.cases import BYTES, REQUESTS, SERVED
from roofsim.errors import NoDataError
from roofsim.records import dataclass
from roofsim.serve.any_model import serve_any
from roofsim.serve.one_pass.served import ServedPasses
from roofsim.serve.ranges import rate_range
from roofsim.spec.scenario.document import load_scenario

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roofsim.calibrate.cases import Case
    from roofsim.evaluate import Evaluation
    from roofsim.serve.served import Served


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A measurement and what is predicted for it, in the unit of what was measured.

    Attributes
    ----------
    interval
        Ends of the 80 % interval, where the constants come with residuals.
    architecture
        That of the card.
    experts
        Whether the model is a mixture of experts.
    """

    case: Case
    predicted: float
    interval: tuple[float, float] | None = None
    architecture: str = ""
    experts: bool = False

    @property
    def error(self) -> float:
        """The relative error: positive where more is predicted than was measured (a time: too slow)."""
        return self.predicted / self.case.measured - 1.0


def predict_case(case: Case) -> Prediction:
    """Predict one measurement with the shipped constants.

    Raises
    ------
    SpecError
        When the scenario is wrong.
    NoDataError
        When the catalog lacks a number that the prediction needs, or a server has no steady state.
    """
    return _served(case) if case.quantity in SERVED else prediction_of(case, case.evaluate())


def predict_cases(cases: Iterable[Case]) -> list[Prediction]:
    """Predict all cases, in one pass."""
    return [predict_case(case) for case in cases]


def prediction_of(case: Case, evaluation: Evaluation) -> Prediction:
    """Read what was measured off an evaluation of the case's scenario."""
    predicted, ends = (_bytes if case.quantity in BYTES else _seconds)(case, evaluation)
    return Prediction(
        case=case,
        predicted=predicted,
        interval=ends,
        architecture=evaluation.resolved.architecture.name,
        experts=bool(evaluation.resolved.model.traits().experts),
    )


def _seconds(case: Case, evaluation: Evaluation) -> tuple[float, tuple[float, float] | None]:
    del case
    return float(evaluation.step.step), interval(evaluation)


def _bytes(case: Case, evaluation: Evaluation) -> tuple[float, tuple[float, float] | None]:
    memory = memory_of(evaluation)
    if case.quantity in memory.components:
        return float(memory.components[case.quantity]), None
    intervals = memory_intervals(memory, evaluation.resolved)
    return float(getattr(memory, case.quantity)), intervals.get(case.quantity)


def _one_pass(case: Case, served: ServedPasses) -> Prediction:
    """Predict the requests per second of a server of a network that answers in one pass."""
    if case.quantity != REQUESTS or served.steady is None:
        raise NoDataError(served.reason or f"no {case.quantity} of a network that answers in one pass")
    resolved = served.plan.resolved
    return Prediction(
        case=case,
        predicted=served.steady.request_rate,
        interval=served.highest_rate_range if served.bounded is None else served.bounded.rates,
        architecture=resolved.architecture.name,
        experts=bool(resolved.model.traits().experts),
    )


def _served(case: Case) -> Prediction:
    """Predict a server in its steady state; without `concurrency`, with as many requests as fit."""
    return prediction_of_server(case, serve_any(load_scenario(case.scenario, {}), resolve_document))


def prediction_of_server(case: Case, served: Served | ServedPasses) -> Prediction:
    """Read what was measured off the answer of a server.

    Raises
    ------
    NoDataError
        When the server has no steady state.
    """
    if isinstance(served, ServedPasses):
        return _one_pass(case, served)
    if served.steady is None:
        raise NoDataError("no steady state")
    answer, resolved = served.to_dict(), served.plan.resolved
    figures = {**answer["latency"], **answer["throughput"]}
    ends = figures.get(f"{case.quantity}_range")
    if case.bounds is not None:
        each = served.plan.output if case.quantity == REQUESTS else 1.0
        figures[case.quantity] = output_rate_within(served, case.scenario, case.bounds) / each
    if case.bounds is not None or case.quantity == REQUESTS:
        ends = rate_range(figures[case.quantity], resolved)
    return Prediction(
        case=case,
        predicted=float(figures[case.quantity]),
        interval=None if ends is None else (float(ends[0]), float(ends[1])),
        architecture=resolved.architecture.name,
        experts=bool(resolved.model.traits().experts),
    )
