"""Hold the answer of a search over layouts: the best with their figures and differences, the front, counts and the certificate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.printed import Drawn, flattened
from roofsim.analyze.used_prices import UsedPrice, used_prices
from roofsim.records import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roofsim.spec.hardware.price import Quote
    from roofsim.spec.prices import Market

SCHEMA: Final = "roofsim/plan/1"


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One layout of the answer.

    Attributes
    ----------
    id
        Its number in the space.
    changes
        Section of a scenario -> the keys that it sets; merged into the scenario they run as they are.
    step_time, memory
        Seconds; bytes on the fullest rank.
    cost, energy
        Dollars and joules of a million tokens or images; None: not known.
    interval
        Ends of the 80 % interval of the step; None where it was not asked for.
    time
        The parts of the step, in seconds; empty where they were not asked for.
    why
        How it differs from the best, in words.
    ratio
        80 % interval of what it has of the objective over what the best has; None of the best itself, and where it is not known.
    regret
        By how much it may be behind another of the best, as a share, at the end of the interval; None where nobody asked.
    notes
        What a reader must know of one that keeps state off the device: whether the places hold it.
    price, comparable
        The price of an hour of a card that its cost rests on, None where none is known; whether it is of the market of the best's.
    """

    id: int
    changes: Mapping[str, Mapping[str, Any]]
    gpu: str
    gpus: int
    step_time: float
    memory: float
    cost: float | None = None
    energy: float | None = None
    interval: tuple[float, float] | None = None
    time: Mapping[str, float] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    why: str = ""
    ratio: tuple[float, float] | None = None
    regret: float | None = None
    notes: tuple[str, ...] = ()
    price: Quote | None = None
    comparable: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            **{section: dict(keys) for section, keys in self.changes.items()},
            "id": self.id,
            "step_time": self.step_time,
            "step_time_interval": None if self.interval is None else list(self.interval),
            "memory_peak": self.memory,
            "usd_per_million_tokens": self.cost,
            "joules_per_million_tokens": self.energy,
            "price": None if self.price is None else self.price.words(),
            "price_comparable": self.comparable,
            "time": dict(self.time),
            "why": self.why,
            "ratio_to_best_interval": None if self.ratio is None else list(self.ratio),
            **({} if self.regret is None else {"regret": self.regret}),
            **({"figures": dict(self.figures)} if self.figures else {}),
            **({"notes": list(self.notes)} if self.notes else {}),
        }


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan(Drawn):
    """The answer of `roofsim.plan`.

    Attributes
    ----------
    scenario
        What was asked about, as it was read.
    objective, constraints
        What makes a layout the best.
    axes
        Key of a scenario -> the values that were tried.
    considered, refused, does_not_fit, constrained, priced, cut
        Numbers of layouts: in the space, refused by rule, beyond the card's memory, against a constraint, priced, and left out
        because their bound says that they cannot be among the first.
    reasons
        Rule -> what it says of the first layout that breaks it.
    lower_bound
        No layout of the space has less of the objective.
    seconds
        What the search took.
    robustness
        How wrong rates of the model would have to be for another of the best to win (``rates``), and which of them cannot be told
        apart from the winner (``one_of_several``); see `roofsim.search.planning.robustness`.
    market
        The prices of which seller and kind cards were compared at, where they are of several by default; None: the usual ones.
    top, front
        The best, and those that no other is as good as in time, memory, cost and GPUs at once.
    """

    scenario: Mapping[str, Any]
    objective: str
    constraints: tuple[str, ...] = ()
    axes: Mapping[str, list[Any]]
    considered: int
    refused: Mapping[str, int]
    reasons: Mapping[str, str]
    does_not_fit: int
    constrained: int
    priced: int
    cut: int
    structures: int
    lower_bound: float | None
    seconds: float
    top: tuple[Planned, ...]
    front: tuple[Planned, ...]
    assumed: tuple[str, ...] = ()
    whole: bool = True
    """Whether every layout was decided."""
    robustness: Mapping[str, Any] | None = None
    market: Market | None = None

    @property
    def prices(self) -> tuple[UsedPrice, ...]:
        """The prices of an hour that costs rest on, that of the best first."""
        return used_prices((one.gpu, one.price) for one in (*self.top, *self.front))

    @property
    def best(self) -> Planned | None:
        """The best layout; None where none is possible."""
        return self.top[0] if self.top else None

    @property
    def least(self) -> float:
        """What the best has of the objective; infinity where none is possible."""
        best = self.best
        if best is None:
            return math.inf
        values = {"step_time": best.step_time, "memory": best.memory, "tokens_per_joule": best.energy}
        value = values.get(self.objective, best.cost)
        return math.inf if value is None else value

    @property
    def evaluated(self) -> int:
        """Layouts whose figures were worked out, those that do not fit included."""
        return self.priced + self.does_not_fit

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a flat row of each of the best layouts."""
        return [flattened(one.to_dict()) for one in self.top]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, of schema ``roofsim/plan/1``."""
        return {
            "schema": SCHEMA,
            "scenario": dict(self.scenario),
            "objective": self.objective,
            "constraints": list(self.constraints),
            "space": {"axes": {key: list(values) for key, values in self.axes.items()}, "points": self.considered},
            "considered": self.considered,
            "evaluated": self.evaluated,
            "does_not_fit": self.does_not_fit,
            "constrained": self.constrained,
            "cut": self.cut,
            "refused": dict(self.refused),
            "reasons": dict(self.reasons),
            "structures": self.structures,
            "seconds": self.seconds,
            "lower_bound": self.lower_bound,
            "complete": self.whole,
            "assumed": list(self.assumed),
            "prices": [one.to_dict() for one in self.prices],
            "top": [one.to_dict() for one in self.top],
            "front": [one.to_dict() for one in self.front],
            "robustness": None if self.robustness is None else dict(self.robustness),
        }
