"""Find what costs nothing to change: what the schema and engines offer, other sizes, another layout; ranked by what it gains."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from roofsim.decide.advice import LEAST, Advice, advice_of
from roofsim.decide.candidates import Candidate, candidates
from roofsim.decide.changes import read_changes
from roofsim.decide.jobs import Job, gain_of, mixed, pace_of
from roofsim.decide.measurement import mostly
from roofsim.errors import NoDataError, SpecError
from roofsim.graph.tensor import DTYPES
from roofsim.plans import planning_tools
from roofsim.spec.precision.encodings import LINEAR, WeightPosition
from roofsim.spec.precision.formats import weight_format
from roofsim.spec.scenario.document import with_override

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from roofsim.decide.jobs import Gain
    from roofsim.evaluate import Evaluation
    from roofsim.spec.reading.source import Document

#: Candidates of one group that are worked out in full, and that are returned.
_LOOKED_AT: Final = 3
_RETURNED: Final = 2
#: Groups of which several are returned: what is in them can be done together.
_SEVERAL: Final = ("engine", "fusion", "training", "communication", "data_parallel")
#: Keys that a search over layouts leaves as they are: they multiply it, and rarely decide.
_FIXED: Final = ("parallel.virtual_stages", "parallel.schedule", "parallel.context", "workload.engine")
#: Bits per weight below which language models lose more than a point of accuracy (arXiv 2212.09720: 4 bits are the best trade).
_LEAST_BITS: Final = 4.0
#: Bits per weight at which a number format begins to be one of 16, of 8 and of 4 bits.
_WIDTHS: Final = (12.0, 7.0, _LEAST_BITS)
#: Ratios of speeds that are the same.
_SAME: Final = 1e-9


def free_changes(
    jobs: Sequence[Job], progress: Callable[[Sequence[Any]], Iterable[Any]] = iter
) -> tuple[list[Advice], int]:
    """Return what is faster on the same hardware, the largest gain first, and how many candidates were tried."""
    every: dict[str, Candidate] = {}
    for job in jobs:
        asking = job.asking
        for candidate in candidates(asking.evaluation.resolved, asking.stated, asking.document.data):
            if candidate.group == "precision" and _bits(candidate) < _LEAST_BITS:
                continue
            if candidate.exact or candidate.group in ("precision", "batch"):
                every.setdefault(candidate.text, candidate)
    screened = [(ratio, one) for one in progress(list(every.values())) if (ratio := _screened(jobs, one)) is not None]
    gaining = [
        (_bucket(one), advice)
        for one in _picked(_usual(jobs, screened))
        if (advice := _worked_out(jobs, one)) is not None
    ]
    single = {advice.change for _, advice in gaining}
    gaining += [("layout", advice) for advice in _layouts(jobs) if advice.change not in single]
    return sorted(_few(gaining), key=lambda one: -one.gain), len(every)


def _screened(jobs: Sequence[Job], candidate: Candidate) -> float | None:
    """Return the ratio of speeds of a mix with a candidate; None where nobody takes it, or it gains nothing."""
    ratios = []
    for job in jobs:
        try:
            made = read_changes(candidate.changes)
        except SpecError:
            return None
        evaluation = job.asking.evaluated(made)
        if evaluation is not None and misleads(candidate, job, evaluation):
            return None
        ratios.append(None if evaluation is None else pace_of(evaluation) / job.pace)
    if all(ratio is None for ratio in ratios):
        return None
    ratio = mixed(jobs, [one or 1.0 for one in ratios])
    return ratio if ratio >= 1.0 + LEAST else None


def misleads(candidate: Candidate, job: Job, evaluation: Evaluation) -> bool:
    """Tell whether a scenario warns of a change: that copies of tables drift apart, that a key does nothing.

    What engines say of number formats is known when they are chosen; those of which nobody states that they load the weights,
    where the scenario's own does, are no advice.
    """
    if candidate.group in ("engine", "precision"):
        own, other = job.asking.evaluation.resolved, evaluation.resolved
        unstated = own.engine.precision.formats is not None and other.engine.precision.formats is None
        return bool(candidate.group == "engine" and own.precision.weights and unstated)
    return bool(set(evaluation.resolved.warnings) - set(job.asking.evaluation.resolved.warnings))


def _usual(jobs: Sequence[Job], screened: Sequence[tuple[float, Candidate]]) -> list[tuple[float, Candidate]]:
    """Leave out number formats that the engines' users do not serve models in, where they have one as narrow."""
    engines = [job.asking.evaluation.resolved.engine for job in jobs]
    unusual = [
        one
        for _, one in screened
        if one.group == "precision"
        and not all(engine.usually_loads(str(one.changes["precision"])) for engine in engines)
    ]
    served = {_bucket(one) for _, one in screened if one not in unusual}
    return [(ratio, one) for ratio, one in screened if one not in unusual or _bucket(one) not in served]


def _picked(screened: Sequence[tuple[float, Candidate]]) -> list[Candidate]:
    """Return the best few of each group; of those that come to the same step the first."""
    picked: list[Candidate] = []
    seen: list[float] = []
    taken: dict[str, int] = {}
    for ratio, candidate in sorted(screened, key=lambda one: -one[0]):
        group = _bucket(candidate)
        if any(math.isclose(ratio, other, rel_tol=_SAME) for other in seen) or taken.get(group, 0) >= _LOOKED_AT:
            continue
        seen.append(ratio)
        taken[group] = taken.get(group, 0) + 1
        picked.append(candidate)
    return picked


def _bucket(candidate: Candidate) -> str:
    """Return what candidates compete in: their group; of number formats those that store weights in a byte, or in less."""
    if candidate.group != "precision":
        return candidate.group
    return f"precision {next(bits for bits in _WIDTHS if _bits(candidate) >= bits):g}"


def _bits(candidate: Candidate) -> float:
    """Return the bits per weight of the number format of a candidate."""
    stored = weight_format(str(candidate.changes["precision"]))
    return 16.0 if stored is None else float(stored.bits_of(stored.encoding, WeightPosition(part=LINEAR)))


def _worked_out(jobs: Sequence[Job], candidate: Candidate) -> Advice | None:
    gain = gain_of(jobs, read_changes(candidate.changes), everywhere=False)
    if gain is None or gain.ratio < 1.0 + LEAST or not gain.fits or not _learns(jobs, gain):
        return None
    return advice_of(jobs, gain, kind=candidate.group, change=candidate.text, why=_why(candidate, jobs, gain), usd=0.0)


def _learns(jobs: Sequence[Job], gain: Gain) -> bool:
    """Tell whether no training step keeps parameters or states in narrower types than now."""
    for job, outcome in zip(jobs, gain.outcomes, strict=True):
        if outcome is None or outcome.result is None or job.asking.stated["workload"]["phase"] != "train":
            continue
        before, after = (one.scenario["workload"]["precision"] for one in (job.asking.before, outcome.result))
        for role in ("parameters", "optimizer_state"):
            kept = after[role] if after["master_parameters"] is None else after["master_parameters"]
            now = before[role] if before["master_parameters"] is None else before["master_parameters"]
            if _width(kept) < _width(now):
                return False
    return True


def _width(name: str) -> float:
    """Return the bits of a type; 0 of one that is no plain type."""
    return 8.0 * float(DTYPES[name].itemsize) if name in DTYPES else 0.0


def _why(candidate: Candidate, jobs: Sequence[Job], gain: Gain) -> str:
    """Say who has it, and what else it changes: number formats that are others, or more work per step."""
    lacking = any(not job.asking.before.memory.fits for job in jobs)
    parts = [
        "makes it fit" if lacking else "",
        candidate.origin or (mostly(jobs, gain) if candidate.group == "engine" else ""),
    ]
    for job, outcome in zip(jobs, gain.outcomes, strict=True):
        if outcome is None or outcome.result is None:
            continue
        before, after = (one.scenario["workload"]["precision"] for one in (job.asking.before, outcome.result))
        roles = [role for role in after if role not in ("name", "math", "autocast") and after[role] != before[role]]
        if roles:
            formats = ", ".join(f"{role.replace('_', ' ')} {after[role] or 'none'}" for role in roles[:3])
            parts.append(f"other number formats ({formats})")
            break
    if candidate.group == "batch" and not candidate.exact:
        trains = jobs[0].asking.stated["workload"]["phase"] == "train"
        parts.append(
            "the optimizer sees larger batches" if trains else "each sequence or image waits longer for its pass"
        )
    return "; ".join(part for part in parts if part)


def _layouts(jobs: Sequence[Job]) -> list[Advice]:
    """Return the best layout of a job on several GPUs, as a search over layouts finds it; of a mix none."""
    (job, *others) = jobs
    if others or job.asking.evaluation.resolved.gpus == 1:
        return []
    from roofsim.search.planning.asked import PlanRequest
    from roofsim.search.planning.plan import plan_asked

    asked = PlanRequest.of(None, None, "step_time", (), None, _FIXED)
    try:
        best = plan_asked(_same_step(job), asked, planning_tools(), k=1).best
    except (SpecError, NoDataError):
        return []
    changes = {} if best is None else _differing(job, best.changes)
    if not changes:
        return []
    made = read_changes(changes)
    gain = gain_of(jobs, made, everywhere=True)
    if gain is None or gain.ratio < 1.0 + LEAST:
        return []
    text = ",".join(change.text for change in made)
    return [advice_of(jobs, gain, kind="layout", change=text, why="the best that `roofsim plan` finds", usd=0.0)]


def _same_step(job: Job) -> Document:
    """Return the scenario of a job with the samples of its step stated, so that every layout does the same work."""
    workload = job.asking.stated["workload"]
    if workload["phase"] != "train":
        return job.asking.document
    return with_override(
        job.asking.document, "workload.global_batch_size", workload["global_batch_size"], "the samples of a step"
    )


def _differing(job: Job, changes: Any) -> dict[str, Any]:
    """Return the keys of a layout that the scenario has otherwise."""
    stated = job.asking.stated
    return {
        key if section == "workload" else f"{section}.{key}": value
        for section in ("parallel", "workload")
        for key, value in changes.get(section, {}).items()
        if stated[section].get(key) != value
    }


def _few(gaining: Sequence[tuple[str, Advice]]) -> list[Advice]:
    """Return the best of each group that candidates compete in, those that are sure first: so many of each."""
    kept: list[tuple[str, Advice]] = []
    for group, one in sorted(gaining, key=lambda pair: (not pair[1].decided, -pair[1].gain)):
        most = _RETURNED if group in _SEVERAL else 1
        if sum(other == group for other, _ in kept) < most:
            kept.append((group, one))
    return [one for _, one in kept]
