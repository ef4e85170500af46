"""Price products with weights in inference with the rates of measured kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.cost.kernels.models.gemm import GemmConstants, GemmShape, Tiling, gemm_limits
from roofsim.cost.kernels.quantised import FEW_ROWS, packed_weight
from roofsim.cost.kernels.rated import arithmetic_of, card, rated, sustained, unit_share
from roofsim.cost.kernels.table import constants_for
from roofsim.graph.ops import Matmul
from roofsim.graph.tensor import Role
from roofsim.numeric import is_scalar, where
from roofsim.points import Points, anywhere, everywhere
from roofsim.records import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.cost.kernels.models.silicon import Silicon
    from roofsim.cost.kernels.work import KernelWork, Pricing
    from roofsim.cost.serving import Serving
    from roofsim.graph.base import AbstractOp
    from roofsim.numeric import Array, Real

#: Four-bit formats whose products were measured.
FOUR_BITS: Final = ("nvfp4",)
#: Constants of products that belong to streaming weights, whatever their width; those measured on 8 bits hold the conversion
#: of activations and the launches of scales.
STREAMING: Final = ("floor", "bandwidth", "fill")
#: What a library's product changes of a kernel that expands weights itself.
CHANGED: Final = ("compute_share", "bandwidth_share", "floor", "launches", "energy", "norm")
#: Ratio of both rates from which the slower one counts as halved (GeForce cards).
HALVED: Final = 1.5

Sizes = tuple["Real", "Real", "Real", "Real", "Real", "Real", "Real"]


def price_products(
    ops: dict[int, AbstractOp], works: dict[int, KernelWork], context: Pricing, serving: Serving
) -> None:
    """Price products with weights, all with the same constants at once."""
    groups: dict[str, list[int]] = {}
    for place, op in ops.items():
        if isinstance(op, Matmul) and _from_library(op, works[place], context):
            kind = arithmetic_of(op)
            if kind is not None and works[place].on_tensor:
                groups.setdefault(kind, []).append(place)
    for kind, places in groups.items():
        _products_of(kind, places, ops, works, context, serving)
    for place, op in ops.items():
        if isinstance(op, Matmul):
            works[place] = _vector(op, works[place], serving)


def _from_library(op: Matmul, work: KernelWork, context: Pricing) -> bool:
    """Tell whether a library multiplies: what has a product with a weight, at some sizes at least."""
    return work.product is not None and (_weighted(op) or anywhere(_as_library(op, context)))


def _weighted(op: Matmul) -> bool:
    """Whether the right operand is a parameter, of which there is one, that the units multiply as it is stored."""
    stored = op.inputs[1]
    plain = stored.role is Role.PARAMETER and packed_weight(op) is None
    return not op.scores and plain and (stored.dtype.itemsize in (1.0, 2.0) or arithmetic_of(op) in FOUR_BITS)


def _written_out(op: Matmul, context: Pricing) -> Any:
    """Tell whether narrow weights are written in 16 bits for the library: yes or no, or for which of several sizes."""
    start = context.quantised.expand_from
    if start is None or op.scores or packed_weight(op) is None:
        return False
    return _settled(op.m >= start, op.m)


def _as_library(op: Matmul, context: Pricing) -> Any:
    """Tell whether a product with narrow weights runs at the library's rate: behind their expansion, or in many rows.

    Beyond few rows arithmetic decides, and a kernel that expands weights on the way reaches a share of what the library does
    (`weight_only.compute`); clocks that a card cannot hold, it cannot hold either. Integer kernels, and those that expand
    weights again for each few rows, have a rate of their own.
    """
    if op.scores or packed_weight(op) is None:
        return False
    written = _written_out(op, context)
    integer = context.quantised.facts.integer is not None and context.device.has("int8")
    if integer or context.quantised.facts.tile_rows is not None:
        return written
    return _settled(np.logical_or(written, op.m > FEW_ROWS), op.m)


def _settled(holds: Any, rows: Real) -> Any:
    """Return a condition as yes or no where it is the same for all sizes."""
    if is_scalar(rows) or isinstance(holds, Points):
        return everywhere(holds)
    return bool(np.all(holds)) if np.all(holds) or not np.any(holds) else holds


def _products_of(
    kind: str,
    places: list[int],
    ops: dict[int, AbstractOp],
    works: dict[int, KernelWork],
    context: Pricing,
    serving: Serving,
) -> None:
    device = context.device
    measured, numbers = constants_for(device, "gemm", serving.engine.kernels.measured_as, kind)
    _, wide = constants_for(device, "gemm", None, "16-bit")
    # The conversion of activations is a kernel of the graph; narrow weights stream as wide ones do.
    numbers = {name: wide.get(name, value) if name in STREAMING else value for name, value in numbers.items()}
    numbers.pop("quantise")
    floor = numbers.pop("floor")
    floor = floor if measured else device.architecture.kernel_floor
    # The product's own number may be that of integer kernels, at sizes at which narrow weights are not written out.
    peak, _ = context.product_rate(works[places[0]].compute_keys[0].removesuffix("_matrix"))
    own = unit_share(numbers.pop("compute"), context) * sustained(context, peak, kind)
    if serving.stream_share is not None:
        numbers["bandwidth"] = serving.stream_share
    tiling = Tiling(**{name: numbers.pop(name) for name in ("thinness", "ramp", "wave", "reduction")})
    shapes, shares = [], []
    for place in places:
        work, key = works[place], works[place].compute_keys[0]
        whole = work.compute_share / work.tiling
        shares.append(whole / device.pace if _halved(context, key) else own * whole / device.compute_share(key))
        shapes.append(_shape(ops[place], context))
    for place, limits in zip(places, product_limits(shapes, shares, peak, context, numbers, tiling), strict=True):
        found = rated(works[place], context, limits, floor, numbers["sharpness"])
        works[place] = _where_many(ops[place], works[place], found, context)


def _where_many(op: AbstractOp, inside: KernelWork, library: KernelWork, context: Pricing) -> KernelWork:
    """Return the product at the library's rate, but for the sizes at which few rows stream narrow weights."""
    assert isinstance(op, Matmul)
    many = True if packed_weight(op) is None else _as_library(op, context)
    if many is True:
        return library
    changed: dict[str, Any] = {name: where(many, getattr(library, name), getattr(inside, name)) for name in CHANGED}
    return replace(inside, **changed)


def _halved(context: Pricing, math: str) -> bool:
    """Whether products add up at half of the rate that the card's units have, which leaves their other limits idle.

    Files state that rate for fp16; bf16 runs on the same units, and always adds up in fp32.
    """
    if context.half_accumulation and math == "fp16":
        return False
    own = "fp16_fp16" if math == "bf16" else f"{math}_fp16"
    full, usual = context.device.tensor.get(own), context.device.tensor[math]
    return full is not None and everywhere(full > HALVED * usual)


def _shape(op: AbstractOp, context: Pricing) -> Sizes:
    """Return m, n, k, batch and bytes per element of both operands and the result of a product."""
    assert isinstance(op, Matmul)
    left, right, result = (tensor.dtype.itemsize for tensor in (op.inputs[0], op.inputs[1], op.outputs[0]))
    right = where(_written_out(op, context), left, right)
    return op.m, op.n, op.k, op.batch, left, right, result


def product_limits(
    shapes: list[Sizes],
    shares: list[Real],
    peak: Real,
    context: Pricing,
    numbers: dict[str, float],
    tiling: Tiling,
) -> list[tuple[Real, Real]]:
    """Return the seconds of arithmetic and traffic of products; in one expression where all sizes are plain numbers."""
    chip = card(context, peak)
    plain = all(is_scalar(*shape) for shape in shapes) and is_scalar(*shares, peak, chip.bandwidth, chip.cache)
    if plain:
        columns = [np.array(column) for column in zip(*shapes, strict=True)]
        limits = _limits(columns, np.array(shares), chip, numbers, tiling)
        return list(zip(limits[0].tolist(), limits[1].tolist(), strict=True))
    return [_limits(list(shape), share, chip, numbers, tiling) for shape, share in zip(shapes, shares, strict=True)]


def _limits(
    shape: Sequence[Real], share: Real, chip: Silicon, numbers: dict[str, float], tiling: Tiling
) -> tuple[Array, Array]:
    m, n, k, batch, a, b, c, share = np.broadcast_arrays(*shape, share)
    sizes = GemmShape(m=m, n=n, k=k, batch=batch, itemsize_a=a, itemsize_b=b, itemsize_c=c)
    return gemm_limits(sizes, chip, GemmConstants(floor=0.0, compute=share, tiling=tiling, **numbers))


def _vector(op: Matmul, work: KernelWork, serving: Serving) -> KernelWork:
    """Hold products of few rows to what the engine's own kernels for them draw."""
    if op.scores:
        share = serving.engine.attention.cache_read_share if serving.decodes else None
        return work if share is None else replace(work, bandwidth_share=share)
    if serving.stream_share is None or serving.engine.matmul.vector_rows < 1.0 or not _weighted(op):
        return work
    few = op.m <= serving.engine.matmul.vector_rows
    return replace(work, bandwidth_share=where(few, serving.stream_share, work.bandwidth_share))
