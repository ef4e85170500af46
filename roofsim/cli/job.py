"""Say on several verbs what a whole job takes: ``--tokens 1e12``, ``--samples 1.2M --epochs 3``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from roofsim.analyze.result import Result
    from roofsim.decide.long_job import JobCost, Work
    from roofsim.evaluate import Evaluation


def work_of(asked: Mapping[str, str | None] | None) -> Work | None:
    """Return the work that is asked for; None where none is.

    Raises
    ------
    SpecError
        For figures that are none, before anything is computed.
    """
    if not any((asked or {}).values()):
        return None
    from roofsim.decide.long_job import read_work

    return read_work(asked or {})


def jobs_of(
    answers: Sequence[tuple[Evaluation | None, Result | None]], work: Work | None, labels: Sequence[str] = ()
) -> list[JobCost]:
    """Return what the work takes on each of some answers; none where none is asked for."""
    if work is None:
        return []
    from roofsim.decide.long_job import cost_of_job

    named = labels or [""] * len(answers)
    pairs = zip(answers, named, strict=True)
    return [
        cost_of_job(evaluation, result, work, label)
        for (evaluation, result), label in pairs
        if evaluation is not None and result is not None
    ]


def with_job(document: dict[str, Any], costs: Sequence[JobCost]) -> dict[str, Any]:
    """Return plain data with what the job takes beside it: one mapping, or a list of several."""
    if not costs:
        return document
    return document | {"job": costs[0].to_dict() if len(costs) == 1 else [cost.to_dict() for cost in costs]}
