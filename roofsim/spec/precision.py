"""Resolve a precision name, or a mapping of roles, into the type of every role."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from roofsim.errors import Problem, SpecError, did_you_mean

DTypeName = Literal["fp32", "tf32", "fp16", "bf16", "fp8"]

#: Names that this version prices, and what they ask of the arithmetic.
NAMES: Final = ("fp32", "tf32", "fp16", "bf16", "fp16-amp", "bf16-amp", "fp8")
#: Names of the contract whose kernels are not priced yet.
LATER: Final = (
    "mxfp8",
    "nvfp4",
    "mxfp4",
    "int8",
    "int4",
    "nf4",
    "q2_k",
    "q3_k_m",
    "q4_0",
    "q4_k_m",
    "q5_k_m",
    "q6_k",
    "q8_0",
    "iq4_nl",
)


class PrecisionRoles(BaseModel):
    """The type of each role; what is left out follows from `compute` and the engine."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    compute: Literal["fp32", "tf32", "fp16", "bf16", "fp16-amp", "bf16-amp", "fp8"] = Field(
        description="As a name alone."
    )
    parameters: Literal["fp32", "fp16", "bf16"] | None = None
    gradients: Literal["fp32", "fp16", "bf16"] | None = None
    master_parameters: Literal["fp32", "none"] | None = None
    optimizer_state: Literal["fp32", "fp16", "bf16"] | None = None
    key_value_cache: Literal["fp32", "fp16", "bf16", "fp8", "int8"] | None = None


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
        Types in memory.
    master_parameters
        Type of a separate master copy, or None.
    autocast
        Whether weights are cast op by op.
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


def resolve_precision(wanted: str | PrecisionRoles, *, recipe: str, gradient_type: str) -> Precision:
    """Return the types that a name stands for with an engine's recipe (docs/concepts/engines.md).

    >>> resolve_precision("bf16-amp", recipe="pure", gradient_type="parameters").parameters
    'fp32'
    """
    if isinstance(wanted, str):
        return _named(wanted, recipe, gradient_type)
    base = _named(wanted.compute, recipe, gradient_type)
    given = {
        role: getattr(wanted, role)
        for role in ("parameters", "gradients", "optimizer_state", "key_value_cache")
        if getattr(wanted, role) is not None
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


def _named(name: str, recipe: str, gradient_type: str) -> Precision:
    if name in LATER or name.startswith("exl2-"):
        raise SpecError(
            Problem(
                f"precision {name!r} is not priced by this version",
                path="workload.precision",
                hint=f"Known: {', '.join(NAMES)}.",
            )
        )
    if name not in NAMES:
        raise SpecError(
            Problem(f"unknown precision {name!r}", path="workload.precision", hint=did_you_mean(name, NAMES))
        )
    if name in ("fp32", "tf32"):
        return _uniform(name, "fp32", name)
    if name.endswith("-amp"):
        low = name.removesuffix("-amp")
        return replace(_uniform(name, "fp32", low), compute=low, autocast=True, key_value_cache=low)
    low, math = ("bf16", "fp8") if name == "fp8" else (name, name)
    plain = _uniform(name, low, math)
    if recipe == "pure":
        return plain
    gradients = "fp32" if gradient_type == "fp32" else low
    return replace(plain, master_parameters="fp32", optimizer_state="fp32", gradients=gradients)


def _uniform(name: str, dtype: str, math: str) -> Precision:
    return Precision(
        name=name, compute=dtype, math=math, parameters=dtype, gradients=dtype, optimizer_state=dtype,
        master_parameters=None, key_value_cache=dtype,
    )  # fmt: skip
