"""Make the space of layouts that a search goes through: of what its engines let users choose, where nobody says otherwise."""

from __future__ import annotations

import hashlib
import itertools
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, RoofsimError, SpecError
from roofsim.search.axes import key_path, read_axes
from roofsim.search.planning.choices import ALSO, ALSO_SERVED, ENGINE, check_also
from roofsim.search.planning.engines import offer_of, offers_of, tried_engines, united
from roofsim.search.planning.space import ALONE, PlanSpace
from roofsim.spec.scenario.document import with_override
from roofsim.units import read_count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roofsim.search.planning.space import Wish
    from roofsim.spec.reading.source import Document
    from roofsim.spec.resolve import Resolved

#: Where nobody states a batch, the largest number of GPUs has so many micro batches of one sample each.
BATCHES: Final = 4
#: Samples of a step at most: divisors of a batch are looked for up to its root.
MOST_SAMPLES: Final = 10**12


def space_of(document: Document, wish: Wish, resolve: Callable[[Document], Resolved]) -> PlanSpace:
    """Return what is searched for a scenario: what its engine lets users choose, where nobody says otherwise.

    Raises
    ------
    SpecError
        When the scenario itself is wrong, or an axis.
    """
    alone = document
    fixed = {".".join(key_path(key, Place("--fix"))) for key in wish.fixed}
    stated = {key: _stated(document, key) for key in (*ALONE, "parallel.offload")}
    for key, value in ALONE.items():
        alone = with_override(alone, key, value, "plan")
    if wish.cards:
        alone = with_override(alone, "hardware.gpu", wish.cards[0], "--gpu")
    resolved = resolve(_without(alone, "workload.global_batch_size"))
    trains = resolved.workload.phase == "train"
    check_also([name for name in wish.also if name in ALSO_SERVED], (), "for servers that keep --ttft or --tpot")
    check_also(wish.also, ALSO if trains else (), "in training")
    if not trains:
        alone = with_override(alone, "parallel.sharding", None, "plan")
    batch, assumed = _batch(document, wish, trains=trains)
    given = read_axes(wish.axes)
    own = {".".join(axis.path): list(axis.values) for axis in given.axes}
    engines: Sequence[Any] = own.pop(ENGINE, ())
    if trains and not engines and ENGINE not in fixed and _stated(document, ENGINE) is None:
        engines = tried_engines(resolved, wish.gpus)
        assumed += (
            (f"engine: {', '.join(engines)} are tried, as none was named; --engine takes one",) if engines else ()
        )
    offers = offers_of(engines, alone, wish, batch, resolve, trains=trains)
    axes: dict[str, list[Any]] = {"hardware.gpu": list(wish.cards)} if wish.cards else {}
    if offers:
        axes |= {ENGINE: [engine for engine, _ in offers]} | united([offer for _, offer in offers])
    else:
        axes |= offer_of(resolved, wish, batch, trains=trains)
    for key in fixed:
        if key in axes and stated.get(key) is not None:
            axes[key] = [stated[key]]
        elif key not in axes and stated.get(key) is not None:
            alone = with_override(alone, key, stated[key], "--fix")
        else:
            axes.pop(key, None)
    axes |= own
    free = any(axis.path[-1] in ("micro_batch_size", "batch_size", "global_batch_size") for axis in given.axes)
    base = alone
    if trains and batch is not None:
        base = with_override(base, "workload.global_batch_size", batch, "plan")
    return PlanSpace(
        document=base,
        grid=read_axes(axes),
        batch=None if free and not trains else batch,
        trains=trains,
        depth=int(resolved.model.traits().depth) if resolved.model.stacked else 1,
        node=max(int(resolved.places), 1),
        assumed=assumed,
        state=_digest(alone, wish, [engine for engine, _ in offers], resolve),
        offers=tuple(
            {key: offer[key] for key in offer if key not in own and key not in fixed and key != "hardware.gpus"}
            for _, offer in offers
        ),
    )


def _digest(document: Document, wish: Wish, engines: Sequence[Any], resolve: Callable[[Document], Resolved]) -> str:
    """Return a digest of all that a scenario stands for on each card: of model, card, engines and constants."""
    digest = hashlib.sha256()
    for card, engine in itertools.product(wish.cards or (None,), engines or (None,)):
        here = document if card is None else with_override(document, "hardware.gpu", card, "--gpu")
        here = here if engine is None else with_override(here, ENGINE, engine, "--engine")
        try:
            said = repr(resolve(here))
        except RoofsimError as error:  # on this card nothing of the engine runs: its layouts say so
            said = error.reason
        digest.update(said.encode())
    return digest.hexdigest()


def _stated(document: Document, key: str) -> Any:
    at: Any = document.data
    for part in key.split("."):
        at = at.get(part) if isinstance(at, dict) else None
    return at


def _without(document: Document, key: str) -> Document:
    return with_override(document, key, None, "plan") if _stated(document, key) is not None else document


def _batch(document: Document, wish: Wish, *, trains: bool) -> tuple[int, tuple[str, ...]]:
    """Return the samples of a step, the same for all layouts, and what had to be assumed for it."""
    if trains:
        stated = _stated(document, "workload.global_batch_size")
        if stated is not None:
            batch = read_count(stated) if isinstance(stated, str) else stated
            if (
                not isinstance(batch, int | float)
                or isinstance(batch, bool)
                or not 1 <= batch <= MOST_SAMPLES
                or not float(batch).is_integer()
            ):
                said = f"expected a whole number of samples from 1 to {MOST_SAMPLES:,}; got {str(stated)[:40]}"
                raise SpecError(Problem(said, path="workload.global_batch_size"))
            return int(batch), ()
        batch = BATCHES * max(wish.gpus)
        return batch, (f"global_batch_size: {batch}, {BATCHES} samples per GPU of the largest number",)
    each = _stated(document, "workload.micro_batch_size") or _stated(document, "workload.batch_size") or 1
    replicas = _stated(document, "parallel.data") or 1
    return int(each) * int(replicas), ()
