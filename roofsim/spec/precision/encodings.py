"""Describe how the elements of one tensor are written: bits per weight with scales and zero points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.numeric import ceil
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.numeric import Real


GGML: Final = "block structures of ggml-org/llama.cpp, ggml/src/ggml-common.h"


OCP: Final = "OCP Microscaling Formats specification 1.0: a scale of 8 bits per 32 elements"


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """How the elements of one tensor are written.

    Attributes
    ----------
    bits
        Bits per weight: the element's own, and its share of scales and zero points.
    row, column, matrix
        Bits that each row (output channel), each column and each matrix needs besides.
    block
        Elements that share a scale: rows must be a multiple long.
    fallback
        Encoding that llama.cpp takes for rows of another length.
    scale
        Bits of a scale (and zero point) that are not in `bits`: those of files whose last block may be cut short.
    shared_by_row, rows
        Whether all elements of a row share it, and how many rows do so together.
    microscaled
        Whether it is one of the OCP Microscaling Formats: floating elements in blocks with a power of two as their scale.
    """

    bits: float
    source: str
    row: float = 0.0
    column: float = 0.0
    matrix: float = 0.0
    block: int = 1
    fallback: str | None = None
    scale: float = 0.0
    shared_by_row: bool = False
    rows: int | None = None
    microscaled: bool = False

    def at(self, place: WeightPosition) -> Real:
        """Return the bits per weight of a matrix."""
        rows, columns = place.rows, place.columns
        apart = (self.column * columns + self.matrix) * place.matrices / (rows * columns)
        bits = self.bits + self.row / columns + apart
        if self.scale == 0.0:
            return bits
        blocks = 1.0 if self.shared_by_row else ceil(columns / self.block)
        together = rows if self.rows is None else ceil(rows / self.rows)
        return bits + self.scale * blocks * together / (rows * columns)


def trellis(bits: float) -> Encoding:
    """Return the encoding of an EXL3 matrix: a trellis of so many bits per weight, a 16-bit scale for each row and column.

    >>> trellis(4.0).at(WeightPosition(part=LINEAR, columns=4096.0, rows=4096.0))
    4.0078125
    """
    return Encoding(
        bits=bits,
        row=16.0,
        column=16.0,
        source="turboderp-org/exllamav3 1.6.5, exllamav3/modules/quant/exl3.py, LinearEXL3: trellis of 16 x bits words for 256 "
        "weights, suh and svh of 16 bits",
    )


ENCODINGS: Final = {
    "q2_k": Encoding(bits=84 * 8 / 256, block=256, fallback="q4_0", source=GGML),
    "q3_k": Encoding(bits=110 * 8 / 256, block=256, fallback="q4_0", source=GGML),
    "q4_0": Encoding(bits=18 * 8 / 32, block=32, source=GGML),
    "q4_1": Encoding(bits=20 * 8 / 32, block=32, source=GGML),
    "q4_k": Encoding(bits=144 * 8 / 256, block=256, fallback="q5_0", source=GGML),
    "q5_0": Encoding(bits=22 * 8 / 32, block=32, source=GGML),
    "q5_1": Encoding(bits=24 * 8 / 32, block=32, source=GGML),
    "q5_k": Encoding(bits=176 * 8 / 256, block=256, fallback="q5_1", source=GGML),
    "q6_k": Encoding(bits=210 * 8 / 256, block=256, fallback="q8_0", source=GGML),
    "q8_0": Encoding(bits=34 * 8 / 32, block=32, source=GGML),
    "iq4_nl": Encoding(bits=18 * 8 / 32, block=32, source=GGML),
    "iq4_xs": Encoding(bits=136 * 8 / 256, block=256, fallback="iq4_nl", source=GGML),
    "mxfp4": Encoding(bits=4 + 8 / 32, block=32, source=OCP, microscaled=True),
    "mxfp8": Encoding(bits=8 + 8 / 32, block=32, source=OCP, microscaled=True),
    "nvfp4": Encoding(
        bits=4 + 8 / 16,
        block=16,
        source="NVIDIA: an fp8 (E4M3) scale per 16 elements (arXiv 2509.25149); the fp32 scale of the tensor is left out",
    ),
    "fp8": Encoding(bits=8.0, source="one scale a tensor, left out (arXiv 2209.05433)"),
    "int8": Encoding(bits=8.0, row=16.0, source="a 16-bit scale per output channel (arXiv 2208.07339, 2211.10438)"),
    "int4": Encoding(
        bits=4 + 16 / 128 + 4 / 128,
        block=128,
        source="groups of 128: fp16 scale, packed 4-bit zero point (casper-hansen/AutoAWQ, WQLinear_GEMM; GPTQ the same)",
    ),
    "q4f16_1": Encoding(
        bits=4 + 16 / 32, block=32, source="groups of 32, fp16 scale (mlc-ai/mlc-llm, group_quantization.py)"
    ),
    "exl2-head": Encoding(bits=6.0, source="turboderp/exllamav2, convert.py: -hb, bits of the head, defaults to 6"),
    "exl3-head": Encoding(
        bits=6.0,
        row=16.0,
        column=16.0,
        source="turboderp-org/exllamav3, doc/convert.md: -hb, bits of the head, defaults to 6; scales as in its other layers",
    ),
    "nf4": Encoding(
        bits=4 + 32 / 64,
        block=64,
        source="blocks of 64, fp32 absmax: bitsandbytes without double quantisation, its default",
    ),
    "nf4-dq": Encoding(
        bits=4 + 8 / 64 + 32 / (64 * 256),
        block=64,
        source="blocks of 64, 8-bit absmax, fp32 per 256 blocks (arXiv 2305.14314, double quantisation)",
    ),
}


#: What a weight is to the tensor rules of formats.
LINEAR: Final = "linear"


HEAD: Final = "head"


EMBEDDING: Final = "embedding"


@dataclass(frozen=True, kw_only=True)
class WeightPosition:
    """Where a weight stands in its model.

    Attributes
    ----------
    part
        LINEAR (in a block), HEAD (a matrix outside of blocks, a tied table included) or EMBEDDING.
    role
        What a linear layer does: query, key, value, query_key_value, attention_output, gate, up, down, or other.
    columns, rows
        Length of a row, and how many a matrix has.
    matrices
        Matrices of a file that these rows are taken from.
    module
        Scope of a linear layer in its block: self_attention.query.
    layers, groups, experts
        Layers of the model, query heads per key-value head, experts of a layer (1: none).
    """

    part: str
    role: str = "other"
    columns: Real = 256.0
    rows: Real = 256.0
    matrices: float = 1.0
    module: str = ""
    layers: Real = 1.0
    groups: Real = 1.0
    experts: Real = 1.0
