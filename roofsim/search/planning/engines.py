"""Say which engines lay out more than the one that a search is for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.spec import catalog
from roofsim.spec.engine.schema import Engine
from roofsim.spec.reading.validate import validate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.spec.resolve import Resolved

#: Engines that are named to somebody who named none.
_NAMED: Final = 3


def narrow_engine(resolved: Resolved, gpus: Sequence[int], *, stated: bool) -> tuple[str, ...]:
    """Return what to know of an engine that nobody chose: that it replicates layers, where others split them over GPUs."""
    if stated or max(gpus) == 1 or resolved.engine.layouts.degrees or not resolved.model.splits_tensor:
        return ()
    engines = {name: validate(Engine, catalog.load("engine", name)) for name in catalog.names("engine")}
    wide = {name: len(one.layouts.degrees) for name, one in engines.items() if resolved.workload.phase in one.phases}
    named = [name for name in sorted(wide, key=lambda name: -wide[name]) if wide[name]][:_NAMED]
    return (f"engine: {resolved.engine.name}, which replicates layers; --engine {', '.join(named)} split them as well",)
