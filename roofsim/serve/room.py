"""Say what fits: the cache's room, the requests that run at once, the longest context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.host import OffDevice, host_notes, missing_off_device
from roofsim.analyze.ledger import memory_of
from roofsim.analyze.verdicts import DOES_NOT_FIT, FITS, TIGHT
from roofsim.records import asdict, dataclass, field
from roofsim.serve.surface import Passes

if TYPE_CHECKING:
    from roofsim.analyze.result import Memory
    from roofsim.memory.profile import MemoryProfile
    from roofsim.numeric import Array
    from roofsim.serve.plan import ServerPlan

#: Contexts among which the longest is sought: then between two of them the cache's bytes are linear.
_LENGTHS: Final = 65
_LONGEST: Final = 2.0**27
_PROMPTS_THERE: Final = (
    "attention on the host is priced by its memory bandwidth; for prompts, processors are slower than that"
)


@dataclass(frozen=True, kw_only=True)
class Room:
    """What one GPU holds. Bytes.

    Attributes
    ----------
    parameters
        Weights, those of adapters and of a draft model included.
    working
        Activations of the largest step, context, libraries, buffers.
    pool
        What is left for the cache, of what the engine takes; may be negative: then the model does not fit.
    per_request, per_request_mean
        Cache of a request at its end, and in the mean while it runs.
    waste
        Of `per_request`, what its last block has no tokens for.
    shared
        Cache of a prefix that all requests share.
    max_requests
        Requests that have room at once.
    max_context
        Tokens of one request that have room when it is alone.
    shortfall
        Bytes that one request lacks, or a cache that is allocated at start.
    lacking
        Ends of the 80 % interval of these bytes; negative where so many are left.
    off_device
        Weights that lie elsewhere, by place and part.
    missing_off_device
        Bytes that a node lacks there, by place.
    notes
        Whether the host holds them.
    """

    capacity: float
    parameters: float
    working: float
    pool: float
    per_request: float
    per_request_mean: float
    waste: float
    shared: float
    max_requests: int
    max_context: int
    shortfall: float = 0.0
    lacking: tuple[float, float] = (0.0, 0.0)
    off_device: OffDevice = field(default_factory=dict)
    missing_off_device: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether one request has room, and what lies elsewhere has."""
        return self.max_requests >= 1 and not any(self.missing_off_device.values())

    @property
    def verdict(self) -> str:
        """Return ``fits``, ``tight`` where the interval does not tell whether one request has room, or ``does_not_fit``."""
        if any(self.missing_off_device.values()):
            return DOES_NOT_FIT
        return TIGHT if self.lacking[0] <= 0.0 < self.lacking[1] else FITS if self.fits else DOES_NOT_FIT

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        data = asdict(self) | {"fits": self.fits, "verdict": self.verdict}
        del data["lacking"]  # the verdict says it
        del data["notes"]  # among the warnings
        for name in ("off_device", "missing_off_device"):
            if not data[name]:
                del data[name]
        return data


def room_of(plan: ServerPlan) -> Room:
    """Return what fits beside the weights and the largest step."""
    engine = plan.resolved.engine
    share = engine.memory.preallocated_share or 1.0
    parameters, working, off_device, missing, notes, spread = _fixed(plan)
    capacity = float(plan.resolved.gpu.memory.capacity)
    pool = {
        "device": share * capacity - parameters - working,
        "static": min(share * capacity - parameters, capacity - parameters - working),
        "free": share * (capacity - parameters - working),
    }[plan.facts.preallocated_of]
    whole = plan.prompt + plan.output
    # A request grows while it runs: where it need not be let in whole, others use what it does not fill yet.
    kept = plan.cached if plan.serving.prefix_shared else 0.0
    around, lengths = _around(plan, whole), _lengths(plan)
    end, mean, shared, *others = _cache(plan, np.array([whole, plan.context, max(kept, 1.0), *around, *lengths]))
    shared = shared if kept else 0.0
    exact = _tokens_exactly(whole, around, others[:2])
    needed = end if plan.facts.admission == "whole" else mean
    most, lacking = _most(plan, pool, (end - shared, needed - shared, shared))
    beyond = (end if plan.limits.context is None else _allocated(plan)) - pool
    if plan.limits.context is not None and not lacking:
        pool = _allocated(plan)
    return Room(
        capacity=capacity,
        parameters=parameters,
        working=working,
        pool=max(pool, 0.0),
        per_request=end - shared,
        per_request_mean=mean - shared,
        waste=max(end - exact, 0.0),
        shared=shared,
        max_requests=most,
        max_context=_longest(plan, pool, lengths, others[2:]),
        shortfall=lacking,
        lacking=(beyond - spread[0], beyond + spread[1]),
        off_device=off_device,
        missing_off_device=missing,
        notes=notes,
    )


def _most(plan: ServerPlan, pool: float, each: tuple[float, float, float]) -> tuple[int, float]:
    """Return the requests that have room at once, and the bytes that are missing for one.

    `each` are the bytes of a request at its end, those that it needs to be let in, and those that all share.
    """
    end, needed, shared = each
    if plan.limits.context is not None:
        missing = max(_allocated(plan) - pool, 0.0)
        return (0 if missing else int(plan.limits.context // (plan.prompt + plan.output))), missing
    left = max(pool - shared, 0.0)
    if left < end:
        return 0, end + shared - pool
    return int(min(left // needed, _LONGEST)) if needed > 0.0 else int(_LONGEST), 0.0


def _allocated(plan: ServerPlan) -> float:
    """Return the bytes of a cache that is allocated at start."""
    assert plan.limits.context is not None
    return float(_cache(plan, np.array([plan.limits.context, 1.0]))[0])


def _fixed(
    plan: ServerPlan,
) -> tuple[float, float, OffDevice, dict[str, float], tuple[str, ...], tuple[float, float]]:
    """Return the bytes of all weights on the device, what the largest step needs beside weights and cache, and what lies elsewhere.

    Then what a node lacks there, and notes on it; the last are the bytes by which the step's interval lies below and above.
    """
    largest = Passes(plan.resolved, plan.adapters).held_in_prompts(plan.budget, plan.prompt, plan.cached)
    memory = memory_of(largest)
    weights: OffDevice = {
        place: {"parameters": float(held["parameters"])}
        for place, held in memory.off_device.items()
        if "parameters" in held
    }
    parts = {name: float(amount) for name, amount in memory.components.items()}
    parameters = parts.pop("parameters")
    del parts["key_value_cache"]  # counted request by request
    if plan.draft is not None:
        parameters += float(Passes(plan.draft).held_in_decode(1.0, 1.0).profiles[0].components["parameters"])
    held_by, notes = largest, host_notes(largest, weights)
    if plan.resolved.parallel.offload.key_value_cache != "none":
        cached = Passes(plan.resolved).held_in_decode(1.0, plan.limits.context or plan.prompt + plan.output)
        for place, held in memory_of(cached).off_device.items():
            kept = float(held.get("key_value_cache", 0.0))
            weights[place] = weights.get(place, {}) | {"key_value_cache": kept}
        held_by = cached
        notes = [*host_notes(cached, weights), _PROMPTS_THERE]
    missing = {place: float(amount) for place, amount in missing_off_device(held_by, weights).items()}
    return parameters, sum(parts.values()), weights, missing, tuple(notes), _spread(memory)


def _spread(memory: Memory) -> tuple[float, float]:
    """Return how far a peak may lie below and above what is predicted."""
    assert memory.interval is not None
    low, high = memory.interval
    peak = float(memory.device_total)
    return peak - float(low), float(high) - peak


def _cache(plan: ServerPlan, contexts: Array) -> list[float]:
    """Return the bytes of the cache of one request at several contexts."""
    total = _bytes(Passes(plan.resolved).held_in_decode(1.0, contexts).profiles[0], contexts)
    if plan.draft is not None:
        total = total + _bytes(Passes(plan.draft).held_in_decode(1.0, contexts).profiles[0], contexts)
    cache_bytes: list[float] = total.tolist()
    return cache_bytes


def _bytes(profile: MemoryProfile, contexts: Array) -> Array:
    cache_bytes: Array = np.broadcast_to(profile.components["key_value_cache"], contexts.shape)
    return cache_bytes


def _around(plan: ServerPlan, tokens: float) -> tuple[float, float]:
    """Return the tokens of the full blocks below so many, and of one block more; of less than a block both are that block."""
    block = float(plan.resolved.engine.cache.block_size or 1)
    full = tokens // block * block
    return (full, full + block) if full >= 1.0 else (block, block)


def _tokens_exactly(tokens: float, around: tuple[float, float], sizes: list[float]) -> float:
    """Return the bytes that a request's tokens fill, without what its last block has free; `sizes` are those `around` them."""
    below, above = around
    if tokens < below:
        return sizes[0] * tokens / below
    return sizes[0] + (sizes[1] - sizes[0]) * (tokens - below) / (above - below)


def _limit(plan: ServerPlan) -> float:
    """Return the longest sequence that the model takes, or its slot."""
    limit = float(plan.resolved.model.traits().longest_sequence or _LONGEST)
    return limit if plan.limits.slot is None else min(limit, plan.limits.slot)


def _lengths(plan: ServerPlan) -> list[float]:
    """Return lengths of requests up to the longest."""
    lengths: list[float] = np.unique(np.round(np.geomspace(1.0, _limit(plan), _LENGTHS))).tolist()
    return lengths


def _longest(plan: ServerPlan, pool: float, lengths: list[float], sizes: list[float]) -> int:
    """Return the tokens of one request that fill the pool, or its slot; `sizes` are the bytes of requests of some `lengths`."""
    if sizes[0] > pool:
        return 0
    if sizes[-1] <= pool:
        return int(_limit(plan))
    block = float(plan.resolved.engine.cache.block_size or 1)
    return int(np.interp(pool, sizes, lengths) // block * block)
