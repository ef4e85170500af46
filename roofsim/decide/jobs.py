"""Hold a mix of jobs: each as it is, what changes make of it, and what they make of the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.analyze.throughput import units_per_step
from roofsim.analyze.verdicts import pace_verdict
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.decide.changes import KeyChange
    from roofsim.decide.whatif import Asking, ChangedScenario
    from roofsim.evaluate import Evaluation


@dataclass(frozen=True, kw_only=True)
class Job:
    """One job of a mix.

    Attributes
    ----------
    name
        How it was asked for.
    command
        The scenario and its options as the command line of ``whatif`` takes them.
    share
        Of the machine's time, as it is today.
    """

    name: str
    command: str
    asking: Asking
    share: float

    @property
    def pace(self) -> float:
        """Units of work per second, as it is."""
        return pace_of(self.asking.evaluation)


@dataclass(frozen=True, kw_only=True)
class Gain:
    """What a change makes of a mix.

    Attributes
    ----------
    ratio
        Of speeds: the machine's time for the same work before, over that after.
    interval
        Its 80 % interval; None where no interval is known.
    outcomes
        Of each job; None where the change does not apply to it and it stays as it is.
    """

    ratio: float
    interval: tuple[float, float] | None
    outcomes: tuple[ChangedScenario | None, ...]

    @property
    def verdict(self) -> str:
        """``faster``, ``about_equal`` or ``slower``."""
        return pace_verdict(self.interval, self.ratio)

    @property
    def fits(self) -> bool:
        """Whether every job that it changes fits in memory."""
        return all(one is None or one.result is None or bool(one.result.memory.fits) for one in self.outcomes)


def pace_of(evaluation: Evaluation) -> float:
    """Return units of work (tokens, or images) per second."""
    _, units, _ = units_per_step(evaluation.resolved)
    return float(units) / float(evaluation.step.step)


def gain_of(jobs: Sequence[Job], made: tuple[KeyChange, ...], *, everywhere: bool) -> Gain | None:
    """Return what changes make of a mix; None where no job takes them, or, `everywhere`, where one does not.

    The time of the machine for the same work is the mean of the jobs' times for a unit of it, by their shares of the time today.
    Errors of the jobs are taken to go together.
    """
    every = [job.asking.outcome(made) for job in jobs]
    outcomes = [outcome if outcome.result is not None and outcome.ratio else None for outcome in every]
    if all(outcome is None for outcome in outcomes) or (everywhere and None in outcomes):
        return None
    ratios = [1.0 if outcome is None else float(outcome.ratio or 1.0) for outcome in outcomes]
    intervals: list[Any] = [(1.0, 1.0) if outcome is None else outcome.interval for outcome in outcomes]
    interval = None
    if None not in intervals:
        low, high = (mixed(jobs, [ends[side] for ends in intervals]) for side in (0, 1))
        interval = low, high
    return Gain(ratio=mixed(jobs, ratios), interval=interval, outcomes=tuple(outcomes))


def mixed(jobs: Sequence[Job], ratios: Sequence[float]) -> float:
    """Return the ratio of speeds of a mix, from those of its jobs: their harmonic mean by share of time."""
    return 1.0 / sum(job.share / ratio for job, ratio in zip(jobs, ratios, strict=True))
