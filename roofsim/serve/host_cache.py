"""Say where cached prefixes lie: on the GPU, on the host, or nowhere any more; and what their copies over the host link take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.cost.host.copies import COPY_EFFICIENCY, host_path
from roofsim.records import dataclass, replace
from roofsim.serve.problems import problem
from roofsim.serve.surface import Passes
from roofsim.spec.scenario.layout import layout_of

if TYPE_CHECKING:
    from roofsim.serve.plan import Plan
    from roofsim.serve.room import Room
    from roofsim.spec.reading.source import Document
    from roofsim.spec.resolve import Resolved
    from roofsim.spec.scenario.serving import ServerFacts, Serving

#: Of the rate at which the link is busy all the time: what a closed loop reaches at most.
NEARLY: Final = 1.0 - 2.0**-10


@dataclass(frozen=True, kw_only=True)
class Hits:
    """Where the prefix of a request is found, and what its copies take. Seconds and bytes are those of one GPU.

    Attributes
    ----------
    on_device, on_host
        Shares of the prefixes that lie in the cache on the GPU, and that lie only on the host; the others are computed again.
    capacity
        Host memory for the cache.
    loaded, stored
        Bytes of a request that come from the host, and that go there, in the mean.
    load
        Seconds in which `loaded` comes.
    busy
        Seconds for which a request keeps the link, or host memory, whichever it keeps longer.
    way
        As the engine's `host_load`.
    """

    on_device: float = 1.0
    on_host: float = 0.0
    capacity: float = 0.0
    loaded: float = 0.0
    stored: float = 0.0
    load: float = 0.0
    busy: float = 0.0
    way: str = "beside"

    @property
    def found(self) -> float:
        """Share of the prefixes that need not be computed."""
        return self.on_device + self.on_host

    @property
    def most(self) -> float:
        """Requests per second of a replica that the link takes at most."""
        return 1.0 / self.busy if self.busy > 0.0 else float("inf")

    def wait(self, rate: float, *, poisson: bool = True) -> float:
        """Return the seconds that a request waits for copies of others and its own, where steps of others go on.

        A queue with one link and equal copies (Pollaczek and Khinchine).
        """
        if self.way != "beside" or self.load <= 0.0:
            return 0.0
        share = min(rate * self.busy, NEARLY)
        return self.load + (0.5 * self.busy * share / (1.0 - share) if poisson else 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        names = ("on_device", "on_host", "capacity", "loaded", "stored", "load")
        return {name: getattr(self, name) for name in names} | {
            "most_requests_per_second": self.most if self.busy > 0.0 else None
        }


def check_host_cache(
    resolved: Resolved, facts: ServerFacts, serving: Serving, tokens: tuple[float, float], document: Document
) -> None:
    """Refuse a cache on the host beside what is not priced, and prefixes that no GPU cache of this engine keeps.

    `tokens` are those of a prompt, and of a step where prompts are not cut (else infinite).
    """
    key = serving.host_key
    name = resolved.engine.name
    if serving.num_prefixes is not None and facts.slots:
        message = f"each slot of {name} keeps its last prompt; how many prefixes that finds is not modelled"
        raise problem(
            document, "serving.num_prefixes", message, "State the share that is found: prefix_cache_hit_rate."
        )
    if serving.num_prefixes is not None and tokens[0] > tokens[1]:
        message = (
            f"a prompt of {tokens[0]:.0f} tokens without its prefix exceeds a step of {tokens[1]:.0f}, and is not split"
        )
        raise problem(
            document,
            "serving.num_prefixes",
            message,
            "Raise max_num_batched_tokens, or let prompts be split (enable_chunked_prefill: true).",
        )
    if key is None:
        return
    if facts.host_cache is None:
        raise problem(document, f"serving.{key}", f"{name} keeps no cache on the host", "Leave it out.")
    if serving.disaggregated is not None:
        message = f"{key} with disaggregated: which worker loads what is not modelled"
        raise problem(document, f"serving.{key}", message, "Leave one of them out.")
    links = (resolved.system.host_link, resolved.gpu.host_link)
    if all(link is None or link.bandwidth is None for link in links):
        message = f"system {resolved.system.name} does not state host_link.bandwidth"
        hint = "State it, for example hardware.override: {system.host_link: {name: pcie4, bandwidth: 31.5 GB/s}}."
        raise problem(document, f"serving.{key}", message, hint)


def hits_of(plan: Plan, room: Room, running: float) -> Hits:
    """Return where prefixes are found while so many requests of a replica run.

    Of prefixes that are asked for equally often, the ones used last are kept: a cache finds as many of them as it has room
    for. What requests that run have in the cache is theirs; their prefixes count among those that are kept.
    """
    serving, facts = plan.serving, plan.facts
    cached = _bytes(plan, plan.stated_cached)
    capacity = serving.host_bytes(room.pool, float(plan.resolved.gpus))
    hits = Hits(capacity=capacity, way=facts.host_load)
    if serving.num_prefixes is not None and plan.stated_cached > 0.0:
        asked = float(serving.num_prefixes)
        used = asked * (1.0 - (1.0 - 1.0 / asked) ** running)
        others = running * max(room.per_request_mean - cached, 0.0) + used * cached
        kept = min(used + max(room.pool - others, 0.0) / cached, asked)
        there = capacity / cached
        both = max(there, kept) if facts.host_cache == "inclusive" else there + kept
        on_device = kept / asked
        hits = replace(hits, on_device=on_device, on_host=max(min(both / asked, 1.0) - on_device, 0.0))
    elif serving.host_cache_hit_rate is not None:
        hits = replace(hits, on_device=1.0 - serving.host_cache_hit_rate, on_host=serving.host_cache_hit_rate)
    return hits if capacity <= 0.0 else _copied(plan, hits, cached)


def _copied(plan: Plan, hits: Hits, cached: float) -> Hits:
    """Return hits with what their copies take.

    What a request adds goes to the host as it fills, or when it leaves the GPU: once, either way.
    """
    resolved = plan.resolved
    path = host_path(resolved.system, resolved.gpu, layout_of(resolved.parallel).ranks)
    whole = _bytes(plan, plan.prompt + plan.output)
    loaded, stored = hits.on_host * cached, max(whole - hits.found * cached, 0.0)
    link, latency = float(np.max(path.link)), float(np.max(path.latency))
    memory = float(np.max(path.memory)) * COPY_EFFICIENCY
    load = loaded / link + latency if loaded > 0.0 else 0.0
    both = (loaded + stored) / memory if memory > 0.0 else 0.0
    return replace(hits, loaded=loaded, stored=stored, load=max(load, loaded / memory if memory > 0.0 else 0.0),
                   busy=max(load, stored / link, both))  # fmt: skip


def _bytes(plan: Plan, tokens: float) -> float:
    """Return the bytes of the cache of so many tokens on one GPU."""
    if tokens <= 0.0:
        return 0.0
    return float(Passes(plan.resolved).decode(1.0, tokens).profiles[0].components["key_value_cache"])
