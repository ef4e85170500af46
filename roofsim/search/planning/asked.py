"""Read what a search is asked for: numbers of GPUs, and names of cards."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError, did_you_mean
from roofsim.records import dataclass
from roofsim.search.planning.choices import ALSO, ALSO_SERVED
from roofsim.search.planning.objectives import checked_objective, read_constraints
from roofsim.search.planning.space import Wish
from roofsim.search.written_axes import read_written_axes
from roofsim.spec import catalog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from roofsim.search.planning.objectives import Constraint

#: GPUs that a layout may have.
MOST_GPUS: Final = 2**20
_RANGE: Final = re.compile(r"\s*\d+\s*\.\.\s*\d+\s*")


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """What a caller asks of a search, as it was checked."""

    wish: Wish
    objective: str
    constraints: tuple[Constraint, ...]

    @classmethod
    def of(
        cls,
        gpus: int | str | Iterable[int] | None,
        cards: str | Iterable[str] | None,
        objective: str,
        constraints: Iterable[str],
        axes: Mapping[str, Sequence[Any]] | None,
        fixed: Iterable[str],
        shown: str = "",
        also: Iterable[str] = (),
    ) -> PlanRequest:
        """Read what a caller asks; `shown` stands before the names of flags in messages.

        Raises
        ------
        SpecError
            For what cannot be read.
        """
        wish = Wish(
            gpus=() if gpus is None else read_gpus(gpus, Place(f"{shown}gpus")),
            cards=read_cards(cards, Place(f"{shown}gpu")),
            axes=axes or {},
            fixed=tuple(fixed),
            also=checked_also(also, Place(f"{shown}also")),
        )
        return cls(wish=wish, objective=checked_objective(objective), constraints=read_constraints(constraints))


def checked_also(names: Iterable[str], place: Place) -> tuple[str, ...]:
    """Return what is to be tried beside the usual, each once.

    Raises
    ------
    SpecError
        For a name that is none of `ALSO` and `ALSO_SERVED`.
    """
    known = (*ALSO, *ALSO_SERVED)
    for name in (names := tuple(names)):
        if name not in known:
            hint = did_you_mean(name, known) or f"Known: {', '.join(known)}."
            raise SpecError(Problem(f"unknown name {name!r} of what else to try", place, hint=hint))
    return tuple(dict.fromkeys(names))


def read_gpus(given: int | str | Iterable[int], place: Place) -> tuple[int, ...]:
    """Return numbers of GPUs: ``512``, ``64,128``, ``64..4096`` (doubling), ``64..512:+64`` (steps), in order.

    >>> read_gpus("64..512", Place("--gpus"))
    (64, 128, 256, 512)

    Raises
    ------
    SpecError
        For what is no number of GPUs.
    """
    values: list[Any]
    if isinstance(given, str) and not given.strip():
        values = [given]
    elif isinstance(given, str):
        doubled = ",".join(f"{part}:x2" if _RANGE.fullmatch(part) else part for part in given.split(","))
        values = read_written_axes([f"hardware.gpus={doubled}"], place.source)["hardware.gpus"]
    else:
        values = [given] if isinstance(given, int | float) else list(given)
    for value in values:
        whole = isinstance(value, int | float) and not isinstance(value, bool) and float(value).is_integer()
        if not whole or not 1 <= value <= MOST_GPUS:
            hint = "For example 512, 64,128,256 or 64..4096 (doubling)."
            raise SpecError(
                Problem(f"expected numbers of GPUs from 1 to {MOST_GPUS:,}; got {value!r}", place, hint=hint)
            )
    return tuple(sorted({int(value) for value in values}))


def read_cards(given: str | Iterable[str] | None, place: Place) -> tuple[str, ...]:
    """Return names of cards, each once.

    Raises
    ------
    UnknownNameError
        For a card that the catalog lacks, with near matches.
    """
    names = [given] if isinstance(given, str) else list(given or ())
    cards = [part.strip() for name in names for part in name.split(",") if part.strip()]
    for card in cards:
        catalog.resolve_name("gpu", card, place, "hardware.gpu")
    return tuple(dict.fromkeys(cards))
