"""Say which ranks make up each group of a parallel layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.numeric import Real, is_scalar, maximum, minimum, real, where
from roofsim.records import dataclass
from roofsim.spec.scenario.local_steps import workers_of
from roofsim.spec.scenario.sharding import ShardedOver

if TYPE_CHECKING:
    from roofsim.spec.scenario.point import Number, Point
    from roofsim.spec.scenario.workload import Parallel


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Degrees of parallelism; ranks are numbered tensor first, then context, data, pipeline (Megatron's order).

    Floats or arrays.
    """

    tensor: Real
    context: Real
    context_heads: Real
    data: Real
    pipeline: Real
    expert: Real
    expert_tensor: Real
    virtual_stages: Real
    sequence: bool
    workers: Real
    """Groups of data-parallel ranks that take steps of their own."""
    shards: Real
    """Ranks among which one set of shards is spread: all replicas, or fewer where groups of them share a copy."""

    parts: Real
    """Ranks that each hold a part of the parameters between steps: those of one set of shards, or 1."""

    @property
    def ranks(self) -> Real:
        """GPUs in all."""
        return self.tensor * self.context * self.data * self.pipeline

    @property
    def replicas(self) -> Real:
        """Ranks that hold the same parameters after each step: context ranks share them as data ranks do."""
        return self.data * self.context / self.workers

    @property
    def expert_replicas(self) -> Real:
        """Ranks that hold the same part of the same experts: those dealt out stand on tensor ranks too."""
        return maximum(self.replicas * self.tensor / (self.expert * self.expert_tensor), 1.0)

    def stride(self, group: str) -> Real:
        """Return the distance between neighbouring ranks of a group; ``experts``: those that hold the same experts."""
        strides: dict[str, Real] = {
            "tensor": 1.0,
            "expert": self.expert_tensor,
            "expert_tensor": 1.0,
            "dispatch": self.tensor,  # the ranks of an expert group of inference that hold other tokens
            "context": self.tensor,
            "context_ring": self.tensor * self.context_heads,
            "statistics": self.tensor,
            "tables": self.tensor,
            "data": self.tensor,  # gradients are summed over context ranks too, which stand beside them
            "experts": self.expert * self.expert_tensor,
            "replica": self.tensor * self.shards,
            "workers": self.tensor * self.parts,
            "pipeline": self.tensor * self.context * self.data,
        }
        return strides[group]


def _context_heads(parallel: Parallel) -> Real:
    """Return the context ranks that deal heads out: all, some, or each for itself."""
    if parallel.context_communication == "a2a":
        return parallel.context
    return parallel.context_heads or 1 if parallel.context_communication == "a2a+p2p" else 1


def expert_tensor_of(parallel: Parallel | Point) -> Real:
    """Return how many ranks split each expert: stated, or those of tensor where experts are not dealt out."""
    if parallel.expert_tensor is not None:
        return parallel.expert_tensor
    dealt = real(parallel.expert)
    if is_scalar(dealt):
        return parallel.tensor if dealt == 1.0 else 1
    return where(dealt > 1.0, 1.0, real(parallel.tensor))


def layout_of(parallel: Parallel) -> Layout:
    """Return the degrees as numbers."""
    workers = real(workers_of(parallel.local_steps, parallel.data))
    replicas = real(1 if parallel.data is None else parallel.data) * real(parallel.context) / workers
    sharding = parallel.sharding
    shards = minimum(real(sharding.ranks), replicas) if isinstance(sharding, ShardedOver) else replicas
    return Layout(
        workers=workers,
        shards=shards,
        parts=shards if parallel.shards_fully else 1.0,
        tensor=real(parallel.tensor),
        context=real(parallel.context),
        context_heads=real(_context_heads(parallel)),
        data=real(1 if parallel.data is None else parallel.data),
        pipeline=real(parallel.pipeline),
        expert=real(parallel.expert),
        expert_tensor=real(expert_tensor_of(parallel)),
        virtual_stages=real(parallel.virtual_stages),
        sequence=parallel.sequence,
    )


def divisors(size: Number) -> str:
    """Return the degrees that divide a size, as a message names them."""
    degrees = [n for n in range(1, min(size, 1024) + 1) if size % n == 0]
    return ", ".join(map(str, degrees[:12])) + (" ..." if len(degrees) > 12 else "")


def nearest(number: int, unit: int) -> str:
    """Return the multiples of a unit around a number, as a message names them.

    >>> nearest(10, 4), nearest(3, 4)
    ('8 or 12', '4')
    """
    below, above = number // unit * unit, -(-number // unit) * unit
    return " or ".join(str(value) for value in (below, above) if value)
