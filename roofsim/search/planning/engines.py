"""Say which engines a search tries, and what each of them lets its users choose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import RoofsimError, UnknownNameError
from roofsim.search.planning.choices import ENGINE, numbers_of_layouts, words_of
from roofsim.spec import catalog
from roofsim.spec.engine.schema import Engine
from roofsim.spec.reading.validate import validate
from roofsim.spec.scenario.document import with_override

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from roofsim.search.planning.space import Wish
    from roofsim.spec.reading.source import Document
    from roofsim.spec.resolve import Resolved

#: Engines that are tried for somebody who named none.
_TRIED: Final = 2


def tried_engines(resolved: Resolved, gpus: Sequence[int]) -> tuple[str, ...]:
    """Return the engines to try where nobody chose one and the usual one replicates layers: it, and those with most degrees."""
    if max(gpus) == 1 or resolved.engine.layouts.degrees or not resolved.model.splits_tensor:
        return ()
    engines = {name: validate(Engine, catalog.load("engine", name)) for name in catalog.names("engine")}
    wide = {name: len(one.layouts.degrees) for name, one in engines.items() if resolved.workload.phase in one.phases}
    widest = [name for name in sorted(wide, key=lambda name: -wide[name]) if wide[name]][:_TRIED]
    return (resolved.engine.name, *widest) if widest else ()


def offers_of(
    engines: Sequence[Any],
    alone: Document,
    wish: Wish,
    batch: int,
    resolve: Callable[[Document], Resolved],
    *,
    trains: bool,
) -> list[tuple[Any, dict[str, list[Any]]]]:
    """Return what each engine lets its users choose: the engine, with switches where asked for, and key -> values.

    Raises
    ------
    UnknownNameError
        For an engine that the catalog lacks.
    """
    offers: list[tuple[Any, dict[str, list[Any]]]] = []
    for engine in engines:
        try:
            resolved = resolve(with_override(alone, ENGINE, engine, "plan"))
        except UnknownNameError:
            raise
        except RoofsimError:  # it does not run this at all: its layouts say why
            offers.append((engine, {}))
            continue
        offer = offer_of(resolved, wish, batch, trains=trains)
        offers += [(one, offer) for one in offer.pop(ENGINE, [engine])]
    return offers


def offer_of(resolved: Resolved, wish: Wish, batch: int, *, trains: bool) -> dict[str, list[Any]]:
    """Return the axes of what one engine lets its users choose."""
    return words_of(resolved, wish.also, trains=trains) | numbers_of_layouts(resolved, wish.gpus, batch, trains=trains)


def united(offers: Sequence[Mapping[str, Sequence[Any]]]) -> dict[str, list[Any]]:
    """Return axes that hold what any of some engines lets its users choose; numbers in order.

    >>> united([{"parallel.tensor": [1, 4]}, {"parallel.tensor": [1, 2], "parallel.sharding": ["none"]}])
    {'parallel.tensor': [1, 2, 4], 'parallel.sharding': ['none']}
    """
    axes: dict[str, list[Any]] = {}
    for offer in offers:
        for key, values in offer.items():
            known = axes.setdefault(key, [])
            known += [value for value in values if value not in known]
    return {key: sorted(values) if _numbers(values) else values for key, values in axes.items()}


def _numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
