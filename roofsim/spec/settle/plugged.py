"""Say which parts of a scenario come from plug-ins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim import plugins
from roofsim.spec import catalog
from roofsim.spec.model.registry import FAMILIES
from roofsim.spec.scenario.schedules import SCHEDULES

if TYPE_CHECKING:
    from roofsim.spec.engine.schema import Engine
    from roofsim.spec.hardware.schema import Gpu, System
    from roofsim.spec.model.base import ModelSpec
    from roofsim.spec.scenario.workload import Scenario


def plugged_parts(
    scenario: Scenario, model: ModelSpec, gpu: Gpu, system: System, engine: Engine
) -> list[tuple[str, str]]:
    """Return (what, which plug-in) of the parts that are not roofsim's own: card, node, engine, family, schedule, passes.

    Plug-ins are asked only for names that roofsim does not have and that somebody has looked up already.
    """
    named: list[tuple[catalog.Kind, str]] = [("gpu", gpu.name), ("system", system.name), ("engine", engine.name)]
    parts: list[tuple[str, str]] = [
        (str(kind), f"catalog entry {name} of plug-in {one}")
        for kind, name in named
        if (one := catalog.looked_up(kind, name))
    ]
    if FAMILIES.get(model.family) is None:
        parts.append(
            ("model.family", f"{model.family} of plug-in {plugins.plugged('families', FAMILIES)[model.family]}")
        )
    schedule = scenario.parallel.schedule
    if schedule not in SCHEDULES:
        parts.append(
            ("parallel.schedule", f"{schedule} of plug-in {plugins.plugged('schedules', SCHEDULES)[schedule]}")
        )
    added = plugins.plugged("passes", ()) if scenario.workload.passes else {}
    return parts + [
        ("pass", f"{name} of plug-in {added[name]}") for name in scenario.workload.passes or () if name in added
    ]
