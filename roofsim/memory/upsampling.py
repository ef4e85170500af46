"""Say what the caching allocator takes for a pass whose tensors grow: what is freed is too small for what comes next.

A decoder that doubles an image level by level frees blocks that no later request fits into, so that reserved memory is far
above what is allocated at any time; a share of it does not tell how far. The pass is run through the allocator's
simulation, with the workspaces that its convolutions ask for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roofsim.graph.ops import Convolution
from roofsim.graph.tensor import TF32
from roofsim.memory.allocator import FREE, simulate
from roofsim.memory.profile import Liveness
from roofsim.numeric import Array, Real, is_scalar
from roofsim.records import dataclass
from roofsim.traced.points import as_array

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph


@dataclass(frozen=True)
class Cached:
    """Bytes of what a pass makes: allocated at most, and reserved at its end."""

    allocated: Real
    reserved: Real


def cached(graph: OpGraph, *, transposes: bool) -> Cached:
    """Simulate one pass without blocks in a fresh cache.

    Parameters
    ----------
    transposes
        Whether convolutions copy their operands into the layout of their kernels (`workspace`).
    """
    keys, sizes = zip(*_events(graph, transposes=transposes), strict=True)
    if is_scalar(*sizes):
        return Cached(*_simulated(keys, np.array(sizes)))
    columns = np.stack(np.broadcast_arrays(*(as_array(size, dtype=float) for size in sizes)))
    shape = columns.shape[1:]
    distinct, places = np.unique(columns.reshape(len(sizes), -1), axis=1, return_inverse=True)
    peaks = np.array([_simulated(keys, column) for column in distinct.T])
    allocated, reserved = (part[places.reshape(-1)].reshape(shape) for part in peaks.T)
    return Cached(allocated, reserved)


def workspace(op: AbstractOp) -> Real:
    """Return the bytes beside its tensors that a convolution takes where these lie channel by channel.

    cuDNN's kernels for matrix units read channels last: 16-bit ones copy input, filter and output
    (nchwToNhwcKernel, nhwcToNchwKernel), those of TF32 input and filter, and write channels first themselves
    (sm80_xmma_fprop_implicit_gemm_tf32f32_*_nhwckrsc_nchw); kernels in fp32 read tensors as they lie.
    """
    if not isinstance(op, Convolution) or op.backward:
        return 0.0
    x, weight, out = op.inputs[0], op.inputs[1], op.outputs[0]
    copied = (x.numel + weight.numel) * x.dtype.itemsize
    if x.dtype.itemsize <= 2.0:
        return copied + out.numel * out.dtype.itemsize
    return copied if op.math is TF32 else 0.0


def _events(graph: OpGraph, *, transposes: bool) -> Iterator[tuple[int, Real]]:
    """Return keys and sizes of what is allocated, in order; `FREE` where a key is given back."""
    walk = Liveness(graph)
    numbers = {storage.root: number for number, storage in enumerate(walk.storages.values())}
    for index, op in enumerate(graph.ops):
        for storage in walk.births.get(index, ()):
            yield numbers[storage.root], walk.rounded(storage.size)
        extra = workspace(op) if transposes else 0.0
        if isinstance(op, Convolution) and transposes:
            yield len(numbers), walk.rounded(extra)
            yield len(numbers), float(FREE)
        for storage in walk.deaths.get(index, ()):
            yield numbers[storage.root], float(FREE)


def _simulated(keys: tuple[int, ...], sizes: Array) -> tuple[float, float]:
    """Return the peak of what is allocated and what is reserved at the end."""
    simulated = simulate((key, int(size), 0) for key, size in zip(keys, sizes.tolist(), strict=True))
    return simulated.allocated_peak, simulated.reserved_peak
