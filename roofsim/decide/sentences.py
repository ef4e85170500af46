"""Say in a sentence whether bandwidth or compute is what to buy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from roofsim.analyze.limit_words import BOUND_WORDS
from roofsim.decide.prices import IDLE, NOTHING
from roofsim.units import dollars, percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from roofsim.decide.advice import Advice
    from roofsim.decide.prices import Marginal

_NAMES: Final = {
    "memory_bandwidth": "memory bandwidth",
    "tensor_flops": "tensor FLOP/s",
    "vector_flops": "FLOP/s of ordinary units",
}
#: What else money buys.
_OTHERS: Final = {
    "intra_node_link": "bandwidth of links inside the node",
    "inter_node_link": "bandwidth of the network between nodes",
    "host_link": "bandwidth of the link to the host",
    "host_issue_rate": "rate at which the host launches kernels",
    "power": "power limit",
    "storage": "bandwidth of storage",
}
#: Share of speed that is printed as more than none, and dollars per hour that are printed beside a share of the price.
_NOTICED: Final = 5e-4
_SHOWN_FROM: Final = 1e-3
_HEADS: Final = {"memory_bandwidth": "Bandwidth", "tensor_flops": "Compute", "vector_flops": "Compute"}


def bandwidth_or_compute(
    limits: Mapping[str, float], costs: Sequence[Marginal], others: Mapping[str, float] | None = None
) -> str:
    """Return whether bandwidth or compute is the cheaper way to one percent more speed, or that neither is one.

    Parameters
    ----------
    limits
        Resource -> share of the time that waits for it, the largest first.
    costs
        Of memory bandwidth and of compute, the cheaper first.
    others
        Rate beside these -> share of speed that twice as much of it buys.
    """
    other = _best_of(others or {}, costs)
    more, less = sorted(costs, key=lambda one: -one.elasticity)
    if more.elasticity < NOTHING or more.doubled < IDLE:
        most = next(iter(limits))
        return (
            f"Neither bandwidth nor compute: {percent(limits[most])} of the time waits for {BOUND_WORDS[most]}, and 1 % more "
            f"{_NAMES[more.resource]} makes it {_share(more)} faster{'' if other is None else f'; {other}'}."
        )
    if other is not None:
        said = bandwidth_or_compute(limits, costs)
        return (
            f"{other[:1].upper()}{other[1:]}, more than of bandwidth or compute. Of these, {said[:1].lower()}{said[1:]}"
        )
    if less.elasticity < NOTHING or less.doubled < IDLE <= more.doubled:
        price = "" if more.percent is None else f" 1 % more speed costs {_price(more)} through {_NAMES[more.resource]};"
        gained = "no faster" if less.doubled < _NOTICED else f"only {percent(less.doubled)} faster"
        twice = f"twice the {_NAMES[less.resource]} makes it {gained}"
        return f"{_HEADS[more.resource]}:{price} {twice}."
    first, second = costs
    if first.percent is None:
        ours = f"1 % more {_NAMES[more.resource]} makes it {_share(more)} faster, 1 % more {_NAMES[less.resource]} {_share(less)}"
        return f"{_HEADS[more.resource]}: {ours}; there are too few prices to say what either costs."
    sure = _apart(first, second)
    if not sure:  # prices do not say which is cheaper: first what makes it faster
        first, second = more, less
    head = _HEADS[first.resource] if sure else f"{_HEADS[first.resource]}, if anything"
    if sure and first.doubled < second.doubled:  # the cheaper way ends before the other
        head = f"{head} for the first {percent(first.doubled)}, {_HEADS[second.resource].lower()} beyond"
    doubt = "" if sure else "; market prices do not tell the two apart"
    return (
        f"{head}: 1 % more speed costs {_price(first)} through {_NAMES[first.resource]}, and {_price(second)} through "
        f"{_NAMES[second.resource]}{doubt}; twice the {_NAMES[first.resource]} makes it {percent(first.doubled)} faster, twice the "
        f"{_NAMES[second.resource]} {percent(second.doubled)}."
    )


def units_first(elasticity: Mapping[str, float], costs: Sequence[Marginal]) -> str:
    """Return what goes before the sentence of `verdict`, where compute units beside their peaks limit more than either.

    Parameters
    ----------
    elasticity
        Resource -> d ln(time) / d ln(resource).
    """
    gain = -elasticity.get("unit_rate", 0.0)
    if gain < NOTHING or any(one.elasticity >= gain for one in costs):
        return ""
    return (
        f"Compute units before either: 1 % more of them, or of their clock, makes it {gain:.2g} % faster (the loads that they keep "
        "in flight, exponentials), which no peak shows. Of the two, "
    )


def _best_of(others: Mapping[str, float], costs: Sequence[Marginal]) -> str | None:
    """Return what else gains most, where twice as much of it gains more than of bandwidth or compute; None of nothing."""
    most = max(others, key=lambda rate: others[rate], default=None)
    if most is None or others[most] < IDLE or others[most] <= max(one.doubled for one in costs):
        return None
    return f"twice the {_OTHERS[most]} makes it {percent(others[most])} faster"


def real_step(cards: Sequence[Advice]) -> str:
    """Return which real card does the work for the least, of those that are surely faster; nothing where none has a price.

    Left out are prices of other markets, and cards that are faster by the hosts that they usually stand in.
    """
    steps = [
        one
        for one in cards
        if one.kind == "card" and one.cost_ratio is not None and one.comparable and (one.interval or (one.gain,))[0] > 0
        if not one.by_host
    ]
    if not steps:
        return ""
    best = min(steps, key=lambda one: one.cost_ratio or 0.0)
    now = best.usd_per_hour_now or 0.0
    return (
        f" Of real cards that are surely faster, {best.change.partition('=')[2]} does the work for the least: {percent(best.gain)} "
        f"faster at {best.cost_ratio:.2f} times the dollars per unit ({dollars(now + (best.usd or 0.0))} USD/h against "
        f"{dollars(now)} of yours, {best.price})."
    )


def _apart(first: Marginal, second: Marginal) -> bool:
    """Tell whether the cheaper of the two is cheaper beyond the errors of both prices."""
    ends = first.percent, first.high, second.percent, second.low
    if None in ends:
        return True
    cheap, above, dear, below = (float(end or 0.0) for end in ends)
    return dear - cheap > math.hypot(above - cheap, dear - below)


def _price(one: Marginal) -> str:
    money = "" if one.usd is None or one.usd < _SHOWN_FROM else f" ({dollars(one.usd)} USD/h)"
    return f"{one.percent:.2g} % of the price{money}, between {one.low:.2g} and {one.high:.2g} %,"


def _share(one: Marginal) -> str:
    return f"{one.elasticity:.2g} %" if one.elasticity > _NOTICED else "0 %"
