"""The table of rules: which op of the vocabulary each op of PyTorch is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from roofsim.lower.captured import heavy, light, moves
from roofsim.lower.captured.exchange import rule_of_collective
from roofsim.lower.captured.light import Pointwise
from roofsim.lower.captured.names import ATTENTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.lower.captured.context import CapturedGraph

T = TypeVar("T")


def _each(names: str, row: T) -> dict[str, T]:
    """Return the same row for each of some names."""
    return dict.fromkeys(names.split(), row)


#: Elementwise ops: the function where they read one tensor, and where they read several.
ELEMENTWISE: Final[dict[str, Pointwise]] = {
    "add": Pointwise("add_scalar", "add"),
    "sub": Pointwise("add_scalar", "sub"),
    "rsub": Pointwise("neg", "sub"),
    "mul": Pointwise("mul_scalar", "mul"),
    "div": Pointwise("div_scalar", "div"),
    "neg": Pointwise("neg"),
    "pow": Pointwise("pow"),
    "square": Pointwise("square"),
    "sqrt": Pointwise("sqrt"),
    "rsqrt": Pointwise("rsqrt"),
    "reciprocal": Pointwise("reciprocal"),
    "exp": Pointwise("exp"),
    "log": Pointwise("log"),
    "relu": Pointwise("relu"),
    "tanh": Pointwise("tanh"),
    "sigmoid": Pointwise("sigmoid"),
    "gelu": Pointwise("gelu"),
    "silu": Pointwise("silu"),
    "hardswish": Pointwise("hardswish"),
    "hardsigmoid": Pointwise("hardsigmoid"),
    "hardtanh": Pointwise("relu6"),
    "relu6": Pointwise("relu6"),
    "leaky_relu": Pointwise("leaky_relu"),
    "elu": Pointwise("elu"),
    "mish": Pointwise("mish"),
    "softplus": Pointwise("softplus"),
    "log_sigmoid_forward": Pointwise("log_sigmoid"),
    "erf": Pointwise("erf"),
    "abs": Pointwise("abs"),
    "clamp": Pointwise("clamp"),
    "clamp_min": Pointwise("clamp"),
    "clamp_max": Pointwise("clamp"),
    "where": Pointwise("where", "where"),
    "masked_fill": Pointwise("masked_fill", "masked_fill"),
    "addcmul": Pointwise("", "addcmul"),
    "maximum": Pointwise("clamp", "maximum"),
    "minimum": Pointwise("clamp", "maximum"),
    "threshold": Pointwise("relu"),
    # No gradient flows through these.
    **_each(
        "eq ne lt le gt ge isnan isinf isfinite logical_not logical_and logical_or logical_xor bitwise_not "
        "bitwise_and bitwise_or bitwise_xor __and__ __or__ sign sgn",
        Pointwise("compare", "compare"),
    ),
    **_each("floor ceil round trunc floor_divide remainder fmod", Pointwise("floor_divide", "floor_divide")),
    **_each("tril triu", Pointwise("mask")),
    "cos": Pointwise("cosine"),
    "sin": Pointwise("sine"),
    **_each("polar complex", Pointwise("polar", "polar")),
}

#: Ops that write without reading, and what they write.
FILLS: Final = {
    **_each(
        "zeros ones full new_zeros new_ones new_full zeros_like ones_like full_like scalar_tensor eye zero fill",
        "fill",
    ),
    **_each("arange linspace", "arange"),
    **_each("rand randn rand_like randn_like randint normal uniform bernoulli randperm", "random"),
}

#: Ops that show a storage in another form: whether the gradient is a slice of more, a sum, or passes as it is.
VIEWS: Final = {
    **_each(
        "view _unsafe_view reshape _reshape_alias alias unsqueeze squeeze flatten unflatten view_as view_as_real "
        "view_as_complex lift_fresh detach contiguous real as_strided",
        "reshape",
    ),
    **_each("t transpose permute movedim swapaxes numpy_T mT adjoint", "transpose"),
    **_each("slice select narrow diagonal unfold imag", "slice"),
    **_each("expand expand_as broadcast_to", "expand"),
    **_each("split split_with_sizes unbind chunk", "split"),
    **_each("empty new_empty empty_like empty_strided new_empty_strided", "empty"),
}

#: Ops that write elements anew.
COPIES: Final = {
    "clone": "clone",
    "copy": "clone",
    "cat": "concat",
    "stack": "concat",
    "constant_pad_nd": "pad",
    **_each("reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d", "pad"),
    "roll": "roll",
    "flip": "roll",
    "repeat": "expand",
    "pixel_shuffle": "transpose",
    "pixel_unshuffle": "transpose",
    "im2col": "expand",
    "col2im": "expand",
}

#: Ops that make fewer elements of many.
REDUCTIONS: Final = {
    **_each("sum prod count_nonzero any all", "sum"),
    "mean": "mean",
    **_each("amax amin max min argmax argmin", "max"),
    **_each("var std var_mean std_mean linalg_vector_norm norm logsumexp", "variance"),
}

#: Ops that follow indices.
GATHERS: Final = {
    **_each("index gather index_select _unsafe_index take_along_dim embedding_dense", "index"),
    **_each(
        "scatter scatter_add scatter_reduce index_add index_put _unsafe_index_put index_copy masked_scatter "
        "slice_scatter select_scatter index_fill",
        "scatter",
    ),
}

#: Ops that order elements, or run along an axis.
SORTS: Final = {
    "sort": "sort",
    "argsort": "sort",
    "topk": "topk",
    "cumsum": "cumsum",
    "cumprod": "cumsum",
    "histc": "histogram",
    "bincount": "histogram",
    "one_hot": "histogram",
    "searchsorted": "histogram",
    "bucketize": "histogram",
}

#: Norms: their method, and how many of the tensors they read are weights.
NORMS: Final = {
    "native_layer_norm": "layer",
    "layer_norm": "layer",
    "_fused_rms_norm": "rms",
    "rms_norm": "rms",
    "native_group_norm": "group",
    "group_norm": "group",
    **_each(
        "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training cudnn_batch_norm "
        "batch_norm _batch_norm_with_update _batch_norm_no_update miopen_batch_norm",
        "batch",
    ),
}

POOLS: Final = {
    **_each("max_pool1d max_pool2d max_pool3d", "max"),
    **_each("max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d", "max"),
    **_each("avg_pool1d avg_pool2d avg_pool3d", "average"),
    **_each(
        "_adaptive_avg_pool2d adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool1d",
        "adaptive_average",
    ),
}

RESIZES: Final = {
    **_each("upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact2d", "nearest"),
    **_each(
        "upsample_bilinear2d _upsample_bilinear2d_aa upsample_linear1d upsample_bicubic2d _upsample_bicubic2d_aa "
        "upsample_trilinear3d grid_sampler_2d",
        "bilinear",
    ),
}

LOSSES: Final = {
    "nll_loss_forward": "nll",
    "nll_loss2d_forward": "nll",
    "nll_loss": "nll",
    "mse_loss": "mse",
    "smooth_l1_loss": "mse",
    "huber_loss": "mse",
    "l1_loss": "mse",
    "binary_cross_entropy": "mse",
    "binary_cross_entropy_with_logits": "mse",
    "kl_div": "mse",
}

Rule = Any


def _rules() -> dict[str, Rule]:
    """Return all rules by the name of the op."""
    tables: list[tuple[dict[str, Any], Callable[..., None]]] = [
        (ELEMENTWISE, light.elementwise),
        (FILLS, light.fill),
        (VIEWS, moves.view),
        (COPIES, moves.copy),
        (REDUCTIONS, light.reduction),
        (GATHERS, moves.gather),
        (SORTS, moves.sort),
        (NORMS, light.norm),
        (POOLS, light.pool),
        (RESIZES, light.resize),
        (ATTENTIONS, heavy.attention),
        (LOSSES, light.loss),
    ]
    rules: dict[str, Rule] = {
        "mm": heavy.product,
        "bmm": heavy.product,
        "matmul": heavy.product,
        "addmm": heavy.product_with_bias,
        "baddbmm": heavy.product_with_bias,
        "linear": heavy.linear,
        "mv": heavy.product,
        "dot": heavy.product,
        "_grouped_mm": heavy.grouped,
        **_each("convolution conv1d conv2d conv3d", heavy.convolution),
        **_each("conv_transpose1d conv_transpose2d conv_transpose3d", partial(heavy.convolution, transposed=True)),
        "embedding": moves.embedding,
        "_embedding_bag": partial(moves.embedding, bags=True),
        "_embedding_bag_forward_only": partial(moves.embedding, bags=True),
        "native_dropout": light.dropout,
        "dropout": light.dropout,
        "_softmax": light.softmax,
        "_safe_softmax": light.softmax,
        "softmax": light.softmax,
        "_log_softmax": partial(light.softmax, logarithm=True),
        "log_softmax": partial(light.softmax, logarithm=True),
        "_to_copy": moves.convert,
        "to": moves.convert,
        "_thnn_fused_lstm_cell": light.gates,
        "_thnn_fused_gru_cell": light.gates,
        "lstm": partial(heavy.recurrence, row="lstm"),
        "gru": partial(heavy.recurrence, row="gru"),
        "rnn": partial(heavy.recurrence, row="rnn"),
    }
    for table, function in tables:
        rules |= {name: partial(function, row=row) for name, row in table.items()}
    return rules


RULES: Final = _rules()


def rule_of(op: str) -> Callable[[CapturedGraph], None] | None:
    """Return the rule of an op by its name, in place or not; None: there is none.

    >>> rule_of("aten.relu_") is rule_of("aten.relu")
    True
    """
    space, _, name = op.partition(".")
    if space not in ("aten", "prims"):
        return rule_of_collective(op)
    rule: Callable[[CapturedGraph], None] | None = RULES.get(name) or RULES.get(name.rstrip("_"))
    return rule
