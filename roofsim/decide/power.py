"""Say what a power limit costs and saves: speed and work per joule over limits from a third of a card's power to all of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.printed import Drawn
from roofsim.analyze.verdicts import FITS
from roofsim.analyze.watts import average_watts, drawn_watts, unheld_watts
from roofsim.api import answer, resolve_document
from roofsim.compare.rows import rate_of, unit_of
from roofsim.decide.room import must_fit
from roofsim.errors import Problem, SpecError
from roofsim.evaluate import evaluate
from roofsim.records import dataclass
from roofsim.spec.scenario.document import load_scenario, with_override
from roofsim.spec.settle.held import LEAST, MEASURED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from roofsim.spec.reading.source import Document
    from roofsim.spec.scenario.workload import Scenario

SCHEMA: Final = "roofsim/power/1"
#: Limits that are tried where none are named.
_LIMITS: Final = 12
#: Share of the speed without a limit from which on a step is as fast.
_AS_FAST: Final = 0.999
#: Halvings of the clocks between which the highest lies that keeps a limit.
_HALVINGS: Final = 7


@dataclass(frozen=True, kw_only=True)
class AtLimit:
    """One power limit.

    Attributes
    ----------
    limit, drawn
        Watts of each GPU: the limit, and what its kernels draw on average.
    clock
        Hertz to which the card lowers its clock to keep the limit, where streaming and waiting alone draw more than it at full
        clock; None where it need not.
    kept
        Whether a card keeps the limit at this speed, at some clock; if not, the step takes longer than `step_time`, and how much is
        not known.
    speed
        Work per second over that without a limit.
    per_joule
        Tokens or images per joule that the GPUs draw.
    measured
        Whether cards were measured at such a share of their power.
    """

    limit: float
    drawn: float
    step_time: float
    interval: tuple[float, float] | None
    rate: float
    speed: float
    per_joule: float
    clock: float | None
    kept: bool
    measured: bool

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return dict(self.__dict__)


@dataclass(frozen=True, kw_only=True, repr=False)
class PowerCurve(Drawn):
    """The answer of `roofsim.power`: a row for each limit, the highest first; `memory` is ``fits``, or ``tight``: may not fit."""

    gpu: str
    gpus: int
    unit: str
    rows: tuple[AtLimit, ...]
    memory: str = FITS

    @property
    def best(self) -> AtLimit:
        """What does the most work per joule, of limits at which cards were measured where there are any."""
        kept = [one for one in self.rows if one.kept] or self.rows
        return max([one for one in kept if one.measured] or kept, key=lambda one: one.per_joule)

    @property
    def beyond(self) -> AtLimit | None:
        """What would do the most work per joule below the limits at which cards were measured; None where it does no more."""
        below = [one for one in self.rows if one.kept and not one.measured]
        most = max(below, key=lambda one: one.per_joule, default=None)
        best = self.best
        return most if most is not None and best.measured and most.per_joule > best.per_joule else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        rows = [one.to_dict() for one in self.rows]
        return {
            "schema": SCHEMA,
            "gpu": self.gpu,
            "gpus": self.gpus,
            "unit": self.unit,
            "memory": self.memory,
            "best": self.best.to_dict(),
            "beyond": None if self.beyond is None else self.beyond.to_dict(),
            "limits": rows,
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each limit."""
        return [one.to_dict() for one in self.rows]


def power(
    scenario: str | Path | dict[str, Any] | Scenario, *, limits: Sequence[float | str] = (), **overrides: Any
) -> PowerCurve:
    """Return speed and work per joule over power limits.

    Parameters
    ----------
    limits
        Watts of each GPU (``"300 W"``); a dozen from a third of the card's own to all of it, if left out.

    Returns
    -------
    PowerCurve
        Rows of limits in watts, the highest first: units per second and per joule, steps in seconds.

    Raises
    ------
    SpecError
        For a limit that the card cannot be held to, a card whose power is not known, and a scenario that does not fit in memory.
    """
    return power_document(
        load_scenario(scenario, overrides), [f"{one:g} W" if not isinstance(one, str) else one for one in limits]
    )


def power_document(document: Document, limits: Sequence[str] = ()) -> PowerCurve:
    """Return speed and work per joule over power limits; see `power`."""
    free = with_override(document, "hardware.power_limit", None, "--limits") if _limited(document) else document
    resolved = resolve_document(free)
    tdp = resolved.gpu.tdp
    if tdp is None:
        raise SpecError(Problem(f"the power of {resolved.gpu.name} is not known", hint="State it: --set tdp='300 W'."))
    evaluation = evaluate(resolved)
    result = answer(evaluation)
    must_fit(evaluation, result.memory)
    least = math.ceil(LEAST * float(tdp))
    even = [least + (float(tdp) - least) * place / (_LIMITS - 1) for place in range(_LIMITS)]
    asked = list(limits) or [f"{watts:.6g} W" for watts in (*even[:-1], float(tdp))]
    whole = _at(free, f"{float(tdp):.9g} W", float(tdp), None)
    rows = [_at(free, text, float(tdp), whole.rate) for text in asked]
    rows.sort(key=lambda one: -one.limit)
    return PowerCurve(
        gpu=resolved.gpu.name,
        gpus=int(resolved.gpus),
        unit=unit_of(result),
        rows=tuple(rows),
        memory=result.memory.verdict,
    )


def _limited(document: Document) -> bool:
    return (document.data.get("hardware") or {}).get("power_limit") is not None


def _at(document: Document, text: str, tdp: float, whole: float | None) -> AtLimit:
    """Return the row of a limit, at the highest clock at which a card keeps it."""
    held = with_override(document, "hardware.power_limit", text, "--limits")
    free = _Priced(held, tdp, whole)
    own = free.kept or free.fastest is None
    priced, clock = (free, None) if own else _slowed(held, tdp, whole, free)
    interval = priced.result.step_time_interval
    return AtLimit(
        limit=priced.limit,
        drawn=priced.drawn,
        step_time=float(priced.result.step_time),
        interval=None if interval is None else (float(interval[0]), float(interval[1])),
        rate=priced.rate,
        speed=priced.speed,
        per_joule=priced.rate / (priced.drawn * int(priced.evaluation.resolved.gpus)),
        clock=clock,
        kept=priced.kept,
        measured=priced.limit >= MEASURED * tdp,
    )


def _slowed(held: Document, tdp: float, whole: float | None, free: _Priced) -> tuple[_Priced, float | None]:
    """Return a scenario at the highest clock at which its card keeps the limit, and that clock; as it is where none does."""
    most = float(free.fastest or 0.0)

    def at(clock: float) -> _Priced:
        return _Priced(with_override(held, "hardware.clock_limit", f"{clock:.9g} Hz", "--limits"), tdp, whole)

    low, high = float(math.ceil(LEAST * most)), most
    best = at(low)
    if not best.kept:
        return free, None
    for _ in range(_HALVINGS):
        clock = 0.5 * (low + high)
        tried = at(clock)
        if tried.kept:
            low, best = clock, tried
        else:
            high = clock
    return best, low


class _Priced:
    """A scenario with its limits, priced: what it draws, and whether its card keeps the limit so."""

    def __init__(self, document: Document, tdp: float, whole: float | None) -> None:
        self.evaluation = evaluate(resolve_document(document))
        self.result = answer(self.evaluation)
        gpu = self.evaluation.resolved.gpu
        self.limit = float(gpu.tdp or tdp)
        watts = drawn_watts(self.evaluation)
        self.drawn = self.limit if watts is None else float(watts)
        self.rate = float(rate_of(self.result) or 0.0)
        self.speed = 1.0 if whole is None else self.rate / whole
        self.fastest = None if gpu.clock is None else float(gpu.clock.boost)
        # Rates were measured at the card's own power, whatever it draws there.
        over = float(average_watts(self.evaluation) or 0.0) > self.limit and self.speed > _AS_FAST
        at_rest = float(unheld_watts(self.evaluation) or 0.0) <= self.limit
        self.kept = self.limit >= tdp or (at_rest and not over)
