"""Say whose prices an answer rests on, and mark those that others are not to be compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.units import dollars

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from roofsim.analyze.used_prices import UsedPrice


def star(*, comparable: bool) -> str:
    """Return the mark of a price of another market."""
    return "" if comparable else "*"


def starred(write: Callable[[float], str], *, comparable: bool) -> Callable[[float], str]:
    """Return what writes amounts with the mark, where they rest on a price of another market."""
    return write if comparable else lambda value: f"{write(value)}{star(comparable=False)}"


def prices_line(used: Sequence[UsedPrice]) -> str:
    """Say the seller, kind and date of each price, and which are of another market; nothing where there are none."""
    own, others = ([one for one in used if one.comparable is same] for same in (True, False))
    if not own:
        return ""
    kinds = [one.quote.words() for one in own]
    alike = len(set(kinds)) == 1
    said = kinds[0] if alike else "; ".join(f"{one.gpu}: {kind}" for one, kind in zip(own, kinds, strict=True))
    return f"Prices of an hour: {said}.{others_said(f'{one.gpu}: {one.quote.words()}' for one in others)}"


def at_one_seller(named: Iterable[tuple[str, str, float | None]], now: float | None) -> list[str]:
    """Say at which price each card is held against that of now, where that is another price of the latter than is shown.

    Parameters
    ----------
    named
        What is changed, whose price it has, and dollars per hour of the hardware of now there.
    now
        Dollars per hour of it as shown.
    """
    said = {
        f"{name} and yours: {price}, yours at {dollars(there)} USD/h"
        for name, price, there in named
        if there is not None and there != now
    }
    return sorted(said)


def others_said(others: Iterable[str]) -> str:
    """Return the sentence on prices of other markets; nothing of none."""
    said = "; ".join(dict.fromkeys(others))
    return f" * {said}: another market, compare with care." if said else ""
