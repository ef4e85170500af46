"""The backward rows of collectives, and what backward reads in place of a gathered tensor that is not kept."""

from __future__ import annotations

from typing import Final

from roofsim.graph.ops import Collective, View
from roofsim.graph.tensor import Role, Tensor
from roofsim.passes.autograd.tape import Tape, backward

#: What happens to the gradient of a collective's result (arXiv 2205.05198, section 4.2.2: f and g are conjugate).
CONJUGATE: Final = {
    "identity": "all_reduce",
    "all_reduce": "identity",
    "all_gather": "reduce_scatter",
    "reduce_scatter": "all_gather",
    "all_to_all": "all_to_all",
}


@backward.register
def _(op: Collective, tape: Tape) -> None:
    if op.function == "receive":
        tape.emit(
            Collective, "send_gradient", (tape.incoming(op),), (), function="send", group_of="pipeline", ranks=op.ranks
        )
        return
    source = op.inputs[0]
    if not tape.needs(source):
        return
    grad, function = tape.incoming(op), CONJUGATE[op.function]
    if function == "identity":
        out = tape.new(source, grad.dtype, base=grad)
        tape.emit(View, "gradient", (grad,), (out,), function="reshape")
    else:
        out = tape.new(source, grad.dtype, base=grad if function == "all_reduce" else None)
        tape.emit(
            Collective, function, (grad,), (out,), function=function, group_of=op.group_of, ranks=op.ranks
        )  # fmt: skip
    tape.give(source, out)


def kept(tape: Tape, tensor: Tensor) -> Tensor:
    """Return what a backward op reads for `tensor`: the tensor, or a second gathering of one that is not kept."""
    maker = tape.graph.producer.get(tensor)
    if not isinstance(maker, Collective) or not maker.again:
        return tensor
    earlier = tape.gathered.get(tensor)
    if earlier is not None:
        return earlier
    out = Tensor(f"{tensor.name}.again", tensor.shape, tensor.dtype, Role.TEMPORARY)
    tape.emit(
        Collective, "gather_again", maker.inputs, (out,), function=maker.function, group_of=maker.group_of,
        ranks=maker.ranks,
    )  # fmt: skip
    tape.gathered[tensor] = out
    return out
