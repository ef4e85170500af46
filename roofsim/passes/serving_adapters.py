"""Put the adapters of a server's requests beside its linear layers, as the kernels that batch over adapters run them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.errors import Problem, SpecError
from roofsim.graph.component import Component, Purpose
from roofsim.graph.naming import name_of_layer
from roofsim.graph.ops import Matmul, View
from roofsim.graph.tensor import DType, Role, Tensor
from roofsim.numeric import Real, minimum, product, where
from roofsim.passes.adapter_targets import is_target
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph


@dataclass(frozen=True, kw_only=True)
class ServeAdapters:
    """Add to each layer of `targets` the product of its input with two factors of `rank`, another pair for each request.

    Two kernels a layer whatever the number of adapters: rows are sorted by adapter, shrunk to `rank` values, and expanded
    into the layer's result (Punica, arXiv 2310.18547; S-LoRA, arXiv 2311.03285). The factors of all `adapters` are on the
    device; those that none of the pass's `requests` asks for are not read: all tokens of a request ask for one. Experts and
    heads have none.

    Layers that an engine merges have factors each, as they were trained apart; a layer that the model itself has merged has
    one pair (vllm/lora/layers/column_parallel_linear.py: MergedQKVParallelLinearWithLoRA, "3 LoRAs, each applied to one slice",
    and QKVParallelLinearWithLoRA).
    """

    name: ClassVar[str] = "serving_adapters"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"adapted"})

    rank: float
    adapters: float
    requests: Real = 1.0
    targets: frozenset[str] | None = None

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with adapters.

        Raises
        ------
        SpecError
            When no layer has a name among the targets.
        """
        ops: list[AbstractOp] = []
        for op in graph:
            wanted = isinstance(op, Matmul) and op.block is not None and op.inputs[1].role is Role.PARAMETER
            chosen = self._chosen(op) if isinstance(op, Matmul) and wanted else []
            ops += self._adapted(op, chosen) if isinstance(op, Matmul) and chosen else [op]
        if len(ops) == len(graph.ops):
            wanted_names = ", ".join(sorted(self.targets or ())) or "all-linear"
            raise SpecError(Problem(f"no linear layer is one of {wanted_names}", path="workload.serving.lora.targets"))
        return graph.replaced(ops, *self.ensures)

    def _chosen(self, op: Matmul) -> list[Real]:
        """Return the widths of the layers with adapters for which a product stands."""
        if op.merges:
            return [width for part, width in op.merges if is_target(part, self.targets)]
        return [op.n] if is_target(op.purpose, self.targets) else []

    def _adapted(self, op: Matmul, widths: list[Real]) -> list[AbstractOp]:
        """Return a product with its two kernels: each layer that it stands for has factors of its own."""
        x, out = op.inputs[0], op.outputs[0]
        scope, rows, ranks, n = name_of_layer(op), product(*x.shape[:-1]), self.rank * len(widths), sum(widths)
        whole = len(widths) == max(len(op.merges), 1)
        base = out.renamed(f"{out.name}.base") if whole else out
        sums = out if whole else Tensor(f"{scope}.lora.sum", (*out.shape[:-1], n), out.dtype, base=out)
        middle = Tensor(f"{scope}.lora.shrunk", (*x.shape[:-1], ranks), out.dtype)
        part = (
            middle
            if len(widths) == 1
            else Tensor(f"{middle.name}.part", (*x.shape[:-1], self.rank), out.dtype, base=middle)
        )
        # Requests ask for adapters at random: so many of them are read.
        asking = minimum(self.requests, rows)
        asked = where(asking > 1.0, self.adapters * (1.0 - (1.0 - 1.0 / self.adapters) ** asking), 1.0)
        down, up = (
            self._factor(f"{scope}.lora.{name}", shape, out.dtype, asked)
            for name, shape in (("a", (op.k, ranks)), ("b", (self.rank, n)))
        )
        component = Component("lora", Purpose.ADAPTER, op.component)
        each = {"m": rows / asked, "batch": asked, "block": op.block, "component": component}
        shrink = Matmul(name=f"{scope}.lora.shrink", inputs=(x, down), outputs=(middle,), n=ranks, k=op.k, **each)  # type: ignore[arg-type]
        expand = Matmul(name=f"{scope}.lora.expand", inputs=(part, up, base), outputs=(sums,), n=n, k=self.rank, **each)  # type: ignore[arg-type]
        views: list[AbstractOp] = []
        if part is not middle:
            fields = {"inputs": (middle,), "outputs": (part,), "block": op.block, "component": component}
            views.append(View(name=f"{scope}.lora.part", function="slice", **fields))  # type: ignore[arg-type]
        return [replace(op, outputs=(base, *op.outputs[1:])) if whole else op, shrink, *views, expand]

    def _factor(self, name: str, shape: tuple[Real, Real], dtype: DType, asked: Real) -> Tensor:
        """Return what is read of one factor of all adapters."""
        whole = Tensor(name, (self.adapters, *shape), dtype, Role.PARAMETER)
        return Tensor(f"{name}.asked", (asked, *shape), dtype, Role.PARAMETER, base=whole)
