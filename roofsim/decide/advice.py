"""Hold a piece of advice: a change, what it gains, how sure that is, what it costs, and the command that shows it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final

from roofsim.decide.measurement import measurement
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.decide.jobs import Gain, Job

#: Gains below this share of speed are not worth a line.
LEAST: Final = 0.01
#: What an assumption begins with that decides what is computed: a card without bf16 computes in another type.
_CHOSEN: Final = "precision:"


@dataclass(frozen=True, kw_only=True)
class Advice:
    """One candidate.

    Attributes
    ----------
    kind
        What it is about: ``precision``, ``fusion``, ``layout``, ``memory_bandwidth``, ``gpus`` ...
    change
        In words, or as options have it.
    command
        What shows it.
    gain, interval
        More speed as a share (0.34: 34 % faster), and its 80 % interval.
    usd
        Dollars per hour more (negative: less) of all GPUs; None where a price is not known.
    usd_per_hour_now
        Dollars per hour of all GPUs now, where that price is found: at a seller of both cards, if there is one.
    cost_ratio
        Dollars per unit of work over those before; None where a price is missing.
    price, comparable
        Whose price it is, and of when; whether it is of the same market as that of the hardware now.
    why
        What stands behind it.
    by_host
        Whether a card is faster mostly by the host that it usually stands in.
    decided
        Whether the interval leaves no doubt that it is faster.
    measure
        Where it does not: whose time to measure, before and after, to decide.
    measure_command
        What writes the script that measures it; None where `roofsim calibrate measure` cannot.
    notes
        What is to be known of the scenario with it that does not hold of the one now: warnings, another precision that is assumed.
    """

    kind: str
    change: str
    command: str
    gain: float
    interval: tuple[float, float] | None = None
    usd: float | None = None
    usd_per_hour_now: float | None = None
    cost_ratio: float | None = None
    price: str | None = None
    comparable: bool = True
    by_host: bool = False
    why: str = ""
    decided: bool = True
    measure: str | None = None
    measure_command: str | None = None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        own = dict(self.__dict__)
        return own | {"interval": None if self.interval is None else list(self.interval), "notes": list(self.notes)}


def command_of(jobs: Sequence[Job], change: str, verb: str = "whatif") -> str:
    """Return the command that shows a change of the first job that it applies to."""
    return f"roofsim {verb} {jobs[0].command} --set {shlex.quote(change)}"


def advice_of(
    jobs: Sequence[Job], gain: Gain, *, kind: str, change: str, why: str = "", shown: str | None = None, **others: Any
) -> Advice:
    """Return the advice that a gain makes.

    Parameters
    ----------
    change
        As ``--set`` takes it.
    shown
        What it is called; as `change`, if left out.
    """
    decided = gain.verdict != "about_equal"
    deciding = None if decided else measurement(jobs, gain, change)
    touched = [job for job, outcome in zip(jobs, gain.outcomes, strict=True) if outcome is not None]
    return Advice(
        kind=kind,
        change=shown or change,
        command=command_of(touched, change),
        gain=gain.ratio - 1.0,
        interval=None if gain.interval is None else (gain.interval[0] - 1.0, gain.interval[1] - 1.0),
        cost_ratio=_cost_ratio(jobs, gain),
        why=why,
        decided=decided,
        measure=None if deciding is None else deciding.what,
        measure_command=None if deciding is None else deciding.command,
        notes=_notes(jobs, gain),
        **others,
    )


def warned_of(jobs: Sequence[Job], gain: Gain) -> bool:
    """Tell whether a scenario itself warns of a change, not only its result: that copies of tables drift apart."""
    for job, outcome in zip(jobs, gain.outcomes, strict=True):
        after = None if outcome is None else job.asking.evaluated(outcome.made)
        if after is not None and set(after.resolved.warnings) - set(job.asking.evaluation.resolved.warnings):
            return True
    return False


def _notes(jobs: Sequence[Job], gain: Gain) -> tuple[str, ...]:
    """Return what is to be known of the scenarios with a change, and does not hold of those now; each once."""
    said: dict[str, None] = {}
    for job, outcome in zip(jobs, gain.outcomes, strict=True):
        if outcome is None or outcome.result is None:
            continue
        before, after = job.asking.before, outcome.result
        said |= dict.fromkeys(one for one in after.warnings if one not in before.warnings)
        chosen = [one for one in after.assumed if one.startswith(_CHOSEN) and one not in before.assumed]
        said |= dict.fromkeys(f"assumed {one}" for one in chosen)
    return tuple(said)


def _cost_ratio(jobs: Sequence[Job], gain: Gain) -> float | None:
    """Return dollars for the same work over those before, of all jobs; None where a price is missing."""
    total = 0.0
    for job, outcome in zip(jobs, gain.outcomes, strict=True):
        one = 1.0 if outcome is None else outcome.cost_ratio
        if one is None:
            return None
        total += job.share * one
    return total
