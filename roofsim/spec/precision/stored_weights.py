"""Describe how a published checkpoint stores its weights: what precision means in inference where nobody states one."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from roofsim.schema.base import Field, model_validator
from roofsim.spec.precision.encodings import ENCODINGS, HEAD, LINEAR, Encoding
from roofsim.spec.precision.formats import BITS_IN_NAMES, FormatFamily, WeightFormat
from roofsim.spec.strict import Strict

Bits = Annotated[float, Field(ge=0.0, le=10.0**9)]
Length = Annotated[int, Field(gt=0, le=10**6)]
Share = Annotated[float, Field(gt=0.0, le=1.0)]

#: Number format of products -> the type that their operands are converted to.
_OPERANDS: Final = {"fp8": "fp8", "int8": "int8", "fp4": "nvfp4"}


class StoredWeights(Strict):
    """How the weights of a checkpoint are stored. Without `bits` all of them have the type `dtype`."""

    dtype: Literal["fp32", "fp16", "bf16"] | None = Field(default=None, description="Type of what is not quantised.")
    method: str = Field(default="", description="What its quantiser calls itself: awq, gptq, fp8 ...")
    loader: FormatFamily | None = Field(
        default=None, description="The weight format by which engines say what they load."
    )
    bits: Annotated[float, Field(gt=0.0, le=16.0)] | None = Field(default=None, description="Of an element.")
    group_size: Length | None = Field(default=None, description="Elements of a row that share a scale; None: all.")
    group_rows: Length | None = Field(default=None, description="Rows that share it as well (blocks of fp8: 128).")
    scale_bits: Bits = Field(default=0.0, description="Of the scale of a group.")
    zero_bits: Bits = Field(default=0.0, description="Of the zero point of a group.")
    row_bits: Bits = Field(default=0.0, description="Further bits of each row.")
    column_bits: Bits = Field(default=0.0, description="Further bits of each column, such as the order of activations.")
    matrix_bits: Bits = Field(default=0.0, description="Further bits of each matrix.")
    arithmetic: Literal["fp8", "int8", "fp4"] | None = Field(
        default=None,
        description="Format of the products, activations converted; None: weights are expanded to 16 bits.",
    )
    head_bits: Bits | None = Field(default=None, description="Of the output matrix, if it is quantised.")
    key_value_cache: Literal["fp8"] | None = Field(
        default=None, description="Type of keys and values that it asks for."
    )
    wide: dict[str, Share] = Field(
        default_factory=dict,
        description="Linear layer (self_attention.query) -> share of the layers that keep `dtype`.",
    )
    only: tuple[str, ...] = Field(
        default=(), description="Linear layers whose names begin so are quantised; all, if empty."
    )
    unread: str = Field(
        default="", description="Why this version cannot say what the weights take; then it needs a precision."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.bits is not None and self.loader is None:
            raise ValueError("bits needs a loader: the weight format by which engines say what they load")
        return self

    @property
    def label(self) -> str:
        """Name it in messages and results: ``awq-int4-g128``."""
        if self.bits is None:
            return self.method or self.dtype or "unstated"
        kind = {"int4": f"int{self.bits:g}", "bitsandbytes": "nf4" if self.bits < 8.0 else "int8"}.get(
            str(self.loader), str(self.loader)
        )
        kind = f"{self.bits:g}bpw" if self.loader in BITS_IN_NAMES else kind
        named = kind if self.method in ("", kind) else f"{self.method}-{kind}"
        if self.group_rows is not None:
            return f"{named}-{self.group_rows}x{self.group_size}"
        return named if self.group_size is None or kind in ("nf4", "mxfp4", "nvfp4") else f"{named}-g{self.group_size}"

    def weight_format(self) -> WeightFormat | None:
        """Return the format of its quantised weights, or None: all have 16 or 32 bits."""
        if self.bits is None:
            return None
        operands = "mxfp4" if self.loader == "mxfp4" else _OPERANDS.get(str(self.arithmetic), "")
        name = self.label if self.arithmetic is None else operands
        written = ENCODINGS.get(str(self.loader))
        encoding = Encoding(
            bits=self.bits,
            source=f"quantization_config of the checkpoint ({self.method})",
            row=self.row_bits,
            column=self.column_bits,
            matrix=self.matrix_bits,
            scale=self.scale_bits + self.zero_bits,
            block=self.group_size or 1,
            shared_by_row=self.group_size is None,
            rows=self.group_rows,
            microscaled=written is not None and written.microscaled,
        )
        head = self.head_bits
        own = {name: encoding} | ({} if head is None else {"head": Encoding(bits=head, source=encoding.source)})
        return WeightFormat(
            name=self.label,
            encoding=name,
            source=encoding.source,
            arithmetic=self.arithmetic,
            own=own,
            covers=(LINEAR,) if head is None else (LINEAR, HEAD),
            others={} if head is None else {HEAD: "head"},
            wide=self.wide,
            only=self.only,
            family=self.loader,
        )
