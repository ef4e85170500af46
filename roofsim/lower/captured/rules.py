"""The table of rules: which op of the vocabulary each op of PyTorch is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from roofsim.lower.captured import heavy, light, moves
from roofsim.lower.captured.light import Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.lower.captured.context import CapturedGraph

#: Elementwise ops: the function where they read one tensor, and where they read several.
ELEMENTWISE: Final[dict[str, Row]] = {
    "add": Row("add_scalar", "add"),
    "sub": Row("add_scalar", "sub"),
    "rsub": Row("neg", "sub"),
    "mul": Row("mul_scalar", "mul"),
    "div": Row("div_scalar", "div"),
    "neg": Row("neg"),
    "pow": Row("pow"),
    "square": Row("square"),
    "sqrt": Row("sqrt"),
    "rsqrt": Row("rsqrt"),
    "reciprocal": Row("reciprocal"),
    "exp": Row("exp"),
    "log": Row("log"),
    "relu": Row("relu"),
    "tanh": Row("tanh"),
    "sigmoid": Row("sigmoid"),
    "gelu": Row("gelu"),
    "silu": Row("silu"),
    "hardswish": Row("hardswish"),
    "hardsigmoid": Row("hardsigmoid"),
    "hardtanh": Row("relu6"),
    "relu6": Row("relu6"),
    "leaky_relu": Row("leaky_relu"),
    "elu": Row("elu"),
    "mish": Row("mish"),
    "softplus": Row("softplus"),
    "log_sigmoid_forward": Row("log_sigmoid"),
    "erf": Row("erf"),
    "abs": Row("abs"),
    "clamp": Row("clamp"),
    "clamp_min": Row("clamp"),
    "clamp_max": Row("clamp"),
    "where": Row("where", "where"),
    "masked_fill": Row("masked_fill", "masked_fill"),
    "maximum": Row("clamp", "maximum"),
    "minimum": Row("clamp", "maximum"),
    "threshold": Row("relu"),
    # No gradient flows through these.
    **dict.fromkeys(
        ("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "logical_not", "logical_and", "logical_or",
         "logical_xor", "bitwise_not", "bitwise_and", "bitwise_or", "bitwise_xor", "__and__", "__or__", "sign", "sgn"),
        Row("compare", "compare"),
    ),
    **dict.fromkeys(("floor", "ceil", "round", "trunc", "floor_divide", "remainder", "fmod"), Row("floor_divide", "floor_divide")),
    **dict.fromkeys(("tril", "triu"), Row("mask")),
    "cos": Row("cosine"),
    "sin": Row("sine"),
    **dict.fromkeys(("polar", "complex"), Row("polar", "polar")),
}  # fmt: skip

#: Ops that write without reading, and what they write.
FILLS: Final = {
    **dict.fromkeys(
        ("zeros", "ones", "full", "new_zeros", "new_ones", "new_full", "zeros_like", "ones_like", "full_like", "scalar_tensor",
         "eye", "zero", "fill"),
        "fill",
    ),
    **dict.fromkeys(("arange", "linspace"), "arange"),
    **dict.fromkeys(
        ("rand", "randn", "rand_like", "randn_like", "randint", "normal", "uniform", "bernoulli", "randperm"), "random"
    ),
}  # fmt: skip

#: Ops that show a storage in another form: whether the gradient is a slice of more, a sum, or passes as it is.
VIEWS: Final = {
    **dict.fromkeys(
        ("view", "_unsafe_view", "reshape", "_reshape_alias", "alias", "unsqueeze", "squeeze", "flatten", "unflatten", "view_as",
         "view_as_real", "view_as_complex", "lift_fresh", "detach", "contiguous", "real", "as_strided"),
        "reshape",
    ),
    **dict.fromkeys(("t", "transpose", "permute", "movedim", "swapaxes", "numpy_T", "mT", "adjoint"), "transpose"),
    **dict.fromkeys(("slice", "select", "narrow", "diagonal", "unfold", "imag"), "slice"),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), "expand"),
    **dict.fromkeys(("split", "split_with_sizes", "unbind", "chunk"), "split"),
    **dict.fromkeys(("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided"), "empty"),
}  # fmt: skip

#: Ops that write elements anew.
COPIES: Final = {
    "clone": "clone",
    "copy": "clone",
    "cat": "concat",
    "stack": "concat",
    "constant_pad_nd": "pad",
    **dict.fromkeys(("reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d"), "pad"),
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
    **dict.fromkeys(("sum", "prod", "count_nonzero", "any", "all"), "sum"),
    "mean": "mean",
    **dict.fromkeys(("amax", "amin", "max", "min", "argmax", "argmin"), "max"),
    **dict.fromkeys(("var", "std", "var_mean", "std_mean", "linalg_vector_norm", "norm", "logsumexp"), "variance"),
}

#: Ops that follow indices.
GATHERS: Final = {
    **dict.fromkeys(("index", "gather", "index_select", "_unsafe_index", "take_along_dim", "embedding_dense"), "index"),
    **dict.fromkeys(
        ("scatter", "scatter_add", "scatter_reduce", "index_add", "index_put", "_unsafe_index_put", "index_copy", "masked_scatter",
         "slice_scatter", "select_scatter", "index_fill"),
        "scatter",
    ),
}  # fmt: skip

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
    **dict.fromkeys(
        ("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "cudnn_batch_norm", "batch_norm",
         "_batch_norm_with_update", "_batch_norm_no_update", "miopen_batch_norm"),
        "batch",
    ),
}  # fmt: skip

POOLS: Final = {
    **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool3d"), "max"),
    **dict.fromkeys(("max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d"), "max"),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d"), "average"),
    **dict.fromkeys(
        ("_adaptive_avg_pool2d", "adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d"),
        "adaptive_average",
    ),
}

RESIZES: Final = {
    **dict.fromkeys(("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact2d"), "nearest"),
    **dict.fromkeys(
        ("upsample_bilinear2d", "_upsample_bilinear2d_aa", "upsample_linear1d", "upsample_bicubic2d", "_upsample_bicubic2d_aa",
         "upsample_trilinear3d", "grid_sampler_2d"),
        "bilinear",
    ),
}  # fmt: skip

ATTENTIONS: Final = {
    "_scaled_dot_product_flash_attention": "flash",
    "_scaled_dot_product_flash_attention_for_cpu": "flash",
    "_scaled_dot_product_cudnn_attention": "flash",
    "_scaled_dot_product_efficient_attention": "efficient",
    "scaled_dot_product_attention": "flash",
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
        "convolution": heavy.convolution,
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
        return None
    rule: Callable[[CapturedGraph], None] | None = RULES.get(name) or RULES.get(name.rstrip("_"))
    return rule
