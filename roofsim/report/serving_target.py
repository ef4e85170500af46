"""Print what a server sustains within bounds on its latencies, and how far apart these lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.report import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.serve.served import Served
    from roofsim.serve.simulation import Simulated
    from roofsim.serve.sizing import SizedServer
    from roofsim.serve.target import LatencyTarget

#: What limits a rate, in words.
LIMITS: Final = {
    "time_to_first_token": "the time to the first token",
    "time_per_output_token": "the time per token",
    "room": "room for requests at once",
    "capacity": "what the server completes",
}
_FIRST, _EACH = "time_to_first_token", "time_per_output_token"


def bounds_of(target: LatencyTarget) -> str:
    """Return what is bounded, in words."""
    bounds = (("first token", target.ttft), ("per output token", target.tpot))
    said = " and ".join(f"{name} within {words.seconds(bound)}" for name, bound in bounds if bound is not None)
    return f"{said} for {target.percentile:g} % of the requests"


def sized_rows(served: Served, sized: SizedServer) -> list[tuple[str, str]]:
    """Return what the bounds are, which rate keeps them, what more would bring, and how many replicas it takes."""
    sizing = sized.sizing
    rows = [("target", bounds_of(sizing.target))]
    if sizing.rate <= 0.0:
        hint = "" if sized.hint is None else f". {sized.hint[0].upper()}{sized.hint[1:]}"
        return [*rows, ("verdict", f"NOT possible at any rate: {sizing.reason}{hint}")]
    low, high = sizing.rates
    tokens = words.count(sizing.rate * served.plan.given)
    each = "" if sized.unit == 1.0 else f", {words.count(sized.each)} on each of {words.count(sized.unit)} replicas"
    span = f"80 % range {words.count(low)} .. {words.count(high)}"
    line = f"{words.count(sizing.rate)} requests/s ({span}){each}, {tokens} output tokens/s; {_at_limit(sized)}"
    rows.append(("sustains", line))
    rows += [("with more", _relaxed(sized))] if sizing.relaxed else []
    return rows + _replicas(served, sized)


def _at_limit(sized: SizedServer) -> str:
    sizing = sized.sizing
    shown = {name: words.seconds(seconds) for name, seconds in sizing.at_limit.items() if seconds is not None}
    share = f"p{sizing.target.percentile:g}"
    parts = [f"first token {shown[_FIRST]}"] if _FIRST in shown else []
    parts += [f"per token {shown[_EACH]}"] if _EACH in shown else []
    return f"then {share} is {', '.join(parts)}; limited by {LIMITS[sizing.limits or 'capacity']}"


def _relaxed(sized: SizedServer) -> str:
    """Say what 10 % more of each thing would bring, and what each bound costs."""
    sizing = sized.sizing
    laxer = {_FIRST: "time to the first token", _EACH: "time per token", "room": "room for requests"}
    parts = [f"{laxer[name]} {_gain(way.laxer, sizing.rate)}" for name, way in sizing.relaxed.items()]
    said = f"10 % more of each brings, in requests/s: {', '.join(parts)}"
    limiting = sizing.relaxed.get(sizing.limits or "")
    if limiting is not None and limiting.without is not None:
        then = LIMITS[limiting.then or "capacity"]
        said += (
            f"; without the bound on {LIMITS[sizing.limits or '']} {words.count(limiting.without)}, limited by {then}"
        )
    return said


def _gain(more: float, rate: float) -> str:
    gain = more / rate - 1.0
    return "nothing" if gain < 0.005 else f"+{words.percent(gain)}"


def _replicas(served: Served, sized: SizedServer) -> list[tuple[str, str]]:
    rate = sized.request_rate
    if rate is None or sized.replicas is None:
        return []
    fewest, most = (words.count(one) if one is not None else "none" for one in sized.replicas_range)
    span = f"80 % range {fewest} .. {most}" if sized.replicas_range[1] is not None else f"{fewest}, or no number"
    gpus = words.plural(words.count(sized.gpus or 0), "GPU")
    line = f"{words.count(sized.replicas)} for {words.count(rate)} requests/s ({span}): {gpus}"
    if sized.stated:
        kept = "the bounds hold" if served.keeps_target else "the bounds do NOT hold"
        return [("replicas", f"{line}; with the stated {words.count(served.plan.gpus)} {kept}")]
    monthly = served.money()["usd_per_month"]
    money = "" if monthly is None else f", {words.dollars(monthly)} USD per month"
    return [("replicas", f"{line}{money}")]


def percentile_rows(served: Served) -> list[tuple[str, str]]:
    """Return a line of percentiles, with what of them is queueing."""
    percentiles = served.percentiles()
    if percentiles is None:
        return []
    names = " / ".join(f"p{percent}" for percent in percentiles)
    of = list(percentiles.values())
    parts = [
        f"first token {_three([one[_FIRST] for one in of])} ({_three([one[f'{_FIRST}_queueing'] for one in of])} of it queueing)"
    ]
    if of[0][_EACH] is not None:
        parts.append(
            f"per token {_three([one[_EACH] for one in of])} ({_three([one[f'{_EACH}_queueing'] for one in of])} beside others)"
        )
    return [(names, "; ".join(parts))]


def simulated_percentiles(simulated: Simulated) -> str:
    """Return the percentiles of a simulation in words."""
    of = list(simulated.percentiles.values())
    said = f"{' / '.join(f'p{percent}' for percent in simulated.percentiles)} first token {_three([one[_FIRST] for one in of])}"
    each = [one[_EACH] for one in of]
    return said if None in each else f"{said}, per token {_three(each)}"


def _three(seconds: Sequence[float | None]) -> str:
    return " / ".join(words.seconds(one) for one in seconds if one is not None)
