"""Print the best layouts: the winner, a row for each, the bound that none can beat, and what became of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from roofsim.report import words
from roofsim.report.grid import Grid, number, text
from roofsim.report.prices import prices_line, star
from roofsim.spec.scenario.offload import TIERS
from roofsim.units import humanize

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from roofsim.search.planning.answer import Plan, Planned

#: Degrees of a layout in the order of the table, and how they are headed.
_DEGREES: Final = {
    "tensor": "tp",
    "pipeline": "pp",
    "virtual_stages": "vpp",
    "context": "cp",
    "expert": "ep",
    "expert_tensor": "etp",
}
#: Members of the front, and reasons, that are shown; --json has all.
_FRONT: Final = 8
_REASONS: Final = 6
#: Rates of the hardware, as subjects of a sentence about how far off they are.
_RATES: Final = {
    "tensor_flops": "GEMMs are",
    "memory_bandwidth": "device memory is",
    "intra_node_link": "links inside nodes are",
    "inter_node_link": "the network between nodes is",
}
_FIGURES: Final = {
    "cost": "cost",
    "tokens_per_usd": "cost",
    "tokens_per_joule": "energy",
    "step_time": "step time",
    "memory": "memory",
}


def print_plan(console: Console, plan: Plan) -> None:
    """Print the answer first, then what stands behind it."""
    console.print(Text(headline(plan), style="bold"))
    for note in plan.assumed:
        console.print(f"({note})", style="dim", highlight=False)
    if plan.top:
        console.print(_table(plan))
        for place, one in enumerate(plan.top[1:], 2):
            console.print(f"{place}. {one.why}", highlight=False, markup=False)
    for note in plan.top[0].notes if plan.top else ():
        console.print(f"Note: {note}.", style="dim", highlight=False, markup=False)
    for line in filter(None, (prices_line(plan.prices), *certificate(plan), *surely(plan), *counted(plan))):
        console.print(line, highlight=False, markup=False)
    if len(plan.front) > 1:
        console.print()
        console.print("Nothing that was priced is as good in time, memory, cost and GPUs at once:", highlight=False)
        console.print(_front(plan))


def headline(plan: Plan) -> str:
    """Return the answer in a line."""
    best = plan.best
    if best is None:
        return "No layout is possible"
    where = f"{words.count(best.gpus)} x {best.gpu}" if best.gpu else words.plural(words.count(best.gpus), "GPU")
    return f"{one_layout(best)} on {where}: step {words.seconds(best.step_time)}{_interval(best)}"


def one_layout(one: Planned) -> str:
    """Return a layout in words: the degrees that exceed 1, and what else was chosen.

    Degrees of data parallelism are what remains of the GPUs.
    """
    parallel, workload = one.changes.get("parallel", {}), one.changes.get("workload", {})
    degrees = [
        f"{name.replace('_', ' ')} {parallel[name]}" for name in _DEGREES if parallel.get(name, 1) not in (1, None)
    ]
    replicas = _replicas(one)
    degrees += [f"data {replicas}"] if replicas > 1 else []
    more = [f"micro batch {workload['micro_batch_size']}"] if "micro_batch_size" in workload else []
    return ", ".join([" x ".join(degrees) or "one GPU", *more, *_choices(parallel, workload)])


def _replicas(one: Planned) -> int:
    parallel = one.changes.get("parallel", {})
    inner = 1
    for name in ("tensor", "pipeline", "context"):
        inner *= int(parallel.get(name) or 1)
    return one.gpus // inner


def _choices(parallel: Mapping[str, Any], workload: Mapping[str, Any]) -> list[str]:
    said = []
    if workload.get("recompute") not in (None, "none"):
        said.append(f"recompute {_word(workload['recompute'])}")
    if parallel.get("sharding") not in (None, "none"):
        said.append(f"sharding {_word(parallel['sharding'])}")
    if parallel.get("sequence"):
        said.append("sequence")
    if parallel.get("schedule") not in (None, "1f1b"):
        said.append(str(parallel["schedule"]))
    said += [
        f"{part.replace('_', ' ')} {TIERS[place].words if isinstance(place, str) else 'off the device'}"
        for part, place in (parallel.get("offload") or {}).items()
        if place not in (None, "none")
    ]
    if workload.get("engine") is not None:
        said.append(str(workload["engine"]))
    ends = [end for end in ("embedding", "loss") if parallel.get(f"account_for_{end}")]
    if ends:
        said.append(f"{' and '.join(ends)} as layer{'s' if len(ends) > 1 else ''}")
    return said


def _word(value: Any) -> str:
    if isinstance(value, dict):
        counted = {
            "policy": "{}",
            "layers": "of the first {} layers",
            "every": "of every {}. layer",
            "segment": "in segments of {}",
        }
        return " ".join(counted.get(key, f"{key} {{}}").format(part) for key, part in value.items())
    return str(value)


def _interval(one: Planned) -> str:
    if one.interval is None:
        return ""
    low, high = one.interval
    return f" ({words.seconds(low)} to {words.seconds(high)})"


def _table(plan: Plan) -> Grid:
    used = [
        name
        for name in _DEGREES
        if any(one.changes.get("parallel", {}).get(name, 1) not in (1, None) for one in plan.top)
    ]
    cards = len({one.gpu for one in plan.top}) > 1
    several = len({one.gpus for one in plan.top}) > 1
    priced = any(one.cost is not None for one in plan.top)
    heads = [number("#"), *([text("gpu")] if cards else []), *([number("GPUs")] if several else [])]
    heads += [number(_DEGREES[name]) for name in used] + [number("dp"), number("mb"), text("choices"), number("step")]
    grid = Grid([*heads, number("memory"), *([number("$/M")] if priced else [])], roomy=False)
    for place, one in enumerate(plan.top, 1):
        parallel, workload = one.changes.get("parallel", {}), one.changes.get("workload", {})
        cells = [str(place), *([one.gpu] if cards else []), *([str(one.gpus)] if several else [])]
        cells += [str(parallel.get(name, 1)) for name in used]
        cells += [
            str(_replicas(one)),
            str(workload.get("micro_batch_size", "")),
            ", ".join(_choices(parallel, workload)),
        ]
        cells += [words.seconds(one.step_time), words.gibibytes(one.memory)]
        grid.add(*cells, *([_dollars(one)] if priced else []))
    return grid


def _dollars(one: Planned) -> str:
    return "-" if one.cost is None else f"{one.cost:.3g}{star(comparable=one.comparable)}"


def certificate(plan: Plan) -> list[str]:
    """Return what is sure of the layouts that were not priced."""
    if plan.lower_bound is None or plan.best is None:
        return []
    figure, bound = _FIGURES[plan.objective], amount(plan.objective, plan.lower_bound)
    return [
        f"No layout of this space has less {figure} than {bound}; the winner has {amount(plan.objective, plan.least)}."
    ]


def surely(plan: Plan) -> list[str]:
    """Return how surely the winner wins: which others cannot be told apart from it, and how wrong rates must be for another."""
    known, best = plan.robustness, plan.best
    if known is None or best is None:
        return []
    place = {one.id: f"#{at}" for at, one in enumerate(plan.top, 1)}
    lines = []
    if best.regret is not None:
        lines.append(
            f"Chosen by regret among {known['among']}: "
            f"at the ends of the intervals it is {100 * best.regret:.1f} % behind another at most."
        )
    alike = [place.get(number, "one further behind") for number in known["one_of_several"]]
    if alike:
        shown = dict.fromkeys(alike)
        lines.append(
            f"One of several: inside the 80 % intervals {_listed(list(shown))} may be as good (shared errors cancel)."
        )
    said = {rate: _turns_said(both, place) for rate, both in known["rates"].items() if any(both.values())}
    lines += [f"Another wins if {_RATES[rate]} {each}." for rate, each in said.items()]
    steady = [_RATES[rate].rpartition(" ")[0] for rate in known["rates"] if rate not in said]
    if steady:
        lines.append(
            f"No other of these wins if the speed of {_listed(steady)} alone is off by up to {known['widest']:g}x."
        )
    return lines


def _turns_said(both: Mapping[str, Any], place: Mapping[int, str]) -> str:
    ways = []
    for side, word in (("less", "slower"), ("more", "faster")):
        if both[side] is not None:
            factor = both[side]["factor"]
            percent = 100.0 * abs(1.0 - factor)
            ways.append(f"{percent:.0f} % {word} ({place.get(both[side]['id'], 'one further behind')})")
    return " or ".join(ways)


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def amount(objective: str, value: float) -> str:
    """Return an amount of an objective in words."""
    if objective == "step_time":
        return words.seconds(value)
    if objective == "memory":
        return words.gibibytes(value)
    return f"{value:.4g} J per million" if objective == "tokens_per_joule" else f"${value:.4g} per million"


def counted(plan: Plan) -> list[str]:
    """Return how many layouts were considered, and what became of them."""
    parts = [f"{words.count(plan.priced)} priced and fit", f"{words.count(plan.does_not_fit)} do not fit in memory"]
    if plan.constrained:
        parts.append(f"{words.count(plan.constrained)} of those priced do not meet {' and '.join(plan.constraints)}")
    parts.append(f"{words.count(plan.cut)} left out by their bound")
    parts.append(f"{words.count(sum(plan.refused.values()))} not possible")
    whole = f"{words.count(plan.considered)} layouts: {', '.join(parts)}."
    return [
        whole,
        *(
            f"not possible: {words.count(count)}, for example: {plan.reasons.get(code, code)}"
            for code, count in list(plan.refused.items())[:_REASONS]
        ),
    ]


def _front(plan: Plan) -> Grid:
    grid = Grid([text("layout"), number("GPUs"), number("step"), number("memory"), number("$/M")], roomy=False)
    members = plan.front
    if len(members) > _FRONT:
        last = len(members) - 1
        members = tuple(members[round(at * last / (_FRONT - 1))] for at in range(_FRONT))
    for one in members:
        name = f"{one.gpu}: {one_layout(one)}" if one.gpu else one_layout(one)
        grid.add(name, str(one.gpus), words.seconds(one.step_time), humanize(one.memory, "B", 3), _dollars(one))
    return grid
