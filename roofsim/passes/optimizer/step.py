"""Add the parameter update: its state, its traffic, its launches and its temporaries."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, Final

from roofsim.errors import PassError
from roofsim.graph.base import Phase
from roofsim.graph.component import Purpose
from roofsim.graph.ops import Collective, Embedding, OptimizerUpdate
from roofsim.graph.tensor import BF16, FP32, DType, Role, Tensor
from roofsim.numeric import Real, ceil, maximum, same, where
from roofsim.passes.optimizer.beside import by_type, extent, multi_tensor, update_beside
from roofsim.passes.optimizer.methods import METHODS, Method, StateCode
from roofsim.passes.optimizer.products import NOTHING, Products, whole
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph

#: Layers whose matrices Muon and GaLore leave to AdamW, beside embeddings (their READMEs).
_HEADS: Final = (Purpose.LOGITS, Purpose.CLASSIFIER)
#: Packed states are counted in bytes.
_BYTE: Final = DType("packed", 1.0, floating=False)


@dataclass(frozen=True, kw_only=True)
class AddOptimizerStep:
    """Append the update of all trained parameters and the state it keeps.

    Attributes
    ----------
    method, implementation
        A row of `METHODS`; ``loop`` takes the passes of ``foreach``, one launch per tensor and step.
    state_type
        Type of the moments, or that of parameters that are wider (states are made like their parameters); packed states
        have a code of their own.
    master_type
        Type of the master copy of the parameters; None: there is none.
    gradient_type
        Type in which the update reads gradients, or that of parameters that are wider.
    loss_scaling
        Whether gradients are first freed of a loss scale and searched for infinities (torch.amp.GradScaler; with master
        parameters into an fp32 copy).
    clipping
        Whether the norm of all gradients is taken and they are scaled by it.
    averages
        Whether a moving average of the parameters is kept, in the type of masters.
    """

    name: ClassVar[str] = "optimizer_step"
    requires: ClassVar[frozenset[str]] = frozenset({"backward"})
    ensures: ClassVar[frozenset[str]] = frozenset({"optimizer"})

    method: str
    implementation: str
    state_type: DType = FP32
    master_type: DType | None = None
    gradient_type: DType | None = None
    loss_scaling: bool = False
    clipping: bool = False
    averages: bool = False

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with one update of every trained parameter behind it."""
        trained = {tensor: copies for tensor, copies in graph.parameters().items() if tensor.requires_grad}
        if not trained:
            raise PassError("optimizer_step: the graph has no trained parameters")
        updates: list[AbstractOp] = []
        for (method, dtype), group in self._groups(graph, trained).items():
            update = self._update(method, dtype, group)
            there, back = self._exchanges(method, update.name, group)
            updates += [*there, update, *back]
        if self.averages:
            updates += [
                update_beside("average", f"average.{dtype.name}", (dtype, self.master_type or dtype), group)
                for dtype, group in by_type(trained).items()
            ]
        return graph.replaced([*graph.ops, *updates], *self.ensures)

    def _groups(self, graph: OpGraph, trained: dict[Tensor, Real]) -> dict[tuple[str, DType], dict[Tensor, Real]]:
        """Return parameters by method and type; a method with a rest takes hidden matrices only."""
        rest = self._row(self.method).rest
        tables = {op.inputs[0].root.owner for op in graph if isinstance(op, Embedding)} if rest is not None else set()
        groups: dict[tuple[str, DType], dict[Tensor, Real]] = {}
        for tensor, copies in trained.items():
            other = rest is not None and (tensor.owner in tables or not _hidden_matrix(tensor))
            method = rest if rest is not None and other else self.method
            groups.setdefault((method, tensor.dtype), {})[tensor] = copies
        return groups

    def _exchanges(
        self, method: str, leaf: str, group: dict[Tensor, Real]
    ) -> tuple[list[Collective], list[Collective]]:
        """Return what ranks that hold shards send one another before and after: shards of momentum, shards of updates."""
        if not self._row(method).passes_shards_on:
            return [], []
        by_ranks: dict[Real, list[Tensor]] = {}
        for tensor in group:
            by_ranks.setdefault(whole(tensor).numel / tensor.numel, []).append(tensor)
        pairs = []
        for ranks, tensors in by_ranks.items():
            if not same(ranks, 1.0):
                elements = sum(tensor.numel * group[tensor] for tensor in tensors)
                pairs.append([_exchange(f"{leaf}.{way}", tensors, ranks, elements) for way in ("shards", "updates")])
        return [pair[0] for pair in pairs], [pair[1] for pair in pairs]

    def _row(self, method: str) -> Method:
        implementation = self.implementation
        if (method, implementation) not in METHODS and implementation == "loop":
            implementation = "foreach"
        if (method, implementation) not in METHODS:
            raise PassError(f"optimizer_step: no row for {method} ({self.implementation})")
        return METHODS[method, implementation]

    def _update(self, method: str, dtype: DType, group: dict[Tensor, Real]) -> OptimizerUpdate:
        row = self._row(method)
        elements, tensors, largest = extent(group)
        stored = dtype if self.master_type is None else self.master_type
        gradient = _wider(dtype, self.gradient_type)
        leaf = f"optimizer.{dtype.name}" if method == self.method else f"optimizer.{dtype.name}.{method}"
        state_type = FP32 if row.wide_states else _wider(dtype, self.state_type)
        products = _products(row, group, stored.itemsize)
        states = self._state_tensors(row, leaf, state_type, elements, group, products)
        read, written = self._traffic(
            row, _state_size(row, states, stored, elements), stored.itemsize, gradient.itemsize
        )
        if self.master_type is not None:  # a kernel of its own copies masters into the low-precision parameters
            read, written = read + stored.itemsize, written + dtype.itemsize
        _, _, before = self._before(gradient.itemsize, stored.itemsize)
        per_tensor = row.per_tensor or self.implementation == "loop"
        launches = row.kernels * (tensors if per_tensor else multi_tensor(elements, tensors))
        return OptimizerUpdate(
            name=leaf,
            phase=Phase.OPTIMIZER,
            inputs=(*states, *self._master(leaf, elements)),
            outputs=self._temporary(row, leaf, stored, (elements, largest), products, narrow=dtype.rank < FP32.rank),
            method=method,
            implementation=self.implementation,
            elements=elements,
            read=elements * read + products.read,
            written=elements * written + products.written,
            launches=launches + before * multi_tensor(elements, tensors),
            flops_per_element=row.flops,
            extra_flops=products.flops,
            stored=dtype,
            listed=(before + (0.0 if per_tensor else row.kernels)) * tensors,
        )

    def _traffic(self, row: Method, state: Real, stored: Real, gradient: Real) -> tuple[Real, Real]:
        """Return the bytes read and written per parameter by the passes of a row, and by what comes before them."""
        converted = self.loss_scaling and self.master_type is not None
        seen = maximum(gradient, stored) if converted else gradient
        read = row.parameter_reads * stored + row.gradient_reads * seen + row.state_reads * state
        written = row.parameter_writes * stored + row.state_writes * state
        before_read, before_written, _ = self._before(gradient, stored)
        return read + before_read, written + before_written

    def _state_tensors(
        self, row: Method, leaf: str, dtype: DType, elements: Real, group: dict[Tensor, Real], products: Products
    ) -> tuple[Tensor, ...]:
        if row.factored:
            return (Tensor(f"{leaf}.factored_second_moment", (_factored(group),), FP32, Role.OPTIMIZER_STATE),)
        if row.code is not None:
            elements, dtype = _packed(row.code, group), _BYTE
        states = [
            Tensor(f"{leaf}.state{index}", (elements,), dtype, Role.OPTIMIZER_STATE) for index in range(row.states)
        ]
        if products is not NOTHING and not same(products.states, 0.0):
            own = dtype if products.state_type is None else products.state_type
            states.append(Tensor(f"{leaf}.matrices", (products.states,), own, Role.OPTIMIZER_STATE))
        return tuple(states)

    def _master(self, leaf: str, elements: Real) -> tuple[Tensor, ...]:
        if self.master_type is None:
            return ()
        return (Tensor(f"{leaf}.master_parameters", (elements,), self.master_type, Role.MASTER_PARAMETER),)

    def _temporary(
        self, row: Method, leaf: str, stored: DType, extent: tuple[Real, Real], products: Products, *, narrow: bool
    ) -> tuple[Tensor, ...]:
        """Return what lives only during the update: parameter-sized with foreach, some of the largest tensor in a loop."""
        elements, largest = extent
        temporaries = []
        if row.largest_in_fp32:
            copies = row.largest_in_fp32 + (2.0 if narrow else 0.0)  # 16-bit parameter and gradient are widened first
            temporaries.append(Tensor(f"{leaf}.wide_temporary", (copies * largest,), FP32, Role.TEMPORARY))
        elif products is not NOTHING:
            live = stored if products.live_type is None else products.live_type
            temporaries.append(Tensor(f"{leaf}.products", (products.live,), live, Role.TEMPORARY))
            if row.largest:
                temporaries.append(Tensor(f"{leaf}.temporary", (row.largest * largest,), stored, Role.TEMPORARY))
        elif self.implementation == "loop":
            temporaries.append(Tensor(f"{leaf}.temporary", ((row.largest or 2.0) * largest,), stored, Role.TEMPORARY))
        elif row.temporaries:
            temporaries.append(Tensor(f"{leaf}.temporary", (row.temporaries * elements,), stored, Role.TEMPORARY))
        return tuple(temporaries)

    def _before(self, gradient: Real, stored: Real) -> tuple[Real, Real, float]:
        """Return bytes read and written per parameter, and kernels, of what happens to gradients before the update."""
        read: Real = 0.0
        written: Real = 0.0
        kernels = 0.0
        if self.loss_scaling:
            read, written, kernels = read + gradient, written + maximum(gradient, stored), kernels + 1.0
            gradient = maximum(gradient, stored)
            if self.master_type is not None:  # converted first, then searched and scaled in place
                read, written, kernels = read + gradient, written + gradient, kernels + 1.0
        if self.clipping:  # one pass for the norm, one for the scale
            read, written, kernels = read + 2.0 * gradient, written + gradient, kernels + 2.0
        return read, written, kernels


def _wider(dtype: DType, other: DType | None) -> DType:
    """Return a role's type, or the parameters' own where that is wider (adapters in fp32 on a 16-bit model)."""
    return dtype if other is None or dtype.rank > other.rank else other


def _products(row: Method, group: dict[Tensor, Real], itemsize: Real) -> Products:
    """Return the matrix products of a method, by the module that counts them."""
    if not row.products:
        return NOTHING
    module, _, function = row.products.partition(".")
    counted: Products = getattr(import_module(f"roofsim.passes.optimizer.{module}"), function)(group, itemsize)
    return counted


def _exchange(name: str, tensors: list[Tensor], ranks: Real, elements: Real) -> Collective:
    """Return the exchange of shards for whole matrices: as many elements come as go, in bf16."""
    received = Tensor(f"{name}.received", (elements,), BF16, Role.TEMPORARY)
    return Collective(
        name=name,
        inputs=tuple(tensors),
        outputs=(received,),
        function="all_to_all",
        group_of="data",
        ranks=ranks,
        phase=Phase.OPTIMIZER,
        whole=(received,),
        travels_in=BF16,
    )


def _hidden_matrix(tensor: Tensor) -> bool:
    return len(whole(tensor).shape) >= 2 and not tensor.within(*_HEADS)


def _state_size(row: Method, states: tuple[Tensor, ...], stored: DType, elements: Real) -> Real:
    """Return the bytes of one state of one parameter; of what passes for one where there is none."""
    if not states:
        return stored.itemsize
    return states[0].dtype.itemsize if row.code is None else states[0].bytes / elements


def _packed(code: StateCode, group: dict[Tensor, Real]) -> Real:
    """Return the bytes of one packed state: codes and a scale per block, fp32 for small tensors."""
    total: Real = 0.0
    for tensor, copies in group.items():
        packed = tensor.numel * code.bits / 8.0 + ceil(tensor.numel / code.block) * FP32.itemsize
        total = total + where(tensor.numel >= code.smallest, packed, tensor.numel * FP32.itemsize) * copies
    return total


def _factored(group: dict[Tensor, Real]) -> Real:
    """Return the elements of Adafactor's second moment: a row and a column per matrix, everything for vectors."""
    total: Real = 0.0
    for tensor, copies in group.items():
        if len(tensor.shape) < 2:
            total = total + tensor.numel * copies
        else:
            total = total + (tensor.numel / tensor.shape[-1] + tensor.numel / tensor.shape[-2]) * copies
    return total
