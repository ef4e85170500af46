"""Count the ranks that hold the same parameters, and those that share one set of shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.numeric import same
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.numeric import Real


@dataclass(frozen=True, kw_only=True)
class Replicas:
    """Over how many ranks parameters are replicated: those of experts over fewer, and over how many they are sharded."""

    all: Real
    experts: Real
    shards: Real
    """Ranks of one complete set of shards: all replicas, or fewer where groups of them share a copy."""

    @property
    def groups(self) -> Real:
        """Groups that each have a complete set."""
        return self.all / self.shards

    def within(self) -> Replicas:
        """Return those of one group; experts that are not dealt out are sharded as all else is."""
        return replace(self, all=self.shards, experts=self.shards if self._alike else self.experts)

    def across(self) -> Replicas:
        """Return those that hold the same shard, one of each group."""
        return replace(self, all=self.groups, experts=self.groups if self._alike else 1.0)

    @property
    def _alike(self) -> bool:
        return same(self.experts, self.all)
