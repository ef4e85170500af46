"""Describe what attention kernels do that changes their price: how they split, pad and multiply."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal

from roofsim.schema.base import Field
from roofsim.spec import catalog
from roofsim.spec.reading.source import read_yaml
from roofsim.spec.reading.validate import validate
from roofsim.spec.strict import Strict


class AttentionKernelFacts(Strict):
    """What one attention kernel does."""

    splits_cache: bool = Field(
        default=True, description="Whether decode steps split the cache of a sequence and head over blocks."
    )
    measured_as: str | None = Field(
        default=None, description="The kernel whose measurements it is priced by; null: its own."
    )
    matrix_units: Literal["all_heads", "grouped_heads", "none"] = Field(
        default="all_heads",
        description="Which decode steps run on matrix units; those of heads with keys of their own run on ordinary ones where only "
        "grouped_heads do, all of them where none does.",
    )
    pads_heads: bool = Field(default=False, description="Whether heads are computed as wide as the next tile.")
    fp32_in_tf32: bool = Field(
        default=False,
        description="Whether matrix units take several products (fast_fp32_products) for one of 4-byte types.",
    )
    scores: Literal["shown", "hidden"] = Field(
        default="shown",
        description="Whether matrix units wait for the arithmetic of scores; hidden: they wait for something else meanwhile.",
    )
    operands: Literal["registers", "shared_memory"] = Field(
        default="registers", description="What feeds the matrix units: passing through registers takes more energy."
    )
    backward: Annotated[float, Field(gt=0.0, le=2.0)] = Field(
        default=1.0, description="Factor on attention_backward_rate, the rate of backward kernels against forward ones."
    )
    sums_gradients: bool = Field(
        default=False,
        description="Whether blocks of keys add up the queries' gradient in fp32 in memory: a kernel before the backward one reads "
        "the result and its gradient and clears the sums, one behind it converts them.",
    )


class AttentionKernels(Strict):
    """All attention kernels, by the names that engines use for them."""

    kernels: dict[str, AttentionKernelFacts]
    sources: dict[str, str]


@cache
def shipped() -> AttentionKernels:
    """Return the facts of the installed package."""
    path = catalog.root() / "hardware" / "constants" / "attention_kernels.yaml"
    return validate(AttentionKernels, read_yaml(path))


def attention_kernel(name: str | None) -> AttentionKernelFacts:
    """Return what a kernel does; of one that is not stated, what most do."""
    return AttentionKernelFacts() if name is None else shipped().kernels[name]
