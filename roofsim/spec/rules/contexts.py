"""Refuse forms of context parallelism that the attention kernel, the heads or the length do not go with."""

from __future__ import annotations

from typing import Any, Final

from roofsim.spec.rules.rule import Rule, ScenarioCase
from roofsim.spec.scenario.layout import divisors

#: Forms in which attention works blocks of keys and values off one by one.
RINGS: Final = ("p2p", "gathered_ring", "a2a+p2p")


def obstacle(case: ScenarioCase) -> str | None:
    """Say why an engine has no ring for a model; None where it has."""
    if case.engine.attention.implementation in ("unfused", "fused_softmax"):
        return f"attention {case.engine.attention.implementation} is none"
    if case.traits.windowed:
        return "the model's windowed layers run with none (Transformer Engine has windows in all_gather and a2a only)"
    return None


def form(case: ScenarioCase) -> str | None:
    """Return how context ranks exchange keys and values, once that is settled."""
    return case.parallel.context_communication


def _heads_uneven(case: ScenarioCase) -> Any:
    """Tell whether ranks that exchange heads do not divide them."""
    if form(case) not in ("a2a", "a2a+p2p"):
        return False
    exchanging = case.point.context if form(case) == "a2a" else case.point.context_heads
    broken: Any = False
    for heads in (case.traits.attention_heads, case.traits.key_value_heads):
        if heads is not None:
            broken = broken | (heads % (case.point.tensor * exchanging) != 0)
    return broken


def _heads_that_divide(case: ScenarioCase) -> tuple[str, str]:
    context = case.point.context if form(case) == "a2a" else case.point.context_heads
    kinds = ((case.traits.attention_heads, "attention heads"), (case.traits.key_value_heads, "key-value heads"))
    ranks = case.point.tensor * context
    heads, what = next((heads, what) for heads, what in kinds if heads is not None and heads % ranks)
    message = f"a2a divides {heads} {what} among tensor {case.point.tensor} x context {context} ranks"
    return message, f"Degrees whose product divides them: {divisors(heads)}; p2p and all_gather take any."


def _pieces_uneven(case: ScenarioCase) -> Any:
    length = case.point.sequence_length
    if form(case) == "a2a" or case.engine.communication.context_balance != "zigzag" or length is None:
        return False
    return length % (2 * case.point.context) != 0


def _pieces(case: ScenarioCase) -> tuple[str, str]:
    length, context, pieces = case.point.sequence_length, case.point.context, 2 * case.point.context
    message = f"{length} tokens do not fall into {pieces} pieces: zigzag gives each of {context} ranks two"
    return message, f"Use a multiple of {pieces} tokens, or engine_facts: {{context_balance: none}}."


#: Of every layout.
ANY: Final[tuple[Rule[ScenarioCase], ...]] = (
    Rule(
        "context-of-recurrent",
        "parallel.context",
        lambda case: (case.model.splits_sequence and case.traits.recurrent) & (case.point.context > 1),
        lambda case: (
            f"context {case.point.context}: the states of {case.model.name} pass through a sequence from its first token on",
            "Use tensor, pipeline, data or expert ranks.",
        ),
    ),
    Rule(
        "context-heads-of-form",
        "parallel.context_heads",
        lambda case: case.point.context_heads is not None and form(case) != "a2a+p2p",
        lambda case: (f"context_heads beside context_communication {form(case)}", "Leave it out, or use a2a+p2p."),
    ),
)
#: Of several context ranks, where the scenario states their form.
RING: Final[tuple[Rule[ScenarioCase], ...]] = (
    Rule(
        "context-ring-of-attention",
        "parallel.context_communication",
        lambda case: form(case) in RINGS and obstacle(case) is not None,
        lambda case: (
            f"context_communication {form(case)} merges results of a fused kernel block by block; {obstacle(case)}",
            "Use all_gather or a2a.",
        ),
    ),
)
#: Of several context ranks whose form is settled.
SEVERAL: Final[tuple[Rule[ScenarioCase], ...]] = (
    Rule(
        "context-heads-divide-context",
        "parallel.context_heads",
        lambda case: form(case) == "a2a+p2p" and case.point.context % case.point.context_heads != 0,
        lambda case: (
            f"context_heads {case.point.context_heads} does not divide context {case.point.context}",
            f"Use one of {divisors(case.point.context)}.",
        ),
    ),
    Rule("context-divides-heads", "parallel.context_communication", _heads_uneven, _heads_that_divide),
    Rule("context-pieces", "parallel.context", _pieces_uneven, _pieces),
)
