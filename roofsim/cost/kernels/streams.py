"""Price kernels limited by memory by the model that is fitted to single ones, in every phase alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.cost.columns import column, is_of_points, rows_of
from roofsim.cost.kernels.models.streaming import (
    StreamConstants,
    StreamShape,
    stream_limits,
    unit_reach,
)
from roofsim.cost.kernels.rated import vector_card
from roofsim.cost.kernels.table import constants_for
from roofsim.cost.kernels.work import SCATTERED
from roofsim.graph.ops import Embedding, Normalization, Softmax
from roofsim.numeric import axes_of, divide, is_scalar
from roofsim.records import replace
from roofsim.spec.constants.kernel_models import shipped_models
from roofsim.traced.points import noted

if TYPE_CHECKING:
    from roofsim.cost.device import Device
    from roofsim.cost.kernels.models.silicon import Silicon
    from roofsim.cost.kernels.work import KernelWork, Pricing
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.tensor import Tensor
    from roofsim.numeric import Array, Real

#: Conditions of kernels on ordinary units that stream.
STREAMING: Final = (("vector",), ("depthwise",))
#: Operation under which kernels without rows were measured.
FLAT: Final = "elementwise"
#: Operation under which look-ups of a row for each token were measured.
LOOKUP: Final = "embedding"
#: Normalizations along rows, and the operations under which they were measured.
NORMS: Final = {"layer": "layernorm", "rms": "rmsnorm"}
#: Arithmetic that streams were measured in.
NARROW: Final = "16-bit"
WIDE: Final = "fp32"


def price_streams(ops: dict[int, AbstractOp], works: dict[int, KernelWork], context: Pricing) -> None:
    """Give streaming kernels the bandwidth that their model says; those of one operation in one expression."""
    groups: dict[tuple[str, bool, tuple[int, ...]], list[tuple[int, tuple[Real, ...]]]] = {}
    device = context.device
    around = axes_of(device.bandwidth, 0.0 if device.cache is None else device.cache)
    for place, op in ops.items():
        work = works[place]
        if work.compute_keys not in STREAMING:
            continue
        operation, *sizes = rows_along(op)
        cached = 0.0 if work.at_random or work.bandwidth_key in SCATTERED else 1.0
        numbers = (*sizes, work.traffic, cached, work.bandwidth_share, work.load)
        shape = around if is_scalar(*numbers) else np.broadcast_shapes(around, axes_of(*numbers))
        narrow = all(tensor.dtype.itemsize <= device.constants.physics["narrow_element"] for tensor in op.inputs)
        groups.setdefault((operation, narrow, shape), []).append((place, numbers))
    for (operation, narrow, axes), members in groups.items():
        constants = _of_engine(_constants(operation, device, narrow=narrow), operation, context)
        rates = _rates(constants, [numbers for _, numbers in members], axes, device)
        for (place, _), share, walking, flat in zip(members, *rates, strict=True):
            work = works[place]
            works[place] = replace(work, bandwidth_share=share, floor=work.floor + walking, flat=flat)


def rows_along(op: AbstractOp) -> tuple[str, Real, Real, Real]:
    """Return the operation under which an op's kernels were measured, rows, bytes of a row, and bytes of the tensor."""
    if isinstance(op, Normalization) and op.method in NORMS and not op.backward:
        return NORMS[op.method], *_along(op.inputs[0], op.inputs[0].shape[-1])
    if isinstance(op, Softmax) and not op.backward and not op.on_chip:
        return "softmax", *_along(op.inputs[0], op.row)
    if isinstance(op, Embedding) and not op.backward and not op.sparse:
        return LOOKUP, *_along(op.outputs[0], op.width)
    return FLAT, 0.0, 0.0, 0.0


def _along(tensor: Tensor, length: Real) -> tuple[Real, Real, Real]:
    """Return rows of some length, bytes of a row, and bytes of a tensor."""
    return divide(tensor.numel, length), length * tensor.dtype.itemsize, tensor.bytes


def _constants(operation: str, device: Device, *, narrow: bool) -> StreamConstants:
    """Return what streaming kernels achieve; shares of the bandwidth are those of whole steps."""
    kinds = shipped_models().classes[operation]["shared"]["any"]
    kind = next(name for name in ((NARROW, WIDE) if narrow else (WIDE, NARROW)) if name in kinds)
    _, numbers = constants_for(device, operation, None, kind)
    unit = device.constants.unit_bandwidth
    return StreamConstants(floor=0.0, bandwidth=1.0, unit_bandwidth=unit, sharpness=1.0, **numbers)


def _of_engine(constants: StreamConstants, operation: str, context: Pricing) -> StreamConstants:
    """Return the constants of an engine's own kernels.

    A block walks along a row load by load: kernels that load more at once than the measured one walk it in fewer of them.
    """
    load = context.library.engine.fusion.norm_load_bytes
    if operation != NORMS["rms"] or load is None:
        return constants
    return replace(constants, walk=constants.walk * context.device.constants.physics["rms_norm_load"] / load)


def _rates(
    constants: StreamConstants, rows: list[tuple[Real, ...]], axes: tuple[int, ...], device: Device
) -> tuple[list[Real], list[Real], list[Real]]:
    """Return the shares of the bandwidth that kernels draw, their seconds beyond the floor, and what of the rest is latency."""
    given = [column(values, len(axes)) for values in zip(*rows, strict=True)]
    of_points = is_of_points(value for numbers in rows for value in numbers)
    limits = _stream_rates(constants, given, vector_card(device, 1.0))
    shares, walks, flats = (rows_of(each, len(rows), axes, of_points=of_points) for each in limits)
    return shares, walks, flats


@noted
def _stream_rates(constants: StreamConstants, given: list[Array], chip: Silicon) -> tuple[Any, Any, Any]:
    """Return what `_rates` does, with a leading axis of kernels: rows of which each takes a unit its time are latency."""
    count, width, tensor, traffic, cached, share, load = np.broadcast_arrays(*given)
    speedup = np.where(cached > 0.0, constants.cache_speedup, 1.0)
    sizes = StreamShape(rows=count, width=width, tensor=tensor, traffic=traffic)
    drawn = share * unit_reach(load)
    moving, walking = stream_limits(sizes, chip, replace(constants, bandwidth=share, cache_speedup=speedup), load)
    plain = divide(traffic, chip.bandwidth * drawn)
    times = np.where(traffic > 0.0, divide(moving, np.where(traffic > 0.0, plain, 1.0)), 1.0)
    short = count * constants.row / chip.compute_units
    flat = np.where(traffic > 0.0, divide(short, np.where(traffic > 0.0, moving, 1.0)), 0.0)
    return share / times, walking, flat ** chip.physics["short_row_corner"]
