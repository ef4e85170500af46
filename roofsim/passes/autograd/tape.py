"""Walk a forward program back and collect the ops that its gradients need."""

from __future__ import annotations

from collections import Counter
from functools import singledispatch
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, Final

from roofsim.errors import PassError, UnsupportedOpError
from roofsim.graph.base import AbstractOp, Block, Phase
from roofsim.graph.component import Purpose
from roofsim.graph.naming import numbered
from roofsim.graph.ops import Cast, Collective, Elementwise, Embedding, Fused, Reduction, Scan
from roofsim.graph.tensor import FP32, DType, Role, Tensor
from roofsim.numeric import exactly, same
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph


#: The modules that register the rows of `backward`; they import this one, so they are loaded when a tape is made.
ROWS: Final = (
    "roofsim.passes.autograd.rules",
    "roofsim.passes.autograd.looked_up",
    "roofsim.passes.autograd.views",
    "roofsim.passes.autograd.recurrences",
    "roofsim.passes.autograd.stated",
)


#: Parts of a program whose backward pass makes again what their forward pass does not keep.
_AGAIN: Final = {Purpose.FUSED_SCAN, Purpose.MADE_AGAIN}


@singledispatch
def backward(op: AbstractOp, tape: Tape) -> None:  # noqa: ARG001 (rules use it)
    """Emit the ops that turn the gradients of `op`'s outputs into those of its inputs.

    What such an op reads of the forward pass is what autograd keeps: there is no second table of saved tensors.
    """
    raise UnsupportedOpError("backward", op)


@dataclass(frozen=True, kw_only=True)
class Autograd:
    """Add the backward pass: for each op, last first, the ops of its row in the table.

    Attributes
    ----------
    silu_backward
        ``fused`` (one kernel, as on every GPU) or ``decomposed`` (six, as a PyTorch without GPU kernels traces it).
    casts_again
        Whether operands in a narrow type are cast a second time for backward, from wide ones that are kept.
    """

    name: ClassVar[str] = "autograd"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"backward"})

    silu_backward: str = "fused"
    casts_again: bool = False

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with its backward ops behind the forward ones."""
        for rows in ROWS:  # they fill the table
            import_module(rows)

        tape = Tape(graph, self.silu_backward, casts_again=self.casts_again)
        tape.run()
        return graph.replaced([*graph.ops, *_with_scans(graph, tape.ops)], *self.ensures)


def _with_scans(graph: OpGraph, backward_ops: list[AbstractOp]) -> list[AbstractOp]:
    """Return a backward pass in which scans that are one function make again what they did not keep."""
    parts = {component.purpose for op in graph.ops if op.component for component in op.component.chain()}
    if parts.isdisjoint(_AGAIN) and not any(isinstance(op, Scan) for op in graph.ops):
        return backward_ops
    from roofsim.passes.autograd.fused_scans import run_again  # of few models

    return run_again(graph.ops, backward_ops)


class Tape:
    """The gradients so far, and the backward ops in the order in which autograd runs them."""

    def __init__(self, graph: OpGraph, silu_backward: str = "fused", *, casts_again: bool = False) -> None:
        self.graph = graph
        self.casts_again = casts_again
        self.silu_backward = silu_backward
        self.ops: list[AbstractOp] = []
        self.grads: dict[Tensor, Tensor] = {}
        #: What was gathered a second time in the current run of ops.
        self.gathered: dict[Tensor, Tensor] = {}
        self.block: Block | None = None
        self._needing, self._entering = self._propagate()
        self._names: Counter[str] = Counter()
        self._op: AbstractOp | None = None
        #: Ops that follow a node's own kernels: whether they fit a gradient to its tensor, or add it to another.
        self._after_node: dict[AbstractOp, bool] = {}

    def _propagate(self) -> tuple[set[Tensor], set[Tensor]]:
        """Return the tensors that need a gradient, and those among them that need it only inside the block they enter.

        What enters a block that repeats needs one if what leaves an iteration does: all iterations stand in the graph as
        one. Where everything before the block is frozen, the first iteration's is computed too (as with peft's
        enable_input_require_grads), but nothing before the block is.
        """
        needing = {tensor for tensor in self.graph.sources if tensor.requires_grad}
        entering: set[Tensor] = set()
        for block, body in self.graph.segments():
            self._spread(body, needing)
            carries = () if block is None or block.once else block.carries
            late = {entry for entry, leaving in carries if leaving in needing and entry not in needing}
            if late:
                entering |= late
                needing |= late
                self._spread(body, needing)
        return needing, entering

    @staticmethod
    def _spread(body: list[AbstractOp], needing: set[Tensor]) -> None:
        for op in body:
            for part in op.parts if isinstance(op, Fused) else (op,):
                # What is updated in place, or comes from another stage, needs a gradient without a trained input here.
                alone = (isinstance(part, Embedding) and part.sparse) or _arrives(part)
                if alone or any(tensor in needing or tensor.root in needing for tensor in part.inputs):
                    needing.update(tensor for tensor in part.outputs if tensor.dtype.floating)

    def run(self) -> None:
        """Walk all segments, last first, starting from the scalar loss, or from what the next stage sends back."""
        loss = self._start()
        for block, body in reversed(list(self.graph.segments())):
            if block is None:
                self._body(body)
            else:
                self._repeated(block, body)
        self._check(loss)

    def _start(self) -> Tensor:
        """Emit the first gradient; returns the tensor that it belongs to."""
        # What only frees (autocast's cast weights) may stand behind the end.
        end = next((op for op in reversed(self.graph.ops) if op.inputs or op.outputs), None)
        sends = isinstance(end, Collective) and end.function == "send"
        made = () if end is None else end.inputs if sends else end.outputs
        last = made[0] if made else None
        if last is None or last not in self._needing:
            raise PassError("autograd: the graph ends in nothing that depends on a trained parameter")
        seed = Tensor(f"{'sent' if sends else 'loss'}.grad", last.shape, last.dtype, Role.TEMPORARY)
        if sends:
            self._op = end
            self.emit(
                Collective,
                "receive_gradient",
                (),
                (seed,),
                function="receive",
                group_of="pipeline",
                ranks=getattr(end, "ranks", 1.0),
            )
        else:
            self.ops.append(Elementwise(name="loss.seed", outputs=(seed,), function="fill", phase=Phase.BACKWARD))
        self.grads[last] = seed
        return last

    def _check(self, loss: Tensor) -> None:
        """Raise unless every parameter that the loss depends on has got its gradient."""
        behind = self.graph.ancestors(self.graph.producer[loss])
        for tensor, reader in self.graph.sources.items():
            if tensor.requires_grad and reader in behind and tensor not in self.grads:
                raise PassError(f"autograd: {tensor} got no gradient although the loss depends on {reader.name!r}")

    def _body(self, body: list[AbstractOp]) -> None:
        self.gathered = {}
        for op in reversed(body):
            if any(tensor in self.grads and tensor not in self._entering for tensor in op.outputs):
                self._op = op
                start = len(self.ops)
                incoming = {self.grads[tensor] for tensor in op.outputs if tensor in self.grads}
                backward(op, self)
                self._release(start, incoming)
                for tensor in op.outputs:
                    self.grads.pop(tensor, None)

    def _release(self, start: int, incoming: set[Tensor]) -> None:
        """Let the last kernel of a node hold what the earlier ones read.

        Autograd frees the incoming gradient when a node's function returns, and what the node had saved when its
        gradients have been summed and cast to their tensors' shapes and types.
        """
        own = [at for at in range(start, len(self.ops)) if self.ops[at] not in self._after_node]
        if not own:
            return
        made = {tensor for op in self.ops[start:] for tensor in op.outputs}
        read = dict.fromkeys(tensor for at in own for tensor in self.ops[at].inputs if tensor not in made)
        self._hold(own[-1], [tensor for tensor in read if tensor in incoming])
        fitted = [at for at in range(own[-1], len(self.ops)) if self._after_node.get(self.ops[at], True)]
        self._hold(fitted[-1], [tensor for tensor in read if tensor not in incoming and not tensor.root.persistent])

    def _hold(self, at: int, tensors: list[Tensor]) -> None:
        op = self.ops[at]
        more = tuple(tensor for tensor in tensors if tensor not in op.inputs and tensor not in op.holds)
        if more:
            self.ops[at] = replace(op, holds=op.holds + more)
            self._after_node[self.ops[at]] = self._after_node.get(op, True)

    def _repeated(self, block: Block, body: list[AbstractOp]) -> None:
        """Walk the body once; gradients of carried tensors are carried the other way."""
        mirror = Block(f"{block.name}.backward", block.repeat, mirror=block)
        outside = {entry: self.grads.pop(entry) for entry, _ in block.carries if entry in self.grads}
        shared = {} if block.once else self._accumulators(block, body)
        before = self._leaving(block, body)
        self.block = mirror
        self._body(body)
        self.block = None
        for entry, incoming in before.items():
            if entry not in self.grads and entry not in self._needing:
                continue  # a layer that runs once, behind frozen ones
            if entry not in self.grads:
                raise PassError(f"autograd: block {block.name!r} passes no gradient on to {entry}")
            outgoing = self.grads[entry]
            if outgoing is not incoming:
                mirror.carries.append((incoming, outgoing))
        mirror.carries += [(acc, self.grads[t]) for t, acc in shared.items() if self.grads[t] is not acc]
        for entry, gradient in outside.items():
            self.give(entry, gradient)

    def _leaving(self, block: Block, body: list[AbstractOp]) -> dict[Tensor, Tensor]:
        """Return the gradients at what leaves an iteration, by what enters the next one in its place.

        What nothing behind the block reads, later iterations still do: its gradient starts from zeros.
        """
        for entry, leaving in block.carries:
            if block.once or entry is leaving or leaving in self.grads or leaving not in self._needing:
                continue
            self._op = body[-1]
            start = self.new(leaving)
            self.emit(Elementwise, f"start.{leaving.name}", (), (start,), function="fill")
            self.grads[leaving] = start
        return {entry: self.grads[leaving] for entry, leaving in block.carries if leaving in self.grads}

    def _accumulators(self, block: Block, body: list[AbstractOp]) -> dict[Tensor, Tensor]:
        """Start a sum for each tensor made before the block that all its iterations read."""
        inside = {tensor for op in body for tensor in op.outputs}
        entries = {entry for entry, _ in block.carries}
        reads = dict.fromkeys(tensor for op in body for tensor in op.inputs)
        accumulators: dict[Tensor, Tensor] = {}
        for tensor in reads:
            own = tensor.persistent and self.graph.sources.get(tensor.root) in body
            if tensor in inside or tensor in entries or tensor not in self._needing or own:
                continue
            if tensor not in self.grads:
                self._op = body[-1]
                start = self.new(tensor)
                self.emit(Elementwise, f"start.{tensor.name}", (), (start,), function="fill")
                self.grads[tensor] = start
            accumulators[tensor] = self.grads[tensor]
        return accumulators

    # -- what rules use -----------------------------------------------------------------------------------------

    def needs(self, tensor: Tensor) -> bool:
        """Tell whether a gradient for `tensor` is wanted."""
        return tensor in self._needing

    def grad(self, tensor: Tensor) -> Tensor | None:
        """Return the gradient that has arrived at an output, if any."""
        return self.grads.get(tensor)

    def incoming(self, op: AbstractOp) -> Tensor:
        """Return the gradient of the first output of `op`."""
        gradient = self.grads.get(op.outputs[0])
        if gradient is None:
            raise PassError(f"autograd: no gradient has arrived at {op.outputs[0]}")
        return gradient

    def new(self, like: Tensor, dtype: DType | None = None, base: Tensor | None = None) -> Tensor:
        """Return a fresh gradient tensor for `like`; of a parameter that has one already, a term to add to it."""
        whole = like.role is Role.PARAMETER and (like not in self.grads or base is not None)
        role = Role.GRADIENT if whole else Role.TEMPORARY
        name, wanted = f"{like.name}.grad", like.dtype if dtype is None else dtype
        return Tensor(name, like.shape, wanted, role, base=base, of=like)

    def emit(
        self,
        op_class: type[AbstractOp],
        leaf: str,
        inputs: tuple[Tensor, ...],
        outputs: tuple[Tensor, ...],
        **fields: object,
    ) -> None:
        """Add a backward op named after the op whose gradient is being taken."""
        assert self._op is not None
        self.ops.append(
            op_class(
                name=numbered(f"{self._op.name}.{leaf}", self._names),
                inputs=inputs,
                outputs=outputs,
                phase=Phase.BACKWARD,
                block=self.block,
                origin=self._op,
                component=self._op.component,
                share=self._op.share,
                **fields,  # type: ignore[arg-type]
            )
        )

    def pointwise(
        self,
        function: str,
        like: Tensor,
        *inputs: Tensor,
        dtype: DType | None = None,
        base: Tensor | None = None,
        holds: tuple[Tensor, ...] = (),
    ) -> Tensor:
        """Emit an elementwise op whose result is shaped like `like`, in the widest input's type."""
        wide = max(
            (tensor.dtype for tensor in inputs if tensor.dtype.floating), key=lambda d: d.rank, default=like.dtype
        )
        out = Tensor(f"{like.name}.{function}", like.shape, dtype or wide, Role.TEMPORARY, base=base)
        self.emit(Elementwise, function, inputs, (out,), function=function, holds=holds)
        return out

    def widened(self, stored: Tensor, like: Tensor) -> Tensor:
        """Emit a copy of a stored tensor in the type of `like`."""
        out = Tensor(f"{like.name}.restored", like.shape, like.dtype, Role.TEMPORARY)
        self.emit(Cast, "restore", (stored,), (out,))
        return out

    def give(self, tensor: Tensor, gradient: Tensor) -> None:
        """Add `gradient` to what `tensor` has received, after casting it to the tensor's type."""
        if tensor not in self._needing:
            return
        if gradient.dtype is not tensor.dtype and not tensor.dtype.narrow:
            converted = self.new(tensor)
            self.emit(Cast, "cast_gradient", (gradient,), (converted,))
            self._after_node[self.ops[-1]] = True
            gradient = converted
        earlier = self.grads.get(tensor)
        if earlier is None:
            self.grads[tensor] = gradient
            return
        root = earlier.root
        # In place only where nobody else holds the storage, and not into a slice of a larger one.
        alone = not root.persistent and same(root.numel, earlier.numel)
        alone = alone and not any(other.root is root for key, other in self.grads.items() if key is not tensor)
        total = replace(self.new(tensor, earlier.dtype, base=earlier if alone else None), role=earlier.role)
        self.emit(Elementwise, "accumulate", (earlier, gradient), (total,), function="add")
        self._after_node[self.ops[-1]] = False
        self.grads[tensor] = total

    def kept_as_gradient(self, parameter: Tensor, gradient: Tensor) -> Tensor:
        """Return a temporary that is a parameter's gradient as one that is kept, unless there is one already."""
        if parameter in self.grads or gradient.base is not None:
            return gradient
        new = replace(gradient, name=f"{parameter.name}.grad", role=Role.GRADIENT, of=parameter)
        for at in reversed(range(len(self.ops))):
            op = self.ops[at]
            if gradient in op.outputs:
                self.ops[at] = replace(op, outputs=tuple(new if t is gradient else t for t in op.outputs))
                if op in self._after_node:
                    self._after_node[self.ops[at]] = self._after_node[op]
                return new
        return gradient

    def give_reduced(self, tensor: Tensor, gradient: Tensor) -> None:
        """Like `give`, but sum first over what broadcasting had stretched."""
        if tensor not in self._needing:
            return
        if len(tensor.shape) < len(gradient.shape) or _stretched(tensor, gradient):
            reduced = self.new(tensor, gradient.dtype)
            self.emit(Reduction, "sum_gradient", (gradient,), (reduced,), function="sum")
            self._after_node[self.ops[-1]] = True
            gradient = reduced
        self.give(tensor, gradient)

    def zeros(self, like: Tensor, dtype: DType | None = None) -> Tensor:
        """Emit a tensor of zeros."""
        out = Tensor(f"{like.name}.zeros", like.shape, like.dtype if dtype is None else dtype, Role.TEMPORARY)
        self.emit(Elementwise, "zeros", (), (out,), function="fill")
        return out


def _arrives(op: AbstractOp) -> bool:
    """Tell whether an op receives what an earlier pipeline stage computed."""
    return isinstance(op, Collective) and op.function == "receive"


def _stretched(tensor: Tensor, gradient: Tensor) -> bool:
    """Tell whether some axis of length one met a longer one."""
    return any(
        own is not out and exactly(own, 1.0) and not exactly(out, 1.0)
        for own, out in zip(reversed(tensor.shape), reversed(gradient.shape), strict=False)
    )


__all__ = ["FP32", "Autograd", "Tape", "backward"]
