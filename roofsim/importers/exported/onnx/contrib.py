"""Shapes of ops that onnx has no schema for: those of ONNX Runtime that its optimiser and exporters write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roofsim.importers.exported.onnx.values import OnnxValue

    Shapes = dict[str, tuple[tuple[int, ...] | None, int]]

#: Domain of the contributed ops of ONNX Runtime (docs/ContribOperators.md).
MICROSOFT: Final = "com.microsoft"
#: ONNX's number of truth values.
_BOOL: Final = 9


def attribute_of(node: Any, name: str, default: Any = None) -> Any:
    """Return an attribute as a number, a text, or a list of numbers."""
    from onnx import helper

    attribute = next((each for each in node.attribute if each.name == name), None)
    if attribute is None:
        return default
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return list(value) if isinstance(value, (list, tuple)) or hasattr(value, "extend") else value


def shapes_of(node: Any, inputs: Sequence[OnnxValue | None]) -> Shapes | None:
    """Return shapes and types of what a contributed op makes; None: it is none that is known here.

    ONNX's own domain has some of them as well, where exporters leave the domain out (`SimplifiedLayerNormalization`).
    """
    rule = _RULES.get(node.op_type)
    if rule is None or (node.domain != MICROSOFT and node.op_type not in _ALSO_OWN):
        return None
    if inputs and (inputs[0] is None or inputs[0].shape is None):
        return {}
    return rule(node, inputs)


def _like_first(node: Any, inputs: Sequence[OnnxValue | None]) -> Shapes:
    first = inputs[0]
    assert first is not None
    return {node.output[0]: (first.shape, first.elem)}


def _compared(node: Any, inputs: Sequence[OnnxValue | None]) -> Shapes:
    left, right = inputs[:2]
    assert left is not None
    if right is None or right.shape is None:
        return {}
    return {node.output[0]: (np.broadcast_shapes(left.sizes, right.sizes), _BOOL)}


def _skip_norm(node: Any, inputs: Sequence[OnnxValue | None]) -> Shapes:
    first = inputs[0]
    assert first is not None
    made = {node.output[0]: (first.shape, first.elem)}
    if len(node.output) > 3 and node.output[3]:
        made[node.output[3]] = (first.shape, first.elem)
    return made


def _product(node: Any, inputs: Sequence[OnnxValue | None]) -> Shapes:
    left, right = inputs[:2]
    assert left is not None
    if right is None or right.shape is None or len(left.sizes) < 2 or len(right.sizes) < 2:
        return {}
    rows = left.sizes[-1] if attribute_of(node, "transA", 0) else left.sizes[-2]
    columns = right.sizes[-2] if attribute_of(node, "transB", 0) else right.sizes[-1]
    lead = left.sizes[:-2] if len(left.sizes) >= len(right.sizes) else right.sizes[:-2]
    return {node.output[0]: ((*lead, rows, columns), left.elem)}


def _packed_product(node: Any, inputs: Sequence[OnnxValue | None]) -> Shapes:
    first = inputs[0]
    assert first is not None
    return {node.output[0]: ((*first.sizes[:-1], int(attribute_of(node, "N", 0))), first.elem)}


def _multi_head(node: Any, inputs: Sequence[OnnxValue | None]) -> Shapes:
    first, value = inputs[0], inputs[2] if len(inputs) > 2 else None
    assert first is not None
    if len(first.sizes) != 3 or value is None or value.shape is None or len(value.shape) != 3:
        return {}
    return {node.output[0]: ((*first.sizes[:2], value.shape[2]), first.elem)}


_RULES: Final[dict[str, Callable[[Any, Sequence[OnnxValue | None]], Shapes]]] = {
    **dict.fromkeys(("SimplifiedLayerNormalization", "Gelu", "FastGelu", "QuickGelu", "BiasGelu"), _like_first),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _skip_norm),
    **dict.fromkeys(("GroupNormalization", "MeanVarianceNormalization"), _like_first),
    **dict.fromkeys(("GreaterOrEqual", "LessOrEqual"), _compared),
    "FusedMatMul": _product,
    "MatMulNBits": _packed_product,
    "MultiHeadAttention": _multi_head,
}
#: Those of ONNX's own domain: written without a domain by exporters, or without inference in onnx.
_ALSO_OWN: Final = frozenset(
    {
        "SimplifiedLayerNormalization",
        "SkipSimplifiedLayerNormalization",
        "GroupNormalization",
        "MeanVarianceNormalization",
        "GreaterOrEqual",
        "LessOrEqual",
    }
)
