"""Put passes of plug-ins into their places in the order; a scenario names those that it wants."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from roofsim import plugins
from roofsim.errors import Problem, SpecError, UnknownNameError, did_you_mean
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.graph.opgraph import OpGraph
    from roofsim.passes.manager import Pass
    from roofsim.plugins import Plugin
    from roofsim.spec.resolve import Resolved

#: Phases of a scenario whose graphs are built in other phases.
_PARTS: Final = {"generate": ("prefill", "decode")}


@cache
def own_passes() -> frozenset[str]:
    """Return the names of roofsim's own passes, which no plug-in may take; imports all of them."""
    names = set()
    for module_info in pkgutil.walk_packages([str(Path(__file__).parent)], "roofsim.passes."):
        module = importlib.import_module(module_info.name)
        classes = [
            vars(kind)
            for kind in vars(module).values()
            if isinstance(kind, type) and kind.__module__ == module_info.name
        ]
        names |= {kind["name"] for kind in classes if isinstance(kind.get("name"), str) and "requires" in kind}
    return frozenset(names)


@dataclass(frozen=True, kw_only=True)
class PlacedPass:
    """What the entry point ``roofsim.passes: NAME`` of a plug-in names.

    Attributes
    ----------
    make
        Return the pass for a resolved scenario: its `name` is the entry point's.
    phases
        In which it runs: ``train``, ``forward``, ``prefill``, ``decode``.
    after, before
        Names of passes, of roofsim or of plug-ins, between which it stands. Those that do not run are no condition; with none
        it comes last.
    """

    make: Callable[[Resolved], Pass]
    phases: frozenset[str]
    after: tuple[str, ...] = ()
    before: tuple[str, ...] = ()


def with_plugged(passes: list[Pass], resolved: Resolved, phase: str) -> list[Pass]:
    """Return the passes of a phase with those that the scenario names (`workload.passes`) in their places.

    Raises
    ------
    UnknownNameError
        For a pass that no plug-in has.
    PluginError
        For one that cannot be used, or whose place does not exist.
    SpecError
        For one that runs in no phase of the scenario.
    """
    for name in resolved.workload.passes or ():
        plugin, placed = loaded(name)
        _check_phases(name, placed, resolved.workload.phase)
        if phase in placed.phases:
            at = _place(passes, plugin, placed)
            passes = [*passes[:at], cast("Pass", _Guarded(_made(plugin, placed, resolved), plugin)), *passes[at:]]
    return passes


def loaded(name: str) -> tuple[Plugin, PlacedPass]:
    """Return the plug-in of a pass, and the pass with its place.

    Raises
    ------
    UnknownNameError
        For a pass that no plug-in has.
    PluginError
        For one that cannot be used.
    """
    known = plugins.plugged("passes", own_passes())
    if name not in known:
        hint = did_you_mean(name, known) or "`roofsim list plugins` shows what is installed."
        raise UnknownNameError(Problem(f"no plug-in has a pass {name!r}", path="workload.passes", hint=hint))
    return known[name], known[name].load(_as_placed)


def _as_placed(value: Any) -> PlacedPass | None:
    return value if isinstance(value, PlacedPass) and callable(value.make) else None


def _check_phases(name: str, placed: PlacedPass, phase: str) -> None:
    if not placed.phases & set(_PARTS.get(phase, (phase,))):
        message = f"pass {name} runs in {', '.join(sorted(placed.phases)) or 'no phase'}; the phase is {phase}"
        raise SpecError(Problem(message, path="workload.passes", hint="Leave it out."))


def _place(passes: list[Pass], plugin: Plugin, placed: PlacedPass) -> int:
    unknown = [
        name
        for name in (*placed.after, *placed.before)
        if name not in {*own_passes(), *plugins.plugged("passes", own_passes())}
    ]
    if unknown:
        raise plugin.refusal(
            f"stands before or after {unknown[0]!r}, which is no pass; roofsim has {', '.join(sorted(own_passes()))}"
        )
    order = [one.name for one in passes]
    first = max((at + 1 for at, name in enumerate(order) if name in placed.after), default=0)
    last = min((at for at, name in enumerate(order) if name in placed.before), default=len(order))
    if first > last:
        raise plugin.refusal(
            f"has no place: it wants to run after {order[first - 1]} and before {order[last]}, which runs earlier"
        )
    return last


def _made(plugin: Plugin, placed: PlacedPass, resolved: Resolved) -> Pass:
    try:
        made = placed.make(resolved)
        name = made.name
    except SpecError:
        raise
    except Exception as error:  # whatever the code of others raises
        raise plugin.refusal(f"cannot be made: {type(error).__name__}: {str(error)[:200]}") from error
    if name != plugin.name:
        raise plugin.refusal(f"makes a pass {name!r}: expected the entry point's name {plugin.name!r}")
    return made


class _Guarded:
    """A pass of a plug-in: what goes wrong in it is said with its name."""

    def __init__(self, inner: Pass, plugin: Plugin) -> None:
        self.inner, self.plugin = inner, plugin
        self.name, self.requires, self.ensures = inner.name, frozenset[str](), inner.ensures

    def __call__(self, graph: OpGraph) -> OpGraph:
        missing = self.inner.requires - graph.facts
        if missing:
            raise self.plugin.refusal(f"requires {', '.join(sorted(missing))}, which no pass before it ensures")
        try:
            changed = self.inner(graph)
            changed.verify()
        except SpecError:
            raise
        except Exception as error:  # whatever the code of others raises, and what it made of the graph
            raise self.plugin.refusal(f"failed: {type(error).__name__}: {str(error)[:200]}") from error
        return changed
