"""Find which weights of a graph a format covers, and in how many bits each is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.graph.component import Purpose
from roofsim.graph.ops import Convolution, Embedding, GroupedMatmul, Matmul, Normalization
from roofsim.graph.tensor import FP32, DType, Role, Tensor
from roofsim.records import dataclass
from roofsim.spec.precision.encodings import EMBEDDING, HEAD, LINEAR, WeightPosition
from roofsim.spec.precision.formats import mean_bits

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Real
    from roofsim.spec.precision.formats import WeightFormat

#: What a linear layer is for -> its role in the tensor rules of formats.
_ROLES: Final[dict[Purpose | None, str]] = {
    Purpose.QUERY: "query",
    Purpose.QUERY_UP: "query",
    Purpose.QUERY_DOWN: "query",
    Purpose.KEY: "key",
    Purpose.VALUE: "value",
    Purpose.KEY_VALUE_UP: "value",
    Purpose.QUERY_KEY_VALUE: "query_key_value",
    Purpose.OUTPUT: "attention_output",
    Purpose.GATE: "gate",
    Purpose.UP: "up",
    Purpose.GATE_UP: "up",
    Purpose.DOWN: "down",
}
#: Components whose matrices decide instead of carrying much: every quantiser leaves them wide.
_LEFT_WIDE: Final = (Purpose.ROUTER, Purpose.SHARED_EXPERT_GATE)
#: Tables that no quantiser touches.
_SMALL_TABLES: Final = (Purpose.POSITIONS, Purpose.SEGMENTS)


@dataclass(frozen=True)
class _Model:
    """What the rules of a format ask of a model."""

    layers: Real
    groups: Real
    experts: Real


def stored_types(graph: OpGraph, stored_format: WeightFormat, *, convolutions: bool = False) -> dict[Tensor, DType]:
    """Return the type of every weight that a format covers (and of vectors that it keeps in fp32).

    `convolutions`: those of convolutions as well, which a builder of engines quantises wherever they stand.

    Where encodings differ between layers, the type has the mean of their bits: the layers of a block are one tensor.
    """
    model = _model_of(graph)
    types: dict[Tensor, DType] = {}
    for op in graph:
        weight = weight_of(op)
        if weight is not None:
            dtype = _type_of(stored_format, _place(op, weight, model))
            # A table that is read both ways is a head: its rules are those of the output matrix.
            if dtype is not None and not (weight in types and isinstance(op, Embedding)):
                types[weight] = dtype
        elif convolutions and isinstance(op, Convolution):
            types[op.inputs[1]] = _type_of(stored_format, WeightPosition(part=LINEAR)) or op.inputs[1].dtype
        if stored_format.wide_vectors:
            types |= dict.fromkeys(_vectors(op), FP32)
    return types


def weight_of(op: AbstractOp) -> Tensor | None:
    """Return the matrix or table that an op reads, if quantisers look at it."""
    if isinstance(op, Embedding):
        table = op.inputs[0].root
        trained = table.role is Role.PARAMETER and not table.within(*_SMALL_TABLES)
        return table if trained else None
    if not isinstance(op, Matmul | GroupedMatmul) or len(op.inputs) < 2:
        return None
    weight = op.inputs[1]
    return weight if weight.role is Role.PARAMETER and not weight.within(*_LEFT_WIDE) else None


def _vectors(op: AbstractOp) -> list[Tensor]:
    """Return the norms' weights and the biases that an op reads."""
    if not isinstance(op, Normalization | Matmul):
        return []
    first = 1 if isinstance(op, Normalization) else 2
    return [tensor for tensor in op.inputs[first:] if tensor.role is Role.PARAMETER]


def _model_of(graph: OpGraph) -> _Model:
    layers: Real = 0.0
    rows: dict[Purpose | None, Real] = {}
    experts: Real = 1.0
    for block, body in graph.segments():
        weights = [weight for op in body if (weight := weight_of(op)) is not None]
        if block is not None and weights:
            layers = layers + block.repeat
        for weight in weights:
            rows.setdefault(weight.purpose, weight.shape[0])
        for op in body:
            if isinstance(op, Matmul):
                rows |= dict(op.merges)
            if isinstance(op, GroupedMatmul):
                experts = op.experts
    groups: Real = rows[Purpose.QUERY] / rows[Purpose.VALUE] if {Purpose.QUERY, Purpose.VALUE} <= set(rows) else 1.0
    return _Model(layers=layers, groups=groups, experts=experts)


def _place(op: AbstractOp, weight: Tensor, model: _Model) -> WeightPosition:
    """Return where a weight stands; one that merges projections stands where the first of them does in a checkpoint."""
    matrix = HEAD if op.block is None else LINEAR
    purpose, rows = (weight.purpose, weight.shape[-2])
    if isinstance(op, Matmul) and op.merges:
        purpose, rows = op.merges[0]
    return WeightPosition(
        part=EMBEDDING if isinstance(op, Embedding) else matrix,
        role=_ROLES.get(purpose, "other"),
        columns=weight.shape[-1],
        rows=rows,
        matrices=2.0 if isinstance(op, GroupedMatmul) and weight.purpose is Purpose.GATE_UP else 1.0,
        module=_module(weight, purpose),
        layers=model.layers,
        groups=model.groups,
        experts=model.experts,
    )


def _module(weight: Tensor, purpose: Purpose | None) -> str:
    """Return what the components of a weight are for, from the outermost to its own `purpose`: self_attention.query."""
    if weight.component is None:
        return ""
    path = weight.component.path
    return ".".join(path if purpose is weight.purpose or purpose is None else (*path[:-1], purpose))


def _type_of(stored_format: WeightFormat, place: WeightPosition) -> DType | None:
    bits = mean_bits(stored_format, place)
    if bits is None:
        return None
    name, microscaled = "+".join(stored_format.encodings(place)), stored_format.microscaled(place)
    return DType(name, bits / 8.0, floating=False, packed=True, microscaled=microscaled)
