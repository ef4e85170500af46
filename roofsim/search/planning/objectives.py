"""Say what is best: an objective, constraints on figures, and what the least bound of a step means for it."""

from __future__ import annotations

import math
import operator
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.errors import Place, Problem, SpecError, UnitError, did_you_mean
from roofsim.records import dataclass
from roofsim.search.planning.priced import dollars_per_second, joules_per_watt
from roofsim.units import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from roofsim.search.planning.priced import Figures
    from roofsim.spec.resolve import Resolved

#: Objective -> the figure of a priced layout whose least value is best.
OBJECTIVES: Final = {
    "step_time": "step_time",
    "cost": "cost",
    "tokens_per_usd": "cost",
    "tokens_per_joule": "energy",
    "memory": "memory",
}
#: Words of a constraint for figures that every priced layout has.
_SHORT: Final = {
    "memory": "memory",
    "memory.peak": "memory",
    "step_time": "step_time",
    "time": "step_time",
    "gpus": "gpus",
}
_UNITS: Final = {"memory": "B", "step_time": "s"}
_COMPARES: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_FORM: Final = re.compile(r"\s*(?P<figure>[A-Za-z_][\w.]*)\s*(?P<compare><=|>=|<|>)\s*(?P<bound>\S.*?)\s*")


@dataclass(frozen=True)
class Constraint:
    """A condition that a layout must meet: ``memory < 70 GiB``."""

    written: str
    figure: str
    compare: str
    bound: float

    def holds(self, columns: Mapping[str, NDArray[Any]]) -> Any:
        """Tell which layouts meet it; one whose figure is not known does not."""
        return _COMPARES[self.compare](columns[self.figure], self.bound)


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What makes a layout the best.

    Attributes
    ----------
    objective
        A key of `OBJECTIVES`.
    figures
        Gives figures of an evaluation by dotted key, for constraints on others than every priced layout has.
    """

    objective: str = "step_time"
    constraints: tuple[Constraint, ...] = ()
    figures: Figures | None = None

    @property
    def wanted(self) -> tuple[str, ...]:
        """Figures that constraints are about beside those that every priced layout has."""
        known = {*_SHORT.values()}
        return tuple(dict.fromkeys(one.figure for one in self.constraints if one.figure not in known))

    @property
    def of_energy(self) -> bool:
        """Whether the objective is what is drawn."""
        return OBJECTIVES[self.objective] == "energy"

    @property
    def scaled(self) -> bool:
        """Whether the objective is a step's seconds times what each of them adds."""
        return OBJECTIVES[self.objective] not in ("step_time", "memory")

    def value(self, columns: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
        """Return what is least for the best; infinity where it is not known."""
        value = np.asarray(columns[OBJECTIVES[self.objective]], dtype=np.float64)
        return np.where(np.isnan(value), np.inf, value)

    def holds(self, columns: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
        """Tell which layouts meet all constraints."""
        kept = np.ones(len(columns["id"]), dtype=bool)
        for one in self.constraints:
            kept &= one.holds(columns)
        return kept

    def scale(self, resolved: Resolved) -> Any:
        """Return the least that each second of a step adds to the objective: zero where time says nothing of it.

        Of energies what a second at the power limit adds.
        """
        figure = OBJECTIVES[self.objective]
        if figure == "memory":
            return 0.0
        if self.of_energy:
            limit = resolved.gpu.tdp
            return np.nan if limit is None else joules_per_watt(resolved) * limit
        return 1.0 if figure == "step_time" else dollars_per_second(resolved)


def checked_objective(name: str) -> str:
    """Return an objective.

    Raises
    ------
    SpecError
        When there is none of this name.
    """
    if name not in OBJECTIVES:
        hint = did_you_mean(name, OBJECTIVES) or f"Known: {', '.join(OBJECTIVES)}."
        raise SpecError(Problem(f"unknown objective {name!r}", Place("--objective"), hint=hint))
    return name


def unknown_objective(name: str) -> SpecError:
    """Return what to say where the objective of no layout is known: what of the cards nobody states, and the way out."""
    energy = OBJECTIVES[name] == "energy"
    message = (
        f"{name} is not known of any layout: no {'power' if energy else 'price of an hour'} of these cards is known"
    )
    hint = "State it: --set tdp='300 W'." if energy else "State one: --price 2.50."
    return SpecError(Problem(message, Place("--objective"), hint=hint))


def read_constraints(texts: Iterable[str]) -> tuple[Constraint, ...]:
    """Read conditions such as ``memory < 70 GiB``, ``mfu > 0.4`` or ``cost.usd_per_million_tokens < 0.5``.

    Raises
    ------
    SpecError
        For a text that is none, or a bound in another unit.
    """
    return tuple(_constraint(text) for text in texts)


def _plain_bound(text: str) -> float:
    """Return a bound on a figure whose unit is known only when it is worked out: a number, or bytes, seconds or watts."""
    try:
        return float(text)
    except ValueError:
        for unit in ("B", "s", "W"):
            with suppress(UnitError):
                return parse(text, unit)
        raise


def _constraint(text: str) -> Constraint:
    place = Place("--constraint")
    matched = _FORM.fullmatch(text)
    if matched is None:
        hint = "For example 'memory < 70 GiB', 'step_time <= 12 s' or 'mfu > 0.4'."
        raise SpecError(Problem(f"expected FIGURE < VALUE; got {text[:80]!r}", place, hint=hint))
    figure = _SHORT.get(matched["figure"], matched["figure"])
    unit = _UNITS.get(figure)
    try:
        bound = _plain_bound(matched["bound"]) if unit is None else parse(matched["bound"], unit)
    except (ValueError, UnitError) as error:
        said = error.reason if isinstance(error, UnitError) else f"expected a number; got {matched['bound'][:80]!r}"
        raise SpecError(Problem(f"{text[:80]}: {said}", place)) from None
    if math.isnan(bound):
        raise SpecError(Problem(f"{text[:80]}: expected a number; got {matched['bound'][:80]!r}", place))
    return Constraint(text.strip(), figure, matched["compare"], bound)
