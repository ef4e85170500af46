"""Say which kernels an engine runs in inference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.cost.kernels.work import KernelWork
    from roofsim.graph.base import AbstractOp, Block
    from roofsim.graph.component import Component
    from roofsim.numeric import Real


@dataclass(frozen=True, kw_only=True)
class Serving:
    """What an engine's kernels of one pass of inference are.

    Attributes
    ----------
    decodes
        Whether the pass adds one token per sequence.
    merged
        Engine facts of merged kernels.
    cache_write_kernels
        Launches per layer that rotate queries and keys and write the cache; None: one an op of the graph.
    expert_kernels
        Launches per layer that bring tokens into the order of experts and back; None: one an op of the graph.
    expert_rows
        How tokens come into the order of experts: ``modules``, ``copied`` or ``gathered`` by the products.
    router_kernels
        Launches per layer that choose experts from their scores; None: one an op of the graph.
    extra_kernels
        Launches per layer beyond those of the graph.
    softmax_on_chip
        Whether the softmax kernel keeps long rows on chip instead of reading them again.
    narrow_products
        What products of 8-bit operands write: ``wide`` (16 bits), ``int32`` or ``narrow`` (8 bits).
    narrow_launches
        Launches of each of them.
    packs_heads
        Whether a kernel before fused attention copies queries, keys and values.
    bias_kernels, convolution_biases, mask_kernels, split_reductions
        Whether biases of products and of convolutions, masks of unfused attention, and the reductions of softmax and norms
        are kernels of their own.
    """

    decodes: bool = False
    merged: frozenset[str] = frozenset()
    cache_write_kernels: float | None = None
    expert_kernels: float | None = None
    expert_rows: str = "modules"
    router_kernels: float | None = None
    extra_kernels: float = 0.0
    softmax_on_chip: bool = False
    narrow_products: str = "wide"
    narrow_launches: float = 1.0
    packs_heads: bool = False
    bias_kernels: bool = False
    mask_kernels: bool = False
    split_reductions: bool = False
    convolution_biases: bool = False


def share_launches(ops: dict[int, AbstractOp], works: dict[int, KernelWork], number: float | None) -> None:
    """Let ops of a layer have a number of launches together; None: their own."""
    if number is None:
        return
    layers: dict[Block | Component | AbstractOp, list[int]] = {}
    for place, op in ops.items():
        layers.setdefault(op.module, []).append(place)
    for places in layers.values():
        total: Real = 0.0
        for place in places:
            total = total + works[place].launches
        for place in places:
            works[place] = replace(works[place], launches=works[place].launches * (number / total))
