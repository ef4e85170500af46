"""Refuse layouts of inference that an engine does not run."""

from __future__ import annotations

from typing import Final

from roofsim.spec.rules.rule import Rule, ScenarioCase

SERVED: Final[tuple[Rule[ScenarioCase], ...]] = (
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
