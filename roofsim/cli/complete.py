"""Complete what is typed: names of the catalog, files, and the choices of an option."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Keys of a scenario whose values are names of a catalog.
CATALOGS: Final[dict[str, Any]] = {"gpu": "gpu", "system": "system", "engine": "engine", "model": "model"}
_FILES: Final = ("*.yaml", "*.yml", "*.json")


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))


def catalog_names(kind: Any) -> Callable[[str], list[str]]:
    """Return what completes a name of a catalog; aliases where no name begins so."""

    def complete(incomplete: str) -> list[str]:
        from roofsim.spec import catalog

        return _beginning(catalog.names(kind), incomplete) or _beginning(catalog.aliases(kind), incomplete)

    return complete


def several(kind: Any) -> Callable[[str], list[str]]:
    """Return what completes the last of several names with commas between them."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in catalog_names(kind)(last)]

    return complete


def scenarios(incomplete: str) -> list[str]:
    """Complete a scenario: a model of the catalog, or a file."""
    path = Path(incomplete)
    folder = path if incomplete.endswith("/") else path.parent
    try:
        files = [str(file) for pattern in _FILES for file in folder.glob(pattern)]
    except OSError:
        files = []
    return _beginning(files, incomplete) + catalog_names("model")(incomplete)


def choices(known: Iterable[str]) -> Callable[[str], list[str]]:
    """Return what completes one of a few words."""
    words = list(known)

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return complete


def entries(incomplete: str) -> list[str]:
    """Complete what `show` takes: a kind, or a name of any catalog."""
    from roofsim.spec import catalog

    kinds: tuple[Any, ...] = ("gpu", "system", "engine", "model", "architecture")
    return _beginning({*kinds, *(name for kind in kinds for name in catalog.names(kind))}, incomplete)
