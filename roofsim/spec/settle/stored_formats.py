"""Check that an engine loads a format of stored weights: an error where it does not, a warning where nobody says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.errors import Problem, SpecError
from roofsim.spec import catalog
from roofsim.spec.engine.schema import catalog_engine
from roofsim.spec.precision.formats import FormatFamily, format_family

if TYPE_CHECKING:
    from roofsim.errors import Place
    from roofsim.spec.engine.schema import Engine


def check_loads(
    engine: Engine, name: str, architecture: str, place: Place | None, family: FormatFamily | None = None
) -> list[str]:
    """Return warnings of a weight format with an engine on a GPU architecture; `family` where its name does not tell.

    Raises
    ------
    SpecError
        When the engine states what it loads, and it is not among that, or not on this architecture.
    """
    family = family or format_family(name)
    if engine.precision.formats is not None and family not in engine.precision.formats:
        raise SpecError(
            Problem(
                f"engine {engine.name} does not load weights of {_called(name, family)}; it loads "
                f"{', '.join(engine.precision.formats) or 'none narrower than 16 bits'}",
                place,
                "workload.precision",
                f"Engines that load {family}: {', '.join(_loaders(family))}. If yours does, state "
                f"workload.engine_facts.formats: [{', '.join((*engine.precision.formats, family))}].",
            )
        )
    if architecture in engine.precision.formats_not_on.get(family, ()):
        others = [
            other
            for other in engine.precision.formats or ()
            if architecture not in engine.precision.formats_not_on.get(other, ())
        ]
        raise SpecError(
            Problem(
                f"engine {engine.name} has no kernels for weights of {_called(name, family)} on GPUs of architecture "
                f"{architecture}; there it has those of {', '.join(others) or 'none narrower than 16 bits'}",
                place,
                "workload.precision",
                "If yours has them, state workload.engine_facts.formats_not_on: {}.",
            )
        )
    if engine.precision.formats is None:
        loaders = ", ".join(_loaders(family))
        return [f"not stated whether {engine.name} loads {name}, as {loaders} do; priced as if it had such kernels"]
    return []


def _called(name: str, family: str) -> str:
    return name if name == family else f"{name} ({family})"


def _loaders(family: str) -> list[str]:
    """Return the engines of the catalog that state a family."""
    return [name for name in catalog.names("engine") if family in (catalog_engine(name).precision.formats or ())]
