"""Name the measurement that decides between two scenarios: the class of ops that most of the difference is in, and the card."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from roofsim.analyze.shares import WAIT_NAMES
from roofsim.decide.timed_kernels import GROUPS, LAUNCHES, asked_of_evaluations
from roofsim.errors import SpecError
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.decide.jobs import Gain, Job
    from roofsim.decide.whatif import ChangedScenario

#: How a wait is called in tables of ops -> how `--for` calls it.
_WAITS: Final = {WAIT_NAMES[name][0]: LAUNCHES for name in ("launches", "between_passes")}
#: Share of a difference from which on a cause is named as where most of it is.
_STANDS_OUT: Final = 0.3
#: Least share of a class's time, before and after, that the kernels of a script must take for it to decide.
_DECIDES: Final = 0.5


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What to time.

    Attributes
    ----------
    what
        In words: the ops, the card, and their share of the difference.
    command
        What writes the script that times these kernels; None where it cannot time them.
    """

    what: str
    command: str | None = None


def measurement(jobs: Sequence[Job], gain: Gain, change: str) -> Measurement:
    """Return the measurement that would decide on a change, as ``--set`` takes it: of the ops that most of the difference is in."""
    weighed = _weighed(jobs, gain)
    if not weighed:
        return Measurement(what="a step of each")
    part, cause, job, outcome = weighed[0]
    assert outcome.result is not None
    card, own = outcome.result.scenario["hardware"]["gpu"], job.asking.before.scenario["hardware"]["gpu"]
    where = "" if card == own else f" on {card}"
    what = f"{cause}{where} ({100.0 * part:.0f} % of the difference)"
    return Measurement(what=what, command=_command(job, outcome, change, _WAITS.get(cause, cause)))


def mostly(jobs: Sequence[Job], gain: Gain) -> str:
    """Return which ops or which wait most of a difference is in, in words; nothing where none stands out."""
    weighed = _weighed(jobs, gain)
    if not weighed or weighed[0][0] < _STANDS_OUT:
        return ""
    return f"{100.0 * weighed[0][0]:.0f} % of the difference: {weighed[0][1]}"


def _weighed(jobs: Sequence[Job], gain: Gain) -> list[tuple[float, str, Job, ChangedScenario]]:
    """Return the share of each cause of a difference, its name, the job and what became of it; the largest first."""
    parts = [
        (abs(cause.seconds) / float(job.asking.before.step_time) * job.share, cause.cause, job, outcome)
        for job, outcome in zip(jobs, gain.outcomes, strict=True)
        if outcome is not None
        for cause in outcome.by.get("ops", ())
    ]
    whole = sum(part for part, *_ in parts) or 1.0
    return sorted(((part / whole, *others) for part, *others in parts), key=lambda one: -one[0])  # type: ignore[misc]


def _command(job: Job, outcome: ChangedScenario, change: str, name: str) -> str | None:
    """Return the command that writes a script for a class of ops; None where no script can time them, or most of their time."""
    after = job.asking.evaluated(outcome.made) if name in GROUPS else None
    if after is None:
        return None
    try:
        asked = asked_of_evaluations([job.asking.evaluation, after], name)
    except SpecError:
        return None
    if asked.share < _DECIDES:
        return None
    options = f"--set {shlex.quote(change)} --for {name} --output {asked.gpu}-{name}.py"
    return f"roofsim calibrate measure {job.command} {options}"
