"""Know the names of precisions, and hold the type of every role: as a scenario states it, and as it comes out."""

from __future__ import annotations

from typing import Final, Literal, Self

from roofsim.errors import did_you_mean
from roofsim.records import dataclass
from roofsim.schema.base import Field, field_validator, model_validator
from roofsim.spec.precision.formats import BITS_IN_NAMES, FORMATS, WeightFormat, weight_format
from roofsim.spec.strict import Strict

#: Names without a weight format.
WIDE: Final = ("fp32", "tf32", "fp16", "bf16", "fp16-amp", "bf16-amp")
#: Names that training takes.
TRAINING: Final = (*WIDE, "fp8", "mxfp8", "nvfp4")
#: All names; those of ExLlamaV2 and V3 (exl2-4.0bpw, exl3-4.0bpw) state their bits themselves.
NAMES: Final = (*WIDE, *FORMATS)
PATH: Final = "workload.precision"
#: Types in which training keeps the weights of linear layers where products read nothing wider.
NARROW_PARAMETERS: Final = ("fp8", "mxfp8", "nvfp4")


def known_precision(name: str) -> bool:
    """Whether a name is a precision.

    >>> known_precision("q4_k_m"), known_precision("exl2-4.0bpw"), known_precision("exl2-40bpw")
    (True, True, False)
    """
    return name in NAMES or weight_format(name) is not None


#: Words of other tools -> the names here that they may mean.
MEANT: Final = {
    "awq": "int4", "gptq": "int4", "marlin": "int4", "w4a16": "int4", "4bit": "int4", "4-bit": "int4", "gguf": "q4_k_m",
    "q3_k": "q3_k_m", "q4_k": "q4_k_m", "q5_k": "q5_k_m", "bnb": "nf4", "bitsandbytes": "nf4", "qlora": "nf4",
    "fp4": "nvfp4, mxfp4", "w8a8": "fp8, int8", "w8a16": "int8, fp8", "8bit": "int8, fp8", "8-bit": "int8, fp8",
    "llm.int8": "int8", "smoothquant": "int8", "half": "fp16", "float16": "fp16", "f16": "fp16", "bfloat16": "bf16",
    "float32": "fp32", "f32": "fp32", "float": "fp32", "amp": "fp16-amp, bf16-amp", "mixed": "fp16-amp, bf16-amp",
}  # fmt: skip


def unknown_precision(name: str) -> str:
    """Return the way out for a name that is none."""
    meant = MEANT.get(name.lower())
    if meant is not None:
        return f"{name} may be {meant.replace(', ', ' or ')} here."
    family = name.lower()[:4]
    if family in BITS_IN_NAMES:
        loader, (low, high) = f"ExLlamaV{family.removeprefix('exl')}", BITS_IN_NAMES[family]
        return f"{loader}'s names are {family}-{low:.1f}bpw to {family}-{high:.1f}bpw, such as {family}-4.0bpw."
    return did_you_mean(name, (*NAMES, "exl2-4.0bpw", "exl3-4.0bpw"))


class PrecisionRoles(Strict):
    """The type of each role; what is left out follows from `compute` and the engine."""

    compute: Literal[
        "fp32", "tf32", "fp16", "bf16", "fp16-amp", "bf16-amp", "fp8", "mxfp8", "nvfp4", "mxfp4", "int8"
    ] = Field(description="As a name alone.")
    parameters: str | None = Field(
        default=None,
        description="fp32, fp16, bf16, or in inference a weight format (int4, nf4, q4_k_m, exl2-4.0bpw, exl3-4.0bpw ...). In "
        "training beside a narrow compute: fp8, mxfp8 or nvfp4 keeps the layers' weights in that type alone, without a 16-bit copy "
        "(Transformer Engine's quantized_model_init, Megatron's fp8-param-gather); sharded updates are gathered in it.",
    )
    gradients: Literal["fp32", "fp16", "bf16"] | None = None
    master_parameters: Literal["fp32", "none"] | None = None
    optimizer_state: Literal["fp32", "fp16", "bf16"] | None = None
    key_value_cache: Literal["fp32", "fp16", "bf16", "fp8", "int8", "int4", "q8_0", "q4_0"] | None = None
    attention: Literal["fp8"] | None = Field(
        default=None,
        description="Type of queries, keys, values and results of fused attention in training, and of what backward keeps of "
        "them (Transformer Engine's fp8_dot_product_attention); left out: that of activations.",
    )
    name: str | None = Field(
        default=None,
        description="Of a scenario as a result holds it: all roles are written out, none follows from another.",
    )
    math: str | None = Field(default=None, description="Beside name: number format of products.")
    weights: str | None = Field(default=None, description="Beside name: format of stored weights.")
    operands: str | None = Field(default=None, description="Beside name: type that operands are converted to.")
    autocast: bool | None = Field(default=None, description="Beside name: whether weights are cast op by op.")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        given = [role for role in ("math", "weights", "operands", "autocast") if getattr(self, role) is not None]
        if given and self.name is None:
            raise ValueError(f"{given[0]} goes with name, as results write a precision out; leave it out")
        if self.name is not None and None in (self.math, self.parameters, self.gradients, self.optimizer_state):
            raise ValueError(
                "name goes with every role written out, as results do; leave it out, or give the name alone"
            )
        return self

    @field_validator("parameters")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        if value is None or value in ("fp32", "fp16", "bf16") or weight_format(value) is not None:
            return value
        raise ValueError(f"unknown parameter type {value!r}. {did_you_mean(value, ('fp32', 'fp16', 'bf16', *FORMATS))}")


@dataclass(frozen=True, kw_only=True)
class Precision:
    """The type of every role, by name.

    Attributes
    ----------
    compute
        Type of activations.
    math
        Number format of matmuls and convolutions: the key under which a GPU's peak is looked up.
    parameters, gradients, optimizer_state, key_value_cache
        Types in memory; `parameters` of what no weight format covers.
    master_parameters
        Type of a separate master copy, or None.
    autocast
        Whether weights are cast op by op.
    weights
        Format in which weights are stored, or None: as `parameters`.
    stored
        That format where it is a checkpoint's own and no name stands for it.
    operands
        Type that the operands of linear layers are converted to, or None: they stay as they are.
    attention
        Type that the operands of fused attention are converted to, or None: they stay as they are.
    notes
        What was assumed on the way.
    """

    name: str
    compute: str
    math: str
    parameters: str
    gradients: str
    optimizer_state: str
    master_parameters: str | None
    key_value_cache: str
    autocast: bool = False
    weights: str | None = None
    stored: WeightFormat | None = None
    operands: str | None = None
    attention: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def multiplied_in(self) -> str | None:
        """Number format of products where it is neither that of their operands nor a narrow one; None: it is.

        tf32 on fp32, or fp32 on 16-bit operands that libraries convert.
        """
        converted = self.math == "fp32" and self.compute != "fp32"
        return self.math if converted or self.math == "tf32" else None
