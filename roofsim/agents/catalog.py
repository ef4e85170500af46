"""Look into the catalogs for an agent: what there is, and what an entry says."""

from __future__ import annotations

from typing import Any, Final, get_args

from roofsim.analyze.catalogs import entry
from roofsim.analyze.filters import FILTERS, chosen
from roofsim.analyze.listed import catalog_rows, same_card
from roofsim.errors import Place, Problem, UnknownNameError, did_you_mean, near_matches
from roofsim.spec import catalog as catalogs

_KINDS: Final = get_args(catalogs.Kind)


def listed(
    catalog: str, search: str | None = None, sort: str | None = None, filters: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the entries of a catalog, as ``roofsim list`` has them.

    Raises
    ------
    UnknownNameError
        For a catalog or a filter that there is not, and where nothing is called so.
    """
    kind = str(catalog).removesuffix("s")
    if kind not in _KINDS:
        known = [f"{each}s" for each in _KINDS]
        raise UnknownNameError(
            Problem(f"no catalog {str(catalog)[:60]!r}", Place("catalog"), "", did_you_mean(kind, known))
        )
    wanted = {str(name).replace("_", "-"): value for name, value in (filters or {}).items()}
    for name in wanted:
        if name not in FILTERS:
            raise UnknownNameError(
                Problem(f"no filter {name[:60]!r}", Place("filters"), "", did_you_mean(name, FILTERS))
            )
    texts = {name: value if isinstance(value, bool) else str(value) for name, value in wanted.items()}
    rows = _called(catalog_rows(kind), search)
    return {"catalog": f"{kind}s", "rows": chosen(rows, kind, texts, sort=sort, same_card=same_card)}


def _called(rows: list[dict[str, Any]], search: str | None) -> list[dict[str, Any]]:
    """Return the rows whose names hold a text."""
    if search is None or not str(search).strip():
        return rows
    word = catalogs.normal(str(search))
    matching = [row for row in rows if any(word in name for name in (row["name"], *row["aliases"]))]
    if not matching:
        close = near_matches(word, [name for row in rows for name in (row["name"], *row["aliases"])])
        hint = f"Near: {', '.join(close)}." if close else ""
        raise UnknownNameError(Problem(f"nothing is called {str(search)[:60]!r}", Place("search"), hint=hint))
    return matching


def shown(name: str, kind: str | None = None) -> dict[str, Any]:
    """Return everything that the file of an entry says, as ``roofsim show`` does."""
    return entry(str(name), None) if kind is None else entry(str(kind), str(name))
