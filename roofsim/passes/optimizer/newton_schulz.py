"""Count the products that Muon orthogonalises its updates with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.graph.tensor import BF16
from roofsim.numeric import Real, maximum, minimum, product
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor

#: Quintic Newton-Schulz steps (KellerJordan/Muon, muon.py: zeropower_via_newtonschulz5, ns_steps).
STEPS: Final = 5.0
#: Axes of a convolution's weight, which is seen as [out_channels, rest] (muon_update: ``update.view(len(update), -1)``).
_CONVOLUTION: Final = 4


@dataclass(frozen=True, kw_only=True)
class Products:
    """FLOPs, bytes read and written, and the most elements alive at once, of the products over all matrices."""

    flops: Real = 0.0
    read: Real = 0.0
    written: Real = 0.0
    live: Real = 0.0


def products_of(group: dict[Tensor, Real]) -> Products:
    """Return the work over matrices (tensor -> number of copies), in bf16.

    Per step and m x n matrix with m <= n: ``A = X X^T``, ``B = b A + c A A``, ``X = a X + B X``: 4 m^2 n + 2 m^3 FLOPs;
    X is read by two products, scaled and added (5 reads with the product, 3 writes), A four times and written thrice. Alive
    at once: X, its scaled form, the product and their sum, beside A and B.
    """
    flops: Real = 0.0
    read: Real = 0.0
    written: Real = 0.0
    live: Real = 0.0
    for tensor, copies in group.items():
        m, n, batch = _sides(tensor)
        whole, square = batch * m * n, batch * m * m
        flops = flops + STEPS * batch * (4.0 * m * m * n + 2.0 * m * m * m) * copies
        read = read + STEPS * (6.0 * whole + 6.0 * square) * BF16.itemsize * copies
        written = written + STEPS * (3.0 * whole + 5.0 * square) * BF16.itemsize * copies
        live = maximum(live, 4.0 * whole + 2.0 * square)
    return Products(flops=flops, read=read, written=written, live=live)


def _sides(tensor: Tensor) -> tuple[Real, Real, Real]:
    """Return the shorter and the longer side of a matrix, and how many of them a tensor stacks (experts)."""
    shape = tensor.shape
    split = 1 if len(shape) == _CONVOLUTION else len(shape) - 1
    stacked = 0 if len(shape) == _CONVOLUTION else len(shape) - 2
    rows, columns = product(*shape[stacked:split]), product(*shape[split:])
    return minimum(rows, columns), maximum(rows, columns), product(*shape[:stacked])
