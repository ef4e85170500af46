"""Say how long copies between a card and its host take at least: what one layer moves, over links that the job shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from roofsim.spec.resolve import Resolved

    Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class HostTime:
    """What one layer keeps the host busy, in each row of some layouts.

    Attributes
    ----------
    resolved
        A scenario with their system and engine.
    gpus
        GPUs of the job; those of a node share their host.
    state, saved
        Part of `roofsim.search.planning.layer_costs.HOST` -> seconds of one layer where one GPU has the host to itself: of
        weights, gradients and the optimizer, unsharded; of activations.
    fewer_kernels
        Whether the device leaves kernels out that a layer alone has: the host adds gradients up.
    hides
        In which rows the host updates state while the backward pass goes on.
    """

    resolved: Resolved
    gpus: Array
    state: Mapping[str, Array]
    saved: Mapping[str, Array]
    fewer_kernels: bool
    hides: NDArray[np.bool_]

    def micro_batch(self, shards: Array, sharded: NDArray[np.bool_]) -> Any:
        """Return the seconds of a layer's copies in one micro batch: `shards` ranks share gradients, and `sharded` weights.

        Copies of one phase run behind the arithmetic of that phase alone, so that both phases' seconds add up.
        """
        total: Any = 0.0
        for phase in ("forward", "backward"):
            # Weights come back in both phases, gradients leave in the second alone; shards are a rank's part of either.
            spread = np.where(sharded, shards, 1.0)
            out, back = (
                self._of(self.state, f"{way}_{phase}") / (spread if way == "back" else shards)
                + self._of(self.saved, f"{way}_{phase}")
                for way in ("out", "back")
            )
            link = np.maximum(out, back) * self._beside_link
            slowest = link
            for name in ("memory", "storage"):
                own = self._of(self.state, f"{name}_{phase}") / shards + self._of(self.saved, f"{name}_{phase}")
                slowest = np.maximum(slowest, own * self._beside)
            total = total + slowest
        return total

    def once(self, shards: Array, device: Array) -> Any:
        """Return the seconds of a layer's update on the host that follow the last backward pass: `device` seconds may hide some."""
        work = np.maximum(self._of(self.state, "work_memory"), self._of(self.state, "work_storage")) * self._beside
        back = self._of(self.state, "returned") * self._beside_link
        hidden = np.where(self.hides, device, 0.0)
        return np.maximum(np.maximum(work, back) / shards - hidden, 0.0)

    @property
    def _beside(self) -> Array:
        """GPUs that share a host."""
        return np.minimum(self.gpus, np.min(np.asarray(self.resolved.system.gpus_per_node, dtype=np.float64)))

    @property
    def _beside_link(self) -> Array:
        return np.minimum(self._beside, np.min(np.asarray(self.resolved.system.gpus_per_host_link, dtype=np.float64)))

    def _of(self, parts: Mapping[str, Array], name: str) -> Any:
        return np.maximum(parts[name], 0.0) if name in parts else 0.0
