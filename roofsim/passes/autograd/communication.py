"""The backward rows of collectives, and what backward reads in place of a gathered tensor that is not kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.graph.ops import Cast, Collective, View
from roofsim.graph.tensor import Role, Tensor
from roofsim.passes.autograd.tape import Tape, backward
from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.numeric import Real

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
    grad, function = tape.incoming(op), "ring" if op.ring else CONJUGATE[op.function]
    if function == "identity":
        out = tape.new(source, grad.dtype, base=grad)
        tape.emit(View, "gradient", (grad,), (out,), function="reshape")
    else:
        out = tape.new(source, grad.dtype, base=grad if function == "all_reduce" else None)
        tape.emit(
            Collective,
            function,
            (grad,),
            (out,),
            function=function,
            group_of=op.group_of,
            ranks=op.ranks,
            **_round(op),
        )
    tape.give(source, out)


def _round(op: Collective) -> dict[str, Real]:
    """Return how gradients travel: of a ring's blocks once round, the last message when all attention is done; else as came."""
    way = {"per_token": op.per_token, "groups": op.groups, "chosen": op.chosen}
    return way | ({"steps": op.ranks, "beside": (op.ranks - 1.0) / op.ranks} if op.ring else {})


def kept(tape: Tape, tensor: Tensor) -> Tensor:
    """Return what a backward op reads for `tensor`: itself, or what is gathered or cast a second time in its place.

    A sequence gathered for a split region is gathered again where it is not kept; an operand in a narrow type is cast
    again from what it was made of where that is so, or where the engine keeps the wide one.
    """
    maker = tape.graph.producer.get(tensor)
    if tensor in tape.gathered:
        return tape.gathered[tensor]
    if isinstance(maker, Collective) and maker.again:
        return _again(tape, tensor, maker, "gather_again")
    if isinstance(maker, Cast) and tensor.dtype.narrow:
        source = kept(tape, maker.inputs[0])
        if source is not maker.inputs[0] or tape.casts_again:
            out = tape.gathered[tensor] = replace(tensor, name=f"{tensor.name}.again", role=Role.TEMPORARY)
            tape.emit(Cast, "cast_again", (source,), (out,))
            return out
    return tensor


def _again(tape: Tape, tensor: Tensor, maker: Collective, leaf: str) -> Tensor:
    out = tape.gathered[tensor] = replace(tensor, name=f"{tensor.name}.again", role=Role.TEMPORARY)
    tape.emit(
        Collective,
        leaf,
        maker.inputs,
        (out,),
        function=maker.function,
        group_of=maker.group_of,
        ranks=maker.ranks,
        steps=maker.steps,
        ring=maker.ring,
        beside=maker.beside,
        per_token=maker.per_token,
        groups=maker.groups,
        chosen=maker.chosen,
    )
    return out
