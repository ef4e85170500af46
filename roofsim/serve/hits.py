"""Say how often prefixes are found on the host, and how long they take to be copied."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roofsim.cost.host.copies import host_path
from roofsim.records import replace
from roofsim.serve.surface import Passes
from roofsim.spec.scenario.layout import layout_of

if TYPE_CHECKING:
    from roofsim.serve.plan import ServerPlan
    from roofsim.serve.room import Room
from roofsim.serve.host_cache import Hits


def hits_of(plan: ServerPlan, room: Room, running: float) -> Hits:
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


def _copied(plan: ServerPlan, hits: Hits, cached: float) -> Hits:
    """Return hits with what their copies take.

    What a request adds goes to the host as it fills, or when it leaves the GPU: once, either way.
    """
    resolved = plan.resolved
    path = host_path(
        resolved.system, resolved.gpu, layout_of(resolved.parallel).ranks, physics=resolved.constants.physics
    )
    whole = _bytes(plan, plan.prompt + plan.output)
    loaded, stored = hits.on_host * cached, max(whole - hits.hit_rate * cached, 0.0)
    link, latency = float(np.max(path.link)), float(np.max(path.latency))
    link_back = float(np.max(path.link_back))
    memory = float(np.max(path.memory)) * path.physics["host_copy_efficiency"]
    load = loaded / link + latency if loaded > 0.0 else 0.0
    both = (loaded + stored) / memory if memory > 0.0 else 0.0
    return replace(
        hits,
        loaded=loaded,
        stored=stored,
        load=max(load, loaded / memory if memory > 0.0 else 0.0),
        busy=max(load, stored / link_back, both),
    )


def _bytes(plan: ServerPlan, tokens: float) -> float:
    """Return the bytes of the cache of so many tokens on one GPU."""
    if tokens <= 0.0:
        return 0.0
    return float(Passes(plan.resolved).held_in_decode(1.0, tokens).profiles[0].components["key_value_cache"])
