"""Choose the precision of a scenario: the one that it states, its checkpoint's own, or the card's usual 16 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.errors import Problem, SpecError
from roofsim.records import replace
from roofsim.spec.precision.formats import weight_format
from roofsim.spec.precision.roles import PATH, Precision, PrecisionRoles, known_precision, unknown_precision
from roofsim.spec.precision.stored_weights import StoredWeights
from roofsim.spec.scenario.adapter import Adapter
from roofsim.spec.settle.precision_roles import (
    Platform,
    formatted_precision,
    named_precision,
    no_arithmetic,
    resolve_precision,
)
from roofsim.spec.settle.stored_formats import check_loads

if TYPE_CHECKING:
    from roofsim.spec.engine.schema import Engine
    from roofsim.spec.hardware.schema import Gpu
    from roofsim.spec.reading.source import Document
    from roofsim.spec.scenario.workload import Workload
    from roofsim.spec.settle.hardware import Hardware


def choose_precision(
    workload: Workload, engine: Engine, hardware: Hardware, stored: StoredWeights | None, document: Document
) -> tuple[Precision, list[str], list[str]]:
    """Return the precision, what was assumed, and warnings.

    Raises
    ------
    SpecError
        For a precision that is unknown, or that card or engine do not run.
    """
    wanted, gpu = workload.precision, hardware.gpu
    stack = _stack(workload.phase, engine, gpu, tuple(hardware.architecture.converted))
    recipe: dict[str, Any] = {
        "recipe": engine.precision.recipe,
        "gradient_type": engine.training.gradient_type,
        "stack": stack,
    }
    try:
        if stored is not None and workload.phase != "train" and (wanted is None or _names_its_own(wanted, stored)):
            precision = stored_precision(stored, **recipe)
        elif isinstance(wanted, PrecisionRoles) and wanted.name is not None:
            precision = restored_precision(wanted, stored, stack)
        else:
            chosen = wanted or next((name for name in ("bf16", "fp16") if name in gpu.peak), "fp32")
            precision = resolve_precision(chosen, **recipe)
    except SpecError as error:
        problem = error.problems[0]
        place = document.place(tuple(problem.path.split(".")))
        raise SpecError(Problem(problem.message, place, problem.path, problem.hint)) from None
    precision = _with_frozen_base(precision, workload, engine, stored)
    notes = _notes(workload, stored, precision)
    assumed, warnings = ([], notes) if wanted else (notes, [])
    asked = wanted if isinstance(wanted, str) else precision.parameters
    if asked in engine.precision.weight_formats:
        assumed = [*assumed, f"precision {asked}: {engine.precision.weight_formats[asked]}, as {engine.name} has it"]
    if precision.weights is not None and workload.phase != "train":
        family = None if precision.stored is None else precision.stored.family
        place = document.place(("workload", "precision"))
        warnings = [*warnings, *check_loads(engine, precision.weights, gpu.architecture, place, family)]
    return precision, [*assumed, *precision.notes], warnings


def _names_its_own(wanted: str | PrecisionRoles, stored: StoredWeights) -> bool:
    """Whether a precision is the name that answers give the checkpoint's own weights, and no other has."""
    return isinstance(wanted, str) and wanted == stored.label and not known_precision(wanted)


def _with_frozen_base(
    precision: Precision, workload: Workload, engine: Engine, stored: StoredWeights | None
) -> Precision:
    """Return the types of training with the frozen base as a checkpoint stores it, where adapters are trained beside that."""
    own = None if stored is None else stored.weight_format()
    if workload.phase != "train" or stored is None or own is None or precision.operands is not None:
        return precision
    adapter = Adapter(kind=workload.adapter) if isinstance(workload.adapter, str) else workload.adapter
    kept = adapter is not None and adapter.kind == "lora" and adapter.base is None
    if not kept or own.family not in engine.training.frozen_formats:
        return precision
    note = f"the frozen base stays {stored.label}, as the checkpoint stores it"
    return replace(precision, weights=stored.label, stored=own, notes=(*precision.notes, note))


def _stack(phase: str, engine: Engine, gpu: Gpu, converted: tuple[str, ...]) -> Platform:
    """Return what a card and an engine make of a precision name."""
    return Platform(
        phase=phase,
        gpu=gpu.name,
        arithmetic=tuple(dict.fromkeys((*gpu.peak, *gpu.vector_peak))),
        engine=engine.name,
        sixteen=engine.precision.sixteen,
        converted=converted,
        facts=engine.precision,
    )


def stored_precision(stored: StoredWeights, *, recipe: str, gradient_type: str, stack: Platform) -> Precision:
    """Return the types of inference on a checkpoint's own weights.

    Raises
    ------
    SpecError
        When nobody can say what they take, or the card has not their arithmetic.
    """
    if stored.unread:
        hint = "State the precision that is nearest to it: --precision int4, int8, fp8, nf4 ... or 16 bits (bf16)."
        raise SpecError(Problem(stored.unread, path=PATH, hint=hint))
    stored_format = stored.weight_format()
    usual = stack.sixteen if stored_format is not None else "bf16"  # engines load files of 32 bits in 16
    stack = replace(stack, sixteen=usual if stored.dtype in (None, "fp32") else str(stored.dtype))
    if stored_format is None:
        return named_precision(stack.wide(), recipe, gradient_type, stack)
    given = formatted_precision(stored_format.name, stored_format, recipe, gradient_type, stack)
    cache = given.key_value_cache if stored.key_value_cache is None else stored.key_value_cache
    return replace(given, stored=stored_format, key_value_cache=cache)


def restored_precision(wanted: PrecisionRoles, stored: StoredWeights | None, stack: Platform) -> Precision:
    """Return a precision whose roles a result wrote out.

    Raises
    ------
    SpecError
        When the card has not its arithmetic, or no format has the name of its weights.
    """
    name, math, weights = str(wanted.name), str(wanted.math), wanted.weights
    own = None if stored is None or stored.label != weights else stored.weight_format()
    if weights is not None and own is None and weight_format(weights) is None:
        hint = unknown_precision(weights)
        raise SpecError(Problem(f"unknown weight format {weights!r}", path=f"{PATH}.weights", hint=hint))
    if not stack.has(math):
        raise no_arithmetic(name, math, stack)
    return Precision(
        name=name,
        compute=wanted.compute,
        math=math,
        parameters=str(wanted.parameters),
        gradients=str(wanted.gradients),
        optimizer_state=str(wanted.optimizer_state),
        master_parameters=wanted.master_parameters,
        key_value_cache=wanted.key_value_cache or wanted.compute,
        autocast=bool(wanted.autocast),
        weights=weights,
        stored=own,
        operands=wanted.operands,
        attention=wanted.attention,
    )


def _notes(workload: Workload, stored: StoredWeights | None, precision: Precision) -> list[str]:
    """Say which precision was taken where none is stated, and where the checkpoint's own was not taken."""
    phase, wanted = workload.phase, workload.precision
    if wanted is not None:
        if stored is None or not (stored.bits or stored.unread) or phase == "train" or precision.stored is not None:
            return []
        own = stored.label
        if own not in (wanted, precision.weights):
            return [f"precision {precision.name} as stated, instead of the checkpoint's own {own}"]
        leaves = f"precision {precision.name} as stated, in every linear layer; the checkpoint's own {own}, which is the default, "
        return [f"{leaves}leaves some of them in {stored.dtype or '16 bits'}"] if stored.only or stored.wide else []
    if stored is None or stored == StoredWeights():
        return [f"precision: {precision.name}"]
    own = stored.label
    if phase == "train" and precision.stored is None and (stored.bits is not None or stored.unread):
        why = f"training updates no {own} weights, the checkpoint is expanded first"
        if workload.adapter is not None:
            why = f"the frozen base is not kept as {own}, the checkpoint is expanded first (qlora stores it as nf4 or int8)"
        return [f"precision: {precision.name}; {why}"]
    return [f"precision: {precision.name}" + ("" if precision.name == own else f"; the checkpoint's own type is {own}")]
