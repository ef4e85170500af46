"""Advise on a job or a mix of jobs: what limits it, what to change for free, what to buy, what not to, and what would decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.printed import Printed, flattened
from roofsim.decide.free import free_changes
from roofsim.decide.jobs import Job
from roofsim.decide.market import market_of
from roofsim.decide.prices import Marginal, compute_of, marginals
from roofsim.decide.purchases import purchases
from roofsim.decide.remedies import fitting
from roofsim.decide.sentences import bandwidth_or_compute, real_step, units_first
from roofsim.decide.whatif import Asking
from roofsim.errors import Place, Problem, SpecError
from roofsim.records import dataclass
from roofsim.spec.scenario.document import load_scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from roofsim.decide.advice import Advice
    from roofsim.decide.market import Market
    from roofsim.spec.reading.source import Document
    from roofsim.spec.scenario.workload import Scenario

SCHEMA: Final = "roofsim/advise/1"


@dataclass(frozen=True, kw_only=True, repr=False)
class Advised(Printed):
    """The answer of `roofsim.advise`: one page for a job or a mix of jobs.

    Attributes
    ----------
    jobs
        Each with its result as it is, and its share of the machine's time.
    verdict
        Bandwidth or compute, in a sentence.
    limits
        Resource -> share of the machine's time that waits for it.
    elasticity
        Resource -> d ln(time) / d ln(resource) of the mix.
    market, marginals
        What cards ask for more of a resource, and what one percent more speed costs through each.
    free, buy, not_worth, undecided
        What to change, what to buy, what not to, and what lies inside the error bar.
    """

    jobs: tuple[Job, ...]
    verdict: str
    limits: dict[str, float]
    elasticity: dict[str, float]
    market: Market | None
    marginals: tuple[Marginal, ...]
    free: tuple[Advice, ...]
    buy: tuple[Advice, ...]
    not_worth: tuple[Advice, ...]
    undecided: tuple[Advice, ...]
    tried: int

    @property
    def bound(self) -> str:
        """What most of the machine's time waits for."""
        return max(self.limits, key=lambda name: self.limits[name])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data of schema roofsim/advise/1."""
        lists = {name: [one.to_dict() for one in getattr(self, name)] for name in _LISTS}
        return {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "bound": self.bound,
            "limits": self.limits,
            "elasticity": self.elasticity,
            "market": None if self.market is None else self.market.to_dict(),
            "one_percent": [one.to_dict() for one in self.marginals],
            **lists,
            "tried": self.tried,
            "jobs": [
                {"name": job.name, "share": job.share, "result": job.asking.before.to_dict()} for job in self.jobs
            ],
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a flat row for each piece of advice."""
        return [flattened({"list": name, **one.to_dict()}) for name in _LISTS for one in getattr(self, name)]


_LISTS: Final = ("free", "buy", "not_worth", "undecided")


def advise(
    scenario: str | Path | dict[str, Any] | Scenario | Sequence[str | Path | dict[str, Any] | Scenario],
    *,
    weights: Sequence[float] | None = None,
    **overrides: Any,
) -> Advised:
    """Advise on a job or a mix of jobs: what limits it, what to change for free, what to buy and what not to.

    Parameters
    ----------
    scenario
        A scenario, or several of them: jobs that share a machine.
    weights
        Of several: how the machine's time is shared out among them today; equally, if left out.
    overrides
        Values of every scenario, as for `roofsim.run`.

    Returns
    -------
    Advised
        Each gain is a share of speed (0.34: 34 % faster) with its 80 % interval; costs are dollars per hour.

    Raises
    ------
    SpecError
        When a scenario is wrong, or weights do not belong to the jobs.
    """
    given: list[Any] = list(scenario) if isinstance(scenario, list | tuple) else [scenario]
    documents = [(str(one), load_scenario(one, overrides), _command(one, overrides)) for one in given]
    return advise_documents(documents, weights)


def _command(scenario: Any, overrides: Mapping[str, Any]) -> str:
    """Return a scenario and overrides of Python as the command line of ``whatif`` takes them."""
    name = "SCENARIO.yaml" if isinstance(scenario, dict) or hasattr(scenario, "model_dump") else str(scenario)
    flags = [f"--base {key.replace('__', '.')}={value}" for key, value in overrides.items()]
    return " ".join((name, *flags))


def advise_documents(
    documents: Sequence[tuple[str, Document, str]],
    weights: Sequence[float] | None = None,
    progress: Callable[[Sequence[Any]], Iterable[Any]] = iter,
) -> Advised:
    """Answer a request that was read already; see `advise`.

    Parameters
    ----------
    documents
        Name, scenario and options of each job.

    Raises
    ------
    SpecError
        When a scenario is wrong, or weights do not belong to the jobs.
    """
    shares = _shares(weights, len(documents))
    jobs = tuple(
        Job(name=name, command=command, asking=Asking(document), share=share)
        for (name, document, command), share in zip(documents, shares, strict=True)
    )
    elasticity = _elasticity(jobs)
    market = market_of(jobs[0].asking.evaluation.resolved.precision.math, compute_of(elasticity))
    costs = marginals(jobs, elasticity, market)
    free, tried = free_changes(jobs, progress)
    bought = purchases(jobs, elasticity)
    limits, held = _limits(jobs), fitting(jobs)
    free, worth = [*free], [*bought.worth]
    verdict = _verdict(limits, elasticity, costs, bought.others) + real_step([one for one in worth if one.decided])
    if held is not None:
        free, worth = _with(free, held.same), _with(worth, held.other)
        sure = [one for one in worth if one.decided]
        memory = held.sentence([one for one in free if one.decided], sure)
        verdict = f"{memory}With enough memory: {verdict}" if free or sure else memory
    return Advised(
        jobs=jobs,
        verdict=verdict,
        limits=limits,
        elasticity=elasticity,
        market=market,
        marginals=costs,
        free=tuple(one for one in free if one.decided),
        buy=tuple(one for one in worth if one.decided),
        not_worth=bought.not_worth if held is None or free or worth else (),
        undecided=tuple(one for one in (*free, *worth) if not one.decided),
        tried=tried + bought.tried,
    )


def _verdict(
    limits: dict[str, float], elasticity: dict[str, float], costs: Sequence[Marginal], others: Mapping[str, float]
) -> str:
    """Return the first sentence."""
    said, before = bandwidth_or_compute(limits, costs, others), units_first(elasticity, costs)
    return f"{before}{said[:1].lower()}{said[1:]}" if before else said


def _with(every: Sequence[Advice], more: Sequence[Advice]) -> list[Advice]:
    """Return advice with more of it: what stands in both once, those that gain most first."""
    known = {one.change for one in every}
    return sorted([*every, *(one for one in more if one.change not in known)], key=lambda one: -one.gain)


def _shares(weights: Sequence[float] | None, jobs: int) -> list[float]:
    given = [1.0] * jobs if weights is None else [float(weight) for weight in weights]
    if len(given) != jobs:
        message = f"expected a weight for each of {jobs} job{'s' if jobs != 1 else ''}; got {len(given)}"
        raise SpecError(Problem(message, Place("weights")))
    if not all(0.0 < weight < float("inf") for weight in given):
        raise SpecError(Problem(f"expected weights above zero; got {', '.join(map(str, given))}", Place("weights")))
    return [weight / sum(given) for weight in given]


def _limits(jobs: Sequence[Job]) -> dict[str, float]:
    """Return the share of the machine's time that waits for each resource, the largest first."""
    shares: dict[str, float] = {}
    for job in jobs:
        step = job.asking.evaluation.step
        for name, seconds in step.resources.items():
            shares[name] = shares.get(name, 0.0) + job.share * float(seconds) / float(step.step)
    return dict(sorted(((name, one) for name, one in shares.items() if one > 0.0), key=lambda item: -item[1]))


def _elasticity(jobs: Sequence[Job]) -> dict[str, float]:
    """Return d ln(time) / d ln(resource) of the mix: that of its jobs, by share of the time."""
    names = dict.fromkeys(name for job in jobs for name in job.asking.before.elasticity or {})
    return {
        name: sum(job.share * float((job.asking.before.elasticity or {}).get(name, 0.0)) for job in jobs)
        for name in names
    }
