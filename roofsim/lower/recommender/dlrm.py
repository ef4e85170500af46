"""Lower recommendation models (DLRM): embedding lookups, two stacks of linear layers, dot products or cross layers between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.builder import Builder
from roofsim.graph.component import Purpose
from roofsim.graph.ops import Gather, Loss, Matmul
from roofsim.graph.tensor import FP32, INT64, Tensor
from roofsim.lower.blocks.layers import Layers
from roofsim.lower.recommender.tables import Tables
from roofsim.numeric import real
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.lower.call import Call
    from roofsim.spec.model.recommendation import DlrmModel


def lower_dlrm(model: DlrmModel, call: Call) -> OpGraph:
    """Build one pass of a recommendation model over a batch of samples."""
    b = Builder()
    _Dlrm(model, call, b, Layers(b, call.flavour, call.shares)).build()
    return b.graph()


@dataclass(frozen=True)
class _Dlrm:
    model: DlrmModel
    call: Call
    b: Builder
    layers: Layers

    def build(self) -> Tensor:
        """Build the network and, while training, the binary cross entropy of its logits."""
        model, b, batch = self.model, self.b, self.call.batch
        dense = b.input("dense_features", batch, model.num_dense_features)
        x = self._stack(dense, model.bottom_mlp, "bottom", last_active=True)
        with b.repeat("tables", 1.0):
            embedded = Tables(model, self.call, self.layers).look_up()
        mixed = self._interact(x, embedded) if model.interaction == "dot" else self._cross(x, embedded)
        logits = self._stack(mixed, model.top_mlp, "top", last_active=False)
        return self._loss(logits) if self.call.trains else self.layers.pointwise("sigmoid", logits)

    def _stack(self, x: Tensor, widths: tuple[int, ...], name: str, *, last_active: bool) -> Tensor:
        layers = self.layers
        with self.b.repeat(name, 1.0):
            for index, width in enumerate(widths):
                x = layers.linear(x, real(width), f"linear{index}", bias=True)
                if last_active or index < len(widths) - 1:
                    x = layers.pointwise("relu", x)
        return x

    def _interact(self, x: Tensor, embedded: list[Tensor]) -> Tensor:
        """Return ``[batch, width + pairs]``: the dense vector, and the dot product of each pair of all vectors."""
        layers, b, batch, width = self.layers, self.b, self.call.batch, self.model.embedding_dim
        vectors = float(len(self.model.table_rows) + 1)
        pairs = vectors * (vectors - 1.0) / 2.0
        with b.scope("interaction"):
            joined = layers.view(layers.concat((x, *embedded), 1), "reshape", batch, vectors, width)
            products = b.tensor("products", batch, vectors, vectors)
            b.emit(
                Matmul,
                "products",
                inputs=(joined, joined),
                outputs=(products,),
                m=vectors,
                n=vectors,
                k=width,
                batch=batch,
            )
            lower = b.buffer("pairs", 2.0, pairs, dtype=INT64)
            chosen = b.tensor("chosen", batch, pairs)
            b.emit(Gather, "choose", inputs=(products, lower), outputs=(chosen,))
            return layers.concat((x, chosen), 1)

    def _cross(self, x: Tensor, embedded: list[Tensor]) -> Tensor:
        """Return ``[batch, vectors x width]``: all vectors, times linear functions of themselves in one layer after another.

        ``x_next = x_first * (W (V x) + bias) + x`` with W and V of low rank (torchrec, LowRankCrossNet).
        """
        layers, model = self.layers, self.model
        with self.b.scope("vectors"):
            first = layers.concat((x, *embedded), 1)
            entering = layers.view(first, "reshape", *first.shape)
        with self.b.repeat("cross", float(model.cross_layers)):
            low = layers.linear(entering, model.cross_rank, "down", bias=False)
            gate = layers.linear(low, first.shape[1], "up", bias=True)
            return self.b.carry(entering, layers.add(layers.mul(first, gate), entering))

    def _loss(self, logits: Tensor) -> Tensor:
        b = self.b
        clicks = b.input("clicks", self.call.batch, 1.0, dtype=FP32)
        with b.scope(Purpose.LOSS):
            loss = b.tensor("loss", dtype=FP32)
            b.emit(Loss, "cross_entropy", inputs=(logits, clicks), outputs=(loss,), function="binary_cross_entropy")
            return loss
