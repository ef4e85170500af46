"""Spread parameters, gradients and optimizer state over data-parallel ranks, with the collectives that this takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.base import AbstractOp, Block, Phase
from roofsim.graph.ops import Collective, Copy, GroupedMatmul, OptimizerUpdate
from roofsim.graph.rewire import rewired, rewired_all, twins_of
from roofsim.graph.tensor import DType, Role, Tensor
from roofsim.numeric import exactly, same
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Real
    from roofsim.passes.ranks.replicas import Replicas

Body = list[AbstractOp]


@dataclass(frozen=True, kw_only=True)
class ReduceGradients:
    """Add the gradients of all data-parallel ranks, unit by unit as they come (a unit is a layer, or what is in none).

    Attributes
    ----------
    replicas
        Ranks that hold the same parameters.
    share
        Share of the micro batches after which gradients travel: the last one's only, or every one's.
    travels_in
        Type on the wire; None: that of the gradient.
    scatters
        Whether each rank gets its shard of the sum (ZeRO) instead of all of it.
    keeps_shard
        Whether only the shard is kept (ZeRO-2).
    kept_in
        Type of the shard; None: that of the wire.
    group
        ``data``, or ``replica`` for the second sum, across groups that each have a complete set of shards.
    scattered
        Ranks among which the first sum dealt each gradient out: this one adds up a rank's part.
    rest_together
        Whether what belongs to no layer is one unit, reduced last of all.
    copies
        Passes over a unit's gradients before they travel: into one buffer, into the type of the wire, a division.
    """

    name: ClassVar[str] = "reduce_gradients"
    requires: ClassVar[frozenset[str]] = frozenset({"backward"})
    ensures: ClassVar[frozenset[str]] = frozenset({"reduced"})

    replicas: Replicas
    share: Real = 1.0
    travels_in: DType | None = None
    scatters: bool = False
    keeps_shard: bool = False
    kept_in: DType | None = None
    group: str = "data"
    scattered: Real = 1.0
    rest_together: bool = False
    copies: int = 0

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with a collective behind the last op of each unit that makes gradients."""
        experts = _expert_parameters(graph)
        last = _last_segments(graph, rest_together=self.rest_together)
        env = self._unkept(last, experts) if self.keeps_shard else {}
        ops: Body = []
        for at, (block, body) in enumerate(graph.segments()):
            finished = [root for root, segment in last.items() if segment == at]
            ops += _rewired_outputs(body, env) if env else body
            ops += self._reductions(body[0].name, finished, experts, env, block)
        return graph.replaced(ops, *self.ensures)

    def _kinds(self) -> list[tuple[str, Real]]:
        """Return the kinds of parameters that several ranks hold, and how many."""
        both: list[tuple[str, Real]] = [("dense", self.replicas.all), ("experts", self.replicas.experts)]
        return [(kind, ranks) for kind, ranks in both if not exactly(ranks, 1.0)]

    def _unkept(self, last: dict[Tensor, int], experts: set[Tensor]) -> dict[Tensor, Tensor]:
        """Return a twin that dies after its last reader for each gradient of which only a shard is kept."""
        kinds = {kind for kind, _ in self._kinds()}
        return {t: replace(t, role=Role.TEMPORARY) for t in last if _kind(t, experts) in kinds}

    def _reductions(
        self, unit: str, finished: list[Tensor], experts: set[Tensor], env: dict[Tensor, Tensor], block: Block | None
    ) -> Body:
        """Return the collectives behind a unit, which ends with its gradients."""
        reductions: Body = []
        for kind, ranks in self._kinds():
            chosen = [root for root in finished if _kind(root, experts) == kind]
            if chosen:
                name = f"{kind}.{_unit(block)}.{unit}"
                reductions += self._copied(chosen, env, name, block)
                reductions.append(replace(self._reduced(chosen, env, ranks, name, block), of_experts=kind == "experts"))
        return reductions

    def _copied(self, gradients: list[Tensor], env: dict[Tensor, Tensor], unit: str, block: Block | None) -> Body:
        """Return the passes over the gradients; the last but one (or the only one) changes their type."""
        current = tuple(env.get(tensor, tensor) for tensor in gradients)
        ops: Body = []
        for number in range(self.copies):
            casts = self.travels_in if number >= self.copies - 2 else None
            written = tuple(
                replace(
                    tensor, name=f"{tensor.name}.copy", dtype=casts or tensor.dtype,
                    role=Role.TEMPORARY, base=tensor, of=tensor,
                )
                for tensor in current
            )  # fmt: skip
            name = f"{self.group}.copy{number}.{unit}"
            ops.append(
                Copy(
                    name=name, inputs=current, outputs=written, phase=Phase.BACKWARD, block=block, share=self.share,
                    function="into_buffer",
                )
            )  # fmt: skip
            current = written
        return ops

    def _reduced(
        self, gradients: list[Tensor], env: dict[Tensor, Tensor], ranks: Real, unit: str, block: Block | None
    ) -> Collective:
        sources = tuple(env.get(tensor, tensor) for tensor in gradients)
        outputs = tuple(self._result(old, new, ranks) for old, new in zip(gradients, sources, strict=True))
        wire = tuple(
            Tensor(f"{unit}.wire", (t.numel,), self.travels_in, Role.COMMUNICATION)
            for t in gradients
            if self.travels_in is not None and self.travels_in is not t.dtype
        )
        whole = sources if same(self.scattered, 1.0) else outputs
        return Collective(
            name=f"{self.group}.reduce.{unit}", inputs=sources, outputs=(*outputs, *wire),
            function="reduce_scatter" if self.scatters or self.keeps_shard else "all_reduce", group_of=self.group,
            ranks=ranks, phase=Phase.BACKWARD, block=block, share=self.share, travels_in=self.travels_in, whole=whole,
        )  # fmt: skip

    def _result(self, gradient: Tensor, source: Tensor, ranks: Real) -> Tensor:
        if not self.keeps_shard:
            name = f"{gradient.name}.reduced"
            shape = gradient.shape if same(self.scattered, 1.0) else (gradient.numel / self.scattered,)
            return Tensor(name, shape, gradient.dtype, Role.TEMPORARY, base=source, of=gradient)
        dtype = self.kept_in or self.travels_in or gradient.dtype
        return Tensor(f"{gradient.name}.shard", (gradient.numel / ranks,), dtype, Role.GRADIENT, of=gradient)


@dataclass(frozen=True, kw_only=True)
class FullyShard:
    """Keep only a shard of every parameter; gather each unit's before its layers run, forward and backward (ZeRO-3, FSDP).

    Attributes
    ----------
    replicas
        Ranks that share the parameters.
    stored
        Type of the shards (and of the sharded gradients).
    prefetch
        Units that are gathered ahead of the one that runs. What belongs to no layer is one unit, gathered first.
    regathers
        Whether a layer's parameters are freed after its forward and gathered a second time for its backward; those of no
        layer (embedding, head) are kept either way.
    rest_together
        Whether what belongs to no layer is one unit, gathered first and freed last; else each run of ops outside of layers
        gathers what it is the first to read, which is freed behind its last reader.
    copies
        Passes over the gathered parameters before they are used: out of the buffer that the collective filled.
    """

    name: ClassVar[str] = "fully_shard"
    requires: ClassVar[frozenset[str]] = frozenset({"backward"})
    ensures: ClassVar[frozenset[str]] = frozenset({"sharded"})

    replicas: Replicas
    stored: DType
    prefetch: float = 1.0
    regathers: bool = True
    rest_together: bool = True
    copies: int = 0

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with gathers before each unit and whole parameters that die behind it."""
        experts = _expert_parameters(graph)
        parameters = {tensor for tensor in graph.sources if tensor.role is Role.PARAMETER}
        shards = {tensor: self._shard(tensor, experts) for tensor in parameters}
        ops: Body = []
        root: dict[Tensor, Tensor] = {}
        outside = _read(parameters, (op for op in graph if op.block is None))
        kept: dict[Block, dict[Tensor, Tensor]] = {}
        for block, body in graph.segments():
            roots = _read(parameters, body)
            if block is None or not ops:
                rest = outside if self.rest_together else [t for t in roots if t in outside]
                twin, gather = self._gather([t for t in rest if t not in root], shards, experts, None, body)
                root |= twin
                ops += gather
            if block is None:
                ops += rewired_all(body, root)
                continue
            source = block if block.mirror is None else block.mirror
            if block.mirror is not None and not self.regathers:
                ops += rewired_all(body, kept[source] | root)
                continue
            inner = [t for t in roots if t not in root]
            twin, gather = self._gather(inner, shards, experts, block, body)
            kept[source] = twin
            ops += [*gather, *self._holding(rewired_all(body, twin | root), gather)]
        if self.rest_together:
            ops[-1] = replace(ops[-1], holds=(*ops[-1].holds, *root.values()))
        return graph.replaced(ops, *self.ensures)

    def _shard(self, tensor: Tensor, experts: set[Tensor]) -> Tensor:
        ranks = self._ranks(tensor, experts)
        name, shape = f"{tensor.name}.shard", (tensor.numel / ranks,)
        dtype = (
            tensor.dtype if tensor.dtype.packed else self.stored
        )  # frozen, and quantised: nothing updates its shards
        return replace(tensor, shape=shape, dtype=dtype, name=name, of=tensor)

    def _ranks(self, tensor: Tensor, experts: set[Tensor]) -> Real:
        return self.replicas.experts if tensor.owner in experts else self.replicas.shards

    def _gather(
        self, tensors: list[Tensor], shards: dict[Tensor, Tensor], experts: set[Tensor], block: Block | None, body: Body
    ) -> tuple[dict[Tensor, Tensor], Body]:
        """Return the whole tensors by parameter, and the collectives that gather them."""
        twin = {
            t: replace(t, name=f"{t.name}.whole", role=Role.COMMUNICATION, requires_grad=False, of=t) for t in tensors
        }
        phase = next((op.phase for op in body if op.phase is not Phase.RECOMPUTE), Phase.FORWARD)
        ops: Body = []
        for kind in ("dense", "experts"):
            chosen = [t for t in tensors if (t.owner in experts) == (kind == "experts")]
            if not chosen:
                continue
            outputs = [twin[t] for t in chosen]
            units = (
                self.prefetch if block is not None else 1.0
            )  # the flat buffers that whole parameters are copied from
            outputs += [replace(twin[t], name=f"{t.name}.ahead", shape=(t.numel * units,)) for t in chosen if units]
            ops.append(
                Collective(
                    name=f"gather.{kind}.{_unit(block)}.{body[0].name}", inputs=tuple(shards[t] for t in chosen),
                    outputs=tuple(outputs), function="all_gather", group_of="data",
                    ranks=self._ranks(chosen[0], experts), phase=phase, block=block,
                    whole=tuple(twin[t] for t in chosen), of_experts=kind == "experts",
                )
            )  # fmt: skip
            ops += [_copy_out(tuple(twin[t] for t in chosen), ops[-1]) for _ in range(self.copies)]
        return twin, ops

    @staticmethod
    def _holding(body: Body, gather: Body) -> Body:
        """Let the last op of an iteration hold what was gathered ahead for the next."""
        ahead = tuple(t for op in gather if isinstance(op, Collective) for t in op.outputs if t not in op.whole)
        return [*body[:-1], replace(body[-1], holds=(*body[-1].holds, *ahead))] if ahead else body


@dataclass(frozen=True, kw_only=True)
class ShardOptimizer:
    """Let each rank update its shard of the parameters and gather the rest from the others (ZeRO-1 and 2).

    Attributes
    ----------
    replicas
        Ranks that share the optimizer's state.
    """

    name: ClassVar[str] = "shard_optimizer"
    requires: ClassVar[frozenset[str]] = frozenset({"optimizer"})
    ensures: ClassVar[frozenset[str]] = frozenset({"optimizer_sharded"})

    replicas: Replicas

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with a share of every update, and a gather of the parameters behind them."""
        factor = self._share(graph)
        ops = [_scaled(op, factor) if isinstance(op, OptimizerUpdate) else op for op in graph]
        return graph.replaced([*ops, *self._gathers(graph)], *self.ensures)

    def _gathers(self, graph: OpGraph) -> Body:
        """Return the gathers of updated parameters: those of experts among the ranks that hold the same ones, if several do."""
        experts, copies = _expert_parameters(graph), graph.parameters()
        trained = [t for t in graph.sources if t.role is Role.PARAMETER and t.requires_grad]
        apart = [t for t in trained if t.owner in experts and not same(self.replicas.experts, self.replicas.shards)]
        gathers: Body = []
        for name, chosen, ranks in (
            ("gather.updated", [t for t in trained if t not in apart], self.replicas.shards),
            ("gather.updated.experts", apart, self.replicas.experts),
        ):
            if chosen and not same(ranks, 1.0):
                whole = tuple(
                    Tensor(f"{t.name}.updated", (t.numel * copies[t],), t.dtype, Role.TEMPORARY, base=t, of=t)
                    for t in chosen
                )
                gathers.append(
                    Collective(
                        name=name, inputs=tuple(chosen), outputs=whole, function="all_gather", group_of="data",
                        ranks=ranks, phase=Phase.OPTIMIZER, whole=whole, of_experts=chosen is apart,
                    )
                )  # fmt: skip
        return gathers

    def _share(self, graph: OpGraph) -> Real:
        """Return the share of all trained parameters that one rank updates."""
        experts = _expert_parameters(graph)
        every: Real = 0.0
        own: Real = 0.0
        for tensor, copies in graph.parameters().items():
            if tensor.requires_grad:
                elements = tensor.numel * copies
                every = every + elements
                own = own + elements / (self.replicas.experts if tensor.owner in experts else self.replicas.shards)
        return own / every


def _copy_out(whole: tuple[Tensor, ...], gather: AbstractOp) -> Copy:
    """Return the pass that gives gathered parameters tensors of their own."""
    written = tuple(replace(t, name=f"{t.name}.copy", role=Role.TEMPORARY, base=t, of=t) for t in whole)
    return Copy(
        name=f"{gather.name}.copy", inputs=whole, outputs=written, phase=gather.phase, block=gather.block,
        function="out_of_buffer",
    )  # fmt: skip


def _scaled(op: OptimizerUpdate, factor: Real) -> OptimizerUpdate:
    """Return the update of a share of the parameters."""

    def part(tensor: Tensor) -> Tensor:
        return replace(tensor, shape=(tensor.numel * factor,))

    return replace(
        op, elements=op.elements * factor, read=op.read * factor, written=op.written * factor,
        inputs=tuple(map(part, op.inputs)), outputs=tuple(map(part, op.outputs)), extra_flops=op.extra_flops * factor,
    )  # fmt: skip


def _read(parameters: set[Tensor], ops: Iterable[AbstractOp]) -> list[Tensor]:
    """Return the parameters that ops read, in order."""
    return list(dict.fromkeys(t.root for op in ops for t in op.inputs if t.root in parameters))


def _rewired_outputs(body: Body, env: dict[Tensor, Tensor]) -> Body:
    """Return ops that read and make the twins; views that follow them join the twins, since later ops read those."""
    result: Body = []
    for op in body:
        new = rewired(op, env)
        if not env.keys().isdisjoint(new.outputs):
            new = replace(new, outputs=twins_of(new.outputs, env))
        if new is not op:
            env.update((old, out) for old, out in zip(op.outputs, new.outputs, strict=True) if old is not out)
        result.append(new)
    return result


def _expert_parameters(graph: OpGraph) -> set[Tensor]:
    """Return the owners of the matrices that grouped matmuls read, gathered or not: each expert group holds its own."""
    read = {tensor.root.owner for op in graph if isinstance(op, GroupedMatmul) for tensor in op.inputs}
    return {tensor for tensor in read if tensor.persistent}


def _kind(gradient: Tensor, experts: set[Tensor]) -> str:
    return "experts" if gradient.owner in experts else "dense"


def _last_segments(graph: OpGraph, *, rest_together: bool) -> dict[Tensor, int]:
    """Return, for each gradient storage, the run of ops that writes it last, or the last run outside of layers."""
    last: dict[Tensor, int] = {}
    rest: set[Tensor] = set()
    for at, (_, body) in enumerate(graph.segments()):
        for op in body:
            for tensor in op.outputs:
                if tensor.root.role in (Role.GRADIENT, Role.GRADIENT_BUFFER):
                    last[tensor.root] = at
                    if op.block is None:
                        rest.add(tensor.root)
    if rest_together and rest:
        latest = max(last[tensor] for tensor in rest)
        last |= dict.fromkeys(rest, latest)
    return last


def _unit(block: Block | None) -> str:
    return "rest" if block is None else block.name
