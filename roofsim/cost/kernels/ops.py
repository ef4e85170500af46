"""Say what each op asks of the device: which kernels run, their traffic, and the rates that such kernels achieve."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.cost.kernels.attention import arithmetic_in, price_attention
from roofsim.cost.kernels.convolutions import price_convolutions
from roofsim.cost.kernels.expansion import expanding
from roofsim.cost.kernels.experts import price_experts
from roofsim.cost.kernels.priced_as import priced_as
from roofsim.cost.kernels.products import price_products
from roofsim.cost.kernels.random_access import Moves, gather_moves, narrowness, state_moves, table_moves
from roofsim.cost.kernels.streams import price_streams
from roofsim.cost.kernels.work import KernelWork, Pricing
from roofsim.graph.alike import alike
from roofsim.graph.base import AbstractOp, Kind
from roofsim.graph.ops import (
    Attention,
    CacheAppend,
    Cast,
    Collective,
    Convolution,
    Copy,
    Dropout,
    Elementwise,
    Embedding,
    ExtraKernels,
    Fused,
    Gather,
    GroupedMatmul,
    HostCompute,
    HostTransfer,
    HostUpdate,
    Loss,
    Matmul,
    Normalization,
    OptimizerUpdate,
    Pool,
    Recurrence,
    Reduction,
    Resize,
    Scan,
    Softmax,
    Sort,
    StatedKernel,
    View,
)
from roofsim.graph.tensor import Role
from roofsim.numeric import any_above, maximum, same, where
from roofsim.records import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.numeric import Real

#: Optimizers whose every step is a kernel for each tensor; others run over all tensors at once.
ONE_BY_ONE: Final = ("loop", "bert_adam")
#: Channels of an image.
FIRST_CHANNELS: Final = 3.0
#: Number formats whose operands must be aligned.
_SIXTEEN_BIT: Final = ("fp16", "bf16")


@singledispatch
def kernels_of(op: AbstractOp, context: Pricing) -> tuple[KernelWork, ...]:
    """Return the kernels that an op launches (none for a view)."""
    return (context.light(op.flops(), op.bytes_read() + op.bytes_written(), str(op.kind), op.kernels()),)


for _class in (
    Copy,
    CacheAppend,
    ExtraKernels,
    Loss,
    Reduction,
    Resize,
    Scan,
    Sort,
    Elementwise,
):
    kernels_of.register(_class, kernels_of.dispatch(AbstractOp))


@kernels_of.register
def _(op: Cast, context: Pricing) -> tuple[KernelWork, ...]:
    unpacking = context.device.constants.physics["expansion_flops"] if op.dequantises else 0.0
    traffic = op.bytes_read() + op.bytes_written()
    return (context.light(unpacking * op.outputs[0].numel, traffic, str(op.kind), op.kernels()),)


@kernels_of.register
def _(op: Embedding, context: Pricing) -> tuple[KernelWork, ...]:
    # Bags read whole rows, many at once: gathers of FBGEMM reach 2.5 to 2.8 TB/s on an H100, what copies do (pytorch/FBGEMM, 3993).
    kind = "copy" if op.bags and not op.backward else str(op.kind)
    traffic = op.bytes_read() + op.bytes_written()
    if op.backward and not op.sparse:
        return (context.light(op.flops(), traffic, kind, op.kernels()),)
    rows, states, passes = table_moves(op, context.device), state_moves(op, context.device), 2.0 if op.backward else 1.0
    moved = traffic + (rows.moved + states.moved - op.rows(op.inputs[0]) - op.state_rows()) * passes
    work = context.light(op.flops(), moved, kind, op.kernels())
    if not (op.bags or op.sparse):
        return (work,)
    asked = moved + (rows.asked + states.asked - rows.moved - states.moved) * passes
    return (replace(work, load=Moves(moved, asked).load(work.load), at_random=True),)


@kernels_of.register
def _(op: Gather, context: Pricing) -> tuple[KernelWork, ...]:
    if op.rows is None:
        return (context.light(op.flops(), op.bytes_read() + op.bytes_written(), str(op.kind), op.kernels()),)
    moves = gather_moves(op, op.rows, context.device)
    narrow = narrowness(op, op.rows, context.library.engine.fusion.index_load_bytes, context.device)
    # Rows are copied, as long as enough loads are in flight: the class "gather" stands for kernels of which nobody says that.
    work = context.light(op.flops(), moves.moved, "copy", op.kernels())
    return (replace(work, load=moves.load(work.load, narrow), at_random=True),)


@kernels_of.register
def _(op: Dropout, context: Pricing) -> tuple[KernelWork, ...]:
    # Only the forward pass draws random numbers; the backward one multiplies by the mask.
    kind = "elementwise" if op.backward else str(op.kind)
    return (context.light(op.flops(), op.bytes_read() + op.bytes_written(), kind, op.kernels()),)


@kernels_of.register(View)
@kernels_of.register(Collective)
@kernels_of.register(HostCompute)
@kernels_of.register(HostTransfer)
@kernels_of.register(HostUpdate)
def _(op: AbstractOp, context: Pricing) -> tuple[KernelWork, ...]:
    del op, context  # a view is no kernel; others run beside the kernels (cost.communication, cost.host)
    return ()


@kernels_of.register
def _(op: Matmul, context: Pricing) -> tuple[KernelWork, ...]:
    traffic = op.bytes_read() + op.bytes_written()
    product = (op.m, op.n, op.k, op.batch)
    work = context.heavy(op, op.executed_flops(), traffic, "matmul", _alignment(op, context), product=product)
    work = replace(_streamed(work, op.m, context), launches=op.kernels())
    return (expanding(work, op, op.m, context),)


@kernels_of.register
def _(op: StatedKernel, context: Pricing) -> tuple[KernelWork, ...]:
    return (context.heavy(op, op.flops(), op.bytes_read(), "matmul"),)


@kernels_of.register
def _(op: Recurrence, context: Pricing) -> tuple[KernelWork, ...]:
    # One call; the library launches kernel after kernel, none of which takes less than the smallest.
    work = context.heavy(op, op.executed_flops(), op.bytes_read() + op.bytes_written(), "matmul")
    floor = (op.kernels() - 1.0) * context.device.architecture.kernel_floor
    return (replace(_streamed(work, op.batch, context), floor=floor),)


@kernels_of.register
def _(op: GroupedMatmul, context: Pricing) -> tuple[KernelWork, ...]:
    touched = op.experts_touched()
    product = (op.rows / touched, op.n, op.k, touched)
    traffic = op.bytes_read() + op.bytes_written()
    work = context.heavy(op, op.executed_flops(), traffic, "matmul", product=product)
    work = replace(_streamed(work, op.rows / op.experts, context), launches=op.kernels())
    return (expanding(work, op, op.rows / touched, context),)


def _streamed(work: KernelWork, rows: Real, context: Pricing) -> KernelWork:
    """Give a product of few rows the bandwidth of kernels that stream weights: they are tuned for nothing else.

    What a unit draws at most is a limit of how many loads the engine's kernels keep in flight. It was measured at one row, and
    holds at any number: rows share what was loaded, and each adds arithmetic, so that no product takes less time than the same
    with fewer rows.
    """
    few, share = rows <= context.few_rows, context.device.bandwidth_share("weights")
    work = replace(work, limit=context.stream_limit)
    if isinstance(few, (bool, np.bool_)):
        return replace(work, bandwidth_key="weights", bandwidth_share=share) if few else work
    return replace(work, bandwidth_share=where(few, share, work.bandwidth_share))


def _alignment(op: Matmul, context: Pricing) -> tuple[tuple[str, Real], ...]:
    """Return the penalty of 16-bit operands whose rows do not begin at multiples of 16 bytes.

    Of a plain matmul the number of rows (tokens) is nobody's leading dimension: it is m, and k of the weight gradient.
    """
    math = str(op.math or op.inputs[0].dtype)
    if math not in _SIXTEEN_BIT or not context.device.rate(math)[1]:
        return ()
    gradient = bool(op.outputs) and op.outputs[0].role is Role.GRADIENT
    single, granule = op.batch <= 1.0, context.device.constants.physics["alignment"]
    plain = _odd(granule, op.m, op.n) if gradient else _odd(granule, op.n, op.k)
    table = context.device.constants.factors
    batched = _odd(granule, op.m, op.n, op.k)
    return (
        *_where(where(single, plain, 0.0 * plain) > 0.0, "misaligned", table),
        *_where(where(single, 0.0 * batched, batched) > 0.0, "misaligned_batched", table),
    )


def _where(holds: Any, name: str, factors: dict[str, float]) -> list[tuple[str, Real]]:
    """Return a condition and its factor, 1 where it does not hold; nothing where it nowhere does."""
    if isinstance(holds, (bool, np.bool_)):
        return [(name, factors[name])] if holds else []
    return [(name, np.where(holds, factors[name], 1.0))]


def _odd(granule: float, *leading: Real) -> Real:
    """Return by how much the worst of some leading dimensions misses a multiple."""
    worst: Real = 0.0
    for size in leading:
        worst = maximum(worst, size % granule)
    return worst


@kernels_of.register
def _(op: Attention, context: Pricing) -> tuple[KernelWork, ...]:
    traffic = op.bytes_read() + op.bytes_written()
    work = context.heavy(op, op.executed_flops(), traffic, "fused_attention", math=arithmetic_in(op, context))
    if op.ring is None:
        return (work,)
    merged = context.light(0.0, op.merged_bytes(), "elementwise", op.shards - 1.0)
    return (replace(work, launches=op.shards), merged)


@kernels_of.register
def _(op: Convolution, context: Pricing) -> tuple[KernelWork, ...]:
    if not op.backward:
        return (_convolution(op, context, op.bytes_read() + op.bytes_written(), "forward"),)
    gradient, x, weight = op.inputs
    works = []
    if op.data_gradient:
        works.append(_convolution(op, context, gradient.bytes + weight.bytes + x.bytes, "data"))
    if op.weight_gradient:
        works.append(_convolution(op, context, gradient.bytes + weight.bytes + x.bytes, "weight"))
    if len(op.outputs) > len(works):
        works.append(context.light(gradient.numel, gradient.bytes, "reduction"))
    return tuple(works)


def _convolution(op: Convolution, context: Pricing, traffic: Real, direction: str) -> KernelWork:
    """Return one pass of a convolution: forward, data gradient or weight gradient, each with the same FLOPs."""
    flops = op.forward_flops()
    if op.depthwise():
        kind = "depthwise" if direction == "forward" else "depthwise_backward"
        return context.light(flops, traffic, kind, condition="depthwise")
    factors = context.device.constants.factors
    math = str(op.math or op.inputs[0].dtype)
    on_tensor = context.device.rate(math)[1]
    conditions: list[tuple[str, Real]] = [("convolution", factors["convolution"])]
    if math in _SIXTEEN_BIT and on_tensor and same(op.groups, 1.0) and not same(op.in_channels, FIRST_CHANNELS):
        odd = _odd(context.device.constants.physics["alignment"], op.in_channels, op.out_channels)
        conditions += _where(odd > 0.0, "misaligned_convolution", factors)
    if on_tensor and context.channels_last and not same(op.groups, 1.0):
        conditions += _where(_unpacked(op.in_channels / op.groups), "unpacked_groups", factors)
    transposed: Real = 0.0
    if not context.channels_last and on_tensor:
        image = op.batch * (_positions(op.in_size) * op.in_channels + _positions(op.out_size) * op.out_channels)
        transposed = 2.0 * image * op.inputs[0].dtype.itemsize
    product = _implicit_product(op, direction)
    work = context.heavy(op, flops, traffic, "convolution", tuple(conditions), transposed, product=product)
    return replace(work, part=direction)


def _unpacked(width: Real) -> Any:
    """Tell whether groups of so many channels have tiles of their own: libraries put groups of 4, 8, 16 or 32 into one."""
    return np.log2(width) % 1.0 > 0.0


def _implicit_product(op: Convolution, direction: str) -> tuple[Real, Real, Real, Real]:
    """Return the matrix products that a pass of a convolution is: one per group."""
    inputs, outputs = op.in_channels / op.groups, op.out_channels / op.groups
    taps = _positions(op.kernel_size)
    before, after = op.batch * _positions(op.in_size), op.batch * _positions(op.out_size)
    if direction == "forward":
        return after, outputs, inputs * taps, op.groups
    if direction == "data":
        return before, inputs, outputs * taps * (after / before), op.groups
    return outputs, inputs * taps, after, op.groups


def _positions(size: tuple[Real, ...]) -> Real:
    total: Real = 1.0
    for length in size:
        total = total * length
    return total


@kernels_of.register
def _(op: Normalization, context: Pricing) -> tuple[KernelWork, ...]:
    traffic, physics = op.bytes_read() + op.bytes_written(), context.device.constants.physics
    if op.method == "batch_statistics":
        # The pass over the input is one of those that the class of whole batch norms was measured with.
        return (context.light(0.0, sum(tensor.bytes for tensor in op.outputs), "reduction"),)
    if op.method not in ("batch", "synchronised"):
        twice = op.backward and op.method in ("layer", "rms")
        traffic = traffic * (physics["layer_norm_backward_passes"] if twice else 1.0)
        return _in_passes(op, op.flops(), traffic, str(op.kind), context)
    if not op.training:
        return (context.light(op.flops(), traffic, "elementwise"),)
    if context.channels_last:
        return (context.light(op.flops(), traffic, "batch_normalization_last"),)
    narrow = op.inputs[0].dtype.itemsize <= physics["narrow_element"]
    passes = physics["batch_norm_backward_passes" if op.backward else "batch_norm_forward_passes"]
    return (context.light(op.flops(), traffic * passes, f"batch_normalization{'_narrow' if narrow else ''}"),)


@kernels_of.register
def _(op: Pool, context: Pricing) -> tuple[KernelWork, ...]:
    kind = "pooling_backward" if op.backward else str(op.kind)
    return (context.light(op.flops(), op.bytes_read() + op.bytes_written(), kind, op.kernels()),)


@kernels_of.register
def _(op: OptimizerUpdate, context: Pricing) -> tuple[KernelWork, ...]:
    traffic = op.bytes_read() + op.bytes_written()
    kind = "optimizer_loop" if op.implementation in ONE_BY_ONE else str(op.kind)
    update = context.light(op.flops() - op.extra_flops, traffic, kind, op.kernels())
    update = replace(update, host=op.listed * context.device.host.tensor)
    if not any_above(op.extra_flops, 0.0):
        return (update,)
    # Muon orthogonalises in bf16 (Keller Jordan, 2024), or the best that the card has.
    math = next(name for name in ("bf16", "fp16", "fp32") if context.device.has(name))
    orthogonalised = context.heavy(op, op.extra_flops, 0.0, "matmul", math=math)
    return (update, replace(orthogonalised, launches=0.0))  # whose launches are among those of the update


@kernels_of.register
def _(op: Softmax, context: Pricing) -> tuple[KernelWork, ...]:
    traffic = op.bytes_read() + op.bytes_written()
    traffic = traffic - (1.0 - op.visible) * sum(tensor.bytes for tensor in op.inputs)
    # A kernel that keeps rows in registers streams as elementwise kernels do.
    return _in_passes(op, op.flops(), traffic, "elementwise" if op.on_chip else str(op.kind), context)


@kernels_of.register
def _(op: Fused, context: Pricing) -> tuple[KernelWork, ...]:
    if op.heavy is not None:
        # One launch of an operator: what it does beside its attention takes time, but none to be launched.
        beside = [work for part in op.parts if part is not op.heavy for work in kernels_of(part, context)]
        return (*kernels_of(op.heavy, context), *(replace(work, launches=0.0) for work in beside))
    group = op.group if op.group is not Kind.DROPOUT else Kind.ELEMENTWISE
    traffic = op.bytes_read() + op.bytes_written()
    if op.passes > 1.0:
        return _in_passes(op, op.flops(), traffic, str(group), context)
    return (context.light(op.flops(), traffic, str(group), op.kernels()),)


def _in_passes(
    op: Normalization | Softmax | Fused, flops: Real, traffic: Real, kind: str, context: Pricing
) -> tuple[KernelWork, ...]:
    """Return the kernels of an op that reads its input in several: reductions, and the one that writes the result."""
    again = int(op.passes) - 1
    first = tuple(context.light(0.0, op.inputs[0].bytes, kind) for _ in range(again))
    rest = traffic - sum(work.traffic for work in first) if first else traffic
    return (*first, context.light(flops, rest, kind))


def kernels_of_all(
    ops: Sequence[AbstractOp], context: Pricing, kinds: tuple[list[AbstractOp], list[int]] | None = None
) -> list[tuple[int, KernelWork]]:
    """Return the kernels of ops with the number of their op, at the rates that the models of their classes say.

    Ops that are alike have the very same kernels: these are made once. `kinds` is what `alike` says of the ops, if it was asked.
    """
    first, numbers = alike(ops) if kinds is None else kinds
    kernels: list[list[KernelWork]] = [[] for _ in first]
    for kind, work in _kernels_of_kinds(first, context):
        kernels[kind].append(work)
    return [(index, work) for index, kind in enumerate(numbers) for work in kernels[kind]]


def _kernels_of_kinds(ops: Sequence[AbstractOp], context: Pricing) -> list[tuple[int, KernelWork]]:
    """Return the kernels of ops that are all different, with the number of their op."""
    works = [(index, work) for index, op in enumerate(ops) for work in kernels_of(op, context)]
    priced = dict(enumerate(work for _, work in works))
    ops_of = {place: priced_as(ops[index], work) for place, (index, work) in enumerate(works)}
    price_products(ops_of, priced, context)
    price_convolutions(ops_of, priced, context)
    price_streams(ops_of, priced, context)
    for place, op in ops_of.items():
        if isinstance(op, Attention) and priced[place].bandwidth_key == "attention":
            priced[place] = price_attention(op, priced[place], context)
        elif isinstance(op, GroupedMatmul):
            priced[place] = price_experts(op, priced[place], context)
    return [(index, priced[place]) for place, (index, _) in enumerate(works)]
