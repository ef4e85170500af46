"""Search the layouts of a scenario, block by block, and answer the winners one by one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.errors import Problem, SpecError
from roofsim.evaluate import evaluate
from roofsim.records import replace
from roofsim.search.planning.answer import Plan, Planned
from roofsim.search.planning.blocks import SearchInput
from roofsim.search.planning.differences import parts_of, why
from roofsim.search.planning.running import Spread, run_blocks
from roofsim.search.planning.space import ALONE
from roofsim.spec.scenario.document import with_override

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from roofsim.search.planning.asked import PlanRequest
    from roofsim.search.planning.blocks import Tools
    from roofsim.search.planning.objectives import Goal
    from roofsim.search.planning.search import Findings
    from roofsim.search.planning.space import PlanSpace, Wish
    from roofsim.spec.reading.source import Document

#: Members of a front that are shown with all their figures.
MOST_FRONT: Final = 24


def plan_asked(
    document: Document,
    asked: PlanRequest,
    tools: Tools,
    *,
    k: int = 10,
    cuts: bool = True,
    spread: Spread | None = None,
) -> Plan:
    """Search the layouts of a scenario for what a caller asks; see `roofsim.plan`.

    Raises
    ------
    SpecError
        When the scenario is wrong, whatever its layout, or a card, an axis or a constraint is.
    """
    began = time.monotonic()
    given, space = _prepared(document, asked, tools, k=k, cuts=cuts)
    findings = run_blocks(given, space, spread or Spread())
    return _answered(document, space, given.goal, tools, findings, time.monotonic() - began)


def part_asked(
    document: Document, asked: PlanRequest, tools: Tools, *, k: int, cuts: bool, spread: Spread
) -> tuple[int, int]:
    """Search a part of the layouts (`spread.share`), keep what it holds in files, and return how many of how many it were.

    Raises
    ------
    SpecError
        As `plan_asked`.
    """
    given, space = _prepared(document, asked, tools, k=k, cuts=cuts)
    findings = run_blocks(given, space, spread)
    return findings.considered, sum(map(space.count, space.families()))


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
    stated = _at(document.data, ("hardware", "gpus"))
    if stated is None:
        hint = "For example --gpus 512, --gpus 64,128 or --gpus 64..4096 (doubling)."
        raise SpecError(Problem("expected how many GPUs there are", path="hardware.gpus", hint=hint))
    return replace(wish, gpus=(int(stated),))


def _answered(
    document: Document, space: PlanSpace, goal: Goal, tools: Tools, findings: Findings, seconds: float
) -> Plan:
    top = _winners(document, space, tools, findings.top)
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
        seconds=seconds,
        top=tuple(top),
        front=tuple(_plain(document, space, findings.front, at) for at in _thinned(findings.front)),
        assumed=space.assumed,
    )


def _winners(document: Document, space: PlanSpace, tools: Tools, columns: dict[str, NDArray[Any]]) -> Iterator[Planned]:
    """Yield the best layouts as `roofsim.run` answers them one by one."""
    first: dict[str, float] = {}
    least = 0.0
    for at in range(len(columns["id"])):
        plain = _plain(document, space, columns, at)
        result = tools.answer(evaluate(tools.resolve(with_changes(document, plain.changes))), limits=False)
        parts = parts_of(result.time, result.waits)
        if not first:
            first, least = parts, float(result.step_time)
        yield Planned(
            id=plain.id,
            changes=plain.changes,
            gpu=result.scenario["hardware"]["gpu"],
            gpus=plain.gpus,
            step_time=float(result.step_time),
            memory=float(result.memory.device_total),
            cost=plain.cost,
            energy=plain.energy,
            interval=result.step_time_interval,
            time=parts,
            why="" if at == 0 else why(parts, first, float(result.step_time), least),
        )


def _plain(document: Document, space: PlanSpace, columns: dict[str, NDArray[Any]], at: int) -> Planned:
    """Return a layout with the figures that the search knows."""
    number = int(columns["id"][at])
    changes = changes_of(document, space, number)
    figures = {name: float(columns[name][at]) for name in ("cost", "energy")}
    return Planned(
        id=number,
        changes=changes,
        gpu=str(changes["hardware"].get("gpu", "")),
        gpus=int(columns["gpus"][at]),
        step_time=float(columns["step_time"][at]),
        memory=float(columns["memory"][at]),
        cost=None if np.isnan(figures["cost"]) else figures["cost"],
        energy=None if np.isnan(figures["energy"]) else figures["energy"],
    )


def _thinned(columns: dict[str, NDArray[Any]]) -> list[int]:
    """Return which members of a front are shown, fastest first: all, or some evenly spaced."""
    order = np.lexsort((columns["id"], columns["step_time"]))
    if len(order) <= MOST_FRONT:
        return [int(at) for at in order]
    return [int(order[at]) for at in np.unique(np.linspace(0, len(order) - 1, MOST_FRONT).round().astype(int))]


def changes_of(document: Document, space: PlanSpace, number: int) -> dict[str, dict[str, Any]]:
    """Return what makes a scenario a layout, by section: the keys of the space, and those that the scenario states otherwise."""
    data = space.grid.document(space.document, number).data
    paths = [axis.path for axis in space.grid.axes]
    stated = [key for key in ALONE if _at(document.data, key.split(".")) is not None]
    kept = [*paths, *(tuple(key.split(".")) for key in stated), ("workload", "global_batch_size")]
    changes: dict[str, dict[str, Any]] = {"parallel": {}, "workload": {}, "hardware": {}}
    for path in dict.fromkeys(kept):
        value = _at(data, path)
        if value is None and path not in [tuple(key.split(".")) for key in stated]:
            continue
        at = changes
        for part in path[:-1]:
            at = at.setdefault(part, {})
        at[path[-1]] = value
    return changes


def _at(data: Any, path: Sequence[str]) -> Any:
    for part in path:
        data = data.get(part) if isinstance(data, dict) else None
    return data


def with_changes(document: Document, changes: Any) -> Document:
    """Return a scenario with the keys that a layout sets."""
    for section, keys in changes.items():
        for key, value in keys.items():
            document = with_override(document, f"{section}.{key}", value, "plan")
    return document


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
