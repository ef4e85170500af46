"""Put together what a server runs: the model, the engine's way of batching, the requests; refuse what makes no sense."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.errors import Problem, SpecError
from roofsim.passes.serving_adapters import ServeAdapters
from roofsim.records import dataclass, field, replace
from roofsim.serve.host_cache import Hits, check_host_cache
from roofsim.serve.limits import ReplicaLimits, by_requests, limits_of
from roofsim.serve.problems import problem
from roofsim.serve.words import refuse_words
from roofsim.spec import catalog, usual
from roofsim.spec.engine.schema import catalog_engine
from roofsim.spec.model.registry import families_that
from roofsim.spec.reading.spoken import INFERENCE
from roofsim.spec.reading.validate import validate
from roofsim.spec.rules.sizes import named
from roofsim.spec.scenario.document import with_override
from roofsim.spec.scenario.serving import Serving
from roofsim.spec.scenario.workload import SERVING, Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from roofsim.spec.engine.server import ServerFacts
    from roofsim.spec.reading.source import Document
    from roofsim.spec.resolve import Resolved

#: Batches of 1, 2, 4, ... that are priced exactly.
_DOUBLINGS: Final = 13


@dataclass(frozen=True, kw_only=True)
class ServerPlan:
    """A server and its requests. Tokens and requests are those of one replica, where nothing else is said.

    Attributes
    ----------
    prompt, stated_cached, output
        Tokens of a request; `stated_cached` of the prompt have been in the cache.
    concurrency, request_rate
        Of the whole server: closed loop, open loop; both None: as many requests as fit.
    limits
        What a replica runs at once.
    draft
        The draft model in the same surroundings.
    hits
        Where what was cached is found.
    """

    resolved: Resolved
    serving: Serving
    facts: ServerFacts
    prompt: float
    stated_cached: float
    output: float
    concurrency: float | None
    request_rate: float | None
    limits: ReplicaLimits
    draft: Resolved | None = None
    assumed: tuple[str, ...] = ()
    hits: Hits = field(default_factory=Hits)

    @property
    def cached(self) -> float:
        """Tokens of a prompt that are in the cache still, in the mean."""
        return self.stated_cached * self.hits.hit_rate

    @property
    def budget(self) -> float:
        """Tokens of a step."""
        return self.limits.budget

    @property
    def chunked(self) -> bool:
        """Whether prompts are cut where a step is full."""
        return self.limits.chunked

    @property
    def max_num_seqs(self) -> float:
        """Requests that run at once on a replica."""
        return self.limits.max_num_seqs

    @property
    def new(self) -> float:
        """Tokens of a prompt that are computed."""
        return self.prompt - self.cached

    @property
    def variation(self) -> float:
        """Standard deviation of output lengths as a share of their mean.

        Clients that keep a number of requests under way ask for equal lengths. Where prompts run first, requests then
        decode in lockstep, and published times per token are those of that. Where prompts ride in steps, the smallest
        differences scatter them, and published times to the first token are those of scattered ones.
        """
        stated = self.serving.length_variation
        if stated is not None:
            return stated
        if self.facts.batching == "apart" and self.request_rate is None:
            return 0.0
        return self.resolved.constants.physics["usual_length_variation"]

    @property
    def beams(self) -> float:
        """Beams of each request."""
        return float(self.resolved.workload.beam_width or 1)

    @property
    def samples(self) -> float:
        """Answers to the prompt of each request."""
        return float(self.resolved.workload.num_return_sequences or 1)

    @property
    def given(self) -> float:
        """Tokens that go out for each request: of all its answers."""
        return self.output * self.samples

    @property
    def draft_tokens(self) -> int:
        """Tokens guessed for each check."""
        spec = self.serving.speculative
        return 0 if spec is None else spec.num_speculative_tokens

    @property
    def checks(self) -> float:
        """Decode steps of a request behind its first token."""
        spec = self.serving.speculative
        return (self.output - 1.0) / (1.0 if spec is None else spec.tokens_per_check)

    @property
    def context(self) -> float:
        """Mean tokens in the cache of a running request; long answers run for longer, and each is half done in the mean."""
        return self.prompt + self.output * (1.0 + self.variation**2) / 2.0

    @property
    def adapters(self) -> ServeAdapters | None:
        """The pass that puts the adapters of requests beside the layers."""
        lora = self.serving.lora
        if lora is None:
            return None
        return ServeAdapters(rank=float(lora.rank), adapters=float(lora.adapters), targets=lora.layers)

    @property
    def replicas(self) -> float:
        """Copies of the model between which requests are dealt out; those that decode, where workers are apart."""
        apart = self.serving.disaggregated
        return float(self.resolved.parallel.data or 1) if apart is None else float(apart.decode_workers)

    @property
    def gpus(self) -> int:
        """GPUs of the whole server."""
        apart = self.serving.disaggregated
        workers = 1 if apart is None else apart.prefill_workers + apart.decode_workers
        return self.resolved.gpus * workers

    @property
    def request_time(self) -> float:
        """Seconds of a request between client and scheduler and back."""
        stated = self.serving.host_time_per_request
        return self.facts.host_time_per_request if stated is None else stated

    def points(self) -> Iterator[float]:
        """Yield batches that must be points of a mesh: the usual ones. None depends on the load, lest what a step takes does."""
        for power in range(_DOUBLINGS):
            yield 2.0**power
            if self.draft_tokens:
                yield 2.0**power * (1.0 + self.draft_tokens)


def plan_of(document: Document, resolve: Callable[[Document], Resolved]) -> ServerPlan:
    """Return the server that a request describes.

    Raises
    ------
    SpecError
        When the request is wrong, or the engine, the model or a size cannot be served so.
    """
    document, notes = _as_generation(document)
    workload = validate(Scenario, document).workload
    serving = workload.serving or Serving()
    refuse_words(workload, serving, document)
    inner = document
    for key in SERVING:
        inner = with_override(inner, f"workload.{key}", None, "serve")
    inner, gpus = _one_worker(inner, serving)
    resolved = _resolved(inner, resolve, document)
    facts = _facts(resolved, document)
    _check_cache(resolved, document)
    prompt, output = float(resolved.workload.prompt_length or 1), float(resolved.workload.output_length or 1)
    _check_workers(resolved, serving, gpus, document)
    limits = by_requests(limits_of(resolved, facts, serving, (prompt, output), document), resolved, document)
    check_host_cache(resolved, facts, serving, (prompt, float("inf") if limits.chunked else limits.budget), document)
    cached = _cached(serving, prompt, document)
    if limits.budget < prompt - cached and not limits.chunked:
        given, most = f"{prompt - cached:.0f}", f"{limits.budget:.0f}"
        message = f"a prompt of {given} tokens does not fit in max_num_batched_tokens {most}, and is not split"
        raise problem(
            document, "serving.max_num_batched_tokens", message, "Raise it, or set enable_chunked_prefill: true."
        )
    plan = ServerPlan(
        resolved=resolved,
        serving=serving,
        facts=facts,
        prompt=prompt,
        stated_cached=cached,
        output=output,
        concurrency=None if workload.concurrency is None else float(workload.concurrency),
        request_rate=workload.request_rate,
        limits=limits,
        draft=_draft(serving, inner, resolved, resolve),
        assumed=(*notes, *_told(resolved.assumed), *limits.assumed),
    )
    if serving.length_variation is None:
        plan = replace(plan, assumed=(*plan.assumed, f"length_variation: {plan.variation:g}"))
    if plan.request_rate is not None and serving.arrivals is None and serving.arrival_variation is None:
        plan = replace(plan, assumed=(*plan.assumed, "arrivals: poisson"))
    if plan.draft is not None:
        own = (note for note in plan.draft.assumed if note not in resolved.assumed)
        plan = replace(plan, assumed=(*plan.assumed, *(f"draft {note}" for note in own if note.startswith("model "))))
    if plan.concurrency is not None and plan.concurrency < plan.replicas:
        message = f"{plan.concurrency:.0f} requests for {plan.replicas:.0f} replicas would leave some replicas idle"
        raise problem(document, "concurrency", message, f"Use at least {plan.replicas:.0f}, or fewer replicas.")
    return plan


def _as_generation(document: Document) -> tuple[Document, list[str]]:
    """Return the document as one of whole requests, with an engine that serves."""
    given = document.data.get("workload") if isinstance(document.data, dict) else None
    stated = given if isinstance(given, dict) else {}
    phase = stated.get("phase")
    if phase not in (None, "generate", "generation", INFERENCE):
        message = f"a server runs whole requests (generate), not phase {phase}"
        raise problem(document, "phase", message, "Leave it out.")
    document = with_override(document, "workload.phase", "generate", "serve")
    if stated.get("engine") is not None:
        return document, []
    return with_override(document, "engine", usual.SERVER, "serve"), [f"engine: {usual.SERVER}"]


def _one_worker(document: Document, serving: Serving) -> tuple[Document, int | None]:
    """Return the document of one worker, where prefill and decode are apart, and the GPUs that are stated of all."""
    if serving.disaggregated is None:
        return document, None
    stated = document.data.get("hardware")
    gpus = stated.get("gpus") if isinstance(stated, dict) else None
    return with_override(document, "hardware.gpus", None, "serve"), gpus


def _check_workers(resolved: Resolved, serving: Serving, gpus: int | None, document: Document) -> None:
    apart = serving.disaggregated
    if apart is None:
        return
    if (resolved.parallel.data or 1) > 1:
        message = (
            f"data {resolved.parallel.data} with disaggregated: the numbers of workers are the numbers of replicas"
        )
        place = document.place(("parallel", "data"))
        raise SpecError(Problem(message, place, "parallel.data", "Leave it out."))
    needed = resolved.gpus * (apart.prefill_workers + apart.decode_workers)
    if gpus is not None and gpus != needed:
        message = (
            f"{gpus} GPUs, but {apart.prefill_workers} + {apart.decode_workers} workers of {resolved.gpus} are {needed}"
        )
        raise SpecError(
            Problem(message, document.place(("hardware", "gpus")), "hardware.gpus", f"Ask for {needed}, or none.")
        )
    within = needed <= resolved.places
    if apart.transfer == "node" and not within:
        message = f"{needed} GPUs do not fit in one {resolved.system.name} of {resolved.places}"
        raise problem(document, "serving.disaggregated.transfer", message, "Use network.")
    by_network = apart.transfer == "network" or not within
    if by_network and apart.transfer_bandwidth is None and resolved.system.node_network is None:
        message = f"{resolved.system.name} states no network between nodes"
        hint = "State transfer_bandwidth, or hardware.override: {system.node_network: 400 Gbit/s}."
        raise problem(document, "serving.disaggregated", message, hint)


def _check_cache(resolved: Resolved, document: Document) -> None:
    """Refuse a cache that has no part on the device, but of an engine whose server attends to it on the host."""
    offload = resolved.parallel.offload
    computes = resolved.engine.offload.layers == "computed" and offload.parameters_at != "none"
    whole = not offload.partial or offload.share == 1.0 or offload.layers == resolved.model.traits().layers
    attends = resolved.engine.offload.cache == "computed"
    if (offload.key_value_cache == "none" or attends) and not (computes and whole):
        return
    key = "key_value_cache" if offload.key_value_cache != "none" and not attends else "parameters"
    path = ("parallel", "offload", key)
    message = f"servers of {resolved.engine.name} are only modelled with the cache on the device"
    hint = "Leave it out, or ask roofsim run for a batch (phase decode or generate)."
    raise SpecError(Problem(message, document.place(path), ".".join(path), hint))


def _resolved(inner: Document, resolve: Callable[[Document], Resolved], document: Document) -> Resolved:
    """Resolve a server's scenario; of a model that no server is priced for, say what answers instead."""
    try:
        resolved = resolve(inner)
    except SpecError:
        try:
            resolved = resolve(inner.with_value(("workload",), {}, document.place(("workload",))))
        except SpecError:
            served = True
        else:
            served = resolved.model.decoder_only()
        if served:
            raise
    if resolved.model.decoder_only():
        return resolved
    name = resolved.model.name
    served_families = ", ".join(families_that(lambda schema: schema.decoder_only()))
    message = (
        f"{name} is {named(resolved.model)}; servers are modelled of models that generate token by token without an encoder "
        f"({served_families}), and of those that answer in one pass"
    )
    phase = "generate" if resolved.model.generates else "forward"
    hint = (
        f"`roofsim run {name} --phase {phase} --batch-size N` predicts a batch: its latency, and requests per second."
    )
    raise SpecError(Problem(message, document.place(("model",)), "model", hint))


def _facts(resolved: Resolved, document: Document) -> ServerFacts:
    """Return how the engine serves."""
    facts = resolved.engine.server
    if facts is None:
        able = ", ".join(name for name in catalog.names("engine") if catalog_engine(name).server)
        message = f"engine {resolved.engine.name} runs static batches and has no server"
        raise problem(document, "engine", message, f"Engines that serve: {able}.")
    return facts


def _told(assumed: tuple[str, ...]) -> list[str]:
    """Return what was assumed of the model and the hardware; batches follow from the load."""
    return [note for note in assumed if not note.startswith("batch_size")]


def _cached(serving: Serving, prompt: float, document: Document) -> float:
    """Return the prompt tokens that are not computed again; the last one always is: its logits are the first token."""
    tokens = serving.prefix_cache_tokens
    if tokens is not None and tokens > prompt:
        message = f"{tokens} cached tokens of a prompt of {prompt:.0f}"
        raise problem(document, "serving.prefix_cache_tokens", message, f"At most {prompt:.0f}.")
    cached = prompt * (serving.prefix_cache_hit_rate or 0.0) if tokens is None else float(tokens)
    return min(cached, prompt - 1.0)


def _draft(
    serving: Serving, document: Document, resolved: Resolved, resolve: Callable[[Document], Resolved]
) -> Resolved | None:
    """Return what guesses, in the surroundings of the model: another model, or a layer of the same shape with the head."""
    spec = serving.speculative
    if spec is None or spec.method == "ngram" or spec.draft_cost is not None:
        return None
    if spec.method == "draft_model":
        place = document.place(("workload", "serving", "speculative", "draft_model"))
        draft = resolve(document.with_value(("model",), spec.draft_model, place))
        if not draft.model.decoder_only():
            message = f"{draft.model.name} is {named(draft.model)}"
            raise SpecError(Problem(message, place, "workload.serving.speculative.draft_model", "Use a decoder."))
        return draft
    layer = resolved.model.one_layer()
    if layer is None:
        message = (
            f"{resolved.model.name} is {named(resolved.model)}, which has no layer that could predict further tokens"
        )
        path = ("workload", "serving", "speculative", "method")
        raise SpecError(Problem(message, document.place(path), ".".join(path), "Use draft_model or ngram."))
    return replace(resolved, model=layer)
