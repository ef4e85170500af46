"""Refuse beam search where nothing is generated, or where the engine or the model has none."""

from __future__ import annotations

from typing import Final

from roofsim.spec.rules.rule import Rule, ScenarioCase

_PHASES: Final = ("decode", "generate")


def _beams(case: ScenarioCase) -> bool:
    return (case.workload.beam_width or 1) > 1


BEAMS: Final[tuple[Rule[ScenarioCase], ...]] = (
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
            "tensorrt-llm and huggingface have. If yours does, state workload.engine_facts.beam_search: shared, or copied.",
        ),
    ),
)
