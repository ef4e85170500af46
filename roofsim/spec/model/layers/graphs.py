"""Describe blocks over the nodes of a graph, which hand rows on along its edges."""

from __future__ import annotations

from typing import ClassVar, Literal

from roofsim.schema.base import Field
from roofsim.spec.model.base import Size
from roofsim.spec.model.layers.amounts import Amount
from roofsim.spec.model.layers.forms import Form, LayerBlock, Sizes, divides, wants, widened
from roofsim.spec.strict import Strict


class Sampling(Strict):
    """Mini-batches of a graph: the samples of a batch are nodes, whose neighbours are drawn hop by hop (GraphSAGE's training)."""

    fanouts: tuple[Size, ...] = Field(
        min_length=1,
        max_length=16,
        description="Neighbours drawn of each node that a hop reaches, the first hop first.",
    )
    features: Literal["device", "host"] = Field(
        default="device",
        description="Where the rows of all nodes lie: in device memory, or in host memory, from which the GPU reads those "
        "that a batch needs.",
    )


class AggregateBlock(LayerBlock):
    """What the neighbours of each node hold, summed (or averaged, or their maximum) along the edges: a sparse product."""

    main: ClassVar[str] = "function"
    generates: ClassVar[bool] = False

    function: Literal["sum", "mean", "max"] = "sum"
    weighted: bool = Field(default=False, description="Each edge has a factor of its own (GCN).")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return rows of the same width."""
        del sizes
        wants(taken, "rows", what="aggregate")
        return taken


class GraphAttentionBlock(LayerBlock):
    """Attention over the neighbours of each node (GAT, arXiv 1710.10903): a score per edge and head, weighted sums."""

    main: ClassVar[str] = "num_heads"
    generates: ClassVar[bool] = False

    num_heads: Amount
    head_size: Amount | None = Field(default=None, description="Width / heads, if left out.")
    concat: bool = Field(default=True, description="Heads side by side; else their mean.")
    bias: bool = True

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return rows of the heads' width."""
        wants(taken, "rows", what="graph_attention")
        heads = sizes.of(self.num_heads, "num_heads")
        if self.head_size is None:
            divides(taken.width, heads, "without head_size, the width", "num_heads")
            each = taken.width // heads
        else:
            each = sizes.of(self.head_size, "head_size")
        return widened(taken, heads * each if self.concat else each)
