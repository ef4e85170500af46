"""Find what makes a job fit that does not: on the same hardware, and on other or more."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.used_prices import quote_in
from roofsim.analyze.verdicts import missing_there
from roofsim.api import resolve_document
from roofsim.decide.advice import Advice, advice_of, warned_of
from roofsim.decide.candidates import written
from roofsim.decide.changes import read_changes
from roofsim.decide.jobs import gain_of
from roofsim.decide.side_by_side import Prices, priced
from roofsim.errors import NoDataError, SpecError
from roofsim.records import dataclass, replace
from roofsim.units import binary_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.decide.jobs import Job
    from roofsim.search.fitting.changes import Remedy

#: Changes that are proposed on the same hardware, and on other or more.
_SAME: Final = 3
_OTHER: Final = 2
#: Key of a scenario that names the card.
_CARD: Final = "hardware.gpu"
#: What is said of remedies by which something else is computed.
_OTHERWISE: Final = "changes what is computed"
#: What is added where less is computed: shorter sequences, prompts or images.
_SHORTER: Final = "shortens the sequences"
#: What gains and costs are against, of jobs that do not fit.
AGAINST: Final = (
    "Faster and cost are against the speed that it would have with enough memory: as it is, it does not run."
)


@dataclass(frozen=True, kw_only=True)
class Fitting:
    """What makes the first job fit that does not: on the same hardware, and on other or more; the fastest first."""

    job: Job
    same: tuple[Advice, ...]
    other: tuple[Advice, ...]

    def sentence(self, free: Sequence[Advice], buy: Sequence[Advice]) -> str:
        """Return that it does not fit, and the fastest way to make it fit; of all that is proposed for free and to buy."""
        memory = self.job.asking.before.memory
        needs, has = binary_bytes(float(memory.device_total)), binary_bytes(float(memory.capacity))
        taken = f"it needs {needs}, and the card has {has}"
        elsewhere = missing_there(memory.missing_off_device)
        said = f"Memory first: {self.job.name} does not fit, {elsewhere or taken}. "
        best = max(
            free, key=lambda one: (not _computes_otherwise(one), _SHORTER not in one.why, one.gain), default=None
        )
        if best is not None:
            pace = f"at {1.0 + best.gain:.2f} times the speed that it would have with enough memory"
            command = self.job.command.replace(" --base ", " --set ")  # as `fit` calls it
            more = f"`roofsim fit {command}` lists more"
            return f"{said}{best.change} makes it fit on this hardware, {pace}; {more}. "
        best = min(buy, key=lambda one: math.inf if one.usd is None else one.usd, default=None)
        if best is not None:
            return f"{said}Nothing that was tried makes it fit on this hardware; {best.change} does. "
        search = f"`roofsim fit {self.job.name} --fewest gpus --gpu h100` finds the fewest of a card that do"
        return f"{said}Nothing that was tried makes it fit on so few GPUs, of any card; {search}."


def _computes_otherwise(one: Advice) -> bool:
    """Tell whether advice changes what is computed."""
    return one.kind == "precision" or _OTHERWISE in one.why


def lacking(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs that do not fit as they are."""
    return [job for job in jobs if not bool(job.asking.before.memory.fits)]


def _shortens(remedy: Remedy) -> bool:
    """Tell whether a remedy computes less: shorter sequences, prompts or contexts."""
    return any(change.group == "length" for change in remedy.changes)


def fitting(jobs: Sequence[Job]) -> Fitting | None:
    """Return what makes the first job fit that does not; None where all do."""
    lack = lacking(jobs)
    if not lack:
        return None
    from roofsim.search.fitting.answer import fit_document

    job = lack[0]
    try:
        remedies = fit_document(job.asking.document, resolve_document).remedies
    except (SpecError, NoDataError):
        remedies = None
    same, other = ((), ()) if remedies is None else (remedies.same, remedies.other)
    return Fitting(job=job, same=_proposed(jobs, job, same, _SAME), other=_proposed(jobs, job, other, _OTHER))


def _proposed(jobs: Sequence[Job], job: Job, remedies: Sequence[Remedy], most: int) -> tuple[Advice, ...]:
    """Return remedies as advice, those that compute all that is asked for first."""
    prices = Prices(job.asking.document)
    every = [
        one for remedy in sorted(remedies, key=_shortens) if (one := _advice(jobs, job, remedy, prices)) is not None
    ]
    return tuple(every[:most])


def _advice(jobs: Sequence[Job], job: Job, remedy: Remedy, prices: Prices) -> Advice | None:
    """Return a remedy as advice; None where it is not one that every verb takes, or makes another job impossible."""
    changes = {_key(path): value for path, value in remedy.attempt.changes.items() if value is not None}
    text = ",".join(f"{key}={written(value)}" for key, value in changes.items())
    try:
        gain = gain_of(jobs, read_changes(text), everywhere=False)
    except SpecError:
        return None
    if (
        gain is None
        or not gain.fits
        or (remedy.attempt.gpus > job.asking.evaluation.resolved.gpus and warned_of(jobs, gain))
    ):
        return None
    before, after = job.asking.before.cost["usd_per_hour"], remedy.attempt.usd_per_hour
    usd: Any = None if before is None or after is None else float(after) - float(before)
    card = None if "hardware.gpus" in changes else changes.get(_key(_CARD))
    otherwise = f"; {_OTHERWISE}" if any(one.computes_otherwise for one in remedy.changes) else ""
    otherwise += f", and {_SHORTER}" if _shortens(remedy) else ""
    held = f"{binary_bytes(remedy.attempt.memory)} of {binary_bytes(remedy.attempt.capacity)}"
    advice = advice_of(
        jobs,
        gain,
        kind=_kind(job, remedy),
        change=text,
        why=f"makes it fit: {held}{otherwise}",
        usd=usd if remedy.hardware else 0.0,
        price=remedy.attempt.price if remedy.hardware else None,
        comparable=not remedy.hardware or remedy.attempt.price == job.asking.before.cost["price"],
    )
    if card is not None:
        gpus, outcome = job.asking.before.scenario["hardware"]["gpus"], gain.outcomes[list(jobs).index(job)]
        shown = None if outcome is None or outcome.result is None else quote_in(outcome.result.cost, gpus)
        advice = replace(advice, **priced(prices.beside(card, shown), gpus, gain.ratio))
    return replace(advice, decided=True, measure=None, measure_command=None)


def _kind(job: Job, remedy: Remedy) -> str:
    """Return what a remedy is about: more GPUs, another card, or the memory of the hardware there is."""
    if not remedy.hardware:
        return "memory"
    return "gpus" if remedy.attempt.gpus > job.asking.evaluation.resolved.gpus else "card"


def _key(path: str) -> str:
    """Return a path of a scenario as ``--set``, and other advice, calls it."""
    section, _, key = path.partition(".")
    return key if section == "workload" or path == _CARD else path
