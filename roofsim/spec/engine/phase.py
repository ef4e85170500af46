"""Say what an engine's facts are while it runs one phase: those of decode steps, of a card, of training or of inference alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from roofsim.spec.engine.schema import Engine


def in_phase(engine: Engine, phase: str, architecture: str | None = None) -> Engine:
    """Return the engine as it runs a phase on a GPU architecture: facts that differ elsewhere are those that hold here.

    ``attention.generation``, ``launch.mode`` and ``cache.write_kernels`` are those of the phase and card, and
    ``attention.decode_generation`` is null outside of decode steps. Facts of inference alone are at their defaults in training;
    what an engine's model code does in training, it does in a forward pass.
    """
    decodes, training = phase == "decode", phase == "train"
    facts: dict[str, Any] = {}
    if architecture is not None:
        facts |= {
            "attention_generation": engine.attention_on(architecture, decodes=decodes),
            "launch": engine.launch_on(architecture, decodes=decodes),
        }
    if decodes:
        facts["cache_write_kernels"] = engine.cache.decode_write_kernels
    else:
        facts["decode_attention"] = None
    facts |= _defaults(engine, INFERENCE_ONLY) if training else {}
    return engine.changed(**facts)


#: Facts that only inference shows: no backward pass is written for them.
INFERENCE_ONLY: Final = ("attention_copies", "router")


def _defaults(engine: Engine, names: tuple[str, ...]) -> dict[str, Any]:
    blank = type(engine)(name=engine.name)
    return {name: blank.fact(name) for name in names}
