"""Find what costs nothing to change: what the schema and engines offer, other sizes, another layout; ranked by what it gains."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from roofsim.decide.advice import LEAST, Advice, advice_of, warned_of
from roofsim.decide.candidates import Candidate, candidates, written
from roofsim.decide.changes import read_changes
from roofsim.decide.jobs import Job, gain_of, mixed, pace_of
from roofsim.decide.measurement import mostly
from roofsim.errors import NoDataError, SpecError
from roofsim.graph.tensor import DTYPES
from roofsim.plans import planning_tools
from roofsim.records import replace
from roofsim.spec.precision.encodings import LINEAR, WeightPosition
from roofsim.spec.precision.formats import weight_format
from roofsim.spec.scenario.document import with_override
from roofsim.units import percent

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
#: Roles of a precision that matter, in this order: in inference, and in training.
_SERVES: Final = ("weights", "operands", "compute", "key_value_cache", "attention")
_LEARNS: Final = ("compute", "parameters", "gradients", "master_parameters", "optimizer_state", "operands", "attention")
#: Roles that are named at most.
_NAMED: Final = 3
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
    return _free(jobs, gain, candidate.group, candidate.text, _why(candidate, jobs, gain))


def _free(jobs: Sequence[Job], gain: Gain, kind: str, change: str, why: str) -> Advice:
    """Return a gain as advice that costs nothing; what makes jobs fit needs no measurement."""
    advice = advice_of(jobs, gain, kind=kind, change=change, why=why, usd=0.0)
    return replace(advice, decided=True, measure=None, measure_command=None) if _makes_fit(jobs, gain) else advice


def _makes_fit(jobs: Sequence[Job], gain: Gain) -> bool:
    """Tell whether jobs that do not fit now all fit with a change, of which there is at least one."""
    fits = [
        outcome is not None and outcome.result is not None and bool(outcome.result.memory.fits)
        for job, outcome in zip(jobs, gain.outcomes, strict=True)
        if not job.asking.before.memory.fits
    ]
    return bool(fits) and all(fits)


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
    parts = [
        "makes it fit" if _makes_fit(jobs, gain) else "",
        candidate.origin or (mostly(jobs, gain) if candidate.group == "engine" else ""),
    ]
    parts.append(_formats(jobs, gain))
    if candidate.group == "batch" and not candidate.exact:
        trains = jobs[0].asking.stated["workload"]["phase"] == "train"
        parts.append("the optimizer sees larger batches" if trains else _waits(jobs, gain))
    return "; ".join(part for part in parts if part)


def _formats(jobs: Sequence[Job], gain: Gain) -> str:
    """Say which number formats are others, of the first job in which any are: those that its phase computes with."""
    for job, outcome in zip(jobs, gain.outcomes, strict=True):
        if outcome is None or outcome.result is None:
            continue
        before, after = (one.scenario["workload"]["precision"] for one in (job.asking.before, outcome.result))
        named = _LEARNS if job.asking.stated["workload"]["phase"] == "train" else _SERVES
        roles = [role for role in named if after[role] != before[role]]
        if roles:
            usual = {"weights": after["parameters"], "operands": after["compute"]}
            formats = ", ".join(
                f"{role.replace('_', ' ')} {after[role] or usual.get(role, 'none')}" for role in roles[:_NAMED]
            )
            return f"other number formats ({formats})"
    return ""


def _waits(jobs: Sequence[Job], gain: Gain) -> str:
    """Say by how much the pass that each sequence or image waits for gets longer, of the job in which it does most."""
    longer = max(
        float(outcome.result.step_time) / float(job.asking.before.step_time) - 1.0
        for job, outcome in zip(jobs, gain.outcomes, strict=True)
        if outcome is not None and outcome.result is not None
    )
    return f"a pass takes {percent(longer)} longer" if longer >= LEAST else ""


def _layouts(jobs: Sequence[Job]) -> list[Advice]:
    """Return the best layout of a job on several GPUs for the same samples at a time, as a search finds it; of a mix none."""
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
    text = ",".join(f"{key}={written(value)}" for key, value in changes.items())
    gain = gain_of(jobs, read_changes(text), everywhere=True) if changes else None
    if gain is None or gain.ratio < 1.0 + LEAST or not gain.fits or warned_of(jobs, gain):
        return []
    return [_free(jobs, gain, "layout", text, f"the best that `roofsim plan` finds{_dealt_out(job, gain)}")]


def _dealt_out(job: Job, gain: Gain) -> str:
    """Say how a layout deals the samples that are there at a time out to other numbers of replicas; of training nothing."""
    (outcome,) = gain.outcomes
    if outcome is None or outcome.result is None or job.asking.stated["workload"]["phase"] == "train":
        return ""
    now, then = (
        (one["workload"]["micro_batch_size"], one["parallel"]["data"])
        for one in (job.asking.stated, outcome.result.scenario)
    )
    if now == then:
        return ""
    return f", for as many samples at a time ({then[1]} x {then[0]} instead of {now[1]} x {now[0]})"


def _same_step(job: Job) -> Document:
    """Return the scenario of a job with the samples of its step stated, so that every layout does the same work.

    In inference these are the samples of a replica's pass, and the replicas.
    """
    stated, document = job.asking.stated, job.asking.document
    workload, origin = stated["workload"], "the samples of a step"
    if workload["phase"] == "train":
        return with_override(document, "workload.global_batch_size", workload["global_batch_size"], origin)
    return with_override(document, "parallel.data", stated["parallel"]["data"], origin)


def _differing(job: Job, changes: Any) -> dict[str, Any]:
    """Return the keys of a layout that the scenario has otherwise; null takes a key back that the scenario states."""
    stated, document = job.asking.stated, job.asking.document
    return {
        key if section == "workload" else f"{section}.{key}": value
        for section in ("parallel", "workload")
        for key, value in changes.get(section, {}).items()
        if stated[section].get(key) != value
        and not (section == "workload" and key == "batch_size")  # the same number as micro_batch_size
        and (value is not None or document.states(section, key))
    }


def _few(gaining: Sequence[tuple[str, Advice]]) -> list[Advice]:
    """Return the best of each group that candidates compete in, those that are sure first: so many of each."""
    kept: list[tuple[str, Advice]] = []
    for group, one in sorted(gaining, key=lambda pair: (not pair[1].decided, -pair[1].gain)):
        most = _RETURNED if group in _SEVERAL else 1
        if sum(other == group for other, _ in kept) < most:
            kept.append((group, one))
    return [one for _, one in kept]
