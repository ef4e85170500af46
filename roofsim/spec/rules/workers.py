"""Refuse workers that train apart where that means nothing, or is not modelled."""

from __future__ import annotations

from typing import Final

from roofsim.spec.rules.rule import Rule, ScenarioCase


def _apart(case: ScenarioCase) -> bool:
    return case.parallel.local_steps is not None


WORKERS: Final[tuple[Rule[ScenarioCase], ...]] = (
    Rule(
        "workers-of-phase",
        "parallel.local_steps",
        lambda case: _apart(case) and case.workload.phase != "train",
        lambda case: (f"belongs to train, not to {case.workload.phase}", "Leave it out."),
    ),
    Rule(
        "workers-of-optimizer",
        "parallel.local_steps",
        lambda case: _apart(case) and case.workload.optimizer == "none",
        lambda _: ("optimizer none takes no steps of its own", "Name the inner optimizer: adamw."),
    ),
    Rule(
        "workers-of-experts",
        "parallel.local_steps",
        lambda case: _apart(case) and (case.point.expert > 1),
        lambda _: ("workers whose experts are dealt out over ranks are not modelled", "Use expert: 1."),
    ),
    Rule(
        "workers-of-tables",
        "parallel.local_steps",
        lambda case: _apart(case) and case.model.deals_tables,
        lambda case: (
            f"workers of {case.model.family} models, whose tables are updated row by row, are not modelled",
            "Leave it out.",
        ),
    ),
)
