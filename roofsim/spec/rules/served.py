"""Refuse layouts of inference, and beam search, that an engine does not run."""

from __future__ import annotations

from typing import Final

from roofsim.spec.rules.rule import Rule, ScenarioCase

_PHASES: Final = ("decode", "generate")


def _beams(case: ScenarioCase) -> bool:
    return (case.workload.beam_width or 1) > 1


def _searching() -> str:
    """Return the engines that have beam search."""
    from roofsim.spec import catalog
    from roofsim.spec.engine.schema import catalog_engine

    return " and ".join(name for name in catalog.names("engine") if catalog_engine(name).cache.beams != "none")


_BEAMS: Final[tuple[Rule[ScenarioCase], ...]] = (
    Rule(
        "beams-of-phase",
        "workload.beam_width",
        lambda case: _beams(case) and case.workload.phase not in _PHASES,
        lambda case: (f"belongs to decode and generate, not to {case.workload.phase}", "Leave it out."),
    ),
    Rule(
        "beams-of-model",
        "workload.beam_width",
        lambda case: _beams(case) and not case.model.decoder_only(),
        lambda case: (f"beam search of {case.model.name} is not modelled: only that of decoders", "Leave it out."),
    ),
    Rule(
        "beams-of-engine",
        "workload.beam_width",
        lambda case: _beams(case) and case.engine.cache.beams == "none",
        lambda case: (
            f"engine {case.engine.name} has no beam search",
            f"{_searching()} have. If yours does, state workload.engine_facts.beam_search: shared, or copied.",
        ),
    ),
)

SERVED: Final[tuple[Rule[ScenarioCase], ...]] = (
    *_BEAMS,
    Rule(
        "tensor-of-engine",
        "parallel.tensor",
        lambda case: (
            (case.workload.phase != "train" and not case.engine.communication.tensor_parallel) & (case.point.tensor > 1)
        ),
        lambda case: (
            f"engine {case.engine.name} does not split layers over tensor ranks",
            f"Deal layers out to cards: pipeline: {case.point.tensor}.",
        ),
    ),
)
