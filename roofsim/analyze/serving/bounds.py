"""Say what binds the steps of a server as it runs them, with the draft's passes and the host between, and where that turns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.bottleneck import bottleneck
from roofsim.analyze.serving.surface import Passes, mesh
from roofsim.cost.pricing import Scales
from roofsim.numeric import maximum, without_axis

if TYPE_CHECKING:
    from roofsim.analyze.serving.load import Load, Steady
    from roofsim.analyze.serving.plan import Plan
    from roofsim.analyze.serving.timing import Timing
    from roofsim.evaluate import Evaluation
    from roofsim.numeric import Real
    from roofsim.schedule.step import StepTime

#: Rows of a step up to which its turning point is sought, at least.
_ROWS: Final = 2.0**12


@dataclass(frozen=True)
class _Step:
    """A step put together from passes, each with how often it counts, and seconds of the host between steps.

    `gathered` are seconds of adapters: each has few rows, which fill no tile, so that more requests for other adapters bring
    no arithmetic that would be worth while, but further factors to read. They count as memory's.
    """

    passes: tuple[tuple[Evaluation, float], ...]
    host: float = 0.0
    gathered: Real = 0.0

    def on(self, scales: Scales) -> StepTime:
        """Return the step on scaled hardware; only its sum and its resources are those of all passes."""
        steps = [(evaluation.reprice(scales), often) for evaluation, often in self.passes]
        resources: dict[str, Real] = {
            "launch": self.host / without_axis(scales.host_issue_rate),
            "memory_bandwidth": self.gathered / without_axis(scales.memory_bandwidth),
        }
        for step, often in steps:
            for name, seconds in step.resources.items():
                resources[name] = resources.get(name, 0.0) + seconds * often
        total: Real = 0.0
        for name, seconds in resources.items():
            resources[name] = maximum(seconds, 0.0)
            total = total + resources[name]
        return replace(steps[0][0], step=total, resources=resources)


def bounds_of(plan: Plan, timing: Timing, load: Load, steady: Steady | None) -> dict[str, dict[str, Any]]:
    """Return what binds a pass over prompts and a decode step, each of the size that it usually has under the load."""
    servers = plan.replicas * load.batches
    running = load.limit if steady is None else steady.running / servers
    running = max(min(running, load.limit), 1.0)
    tokens = min(load.tokens, load.budget)
    prompts = max(tokens / load.tokens, 1.0)
    return {
        "prefill": _bound(_prefill(plan, timing, load, tokens), timing.prompt_pass(tokens, prompts)),
        "decode": _bound(_decode(plan, timing, load, running), timing.decode_step(running, load.context))
        | {"requests": running},
    }


def _bound(step: _Step, seconds: float) -> dict[str, Any]:
    found = bottleneck(step.on(Scales()), step.on)
    return {"bound": found.bound, "runner_up": found.runner_up, "headroom": found.headroom, "time": seconds}


def _prefill(plan: Plan, timing: Timing, load: Load, tokens: float) -> _Step:
    passes = [(Passes(plan.resolved, plan.adapters, load.batches).prompts(tokens, plan.prompt, plan.cached), 1.0)]
    if plan.draft is not None:
        passes.append((Passes(plan.draft, None, load.batches).prompts(tokens, plan.prompt, plan.cached), 1.0))
    return _Step(tuple(passes), timing.host_step + timing.host_sequence)


def _decode(plan: Plan, timing: Timing | None, load: Load, running: Real) -> _Step:
    """Return a decode step of so many requests: the check of their guesses, with each cache read once, and the guessing."""
    base = Passes(plan.resolved, None, load.batches)
    guesses, spec = float(plan.guesses), plan.serving.speculative
    rows, seen = running * (1.0 + guesses), 1.0 if guesses else plan.context
    check = base.decode(rows, seen)
    gathered: Real = 0.0
    if plan.adapters is not None:
        adapted = Passes(plan.resolved, plan.adapters, load.batches).decode(rows, seen, running)
        gathered = adapted.step.step - check.step.step
    passes = [(check, 1.0)]
    if guesses:
        passes += [(base.decode(running, plan.context), 1.0), (base.decode(running, 1.0), -1.0)]
    if plan.draft is not None:
        passes.append((Passes(plan.draft, None, load.batches).decode(running, plan.context), guesses))
    elif spec is not None and spec.draft_cost is not None:
        passes.append((base.decode(running, plan.context), guesses * spec.draft_cost))
    host = 0.0 if timing is None else timing.host_step + timing.host_sequence * float(np.max(running))
    return _Step(tuple(passes), host, gathered)


def turning(plan: Plan, load: Load, *, products: bool = False) -> float | None:
    """Return the running requests of a replica from which decode steps wait for arithmetic more than for memory.

    `products`: from which the products with the model's weights do, whatever caches, adapters and guesses take. Each request
    has a row in them, and one more for each guess.
    """
    each = 1.0 + plan.guesses
    running = mesh(max(load.limit, _ROWS) * each) / each
    if products:
        step = _Step(((Passes(plan.resolved, None, load.batches).decode(running * each, 1.0), 1.0),))
    else:
        step = _decode(plan, None, load, running)
    resources = step.on(Scales()).resources
    # What power withholds is arithmetic that would be there.
    lead = np.broadcast_to(resources["compute"] + resources["power"] - resources["memory_bandwidth"], running.shape)
    below = np.flatnonzero(lead <= 0.0)
    at = int(below[-1]) + 1 if below.size else 0  # from here on, for good
    if at == len(running):
        return None
    found = running[0]
    if at > 0:
        share = lead[at - 1] / (lead[at - 1] - lead[at])
        found = running[at - 1] + share * (running[at] - running[at - 1])
    return max(float(found), 1.0) * load.batches
