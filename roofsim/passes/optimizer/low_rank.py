"""Count the projections of GaLore, which keeps Adam's states of gradients of a low rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.numeric import Real, maximum, minimum
from roofsim.passes.optimizer.products import Products, share, sides

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor

#: Rank of the projected gradients (jiaweizzhao/GaLore, README; transformers' galore_adamw, optim_args).
RANK: Final = 128.0
#: Passes of Adam's elementary steps over projected gradients (galore_torch/adamw.py: two moments, root, quotient).
_READS: Final = 10.0
_WRITES: Final = 7.0


def projected(group: dict[Tensor, Real], itemsize: Real) -> Products:
    """Return the work over matrices (tensor -> number of copies): galore_torch, GaLoreProjector of type ``std``.

    Per m x n matrix with m <= n and rank r: the gradient times an m x r basis, Adam on n x r numbers, and back: 4 m n r FLOPs.
    States: two moments of n r, and the basis. New bases (a singular value decomposition every 200 steps) are not counted.
    """
    flops: Real = 0.0
    read: Real = 0.0
    written: Real = 0.0
    live: Real = 0.0
    states: Real = 0.0
    for tensor, copies in group.items():
        m, n, batch = sides(tensor)
        rank = minimum(m, RANK)
        times = batch * copies * share(tensor)
        small, basis = n * rank, m * rank
        flops = flops + times * (4.0 * m * n * rank + 12.0 * small)
        read = read + times * (m * n + 2.0 * basis + (1.0 + _READS) * small) * itemsize
        written = written + times * (m * n + (1.0 + _WRITES) * small) * itemsize
        live = maximum(live, batch * (2.0 * m * n + 3.0 * small))
        states = states + times * (2.0 * small + basis)
    return Products(flops=flops, read=read, written=written, live=live, states=states, state_type=None)
