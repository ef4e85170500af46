"""Search the layouts of a scenario, block by block, and answer the winners one by one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from roofsim.analyze.used_prices import of_one_market
from roofsim.errors import Problem, SpecError
from roofsim.records import replace
from roofsim.search.axes import cards_asked
from roofsim.search.planning.answer import Plan
from roofsim.search.planning.blocks import SearchInput
from roofsim.search.planning.classes import layouts_of
from roofsim.search.planning.objectives import OBJECTIVES, unknown_objective
from roofsim.search.planning.robustness import CANDIDATES
from roofsim.search.planning.running import Spread, run_blocks
from roofsim.search.planning.winners import plain_layout, priced_front, thinned, value_at, winners
from roofsim.spec.markets import common_market
from roofsim.spec.own_prices import price_of_one
from roofsim.spec.prices import of_market

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from roofsim.search.planning.answer import Planned
    from roofsim.search.planning.asked import PlanRequest
    from roofsim.search.planning.blocks import Tools
    from roofsim.search.planning.findings import Findings
    from roofsim.search.planning.objectives import Goal
    from roofsim.search.planning.space import PlanSpace, Wish
    from roofsim.spec.hardware.price import Quote
    from roofsim.spec.prices import Market
    from roofsim.spec.reading.source import Document


def plan_asked(
    document: Document,
    asked: PlanRequest,
    tools: Tools,
    *,
    k: int = 10,
    cuts: bool = True,
    robust: bool = False,
    spread: Spread | None = None,
) -> Plan:
    """Search the layouts of a scenario for what a caller asks; see `roofsim.plan`.

    Raises
    ------
    SpecError
        When the scenario is wrong, whatever its layout, or a card, an axis or a constraint is; when the objective is not known of
        any layout.
    """
    market = _market(document, asked)
    with of_market(market):
        plan = _searched(document, asked, tools, (k, cuts, robust), spread or Spread())
    return replace(plan, market=market)


def _market(document: Document, asked: PlanRequest) -> Market | None:
    """Return the market that has a price of each card that is tried; refuse a price of one card beside several."""
    cards = cards_asked([("hardware.gpu", asked.wish.cards)] if asked.wish.cards else list(asked.wish.axes.items()))
    price_of_one(document, cards)
    return common_market(cards)


def _searched(
    document: Document, asked: PlanRequest, tools: Tools, how: tuple[int, bool, bool], spread: Spread
) -> Plan:
    began, (k, cuts, robust) = time.monotonic(), how
    given, space = _prepared(document, asked, tools, k=max(k, CANDIDATES) if robust else k, cuts=cuts)
    findings = run_blocks(given, space, spread)
    if len(findings.top["value"]) and np.isinf(findings.top["value"]).all():
        raise unknown_objective(asked.objective)
    in_proportion = OBJECTIVES[asked.objective] != "memory"
    top, robustness = winners(document, space, tools, findings.top, in_proportion=in_proportion, robust=robust, top=k)
    answer = _answered(document, space, given.goal, findings, top)
    front, first = priced_front(document, tools, answer.front), top[0].price if top else None
    answer = replace(answer, top=_marked(answer.top, first), front=_marked(front, first))
    return replace(answer, robustness=robustness, seconds=time.monotonic() - began)


def _marked(layouts: Iterable[Planned], first: Quote | None) -> tuple[Planned, ...]:
    """Return layouts, with whether the price of each is of the market of the first."""
    return tuple(replace(one, comparable=of_one_market(first, one.price)) for one in layouts)


def part_asked(
    document: Document, asked: PlanRequest, tools: Tools, *, k: int, cuts: bool, robust: bool, spread: Spread
) -> tuple[int, int]:
    """Search a part of the layouts (`spread.share`), keep what it holds in files, and return how many of how many it were.

    Raises
    ------
    SpecError
        As `plan_asked`.
    """
    with of_market(_market(document, asked)):
        given, space = _prepared(document, asked, tools, k=max(k, CANDIDATES) if robust else k, cuts=cuts)
        findings = run_blocks(given, space, spread)
        return findings.considered, layouts_of(space)


def _prepared(
    document: Document, asked: PlanRequest, tools: Tools, *, k: int, cuts: bool
) -> tuple[SearchInput, PlanSpace]:
    asked = replace(asked, wish=_with_gpus(document, asked.wish))
    given = SearchInput(document=document, asked=asked, tools=tools, k=k, cuts=cuts)
    return given, given.space()


def _with_gpus(document: Document, wish: Wish) -> Wish:
    """Return a wish with the GPUs of the scenario where it names none.

    Raises
    ------
    SpecError
        When the scenario names none either.
    """
    if wish.gpus:
        return wish
    stated = value_at(document.data, ("hardware", "gpus"))
    if stated is None:
        hint = "For example --gpus 512, --gpus 64,128 or --gpus 64..4096 (doubling)."
        raise SpecError(Problem("expected how many GPUs there are", path="hardware.gpus", hint=hint))
    return replace(wish, gpus=(int(stated),))


def _answered(document: Document, space: PlanSpace, goal: Goal, findings: Findings, top: Sequence[Planned]) -> Plan:
    bound = min([findings.least_cut, *findings.top["value"][:1].tolist()])
    return Plan(
        scenario=document.data,
        objective=goal.objective,
        constraints=tuple(one.written for one in goal.constraints),
        axes=space.described(),
        considered=findings.considered,
        refused=dict(sorted(findings.refused.items(), key=lambda item: (-item[1], item[0]))),
        reasons={code: text for code, (_, text) in findings.examples.items()},
        does_not_fit=findings.does_not_fit,
        constrained=findings.constrained,
        priced=findings.priced,
        cut=findings.cut,
        structures=findings.structures,
        lower_bound=bound if np.isfinite(bound) else None,
        seconds=0.0,
        top=tuple(top),
        front=tuple(plain_layout(document, space, findings.front, at) for at in thinned(findings.front)),
        assumed=space.assumed,
    )


def nothing_possible(plan: Plan) -> SpecError:
    """Return what to say where no layout is possible: the most common reasons, and the way out."""
    said = [f"{count:,} layouts: {plan.reasons.get(code, code)}" for code, count in list(plan.refused.items())[:3]]
    if plan.does_not_fit:
        said.insert(0, f"{plan.does_not_fit:,} layouts do not fit in memory")
    if plan.constrained:
        said.insert(0, f"{plan.constrained:,} layouts fit, but do not meet {' and '.join(plan.constraints)}")
    if not said:
        said.append("The engine spreads this work over so many GPUs in no way; others do (`roofsim list engines`)")
    hint = "More GPUs, a larger card, --axis for other values, or `roofsim fit` for what would make it fit."
    return SpecError(Problem(f"no layout is possible. {'; '.join(said)}", path="plan", hint=hint))
