"""Keep the best of what was priced: the first k and the front, in any order of arrival; equal figures go by number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roofsim.search.planning.priced import FIGURES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    Columns = Mapping[str, NDArray[Any]]

#: What no front member may be worse in than another that is no better in any.
FRONT: tuple[str, ...] = ("step_time", "memory", "cost", "gpus")


def none(extra: Iterable[str] = ()) -> dict[str, NDArray[Any]]:
    """Return no layouts."""
    return {"id": np.empty(0, dtype=np.int64), **{name: np.empty(0) for name in (*FIGURES, "value", *extra)}}


def joined(first: Columns, second: Columns) -> dict[str, NDArray[Any]]:
    """Return the layouts of both, each once."""
    both = {name: np.concatenate([first[name], second[name]]) for name in first if name in second}
    _, where = np.unique(both["id"], return_index=True)
    return taken(both, where)


def taken(columns: Columns, where: Any) -> dict[str, NDArray[Any]]:
    """Return some layouts."""
    return {name: each[where] for name, each in columns.items()}


def first(columns: Columns, k: int) -> dict[str, NDArray[Any]]:
    """Return the k layouts with the least `value`; of equal ones those with the least number.

    >>> known = none() | {"id": np.array([3, 1, 2]), "value": np.array([1.0, 1.0, 0.5])}
    >>> first({name: known[name] for name in ("id", "value")}, 2)["id"].tolist()
    [2, 1]
    """
    return taken(columns, np.lexsort((columns["id"], columns["value"]))[:k])


def limit_of(columns: Columns, k: int) -> float:
    """Return the value that a layout must not exceed to be one of the first k: infinity while there are fewer."""
    return float(columns["value"][k - 1]) if len(columns["id"]) >= k else np.inf


def front(columns: Columns, keys: tuple[str, ...] = FRONT) -> dict[str, NDArray[Any]]:
    """Return the layouts that no other is as good as in all figures and better in one; of equal ones that of the least number."""
    if not len(columns["id"]):
        return taken(columns, slice(None))
    figures = np.column_stack([np.nan_to_num(columns[key], nan=0.0) for key in keys])
    order = np.lexsort((columns["id"], *figures.T[::-1]))
    left, kept = order, []
    while len(left):
        best = left[0]
        kept.append(best)
        left = left[(figures[left] < figures[best]).any(axis=1)]
    return taken(columns, np.array(kept))
