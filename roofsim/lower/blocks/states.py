"""Keep what passes from token to token in the cache of inference: states of scans, recurrences and convolutions over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.ops import CacheAppend
from roofsim.graph.tensor import FP32, Role, Tensor

if TYPE_CHECKING:
    from roofsim.lower.blocks.layers import Layers
    from roofsim.lower.call import Call
    from roofsim.numeric import Real


def keep_state(
    layers: Layers, call: Call, new: Tensor, leaf: str, shape: tuple[Real, ...], *, wide: bool = False
) -> None:
    """Write what later steps start from into the cache; `wide` in fp32."""
    b = layers.b
    cache = state_of(call, b.name(leaf), (new.shape[0], *shape), wide=wide)
    out = b.tensor(f"{leaf}.all", new.shape[0], *shape, base=cache)
    b.emit(CacheAppend, leaf, inputs=(new, cache), outputs=(out,))


def state_of(call: Call, name: str, shape: tuple[Real, ...], *, wide: bool) -> Tensor:
    """Return a state of each sequence, and of those of the batches beside; `wide` in fp32, as kernels of scans keep it."""
    batch, *rest = shape
    cache = Tensor(name, (batch * call.cached_batches, *rest), role=Role.KEY_VALUE_CACHE)
    return Tensor(name, cache.shape, FP32, Role.KEY_VALUE_CACHE) if wide else cache
