"""Refuse experts that ranks cannot share evenly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.spec.rules.rule import Rule, ScenarioCase
from roofsim.spec.scenario.layout import divisors, expert_tensor_of

if TYPE_CHECKING:
    from roofsim.spec.scenario.point import Number


def _asked(case: ScenarioCase) -> Any:
    """Tell whether the layout says anything of experts."""
    point = case.point
    return (point.expert > 1) | (point.expert_tensor is not None) | (point.expert_capacity is not None)


def _served(case: ScenarioCase) -> bool:
    """Tell whether ranks beyond those of experts split each of them: what inference does without sequence parallelism."""
    return case.workload.phase != "train" and not case.parallel.sequence


def _held(case: ScenarioCase) -> Number:
    """Return the experts that ranks hold together, copies included."""
    return case.traits.experts + case.point.redundant_experts


def _copied(case: ScenarioCase) -> Any:
    return case.point.redundant_experts > 0


def _uneven(case: ScenarioCase) -> bool:
    """Tell whether some ranks may hold one expert more than others."""
    return _served(case) and case.engine.experts.uneven


def _not_dealt_out(case: ScenarioCase) -> tuple[str, str]:
    """Say which numbers of ranks share the experts evenly, and how many copies would make this one do so."""
    expert, copies = case.point.expert, case.point.redundant_experts
    if not _served(case) or not case.engine.experts.copies:
        return _not_even("expert", expert, "num_experts", case.traits.experts)
    what = "num_experts" + (" + redundant_experts" if copies else "")
    message, hint = _not_even("expert", expert, what, _held(case))
    return message, f"{hint.rstrip('.')}, or redundant_experts: {-case.traits.experts % expert}."


def _width(case: ScenarioCase) -> Number:
    """Return the ranks that split each expert."""
    return expert_tensor_of(case.point)


def _dealt(case: ScenarioCase) -> Any:
    return (not _served(case)) & _asked(case) & ((case.point.expert > 1) | (_width(case) != case.point.tensor))


def _ranks(case: ScenarioCase) -> Number:
    """Return the ranks of a stage."""
    ranks = case.point.tensor * case.point.data
    return ranks if _served(case) else ranks * case.point.context


def _width_uneven(case: ScenarioCase) -> Any:
    size = case.traits.expert_width
    return False if size is None or _served(case) else _asked(case) & (size % _width(case) != 0)


def _not_even(name: str, degree: Number, what: str, size: Number) -> tuple[str, str]:
    return f"{name} {degree} does not divide {what} {size}", f"Use one of {divisors(size)}."


def _ranks_that_fit(case: ScenarioCase) -> tuple[str, str]:
    expert, width, ranks = case.point.expert, _width(case), _ranks(case)
    shown = f"expert {expert}" + (f" x expert_tensor {width}" if width > 1 else "")
    message = f"{shown} does not divide tensor x context x data = {ranks}, the ranks of a stage"
    return message, f"Use one of {divisors(ranks)}."


def _served_beside_tensor(case: ScenarioCase) -> tuple[str, str]:
    expert, tensor, ranks = case.point.expert, case.point.tensor, _ranks(case)
    fits = [n for n in range(1, ranks + 1) if ranks % n == 0 and (tensor % n == 0 or n % tensor == 0)]
    message = f"expert {expert} neither divides tensor {tensor} nor is a multiple of it"
    return message, f"Use one of {', '.join(map(str, fits[:12]))}."


def _left(case: ScenarioCase) -> Number:
    """Return the tensor ranks that remain to split an expert in inference."""
    left = case.point.tensor // case.point.expert
    return left + (left < 1)


def _other_width(case: ScenarioCase) -> Any:
    width = case.point.expert_tensor
    return False if width is None or not _served(case) else width != _left(case)


EXPERTS: Final[tuple[Rule[ScenarioCase], ...]] = (
    Rule(
        "expert-without-experts",
        "parallel.expert",
        lambda case: (not case.traits.experts) & _asked(case),
        lambda _: ("the model has no experts", "Leave it out."),
    ),
    Rule(
        "expert-divides-experts",
        "parallel.expert",
        lambda case: _asked(case) & (_held(case) % case.point.expert != 0) & (not _uneven(case) or _copied(case)),
        _not_dealt_out,
    ),
    Rule(
        "expert-of-each-rank",
        "parallel.expert",
        lambda case: _asked(case) & (case.point.expert > _held(case)),
        lambda case: (
            f"expert {case.point.expert} is more than the {_held(case)} experts: ranks would hold none",
            f"Use at most {_held(case)}.",
        ),
    ),
    Rule(
        "redundant-experts-in-training",
        "parallel.redundant_experts",
        lambda case: _copied(case) & (case.workload.phase == "train"),
        lambda _: ("copies of experts belong to inference", "Leave it out."),
    ),
    Rule(
        "redundant-experts-over-ranks",
        "parallel.redundant_experts",
        lambda case: _copied(case) & (case.point.expert == 1),
        lambda case: (
            f"redundant_experts {case.point.redundant_experts} without expert: one rank holds all experts",
            "Set parallel.expert, or leave it out.",
        ),
    ),
    Rule(
        "redundant-experts-of-engine",
        "parallel.redundant_experts",
        lambda case: _copied(case) & (not case.engine.experts.copies),
        lambda case: (
            f"engine {case.engine.name} does not copy experts",
            "Leave it out; if yours does, state workload.engine_facts.expert_copies: true.",
        ),
    ),
    Rule(
        "expert-divides-ranks",
        "parallel.expert",
        lambda case: _served(case) & _asked(case) & (_ranks(case) % case.point.expert != 0),
        lambda case: (
            f"expert {case.point.expert} does not divide tensor x data = {_ranks(case)}, the ranks of a stage",
            f"Use one of {divisors(_ranks(case))}.",
        ),
    ),
    Rule(
        "expert-beside-tensor",
        "parallel.expert",
        lambda case: (
            _served(case)
            & _asked(case)
            & (case.point.tensor % case.point.expert != 0)
            & (case.point.expert % case.point.tensor != 0)
        ),
        _served_beside_tensor,
    ),
    Rule(
        "expert-tensor-left",
        "parallel.expert_tensor",
        _other_width,
        lambda case: (
            (
                f"expert_tensor {case.point.expert_tensor}, but tensor {case.point.tensor} over expert {case.point.expert} leaves "
                f"{_left(case)}"
            ),
            "Leave it out.",
        ),
    ),
    Rule(
        "expert-tensor-divides-width",
        "parallel.expert_tensor",
        _width_uneven,
        lambda case: _not_even("expert_tensor", _width(case), "expert_intermediate_size", case.traits.expert_width),
    ),
    Rule(
        "experts-need-sequence",
        "parallel.expert",
        lambda case: (not case.parallel.sequence) & _dealt(case) & (case.point.tensor > 1),
        lambda _: (
            "experts dealt out beside tensor parallelism need sequence: true (each tensor rank has its tokens)",
            "Set parallel.sequence.",
        ),
    ),
    Rule(
        "expert-divides-stage",
        "parallel.expert",
        lambda case: _dealt(case) & (_ranks(case) % (case.point.expert * _width(case)) != 0),
        _ranks_that_fit,
    ),
)
