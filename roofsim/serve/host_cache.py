"""Say where cached prefixes lie: on the GPU, on the host, or nowhere any more; and what their copies over the host link take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.records import dataclass
from roofsim.serve.problems import problem

if TYPE_CHECKING:
    from roofsim.spec.engine.server import ServerFacts
    from roofsim.spec.reading.source import Document
    from roofsim.spec.resolve import Resolved
    from roofsim.spec.scenario.serving import Serving

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
    def hit_rate(self) -> float:
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
