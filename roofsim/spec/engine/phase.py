"""Say what an engine's facts are while it runs one phase: those of decode steps, of training or of inference alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from roofsim.spec.engine.schema import Engine

#: Facts that only inference shows: no backward pass is written for them.
INFERENCE_ONLY: Final = ("attention_copies", "router")


def in_phase(engine: Engine, phase: str) -> Engine:
    """Return the engine as it runs a phase.

    ``attention.decode_generation`` is null outside of decode steps, and facts of inference alone are at their defaults in
    training; what an engine's model code does in training, it does in a forward pass.
    """
    facts: dict[str, Any] = {} if phase == "decode" else {"decode_attention": None}
    if phase == "train":
        blank = type(engine)(name=engine.name)
        facts |= {name: blank.fact(name) for name in INFERENCE_ONLY}
    return engine.changed(**facts)
