"""What the data gradient of a product with a quantised weight reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.ops import Cast
from roofsim.graph.tensor import Role, Tensor

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.passes.autograd.tape import Tape


def written_again(op: AbstractOp, tape: Tape) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return the weight of a product for its data gradient, and what the product has kept without need.

    A quantised weight is written out a second time: bitsandbytes keeps the stored form alone
    (bitsandbytes/autograd/_functions.py, MatMul4Bit.backward).
    """
    left, weight, *_ = op.inputs
    source = tape.graph.producer.get(weight)
    if not (isinstance(source, Cast) and source.dequantises):
        return weight, ()
    again = Tensor(f"{weight.name}.again", weight.shape, weight.dtype, Role.TEMPORARY)
    tape.emit(Cast, "dequantise", source.inputs, (again,), dequantises=True)
    return again, (left,) if source.keeps_input else ()
