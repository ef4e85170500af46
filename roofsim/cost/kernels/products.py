"""Price matrix products: their tiles, waves and traffic with the constants of the engine's library, in every phase alike."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.cost.columns import column, is_of_points, rows_of
from roofsim.cost.kernels.model import KernelLimits
from roofsim.cost.kernels.models.gemm import GemmConstants, GemmShape, Tiling, gemm_limits, tile_efficiency
from roofsim.cost.kernels.rated import card, cut_units, rated, unit_share
from roofsim.cost.kernels.table import TILING, arithmetic_of, constants_for, own_rates
from roofsim.graph.expansion import packed_weight
from roofsim.graph.ops import GroupedMatmul, Matmul
from roofsim.graph.tensor import Role
from roofsim.numeric import axes_of, divide, is_scalar, maximum, minimum, real, where
from roofsim.points import Points, anywhere, everywhere
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.cost.device import Device
    from roofsim.cost.kernels.library import KernelLibrary
    from roofsim.cost.kernels.models.silicon import Silicon
    from roofsim.cost.kernels.work import KernelWork, Pricing
    from roofsim.graph.base import AbstractOp
    from roofsim.numeric import Array, Real

#: Constants of products that belong to streaming operands, whatever their width; those measured on 8 bits hold the conversion
#: of activations and the launches of scales.
STREAMING: Final = ("floor", "bandwidth", "fill")
#: The arithmetic whose streaming was measured best.
WIDE: Final = "fp16"
#: What a library's product changes of a kernel that expands weights itself.
CHANGED: Final = ("compute_share", "bandwidth_share", "floor", "energy", "norm")

#: Products of which those on ordinary units were measured; matrix units that take them are as fast as these.
MEASURED_WIDE: Final = ("fp32_matrix", "fp64_matrix")

Sizes = tuple["Real", "Real", "Real", "Real", "Real", "Real", "Real"]


#: Products, each of so many points, whose tiles are compared in one expression: few enough to stay in a processor's cache.
MOST_PRODUCTS: Final = 4_096


@dataclass(frozen=True)
class Product:
    """Sizes of a matrix product and the bytes of an element of both operands and of the result.

    `factor` is the share of the library's rate that this product reaches (operands that are not aligned, say), `peak` the
    dense FLOP/s of its arithmetic where they are not those of the format (None: they are), `beside` what moves beside
    operands and result (a sum that is read), against these.
    """

    m: Real
    n: Real
    k: Real
    batch: Real
    itemsizes: tuple[Real, Real, Real]
    factor: Real = 1.0
    peak: Real | None = None
    beside: Real = 0.0


class ProductModel:
    """Matrix products of one number format."""

    def limits(self, shape: Product, math: str, device: Device, library: KernelLibrary) -> KernelLimits:
        """Return what bounds a product, as `KernelModel.limits`."""
        return self.all_limits([shape], math, device, library)[0]

    def all_limits(
        self, shapes: Sequence[Product], math: str, device: Device, library: KernelLibrary
    ) -> list[KernelLimits]:
        """Return what bounds products of one format; in one expression where all sizes are plain numbers."""
        measured, numbers = constants_for(device, "gemm", library.engine.kernels.measured_as, arithmetic_of(math))
        _, wide = constants_for(device, "gemm", None, arithmetic_of(WIDE))
        numbers = {name: wide.get(name, value) if name in STREAMING else value for name, value in numbers.items()}
        own_floor = numbers.pop("floor")
        floor = own_floor if measured else device.architecture.kernel_floor
        measured_share = numbers.pop("compute", None)
        sharpness = numbers["sharpness"]
        if library.stream_share is not None:
            numbers["bandwidth"] = library.stream_share
        tiling = Tiling(**{name: numbers.pop(name) for name in TILING})
        peak = shapes[0].peak
        peak = device.product_rate(math, half=library.half_accumulation)[0] if peak is None else peak
        tiling = fed(tiling, math, peak, device)
        if measured_share is not None and not measured:
            # What an architecture makes of others' kernels is stated in its file.
            measured_share *= device.deviation.compute.get(device.share_key(math), 1.0)
        share = compute_share(measured_share if math in own_rates() else None, math, peak, device)
        shares = [share * shape.factor for shape in shapes]
        sizes = [(shape.m, shape.n, shape.k, shape.batch, *shape.itemsizes) for shape in shapes]
        return [
            KernelLimits(compute=compute, memory=memory * (1.0 + shape.beside), floor=floor, sharpness=sharpness)
            for shape, (compute, memory) in zip(
                shapes, product_limits(sizes, shares, peak, device, numbers, tiling), strict=True
            )
        ]


PRODUCTS: Final = ProductModel()


def compute_share(measured: float | None, math: str, peak: Real, device: Device) -> Real:
    """Return the share of the dense peak that large products reach at full clock, tiles and waves apart.

    Of formats in which whole steps were measured it is a constant of cards; of others, one of the measured kernels.
    """
    if measured is None:
        return device.compute_share(device.share_key(math)) / device.pace
    return unit_share(measured, math, peak, device)


def fed(tiling: Tiling, math: str, peak: Real, device: Device) -> Tiling:
    """Return how kernels cut a product on a card whose matrix units do fewer FLOP per clock than their architecture's.

    Operands come to such units as fast as to others, so that they wait the less for them, and for the first of a tile.
    """
    cut = 1.0 if device.share_key(math) in MEASURED_WIDE or not device.rate(math)[1] else cut_units(math, peak, device)
    return replace(tiling, thinness=tiling.thinness / cut, ramp=tiling.ramp / cut)


def price_products(ops: dict[int, AbstractOp], works: dict[int, KernelWork], context: Pricing) -> None:
    """Price products that a library multiplies, all of a format at once."""
    groups: dict[tuple[str, bool, bool], list[int]] = {}
    for place, op in ops.items():
        if isinstance(op, Matmul | GroupedMatmul) and packed_weight(op) is not None:
            works[place] = _cut(works[place], context)
        work = works[place]
        if isinstance(op, Matmul) and work.product is not None and _from_library(op, context):
            weighted = op.inputs[1].owner.role is Role.PARAMETER  # or a copy of one in another type
            groups.setdefault((work.compute_keys[0], work.on_tensor, weighted), []).append(place)
    for (key, _, weighted), places in groups.items():
        library = (
            context.library
            if weighted
            else replace(context.library, engine=context.library.engine.changed(stream_share=None))
        )
        _products_of(key.removesuffix("_matrix"), places, ops, works, context, library)
    for place, op in ops.items():
        if isinstance(op, Matmul):
            works[place] = _vector(op, works[place], context)


def _cut(work: KernelWork, context: Pricing) -> KernelWork:
    """Give a kernel that expands weights on the way what tiles and waves leave of its compute share."""
    units = context.device.compute_units
    if work.product is None or units is None:
        return work
    math = work.compute_keys[0].removesuffix("_matrix")
    left = tile_efficiency(*work.product, real(units), tiling_for(context.device, math, work.flop_peak))
    return replace(work, compute_share=work.compute_share * left, tiling=left)


def tiling_for(device: Device, math: str, peak: Real) -> Tiling:
    """Return how a library cuts products of a number format on a card, at the dense FLOP/s of its arithmetic."""
    _, numbers = constants_for(device, "gemm", None, arithmetic_of(math))
    return fed(Tiling(**{name: numbers[name] for name in TILING}), math, peak, device)


def _from_library(op: Matmul, context: Pricing) -> bool:
    """Tell whether a library multiplies, at some sizes at least: not where narrow weights are expanded on the way."""
    return packed_weight(op) is None or anywhere(_as_library(op, context))


def _as_library(op: Matmul, context: Pricing) -> Any:
    """Tell whether a product that expands packed weights runs at the library's rate: in many rows.

    Beyond few rows arithmetic decides, and a kernel that expands weights on the way reaches a share of what the library does
    (`weight_only.compute`); clocks that a card cannot hold, it cannot hold either. Integer kernels, and those that expand
    weights again for each few rows, have a rate of their own.
    """
    tiled = op.expansion is not None and op.expansion.tile_rows is not None
    integer = context.library.engine.matmul.weight_only.integer is not None and context.device.has("int8")
    return False if op.scores or tiled or integer else _settled(op.m > context.few_rows, op.m)


def _settled(holds: Any, rows: Real) -> Any:
    """Return a condition as yes or no where it is the same for all sizes."""
    if is_scalar(rows) or isinstance(holds, Points):
        return everywhere(holds)
    return bool(np.all(holds)) if np.all(holds) or not np.any(holds) else holds


def _products_of(
    math: str,
    places: list[int],
    ops: dict[int, AbstractOp],
    works: dict[int, KernelWork],
    context: Pricing,
    library: KernelLibrary,
) -> None:
    """Price the products of a format, of which a library multiplies all with weights or none."""
    device = context.device
    # The product's own number may be that of integer kernels, at sizes at which narrow weights are not written out.
    peak, _ = context.product_rate(math)
    usual = device.compute_share(device.share_key(math))
    shapes = [_product(ops[place], works[place], usual, peak) for place in places]
    for place, limits in zip(places, PRODUCTS.all_limits(shapes, math, device, library), strict=True):
        op = ops[place]
        assert isinstance(op, Matmul)
        streams = where(op.m <= context.few_rows, 1.0, 0.0)
        rated_work = rated(works[place], context, limits, streams=streams)
        works[place] = _where_many(op, works[place], rated_work, context)


def _product(op: AbstractOp, work: KernelWork, usual: Real, peak: Real) -> Product:
    """Return the product that runs."""
    assert isinstance(op, Matmul)
    assert work.product is not None
    narrow = packed_weight(op) is not None
    m, n, k, batch = (op.m, op.n, op.k, op.batch) if narrow else work.product
    left, right, result = (tensor.dtype.itemsize for tensor in (op.inputs[0], op.inputs[1], op.outputs[0]))
    sizes = left, right, result
    beside: Real = 0.0
    if not narrow:
        operands = batch * (m * k * left + k * n * right + m * n * result)
        beside = maximum(divide(work.traffic, operands) - 1.0, 0.0)
    return Product(m, n, k, batch, sizes, work.compute_share / work.tiling / usual, peak, beside)


def _where_many(op: Matmul, inside: KernelWork, library: KernelWork, context: Pricing) -> KernelWork:
    """Return the product at the library's rate, but for the sizes at which few rows stream narrow weights."""
    many = True if packed_weight(op) is None else _as_library(op, context)
    if many is True:
        return library
    changed: dict[str, Any] = {name: where(many, getattr(library, name), getattr(inside, name)) for name in CHANGED}
    return replace(inside, **changed)


def product_limits(
    shapes: Sequence[Sizes],
    shares: Sequence[Real],
    peak: Real,
    device: Device,
    numbers: dict[str, float],
    tiling: Tiling,
) -> list[tuple[Real, Real]]:
    """Return the seconds of arithmetic and traffic of products: of those whose numbers have the same axes in one expression."""
    chip = card(device, peak)
    chips = (peak, chip.bandwidth, chip.cache, chip.compute_units)
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, (shape, share) in enumerate(zip(shapes, shares, strict=True)):
        groups.setdefault(axes_of(*shape, share, *chips), []).append(place)
    bounds: dict[int, tuple[Real, Real]] = {}
    for axes, members in groups.items():
        step = max(MOST_PRODUCTS // math.prod(axes), 1)
        for first in range(0, len(members), step):
            places = members[first : first + step]
            rows = [(*shapes[place], shares[place]) for place in places]
            *sizes, share = (column(values, len(axes)) for values in zip(*rows, strict=True))
            of_points = is_of_points([*chips, *itertools.chain.from_iterable(rows)])
            limits = _limits(sizes, share, chip, numbers, tiling)
            by_place = (rows_of(limit, len(places), axes, of_points=of_points) for limit in limits)
            bounds |= dict(zip(places, zip(*by_place, strict=True), strict=True))
    return [bounds[place] for place in range(len(shapes))]


def _limits(
    shape: Sequence[Array], share: Array, chip: Silicon, numbers: dict[str, float], tiling: Tiling
) -> tuple[Array, Array]:
    m, n, k, batch, a, b, c = shape
    sizes = GemmShape(m=m, n=n, k=k, batch=batch, itemsize_a=a, itemsize_b=b, itemsize_c=c)
    return gemm_limits(sizes, chip, GemmConstants(floor=0.0, compute=share, tiling=tiling, **numbers))


def _vector(op: Matmul, work: KernelWork, context: Pricing) -> KernelWork:
    """Hold products of few rows to what the engine's own kernels for them draw, and those of more rows to no more than that.

    Weights pass through the caches once a step, so that a library's kernels find them there no more than those for vectors do.
    """
    library = context.library
    if op.scores:
        share = library.engine.attention.cache_read_share
        return (
            work
            if share is None
            else replace(work, bandwidth_share=where(op.m <= context.few_rows, share, work.bandwidth_share))
        )
    weight = op.inputs[1]
    if (
        library.stream_share is None
        or library.engine.matmul.vector_rows < 1.0
        or weight.role is not Role.PARAMETER
        or packed_weight(op)
    ):
        return work
    few, share = op.m <= library.engine.matmul.vector_rows, library.stream_share
    return replace(work, bandwidth_share=where(few, share, minimum(work.bandwidth_share, share)))
