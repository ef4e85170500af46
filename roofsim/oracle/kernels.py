"""Price kernels by their sizes, on the card and in the engine of a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.api import resolve_document
from roofsim.cost.kernels.engine import pricing_of
from roofsim.cost.kernels.roofline import BOUNDS
from roofsim.cost.pricing import PricedGraph
from roofsim.errors import Problem, SpecError
from roofsim.graph.base import Phase
from roofsim.graph.opgraph import OpGraph
from roofsim.graph.ops import Attention, Elementwise, Matmul, Normalization, Softmax
from roofsim.graph.tensor import DTYPES, DType, Role, Tensor
from roofsim.oracle.table import Column, PredictedTable, answered, groups, numbers, refuse_unknown, words
from roofsim.points import Diverged, points
from roofsim.search.stacking import alike
from roofsim.spec.scenario.document import load_scenario
from roofsim.spec.usual import ANY_MODEL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from roofsim.cost.kernels.work import Pricing
    from roofsim.graph.base import AbstractOp
    from roofsim.spec.resolve import Resolved

#: Rows that are priced as one array.
_TOGETHER: Final = 65_536
Sizes = dict[str, Any]


def resolved_of(scenario: Any, overrides: Mapping[str, Any]) -> Resolved:
    """Resolve what is the same for all rows; without a scenario, on the card that `overrides` name."""
    return resolve_document(load_scenario({"model": ANY_MODEL} if scenario is None else scenario, dict(overrides)))


def _tensor(name: str, dtype: DType, *shape: Any, role: Role = Role.ACTIVATION) -> Tensor:
    return Tensor(name, shape, dtype, role)


def _matmul(sizes: Sizes, dtype: DType, phase: Any) -> AbstractOp:
    m, n, k, batch = (sizes[name] for name in ("m", "n", "k", "batch"))
    left = _tensor("left", dtype, batch, m, k)
    right = _tensor("right", dtype, batch, k, n, role=Role.PARAMETER)
    result = _tensor("result", dtype, batch, m, n)
    return Matmul(name="matmul", m=m, n=n, k=k, batch=batch, inputs=(left, right), outputs=(result,), phase=phase)


def _attention(sizes: Sizes, dtype: DType, phase: Any) -> AbstractOp:
    names = ("batch", "heads", "kv_heads", "q_length", "kv_length", "head_size")
    batch, heads, kv_heads, q_length, kv_length, head_size = (sizes[name] for name in names)
    queries = _tensor("queries", dtype, batch, heads, q_length, head_size)
    keys, values = (_tensor(name, dtype, batch, kv_heads, kv_length, head_size) for name in ("keys", "values"))
    result = _tensor("result", dtype, batch, heads, q_length, head_size)
    return Attention(
        name="attention",
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        q_length=q_length,
        kv_length=kv_length,
        head_size=head_size,
        value_head_size=head_size,
        causal=bool(sizes["causal"]),
        inputs=(queries, keys, values),
        outputs=(result,),
        phase=phase,
    )


def _elementwise(sizes: Sizes, dtype: DType, phase: Any) -> AbstractOp:
    inputs = tuple(_tensor(f"input {number}", dtype, sizes["elements"]) for number in range(int(sizes["inputs"])))
    outputs = (_tensor("result", dtype, sizes["elements"]),)
    return Elementwise(name="elementwise", function="add", inputs=inputs, outputs=outputs, phase=phase)


def _normalization(sizes: Sizes, dtype: DType, phase: Any) -> AbstractOp:
    read, written = (_tensor(name, dtype, sizes["rows"], sizes["width"]) for name in ("input", "result"))
    weight = _tensor("weight", dtype, sizes["width"], role=Role.PARAMETER)
    return Normalization(
        name="normalization", method="rms", training=False, inputs=(read, weight), outputs=(written,), phase=phase
    )


def _softmax(sizes: Sizes, dtype: DType, phase: Any) -> AbstractOp:
    read, written = (_tensor(name, dtype, sizes["rows"], sizes["width"]) for name in ("input", "result"))
    return Softmax(name="softmax", row=sizes["width"], inputs=(read,), outputs=(written,), phase=phase)


#: Op -> what makes it, its columns with their defaults (None: needed; a name: that of another column), and which are words.
_OPS: Final[
    dict[str, tuple[Callable[[Sizes, DType, Any], AbstractOp], dict[str, float | str | None], tuple[str, ...]]]
] = {
    "matmul": (_matmul, {"m": None, "n": None, "k": None, "batch": 1.0}, ()),
    "attention": (
        _attention,
        {
            "batch": 1.0,
            "heads": None,
            "kv_heads": "heads",
            "head_size": None,
            "q_length": None,
            "kv_length": "q_length",
            "causal": 1.0,
        },
        ("causal",),
    ),
    "elementwise": (_elementwise, {"elements": None, "inputs": 2.0}, ("inputs",)),
    "normalization": (_normalization, {"rows": None, "width": None}, ()),
    "softmax": (_softmax, {"rows": None, "width": None}, ()),
}
_FORMATS: Final = ("fp32", "fp16", "bf16", "fp8")


def predict_kernels(columns: Mapping[str, Column], scenario: Any, overrides: Mapping[str, Any]) -> PredictedTable:
    """Return seconds, FLOPs and bytes of kernels, at the clock that the card's power allows a kernel that runs alone.

    Raises
    ------
    SpecError
        For unknown columns, ops and number formats, and sizes that cannot be.
    """
    known = dict.fromkeys(name for _, sizes, _ in _OPS.values() for name in sizes)
    refuse_unknown(columns, ("op", "dtype", *known), (), "kernel")
    resolved = resolved_of(scenario, overrides)
    context = pricing_of(resolved, resolved.gpu, resolved.workload.phase)
    ops, formats = words(columns, "op", "matmul", tuple(_OPS)), words(columns, "dtype", "bf16", _FORMATS)
    count = len(ops)
    answers = {name: np.full(count, np.nan) for name in ("time", "flops", "bytes")}
    bound = np.full(count, "", dtype=object)
    for (op, dtype), rows in groups(ops, formats):
        _group(str(op), DTYPES[str(dtype)], rows, columns, context, answers, bound)
    return answered("kernel", {**answers, "bound": bound})


def _group(
    op: str,
    dtype: DType,
    rows: NDArray[np.int64],
    columns: Mapping[str, Column],
    context: Pricing,
    answers: dict[str, NDArray[np.float64]],
    bound: NDArray[np.object_],
) -> None:
    """Price the rows of one op in one format."""
    make, sizes, plain = _OPS[op]
    missing = [name for name, default in sizes.items() if default is None and name not in columns]
    if missing:
        raise SpecError(
            Problem(f"a {op} needs the column {missing[0]!r}", path="table", hint=f"Columns: {', '.join(sizes)}.")
        )
    own = {name: column[rows] for name, column in columns.items()}
    values: dict[str, NDArray[np.float64]] = {}
    for name, default in sizes.items():
        if isinstance(default, str) and name not in own:
            values[name] = values[default]
        else:
            values[name] = numbers(
                own, name, default if isinstance(default, float) else None, -1.0 if name == "causal" else 0.0
            )
    apart = groups(*(values[name] for name in plain)) if plain else [((), np.arange(len(rows)))]
    for words_of, chosen in apart:
        for first in range(0, len(chosen), _TOGETHER):
            part = chosen[first : first + _TOGETHER]
            some = {name: column[part] for name, column in values.items()} | dict(zip(plain, words_of, strict=True))
            _priced(lambda given: make(given, dtype, Phase.FORWARD), some, rows[part], context, answers, bound)


def _priced(
    make: Callable[[Sizes], AbstractOp],
    sizes: Sizes,
    rows: NDArray[np.int64],
    context: Pricing,
    answers: dict[str, NDArray[np.float64]],
    bound: NDArray[np.object_],
) -> None:
    """Price rows as one array, apart where their sizes decide on other kernels."""
    given = {name: points(value) if isinstance(value, np.ndarray) else value for name, value in sizes.items()}
    try:
        op = make(given)
        (cost,) = PricedGraph(OpGraph([op]), context).per_op()
        amounts = {
            "time": cost.lasting(0.0),
            "flops": op.executed_flops(),
            "bytes": op.bytes_read() + op.bytes_written(),
        }
        parts = np.stack([np.broadcast_to(np.asarray(getattr(cost, name)), len(rows)) for name in BOUNDS])
    except Diverged as diverged:
        for chosen in alike(diverged.labels):
            some = {name: value[chosen] if isinstance(value, np.ndarray) else value for name, value in sizes.items()}
            _priced(make, some, rows[chosen], context, answers, bound)
        return
    for name, amount in amounts.items():
        answers[name][rows] = np.broadcast_to(np.asarray(amount, dtype=np.float64), len(rows))
    bound[rows] = np.array(BOUNDS, dtype=object)[np.argmax(parts, axis=0)]
