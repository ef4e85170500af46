"""Say how much of a load an engine runs at once: tokens of a step and of a pass, requests, and in whose words that is stated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.numeric import ceil
from roofsim.records import dataclass, replace
from roofsim.serve.problems import problem
from roofsim.spec import catalog
from roofsim.spec.engine.facts import stated_names
from roofsim.spec.engine.schema import Engine, catalog_engine

if TYPE_CHECKING:
    from roofsim.spec.engine.server import ServerFacts
    from roofsim.spec.reading.source import Document
    from roofsim.spec.resolve import Resolved
    from roofsim.spec.scenario.serving import Serving

#: Tokens to which llama.cpp pads the cache of a slot (src/llama-context.cpp: GGML_PAD(n_ctx_seq, 256)).
SLOT_PAD: Final = 256.0


@dataclass(frozen=True, kw_only=True)
class ReplicaLimits:
    """What one replica runs at once.

    Attributes
    ----------
    budget
        Tokens of a step.
    chunked
        Whether prompts are cut where a step is full.
    max_num_seqs
        Requests that run at once.
    ubatch
        Tokens of a pass, of which a step runs several; None: a step is one pass.
    shared_pass
        Whether decode and prompts share a pass, where steps are cut into such.
    context
        Tokens of the cache that is allocated at start; None: what the memory holds.
    assumed
        What was not stated.
    """

    budget: float
    chunked: bool
    max_num_seqs: float
    ubatch: float | None = None
    shared_pass: bool = True
    context: float | None = None
    assumed: tuple[str, ...] = ()

    @property
    def slot(self) -> float | None:
        """Tokens of one slot; None: there are none."""
        if self.context is None:
            return None
        return self.context if self.shared_pass else self.context / self.max_num_seqs


def check_words(serving: Serving, engine: Engine, document: Document) -> None:
    """Refuse options of another engine's server."""
    own = {} if engine.server is None else engine.server.options
    for word in serving.stated_words():
        if word in own:
            continue
        owner, meant = _owner(word)
        others = sorted(other for other, same in own.items() if same.split(":")[0] == meant.split(":")[0])
        hint = f"{engine.name} calls it {' or '.join(others)}." if others else "Leave it out."
        message = f"{word} is an option of {owner}, not of {engine.name}: {meant}"
        raise problem(document, f"serving.{word}", message, hint)


def _owner(word: str) -> tuple[str, str]:
    """Return the engine whose server has an option, and what is meant by it."""
    for name in catalog.names("engine"):
        server = catalog_engine(name).server
        if server is not None and word in server.options:
            return name, server.options[word]
        if server is not None and word in server.former_options:
            return f"earlier versions of {name}", server.former_options[word]
    return "no engine", "nobody says what it means"


def limits_of(
    resolved: Resolved, facts: ServerFacts, serving: Serving, tokens: tuple[float, float], document: Document
) -> ReplicaLimits:
    """Return the limits of a server for requests of such prompts and outputs."""
    check_words(serving, resolved.engine, document)
    if facts.slots:
        return _slots(resolved, facts, serving, tokens, document)
    budget, chunked, said = _budget(resolved, facts, serving, document)
    most, limits = _requests(resolved, facts, serving, budget, document)
    return ReplicaLimits(budget=budget, chunked=chunked, max_num_seqs=most, assumed=(*said, *limits))


def _budget(
    resolved: Resolved, facts: ServerFacts, serving: Serving, document: Document
) -> tuple[float, bool, list[str]]:
    """Return the tokens of a step, whether prompts are cut, and what was assumed."""
    own = resolved.engine.schedule.prefill_chunk or facts.max_num_batched_tokens
    tokens = serving.max_num_batched_tokens or own
    if tokens is None:
        message = f"engine {resolved.engine.name} does not state the tokens per step"
        raise problem(document, "serving", message, "State max_num_batched_tokens.")
    chunked = serving.enable_chunked_prefill
    stated = serving.max_num_batched_tokens or _states_chunk(document)
    said = [] if stated else [f"max_num_batched_tokens: {own}"]
    if chunked is None:
        chunked = resolved.engine.schedule.prefill_chunk is not None
        said.append(
            f"enable_chunked_prefill: {str(chunked).lower()}, prompts are {'split' if chunked else 'not split'} into chunks, as "
            f"{resolved.engine.name} does"
        )
    return float(tokens), chunked, said


def _states_chunk(document: Document) -> bool:
    """Tell whether the scenario states the tokens of a pass as a fact of the engine."""
    facts = document.data.get("workload", {}).get("engine_facts") if document.states("workload", "engine_facts") else {}
    return "prefill_chunk" in stated_names(Engine, facts)


def _requests(
    resolved: Resolved, facts: ServerFacts, serving: Serving, budget: float, document: Document
) -> tuple[float, list[str]]:
    """Return the requests that run at once, and what was assumed.

    Of engines that mix each of them has a token in every step: there must not be more of them than tokens (vLLM,
    SchedulerConfig: max_num_batched_tokens must be at least max_num_seqs).
    """
    most, mixed = serving.max_num_seqs, facts.batching == "mixed"
    batches = float(resolved.parallel.pipeline) if facts.max_num_seqs_of == "batch" else 1.0
    if most is None:
        usual = float(facts.max_num_seqs)
        if mixed and usual > budget:
            return budget * batches, [f"max_num_seqs: {budget:.0f}, the tokens per step (usually {usual:.0f})"]
        return usual * batches, [f"max_num_seqs: {facts.max_num_seqs}"]
    if mixed and most > budget:
        name = resolved.engine.name
        message = (
            f"{most} requests at once need one token each, but a step takes {budget:.0f} tokens: {name} refuses that"
        )
        hint = f"At most {budget:.0f}, or a max_num_batched_tokens of at least {most}."
        raise problem(document, "serving.max_num_seqs", message, hint)
    return float(most) * batches, []


def _slots(
    resolved: Resolved, facts: ServerFacts, serving: Serving, tokens: tuple[float, float], document: Document
) -> ReplicaLimits:
    """Return the limits of a server whose requests run in slots of one cache."""
    assert facts.max_num_batched_tokens is not None
    if serving.enable_chunked_prefill is False:
        message = f"{resolved.engine.name} splits prompts where a step is full"
        raise problem(document, "serving.enable_chunked_prefill", message, "Leave it out, or raise batch_size.")
    stated = serving.parallel or serving.max_num_seqs
    slots = float(stated or facts.max_num_seqs)
    unified = serving.kv_unified if serving.kv_unified is not None else stated is None
    budget = float(serving.batch_size or serving.max_num_batched_tokens or facts.max_num_batched_tokens)
    ubatch = min(float(serving.ubatch_size or resolved.engine.schedule.prefill_chunk or budget), budget)
    if slots > budget:
        message = f"{slots:.0f} slots need one token each, but a step takes {budget:.0f} tokens"
        raise problem(document, "serving.batch_size", message, f"At least {slots:.0f}.")
    context, said = _context(serving, slots, tokens, unified=unified, document=document)
    said += [f"parallel: {slots:.0f}"] if stated is None else []
    if serving.kv_unified is None:
        said.append(
            f"kv_unified: {str(unified).lower()}, as llama-server sets it {'without' if unified else 'with'} parallel"
        )
    if serving.batch_size is None and serving.max_num_batched_tokens is None:
        said.append(f"batch_size: {budget:.0f}")
    if serving.ubatch_size is None and not _states_chunk(document):
        said.append(f"ubatch_size: {ubatch:.0f}")
    return ReplicaLimits(
        budget=budget,
        chunked=True,
        max_num_seqs=slots,
        ubatch=ubatch,
        shared_pass=unified,
        context=context,
        assumed=tuple(said),
    )


def _context(
    serving: Serving, slots: float, tokens: tuple[float, float], *, unified: bool, document: Document
) -> tuple[float, list[str]]:
    """Return the tokens of the whole cache; refuse one in which no request of this size has room."""
    needed = sum(tokens)
    padded = float(ceil(needed / SLOT_PAD)) * SLOT_PAD
    if serving.ctx_size is None:
        whole = padded * slots
        return whole, [f"ctx_size: {whole:.0f}, for {slots:.0f} requests of {needed:.0f} tokens"]
    own = float(serving.ctx_size) if unified else float(ceil(serving.ctx_size / slots / SLOT_PAD)) * SLOT_PAD
    if own < needed:
        share = "" if unified or slots == 1.0 else f", {own:.0f} for each of {slots:.0f} slots"
        message = f"a cache of {serving.ctx_size} tokens{share} has no room for a request of {needed:.0f}"
        raise problem(document, "serving.ctx_size", message, f"At least {padded * (1.0 if unified else slots):.0f}.")
    return (own if unified else own * slots), []


def by_requests(limits: ReplicaLimits, resolved: Resolved, document: Document) -> ReplicaLimits:
    """Return the limits by requests: each of the answers to a prompt is a sequence to the engine."""
    samples = resolved.workload.num_return_sequences or 1
    if samples > limits.max_num_seqs:
        message = f"{samples} answers to a prompt are more sequences than run at once, {limits.max_num_seqs:.0f}"
        raise problem(document, "num_return_sequences", message, "Raise serving.max_num_seqs.")
    return replace(limits, max_num_seqs=limits.max_num_seqs / samples)
