"""Count what SOAP and Shampoo keep and multiply per matrix: a square for each of its sides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.graph.tensor import FP32
from roofsim.numeric import Real, ceil, floor, maximum, where
from roofsim.passes.optimizer.products import Products, share, sides, whole

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor

#: Longest side with a square (nikhilvyas/SOAP, soap.py: max_precond_dim), and steps between new bases (precondition_frequency).
SOAP_LONGEST: Final = 10_000.0
SOAP_EVERY: Final = 10.0
#: Products of a side of s with the other of o, each 2 s^2 o FLOPs: gradient and momentum into the basis, the update out of it, and
#: the gradient with itself.
_SOAP_PRODUCTS: Final = 4.0
#: FLOPs of a new basis over s^3: three products, and QR with its factor written out (4/3 each).
_SOAP_BASIS: Final = 6.0 + 8.0 / 3.0
#: Side of the blocks that Shampoo cuts tensors into (facebookresearch/optimizers, distributed_shampoo: max_preconditioner_dim).
SHAMPOO_BLOCK: Final = 1024.0
#: Products of a side of s with the other of o: the gradient with itself, and the root with the gradient.
_SHAMPOO_PRODUCTS: Final = 2.0


def rotated(group: dict[Tensor, Real], itemsize: Real) -> Products:
    """Return SOAP's work over tensors (tensor -> number of copies); vectors have none, and sides beyond 10,000 have no square.

    States: for each side a mean of the gradient's products with itself, and its basis, in fp32. FLOPs per step: four products of
    each square with the matrix, and a tenth of a new basis (a product, then QR), priced as matrix products.
    """
    flops: Real = 0.0
    read: Real = 0.0
    written: Real = 0.0
    live: Real = 0.0
    states: Real = 0.0
    for tensor, copies in group.items():
        if len(whole(tensor).shape) < 2:
            continue
        m, n, batch = sides(tensor)
        times = batch * copies * share(tensor)
        for side, other in ((m, n), (n, m)):
            held = where(side <= SOAP_LONGEST, side, 0.0)
            square, matrix = held * held, where(side <= SOAP_LONGEST, side * other, 0.0)
            flops = flops + times * (_SOAP_PRODUCTS * 2.0 * square * other + _SOAP_BASIS * square * held / SOAP_EVERY)
            read = read + times * (_SOAP_PRODUCTS * matrix * itemsize + (3.0 + 3.0) * square * FP32.itemsize)
            written = written + times * ((_SOAP_PRODUCTS - 1.0) * matrix * itemsize + 2.0 * square * FP32.itemsize)
            live = maximum(live, batch * square)
            states = states + times * 2.0 * square
    return Products(flops=flops, read=read, written=written, live=live, live_type=FP32, states=states)


def preconditioned(group: dict[Tensor, Real], itemsize: Real) -> Products:
    """Return distributed Shampoo's work over tensors (tensor -> number of copies), in blocks of 1,024 by 1,024.

    States: for each side of each block its mean of products and an inverse root, in fp32; a vector's blocks have one side. FLOPs
    per step: two products of each square with its block. New roots (an eigendecomposition every precondition_frequency steps) are
    not counted.
    """
    flops: Real = 0.0
    read: Real = 0.0
    written: Real = 0.0
    live: Real = 0.0
    states: Real = 0.0
    for tensor, copies in group.items():
        vector = len(whole(tensor).shape) < 2
        m, n, batch = (1.0, whole(tensor).numel, 1.0) if vector else sides(tensor)
        times = batch * copies * share(tensor)
        for side, other in ((n, m),) if vector else ((m, n), (n, m)):
            across = ceil(other / SHAMPOO_BLOCK)
            squares, cubes = _blocks(side)
            flops = flops + times * _SHAMPOO_PRODUCTS * 2.0 * squares * other
            read = read + times * (_SHAMPOO_PRODUCTS * side * other * itemsize + 3.0 * squares * across * FP32.itemsize)
            written = written + times * (side * other * itemsize + 2.0 * squares * across * FP32.itemsize)
            live = maximum(live, batch * cubes)
            states = states + times * 2.0 * squares * across
    return Products(flops=flops, read=read, written=written, live=live, live_type=FP32, states=states)


def _blocks(side: Real) -> tuple[Real, Real]:
    """Return the sum of the squares of a side's blocks, and the largest of them."""
    full = floor(side / SHAMPOO_BLOCK)
    rest = side - full * SHAMPOO_BLOCK
    largest = where(full > 0.0, SHAMPOO_BLOCK, rest)
    return full * SHAMPOO_BLOCK * SHAMPOO_BLOCK + rest * rest, largest * largest
