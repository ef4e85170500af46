"""Split layers over the ranks of a parallel group: where tensors enter and leave a region that each rank has a share of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.tensor import DTYPES
from roofsim.numeric import ceil, exactly, maximum, same, where
from roofsim.records import dataclass, field
from roofsim.spec.engine.kernels import ServingExperts
from roofsim.spec.engine.ranks import CommunicationFacts

if TYPE_CHECKING:
    from roofsim.graph.tensor import DType
    from roofsim.numeric import Real


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Over how many ranks each kind of group splits the work. Degrees are floats or arrays; 1.0 splits nothing.

    Attributes
    ----------
    tensor
        Heads, feed-forward widths and vocabulary (arXiv 1909.08053).
    sequence
        Whether what lies between these regions is split along the sequence over the same ranks (arXiv 2205.05198).
    context
        The sequence as a whole; attention gathers keys and values.
    expert
        Experts; rows travel to the rank of their expert and back.
    expert_tensor
        Width of each expert; None: 1 beside `expert` above 1, else as `tensor`.
    expert_load
        Rows that the modelled rank's experts take, against those of even routing without limits.
    redundant_experts
        Copies of experts beside one of each.
    serving
        Whether ranks of inference share experts: tensor ranks then hold the same tokens.
    exchange
        How a context group exchanges keys and values: ``p2p``, ``all_gather``, ``gathered_ring``, ``a2a`` or ``a2a+p2p``.
    context_heads
        Ranks of it among which heads are dealt out during attention.
    communication
        How the engine exchanges what the ranks of a replica compute.
    tables, table_sharding
        Ranks that embedding tables are dealt out over, and how: ``copied``, ``table``, ``row`` or ``column``.
    over_ranks
        How its tokens of inference reach experts on ranks that do not hold them.
    """

    tensor: Real = 1.0
    sequence: bool = False
    context: Real = 1.0
    expert: Real = 1.0
    expert_tensor: Real | None = None
    expert_load: Real = 1.0
    redundant_experts: Real = 0.0
    serving: bool = False
    exchange: str = "all_gather"
    context_heads: Real = 1.0
    tables: Real = 1.0
    table_sharding: str = "copied"
    communication: CommunicationFacts = field(default_factory=CommunicationFacts)
    over_ranks: ServingExperts = field(default_factory=ServingExperts)

    @property
    def expert_width(self) -> Real:
        """Ranks that split each expert."""
        if self.expert_tensor is not None:
            return self.expert_tensor
        return self.tensor if one(self.expert) else 1.0

    @property
    def has_expert_groups(self) -> bool:
        """Whether experts have groups of their own, so that each rank brings its own tokens to them."""
        return not (one(self.expert) and same(self.expert_width, self.tensor))

    @property
    def rings(self) -> bool:
        """Whether attention runs block by block as keys and values come round."""
        return self.exchange in ("p2p", "gathered_ring", "a2a+p2p") and not one(self.context)

    @property
    def swaps_heads(self) -> bool:
        """Whether ranks hold more tokens of fewer heads during attention."""
        return self.exchange in ("a2a", "a2a+p2p") and not one(self.context)

    @property
    def context_shards(self) -> Real:
        """Ranks among which the queries of a head are dealt out during attention."""
        return self.context / self.context_heads if self.swaps_heads else self.context

    def of_experts(self, experts: Real) -> Real:
        """Return the experts of the rank that holds the most, copies included."""
        held = experts + self.redundant_experts
        return held if one(self.expert) else ceil(held / self.expert)

    def of_tensor(self, size: Real) -> Real:
        """Return a rank's share of something that the tensor group splits, rounded up."""
        return size if one(self.tensor) else ceil(size / self.tensor)

    def of_heads(self, heads: Real) -> Real:
        """Return a rank's key-value heads: where there are fewer than ranks, each keeps a whole one."""
        return heads if one(self.tensor) else maximum(heads / self.tensor, 1.0)

    @property
    def expert_groups(self) -> Real:
        """Groups of tensor ranks over which experts of inference are dealt out: 1 where tokens need not travel."""
        return maximum(self.expert / self.tensor, 1.0)

    @property
    def exchanging(self) -> Real:
        """Ranks that tokens of inference are exchanged among."""
        return where(self.expert_groups > 1.0, self.expert, 1.0) if self.over_ranks.exchange == "all_to_all" else 1.0

    @property
    def dispatch_type(self) -> DType | None:
        """Type in which tokens travel to experts; None: their own."""
        dispatch = self.over_ranks.dispatch
        return None if dispatch == "compute" else DTYPES[dispatch]

    @property
    def gathering(self) -> Real:
        """Ranks among which the tokens of all are gathered instead."""
        return self.expert_groups if self.over_ranks.exchange == "gather" else 1.0

    @property
    def senders(self) -> Real:
        """Tensor ranks that each send a part of the tokens."""
        return where(self.exchanging > 1.0, self.tensor, 1.0)

    @property
    def summing(self) -> Real:
        """Tensor ranks whose sums over their own experts are added."""
        return where(self.exchanging > 1.0, 1.0, self.tensor)

    def rows_of(self, pairs: Real) -> Real:
        """Return the (token, expert) pairs that a rank of inference takes, of those of the tokens that it looks at.

        All, where it sends them to their experts; else its own experts' share, which the busiest rank has more of.
        """
        return pairs * where(self.exchanging > 1.0, 1.0, self.expert_load / self.expert)

    def of_tokens(self, length: Real) -> Real:
        """Return the tokens of a sequence that a rank holds between split regions."""
        split = self.sequence and not one(self.tensor)
        length = length if one(self.context) else length / self.context
        return length / self.tensor if split else length


def one(degree: Real) -> bool:
    """Tell whether a degree is the number 1: then the structure is that of one device."""
    return exactly(degree, 1.0)
