"""Say what a whole job takes: days, dollars, energy and CO2 of so many tokens or samples, with what is lost on the way."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.goodput import goodput_of
from roofsim.analyze.money import JOULES_PER_KWH
from roofsim.analyze.printed import Printed
from roofsim.analyze.throughput import units_per_step
from roofsim.analyze.watts import drawn_watts
from roofsim.decide.assumptions import assumption, read_number
from roofsim.errors import Problem, SpecError
from roofsim.records import dataclass, field, replace
from roofsim.spec.scenario.running import Checkpoint, Reliability
from roofsim.units import count, parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roofsim.analyze.goodput import Goodput
    from roofsim.analyze.result import Result
    from roofsim.decide.assumptions import Assumption
    from roofsim.evaluate import Evaluation

SCHEMA: Final = "roofsim/job/1"
_DAY: Final = parse("24 h", "s")
_HOUR: Final = parse("1 h", "s")
_GRAMS: Final = 10.0**3

#: Lower end, the figure, upper end of the 80 % interval.
Ends = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class Work:
    """How much is to be done.

    Attributes
    ----------
    amount
        Tokens or samples in all.
    counted
        ``tokens`` or ``samples``.
    eval_samples, eval_every
        Samples of an evaluation, and the steps between two; None: nothing is evaluated.
    stated
        Assumptions that the user states: ``pue``, ``carbon``, ``mtbf_per_gpu``.
    """

    amount: float
    counted: str
    eval_samples: float | None = None
    eval_every: float | None = None
    stated: Mapping[str, Any] = field(default_factory=dict)


def read_work(asked: Mapping[str, Any]) -> Work | None:
    """Return the work of a request: ``tokens``, or ``samples`` and ``epochs``; None where none is asked for.

    Raises
    ------
    SpecError
        For figures that are none, and those that do not go together.
    """
    given = {key: value for key, value in asked.items() if value is not None}
    if "tokens" not in given and "samples" not in given:
        if given:
            names = " and ".join(f"--{key.replace('_', '-')}" for key in given)
            raise SpecError(Problem(f"{names}: expected --tokens, or --samples with --epochs, beside it"))
        return None
    if "tokens" in given and ("samples" in given or "epochs" in given):
        raise SpecError(
            Problem("--tokens says how much work there is, and so do --samples and --epochs", hint="Give one.")
        )
    if ("eval_samples" in given) != ("eval_every" in given):
        raise SpecError(Problem("--eval-samples and --eval-every belong together: so many samples every so many steps"))
    numbers: dict[str, float] = {
        key: read_number(given[key], f"--{key.replace('_', '-')}") for key in _NUMBERS if key in given
    }
    counted = "tokens" if "tokens" in given else "samples"
    amount = numbers[counted] * numbers.get("epochs", 1.0)
    if amount > _MOST:
        raise SpecError(Problem(f"--{counted}: expected at most {_MOST:.0e} in all; got {amount:.3g}"))
    stated: dict[str, Any] = {key: given[key] for key in ("pue", "carbon") if key in given}
    return Work(
        amount=amount,
        counted=counted,
        eval_samples=numbers.get("eval_samples"),
        eval_every=numbers.get("eval_every"),
        stated=stated,
    )


#: More work than this is a slip: no job has a trillionth of it.
_MOST: Final = 10.0**30
_NUMBERS: Final = ("tokens", "samples", "epochs", "eval_samples", "eval_every")


@dataclass(frozen=True, kw_only=True, repr=False)
class JobCost(Printed):
    """What a job takes. Ranges hold the lower end, the figure and the upper end of the 80 % interval of the step.

    Attributes
    ----------
    steps
        Whole steps.
    goodput
        Share of time that is progress: what checkpoints and failures leave.
    evaluating
        Share of time that evaluations take.
    days, gpu_hours, usd, kwh, co2_kg
        Of the whole job; dollars None where no price is known, energy where the card's power is not.
    usd_low, usd_high
        Dollars at the lowest and the highest price that is known.
    watts
        What each GPU draws on average.
    assumptions
        What was taken where nobody states it.
    """

    label: str
    gpu: str
    gpus: int
    work: Work
    steps: float
    goodput: float
    evaluating: float
    days: Ends
    gpu_hours: Ends
    usd: Ends | None
    usd_low: float | None
    usd_high: float | None
    price: str | None
    watts: float | None
    kwh: Ends | None
    co2_kg: Ends | None
    assumptions: tuple[Assumption, ...] = ()
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        own = dict(self.__dict__)
        ranges = {
            key: None if own[key] is None else list(own[key]) for key in ("days", "gpu_hours", "usd", "kwh", "co2_kg")
        }
        work = {"amount": self.work.amount, "counted": self.work.counted}
        work |= {"eval_samples": self.work.eval_samples, "eval_every": self.work.eval_every}
        assumed = [one.to_dict() for one in self.assumptions]
        return {"schema": SCHEMA, **own, **ranges, "work": work, "assumptions": assumed, "notes": list(self.notes)}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row."""
        return [self.to_dict()]


def cost_of_job(evaluation: Evaluation, result: Result, work: Work, label: str = "") -> JobCost:
    """Return what a job takes.

    Failures and checkpoints are those of the scenario; where it states none and trains, GPUs fail as often as those of a published
    run, and checkpoints follow at the best interval. Energy is that of the GPUs, by what their kernels draw, times the data
    centre's overhead; hosts are not counted.

    Raises
    ------
    SpecError
        Where the work is counted in what a step has none of.
    """
    resolved = evaluation.resolved
    samples, units, unit = (float(each) if not isinstance(each, str) else each for each in units_per_step(resolved))
    per_step = _per_step(work, float(samples), float(units), str(unit))
    step, steps = float(result.step_time), math.ceil(work.amount / per_step)
    lost, assumed, notes = _lost(evaluation, result, work)
    progress = 1.0 if lost is None else lost.goodput
    evaluating = _evaluating(result, work, float(samples), steps)
    seconds = steps * step / progress + evaluating
    factors = _factors(result)
    hours = seconds / _HOUR
    cost, gpus = result.cost, int(resolved.gpus)
    hourly = cost.get("usd_per_hour")
    pue, carbon = assumption("pue", work.stated), assumption("carbon", work.stated)
    drawn = drawn_watts(evaluation)
    watts = None if drawn is None else float(drawn)
    kwh = None if watts is None else watts * gpus * seconds / JOULES_PER_KWH * pue.value
    if hourly is None:
        notes = (*notes, f"no price of an hour of {resolved.gpu.name} is known: --price states one")
    low, high = cost.get("usd_per_hour_low"), cost.get("usd_per_hour_high")
    return JobCost(
        label=label,
        gpu=resolved.gpu.name,
        gpus=gpus,
        work=work,
        steps=float(steps),
        goodput=progress,
        evaluating=evaluating / seconds,
        days=_ends(seconds / _DAY, factors),
        gpu_hours=_ends(hours * gpus, factors),
        usd=None if hourly is None else _ends(hours * float(hourly), factors),
        usd_low=None if low is None else hours * float(low),
        usd_high=None if high is None else hours * float(high),
        price=cost.get("price"),
        watts=watts,
        kwh=None if kwh is None else _ends(kwh, factors),
        co2_kg=None if kwh is None else _ends(kwh * carbon.value / _GRAMS, factors),
        assumptions=(*assumed, *(() if kwh is None else (pue, carbon))),
        notes=notes,
    )


def _per_step(work: Work, samples: float, units: float, unit: str) -> float:
    if work.counted == "samples":
        return samples
    if unit != "tokens":
        message = f"a step of this model handles {unit}, not tokens"
        raise SpecError(
            Problem(message, path="--tokens", hint="State --samples, and --epochs where there are several.")
        )
    return units


def _lost(
    evaluation: Evaluation, result: Result, work: Work
) -> tuple[Goodput | None, tuple[Assumption, ...], tuple[str, ...]]:
    """Return what checkpoints and failures make of the run, and what was assumed for it."""
    resolved = evaluation.resolved
    if result.goodput is not None:
        return result.goodput, (), ()
    if resolved.workload.phase != "train":
        return None, (), (f"phase {resolved.workload.phase}: nothing is checkpointed, and failures are not counted",)
    mtbf = assumption("mtbf_per_gpu", work.stated)
    stated = resolved.reliability
    each = mtbf.value * _HOUR / float(resolved.gpus)
    reliability = Reliability(
        mtbf=each if stated.mtbf is None else stated.mtbf, restart=stated.restart, jitter=stated.jitter
    )
    workload = resolved.workload.model_copy(update={"checkpoint": Checkpoint()})
    failing = replace(resolved, workload=workload, reliability=reliability)
    try:
        lost = goodput_of(replace(evaluation, resolved=failing))
    except (ZeroDivisionError, SpecError):
        return None, (), ("checkpoints and failures are not counted: state --checkpoint",)
    note = "checkpoints at the best interval, as none are stated"
    if resolved.system.storage.write is None:
        note += f"; {resolved.system.name} states no speed of storage, so only the copy to the host is counted"
    return lost, (mtbf,) if stated.mtbf is None else (), (note,)


def _evaluating(result: Result, work: Work, samples: float, steps: int) -> float:
    """Return the seconds of all evaluations: forward passes at the speed of those of a step."""
    if work.eval_samples is None or work.eval_every is None:
        return 0.0
    times = {
        phase: sum(float(kernels["time"]) for kernels in classes.values()) for phase, classes in result.work.items()
    }
    forward = times.get("forward", 0.0) / sum(times.values()) if sum(times.values()) and "forward" in times else 1.0
    each = float(result.step_time) * forward / samples
    return math.floor(steps / work.eval_every) * work.eval_samples * each


def _factors(result: Result) -> tuple[float, float]:
    interval = result.step_time_interval
    if interval is None:
        return 1.0, 1.0
    return float(interval[0]) / float(result.step_time), float(interval[1]) / float(result.step_time)


def _ends(middle: float, factors: tuple[float, float]) -> Ends:
    return middle * factors[0], middle, middle * factors[1]


def work_words(work: Work) -> str:
    """Return the work in words: ``1e12 tokens``.

    >>> work_words(Work(amount=3.6e6, counted="samples"))
    '3,600,000 samples'
    """
    return f"{count(work.amount)} {work.counted}"


__all__ = ["Ends", "JobCost", "Work", "cost_of_job", "read_work", "work_words"]
