"""What the GPUs of a server draw under a load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.analyze.watts import drawn_watts
from roofsim.serve.surface import Passes

if TYPE_CHECKING:
    from roofsim.evaluate import Evaluation
    from roofsim.serve.load import Steady
    from roofsim.serve.plan import ServerPlan


def watts_of(plan: ServerPlan, steady: Steady) -> float | None:
    """Return the mean watts of each GPU: of steps of the requests that run, and of passes over prompts for their share of the time.

    Requests that run are half way through their answers. None where the card's power is not known.
    """
    passes = Passes(plan.resolved, None, 1.0)
    decoding = _watts(passes.decode(max(steady.running, 1.0), plan.prompt + plan.output / 2.0))
    reading = _watts(passes.prompts(min(plan.budget, max(plan.prompt - plan.cached, 1.0)), plan.prompt, plan.cached))
    if decoding is None or reading is None:
        return None
    return steady.prompt_share * reading + (1.0 - steady.prompt_share) * decoding


def _watts(evaluation: Evaluation) -> float | None:
    watts = drawn_watts(evaluation)
    return None if watts is None else float(watts)
