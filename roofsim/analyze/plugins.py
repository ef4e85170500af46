"""List what is plugged in, and what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim import plugins
from roofsim.errors import PluginError
from roofsim.passes.plugged import loaded, own_passes
from roofsim.spec import catalog
from roofsim.spec.model.plugged import plugged_family
from roofsim.spec.model.registry import FAMILIES
from roofsim.spec.scenario.schedules import SCHEDULES, load_schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from roofsim.plugins import Kind, Plugin


def plugin_rows() -> list[dict[str, Any]]:
    """Return one row per entry point: distribution, version, what it adds, and its problem; None where it can be used."""
    rows = []
    for kind, (group, _) in plugins.GROUPS.items():
        for plugin in plugins.installed(kind):
            adds, problem = _tried(kind, plugin)
            rows.append(
                {
                    "distribution": plugin.distribution,
                    "version": plugin.version,
                    "group": group,
                    "name": plugin.name,
                    "adds": adds,
                    "problem": problem,
                }
            )
    return rows


def _tried(kind: Kind, plugin: Plugin) -> tuple[list[str], str | None]:
    """Return what a plug-in adds, and why it cannot be used."""
    own: dict[Kind, Collection[str]] = {
        "families": FAMILIES,
        "passes": own_passes(),
        "schedules": SCHEDULES,
        "catalogs": (),
    }
    load: dict[Kind, Callable[[str], object]] = {
        "families": lambda name: plugged_family(name, FAMILIES),
        "passes": loaded,
        "schedules": load_schedule,
    }
    try:
        plugins.plugged(kind, own[kind])
        if kind == "catalogs":
            return _entries(plugin), None
        load[kind](plugin.name)
    except PluginError as error:
        return [], str(error)
    return [plugin.name], None


def _entries(plugin: Plugin) -> list[str]:
    """Return the entries of a folder of catalogs: ``gpu acme-x1``."""
    kinds: tuple[catalog.Kind, ...] = ("gpu", "system", "engine", "architecture", "model")
    return [f"{kind} {name}" for kind in kinds for name, (_, one) in catalog.plugged(kind).items() if one == plugin]
