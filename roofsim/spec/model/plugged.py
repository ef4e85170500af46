"""Say what a plug-in gives for a model family: its schema, and the function that builds its graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim import plugins
from roofsim.plugins import Plugin
from roofsim.records import dataclass
from roofsim.spec.model.base import ModelSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


@dataclass(frozen=True, kw_only=True)
class Family:
    """What the entry point ``roofsim.families: NAME`` of a plug-in names.

    Attributes
    ----------
    schema
        Derived from `ModelSpec`; its field `family` has the entry point's name for a default.
    lower
        Build the forward graph of one pass: (model, `roofsim.lower.call.Call`) -> `roofsim.graph.opgraph.OpGraph`. Sizes of
        the model are floats or arrays.
    lower_networks
        Of a family of several networks (`ModelSpec.networks`): (model, call, wide type, steps) -> list of
        `roofsim.lower.network.Network`.
    """

    schema: type[ModelSpec]
    lower: Callable[..., Any]
    lower_networks: Callable[..., Any] | None = None


def plugged_family(name: str, own: Collection[str]) -> tuple[Family, Plugin] | None:
    """Return the family of a name, or None; families of other plug-ins are not loaded. `own` are roofsim's.

    Raises
    ------
    PluginError
        When it cannot be loaded, or another distribution has a family of that name.
    """
    plugin = plugins.plugged("families", own).get(name)
    return None if plugin is None else (_checked(name, plugin), plugin)


def _checked(name: str, plugin: Plugin) -> Family:
    family = plugin.load(_as_family)
    stated = family.schema.model_fields["family"].default
    if stated != name:
        raise plugin.refusal(f"describes family {stated!r}: expected the entry point's name {name!r} as the default")
    return family


def _as_family(value: Any) -> Family | None:
    right = isinstance(value, Family) and isinstance(value.schema, type) and issubclass(value.schema, ModelSpec)
    return value if right and callable(value.lower) else None
