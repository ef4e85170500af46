"""Describe what an engine does between ranks: collectives, what hides them, and how replicas share state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from roofsim.numeric import maximum
from roofsim.schema.base import Field
from roofsim.spec.engine.base import Facts
from roofsim.spec.reading.quantity import Bytes, BytesOrNone, SecondsOrNone
from roofsim.spec.strict import Strict

if TYPE_CHECKING:
    from roofsim.numeric import Real

#: How ranks of a context group exchange keys and values.
ContextCommunication = Literal["p2p", "all_gather", "gathered_ring", "a2a", "a2a+p2p"]


class Overlap(Strict):
    """Which communication the engine hides behind compute."""

    tensor: bool | Literal["sequences"] = Field(
        default=False,
        description="Collectives of tensor parallelism, behind the matmuls' tiles; sequences: only where they gather and scatter "
        "sequences (parallel.sequence), and in formats that the engine cuts into pieces (tiled_not_in).",
    )
    data: bool = Field(default=True, description="Gradient reductions and parameter gathers, behind other layers.")
    pipeline: bool = Field(default=False, description="Messages between pipeline stages, behind other micro batches.")
    expert: bool = Field(
        default=False,
        description="The exchange of expert groups in training, behind the kernels of another micro batch.",
    )
    update: bool = Field(
        default=False, description="The host's update of offloaded state, behind the backward pass as gradients arrive."
    )


class RankWait(Strict):
    """What tensor ranks of inference wait for one another, beside the collectives themselves.

    Kernels issued one by one reach the ranks at different times, and the same kernels do not take the same time on all
    of them; each collective waits for the last rank.
    """

    collective: SecondsOrNone = Field(default=0.0, description="Per collective of ranks in one node.")
    between_nodes: SecondsOrNone = Field(default=0.0, description="Per collective that leaves the node.")
    scatter: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=0.0,
        description="Standard deviation of a rank's time between two collectives, as a share of it: the pass takes "
        "1 + scatter x E(ranks) times as long, E being the expected largest of that many normal numbers.",
    )


class CommunicationFacts(Facts):
    """How ranks of one replica exchange what they compute."""

    tensor_parallel: bool = Field(
        default=True, description="Whether inference can split layers over tensor ranks; asking otherwise is an error."
    )
    overlap: Overlap = Field(default=Overlap(), description="Which communication hides behind compute.")
    tiled_not_in: tuple[str, ...] = Field(
        default=(),
        description="Number formats of matmuls that are not cut into pieces beside their collectives where overlap.tensor is "
        "sequences.",
    )
    all_reduce: Literal["nccl", "custom"] = Field(
        default="nccl",
        description="How all-reduces of inference run inside a node whose GPUs have links of their own: the library's, or "
        "the engine's one-shot and two-shot kernels up to their size limit.",
    )
    rank_wait: RankWait = Field(
        default=RankWait(), description="What tensor ranks of inference wait for one another beside the collectives."
    )
    pipeline_message: Literal["whole", "split"] = Field(
        default="whole", description="split: each tensor rank sends its share of the activations, gathered on arrival."
    )
    sequence_gather: Literal["again", "saved"] = Field(
        default="again",
        description="What backward reads of a sequence that was gathered for a split region: gathered again, or saved.",
    )
    gather_type: Literal["compute", "operands"] = Field(
        default="compute",
        description="Type in which tensor ranks gather sequences, and gradients, for narrow GEMMs: that of activations, or that of "
        "the GEMMs' operands, in which they are then kept for backward.",
    )
    block_gathers: tuple[str, ...] = Field(
        default=(),
        description="Types of operands in which tensor ranks gather whatever gather_type says: scaled by block, both layouts of "
        "such a sequence are made before it is gathered, and nothing is transposed behind.",
    )
    parallel_blocks: Literal["one_sum", "two_sums"] = Field(
        default="one_sum",
        description="How tensor ranks add up a layer whose attention and MLP read the same input: what each rank has of both at "
        "once, or each of the two by itself.",
    )
    expert_exchange: Literal["rows", "tokens"] = Field(
        default="rows",
        description="What crosses between the nodes of an expert group in training: a row for each expert of a token; or a token "
        "once for each node, where its rows are spread over the GPUs' own links, and results summed before they return.",
    )
    context_communication: ContextCommunication = Field(
        default="p2p",
        description="How ranks of a context group exchange keys and values: as parallel.context_communication.",
    )
    context_balance: Literal["zigzag", "none"] = Field(
        default="zigzag",
        description="How a causal sequence is divided over a context group: a piece from its front and one from its end for "
        "each rank; or in order, so that the last rank attends to most.",
    )
    context_merge: Literal["compute", "fp32"] = Field(
        default="compute",
        description="Type in which a ring adds up partial results and sends gradients of keys and values on.",
    )

    def gathers_operands(self, operands: str | None) -> bool:
        """Tell whether tensor ranks gather sequences for narrow GEMMs in the type of their operands."""
        return operands is not None and (self.gather_type == "operands" or operands in self.block_gathers)

    def hides(self, *, sequence: bool, math: str) -> Overlap:
        """Return what hides behind compute, where tensor ranks split sequences or do not and matmuls run in a number format."""
        if self.overlap.tensor != "sequences":
            return self.overlap
        return self.overlap.model_copy(update={"tensor": sequence and math not in self.tiled_not_in})


class DataParallelFacts(Facts):
    """How replicas reduce gradients and share state."""

    reduction_type: Literal["gradients", "main_gradients", "parameters", "fp32"] = Field(
        default="gradients",
        description="Type in which gradients travel between data-parallel ranks: their own when they travel, that of the buffers "
        "that they are added up in (precision.gradients), that of the compute parameters, or fp32.",
    )
    gradient_bucket: Bytes | None = Field(
        default=None,
        description="Bytes of gradients that are reduced together while backward goes on; null: layer by layer.",
    )
    gradient_bucket_per_rank: BytesOrNone = Field(
        default=0.0,
        description="Bytes for each replica that a bucket holds at least, so that it grows with their number.",
    )
    gradient_buckets: Literal["in_place", "copied"] = Field(
        default="in_place",
        description="Whether replicas reduce gradients where they lie, or copy them into buckets of the same size, which stay.",
    )
    gather_copies: Annotated[int, Field(ge=0, le=5)] = Field(
        default=0, description="Passes over fully sharded parameters out of the buffer that a gather filled."
    )
    reduction_copies: Annotated[int, Field(ge=0, le=5)] = Field(
        default=0,
        description="Passes over gradients before a sharded reduction: 1, a cast; 2, and a division; 3, a copy before.",
    )
    rest_units: Literal["one", "apart"] = Field(
        default="one",
        description="How fully sharded parameters of no layer are gathered: embedding and head as one unit, kept from the "
        "first op to the last; or each when it is read first, freed behind its last reader.",
    )
    sharded_accumulation: Literal["shards", "whole"] = Field(
        default="shards",
        description="What full sharding sums micro batches in: reduced shards; or whole gradients of each unit that trains "
        "anything, its frozen parameters included, reduced once (FSDP1's no_sync).",
    )
    pipelined_shards: Literal["again", "kept"] = Field(
        default="again",
        description="What becomes of fully sharded parameters between the micro batches of a pipeline: freed and gathered "
        "again; or kept whole, with whole gradients, from the first to the last.",
    )
    sync_batch_norm: bool = Field(
        default=False,
        description="Batch norms take their statistics over all data-parallel ranks: a gather forward, a sum backward, for "
        "each of them.",
    )

    def bucket(self, replicas: Real) -> Real:
        """Return the bytes of gradients that so many replicas reduce together; 0: layer by layer."""
        return maximum(self.gradient_bucket or 0.0, self.gradient_bucket_per_rank * replicas)


#: Degrees of parallelism beside data parallelism, which takes the GPUs that remain.
Degree = Literal["tensor", "pipeline", "virtual_stages", "context", "expert", "expert_tensor"]
#: What data-parallel ranks share: all of them, or those of a node.
Sharing = Literal["none", "optimizer", "optimizer_in_node", "gradients", "full", "full_in_node"]


class LayoutChoices(Strict):
    """What users of an engine may choose of a layout. No fact of a run: a scenario may ask for more."""

    degrees: tuple[Degree, ...] = Field(
        default=("tensor", "pipeline", "virtual_stages", "context", "expert", "expert_tensor"),
        description="Degrees of parallelism beside data parallelism.",
    )
    sequence: bool = Field(default=True, description="Whether tensor ranks may split sequences in training.")
    schedules: tuple[str, ...] = Field(
        default=("1f1b",), description="Schedules of training pipelines; 1f1b with virtual stages is interleaved."
    )
    counted_ends: bool = Field(
        default=False, description="Whether embedding and loss may count as layers when stages are cut."
    )
    sharding: tuple[Sharing, ...] = Field(
        default=("none", "optimizer", "full"),
        description="What data-parallel ranks may share in training; in_node: those of one node.",
    )
    recompute: tuple[Literal["none", "selective", "full"], ...] = Field(
        default=("none", "selective", "full"), description="What the backward pass may compute again."
    )
    offload: tuple[Literal["optimizer_state", "parameters", "activations"], ...] = Field(
        default=(), description="Parts of the state that training may keep on the host."
    )
    options: tuple[str, ...] = Field(
        default=(), description="Variants that are switches for speed alone: overlap, fusion, launches."
    )
