"""Say which kernels an engine runs in inference."""

from __future__ import annotations

from roofsim.records import dataclass


@dataclass(frozen=True, kw_only=True)
class Serving:
    """What an engine's kernels of one pass of inference are.

    Attributes
    ----------
    decodes
        Whether the pass adds one token per sequence.
    attention
        Generation of its fused attention kernel; None: not stated.
    measured_as
        Engine in which its kernels of experts and of latent attention were measured; None: medians over all.
    stream_share
        What products draw of the memory bandwidth; None: as measured library kernels do.
    vector_rows
        Rows up to which products run in kernels for vectors, which use all units however small the product is.
    cache_share
        Share of the memory bandwidth with which unfused attention reads the cache in decode steps; None: as products.
    softmax_on_chip
        Whether the softmax kernel keeps long rows on chip instead of reading them again.
    narrow_products
        What products of 8-bit operands write: ``wide`` (16 bits), ``int32`` or ``narrow`` (8 bits).
    narrow_launches
        Launches of each of them.
    convolution_share
        Share of the rate of searched convolutions.
    """

    decodes: bool = False
    attention: str | None = None
    measured_as: str | None = None
    stream_share: float | None = None
    vector_rows: float = 0.0
    cache_share: float | None = None
    softmax_on_chip: bool = False
    narrow_products: str = "wide"
    narrow_launches: float = 1.0
    convolution_share: float = 1.0
