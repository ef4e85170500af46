"""Describe a running server: how requests arrive, how they are batched, and what makes them cheaper or dearer."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from roofsim.schema.base import BeforeValidator, Field, model_validator
from roofsim.spec.reading.quantity import Bandwidth, Duration, SecondsOrNone
from roofsim.spec.reading.spoken import Count, count
from roofsim.spec.scenario.adapter import ALL_LINEAR, Adapter
from roofsim.spec.scenario.serving_words import Share, Words
from roofsim.spec.strict import Strict


class Speculation(Strict):
    """Guess several tokens cheaply, and let the model check them in one pass (arXiv 2211.17192)."""

    method: Literal["draft_model", "eagle", "mtp", "ngram"] = Field(
        default="draft_model",
        description="Who guesses: a smaller model; one layer of the model's own shape with the head (eagle, mtp); or matches "
        "in the text so far, which take no time of the GPU (ngram).",
    )
    draft_model: str | dict[str, Any] | None = Field(
        default=None, description="The smaller model: a catalog name, a path, or a mapping."
    )
    draft_cost: Share | None = Field(
        default=None,
        description="Instead of a draft model: one of its passes as a share of a decode step of the model.",
    )
    num_speculative_tokens: Annotated[int, Field(ge=1, le=64)] = Field(description="Tokens guessed for each check.")
    acceptance_rate: Share = Field(
        description="Chance that a guess is accepted where those before it were (plausible 0.5 to 0.9; 0.85 to 0.9 of the "
        "second token by DeepSeek-V3's own layer, arXiv 2412.19437). It depends on texts and on who guesses: no default."
    )

    @model_validator(mode="after")
    def _one_draft(self) -> Self:
        if self.draft_model is not None and self.draft_cost is not None:
            raise ValueError("draft_model and draft_cost both say what a guess costs; give one")
        if self.method == "draft_model" and self.draft_model is None and self.draft_cost is None:
            raise ValueError("method draft_model needs draft_model (its name) or draft_cost (a share of a decode step)")
        if self.method != "draft_model" and self.draft_model is not None:
            raise ValueError(
                f"method {self.method} has no draft model; leave draft_model out, or use method: draft_model"
            )
        return self

    @property
    def tokens_per_check(self) -> float:
        """Tokens that one check gives in the mean: those accepted before the first wrong guess, and its own.

        >>> Speculation(method="ngram", num_speculative_tokens=3, acceptance_rate=0.5).tokens_per_check
        1.875
        """
        guesses, rate = self.num_speculative_tokens, self.acceptance_rate
        return float(sum(rate**power for power in range(guesses + 1)))


class LoraServing(Strict):
    """Adapters beside the layers of one base model, another for each request."""

    rank: Annotated[int, Field(gt=0, le=4096)] = Field(default=16, description="max_lora_rank of the server.")
    adapters: Count = Field(default=1, description="Adapters on the GPU at once (max_loras).")
    targets: str | tuple[str, ...] = Field(
        default=ALL_LINEAR, description="Layers with an adapter, as in adapter.targets."
    )

    @model_validator(mode="after")
    def _known_targets(self) -> Self:
        Adapter(targets=self.targets)
        return self

    @property
    def layers(self) -> frozenset[str] | None:
        """Names of the layers with an adapter; None: every linear layer but the head."""
        return Adapter(targets=self.targets).layers


class Disaggregation(Strict):
    """Prompts and decode steps on workers of their own; a worker is one replica of the model in the scenario's layout."""

    prefill_workers: Count
    decode_workers: Count
    transfer: Literal["node", "network"] | None = Field(
        default=None,
        description="Over which links the cache goes from one to the other; left out: those inside the node, if all "
        "workers fit in one.",
    )
    transfer_bandwidth: Bandwidth | None = Field(
        default=None, description="Of one prefill worker, instead of what the system's links give."
    )


class DynamicBatching(Words):
    """Settings of servers of networks that answer in one pass: names of Triton Inference Server's dynamic batcher."""

    max_batch_size: Count | None = Field(
        default=None,
        description="Networks of one pass: requests of the largest batch. Left out: the smallest batch from which larger ones "
        "bring less than 1 % more throughput.",
    )
    max_queue_delay: SecondsOrNone | None = Field(
        default=None,
        description="Networks of one pass: how long the oldest request waits for others while the server is idle; 0 if left out.",
    )
    latency_bound: Duration | None = Field(
        default=None,
        description="Networks of one pass: the answer holds the highest request rate whose latencies keep it: 15 ms.",
    )
    latency_percentile: Annotated[float, Field(ge=1.0, lt=100.0)] | None = Field(
        default=None, description="Percent of the requests that latency_bound holds for; 99 if left out."
    )

    @classmethod
    def own(cls) -> tuple[str, ...]:
        """Return the names of these settings."""
        return tuple(name for name in DynamicBatching.model_fields if name not in Words.model_fields)


class Serving(DynamicBatching):
    """A server with continuous batching, or with batches of one pass. Names are those of the engines, where they have one."""

    arrivals: Literal["poisson", "constant"] | None = Field(
        default=None, description="How requests arrive at a request_rate: poisson if left out."
    )
    length_variation: Annotated[float, Field(ge=0.0, le=3.0)] | None = Field(
        default=None,
        description="Standard deviation of output lengths as a share of their mean. Left out: 0.1, but 0 at a fixed "
        "concurrency where the engine runs prompts first, so that requests decode in lockstep.",
    )
    prompt_variation: Annotated[float, Field(ge=0.0, le=10.0)] | None = Field(
        default=None,
        description="Standard deviation of prompt lengths as a share of their mean (log-normal). Left out: all are as long.",
    )
    arrival_variation: Annotated[float, Field(ge=0.0, le=10.0)] | None = Field(
        default=None,
        description="Standard deviation of the times between requests as a share of their mean (log-normal): 1 is as irregular as "
        "at random, more are bursts, 0 is arrivals: constant. Left out: as arrivals says.",
    )
    num_prompts: Count | None = Field(
        default=None,
        description="Requests of a benchmark run. Times and rates are then means over all of it: the first wave, which is sent at "
        "once (as many as concurrency says, or all), and the end, where fewer and fewer run. Left out: a steady state.",
    )
    prefix_cache_hit_rate: Share | None = Field(
        default=None, description="Share of the prompt tokens whose keys and values are in the cache already."
    )
    prefix_cache_tokens: Annotated[int, BeforeValidator(count), Field(ge=0, le=10**9)] | None = Field(
        default=None, description="The same in tokens of each prompt."
    )
    prefix_shared: bool = Field(
        default=False,
        description="Whether the cached prefix is one that all requests share (a system prompt): kept once.",
    )
    enable_chunked_prefill: bool | None = Field(
        default=None, description="Whether long prompts are cut into pieces; the engine's own, if left out."
    )
    max_num_batched_tokens: Count | None = Field(
        default=None, description="Tokens of a step, prompts and decode together; the engine's own, if left out."
    )
    max_num_seqs: Count | None = Field(
        default=None, description="Requests that run at once on a replica; the engine's own, if left out."
    )
    host_time_per_request: SecondsOrNone | None = Field(
        default=None,
        description="From the client to the scheduler and back, before the first token; the engine's own, if left out.",
    )
    speculative: Speculation | None = Field(default=None, description="Speculative decoding.")
    lora: LoraServing | None = Field(default=None, description="Adapters of requests.")
    disaggregated: Disaggregation | None = Field(
        default=None, description="Prefill and decode on workers of their own."
    )

    @property
    def scattered(self) -> bool:
        """Whether times between requests vary."""
        return self.arrivals != "constant" if self.arrival_variation is None else self.arrival_variation > 0.0

    @property
    def arrivals_squared(self) -> float:
        """Squared coefficient of variation of the times between requests, where they vary; at random: 1."""
        return 1.0 if not self.arrival_variation else self.arrival_variation**2

    @model_validator(mode="after")
    def _one_prefix(self) -> Self:
        if self.prefix_cache_hit_rate is not None and self.prefix_cache_tokens is not None:
            raise ValueError("prefix_cache_hit_rate and prefix_cache_tokens say the same; give one")
        if self.prefix_shared and not (self.prefix_cache_hit_rate or self.prefix_cache_tokens):
            raise ValueError("prefix_shared goes with prefix_cache_hit_rate or prefix_cache_tokens")
        if self.num_prefixes is not None and self.host_cache_hit_rate is not None:
            raise ValueError("num_prefixes says what lies on the host, and so does host_cache_hit_rate; give one")
        if self.prefix_shared and self.num_prefixes is not None:
            raise ValueError("prefix_shared is one prefix of all requests; leave num_prefixes out")
        for key in ("num_prefixes", "host_cache_hit_rate"):
            if getattr(self, key) and not (self.prefix_cache_hit_rate or self.prefix_cache_tokens):
                raise ValueError(f"{key} goes with prefix_cache_hit_rate or prefix_cache_tokens")
        if self.host_cache_hit_rate and self.host_key is None:
            raise ValueError(
                "host_cache_hit_rate goes with a cache on the host: kv_offloading_size (vllm), hicache_ratio or hicache_size "
                "(sglang), host_cache_size (tensorrt-llm)"
            )
        return self

    @model_validator(mode="after")
    def _one_word(self) -> Self:
        for one, other in (("parallel", "max_num_seqs"), ("batch_size", "max_num_batched_tokens")):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise ValueError(f"{one} and {other} say the same; give one")
        if self.hicache_ratio is not None and self.hicache_size is not None:
            raise ValueError("hicache_size replaces hicache_ratio; give one")
        return self
