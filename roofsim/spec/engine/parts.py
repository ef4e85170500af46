"""Describe the parts of an engine that have several facts: what it hides, pipelines and experts of inference."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from roofsim.schema.base import Field, model_validator
from roofsim.spec.engine.ranks import Strict
from roofsim.spec.reading.quantity import SecondsOrNone


class Overlap(Strict):
    """Which communication the engine hides behind compute."""

    tensor: bool = Field(default=False, description="Collectives of tensor parallelism, behind the matmuls' tiles.")
    data: bool = Field(default=True, description="Gradient reductions and parameter gathers, behind other layers.")
    pipeline: bool = Field(default=False, description="Messages between pipeline stages, behind other micro batches.")
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


class ServingPipeline(Strict):
    """How passes of inference go through pipeline stages."""

    prefill: Literal["whole", "divided", "chunks"] = Field(
        default="whole",
        description="whole: all prompts pass the stages as one; divided: a batch that is a multiple of the stages is dealt "
        "into as many micro batches, and these are halved while they have more tokens than micro_batch; chunks: the pieces "
        "of prefill_chunk tokens follow one another.",
    )
    decode: Literal["whole", "divided", "split"] = Field(
        default="whole",
        description="whole: the batch passes the stages as one; divided: as in a prefill, and all stages wait for the end of "
        "a step; split: as many parts of the batch as stages are under way at once, each at its own step.",
    )
    micro_batch: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Tokens that a divided micro batch has at most, if it can be halved; null: any number.",
    )
    hop: SecondsOrNone = Field(
        default=0.0,
        description="Time from one stage to the next beside the message: synchronisation, copies, launches.",
    )
    decode_gap: SecondsOrNone = Field(
        default=0.0,
        description="Device time that each kernel of a decode step takes longer, where stages keep the engine from CUDA "
        "graphs.",
    )

    run_ahead: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Kernels that wait on one card at most before the host's thread stops issuing, where one thread issues "
        "those of all stages: then other stages get nothing either; null: each stage has a host of its own.",
    )
    copies: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Micro batches whose inputs a stage can hold at once: the next one is issued when the first of them has "
        "left the last stage; null: any number.",
    )

    @model_validator(mode="after")
    def _halved(self) -> Self:
        if self.micro_batch is not None and "divided" not in (self.prefill, self.decode):
            raise ValueError("micro_batch goes with prefill: divided or decode: divided")
        return self


class ServingExperts(Strict):
    """How tokens of inference reach experts that are dealt out over more ranks than share the token."""

    exchange: Literal["all_to_all", "gather"] = Field(
        default="all_to_all",
        description="all_to_all: each token goes to the ranks of its experts and back; gather: all tokens go to all ranks, "
        "and the ranks' sums are scattered back.",
    )
    dispatch: Literal["compute", "fp8"] = Field(
        default="compute",
        description="Type in which tokens travel to experts; results travel back in the compute type.",
    )
