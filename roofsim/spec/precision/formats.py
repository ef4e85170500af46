"""Describe formats of stored weights: bits per weight with scales, tensors that they cover, arithmetic that reads them.

A format is narrow in memory. Products with it either run in the format's own arithmetic (fp8, fp4, int8: activations are
converted as well) or expand the weights to 16 bits on the way (weight-only: everything else).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, cast

from roofsim.numeric import is_scalar
from roofsim.records import dataclass, field
from roofsim.spec.precision.encodings import EMBEDDING, ENCODINGS, HEAD, LINEAR, OCP, Encoding, WeightPosition, trellis
from roofsim.spec.precision.gguf import mixture

if TYPE_CHECKING:
    from roofsim.numeric import Real


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
    bits: float | None = None
    own: dict[str, Encoding] = field(default_factory=dict)
    wide: dict[str, float] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    family: FormatFamily | None = None

    def encodings(self, place: WeightPosition) -> dict[str, Real]:
        """Return the encodings of a tensor with the share of the layers that each has; empty: it keeps 16 bits."""
        if place.part not in self.covers or not place.module.startswith(self.only or ""):
            return {}
        if self.mixture:
            return mixture(self.name, self.encoding, place)
        return {self.others.get(place.part, self.encoding): 1.0}

    def bits_of(self, name: str, place: WeightPosition) -> Real:
        """Return the bits per weight of one encoding at a place."""
        if self.bits is not None and name == self.encoding:
            return self.bits
        return (self.own.get(name) or ENCODINGS[name]).at(place)

    def microscaled(self, place: WeightPosition) -> bool:
        """Tell whether all layers keep a tensor in a microscaling format; encodings that are known by their bits alone are none."""
        written = [self.own.get(name) or ENCODINGS.get(name) for name in self.encodings(place)]
        return bool(written) and all(one is not None and one.microscaled for one in written)


QUANTISE: Final = "ggml-org/llama.cpp, src/llama-quant.cpp (llama_tensor_get_type, tensor_allows_quantization)"
_HEADS_IN_16_BITS: Final = "embedding and head are left out by their quantisers"


def _gguf(name: str, encoding: str) -> WeightFormat:
    return WeightFormat(
        name=name,
        encoding=encoding,
        source=QUANTISE,
        covers=(LINEAR, HEAD, EMBEDDING),
        mixture=True,
        wide_vectors=True,
    )


#: Files of llama.cpp: name -> encoding of most tensors.
GGUF: Final = {
    "q2_k": "q2_k", "q3_k_s": "q3_k", "q3_k_m": "q3_k", "q3_k_l": "q3_k", "q4_0": "q4_0", "q4_1": "q4_1",
    "q4_k_s": "q4_k", "q4_k_m": "q4_k", "q5_0": "q5_0", "q5_1": "q5_1", "q5_k_s": "q5_k", "q5_k_m": "q5_k",
    "q6_k": "q6_k", "q8_0": "q8_0", "iq4_nl": "iq4_nl", "iq4_xs": "iq4_xs",
}  # fmt: skip

FORMATS: Final = {
    row.name: row
    for row in (
        WeightFormat(name="fp8", encoding="fp8", arithmetic="fp8", source="arXiv 2209.05433"),
        WeightFormat(name="mxfp8", encoding="mxfp8", arithmetic="fp8", source=OCP),
        WeightFormat(
            name="nvfp4",
            encoding="nvfp4",
            arithmetic="fp4",
            source=f"arXiv 2509.25149; {_HEADS_IN_16_BITS} (NVIDIA TensorRT-Model-Optimizer)",
        ),
        WeightFormat(
            name="mxfp4",
            encoding="mxfp4",
            arithmetic="fp4",
            source=f"{OCP}; {_HEADS_IN_16_BITS}",
        ),
        WeightFormat(
            name="int8",
            encoding="int8",
            arithmetic="int8",
            source=f"weights and activations of 8 bits (arXiv 2211.10438); {_HEADS_IN_16_BITS}",
        ),
        WeightFormat(
            name="int4",
            encoding="int4",
            source=f"arXiv 2306.00978 (AWQ), 2210.17323 (GPTQ); {_HEADS_IN_16_BITS}",
        ),
        WeightFormat(
            name="q4f16_1",
            encoding="q4f16_1",
            covers=(LINEAR, HEAD, EMBEDDING),
            source="mlc-ai/mlc-llm, python/mlc_llm/quantization: linear layers, head and embedding alike",
        ),
        WeightFormat(
            name="nf4",
            encoding="nf4",
            source=f"bitsandbytes Linear4bit; {_HEADS_IN_16_BITS} (transformers, modules_to_not_convert)",
        ),
        WeightFormat(
            name="nf4-dq",
            encoding="nf4-dq",
            source=f"bitsandbytes with bnb_4bit_use_double_quant (arXiv 2305.14314); {_HEADS_IN_16_BITS}",
        ),
        *(_gguf(name, encoding) for name, encoding in GGUF.items()),
    )
}

#: Families of weight formats, by which engines say what they load.
FormatFamily = Literal[
    "fp8", "mxfp8", "mxfp4", "nvfp4", "int8", "int4", "bitsandbytes", "q4f16_1", "gguf", "exl2", "exl3"
]


def format_family(name: str) -> FormatFamily:
    """Return the family of a weight format: files of one kind that the same loaders read.

    >>> format_family("q4_k_m"), format_family("nf4-dq"), format_family("exl3-4.0bpw"), format_family("fp8")
    ('gguf', 'bitsandbytes', 'exl3', 'fp8')
    """
    if name in GGUF:
        return "gguf"
    if name.startswith("nf4"):
        return "bitsandbytes"
    if name.startswith(tuple(BITS_IN_NAMES)):
        return cast("FormatFamily", name[:4])
    return cast("FormatFamily", name)


_STATED_BITS: Final = re.compile(r"(exl[23])-(\d+(?:\.\d+)?)bpw")
#: Family whose names state their bits -> the least and the most bits per weight that its converter accepts (-b).
BITS_IN_NAMES: Final = {
    "exl2": (2.0, 8.0),  # turboderp/exllamav2, convert.py: its narrowest and widest layer settings
    "exl3": (1.0, 8.0),  # turboderp-org/exllamav3 1.6.5, exllamav3/conversion/convert_model.py
}


def weight_format(name: str) -> WeightFormat | None:
    """Return a weight format by name, or None.

    >>> weight_format("exl2-4.25bpw").bits
    4.25
    """
    if name in FORMATS:
        return FORMATS[name]
    matched = _STATED_BITS.fullmatch(name)
    if matched is None:
        return None
    family, bits = matched[1], float(matched[2])
    least, most = BITS_IN_NAMES[family]
    if not least <= bits <= most:
        return None
    return _exl2(name, bits) if family == "exl2" else _exl3(name, bits)


def _exl2(name: str, bits: float) -> WeightFormat:
    return WeightFormat(
        name=name,
        encoding=name,
        bits=bits,
        covers=(LINEAR, HEAD),
        others={HEAD: "exl2-head"},
        source="turboderp/exllamav2: the name states the mean over the linear layers, scales included; the embedding is fp16",
    )


def _exl3(name: str, bits: float) -> WeightFormat:
    own = trellis(bits)
    return WeightFormat(
        name=name,
        encoding=name,
        covers=(LINEAR, HEAD),
        others={HEAD: "exl3-head"},
        own={name: own},
        source=f"{own.source}; the name states the mean over the linear layers, scales apart; the embedding is fp16",
    )


def mean_bits(stored_format: WeightFormat, place: WeightPosition) -> Real | None:
    """Return the bits per weight of a tensor, averaged over the layers; None: it keeps 16 bits.

    >>> mean_bits(FORMATS["int4"], WeightPosition(part=LINEAR))
    4.15625
    """
    shares, wide = stored_format.encodings(place), stored_format.wide.get(place.module, 0.0)
    if not shares or wide == 1.0:
        return None
    total: Real = 16.0 * wide
    for name, share in shares.items():
        total = total + share * (1.0 - wide) * stored_format.bits_of(name, place)
    return float(total) if is_scalar(total) else total
