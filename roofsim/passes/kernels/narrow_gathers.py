"""Gather sequences for split regions in the type in which their products read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.ops import Cast, Collective
from roofsim.graph.rewire import Rewiring
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor


@dataclass(frozen=True, kw_only=True)
class GatherNarrow:
    """Convert a rank's part of a sequence before it is gathered, where all that read the whole convert it.

    Transformer Engine, pytorch/module/layernorm_linear.py: the norm's result is quantized, gathered and kept in fp8, and
    module/base.py (grad_output_preprocess) does so with the gradients that row-parallel layers gather. Runs on typed tensors,
    before autograd for what backward keeps, and behind it for the gradients.
    """

    name: ClassVar[str] = "gather_narrow"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"narrow_gathers"})

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with conversions before gathers instead of behind them."""
        readers = graph.readers
        writer = Rewiring()
        narrowed: dict[Tensor, Tensor] = {}
        for op in graph:
            casts = _casts(op, readers.get(op.outputs[0], ())) if op.outputs else []
            if isinstance(op, Collective) and casts:
                narrowed |= dict.fromkeys((cast.outputs[0] for cast in casts), _gathered(writer, op, casts[0]))
            elif op.outputs and op.outputs[0] in narrowed:
                writer.put({op.outputs[0]: narrowed[op.outputs[0]]})
            else:
                writer.add(op)
        return graph.replaced(writer.program(), *self.ensures)


def _casts(op: AbstractOp, readers: list[AbstractOp] | tuple[AbstractOp, ...]) -> list[Cast]:
    """Return the conversions to one narrow type that alone read a gathered sequence; none where something else does."""
    if not isinstance(op, Collective) or (op.function, op.group_of) != ("all_gather", "tensor"):
        return []
    whole = op.outputs[0]
    reading = [reader for reader in readers if whole in reader.inputs or whole not in reader.holds]
    casts = [reader for reader in reading if isinstance(reader, Cast) and reader.outputs[0].dtype.narrow]
    alike = len({cast.outputs[0].dtype for cast in casts}) == 1
    return casts if alike and len(casts) == len(reading) else []


def _gathered(writer: Rewiring, op: Collective, cast: Cast) -> Tensor:
    """Write the conversion of a part, and the gather of all parts; return the whole in the narrow type."""
    part, dtype = writer.twin(op.inputs[0]), cast.outputs[0].dtype
    own = replace(cast.outputs[0], name=f"{part.name}.{dtype}", shape=part.shape, of=part)
    whole = replace(cast.outputs[0], of=None)
    writer.add(replace(cast, name=f"{op.name}.narrow", inputs=(part,), outputs=(own,), phase=op.phase, block=op.block))
    writer.add(replace(op, inputs=(own,), outputs=(whole,)))
    writer.put({op.outputs[0]: whole})
    return whole
