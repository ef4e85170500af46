"""Tell ops that do the same work: equal in all but their names, their place in the program, and what they belong to."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from roofsim.graph.ops import Fused
from roofsim.points import by_value
from roofsim.records import fields

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor

#: Fields that say where an op stands and what it belongs to, not what it does. Tensors and parts are told apart by their own.
_PLACE: Final = frozenset(
    {"name", "phase", "block", "origin", "component", "layer_of_unit", "share", "inputs", "outputs", "holds", "parts"}
)
#: What reads the other fields of each class of ops.
_READERS: Final[dict[type, Callable[[Any], Any]]] = {}


def alike(ops: Iterable[AbstractOp]) -> tuple[list[AbstractOp], list[int]]:
    """Return one op of each kind of work, in program order, and the number of its kind for every op.

    Arrays of sizes are the same where all of their numbers are.
    """
    kinds: dict[Hashable, int] = {}
    first: list[AbstractOp] = []
    numbers = []
    known: dict[Tensor, Hashable] = {}
    for op in ops:
        number = kinds.setdefault(_form(op, {}, known), len(first))
        if number == len(first):
            first.append(op)
        numbers.append(number)
    return first, numbers


def alike_of(graphs: Sequence[OpGraph]) -> tuple[list[AbstractOp], list[int]]:
    """Return `alike` of the ops of graphs, one after the other; of each graph it is worked out once."""
    kinds = [_kinds(graph) for graph in graphs]
    if len(kinds) == 1:
        return kinds[0]
    first, numbers = alike(op for own, _ in kinds for op in own)
    places = iter(numbers)
    among = [[next(places) for _ in own] for own, _ in kinds]
    return first, [among[place][kind] for place, (_, of_graph) in enumerate(kinds) for kind in of_graph]


def _kinds(graph: OpGraph) -> tuple[list[AbstractOp], list[int]]:
    if "alike" not in graph.kept:
        graph.kept["alike"] = alike(graph.ops)
    kinds: tuple[list[AbstractOp], list[int]] = graph.kept["alike"]
    return kinds


def _form(op: AbstractOp, seen: dict[Tensor, int], known: dict[Tensor, Hashable]) -> Hashable:
    """Return what an op's work depends on; `seen` numbers the tensors that it touched so far, `known` has their `_facts`."""
    cls = type(op)
    read = _READERS.get(cls)
    if read is None:
        read = _READERS[cls] = _reader(cls)
    form = (cls, by_value(read(op)), _tensors(op.inputs, seen, known), _tensors(op.outputs, seen, known))
    return (form, *(_form(part, seen, known) for part in op.parts)) if isinstance(op, Fused) else form


def _reader(cls: type) -> Callable[[Any], Any]:
    names = [
        field.name for field in fields(cls) if field.name not in _PLACE or (field.name == "parts" and cls is not Fused)
    ]
    return attrgetter(*names)


def _tensors(
    tensors: tuple[Tensor, ...], seen: dict[Tensor, int], known: dict[Tensor, Hashable]
) -> tuple[Hashable, ...]:
    """Return the facts of tensors, each with its number and that of its storage; of one seen before its number."""
    forms: list[Hashable] = []
    for tensor in tensors:
        number = seen.get(tensor)
        if number is not None:
            forms.append(number)
            continue
        number = seen[tensor] = len(seen)
        facts = known.get(tensor)
        if facts is None:
            facts = known[tensor] = _facts(tensor)
        forms.append(
            (number, facts) if tensor.base is None else (number, facts, seen.setdefault(tensor.root, len(seen)))
        )
    return tuple(forms)


def _facts(tensor: Tensor) -> Hashable:
    """Return the size, type and roles of a tensor, and those of its storage."""
    own = (by_value(tensor.numel), id(tensor.dtype), tensor.role, tensor.owner.role)
    if tensor.base is None:
        return own
    root = tensor.root
    return (*own, tensor.shows_more, by_value(root.numel), id(root.dtype), root.role)
