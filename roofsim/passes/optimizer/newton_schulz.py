"""Count the products that Muon orthogonalises its updates with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.graph.tensor import BF16
from roofsim.numeric import Real, maximum
from roofsim.passes.optimizer.products import Products, share, sides

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor

#: Quintic Newton-Schulz steps (KellerJordan/Muon, muon.py: zeropower_via_newtonschulz5, ns_steps; muon_update sees a
#: convolution's weight as a matrix, ``update.view(len(update), -1)``).
STEPS: Final = 5.0


def orthogonalised(group: dict[Tensor, Real], itemsize: Real) -> Products:  # noqa: ARG001 -- in bf16 whatever parameters have
    """Return the work over matrices (tensor -> number of copies), in bf16.

    Per step and m x n matrix with m <= n: ``A = X X^T``, ``B = b A + c A A``, ``X = a X + B X``: 4 m^2 n + 2 m^3 FLOPs;
    X is read by two products, scaled and added (5 reads with the product, 3 writes), A four times and written thrice. Alive
    at once: X, its scaled form, the product and their sum, beside A and B. Of a shard, a rank has its share of the whole matrices.
    """
    flops: Real = 0.0
    read: Real = 0.0
    written: Real = 0.0
    live: Real = 0.0
    for tensor, copies in group.items():
        m, n, batch = sides(tensor)
        times = batch * copies * share(tensor)
        flops = flops + STEPS * times * (4.0 * m * m * n + 2.0 * m * m * m)
        read = read + STEPS * times * (6.0 * m * n + 6.0 * m * m) * BF16.itemsize
        written = written + STEPS * times * (3.0 * m * n + 5.0 * m * m) * BF16.itemsize
        live = maximum(live, batch * (4.0 * m * n + 2.0 * m * m))
    return Products(flops=flops, read=read, written=written, live=live, live_type=BF16)
