"""Answer the best layouts of a search one by one, as `roofsim.run` does, and say how surely the first of them wins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.money import quote_of
from roofsim.evaluate import evaluate
from roofsim.records import replace
from roofsim.search.planning.answer import Planned
from roofsim.search.planning.differences import parts_of, why
from roofsim.search.planning.robustness import Rival, described, ratio_to, regrets, turns
from roofsim.search.planning.space import ALONE
from roofsim.spec.scenario.document import with_override

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from roofsim.search.planning.blocks import Tools
    from roofsim.search.planning.space import PlanSpace
    from roofsim.spec.hardware.price import Quote
    from roofsim.spec.reading.source import Document
    from roofsim.spec.resolve import Resolved

#: Members of a front that are shown with all their figures.
MOST_FRONT: Final = 24


def winners(
    document: Document,
    space: PlanSpace,
    tools: Tools,
    columns: dict[str, NDArray[Any]],
    *,
    in_proportion: bool,
    robust: bool,
    top: int,
) -> tuple[list[Planned], dict[str, Any] | None]:
    """Return the best layouts as `roofsim.run` answers them, and how surely the first of them wins.

    Parameters
    ----------
    columns
        The best by the objective, which they are ordered by.
    in_proportion
        Whether the objective goes with the step.
    robust
        Whether the layout with the least regret comes first.
    top
        How many are returned.
    """
    plain, candidates = [], []
    for at in range(len(columns["id"])):
        one = plain_layout(document, space, columns, at)
        evaluation = evaluate(tools.resolve(with_changes(document, one.changes)))
        result = tools.answer(evaluation, limits=False)
        plain.append(one)
        candidates.append(Rival(one.id, float(columns["value"][at]), evaluation, result, in_proportion))
    regret: list[float] | None = None
    if robust and candidates:
        known = regrets(candidates)
        order = sorted(range(len(known)), key=lambda at: (known[at], at))
        plain, candidates = [plain[at] for at in order], [candidates[at] for at in order]
        regret = [known[at] for at in order]
    answers = [_planned(one, own, candidates[0]) for one, own in zip(plain, candidates, strict=True)]
    if regret is not None:
        answers = [replace(one, regret=each) for one, each in zip(answers, regret, strict=True)]
    robustness = None
    if candidates:
        alike = [one.id for one in answers[1:] if one.ratio is not None and one.ratio[0] <= 1.0]
        robustness = described(candidates, alike, turns(candidates), None if regret is None else regret[0])
    return answers[:top], robustness


def _planned(plain: Planned, own: Rival, best: Rival) -> Planned:
    result, first = own.result, best.result
    step, least = float(result.step_time), float(first.step_time)
    parts = parts_of(result.time, result.waits)
    return replace(
        plain,
        gpu=result.scenario["hardware"]["gpu"],
        step_time=step,
        memory=float(result.memory.device_total),
        interval=result.step_time_interval,
        time=parts,
        why="" if own is best else why(parts, parts_of(first.time, first.waits), step, least),
        ratio=None if own is best else ratio_to(own, best),
        notes=tuple(result.warnings) if result.memory.off_device else (),
        price=_price(own.evaluation.resolved),
    )


def _price(resolved: Resolved) -> Quote | None:
    return quote_of(resolved.gpu, resolved.system, resolved.gpus)


def priced_front(document: Document, tools: Tools, front: Sequence[Planned]) -> list[Planned]:
    """Return members of a front with the prices of their cards; each card and number of them is looked at once."""
    known: dict[tuple[str, int], tuple[str, Quote | None]] = {}
    for one in front:
        if (one.gpu, one.gpus) not in known:
            resolved = tools.resolve(with_changes(document, one.changes))
            known[one.gpu, one.gpus] = resolved.gpu.name, _price(resolved)
    return [
        replace(one, price=known[one.gpu, one.gpus][1], gpu=known[one.gpu, one.gpus][0] if one.gpu else "")
        for one in front
    ]


def plain_layout(document: Document, space: PlanSpace, columns: dict[str, NDArray[Any]], at: int) -> Planned:
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


def thinned(columns: dict[str, NDArray[Any]]) -> list[int]:
    """Return which members of a front are shown, fastest first: all, or some evenly spaced."""
    order = np.lexsort((columns["id"], columns["step_time"]))
    if len(order) <= MOST_FRONT:
        return [int(at) for at in order]
    return [int(order[at]) for at in np.unique(np.linspace(0, len(order) - 1, MOST_FRONT).round().astype(int))]


def changes_of(document: Document, space: PlanSpace, number: int) -> dict[str, dict[str, Any]]:
    """Return what makes a scenario a layout, by section: the keys of the space, and those that the scenario states otherwise."""
    data = space.grid.document(space.document, number).data
    paths = [axis.path for axis in space.grid.axes]
    stated = [key for key in ALONE if value_at(document.data, key.split(".")) is not None]
    kept = [*paths, *(tuple(key.split(".")) for key in stated), ("workload", "global_batch_size")]
    changes: dict[str, dict[str, Any]] = {"parallel": {}, "workload": {}, "hardware": {}}
    for path in dict.fromkeys(kept):
        value = value_at(data, path)
        if value is None and path not in [tuple(key.split(".")) for key in stated]:
            continue
        at = changes
        for part in path[:-1]:
            at = at.setdefault(part, {})
        at[path[-1]] = value
    return changes


def value_at(data: Any, path: Sequence[str]) -> Any:
    """Return what stands at a path of keys in a scenario; None: nothing."""
    for part in path:
        data = data.get(part) if isinstance(data, dict) else None
    return data


def with_changes(document: Document, changes: Any) -> Document:
    """Return a scenario with the keys that a layout sets."""
    for section, keys in changes.items():
        for key, value in keys.items():
            document = with_override(document, f"{section}.{key}", value, "plan")
    return document
