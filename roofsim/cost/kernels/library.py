"""Say whose kernels an engine runs: what differs between engines, and never between training, prefill and decode."""

from __future__ import annotations

from roofsim.records import dataclass


@dataclass(frozen=True, kw_only=True)
class KernelLibrary:
    """Facts of an engine's kernels.

    Attributes
    ----------
    measured_as
        Engine in which its own kernels were measured; None: those of the vendor's libraries, medians over all.
    attention, decode_attention
        Generation of its fused attention kernels, for many queries and for one query a sequence; None: not stated.
    half_accumulation
        Whether products of 16 bits are added up in fp16.
    stream_share
        What products draw of the memory bandwidth; None: as measured library kernels do.
    vector_rows
        Rows up to which products run in kernels for vectors, which use all units however small the product is.
    cache_share
        Share of the memory bandwidth with which unfused attention reads a cache for few queries; None: as products.
    softmax_on_chip
        Whether its softmax keeps rows on chip however long they are.
    convolution_share
        Share of the rate of searched convolutions.
    """

    measured_as: str | None = None
    attention: str | None = None
    decode_attention: str | None = None
    half_accumulation: bool = False
    stream_share: float | None = None
    vector_rows: float = 0.0
    cache_share: float | None = None
    softmax_on_chip: bool = False
    convolution_share: float = 1.0
