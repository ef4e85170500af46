"""Freeze a model and put low-rank adapters beside its linear layers, kernel by kernel as the peft library runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from roofsim.errors import Problem, SpecError, did_you_mean
from roofsim.graph.component import Component, Purpose
from roofsim.graph.naming import name_of_layer
from roofsim.graph.ops import Cast, Copy, Dropout, Elementwise, Embedding, GroupedMatmul, Matmul, View
from roofsim.graph.tensor import BOOL, FP32, TF32, DType, Role, Tensor
from roofsim.numeric import Real, product
from roofsim.passes.adapter_targets import is_target, parts_of_layer
from roofsim.records import dataclass, field, replace

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph

#: Outside of blocks: heads, which neither peft's ``all-linear`` nor bitsandbytes' replacement of layers touches.
_HEADS: Final = (Purpose.LOGITS, Purpose.CLASSIFIER)


@dataclass(frozen=True, kw_only=True)
class AddAdapters:
    """Freeze all parameters, store those of linear layers as `storage`, and add adapters to the layers of `targets`.

    Runs right behind the types are assigned, not before: peft casts to and from the adapters' type by itself, and what
    a frozen layer's type is must be known to quantise it. Runs before autograd, so that nothing else need be said of
    what is kept: a frozen product keeps no input, the adapter's first product keeps its own, once for all that read it.

    Attributes
    ----------
    rank
        Rank of the two factors.
    targets
        Names of layers (`roofsim.spec.scenario.adapter`); None: every linear layer but the head.
    dropout
        Whether there is a dropout before each adapter. Its result, and a byte an element, are kept for backward.
    weights
        Type of the adapters. Where it is not that of the layer's product, the input
        is cast to it and, behind the dropout, back by autocast, and so are the adapters
        (huggingface/peft, tuners/lora/layer.py: ``x = self._cast_input_dtype(x, lora_A.weight.dtype)``).
    storage
        Type of quantised linear weights: each is written out in the product's type for every product with it, again in
        backward (bitsandbytes, autograd/_functions.py: MatMul4Bit), as are weights that a checkpoint packs. None: as they are.
    scales
        Bytes of scales per row of a quantised weight, beside what `storage` counts per element.
    keeps_input
        Whether quantised layers keep their input until backward (MatMul8bitLt; MatMul4Bit before 0.43.2, pull
        request 1270).
    """

    name: ClassVar[str] = "adapters"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"adapted"})

    rank: Real
    targets: frozenset[str] | None = None
    dropout: bool = True
    weights: DType
    storage: DType | None = None
    scales: float = 0.0
    keeps_input: bool = False

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with frozen parameters and trained adapters.

        Raises
        ------
        SpecError
            When no layer has a name among the targets.
        """
        writer = _AdapterWriter(self, graph)
        for op in graph:
            writer.add(op)
        if not writer.adapted:
            raise self._nothing(writer.layers)
        return graph.replaced(writer.read_casts(), *self.ensures)

    def _nothing(self, layers: list[str]) -> SpecError:
        wanted = ", ".join(sorted(self.targets or ())) or "all-linear"
        hint = did_you_mean(next(iter(sorted(self.targets or ()))), layers) if self.targets and layers else ""
        return SpecError(
            Problem(
                f"no linear layer is one of {wanted}; the model has {', '.join(layers) or 'none'}",
                path="workload.adapter.targets",
                hint=hint,
            )
        )


@dataclass(frozen=True)
class _Part:
    """The columns of a layer's result that have an adapter: of a fused projection perhaps not all."""

    widths: tuple[Real, ...]
    whole: bool


@dataclass
class _AdapterWriter:
    plan: AddAdapters
    graph: OpGraph
    ops: list[AbstractOp] = field(default_factory=list)
    layers: list[str] = field(default_factory=list)
    adapted: bool = False
    casts: dict[Tensor, Cast] = field(default_factory=dict)
    """The cast that makes a tensor, where one does."""
    _twins: dict[Tensor, Tensor] = field(default_factory=dict)
    _stored_as: dict[Tensor, Tensor] = field(default_factory=dict)

    def add(self, op: AbstractOp) -> None:
        """Write one op of the old graph, and what the plan puts around it."""
        op = self._frozen(op)
        if isinstance(op, View) and op.function == "forget_casts":
            return  # the cache holds casts of trained leaves only, and all that it held here is frozen now
        if isinstance(op, Embedding) and op.sparse:
            op = replace(op, sparse=False)
        if isinstance(op, Cast):
            self.casts[op.outputs[0]] = op
        weight = self._weight(op) if isinstance(op, Matmul | GroupedMatmul) else None
        if not isinstance(op, Matmul | GroupedMatmul) or weight is None:
            self.ops.append(op)
            return
        head = op.purpose in _HEADS and op.block is None
        if weight.dtype.packed or (self.plan.storage is not None and not head):
            op = self._stored(op, weight)
        part = self._part(op) if isinstance(op, Matmul) and not head else None
        if part is None or not isinstance(op, Matmul):
            self.ops.append(op)
            return
        self.adapted = True
        _Branch(self, op, part).write()

    def read_casts(self) -> list[AbstractOp]:
        """Return the ops without casts of weights that quantisation left without a reader."""
        read = {tensor for op in self.ops for tensor in op.inputs + op.holds}
        return [op for op in self.ops if not (isinstance(op, Cast) and not read.intersection(op.outputs))]

    # -- freezing -----------------------------------------------------------------------------------------------

    def twin(self, tensor: Tensor) -> Tensor:
        """Return the frozen twin of a parameter (and views of one); everything else as it is."""
        if tensor in self._twins:
            return self._twins[tensor]
        if tensor.base is not None:
            base = self.twin(tensor.base)
            new = tensor if base is tensor.base else replace(tensor, base=base)
        else:
            new = replace(tensor, requires_grad=False) if tensor.requires_grad else tensor
        self._twins[tensor] = new
        return new

    def _frozen(self, op: AbstractOp) -> AbstractOp:
        groups = [tuple(map(self.twin, group)) for group in (op.inputs, op.outputs, op.holds)]
        if groups == [op.inputs, op.outputs, op.holds]:
            return op
        return replace(op, inputs=groups[0], outputs=groups[1], holds=groups[2])

    # -- quantised storage --------------------------------------------------------------------------------------

    def _weight(self, op: AbstractOp) -> Tensor | None:
        """Return the parameter behind the second operand, cast or not."""
        tensor = op.inputs[1]
        if tensor.role is Role.PARAMETER:
            return tensor
        source = self.casts.get(tensor)
        return source.inputs[0] if source is not None and source.inputs[0].role is Role.PARAMETER else None

    def _stored(self, op: Matmul | GroupedMatmul, weight: Tensor) -> Matmul | GroupedMatmul:
        """Let the layer read a weight that was just written out from its quantised form, be that the checkpoint's own."""
        plan = self.plan
        if op.inputs[0].dtype.narrow:
            raise SpecError(
                Problem(
                    f"a base stored as {plan.storage} is written out in 16 bits; {op.inputs[0].dtype} GEMMs cannot read it",
                    path="workload.precision",
                    hint="Use bf16 or bf16-amp with kind: qlora, or kind: lora.",
                )
            )
        stored = weight if weight.dtype.packed else self._quantised(weight)
        wide = Tensor(f"{weight.name}.{op.outputs[0].dtype}", weight.shape, op.outputs[0].dtype, Role.TEMPORARY)
        inputs: tuple[Tensor, ...] = (stored,)
        if plan.scales:
            scales = Tensor(
                f"{weight.name}.scales", (weight.numel / weight.shape[-1] * plan.scales / 4.0,), FP32, Role.BUFFER
            )
            inputs += (scales,)
        self.ops.append(
            Cast(
                name=f"{name_of_layer(op)}.dequantise",
                inputs=inputs,
                outputs=(wide,),
                block=op.block,
                dequantises=True,
                keeps_input=plan.keeps_input,
                component=op.component,
            )
        )
        return replace(op, inputs=(op.inputs[0], wide, *op.inputs[2:]))

    def _quantised(self, weight: Tensor) -> Tensor:
        assert self.plan.storage is not None
        if weight not in self._stored_as:
            self._stored_as[weight] = replace(weight, dtype=self.plan.storage)
        return self._stored_as[weight]

    # -- what is adapted ----------------------------------------------------------------------------------------

    def _part(self, op: Matmul) -> _Part | None:
        """Return which columns of a layer get an adapter; None: it has none."""
        called = name_of_layer(op) if op.component is None else op.component.name
        if called not in self.layers:
            self.layers.append(called)
        targets, parts = self.plan.targets, parts_of_layer(op.purpose)
        chosen = [part for part in parts if is_target(part, targets)]
        named = targets is None or op.purpose in targets
        if not chosen and not named:
            return None
        if named or len(chosen) == len(parts):
            return _Part((op.n,), whole=True)
        widths = dict(zip(parts, self._widths(op, len(parts)), strict=True))
        return _Part(tuple(widths[part] for part in chosen), whole=False)

    def _widths(self, op: Matmul, parts: int) -> tuple[Real, ...]:
        """Return the widths into which a fused projection's result is split."""
        for reader in self.graph:
            split = isinstance(reader, View) and op.outputs[0] in reader.inputs and len(reader.outputs) == parts
            if split:
                return tuple(tensor.shape[-1] for tensor in reader.outputs)
        return (op.n / float(parts),) * parts


class _Branch:
    """Write one layer with its adapter: base product, dropout, two low-rank products, scale, sum."""

    def __init__(self, writer: _AdapterWriter, op: Matmul, part: _Part) -> None:
        self.writer = writer
        self.op = op
        self.part = part
        self.scope = f"{name_of_layer(op)}.lora"
        self.component = Component("lora", Purpose.ADAPTER, op.component)
        self.low = op.outputs[0].dtype
        self.weights = writer.plan.weights
        self.math = op.math if op.math in (TF32, FP32) else None

    def write(self) -> None:
        """Emit the kernels; the sum becomes the layer's result."""
        op, out = self.op, self.op.outputs[0]
        base = out.renamed(f"{out.name}.base")
        self.writer.ops.append(replace(op, outputs=(base, *op.outputs[1:])))
        update = self._update(self._input())
        scaled = self._one(Elementwise, "scale", (update,), update.shape, function="mul_scalar")
        self._emit(Elementwise, "add", (base, scaled), (out,), function="add")

    def _input(self) -> Tensor:
        """Return what the first factor reads."""
        x = self.op.inputs[0]
        cast = self.writer.casts.get(x)
        if cast is not None and cast.automatic:
            x = cast.inputs[0]  # autocast's own cast of the layer's input: peft's code never sees it
        x = self._cast(x, self.weights, "cast_input")
        if self.writer.plan.dropout:
            dropped = Tensor(f"{self.scope}.dropped", x.shape, x.dtype)
            self._emit(Dropout, "dropout", (x,), (dropped, Tensor(f"{self.scope}.mask", x.shape, BOOL)))
            x = dropped
        return self._cast(x, self.low, "autocast_input")

    def _update(self, x: Tensor) -> Tensor:
        rank, widths = self.writer.plan.rank, self.part.widths
        rows = x.shape[:-1]
        ranks = rank * float(len(widths))
        down = self._factor("a", ranks, self.op.k)
        mid = self._product("down", x, down, (*rows, ranks), n=ranks, k=self.op.k)
        if self.part.whole:
            return self._product("up", mid, self._factor("b", self.op.n, rank), (*rows, self.op.n), n=self.op.n, k=rank)
        return self._padded(mid, rows)

    def _padded(self, mid: Tensor, rows: tuple[Real, ...]) -> Tensor:
        """Apply one second factor per part and put the results between zeros (microsoft/LoRA, MergedLinear.zero_pad)."""
        rank, widths = self.writer.plan.rank, self.part.widths
        slices = tuple(Tensor(f"{self.scope}.mid{at}", (*rows, rank), self.low, base=mid) for at in range(len(widths)))
        self._emit(View, "parts", (mid,), slices, function="split")
        made = tuple(
            self._product(f"up{at}", part, self._factor(f"b{at}", width, rank), (*rows, width), n=width, k=rank)
            for at, (part, width) in enumerate(zip(slices, widths, strict=True))
        )
        joined = made[0]
        if len(made) > 1:
            total: Real = 0.0
            for width in widths:
                total = total + width
            joined = self._one(Copy, "join", made, (*rows, total), function="concat")
        whole = (*rows, self.op.n)
        zeros = self._one(Elementwise, "zeros", (), whole, function="fill")
        return self._one(Copy, "pad", (joined, zeros), whole, function="index_copy")

    # -- kernels ------------------------------------------------------------------------------------------------

    def _factor(self, leaf: str, rows: Real, columns: Real) -> Tensor:
        """Return a trained factor, in the type of the product."""
        weight = Tensor(
            f"{self.scope}.{leaf}.weight",
            (rows, columns),
            self.weights,
            Role.PARAMETER,
            requires_grad=True,
            component=self.component,
        )
        return self._cast(weight, self.low, f"cast_{leaf}")

    def _cast(self, tensor: Tensor, dtype: DType, leaf: str) -> Tensor:
        if tensor.dtype is dtype:
            return tensor
        out = Tensor(f"{self.scope}.{leaf}", tensor.shape, dtype)
        self._emit(Cast, leaf, (tensor,), (out,))
        return out

    def _product(self, leaf: str, x: Tensor, weight: Tensor, shape: tuple[Real, ...], *, n: Real, k: Real) -> Tensor:
        out = Tensor(f"{self.scope}.{leaf}", shape, self.low)
        self._emit(Matmul, leaf, (x, weight), (out,), m=product(*shape[:-1]), n=n, k=k, math=self.math)
        return out

    def _one(
        self,
        op_class: type[AbstractOp],
        leaf: str,
        inputs: tuple[Tensor, ...],
        shape: tuple[Real, ...],
        **fields: object,
    ) -> Tensor:
        out = Tensor(f"{self.scope}.{leaf}", shape, self.low)
        self._emit(op_class, leaf, inputs, (out,), **fields)
        return out

    def _emit(
        self,
        op_class: type[AbstractOp],
        leaf: str,
        inputs: tuple[Tensor, ...],
        outputs: tuple[Tensor, ...],
        **fields: object,
    ) -> None:
        name = f"{self.scope}.{leaf}"
        op = op_class(
            name=name,
            inputs=inputs,
            outputs=outputs,
            block=self.op.block,
            component=self.component,
            **fields,  # type: ignore[arg-type]
        )
        self.writer.ops.append(op)
