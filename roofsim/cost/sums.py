"""Add up what kernels take, by the phase that they run in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.cost.columns import settled
from roofsim.cost.kernels.sustained import Sustained, sustained
from roofsim.records import dataclass, field, fields

if TYPE_CHECKING:
    from roofsim.cost.kernels.roofline import KernelCost
    from roofsim.cost.kernels.work import KernelWork
    from roofsim.graph.base import Phase
    from roofsim.numeric import Array

PARTS: Final = ("compute", "memory_bandwidth", "launch")


def numbers_of(work: KernelWork, cost: KernelCost, watts: Any) -> dict[str, Any]:
    """Return what is added up of each launch of some kernels."""
    numbers = {name: getattr(cost, name) for name in PARTS} | {
        "launches": work.launches,
        "host": work.host,
        "attention": cost.time,
    }
    return numbers if watts is None else numbers | {"power": work.energy / watts}


def held_of(work: KernelWork, cost: KernelCost, watts: Any, share: Array, apart: int, corner: float) -> dict[str, Any]:
    """Return what each launch of the first `apart` kernels, long products, is held to by their own power."""
    rows = slice(0, apart)
    time: Any = cost.time
    own = sustained(time[rows], work.heat[rows] / watts, work.energy[rows] / watts, share[rows], corner)  # type: ignore[index]
    return {one.name: getattr(own, one.name) for one in fields(Sustained)}


def add(by_phase: dict[Phase, Sums], kinds: list[tuple[Phase, bool]], columns: dict[str, Any]) -> None:
    """Add sums of runs to those of their phases; phases that a graph has not are those of others beside it."""
    for place, (phase, attends) in enumerate(kinds):
        if phase not in by_phase:
            continue
        parts = by_phase[phase].parts
        for column, values in columns.items():
            if attends or column != "attention":
                parts[column] = parts[column] + values[place]


def hold(by_phase: dict[Phase, Sums], kinds: list[tuple[Phase, bool]], columns: dict[str, Any]) -> None:
    """Add what long products of runs are held to, as `add`."""
    for place in range(len(columns["held"])):
        if kinds[place][0] not in by_phase:
            continue
        own = by_phase[kinds[place][0]]
        more = Sustained(**{name: values[place] for name, values in columns.items()})
        own.apart = more if own.apart is None else own.apart.plus(more)


@dataclass(kw_only=True)
class Sums:
    """Sums over the kernels of a phase."""

    parts: dict[str, Any] = field(
        default_factory=lambda: dict.fromkeys((*PARTS, "launches", "host", "power", "attention"), 0.0)
    )
    apart: Sustained | None = None

    def settled(self, *, of_points: bool) -> Sums:
        """Return the sums as floats, or arrays of the kind of their parts."""
        parts = {name: settled(value, of_points=of_points) for name, value in self.parts.items()}
        if self.apart is None:
            return Sums(parts=parts)
        kept = {one.name: settled(getattr(self.apart, one.name), of_points=of_points) for one in fields(Sustained)}
        return Sums(parts=parts, apart=Sustained(**kept))
