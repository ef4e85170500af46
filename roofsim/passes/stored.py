"""Find which weights of a graph a format covers, and in how many bits each is stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from roofsim.graph.ops import Embedding, GroupedMatmul, Matmul, Normalization
from roofsim.graph.tensor import FP32, DType, Role, Tensor
from roofsim.spec.precision.formats import EMBEDDING, HEAD, LINEAR, Place, mean_bits

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Real
    from roofsim.spec.precision.formats import WeightFormat

#: Scope of a linear layer -> its role in the tensor rules of formats.
_ROLES: Final = {
    "query": "query", "query_up": "query", "query_down": "query", "key": "key", "value": "value",
    "query_key_value": "query_key_value", "output": "attention_output", "gate": "gate", "up": "up", "gate_up": "up",
    "down": "down", "key_value_up": "value",
}  # fmt: skip
#: Scopes whose matrices decide instead of carrying much: every quantiser leaves them wide.
_LEFT_WIDE: Final = ("router", "gate_of_all")
#: Tables that no quantiser touches: positions and segments.
_SMALL_TABLES: Final = ("position", "segment", "token_type")


@dataclass(frozen=True)
class _Model:
    """What the rules of a format ask of a model."""

    layers: Real
    groups: Real
    experts: Real


def stored_types(graph: OpGraph, found: WeightFormat) -> dict[Tensor, DType]:
    """Return the type of every weight that a format covers (and of vectors that it keeps in fp32).

    Where encodings differ between layers, the type has the mean of their bits: the layers of a block are one tensor.
    """
    model = _model_of(graph)
    types: dict[Tensor, DType] = {}
    for op in graph:
        weight = weight_of(op)
        if weight is not None:
            dtype = _type_of(found, _place(op, weight, model))
            # A table that is read both ways is a head: its rules are those of the output matrix.
            if dtype is not None and not (weight in types and isinstance(op, Embedding)):
                types[weight] = dtype
        if found.wide_vectors:
            types |= dict.fromkeys(_vectors(op), FP32)
    return types


def weight_of(op: AbstractOp) -> Tensor | None:
    """Return the matrix or table that an op reads, if quantisers look at it."""
    if isinstance(op, Embedding):
        table = op.inputs[0].root
        trained = table.role is Role.PARAMETER and not any(word in table.name for word in _SMALL_TABLES)
        return table if trained else None
    if not isinstance(op, Matmul | GroupedMatmul) or len(op.inputs) < 2:
        return None
    weight = op.inputs[1]
    wide = any(word in weight.name.split(".") for word in _LEFT_WIDE)
    return weight if weight.role is Role.PARAMETER and not wide else None


def _vectors(op: AbstractOp) -> list[Tensor]:
    """Return the norms' weights and the biases that an op reads."""
    if not isinstance(op, Normalization | Matmul):
        return []
    first = 1 if isinstance(op, Normalization) else 2
    return [tensor for tensor in op.inputs[first:] if tensor.role is Role.PARAMETER]


def _model_of(graph: OpGraph) -> _Model:
    layers: Real = 0.0
    rows: dict[str, Real] = {}
    experts: Real = 1.0
    for block, body in graph.segments():
        weights = [weight for op in body if (weight := weight_of(op)) is not None]
        if block is not None and weights:
            layers = layers + block.repeat
        for weight in weights:
            rows.setdefault(_scope(weight), weight.shape[0])
        for op in body:
            if isinstance(op, Matmul):
                rows |= {str(part): width for part, width in op.merges}
            if isinstance(op, GroupedMatmul):
                experts = op.experts
    groups: Real = rows["query"] / rows["value"] if {"query", "value"} <= set(rows) else 1.0
    return _Model(layers=layers, groups=groups, experts=experts)


def _scope(weight: Tensor) -> str:
    return weight.name.split(".")[-2] if "." in weight.name else weight.name


def _place(op: AbstractOp, weight: Tensor, model: _Model) -> Place:
    """Return where a weight stands; one that merges projections stands where the first of them does in a checkpoint."""
    matrix = HEAD if op.block is None else LINEAR
    merges = op.merges if isinstance(op, Matmul) else ()
    scope, rows = (str(merges[0][0]), merges[0][1]) if merges else (_scope(weight), weight.shape[-2])
    return Place(
        part=EMBEDDING if isinstance(op, Embedding) else matrix,
        role=_ROLES.get(scope, "other"),
        columns=weight.shape[-1],
        rows=rows,
        matrices=2.0 if isinstance(op, GroupedMatmul) and scope == "gate_up" else 1.0,
        module=_module(op, weight, scope),
        layers=model.layers,
        groups=model.groups,
        experts=model.experts,
    )


def _module(op: AbstractOp, weight: Tensor, last: str) -> str:
    """Return the scope of a weight inside its block, with its `last` word: self_attention.query."""
    scopes = [*weight.name.split(".")[:-2], last]
    return ".".join(scopes if op.block is None else scopes[1:])


def _type_of(found: WeightFormat, place: Place) -> DType | None:
    bits = mean_bits(found, place)
    if bits is None:
        return None
    return DType("+".join(found.encodings(place)), bits / 8.0, floating=False, packed=True)
