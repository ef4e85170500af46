"""Say beside which linear layers an adapter stands, of any family of models, in training and while serving."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.graph.component import MERGED, Purpose

if TYPE_CHECKING:
    from collections.abc import Collection

#: What projections that are no single query, key, value, output, gate, up or down stand for.
_PARTS: Final[dict[Purpose | None, tuple[Purpose, ...]]] = {
    **MERGED,
    Purpose.QUERY_DOWN: (Purpose.QUERY,),
    Purpose.QUERY_UP: (Purpose.QUERY,),
    Purpose.KEY_VALUE_DOWN: (Purpose.KEY, Purpose.VALUE),
    Purpose.KEY_VALUE_UP: (Purpose.KEY, Purpose.VALUE),
    Purpose.TEXT_OUTPUT: (Purpose.OUTPUT,),
    Purpose.PROJECTION: (Purpose.OUTPUT,),
}


def parts_of_layer(layer: Purpose | None) -> tuple[Purpose | None, ...]:
    """Return the layers for which a matrix stands, in the order of its columns; itself, if it is one.

    >>> parts_of_layer(Purpose.GATE_UP)
    (<Purpose.GATE: 'gate'>, <Purpose.UP: 'up'>)
    """
    return _PARTS.get(layer, (layer,))


def is_target(layer: Purpose | None, targets: Collection[str] | None) -> bool:
    """Tell whether an adapter belongs to a layer, by its own name or by what it stands for; None: to every layer.

    >>> is_target(Purpose.QUERY_UP, {"query"}), is_target(Purpose.QUERY_UP, {"query_down"})
    (True, False)
    """
    return targets is None or layer in targets or any(part in targets for part in _PARTS.get(layer, ()))
