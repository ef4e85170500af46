"""Say what a figure of a result is counted in, by its dotted key, and write its amounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.report import words
from roofsim.units import humanize

if TYPE_CHECKING:
    from collections.abc import Callable

_SECONDS: Final = frozenset({"step_time", "step_time_interval", "time", "waits", "latency"})
_SHARES: Final = frozenset({"mfu", "hfu", "fit_probability", "bandwidth_share"})
_DIGITS: Final = 4


def amount(figure: str) -> Callable[[float], str]:
    """Return what writes the values of a figure: ``step_time`` as 812 ms, ``memory.peak`` in GiB, ``mfu`` in percent.

    Examples
    --------
    >>> amount("memory.peak")(2.0**31), amount("mfu")(0.388), amount("throughput.tokens_per_second")(12345.6)
    ('2 GiB', '38.8 %', '12,346')
    """
    head, _, _ = figure.partition(".")
    last = figure.rpartition(".")[2]
    rules = (
        (head in _SECONDS or last == "time", words.seconds),
        (last in _SHARES, words.percent),
        (head == "memory", words.gibibytes),
        ("flops" in last, _humanized("FLOP/s" if "per_second" in last else "FLOP")),
        (last.startswith("bytes"), _humanized("B")),
        ("usd" in last, words.dollars),
    )
    return next((writes for holds, writes in rules if holds), _plain)


def written(figure: str, value: Any) -> str:
    """Return one value of a figure: an amount, a pair of them, a word, or a dash where there is none."""
    if value is None:
        return "-"
    if isinstance(value, list | tuple):
        return " to ".join(written(figure, each) for each in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return words.BOUND_WORDS.get(value, value.replace("_", " "))
    return amount(figure)(float(value))


def _humanized(unit: str) -> Callable[[float], str]:
    return lambda value: humanize(value, unit, _DIGITS)


def _plain(value: float) -> str:
    return words.count(value) if abs(value) >= 1000.0 else f"{value:.{_DIGITS}g}"
