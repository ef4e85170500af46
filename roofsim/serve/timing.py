"""Seconds of the steps of a server: decode, prompts, both in one, guesses and their check, adapters, the host between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.kept import remembered
from roofsim.records import dataclass
from roofsim.serve.surface import Curve, Passes, Surface
from roofsim.spec.scenario.guided import guided_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.serve.plan import ServerPlan

#: Sequences up to which steps are priced, where nothing limits them earlier; beyond the last slope goes on.
_MOST: Final = 4096.0
#: Rows that are not worth a pass of their own, as a share of a step: rounding.
_CLOSE: Final = 2.0**-24


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds of the steps of one replica; of a pipeline, those from a step of one of the batches in flight to its next.

    Attributes
    ----------
    decode, prompt
        Of the model alone, without the host's part.
    host_step, host_sequence
        The host's part of a step, and of each running request in it.
    beams
        Rows of a running request in a decode step: beams of a search, or answers that are sampled.
    masks, masks_beside
        Seconds of the host for the masks of guided decoding, of each running request in a step; whether they run beside the pass.
    mixed
        Whether prompts ride in decode steps.
    guesses, tokens_per_check
        Tokens guessed for each check of a running request, and those that a check gives in the mean.
    draft, draft_prompt, draft_cost
        Passes of the draft model, or its pass as a share of a decode step.
    adapters
        What adapters add to a pass of so many tokens of so many requests.
    ubatch
        Tokens of a pass, of which a step runs several; infinite: a step is one pass.
    shared_pass
        Whether decode and prompts share a pass.
    load, layerwise
        Seconds of copies from the host that a token of a prompt adds to its pass, and whether they run beside it.
    """

    decode: Surface
    prompt: Curve
    host_step: float
    host_sequence: float
    mixed: bool
    beams: float = 1.0
    masks: float = 0.0
    masks_beside: bool = False
    draft_tokens: int = 0
    tokens_per_check: float = 1.0
    draft: Surface | None = None
    draft_prompt: Curve | None = None
    draft_cost: float = 0.0
    adapters: Surface | None = None
    ubatch: float = float("inf")
    shared_pass: bool = True
    load: float = 0.0
    layerwise: bool = False

    @remembered
    def decode_step(self, running: float, context: float) -> float:
        """Return the seconds of a step without prompts: guesses, if any, and the pass that adds tokens to each request."""
        if running <= 0.0:
            return 0.0
        # A check reads the cache of a request once, for all its tokens.
        rows = running * (1.0 + self.draft_tokens)
        body = self._products(rows) + self._attention(running, context) + self._adapted(rows, running)
        return body + self._guessing(running, context) + self._host(running) + self._masked(running, body)

    @remembered
    def prompt_pass(self, tokens: float, prompts: float = 1.0) -> float:
        """Return the seconds of a pass over tokens of prompts alone."""
        return self._prompt(tokens) + self._adapted(tokens, prompts) + self._host(prompts)

    @remembered
    def step(self, running: float, context: float, tokens: float, prompts: float = 1.0) -> float:
        """Return the seconds of a step with `running` requests in decode and so many tokens of prompts.

        Mixed, weights are read once for both, and attention runs for each. Apart, it is a pass over the prompts, for
        which decode waits.
        """
        if tokens <= 0.0:
            return self.decode_step(running, context)
        if running <= 0.0 or not self.mixed:
            return self.prompt_pass(tokens, prompts)
        rows = running * (1.0 + self.draft_tokens)
        more = self._products(rows)
        if self.shared_pass:
            of_prompts = tokens / self.beams  # steps are priced by requests, each of which has that many rows
            more = self._products(of_prompts + rows) - self._products(of_prompts)
        body = self._prompt(tokens) + max(more, 0.0) + self._attention(running, context)
        body += self._adapted(tokens + rows, running + max(prompts, 1.0))
        return body + self._guessing(running, context) + self._host(running) + self._masked(running, body)

    @remembered
    def _prompt(self, tokens: float) -> float:
        draft = 0.0 if self.draft_prompt is None else self._cut(self.draft_prompt.at, tokens)
        body, load = self._cut(self.prompt.at, tokens) + draft, self.load * tokens
        return max(body, load) if self.layerwise else body + load

    @remembered
    def _products(self, rows: float) -> float:
        """Return the seconds of decode rows without what attention reads of their caches."""
        return self._cut(self._of_rows, rows)

    def _of_rows(self, rows: float) -> float:
        return self.decode.at(rows, 1.0)

    def _cut(self, seconds: Callable[[float], float], rows: float) -> float:
        """Return the seconds of a step of so many rows: of as many passes as it takes."""
        if rows <= self.ubatch:
            return seconds(rows)
        whole = float(int(rows / self.ubatch * (1.0 + _CLOSE)))
        rest = rows - whole * self.ubatch
        return whole * seconds(self.ubatch) + (seconds(rest) if rest > _CLOSE * rows else 0.0)

    def _adapted(self, rows: float, requests: float) -> float:
        return 0.0 if self.adapters is None else max(self.adapters.at(rows, max(requests, 1.0)), 0.0)

    @remembered
    def _attention(self, running: float, context: float) -> float:
        """Return what reading the caches takes beyond empty ones."""
        return max(self.decode.at(running, context) - self._of_rows(running), 0.0)

    def _guessing(self, running: float, context: float) -> float:
        if self.draft_tokens == 0.0:
            return 0.0
        each = (
            self.draft_cost * self.decode.at(running, context)
            if self.draft is None
            else self.draft.at(running, context)
        )
        return self.draft_tokens * each

    def _masked(self, running: float, body: float) -> float:
        """Return what a pass of so many seconds does not hide of the host's masks, one for each token that may come out."""
        work = self.masks * running * (1.0 + self.draft_tokens)
        return max(work - body, 0.0) if self.masks_beside else work

    def _host(self, sequences: float) -> float:
        return self.host_step + self.host_sequence * sequences


def timing_of(plan: ServerPlan, most: float, in_flight: float = 1.0) -> Timing:
    """Price the passes of a server with up to `most` running requests: five evaluations over open meshes at most.

    `in_flight` batches are on the stages of a pipeline at once, each of so many requests.
    """
    resolved, spec = plan.resolved, plan.serving.speculative
    factor, guided = resolved.system.host.issue_factor, guided_of(resolved.workload.guided_decoding)
    highest = min(most, _MOST) * (1.0 + plan.draft_tokens)
    longest, budget = plan.prompt + plan.output, plan.budget
    base = Passes(resolved, None, in_flight)
    exactly = tuple(plan.points())
    draft = None if plan.draft is None else Passes(plan.draft, None, in_flight)
    adapted = None if plan.adapters is None else Passes(resolved, plan.adapters, in_flight)
    prompts = max(budget / plan.new, 1.0)
    return Timing(
        decode=base.decode_surface(budget + highest, longest, exactly),
        prompt=base.prompt_curve(plan.prompt, plan.cached, budget),
        host_step=resolved.engine.launch.host_time_per_step * factor,
        host_sequence=(resolved.engine.launch.host_time_per_sequence + plan.facts.sampling_time)
        * plan.samples
        * factor,
        beams=plan.beams * plan.samples,
        masks=0.0 if guided is None else guided.seconds * plan.beams * plan.samples * factor,
        masks_beside=resolved.engine.launch.masks == "beside",
        mixed=plan.facts.batching == "mixed" and plan.serving.disaggregated is None,
        draft_tokens=plan.draft_tokens,
        tokens_per_check=1.0 if spec is None else spec.tokens_per_check,
        draft=None if draft is None else draft.decode_surface(highest, longest, exactly),
        draft_prompt=None if draft is None else draft.prompt_curve(plan.prompt, plan.cached, budget),
        draft_cost=0.0 if spec is None or spec.draft_cost is None else spec.draft_cost,
        ubatch=float("inf") if plan.limits.ubatch is None else plan.limits.ubatch,
        shared_pass=plan.limits.shared_pass,
        load=0.0 if plan.hits.way == "beside" else plan.hits.load / plan.new,
        layerwise=plan.hits.way == "layerwise",
        adapters=None if adapted is None else adapted.adapter_surface(budget + highest, min(most, _MOST) + prompts),
    )
