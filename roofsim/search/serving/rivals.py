"""Say how servers differ from the cheapest, and which of them the model cannot tell from it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from roofsim.analyze.used_prices import of_one_market
from roofsim.records import replace
from roofsim.search.serving.answer import GPUS
from roofsim.serve.ranges import spread_apart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.search.serving.answer import ServerChoice
    from roofsim.spec.resolve import Resolved

#: What says how far rates may be off.
_FIGURE: Final = "output_tokens_per_second"
#: Differences that are not worth a word, as a share.
_SMALL: Final = 0.005


def compared(choices: Sequence[ServerChoice], resolved: Sequence[Resolved], objective: str) -> list[ServerChoice]:
    """Return servers, the best first, each with how it differs from the best, and whether that is undecided.

    What errs alike on both, as of one engine and one kind of source, does not blur which is cheaper.
    """
    if not choices:
        return []
    best, first = choices[0], resolved[0]
    told = [best]
    for one, own in zip(choices[1:], resolved[1:], strict=True):
        undecided = not _same(best, one) and not _decided(best, one, first, own)
        why = _why(best, one, objective, undecided=undecided)
        comparable = of_one_market(best.price, one.price)
        told.append(replace(one, undecided=undecided, why=why, comparable=comparable))
    return told


def _same(best: ServerChoice, one: ServerChoice) -> bool:
    """Tell whether two servers are the same replica in other numbers."""
    return (
        one.gpu == best.gpu
        and one.sizing.at_limit == best.sizing.at_limit
        and one.gpus * best.replicas == best.gpus * one.replicas
    )


def _decided(best: ServerChoice, one: ServerChoice, first: Resolved, own: Resolved) -> bool:
    """Tell whether the 80 % range of the ratio of two objectives leaves no doubt which is less."""
    if best.value is None or one.value is None:
        return one.value is None and best.value is not None
    # The best may be slower than predicted, and the other faster.
    slower, faster = (
        spread_apart(first, own, _FIGURE)[1],
        spread_apart(own, first, _FIGURE)[0],
    )
    return math.log(one.value / best.value) > math.hypot(slower, faster)


def _why(best: ServerChoice, one: ServerChoice, objective: str, *, undecided: bool) -> str:
    """Return how a server differs from the best.

    Parts multiply: GPUs for the rate, and the price of each.
    """
    if best.value is None or one.value is None:
        return "no price is known"
    if _same(best, one):
        return f"the same replica, {one.replicas} of it"
    words = "GPUs" if objective == GPUS else "cost"
    behind = f"{one.value / best.value - 1.0:+.1%} {words}".replace("%", " %")
    parts = []
    gpus = (one.gpus / one.request_rate) / (best.gpus / best.request_rate)
    parts += [f"{gpus:.2f} x the GPUs"] if abs(gpus - 1.0) > _SMALL else []
    if one.hourly is not None and best.hourly is not None and objective != GPUS:
        price = (one.hourly / one.gpus) / (best.hourly / best.gpus)
        parts += [f"{price:.2f} x the price of each"] if abs(price - 1.0) > _SMALL else []
    told = f"{behind}: {', '.join(parts)}" if parts else behind
    return f"{told}; undecided, within the error of the model" if undecided else told
