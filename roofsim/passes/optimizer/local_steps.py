"""Bring the parameters of workers together that train apart: once in many steps, by an outer optimizer (DiLoCo)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.base import Phase
from roofsim.graph.ops import Collective
from roofsim.graph.tensor import DType, Role, Tensor
from roofsim.passes.optimizer.beside import by_type, update_beside
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Real


@dataclass(frozen=True, kw_only=True)
class ExchangeParameters:
    """Add the outer step: the sum of what workers changed over all of them, and the update of what they began from.

    As meta-pytorch/torchft, local_sgd.py (DiLoCo): the difference to the kept parameters is all-reduced, and SGD with Nesterov's
    momentum applies it to these (arXiv 2311.08105). All of it waits for the steps before, and they for it.

    Attributes
    ----------
    ranks
        Those of all workers with the same part of the parameters, which exchange it; those of one worker hold the same.
    every
        Steps between two exchanges: what it takes is shared by these.
    stored
        Type of the parameters that the inner optimizer updates; None: their own.
    travels_in
        Type on the wire; None: the same.
    """

    name: ClassVar[str] = "exchange_parameters"
    requires: ClassVar[frozenset[str]] = frozenset({"optimizer"})
    ensures: ClassVar[frozenset[str]] = frozenset({"exchanged"})

    ranks: Real
    every: Real
    stored: DType | None = None
    travels_in: DType | None = None

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with the outer step behind its update."""
        trained = {tensor: copies for tensor, copies in graph.parameters().items() if tensor.requires_grad}
        share = 1.0 / self.every
        added: list[AbstractOp] = []
        for dtype, group in by_type(trained).items():
            stored = self.stored or dtype
            update = update_beside("outer", f"outer.{dtype.name}", (dtype, stored), group, share)
            change = Tensor(f"outer.{dtype.name}.change", (update.elements,), stored, Role.TEMPORARY)
            exchange = Collective(
                name=f"outer.{dtype.name}.exchange",
                inputs=update.inputs[:1],  # the kept parameters; the update counts the pass that subtracts them
                outputs=(change,),
                function="all_reduce",
                group_of="workers",
                ranks=self.ranks,
                phase=Phase.OPTIMIZER,
                share=share,
                travels_in=self.travels_in,
                whole=(change,),
            )
            added += [exchange, replace(update, outputs=(), holds=(change,))]
        return graph.replaced([*graph.ops, *added], *self.ensures)
