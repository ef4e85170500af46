"""Turn the name of a precision, or a mapping of roles, into the type of every role on a card with an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.errors import Problem, SpecError
from roofsim.records import dataclass, replace
from roofsim.spec.precision.formats import format_family, weight_format
from roofsim.spec.precision.roles import (
    NARROW_PARAMETERS,
    PATH,
    TRAINING,
    Precision,
    known_precision,
    unknown_precision,
)

if TYPE_CHECKING:
    from roofsim.spec.engine.state import PrecisionFacts
    from roofsim.spec.precision.formats import WeightFormat
    from roofsim.spec.precision.roles import PrecisionRoles


@dataclass(frozen=True, kw_only=True)
class Platform:
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
    converted
        Formats that the card has no units for, and whose operands libraries convert to fp32.
    """

    phase: str = "forward"
    gpu: str = "the card"
    arithmetic: tuple[str, ...] | None = None
    engine: str = ""
    sixteen: str = "fp16"
    converted: tuple[str, ...] = ()
    facts: PrecisionFacts | None = None

    def meant(self, name: str) -> str:
        """Return the weight format that the engine means by a precision's name."""
        return name if self.facts is None else self.facts.weight_formats.get(name, name)

    def cached_in(self, name: str) -> str | None:
        """Return the type of the key-value cache that the engine's recipe of a precision has; None: that of the activations."""
        return None if self.facts is None or self.phase == "train" else self.facts.cache_types.get(name)

    def stores_only(self, stored_format: WeightFormat) -> bool:
        """Whether the engine expands a format's weights, whatever the card multiplies in."""
        return self.facts is not None and format_family(stored_format.name) in self.facts.stored_only

    def trains_narrow(self, name: str) -> bool:
        """Whether training by the name of a precision keeps the layers' weights in that type alone."""
        return self.facts is not None and name in self.facts.narrow_parameters

    def narrow_gradients(self, usual: str) -> str:
        """Return the type of gradients where linear layers are narrow; `usual`: elsewhere."""
        return usual if self.facts is None or self.facts.narrow_gradients is None else self.facts.narrow_gradients

    @property
    def expands_foreign(self) -> bool:
        """Whether the engine multiplies in 16 bits where the card lacks a format's arithmetic."""
        return self.facts is not None and self.facts.expands_foreign_formats

    def has(self, name: str) -> bool:
        """Whether the card computes in a format."""
        return self.arithmetic is None or name in self.arithmetic

    def multiplies_in(self, name: str) -> str:
        """Return the format in which operands of a format are multiplied: fp32 where the card has no units for theirs."""
        return "fp32" if name in self.converted and not self.has(name) else name

    def wide(self) -> str:
        """Return the type of arithmetic beside narrow weights: 16 bits, where the card has them."""
        return next((name for name in (self.sixteen, "fp16", "bf16") if self.has(name)), "fp32")


def resolve_precision(
    wanted: str | PrecisionRoles, *, recipe: str, gradient_type: str, stack: Platform | None = None
) -> Precision:
    """Return the types that a name stands for with an engine's recipe (docs/concepts/engines.md).

    >>> resolve_precision("bf16-amp", recipe="pure", gradient_type="parameters").parameters
    'fp32'
    >>> resolve_precision("q4_k_m", recipe="pure", gradient_type="parameters").math
    'fp16'
    """
    stack = Platform() if stack is None else stack
    if isinstance(wanted, str):
        return _with_cache(named_precision(wanted, recipe, gradient_type, stack), wanted, stack)
    base = _with_cache(named_precision(wanted.compute, recipe, gradient_type, stack), wanted.compute, stack)
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
        base = replace(base, weights=None) if stack.phase == "train" else base
        given.setdefault("gradients", given["parameters"])
        if base.master_parameters is None:
            given.setdefault("optimizer_state", given["parameters"])
    # Wider parameters than arithmetic are cast where they are used, as autocast does.
    autocast = base.autocast or (given.get("parameters") == "fp32" and base.compute in ("fp16", "bf16"))
    master = base.master_parameters if wanted.master_parameters is None else wanted.master_parameters
    return replace(
        base, name="custom", autocast=autocast, **given, master_parameters=None if master == "none" else master
    )


def _with_cache(precision: Precision, name: str, stack: Platform) -> Precision:
    """Return a precision with the key-value cache of the engine's recipe, where that is not of the activations' type."""
    cached = stack.cached_in(name.lower())
    return precision if cached is None else replace(precision, key_value_cache=cached)


def named_precision(name: str, recipe: str, gradient_type: str, stack: Platform) -> Precision:
    """Return the types that a name alone stands for."""
    name = name if known_precision(name) else name.lower()
    if not known_precision(name):
        raise SpecError(Problem(f"unknown precision {name!r}", path=PATH, hint=unknown_precision(name)))
    stored_format = weight_format(stack.meant(name))
    if stored_format is not None:
        return formatted_precision(name, stored_format, recipe, gradient_type, stack)
    if name in ("fp32", "tf32"):
        return _uniform(name, "fp32", name)
    if name.endswith("-amp"):
        low = name.removesuffix("-amp")
        plain = replace(
            _uniform(name, "fp32", stack.multiplies_in(low)), compute=low, autocast=True, key_value_cache=low
        )
        return replace(plain, notes=_converted(low, stack))
    plain = replace(_uniform(name, name, stack.multiplies_in(name)), notes=_converted(name, stack))
    return _with_recipe(plain, recipe, gradient_type)


def _converted(name: str, stack: Platform) -> tuple[str, ...]:
    """Say where operands are converted on the way into products."""
    if stack.multiplies_in(name) == name:
        return ()
    note = f"{stack.gpu} has no {name} units: libraries convert {name} operands to fp32, and products run at the fp32 rate at most"
    return (f"{note}; engines that check for {name} units refuse it",)


def _with_recipe(plain: Precision, recipe: str, gradient_type: str) -> Precision:
    if recipe == "pure":
        return plain
    gradients = "fp32" if gradient_type == "fp32" else plain.gradients
    return replace(plain, master_parameters="fp32", optimizer_state="fp32", gradients=gradients)


# -- weight formats ---------------------------------------------------------------------------------------------------


def formatted_precision(
    name: str, stored_format: WeightFormat, recipe: str, gradient_type: str, stack: Platform
) -> Precision:
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
    arithmetic = stored_format.arithmetic
    if arithmetic is None or stack.stores_only(stored_format):
        return _weight_only(name, stored_format, stack, ())
    if not stack.has(arithmetic):
        if trains or not stack.expands_foreign:
            raise no_arithmetic(name, arithmetic, stack)
        note = f"{stack.gpu} has no {arithmetic} arithmetic: {stack.engine} stores {name} weights and multiplies in 16 bits"
        return _weight_only(name, stored_format, stack, (note,))
    low = "bf16" if stack.has("bf16") else stack.wide()
    plain = _uniform(name, low, arithmetic)
    kept = stored_format.name if not trains or stack.trains_narrow(name) else None
    plain = replace(plain, operands=stored_format.encoding, weights=kept, notes=_soft(name, stack))
    return _with_recipe(plain, recipe, stack.narrow_gradients(gradient_type) if trains else gradient_type)


def _soft(name: str, stack: Platform) -> tuple[str, ...]:
    """Say where a card scales blocks in software."""
    hardware = stack.has("fp4") or stack.has("fp6")
    if name != "mxfp8" or hardware:
        return ()
    return (f"{stack.gpu} has no units that scale blocks of 32: mxfp8 is priced at its fp8 peak",)


def _weight_only(name: str, stored_format: WeightFormat, stack: Platform, notes: tuple[str, ...]) -> Precision:
    wide = stack.wide()
    return replace(_uniform(name, wide, wide), weights=stored_format.name, notes=notes)


def _with_weights(base: Precision, compute: str, name: str, stack: Platform) -> Precision:
    """Store the weights of a mapping in a format that its arithmetic does not share."""
    stored_format = weight_format(stack.meant(name))
    assert stored_format is not None
    if stack.phase == "train":
        return _with_narrow_parameters(base, compute, name)
    if base.weights == stored_format.name:
        return base
    if base.operands is not None or compute.endswith("-amp"):
        raise SpecError(
            Problem(
                f"compute {compute!r} with parameters {name!r} is not priced",
                path=f"{PATH}.parameters",
                hint=f"Weights of {name} are expanded to 16 or 32 bits: compute fp16, bf16, fp32 or tf32.",
            )
        )
    return replace(base, weights=stored_format.name)


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


def _check_attention(name: str, stack: Platform) -> None:
    """Refuse narrow attention outside of training, and on cards without its arithmetic."""
    path = f"{PATH}.attention"
    if stack.phase != "train":
        message = f"attention {name!r} is priced in training; phase {stack.phase} reads keys and values from a cache"
        raise SpecError(Problem(message, path=path, hint=f"Leave it out, or give key_value_cache: {name}."))
    if not stack.has(name):
        has = ", ".join(stack.arithmetic or ()) or "none"
        message = f"{stack.gpu} has no peak for {name} arithmetic, in which attention would multiply; it has {has}"
        raise SpecError(Problem(message, path=path, hint="Leave it out."))


def no_arithmetic(name: str, arithmetic: str, stack: Platform) -> SpecError:
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
        name=name,
        compute=dtype,
        math=math,
        parameters=dtype,
        gradients=dtype,
        optimizer_state=dtype,
        master_parameters=None,
        key_value_cache=dtype,
    )
