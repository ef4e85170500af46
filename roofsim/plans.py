"""Search the layouts of a scenario for the best, with the recipe's own answers for the winners."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from roofsim.api import answer, import_model, resolve_document
from roofsim.errors import Problem, SpecError
from roofsim.spec.scenario.document import load_scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from roofsim.search.planning.answer import Plan
    from roofsim.search.planning.asked import PlanRequest
    from roofsim.search.planning.blocks import Tools
    from roofsim.search.serving.answer import ServerChoices
    from roofsim.serve.target import LatencyTarget
    from roofsim.spec.reading.source import Document
    from roofsim.spec.scenario.workload import Scenario

#: Layouts that are returned where nobody says how many.
TOP = 10


@overload
def plan(
    scenario: str | Path | dict[str, Any] | Scenario, *, ttft: None = None, tpot: None = None, **options: Any
) -> Plan: ...


@overload
def plan(
    scenario: str | Path | dict[str, Any] | Scenario,
    *,
    ttft: float | str | None = None,
    tpot: float | str | None = None,
    **options: Any,
) -> Plan | ServerChoices: ...


def plan(
    scenario: str | Path | dict[str, Any] | Scenario,
    *,
    gpus: int | str | Iterable[int] | None = None,
    gpu: str | Iterable[str] | None = None,
    objective: str = "step_time",
    constraints: Iterable[str] = (),
    axes: Mapping[str, Sequence[Any]] | None = None,
    fixed: Iterable[str] = (),
    also: Iterable[str] = (),
    top: int = TOP,
    cut: bool = True,
    robust: bool = False,
    jobs: int = 1,
    scheduler: str | None = None,
    resume: str | Path | None = None,
    ttft: float | str | None = None,
    tpot: float | str | None = None,
    percentile: float | None = None,
    **overrides: Any,
) -> Plan | ServerChoices:
    """Search the layouts of a scenario for the best.

    Parameters
    ----------
    gpus, gpu
        Numbers of GPUs (``512``, ``[256, 512]``, ``"64..4096"``: doubling) and cards; those of the scenario, if left out.
    objective
        ``step_time``, ``cost``, ``tokens_per_usd``, ``tokens_per_joule`` or ``memory``.
    constraints
        Conditions on figures of a result: ``["memory < 70 GiB", "mfu > 0.4"]``.
    axes, fixed
        Key of the scenario -> values in place of those that would be tried; keys that keep what the scenario states.
    also
        What is tried beside the usual: in training ``recompute-counts``, ``offload``, ``options`` of the engine; of servers that
        keep `ttft` or `tpot` ``pipeline`` and ``disaggregation``.
    top, cut
        How many layouts to return; whether those are left out of pricing that a bound says cannot be among them.
    robust
        Whether the winner is the layout that may be behind the others by the least, at the ends of the intervals, in place of the
        one that is predicted to be best.
    jobs, scheduler
        Processes of this machine that search, or the address of a Dask scheduler (``tcp://host:8786``, `roofsim[dask]`). The
        answer is the same.
    resume
        A folder that keeps what was searched, and that the same search goes on from.
    ttft, tpot, percentile
        Bounds on latencies of a server, as for `roofsim.serve`: then the answer is the cheapest servers that keep them.

    Returns
    -------
    Plan or ServerChoices
        The best layouts (steps in seconds, memory in bytes) and why others are behind, the front, how many were refused and
        why, and a bound that none falls below. Merged into the scenario, each runs as it is.

    Raises
    ------
    SpecError
        When the request is wrong. Where no layout is possible, the plan says why.
    """
    from roofsim.search.planning.asked import PlanRequest
    from roofsim.search.planning.plan import plan_asked
    from roofsim.search.planning.running import Spread
    from roofsim.serve.target import read_target

    asked = PlanRequest.of(gpus, gpu, objective, constraints, axes, fixed, also=also)
    target = read_target(ttft, tpot, percentile)
    if target is not None:
        return plan_servers(load_scenario(scenario, overrides), asked, target, k=top, cuts=cut)
    spread = Spread(jobs=jobs, scheduler=scheduler, folder=None if resume is None else Path(resume))
    return plan_asked(
        load_scenario(scenario, overrides), asked, planning_tools(), k=top, cuts=cut, robust=robust, spread=spread
    )


def plan_servers(
    document: Document,
    asked: PlanRequest,
    target: LatencyTarget,
    *,
    k: int = TOP,
    cuts: bool = True,
    progress: Callable[[Sequence[Any]], Iterable[Any]] = iter,
) -> ServerChoices:
    """Return the cheapest servers that keep bounds on their latencies, over what a plan asks for.

    Raises
    ------
    SpecError
        When the scenario is wrong, or what is asked of a step, which servers do not have.
    """
    from roofsim.search.planning.choices import ALSO_SERVED, check_also
    from roofsim.search.serving.asked import planned_axes
    from roofsim.search.serving.search import search_servers

    if asked.constraints or asked.objective != "step_time":
        message = "servers that keep bounds on latencies are ranked by what they cost"
        raise SpecError(Problem(message, path="plan", hint="Leave out objectives and constraints on steps."))
    check_also(asked.wish.also, ALSO_SERVED, "of the layouts of a step")
    axes = planned_axes(document, asked.wish)
    return search_servers(document, axes, target, resolve_document, k=k, cuts=cuts, progress=progress)


def planning_tools() -> Tools:
    """Return what a search over layouts asks of the recipe."""
    from roofsim.search.planning.blocks import Tools

    return Tools(resolve=resolve_document, answer=answer, importer=import_model)
