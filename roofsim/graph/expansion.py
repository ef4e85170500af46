"""Say how a product gets at packed weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.tensor import Tensor


@dataclass(frozen=True, kw_only=True)
class Expansion:
    """How a kernel expands packed weights on their way to the matrix units.

    Attributes
    ----------
    tile_rows
        Rows of a tile, each of which expands the weights anew; 1: a kernel for vectors; None: they are expanded once.
    slots
        Issue slots of one lane that a tile takes to stage and expand one weight.
    """

    tile_rows: float | None = None
    slots: float = 0.0


def packed_weight(op: AbstractOp) -> Tensor | None:
    """Return the weight that a product must expand, or None: it multiplies that as it is."""
    if len(op.inputs) < 2:
        return None
    left, right = op.inputs[0], op.inputs[1]
    wide = left.dtype.floating and not left.dtype.narrow
    return right if right.dtype.packed and wide else None
