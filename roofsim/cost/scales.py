"""Scale the rates of the hardware: what a step would take on another card, for one change of it or for many."""

from __future__ import annotations

import numpy as np

from roofsim.numeric import Real, is_scalar
from roofsim.records import dataclass, fields, replace


@dataclass(frozen=True, kw_only=True)
class Scales:
    """Factors on the rates of the hardware: 1 is the card as it is.

    Each is a factor on the figures that a file states: `tensor_flops` on the peaks of matrix units, `vector_flops` on those of
    ordinary ones, `memory_bandwidth` on the memory's, links on their bandwidths. What no such figure states has a rate of its own:
    `unit_rate` is that of compute units beside their peaks (loads in flight, exponentials), `latency` that of messages over links
    and networks, of storage, and of blocks that start and end.

    Floats, or arrays whose own axes stand in front of those of the points that they scale: (n,) for one configuration, (n, 1) or
    (n, points) for several.
    """

    tensor_flops: Real = 1.0
    vector_flops: Real = 1.0
    unit_rate: Real = 1.0
    memory_bandwidth: Real = 1.0
    launch_rate: Real = 1.0
    host_issue_rate: Real = 1.0
    power: Real = 1.0
    intra_node_link: Real = 1.0
    inter_node_link: Real = 1.0
    host_link: Real = 1.0
    host_memory: Real = 1.0
    host_compute: Real = 1.0
    storage: Real = 1.0
    latency: Real = 1.0

    @classmethod
    def resources(cls) -> tuple[str, ...]:
        """Return the names of the time-like resources."""
        return tuple(field.name for field in fields(cls))

    @property
    def is_one(self) -> bool:
        """Whether it is the card as it is."""
        return all(type(value) is float and value == 1.0 for value in self.__dict__.values())

    @property
    def rank(self) -> int:
        """Number of axes."""
        return max(np.ndim(getattr(self, name)) for name in self.resources())

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(np.broadcast_shapes(*(np.shape(getattr(self, name)) for name in self.resources()))))

    def with_context_axis(self) -> Scales:
        """Return the same factors for numbers with one more axis behind their own, that of contexts."""
        factors = {name: getattr(self, name) for name in self.resources()}
        return replace(self, **{name: one[..., np.newaxis] for name, one in factors.items() if not is_scalar(one)})
