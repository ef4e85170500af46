"""Say what binds the steps of a server as it runs them, with the draft's passes and the host between, and where that turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.bottleneck import bottleneck, leverage_of
from roofsim.cost.scales import Scales
from roofsim.records import dataclass, replace
from roofsim.schedule.step import LINKS
from roofsim.serve.surface import Passes, mesh

if TYPE_CHECKING:
    from roofsim.evaluate import Evaluation
    from roofsim.numeric import Array, Real
    from roofsim.schedule.step import StepTime
    from roofsim.serve.load import Load, Steady
    from roofsim.serve.plan import ServerPlan
    from roofsim.serve.timing import Timing

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
        return self._of([evaluation.reprice(scales) for evaluation, _ in self.passes], scales)

    @property
    def now(self) -> StepTime:
        """The step on the hardware as it is."""
        return self._of([evaluation.step for evaluation, _ in self.passes], Scales())

    def _of(self, steps: list[StepTime], scales: Scales) -> StepTime:
        resources: dict[str, Real] = {
            "launch": self.host / scales.host_issue_rate,
            "memory_bandwidth": self.gathered / scales.memory_bandwidth,
        }
        total: Real = resources["launch"] + resources["memory_bandwidth"]
        for step, (_, often) in zip(steps, self.passes, strict=True):
            total = total + step.step * often
            for name, seconds in step.resources.items():
                resources[name] = resources.get(name, 0.0) + seconds * often
        return replace(steps[0], step=total, resources=resources)


def bounds_of(plan: ServerPlan, timing: Timing, load: Load, steady: Steady | None) -> dict[str, dict[str, Any]]:
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
    verdict = bottleneck(step.now, step.on)
    return {"bound": verdict.bound, "runner_up": verdict.runner_up, "headroom": verdict.headroom, "time": seconds}


def _prefill(plan: ServerPlan, timing: Timing, load: Load, tokens: float) -> _Step:
    passes = [(Passes(plan.resolved, plan.adapters, load.batches).prompts(tokens, plan.prompt, plan.cached), 1.0)]
    if plan.draft is not None:
        passes.append((Passes(plan.draft, None, load.batches).prompts(tokens, plan.prompt, plan.cached), 1.0))
    return _Step(tuple(passes), timing.host_step + timing.host_sequence)


def _decode(plan: ServerPlan, timing: Timing | None, load: Load, running: Real) -> _Step:
    """Return a decode step of so many requests: the check of their guesses, with each cache read once, and the guessing."""
    base = Passes(plan.resolved, None, load.batches)
    draft_tokens, spec = float(plan.draft_tokens), plan.serving.speculative
    rows, seen = running * (1.0 + draft_tokens), 1.0 if draft_tokens else plan.context
    check = base.decode(rows, seen)
    gathered: Real = 0.0
    if plan.adapters is not None:
        adapted = Passes(plan.resolved, plan.adapters, load.batches).decode(rows, seen, running)
        gathered = adapted.step.step - check.step.step
    passes = [(check, 1.0)]
    if draft_tokens:
        passes += [(base.decode(running, plan.context), 1.0), (base.decode(running, 1.0), -1.0)]
    if plan.draft is not None:
        passes.append((Passes(plan.draft, None, load.batches).decode(running, plan.context), draft_tokens))
    elif spec is not None and spec.draft_cost is not None:
        passes.append((base.decode(running, plan.context), draft_tokens * spec.draft_cost))
    host = 0.0 if timing is None else timing.host_step + timing.host_sequence * float(np.max(running))
    return _Step(tuple(passes), host, gathered)


def turning(plan: ServerPlan, load: Load, *, products: bool = False) -> float | None:
    """Return the running requests of a replica from which arithmetic binds decode steps for good.

    That is compute or power, which withholds arithmetic that would be there: one of them is worth more than anything else.
    `products`: from which they bind the products with the model's weights, whatever caches, adapters and guesses take. Each
    request has a row in them, and one more for each guess.
    """
    each = 1.0 + plan.draft_tokens
    running = mesh(max(load.limit, _ROWS) * each) / each
    if products:
        step = _Step(((Passes(plan.resolved, None, load.batches).decode(running * each, 1.0), 1.0),))
    else:
        step = _decode(plan, None, load, running)
    lead = _lead_of_arithmetic(step, running.shape)
    below = np.flatnonzero(lead <= 0.0)
    at = int(below[-1]) + 1 if below.size else 0  # from here on, for good
    if at == len(running):
        return None
    turning_point = running[0]
    if at > 0:
        share = lead[at - 1] / (lead[at - 1] - lead[at])
        turning_point = running[at - 1] + share * (running[at] - running[at - 1])
    return max(float(turning_point), 1.0) * load.batches


def _lead_of_arithmetic(step: _Step, shape: tuple[int, ...]) -> Array:
    """Return by how much compute or power is worth more than the best other resource, at each size of a step.

    What a resource is worth is its share of the seconds, but for links: their seconds hold latency, which no rate shortens,
    so that where they would have a say the step is priced again.
    """
    now = step.now
    worth = {name: np.broadcast_to(seconds / now.step, shape) for name, seconds in now.resources.items()}
    arithmetic = np.maximum(worth.pop("compute"), worth.pop("power"))
    links = [name for name in LINKS if name in worth]
    rest = np.max([worth[name] for name in worth if name not in links], axis=0)
    for name in links:
        share = worth[name]
        if np.any((rest < arithmetic) & (arithmetic <= share)):
            share = np.broadcast_to(leverage_of(name, now, step.on), shape)
        rest = np.maximum(rest, share)
    lead: Array = arithmetic - rest
    return lead
