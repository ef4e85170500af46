"""The backward of batch norms that take their statistics over several ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.ops import Collective, Normalization
from roofsim.graph.tensor import FP32, Role, Tensor

if TYPE_CHECKING:
    from roofsim.passes.autograd.tape import Tape


def synchronised_backward(op: Normalization, tape: Tape) -> None:
    """Sum the gradient and its product with the input by channel, add the sums of all ranks, scale by them.

    As torch/nn/modules/_functions.py does: batch_norm_backward_reduce, an all-reduce of two sums, batch_norm_backward_elemt.
    """
    x, *rest = op.inputs
    weights = [tensor for tensor in rest if tensor.role is Role.PARAMETER]
    trained = [tensor for tensor in weights if tape.needs(tensor)]
    incoming, statistics = tape.incoming(op), op.outputs[1:]
    sums = Tensor(f"{x.name}.sums", (2.0 * x.shape[1],), FP32, Role.TEMPORARY)
    grads = tuple(tape.new(tensor) for tensor in trained)
    tape.emit(
        Normalization, "sums", (incoming, x, *statistics), (sums, *grads), method="batch_statistics", backward=True
    )
    whole = Tensor(f"{x.name}.all_sums", sums.shape, FP32, Role.TEMPORARY, base=sums)
    tape.emit(Collective, "add_sums", (sums,), (whole,), function="all_reduce", group_of="statistics", ranks=op.ranks)
    for tensor, gradient in zip(trained, grads, strict=True):
        tape.give(tensor, gradient)
    if tape.needs(x):
        out = tape.new(x)
        read = (incoming, x, *weights[:1], *statistics, whole)
        tape.emit(Normalization, "gradient", read, (out,), method=op.method, backward=True, ranks=op.ranks)
        tape.give(x, out)
