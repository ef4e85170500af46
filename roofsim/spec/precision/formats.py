"""Describe formats of stored weights: bits per weight with scales, tensors that they cover, arithmetic that reads them.

A format is narrow in memory. Products with it either run in the format's own arithmetic (fp8, fp4, int8: activations are
converted as well) or expand the weights to 16 bits on the way (weight-only: everything else).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, cast

from roofsim.numeric import ceil, is_scalar
from roofsim.records import dataclass, field

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

    def at(self, place: Place) -> Real:
        """Return the bits per weight of a matrix."""
        rows, columns = place.rows, place.columns
        apart = (self.column * columns + self.matrix) * place.matrices / (rows * columns)
        found = self.bits + self.row / columns + apart
        if self.scale == 0.0:
            return found
        blocks = 1.0 if self.shared_by_row else ceil(columns / self.block)
        together = rows if self.rows is None else ceil(rows / self.rows)
        return found + self.scale * blocks * together / (rows * columns)


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
    "mxfp4": Encoding(bits=4 + 8 / 32, block=32, source=OCP),
    "mxfp8": Encoding(bits=8 + 8 / 32, block=32, source=OCP),
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
LINEAR, HEAD, EMBEDDING = "linear", "head", "embedding"


@dataclass(frozen=True, kw_only=True)
class Place:
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


@dataclass(frozen=True, kw_only=True)
class WeightFormat:
    """A precision name that says how weights are stored.

    Attributes
    ----------
    encoding
        Of most tensors.
    covers
        Parts of the model that are stored in it; the rest keeps 16 bits.
    others
        Part -> encoding of another one.
    arithmetic
        Format of the matrix units that multiply it as it is, activations converted; None: weights are expanded.
    mixture
        Whether llama.cpp's rules give some tensors more bits.
    wide_vectors
        Whether norms, biases and routers are kept in fp32.
    engines
        Engines that read it.
    own
        Encodings of its own beside those of all formats.
    wide, only
        Linear layer -> share of the layers that keep 16 bits; beginnings of the names of those that it covers (empty: all).
    family
        The format by which engines say what they load, where the name does not tell.
    """

    name: str
    encoding: str
    source: str
    covers: tuple[str, ...] = (LINEAR,)
    others: dict[str, str] = field(default_factory=dict)
    arithmetic: str | None = None
    mixture: bool = False
    wide_vectors: bool = False
    engines: tuple[str, ...] = ()
    bits: float | None = None
    own: dict[str, Encoding] = field(default_factory=dict)
    wide: dict[str, float] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    family: FormatFamily | None = None

    def encodings(self, place: Place) -> dict[str, Real]:
        """Return the encodings of a tensor with the share of the layers that each has; empty: it keeps 16 bits."""
        if place.part not in self.covers or not place.module.startswith(self.only or ""):
            return {}
        if self.mixture:
            from roofsim.spec.precision.gguf import mixture

            return mixture(self.name, self.encoding, place)
        return {self.others.get(place.part, self.encoding): 1.0}

    def bits_of(self, name: str, place: Place) -> Real:
        """Return the bits per weight of one encoding at a place."""
        if self.bits is not None and name == self.encoding:
            return self.bits
        return (self.own.get(name) or ENCODINGS[name]).at(place)


QUANTISE: Final = "ggml-org/llama.cpp, src/llama-quant.cpp (llama_tensor_get_type, tensor_allows_quantization)"
_HEADS_IN_16_BITS: Final = "embedding and head are left out by their quantisers"
_COMPRESSED: Final = ("vllm", "sglang", "tensorrt-llm")


def _gguf(name: str, encoding: str) -> WeightFormat:
    return WeightFormat(
        name=name, encoding=encoding, source=QUANTISE, covers=(LINEAR, HEAD, EMBEDDING), mixture=True,
        wide_vectors=True, engines=("llama.cpp",),
    )  # fmt: skip


#: Files of llama.cpp: name -> encoding of most tensors.
GGUF: Final = {
    "q2_k": "q2_k", "q3_k_s": "q3_k", "q3_k_m": "q3_k", "q3_k_l": "q3_k", "q4_0": "q4_0", "q4_1": "q4_1",
    "q4_k_s": "q4_k", "q4_k_m": "q4_k", "q5_0": "q5_0", "q5_1": "q5_1", "q5_k_s": "q5_k", "q5_k_m": "q5_k",
    "q6_k": "q6_k", "q8_0": "q8_0", "iq4_nl": "iq4_nl", "iq4_xs": "iq4_xs",
}  # fmt: skip

FORMATS: Final = {
    found.name: found
    for found in (
        WeightFormat(
            name="fp8", encoding="fp8", arithmetic="fp8", source="arXiv 2209.05433", engines=(*_COMPRESSED, "torchtitan")
        ),
        WeightFormat(name="mxfp8", encoding="mxfp8", arithmetic="fp8", source=OCP, engines=_COMPRESSED),
        WeightFormat(
            name="nvfp4", encoding="nvfp4", arithmetic="fp4", engines=_COMPRESSED,
            source=f"arXiv 2509.25149; {_HEADS_IN_16_BITS} (NVIDIA TensorRT-Model-Optimizer)",
        ),
        WeightFormat(
            name="mxfp4", encoding="mxfp4", arithmetic="fp4", engines=(*_COMPRESSED, "llama.cpp"),
            source=f"{OCP}; {_HEADS_IN_16_BITS}",
        ),
        WeightFormat(
            name="int8", encoding="int8", arithmetic="int8", engines=(*_COMPRESSED, "fastertransformer", "huggingface"),
            source=f"weights and activations of 8 bits (arXiv 2211.10438); {_HEADS_IN_16_BITS}",
        ),
        WeightFormat(
            name="int4", encoding="int4", engines=(*_COMPRESSED, "autoawq", "exllamav2", "huggingface"),
            source=f"arXiv 2306.00978 (AWQ), 2210.17323 (GPTQ); {_HEADS_IN_16_BITS}",
        ),
        WeightFormat(
            name="q4f16_1", encoding="q4f16_1", covers=(LINEAR, HEAD, EMBEDDING), engines=("mlc-llm",),
            source="mlc-ai/mlc-llm, python/mlc_llm/quantization: linear layers, head and embedding alike",
        ),
        WeightFormat(
            name="nf4", encoding="nf4", engines=("huggingface",),
            source=f"bitsandbytes Linear4bit; {_HEADS_IN_16_BITS} (transformers, modules_to_not_convert)",
        ),
        WeightFormat(
            name="nf4-dq", encoding="nf4-dq", engines=("huggingface",),
            source=f"bitsandbytes with bnb_4bit_use_double_quant (arXiv 2305.14314); {_HEADS_IN_16_BITS}",
        ),
        *(_gguf(name, encoding) for name, encoding in GGUF.items()),
    )
}  # fmt: skip

#: Families of weight formats, by which engines say what they load.
FormatFamily = Literal["fp8", "mxfp8", "mxfp4", "nvfp4", "int8", "int4", "bitsandbytes", "q4f16_1", "gguf", "exl2"]


def format_family(name: str) -> FormatFamily:
    """Return the family of a weight format: files of one kind that the same loaders read.

    >>> format_family("q4_k_m"), format_family("nf4-dq"), format_family("exl2-4.0bpw"), format_family("fp8")
    ('gguf', 'bitsandbytes', 'exl2', 'fp8')
    """
    if name in GGUF:
        return "gguf"
    if name.startswith("nf4"):
        return "bitsandbytes"
    if name.startswith("exl2"):
        return "exl2"
    return cast("FormatFamily", name)


_EXL2: Final = re.compile(r"exl2-(\d+(?:\.\d+)?)bpw")
#: Bits per weight that ExLlamaV2's converter accepts (convert.py, -b): its narrowest and widest layer settings.
EXL2_RANGE: Final = (2.0, 8.0)


def weight_format(name: str) -> WeightFormat | None:
    """Return a weight format by name, or None.

    >>> weight_format("exl2-4.25bpw").bits
    4.25
    """
    if name in FORMATS:
        return FORMATS[name]
    matched = _EXL2.fullmatch(name)
    if matched is None or not EXL2_RANGE[0] <= float(matched[1]) <= EXL2_RANGE[1]:
        return None
    return WeightFormat(
        name=name, encoding=name, bits=float(matched[1]), covers=(LINEAR, HEAD), others={HEAD: "exl2-head"},
        engines=("exllamav2",),
        source="turboderp/exllamav2: the name states the mean over the linear layers, scales included; the embedding is fp16",
    )  # fmt: skip


def mean_bits(found: WeightFormat, place: Place) -> Real | None:
    """Return the bits per weight of a tensor, averaged over the layers; None: it keeps 16 bits.

    >>> mean_bits(FORMATS["int4"], Place(part=LINEAR))
    4.15625
    """
    shares, wide = found.encodings(place), found.wide.get(place.module, 0.0)
    if not shares or wide == 1.0:
        return None
    total: Real = 16.0 * wide
    for name, share in shares.items():
        total = total + share * (1.0 - wide) * found.bits_of(name, place)
    return float(total) if is_scalar(total) else total
