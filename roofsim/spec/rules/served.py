"""Refuse layouts of inference, beam search, parallel sampling and guided decoding that an engine does not run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.spec.rules.rule import Rule, ScenarioCase

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.spec.engine.schema import Engine

_PHASES: Final = ("decode", "generate")


def _beams(case: ScenarioCase) -> bool:
    return (case.workload.beam_width or 1) > 1


def _samples(case: ScenarioCase) -> bool:
    return (case.workload.num_return_sequences or 1) > 1


def _guided(case: ScenarioCase) -> bool:
    return case.workload.guided_decoding is not None


def _way_out(way: Callable[[Engine], str], does: str, fact: str) -> str:
    """Return the engines that do something in a way that is known, and how to state the fact."""
    from roofsim.spec import catalog
    from roofsim.spec.engine.schema import catalog_engine

    known = [name for name in catalog.names("engine") if way(catalog_engine(name)) != "none"]
    able = f"{', '.join(known[:-1])} and {known[-1]} {does}."
    return f"{able} If yours does, state workload.engine_facts.{fact}."


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
            _way_out(lambda engine: engine.cache.beams, "have", "beam_search: shared, or copied"),
        ),
    ),
)

_SAMPLES: Final[tuple[Rule[ScenarioCase], ...]] = (
    Rule(
        "samples-of-phase",
        "workload.num_return_sequences",
        lambda case: _samples(case) and case.workload.phase not in _PHASES,
        lambda case: (f"belongs to decode and generate, not to {case.workload.phase}", "Leave it out."),
    ),
    Rule(
        "samples-of-model",
        "workload.num_return_sequences",
        lambda case: _samples(case) and not case.model.decoder_only(),
        lambda case: (
            f"several answers of {case.model.name} are not modelled: only those of decoders",
            "Raise batch_size.",
        ),
    ),
    Rule(
        "samples-of-beams",
        "workload.num_return_sequences",
        lambda case: _samples(case) and _beams(case),
        lambda _: ("several answers of a beam search are not modelled", "A search keeps beam_width of them anyway."),
    ),
    Rule(
        "samples-of-engine",
        "workload.num_return_sequences",
        lambda case: _samples(case) and case.engine.cache.samples == "none",
        lambda case: (
            f"engine {case.engine.name} does not say whether answers to a prompt share its cache",
            _way_out(lambda engine: engine.cache.samples, "do", "parallel_sampling: shared, or copied"),
        ),
    ),
)

_GUIDED: Final[tuple[Rule[ScenarioCase], ...]] = (
    Rule(
        "guided-of-phase",
        "workload.guided_decoding",
        lambda case: _guided(case) and case.workload.phase not in _PHASES,
        lambda case: (f"belongs to decode and generate, not to {case.workload.phase}", "Leave it out."),
    ),
    Rule(
        "guided-of-model",
        "workload.guided_decoding",
        lambda case: _guided(case) and not case.model.decoder_only(),
        lambda case: (f"guided decoding of {case.model.name} is not modelled: only that of decoders", "Leave it out."),
    ),
    Rule(
        "guided-of-engine",
        "workload.guided_decoding",
        lambda case: _guided(case) and case.engine.launch.masks == "none",
        lambda case: (
            f"engine {case.engine.name} does not say when it computes masks",
            _way_out(lambda engine: engine.launch.masks, "do", "guided_masks: beside, or between"),
        ),
    ),
)

SERVED: Final[tuple[Rule[ScenarioCase], ...]] = (
    *_BEAMS,
    *_SAMPLES,
    *_GUIDED,
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
