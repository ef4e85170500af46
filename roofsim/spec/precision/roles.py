"""Resolve a precision name, or a mapping of roles, into the type of every role."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Self

from roofsim.errors import Problem, SpecError, did_you_mean
from roofsim.records import dataclass, replace
from roofsim.schema.base import BaseModel, ConfigDict, Field, field_validator, model_validator
from roofsim.spec.precision.formats import EXL2_RANGE, FORMATS, WeightFormat, format_family, weight_format

if TYPE_CHECKING:
    from roofsim.spec.engine.state import PrecisionFacts

#: Names without a weight format.
WIDE: Final = ("fp32", "tf32", "fp16", "bf16", "fp16-amp", "bf16-amp")
#: Names that training takes.
TRAINING: Final = (*WIDE, "fp8", "mxfp8", "nvfp4")
#: All names; ExLlamaV2's (exl2-4.0bpw) state their bits themselves.
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
    if name.lower().startswith("exl2"):
        low, high = EXL2_RANGE
        return f"ExLlamaV2's names are exl2-{low:.1f}bpw to exl2-{high:.1f}bpw, such as exl2-4.0bpw."
    return did_you_mean(name, (*NAMES, "exl2-4.0bpw"))


class PrecisionRoles(BaseModel):
    """The type of each role; what is left out follows from `compute` and the engine."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    compute: Literal[
        "fp32", "tf32", "fp16", "bf16", "fp16-amp", "bf16-amp", "fp8", "mxfp8", "nvfp4", "mxfp4", "int8"
    ] = Field(description="As a name alone.")
    parameters: str | None = Field(
        default=None,
        description="fp32, fp16, bf16, or in inference a weight format (int4, nf4, q4_k_m, exl2-4.0bpw ...). In training beside "
        "a narrow compute: fp8, mxfp8 or nvfp4 keeps the layers' weights in that type alone, without a 16-bit copy (Transformer "
        "Engine's quantized_model_init, Megatron's fp8-param-gather); sharded updates are gathered in it.",
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
class Stack:
    """What the card and the engine make of a name.

    Attributes
    ----------
    phase
        What is run.
    gpu, arithmetic
        The card's name and the number formats that it has a peak for; None: whatever is asked.
    engine, facts
        The engine's name and its types; None: nothing is stated of them.
    sixteen
        The 16-bit type that is computed in beside narrow weights.
    """

    phase: str = "forward"
    gpu: str = "the card"
    arithmetic: tuple[str, ...] | None = None
    engine: str = ""
    sixteen: str = "fp16"
    facts: PrecisionFacts | None = None

    def meant(self, name: str) -> str:
        """Return the weight format that the engine means by a precision's name."""
        return name if self.facts is None else self.facts.weight_formats.get(name, name)

    def stores_only(self, found: WeightFormat) -> bool:
        """Whether the engine expands a format's weights, whatever the card multiplies in."""
        return self.facts is not None and format_family(found.name) in self.facts.stored_only

    @property
    def expands_foreign(self) -> bool:
        """Whether the engine multiplies in 16 bits where the card lacks a format's arithmetic."""
        return self.facts is not None and self.facts.expands_foreign_formats

    def has(self, name: str) -> bool:
        """Whether the card computes in a format."""
        return self.arithmetic is None or name in self.arithmetic

    def wide(self) -> str:
        """Return the type of arithmetic beside narrow weights: 16 bits, where the card has them."""
        return next((name for name in (self.sixteen, "fp16", "bf16") if self.has(name)), "fp32")


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


def resolve_precision(
    wanted: str | PrecisionRoles, *, recipe: str, gradient_type: str, stack: Stack | None = None
) -> Precision:
    """Return the types that a name stands for with an engine's recipe (docs/concepts/engines.md).

    >>> resolve_precision("bf16-amp", recipe="pure", gradient_type="parameters").parameters
    'fp32'
    >>> resolve_precision("q4_k_m", recipe="pure", gradient_type="parameters").math
    'fp16'
    """
    stack = Stack() if stack is None else stack
    if isinstance(wanted, str):
        return named_precision(wanted, recipe, gradient_type, stack)
    base = named_precision(wanted.compute, recipe, gradient_type, stack)
    if wanted.attention is not None:
        _check_attention(wanted.attention, stack)
    stored = wanted.parameters is not None and wanted.parameters not in ("fp32", "fp16", "bf16")
    if stored and wanted.parameters is not None:
        base = _with_weights(base, wanted.compute, wanted.parameters, stack)
    given = {
        role: getattr(wanted, role)
        for role in ("parameters", "gradients", "optimizer_state", "key_value_cache", "attention")
        if getattr(wanted, role) is not None and not (stored and role == "parameters")
    }
    if "parameters" in given:
        given.setdefault("gradients", given["parameters"])
        if base.master_parameters is None:
            given.setdefault("optimizer_state", given["parameters"])
    # Wider parameters than arithmetic are cast where they are used, as autocast does.
    autocast = base.autocast or (given.get("parameters") == "fp32" and base.compute in ("fp16", "bf16"))
    master = base.master_parameters if wanted.master_parameters is None else wanted.master_parameters
    return replace(
        base, name="custom", autocast=autocast, **given, master_parameters=None if master == "none" else master
    )


def named_precision(name: str, recipe: str, gradient_type: str, stack: Stack) -> Precision:
    """Return the types that a name alone stands for."""
    name = name if known_precision(name) else name.lower()
    if not known_precision(name):
        raise SpecError(Problem(f"unknown precision {name!r}", path=PATH, hint=unknown_precision(name)))
    found = weight_format(stack.meant(name))
    if found is not None:
        return formatted_precision(name, found, recipe, gradient_type, stack)
    if name in ("fp32", "tf32"):
        return _uniform(name, "fp32", name)
    if name.endswith("-amp"):
        low = name.removesuffix("-amp")
        return replace(_uniform(name, "fp32", low), compute=low, autocast=True, key_value_cache=low)
    return _with_recipe(_uniform(name, name, name), recipe, gradient_type)


def _with_recipe(plain: Precision, recipe: str, gradient_type: str) -> Precision:
    if recipe == "pure":
        return plain
    gradients = "fp32" if gradient_type == "fp32" else plain.gradients
    return replace(plain, master_parameters="fp32", optimizer_state="fp32", gradients=gradients)


# -- weight formats ---------------------------------------------------------------------------------------------------


def formatted_precision(name: str, found: WeightFormat, recipe: str, gradient_type: str, stack: Stack) -> Precision:
    """Return a precision whose linear layers are narrow: in training the arithmetic alone, else the stored weights."""
    trains = stack.phase == "train"
    if trains and name not in TRAINING:
        raise SpecError(
            Problem(
                f"precision {name!r} is a format of stored weights, which training cannot update",
                path=PATH,
                hint=f"Train in one of {', '.join(TRAINING)}, or adapters beside frozen narrow weights (workload.adapter).",
            )
        )
    arithmetic = found.arithmetic
    if arithmetic is None or stack.stores_only(found):
        return _weight_only(name, found, stack, ())
    if not stack.has(arithmetic):
        if trains or not stack.expands_foreign:
            raise no_arithmetic(name, arithmetic, stack)
        note = f"{stack.gpu} has no {arithmetic} arithmetic: {stack.engine} stores {name} weights and multiplies in 16 bits"
        return _weight_only(name, found, stack, (note,))
    low = "bf16" if stack.has("bf16") else stack.wide()
    plain = _uniform(name, low, arithmetic)
    plain = replace(plain, operands=found.encoding, weights=None if trains else found.name, notes=_soft(name, stack))
    return _with_recipe(plain, recipe, gradient_type)


def _soft(name: str, stack: Stack) -> tuple[str, ...]:
    """Say where a card scales blocks in software."""
    hardware = stack.has("fp4") or stack.has("fp6")
    if name != "mxfp8" or hardware:
        return ()
    return (f"{stack.gpu} has no units that scale blocks of 32: mxfp8 is priced at its fp8 peak",)


def _weight_only(name: str, found: WeightFormat, stack: Stack, notes: tuple[str, ...]) -> Precision:
    wide = stack.wide()
    return replace(_uniform(name, wide, wide), weights=found.name, notes=notes)


def _with_weights(base: Precision, compute: str, name: str, stack: Stack) -> Precision:
    """Store the weights of a mapping in a format that its arithmetic does not share."""
    found = weight_format(stack.meant(name))
    assert found is not None
    if stack.phase == "train":
        return _with_narrow_parameters(base, compute, name)
    if base.weights == found.name:
        return base
    if base.operands is not None or compute.endswith("-amp"):
        raise SpecError(
            Problem(
                f"compute {compute!r} with parameters {name!r} is not priced",
                path=f"{PATH}.parameters",
                hint=f"Weights of {name} are expanded to 16 or 32 bits: compute fp16, bf16, fp32 or tf32.",
            )
        )
    return replace(base, weights=found.name)


def _with_narrow_parameters(base: Precision, compute: str, name: str) -> Precision:
    """Keep the weights that narrow products read in their narrow type alone."""
    if base.operands is not None and name in NARROW_PARAMETERS:
        return replace(base, weights=name)
    message = f"parameters {name!r} are a format of stored weights, which training cannot update"
    hint = "Give fp32, fp16 or bf16, or train adapters beside frozen narrow weights (workload.adapter)."
    if name in NARROW_PARAMETERS:
        message = (
            f"parameters {name!r} are read by narrow products alone; compute {compute!r} multiplies in {base.math}"
        )
        hint = f"Set compute: {name} too, or give fp32, fp16 or bf16."
    elif base.operands is not None:
        hint = f"Give bf16, {' or '.join(NARROW_PARAMETERS)}."
    raise SpecError(Problem(message, path=f"{PATH}.parameters", hint=hint))


def _check_attention(name: str, stack: Stack) -> None:
    """Refuse narrow attention outside of training, and on cards without its arithmetic."""
    if stack.phase != "train":
        raise SpecError(
            Problem(
                f"attention {name!r} is priced in training; phase {stack.phase} reads keys and values from a cache",
                path=f"{PATH}.attention",
                hint=f"Leave it out, or give key_value_cache: {name}.",
            )
        )
    if not stack.has(name):
        has = ", ".join(stack.arithmetic or ()) or "none"
        raise SpecError(
            Problem(
                f"{stack.gpu} has no peak for {name} arithmetic, in which attention would multiply; it has {has}",
                path=f"{PATH}.attention", hint="Leave it out.",
            )
        )  # fmt: skip


def no_arithmetic(name: str, arithmetic: str, stack: Stack) -> SpecError:
    """Return the error of a card that lacks the number format in which a precision multiplies."""
    has = ", ".join(stack.arithmetic or ()) or "none"
    weights = name if weight_format(name) is not None else "int8 (or another)"
    return SpecError(
        Problem(
            f"{stack.gpu} has no peak for {arithmetic} arithmetic, in which precision {name!r} multiplies; it has {has}",
            path=PATH,
            hint=f"Choose such a precision, state gpu.peak.{arithmetic}, or, in inference, store the weights alone: "
            f"{{compute: {stack.wide()}, parameters: {weights}}}.",
        )
    )


def _uniform(name: str, dtype: str, math: str) -> Precision:
    return Precision(
        name=name, compute=dtype, math=math, parameters=dtype, gradients=dtype, optimizer_state=dtype,
        master_parameters=None, key_value_cache=dtype,
    )  # fmt: skip
