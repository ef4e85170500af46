"""Settle how the ranks of a context group exchange keys and values, and refuse what no engine can do."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from roofsim.numeric import maximum
from roofsim.points import like
from roofsim.records import replace
from roofsim.spec.rules.contexts import ANY, RING, RINGS, SEVERAL, form, obstacle
from roofsim.traced.points import as_array

if TYPE_CHECKING:
    from roofsim.spec.rules.rule import Checks, ScenarioCase
    from roofsim.spec.scenario.point import Number


def complete_context(case: ScenarioCase, checks: Checks) -> tuple[ScenarioCase, list[str]]:
    """Return the case with its form of context parallelism and the ranks that exchange heads, and what was assumed.

    Raises
    ------
    SpecError
        When the form does not go with the attention kernel, the model's heads or the length.
    """
    notes: list[str] = []
    stated = case.parallel.context_communication
    case = _in_form(case, stated or case.engine.communication.context_communication)
    checks.hold(ANY, case)
    if case.point.context > 1:
        if stated is not None:
            checks.hold(RING, case)
        elif form(case) in RINGS and (why := obstacle(case)) is not None:
            notes.append(f"context_communication: all_gather instead of the engine's ring, for {why}")
            case = _in_form(case, "all_gather")
        if form(case) == "a2a+p2p" and case.point.context_heads is None:
            heads = _common_heads(case)
            if not checks.quiet:
                notes.append(f"context_heads: {heads}, what key-value heads and context have in common")
            case = replace(case, point=replace(case.point, context_heads=heads))
        checks.hold(SEVERAL, case)
    return case, notes


def _in_form(case: ScenarioCase, chosen: str) -> ScenarioCase:
    return replace(case, parallel=case.parallel.model_copy(update={"context_communication": chosen}))


def _common_heads(case: ScenarioCase) -> Number:
    """Return among how many ranks a2a+p2p deals heads out where nobody says."""
    context, heads = case.point.context, (case.traits.key_value_heads or 1) // case.point.tensor
    if isinstance(context, int) and isinstance(heads, int):
        return math.gcd(context, max(heads, 1))
    heads = maximum(heads, 1.0)
    return like(np.gcd(as_array(context, dtype=int), as_array(heads, dtype=int)).astype(float), context, heads)
