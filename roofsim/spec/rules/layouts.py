"""Refuse a layout that the model or the batch cannot be split by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.spec.model.registry import families_that
from roofsim.spec.rules.experts import EXPERTS
from roofsim.spec.rules.pipelines import PIPELINES
from roofsim.spec.rules.rule import Rule, ScenarioCase
from roofsim.spec.rules.tables import TABLES
from roofsim.spec.rules.workers import WORKERS
from roofsim.spec.scenario.layout import divisors

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.spec.model.base import ModelSpec
    from roofsim.spec.rules.rule import Checks
    from roofsim.spec.scenario.point import Number

#: Phases in which a sequence has all its tokens at once.
_WHOLE: Final = ("train", "forward", "prefill")


def check_layout(case: ScenarioCase, checks: Checks) -> None:
    """Refuse a layout that the model or the batch cannot be split by.

    Raises
    ------
    SpecError
        Names the degree, what it must divide, and the degrees that would.
    """
    checks.hold(LAYOUTS, case)


def _serves(case: ScenarioCase) -> bool:
    return case.workload.phase != "train"


def _splits_tensor(schema: type[ModelSpec] | ModelSpec) -> bool:
    return schema.splits_tensor


def _splits_sequence(schema: type[ModelSpec] | ModelSpec) -> bool:
    return schema.splits_sequence


def _which(case: ScenarioCase, degree: str, otherwise: str) -> str:
    """Say which models a degree does not split: of a family, or this one for something that it has."""
    part = case.model.unsplit(degree)
    return f"{case.model.name} is not split by {degree} in this version: {part} is not" if part else otherwise


def _not_split(name: str, able: Callable[[type[ModelSpec] | ModelSpec], bool]) -> Rule[ScenarioCase]:
    """Return the rule of a degree that only some families are split by."""
    return Rule(
        f"{name}-of-family",
        f"parallel.{name}",
        lambda case: (not able(case.model)) & (getattr(case.point, name) > 1),
        lambda case: (
            _which(case, name, f"{case.model.family} models are not split by {name} in this version"),
            f"Families that are: {', '.join(families_that(able))}. data and sharding work for all.",
        ),
    )


def _unsplit(case: ScenarioCase) -> list[tuple[str, Number]]:
    """Return what tensor ranks do not divide, of a case of one point."""
    return [(name, number) for name, number in case.traits.tensor_splits if _uneven(number, case.point.tensor)]


def _uneven(number: Number, degree: Number) -> Any:
    return False if number is None else number % degree != 0


def _splits_unevenly(case: ScenarioCase) -> Any:
    broken: Any = False
    for _, number in case.traits.tensor_splits:
        broken = broken | _uneven(number, case.point.tensor)
    return (case.point.tensor > 1) & broken


def does_not_divide(name: str, degree: Number, what: str, size: Number) -> tuple[str, str]:
    """Say that a degree does not divide a size, and which would."""
    return f"{name} {degree} does not divide {what} {size}", f"Use one of {divisors(size)}."


def _heads_unshared(case: ScenarioCase) -> Any:
    heads, tensor = case.traits.key_value_heads, case.point.tensor
    return False if heads is None else (tensor > 1) & (heads % tensor != 0) & (tensor % heads != 0)


def _length_key(case: ScenarioCase) -> str:
    return "prompt_length" if case.workload.phase == "prefill" else "sequence_length"


def _length(case: ScenarioCase) -> Number:
    return getattr(case.point, _length_key(case))


def _tokens_not_even(case: ScenarioCase) -> Any:
    point, length = case.point, _length(case)
    if not case.parallel.sequence or case.workload.phase not in _WHOLE or length is None:
        return False
    return (point.tensor > 1) & (length % (point.tensor * point.context) != 0)


def _even_tokens(case: ScenarioCase) -> tuple[str, str]:
    point = case.point
    ranks = point.tensor * point.context
    shown = f"tensor {point.tensor}" + (f" x context {point.context}" if point.context > 1 else "")
    message = f"sequence parallelism cannot split {_length(case)} tokens evenly over {shown} ranks"
    return message, f"Use a multiple of {ranks} tokens, or sequence: false."


INFERENCE: Final[tuple[Rule[ScenarioCase], ...]] = (
    Rule(
        "virtual-stages-in-inference",
        "parallel.virtual_stages",
        lambda case: _serves(case) & (case.point.virtual_stages > 1),
        lambda case: (f"virtual stages belong to training, not to phase {case.workload.phase}", "Leave it out."),
    ),
    Rule(
        "context-in-generation",
        "parallel.context",
        lambda case: (case.workload.phase not in _WHOLE) & (case.point.context > 1),
        lambda case: (
            f"context {case.point.context} in phase {case.workload.phase}: new tokens are not split by context in this version",
            "tensor, pipeline, data and expert are.",
        ),
    ),
    Rule(
        "sharding-in-inference",
        "parallel.sharding",
        lambda case: _serves(case) and case.parallel.sharding not in (None, "none"),
        lambda case: (f"sharding belongs to training, not to phase {case.workload.phase}", "Leave it out."),
    ),
    Rule(
        "sequence-in-generation",
        "parallel.sequence",
        lambda case: case.parallel.sequence & (case.workload.phase in ("decode", "generate")) & (case.point.tensor > 1),
        lambda case: (
            f"sequence parallelism splits the tokens of a sequence; phase {case.workload.phase} adds one at a time",
            "Leave it out.",
        ),
    ),
    Rule(
        "expert-capacity-in-inference",
        "parallel.expert_capacity",
        lambda case: _serves(case) and case.point.expert_capacity is not None,
        lambda case: (
            f"a capacity factor belongs to training: experts drop no tokens in phase {case.workload.phase}",
            "Leave it out.",
        ),
    ),
)

LAYOUTS: Final[tuple[Rule[ScenarioCase], ...]] = (
    *INFERENCE,
    _not_split("tensor", _splits_tensor),
    Rule(
        "tensor-of-program",
        "parallel.tensor",
        lambda case: (case.traits.program_ranks > 1) & (case.point.tensor != case.traits.program_ranks),
        lambda case: (
            f"{case.model.name} is the program of one of {case.traits.program_ranks} ranks, which exchange tensors",
            f"Run it on as many: --gpus {case.traits.program_ranks} --tensor {case.traits.program_ranks}.",
        ),
    ),
    _not_split("context", _splits_sequence),
    Rule(
        "sequence-of-family",
        "parallel.sequence",
        lambda case: (case.parallel.sequence and not case.model.splits_sequence) & (case.point.tensor > 1),
        lambda case: (
            _which(case, "sequence", f"{case.model.family} models are not split along the sequence in this version"),
            f"Families that are: {', '.join(families_that(_splits_sequence))}. Leave sequence out.",
        ),
    ),
    Rule(
        "tensor-divides-model",
        "parallel.tensor",
        _splits_unevenly,
        lambda case: does_not_divide("tensor", case.point.tensor, *_unsplit(case)[0]),
    ),
    Rule(
        "tensor-of-key-value-heads",
        "parallel.tensor",
        _heads_unshared,
        lambda case: (
            (
                f"tensor {case.point.tensor} neither divides the {case.traits.key_value_heads} key-value heads nor is a multiple "
                "of them"
            ),
            f"Use one of {divisors(case.traits.key_value_heads)}.",
        ),
    ),
    *PIPELINES,
    Rule(
        "context-divides-length",
        "parallel.context",
        lambda case: (case.point.context > 1) & _uneven(_length(case), case.point.context),
        lambda case: does_not_divide("context", case.point.context, _length_key(case), _length(case)),
    ),
    *TABLES,
    *WORKERS,
    Rule("sequence-divides-length", "parallel.sequence", _tokens_not_even, _even_tokens),
    *EXPERTS,
    Rule(
        "imbalance-without-experts",
        "parallel.expert_imbalance",
        lambda case: (case.point.expert_imbalance > 1) & (case.point.expert == 1),
        lambda case: (
            f"expert_imbalance {case.point.expert_imbalance:g} without expert: no rank has fewer experts than another",
            "Set parallel.expert, or leave it out.",
        ),
    ),
)
