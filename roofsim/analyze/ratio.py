"""Say how sure a speed-up is: the 80 % interval of a ratio of two predictions, in which shared errors cancel."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Protocol

from roofsim.analyze.distance import apart_from, spread
from roofsim.analyze.intervals import OWN, around
from roofsim.analyze.verdicts import ratio_interval
from roofsim.spec.constants.physics import shipped_physics

if TYPE_CHECKING:
    from collections.abc import Mapping

    Terms = Mapping[str, tuple[Any, Any]]


class PricedStep(Protocol):
    """What of a prediction the interval of a ratio rests on; a `Result` has it."""

    @property
    def scenario(self) -> dict[str, Any]:
        """The scenario as resolved."""

    @property
    def time(self) -> Mapping[str, Any]:
        """Kind of time -> seconds of the step."""

    @property
    def interval_terms(self) -> dict[str, tuple[Any, Any]]:
        """How far each term alone puts the ends of its interval, as logarithms."""

    @property
    def own_kernels(self) -> Any:
        """Share of its kernels' time whose classes were measured on the card itself."""


#: Parts of a resolved workload that decide which kernels run; its sizes decide on what.
_SOFTWARE: Final = (
    "phase",
    "precision",
    "engine",
    "engine_facts",
    "attention",
    "memory_format",
    "optimizer",
    "adapter",
)
#: Terms of intervals that count something of which two runs may have more and less: the error per unit is the same.
_COUNTED: Final = (
    "convolutions", "streams", "host", "communication", "nodes", "crowded", "recalled", "unknown_host", "unknown_flows",
)  # fmt: skip
#: Terms of intervals of which a part is another one in every run.
_EVERY_RUN: Final = ("communication", "nodes")

#: Numbers of a resolved scenario that decide how large its kernels are.
_SIZES: Final = {
    "workload": (
        "micro_batch_size",
        "sequence_length",
        "prompt_length",
        "context_length",
        "target_length",
        "image_size",
    ),
    "parallel": ("tensor", "context", "expert"),
}


def speedup_interval(before: PricedStep, after: PricedStep, ratio: float) -> tuple[float, float] | None:
    """Return the 80 % interval of a ratio of speeds; None where no interval is known.

    Of other software, or on another card, errors are apart but for the terms that both runs share, as in `roofsim.compare`. Where
    the same kernels run on the same card with other sizes, another layout or other numbers of the hardware, an error of a kind of
    time is in both runs: the ratio errs by as much as the shares of the kinds of time differ. Let the step err by ``w``, each kind
    of time apart by ``w / sqrt(sum of squared shares)``; the ratio then errs by
    ``w sqrt(sum (share after - share before)^2 / sum share before^2)``. Of what a run has more of (hosts, communication,
    convolutions) the additional part errs. Kernels of other sizes err apart as well: by `sizes_apart` of the
    physics times the logarithm of the factor between the sizes, but for those that were measured on the card itself at both.
    What networks and nodes are off by is in part another error in every run: `run_to_run` of the physics.

    Parameters
    ----------
    ratio
        Of the speed after over that before.
    """
    if not (before.interval_terms and after.interval_terms):
        return None
    if not same_kernels(before.scenario, after.scenario):
        return interval_of_ratio(after.interval_terms, before.interval_terms, ratio)
    moved = moved_share(before.time, after.time)
    names = [name for name in after.interval_terms if name not in _COUNTED or name in before.interval_terms]
    extra = [name for name in after.interval_terms if name not in names]
    own = min(float(before.own_kernels), float(after.own_kernels))
    sizes = shipped_physics()["sizes_apart"] * _apart_in_size(before.scenario, after.scenario) * (1.0 - own)
    below = above = math.hypot(sizes, *(float(one.interval_terms.get(OWN, (0.0,))[0]) for one in (before, after)))
    if before.scenario != after.scenario:
        fresh = shipped_physics()["run_to_run"]
        down, up = (fresh * one for one in _drawn_apart(before.interval_terms, after.interval_terms))
        below, above = math.hypot(below, down), math.hypot(above, up)
    for name in dict.fromkeys((*before.interval_terms, *names, *extra)):
        first, second = (terms.get(name, (0.0, 0.0)) for terms in (before.interval_terms, after.interval_terms))
        if name == OWN:
            continue
        if name in _COUNTED:
            low, high = (float(two) - float(one) for one, two in zip(first, second, strict=True))
            # Of what the run after has more of, a longer step is a lower speed; of what the run before has more of, a higher one.
            down, up = math.hypot(max(high, 0.0), max(-low, 0.0)), math.hypot(max(low, 0.0), max(-high, 0.0))
        else:
            up, down = (max(float(one), float(two)) * moved for one, two in zip(first, second, strict=True))
        below, above = math.hypot(below, down), math.hypot(above, up)
    return ratio * math.exp(-below), ratio * math.exp(above)


def _drawn_apart(first: Terms, second: Terms) -> tuple[float, float]:
    """Return how far what differs from run to run puts both ends of a ratio of speeds, the second over the first."""
    own, other = ([terms[name] for name in _EVERY_RUN if name in terms] for terms in (second, first))
    down = math.hypot(*(float(high) for _, high in own), *(float(low) for low, _ in other))
    up = math.hypot(*(float(low) for low, _ in own), *(float(high) for _, high in other))
    return down, up


def _apart_in_size(before: Mapping[str, Any], after: Mapping[str, Any]) -> float:
    """Return how far the sizes of two resolved scenarios differ: the logarithms of their factors, in quadrature."""
    sizes = [
        (before.get(section, {}).get(key), after.get(section, {}).get(key))
        for section, keys in _SIZES.items()
        for key in keys
    ]
    return math.hypot(*(math.log(float(two) / float(one)) for one, two in sizes if one and two))


def interval_of_ratio(first: Terms, second: Terms, factor: float) -> tuple[float, float] | None:
    """Return the 80 % interval of a factor between figures that go with the inverse of the step, as speeds and costs do.

    What errs alike in both runs cancels.

    Parameters
    ----------
    first, second
        How far each term of the interval puts its ends, of the run that the factor is of and of the one it is over.
    """
    terms = first, second
    if not all(terms):
        return None
    ends = [around(1.0, *spread(apart_from(own, others))) for own, others in (terms[::-1], terms)]
    low, high = ratio_interval((1.0, ends[0]), (1.0, ends[1]))
    return factor * low, factor * high


def moved_share(before: Mapping[str, Any], after: Mapping[str, Any]) -> float:
    """Return how far the shares of kinds of time differ: 0 where all are the same, at most that of two runs apart.

    >>> moved_share({"compute": 1.0, "memory_bandwidth": 1.0}, {"compute": 2.0, "memory_bandwidth": 2.0})
    0.0
    """
    shares = [
        {name: float(value) / sum(map(float, time.values())) for name, value in time.items()}
        for time in (before, after)
    ]
    names = dict.fromkeys((*shares[0], *shares[1]))
    apart = sum((shares[1].get(name, 0.0) - shares[0].get(name, 0.0)) ** 2 for name in names)
    own = sum(share**2 for share in shares[0].values())
    return min(math.sqrt(apart / own), math.sqrt(2.0))


def same_kernels(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Tell whether two resolved scenarios run the same software on the same card, its numbers and the sizes aside."""
    if any(before["hardware"][key] != after["hardware"][key] for key in ("gpu", "system")):
        return False
    if before["model"]["family"] != after["model"]["family"]:
        return False
    return all(before["workload"].get(key) == after["workload"].get(key) for key in _SOFTWARE)
