"""List model families and pipeline schedules with what they say of themselves, those of plug-ins behind roofsim's own."""

from __future__ import annotations

from typing import Any

from roofsim import plugins
from roofsim.spec.model.registry import FAMILIES, all_families, family_schema
from roofsim.spec.scenario.schedules import SCHEDULES, schedule_of


def family_rows() -> list[dict[str, Any]]:
    """Return one row per model family: unit of a sample, phases, degrees of parallelism beside data, where it comes from."""
    rows = []
    for name in all_families():
        schema = family_schema(name)
        phases = ["forward"] if schema.networks else ["train", "forward"]
        phases += ["prefill", "decode", "generate"] if schema.generates else []
        splits = {"tensor": schema.splits_tensor, "context": schema.splits_sequence, "pipeline": schema.stacked}
        rows.append(
            {
                "name": name,
                "counted in": schema.sample_unit,
                "phases": phases,
                "split by": [degree for degree, can in splits.items() if can],
                "from": "roofsim" if name in FAMILIES else str(plugins.plugged("families", FAMILIES)[name]),
            }
        )
    return rows


def schedule_rows() -> list[dict[str, Any]]:
    """Return one row per pipeline schedule: virtual stages, what it does, its source, where it comes from."""
    added = plugins.plugged("schedules", SCHEDULES)
    rows = []
    for name in (*SCHEDULES, *added):
        schedule = schedule_of(name)
        least, most = schedule.virtual_stages
        taken = f"{least}" if most == least else f"{least} or more" if most is None else f"{least} to {most}"
        rows.append(
            {
                "name": name,
                "virtual stages": taken,
                "description": schedule.description,
                "source": schedule.source.split(",")[0],
                "from": "roofsim" if name in SCHEDULES else str(added[name]),
            }
        )
    return rows
