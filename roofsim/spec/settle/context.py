"""Settle how the ranks of a context group exchange keys and values, and refuse what no engine can do."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from roofsim.spec.scenario.layout import divisors, problem

if TYPE_CHECKING:
    from roofsim.spec.engine.schema import Engine
    from roofsim.spec.model.base import ModelSpec
    from roofsim.spec.model.traits import Traits
    from roofsim.spec.reading.source import Document
    from roofsim.spec.scenario.workload import Parallel, Workload

#: Forms in which attention works blocks of keys and values off one by one.
RINGS: Final = ("p2p", "gathered_ring", "a2a+p2p")
_PATH: Final = ("parallel", "context_communication")


def complete_context(
    parallel: Parallel, engine: Engine, model: ModelSpec, workload: Workload, document: Document
) -> tuple[Parallel, list[str]]:
    """Return the layout with its form of context parallelism written out, and what was assumed.

    Raises
    ------
    SpecError
        When the form does not go with the attention kernel, the model's heads or the length.
    """
    form = parallel.context_communication or engine.communication.context_communication
    notes: list[str] = []
    if parallel.context > 1 and model.splits_sequence and model.traits().recurrent:
        message = (
            f"context {parallel.context}: the states of {model.name} pass through a sequence from its first token on"
        )
        raise problem(document, ("parallel", "context"), message, "Use tensor, pipeline, data or expert ranks.")
    if parallel.context_heads is not None and form != "a2a+p2p":
        message = f"context_heads beside context_communication {form}"
        raise problem(document, ("parallel", "context_heads"), message, "Leave it out, or use a2a+p2p.")
    if parallel.context > 1:
        whole = model.traits()
        obstacle = _without_ring(engine, whole) if form in RINGS else None
        if obstacle is not None and parallel.context_communication is not None:
            message = f"context_communication {form} merges results of a fused kernel block by block; {obstacle}"
            raise problem(document, _PATH, message, "Use all_gather or a2a.")
        if obstacle is not None:
            form = "all_gather"
            notes.append(f"context_communication: all_gather instead of the engine's ring, for {obstacle}")
        if form == "a2a":
            _check_heads(parallel, parallel.context, whole, document)
        elif form == "a2a+p2p":
            parallel = _with_heads(parallel, whole, document, notes)
        if form != "a2a" and engine.communication.context_balance == "zigzag":
            _check_pieces(parallel, workload, document)
    return parallel.model_copy(update={"context_communication": form}), notes


def _without_ring(engine: Engine, model: Traits) -> str | None:
    if engine.attention.implementation in ("unfused", "fused_softmax"):
        return f"attention {engine.attention.implementation} is none"
    if model.windowed:
        return "the model's windowed layers run with none (Transformer Engine has windows in all_gather and a2a only)"
    return None


def _with_heads(parallel: Parallel, model: Traits, document: Document, notes: list[str]) -> Parallel:
    """Settle among how many ranks a2a+p2p deals heads out."""
    given = parallel.context_heads
    if given is None:
        given = math.gcd(parallel.context, max((model.key_value_heads or 1) // parallel.tensor, 1))
        notes.append(f"context_heads: {given}, what key-value heads and context have in common")
    if parallel.context % given:
        message = f"context_heads {given} does not divide context {parallel.context}"
        raise problem(document, ("parallel", "context_heads"), message, f"Use one of {divisors(parallel.context)}.")
    _check_heads(parallel, given, model, document)
    return parallel.model_copy(update={"context_heads": given})


def _check_heads(parallel: Parallel, context: int, model: Traits, document: Document) -> None:
    ranks = parallel.tensor * context
    for heads, what in ((model.attention_heads, "attention heads"), (model.key_value_heads, "key-value heads")):
        if heads is not None and heads % ranks:
            message = f"a2a divides {heads} {what} among tensor {parallel.tensor} x context {context} ranks"
            hint = f"Degrees whose product divides them: {divisors(heads)}; p2p and all_gather take any."
            raise problem(document, _PATH, message, hint)


def _check_pieces(parallel: Parallel, workload: Workload, document: Document) -> None:
    length, pieces = workload.sequence_length, 2 * parallel.context
    if isinstance(length, int) and length % pieces:
        message = f"{length} tokens do not fall into {pieces} pieces: zigzag gives each of {parallel.context} ranks two"
        hint = f"Use a multiple of {pieces} tokens, or engine_facts: {{context_balance: none}}."
        raise problem(document, ("parallel", "context"), message, hint)
