"""The table of rules: which op of PyTorch each op of ONNX is, so that captures' rules price both."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from roofsim.importers.exported.onnx import heavy, light
from roofsim.importers.exported.onnx.call import NodeCall
from roofsim.importers.exported.onnx.contrib import MICROSOFT
from roofsim.importers.exported.onnx.nodes import op_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roofsim.importers.exported.onnx.graph import OnnxWalk
    from roofsim.importers.exported.onnx.values import OnnxValue


def _each(names: str, row: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), row)


#: Elementwise ops: they read what is no single number.
POINTWISE: Final = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
    "Neg": "neg",
    "Sqrt": "sqrt",
    "Reciprocal": "reciprocal",
    "Exp": "exp",
    "Log": "log",
    "Relu": "relu",
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
    "Gelu": "gelu",
    "FastGelu": "gelu",
    "BiasGelu": "gelu",
    "QuickGelu": "silu",
    "Swish": "silu",
    "HardSwish": "hardswish",
    "HardSigmoid": "hardsigmoid",
    "LeakyRelu": "leaky_relu",
    "PRelu": "leaky_relu",
    "Elu": "elu",
    "Celu": "elu",
    "Selu": "elu",
    "Mish": "mish",
    "Softplus": "softplus",
    "Softsign": "hardsigmoid",
    "Erf": "erf",
    "Abs": "abs",
    "Clip": "clamp",
    "ThresholdedRelu": "threshold",
    "Shrink": "threshold",
    "Where": "where",
    "Max": "maximum",
    "Min": "minimum",
    "Sum": "add",
    "Mean": "add",
    "Trilu": "tril",
    "Cos": "cos",
    "Sin": "sin",
    "QuantizeLinear": "_to_copy",
    "DequantizeLinear": "_to_copy",
    **_each(
        "Equal Less LessOrEqual Greater GreaterOrEqual Not And Or Xor BitwiseNot BitwiseAnd BitwiseOr BitwiseXor Sign "
        "IsNaN IsInf BitShift",
        "eq",
    ),
    **_each("Floor Ceil Round Mod", "floor"),
    **_each("Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh", "sin"),
}

#: Ops that write elements anew, elsewhere or in another order.
MOVES: Final = {
    "Concat": "cat",
    "Pad": "constant_pad_nd",
    "Tile": "repeat",
    "Expand": "expand",
    "Slice": "slice",
    "Split": "split",
    "DepthToSpace": "pixel_shuffle",
    "SpaceToDepth": "pixel_unshuffle",
    "Col2Im": "col2im",
    "ReverseSequence": "flip",
    "GatherElements": "gather",
    "GatherND": "index",
    "ScatterND": "scatter",
    "ScatterElements": "scatter",
    "Scatter": "scatter",
    "TensorScatter": "scatter",
    "CumSum": "cumsum",
    "TopK": "topk",
    "OneHot": "one_hot",
}

#: Ops that show the elements of what they read.
VIEWS: Final = _each("Reshape Squeeze Unsqueeze Flatten Identity Dropout OptionalGetElement", "view")

#: Ops that make fewer elements of many.
REDUCTIONS: Final = {
    **_each("ReduceSum ReduceProd ReduceSumSquare ReduceL1", "sum"),
    "ReduceMean": "mean",
    **_each("ReduceMax ReduceMin ArgMax ArgMin", "amax"),
    **_each("ReduceL2 ReduceLogSum ReduceLogSumExp", "logsumexp"),
}

#: Ops that write without reading.
FILLS: Final = {
    "ConstantOfShape": "full",
    "EyeLike": "eye",
    "Range": "arange",
    **_each("RandomNormal RandomUniform RandomNormalLike RandomUniformLike Bernoulli Multinomial", "randn"),
}

Rule = Any


def _rules() -> dict[str, Rule]:
    tables: list[tuple[dict[str, str], Callable[..., None]]] = [
        (POINTWISE, light.pointwise),
        (MOVES, light.moved),
        (VIEWS, light.view),
        (REDUCTIONS, light.reduction),
        (FILLS, light.fill),
    ]
    rules: dict[str, Rule] = {
        "Conv": heavy.convolution,
        "ConvTranspose": partial(heavy.convolution, transposed=True),
        "ConvInteger": partial(heavy.convolution, reads=(0, 1)),
        "QLinearConv": partial(heavy.convolution, reads=(0, 3, 8)),
        "MatMul": heavy.product,
        "FusedMatMul": heavy.product,
        "MatMulInteger": heavy.product,
        "QLinearMatMul": partial(heavy.product, right=3),
        "MatMulNBits": heavy.packed_product,
        "Gemm": heavy.general_product,
        "Einsum": heavy.einsum,
        "LSTM": partial(heavy.recurrent, cell="lstm"),
        "GRU": partial(heavy.recurrent, cell="gru"),
        "RNN": partial(heavy.recurrent, cell="rnn"),
        "Attention": heavy.attention,
        "MultiHeadAttention": heavy.attention,
        "Transpose": light.transpose,
        "Cast": light.cast,
        "CastLike": light.cast,
        "Pow": light.power,
        "Gather": light.gather,
        "Softmax": light.softmax,
        "LogSoftmax": partial(light.softmax, name="_log_softmax"),
        "Hardmax": partial(light.softmax, name="_softmax"),
        "BatchNormalization": light.batch_norm,
        "LayerNormalization": partial(light.norm, name="native_layer_norm"),
        "RMSNormalization": partial(light.norm, name="_fused_rms_norm"),
        "SimplifiedLayerNormalization": partial(light.norm, name="_fused_rms_norm"),
        "SkipLayerNormalization": partial(light.norm, name="native_layer_norm", skips=True),
        "SkipSimplifiedLayerNormalization": partial(light.norm, name="_fused_rms_norm", skips=True),
        "GroupNormalization": partial(light.norm, name="native_group_norm"),
        "InstanceNormalization": partial(light.norm, name="native_group_norm"),
        "MeanVarianceNormalization": partial(light.norm, name="native_group_norm"),
        "LpNormalization": light.scaled_by_norm,
        "LRN": light.local_norm,
        "MaxPool": partial(light.pool, name="max_pool2d"),
        "AveragePool": partial(light.pool, name="avg_pool2d"),
        "LpPool": partial(light.pool, name="avg_pool2d"),
        "GlobalAveragePool": partial(light.pool, name="adaptive_avg_pool2d"),
        "GlobalMaxPool": partial(light.pool, name="adaptive_max_pool2d"),
        "GlobalLpPool": partial(light.pool, name="adaptive_avg_pool2d"),
        "Resize": light.resize,
        "Upsample": light.resize,
        "GridSample": partial(light.resize, name="grid_sampler_2d"),
        "DynamicQuantizeLinear": light.dynamic_quantise,
        "RotaryEmbedding": light.rotary,
    }
    for table, function in tables:
        rules |= {op: partial(function, name=row) for op, row in table.items()}
    return rules


RULES: Final[dict[str, Rule]] = _rules()


def has_rule(op: str) -> bool:
    """Tell whether there is a rule for an op, named with its domain.

    >>> has_rule("onnx::Conv"), has_rule("my.domain::Conv")
    (True, False)
    """
    domain, _, name = op.rpartition("::")
    return name in RULES and (domain in ("onnx", MICROSOFT))


def write_node(walk: OnnxWalk, node: Any, inputs: Sequence[OnnxValue | None], outputs: Sequence[OnnxValue]) -> None:
    """Write down a node by its rule; one without a rule under its own name, which lowering refuses or prices as stated."""
    call = NodeCall(walk, node, inputs, outputs)
    name = op_name(node)
    rule = RULES[node.op_type] if has_rule(name) and name not in walk.stated else None
    if rule is None:
        call.unknown(name)
    else:
        rule(call)
