"""Say what each op asks of the device: which kernels run, their traffic, and the rates that such kernels achieve."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING, Final

from roofsim.graph.base import AbstractOp, Kind
from roofsim.graph.ops import (
    Attention,
    CacheAppend,
    Cast,
    Convolution,
    Copy,
    Dropout,
    Elementwise,
    Embedding,
    Fused,
    Gather,
    GroupedMatmul,
    Loss,
    Matmul,
    Normalization,
    OptimizerUpdate,
    Pool,
    Reduction,
    Resize,
    Scan,
    Softmax,
    Sort,
    View,
)

if TYPE_CHECKING:
    from roofsim.cost.device import Device
    from roofsim.numeric import Real

#: Depthwise convolutions run on ordinary units at this share of their peak (single-GPU study of 450 training rows).
DEPTHWISE_FRACTION: Final = 0.31
#: Ordinary elementwise arithmetic is never the limit by much; this share of the vector peak is assumed.
VECTOR_FRACTION: Final = 0.5
#: Passes over the wide tensors that native batch norm makes in channels-first layout, against the read and write that
#: the op states: forward 2 reads and 1 write instead of 1 and 1, backward 4 and 1 instead of 2 and 1 (same study).
BATCH_NORM_PASSES: Final = {False: 1.5, True: 5.0 / 3.0}
#: A tensor-core convolution on channels-first data transposes its operands: this share of a read and a write of input
#: and output per pass (same study; 16-bit and TF32).
TRANSPOSE_SHARE: Final = {"fp16": 0.71, "bf16": 0.71, "tf32": 0.22}
#: Rows longer than this do not stay on chip: softmax reads them three times.
SOFTMAX_ROW: Final = 1024.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelWork:
    """One kernel launch as the roofline sees it.

    `compute_share` and `bandwidth_share` are achieved fractions of `flop_peak` and of the memory bandwidth; `on_tensor`
    says which units compute.
    """

    flops: Real
    flop_peak: Real
    compute_share: Real
    traffic: Real
    bandwidth_share: Real
    launches: Real
    on_tensor: bool


@dataclass(frozen=True)
class Pricing:
    """Context of pricing: the device and the layout of images."""

    device: Device
    channels_last: bool = False

    def bandwidth_share(self, kind: str) -> float:
        """Return the achieved share of the memory bandwidth of a class of kernels."""
        architecture = self.device.architecture
        return architecture.bandwidth * architecture.classes[kind]

    def heavy(self, op: AbstractOp, flops: Real, traffic: Real, kind: str, table: dict[str, float]) -> KernelWork:
        """Return the work of a kernel with matrix arithmetic."""
        math = str(op.math or op.inputs[0].dtype)
        peak, on_tensor = self.device.rate(math)
        return KernelWork(
            flops=flops,
            flop_peak=peak,
            compute_share=_fraction(table, math, self.device),
            traffic=traffic,
            bandwidth_share=self.bandwidth_share(kind),
            launches=1.0,
            on_tensor=on_tensor,
        )

    def light(self, flops: Real, traffic: Real, kind: str, launches: Real = 1.0) -> KernelWork:
        """Return the work of a kernel that moves bytes; arithmetic on ordinary units, free where their peak is unknown."""
        rate = self.device.vector_rate
        return KernelWork(
            flops=0.0 if rate is None else flops,
            flop_peak=1.0 if rate is None else rate,
            compute_share=VECTOR_FRACTION,
            traffic=traffic,
            bandwidth_share=self.bandwidth_share(kind),
            launches=launches,
            on_tensor=False,
        )


def _fraction(table: dict[str, float], math: str, device: Device) -> float:
    if math not in table:
        from roofsim.errors import NoDataError

        raise NoDataError(
            f"architecture {device.architecture.name} states no achieved fraction for {math}; it has {', '.join(table)}"
        )
    return table[math]


@singledispatch
def kernels_of(op: AbstractOp, context: Pricing) -> tuple[KernelWork, ...]:
    """Return the kernels that an op launches (none for a view)."""
    return (context.light(op.flops(), op.bytes_read() + op.bytes_written(), str(op.kind), op.kernels()),)


for _class in (
    Cast,
    Copy,
    CacheAppend,
    Dropout,
    Embedding,
    Gather,
    Loss,
    Pool,
    Reduction,
    Resize,
    Scan,
    Sort,
    OptimizerUpdate,
    Elementwise,
):
    kernels_of.register(_class, kernels_of.dispatch(AbstractOp))


@kernels_of.register
def _(op: View, context: Pricing) -> tuple[KernelWork, ...]:
    del op, context
    return ()


@kernels_of.register(Matmul)
@kernels_of.register(GroupedMatmul)
def _(op: AbstractOp, context: Pricing) -> tuple[KernelWork, ...]:
    traffic = op.bytes_read() + op.bytes_written()
    return (context.heavy(op, op.executed_flops(), traffic, "matmul", context.device.architecture.matmul),)


@kernels_of.register
def _(op: Attention, context: Pricing) -> tuple[KernelWork, ...]:
    traffic = op.bytes_read() + op.bytes_written()
    return (context.heavy(op, op.executed_flops(), traffic, "attention", context.device.architecture.attention),)


@kernels_of.register
def _(op: Convolution, context: Pricing) -> tuple[KernelWork, ...]:
    if not op.backward:
        return (_convolution(op, context, op.bytes_read() + op.bytes_written()),)
    gradient, x, weight = op.inputs
    works = []
    if op.data_gradient:
        works.append(_convolution(op, context, gradient.bytes + weight.bytes + x.bytes))
    if op.weight_gradient:
        works.append(_convolution(op, context, gradient.bytes + weight.bytes + x.bytes))
    if len(op.outputs) > len(works):
        works.append(context.light(gradient.numel, gradient.bytes, "reduction"))
    return tuple(works)


def _convolution(op: Convolution, context: Pricing, traffic: Real) -> KernelWork:
    """Return one pass of a convolution: forward, data gradient or weight gradient, each with the same FLOPs."""
    flops = op.forward_flops()
    if op.depthwise():
        work = context.light(flops, traffic, "convolution")
        return KernelWork(
            flops=work.flops, flop_peak=work.flop_peak, compute_share=DEPTHWISE_FRACTION, traffic=traffic,
            bandwidth_share=work.bandwidth_share, launches=1.0, on_tensor=False,
        )  # fmt: skip
    math = str(op.math or op.inputs[0].dtype)
    if not context.channels_last:
        image = op.batch * (_positions(op.in_size) * op.in_channels + _positions(op.out_size) * op.out_channels)
        traffic = traffic + TRANSPOSE_SHARE.get(math, 0.0) * 2.0 * image * op.inputs[0].dtype.itemsize
    return context.heavy(op, flops, traffic, "convolution", context.device.architecture.convolution)


def _positions(size: tuple[Real, ...]) -> Real:
    total: Real = 1.0
    for length in size:
        total = total * length
    return total


@kernels_of.register
def _(op: Normalization, context: Pricing) -> tuple[KernelWork, ...]:
    traffic = op.bytes_read() + op.bytes_written()
    if op.method != "batch":
        return (context.light(op.flops(), traffic, str(op.kind)),)
    if not context.channels_last and op.training:
        traffic = traffic * BATCH_NORM_PASSES[op.backward]
    return (context.light(op.flops(), traffic, "batch_normalization"),)


@kernels_of.register
def _(op: Softmax, context: Pricing) -> tuple[KernelWork, ...]:
    from roofsim.numeric import where

    traffic = op.bytes_read() + op.bytes_written()
    if not op.backward:
        traffic = traffic + where(op.row > SOFTMAX_ROW, 2.0 * op.inputs[0].bytes, 0.0 * op.inputs[0].bytes)
    return (context.light(op.flops(), traffic, str(op.kind)),)


@kernels_of.register
def _(op: Fused, context: Pricing) -> tuple[KernelWork, ...]:
    group = op.group if op.group is not Kind.DROPOUT else Kind.ELEMENTWISE
    return (context.light(op.flops(), op.bytes_read() + op.bytes_written(), str(group)),)
