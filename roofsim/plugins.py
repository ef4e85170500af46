"""Find what other distributions plug in: catalogs, model families, passes and pipeline schedules, by entry points.

`importlib.metadata` is imported, and the environment searched, only when a name is none of roofsim's own or when somebody lists
what there is: with no plug-in, and for every request that names only what roofsim ships, this costs nothing.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from roofsim.errors import PluginError, Problem, one_of
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

Kind = Literal["catalogs", "families", "passes", "schedules"]
T = TypeVar("T")
F = TypeVar("F", bound="Callable[..., Any]")

#: What can be plugged in: the group of its entry points, and what an entry point names.
GROUPS: Final[dict[Kind, tuple[str, str]]] = {
    "catalogs": ("roofsim.catalogs", "a package, or the path of a folder, with hardware/ or models/ in it"),
    "families": ("roofsim.families", "a roofsim.spec.model.plugged.Family"),
    "passes": ("roofsim.passes", "a roofsim.passes.plugged.PlacedPass"),
    "schedules": ("roofsim.schedules", "a class derived from roofsim.schedule.pipeline.protocol.PipelineSchedule"),
}
_NOUNS: Final[dict[Kind, str]] = {
    "catalogs": "catalog",
    "families": "model family",
    "passes": "pass",
    "schedules": "pipeline schedule",
}
_REMEMBERED: Final[list[Any]] = []


def remembered(function: F) -> F:
    """Keep what a function found of plug-ins until `refresh`."""
    kept: Any = cache(function)
    _REMEMBERED.append(kept)
    return kept  # type: ignore[no-any-return]


def refresh() -> None:
    """Forget what was found, so that a plug-in that was installed or removed since is seen."""
    for one in _REMEMBERED:
        one.cache_clear()


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """One entry point of an installed distribution."""

    kind: Kind
    name: str
    value: str
    distribution: str
    version: str

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}".rstrip()

    def load(self, check: Callable[[Any], T | None]) -> T:
        """Import what the entry point names; `check` returns it as what is wanted, or None.

        Raises
        ------
        PluginError
            When it cannot be imported, or is something else.
        """
        return _loaded(self, check)

    def refusal(self, what: str, hint: str = "") -> PluginError:
        """Return the error that says what is wrong with this plug-in."""
        group = GROUPS[self.kind][0]
        hint = hint or f"Mend it, or remove it: pip uninstall {self.distribution}."
        return PluginError(Problem(f"plug-in {self} ({group}: {self.name} = {self.value}) {what}", hint=hint))


@remembered
def _loaded(plugin: Plugin, check: Callable[[Any], T | None]) -> T:
    from importlib.metadata import EntryPoint

    try:
        value = EntryPoint(plugin.name, plugin.value, GROUPS[plugin.kind][0]).load()
        wanted = check(value)
    except Exception as error:  # whatever the code of others raises
        said = str(error).strip().split("\n", 1)[0][:200]
        raise plugin.refusal(f"cannot be loaded: {type(error).__name__}{f': {said}' if said else ''}") from error
    if wanted is None:
        raise plugin.refusal(f"is {type(value).__name__} {value!r:.80}; expected {GROUPS[plugin.kind][1]}")
    return wanted


@remembered
def installed(kind: Kind) -> tuple[Plugin, ...]:
    """Return what is plugged in of a kind, sorted by name and distribution."""
    from importlib.metadata import entry_points

    plugins = []
    for point in entry_points(group=GROUPS[kind][0]):
        owner = point.dist
        name, version = ("", "") if owner is None else (owner.name, owner.version)
        plugins.append(
            Plugin(kind=kind, name=point.name, value=point.value, distribution=name or "unnamed", version=version or "")
        )
    return tuple(sorted(plugins, key=lambda one: (one.name, one.distribution)))


def plugged(kind: Kind, own: Collection[str]) -> dict[str, Plugin]:
    """Return what is plugged in of a kind by its name; `own` are roofsim's names.

    Raises
    ------
    PluginError
        When two distributions, or one and roofsim, have the same name.
    """
    plugins = installed(kind)
    refuse_clashes(_NOUNS[kind], [(one.name, one) for one in plugins], own)
    return {one.name: one for one in plugins}


def refuse_clashes(noun: str, names: Iterable[tuple[str, Plugin]], own: Collection[str]) -> None:
    """Refuse a name that two distributions define, or one and roofsim.

    Raises
    ------
    PluginError
        Names both.
    """
    seen: dict[str, Plugin] = {}
    for name, plugin in names:
        other = seen.get(name)
        if name in own or (other is not None and other != plugin):
            first = f"roofsim {_own_version()}" if name in own else str(other)
            away = [one.distribution for one in (other, plugin) if one is not None]
            message = f"{first} and {plugin} both define {noun} {name!r}"
            raise PluginError(Problem(message, hint=f"Rename one, or remove it: pip uninstall {one_of(away)}."))
        seen[name] = plugin


def _own_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("roofsim")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "itself"
