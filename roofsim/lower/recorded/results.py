"""Work out what a recorded call makes: profilers say the sizes of what an operator reads, not of its results."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from roofsim.lower.captured import rules
from roofsim.lower.captured.names import ATTENTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.lower.recorded.call import RecordedCall, Shape

#: Shape and PyTorch's name of the type of a result.
Made = tuple["Shape", str]

_CONVOLUTION: Final = "input weight bias stride padding dilation transposed output_padding groups"
_POOL: Final = "input kernel_size stride padding dilation ceil_mode"
#: Operator -> names of its arguments, in order (PyTorch, aten/src/ATen/native/native_functions.yaml), where one of them matters.
ARGUMENTS: Final[dict[str, str]] = {
    "convolution": _CONVOLUTION,
    "_convolution": _CONVOLUTION,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), "input weight bias stride padding dilation groups"),
    "cudnn_convolution": "input weight padding stride dilation groups",
    "cudnn_convolution_transpose": "input weight padding output_padding stride dilation groups",
    "miopen_convolution": "input weight bias padding stride dilation groups",
    "mkldnn_convolution": "input weight bias padding stride dilation groups",
    "_conv_depthwise2d": "input weight kernel_size bias stride padding dilation",
    "convolution_backward": "grad input weight bias_sizes stride padding dilation transposed output_padding groups mask",
    "cat": "tensors dim",
    "stack": "tensors dim",
    **dict.fromkeys(
        ("sum", "mean", "amax", "amin", "argmax", "argmin", "max", "min", "any", "all"), "input dim keepdim"
    ),
    **dict.fromkeys(("var", "std", "var_mean"), "input dim correction keepdim"),
    "logsumexp": "input dim keepdim",
    "norm": "input p dim keepdim",
    "linalg_vector_norm": "input ord dim keepdim dtype",
    "index_select": "input dim index",
    "embedding_dense_backward": "grad indices num_weights",
    "topk": "input k dim",
    "constant_pad_nd": "input pad value",
    "repeat": "input repeats",
    **dict.fromkeys(("_softmax", "softmax", "_log_softmax", "log_softmax", "_safe_softmax"), "input dim dtype"),
    **dict.fromkeys(("_softmax_backward_data", "_log_softmax_backward_data"), "grad output dim dtype"),
    **dict.fromkeys(("max_pool2d", "max_pool2d_with_indices", "max_pool3d_with_indices"), _POOL),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d"), "input kernel_size stride padding ceil_mode"),
    "max_pool2d_with_indices_backward": "grad input kernel_size stride padding dilation ceil_mode indices",
    "avg_pool2d_backward": "grad input kernel_size stride padding ceil_mode",
    **dict.fromkeys(("_adaptive_avg_pool2d", "adaptive_avg_pool2d", "_adaptive_avg_pool3d"), "input output_size"),
    **dict.fromkeys(
        ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm"), "input weight bias mean var training"
    ),
    **dict.fromkeys(("upsample_nearest2d", "_upsample_nearest_exact2d"), "input output_size scales scales_w"),
    **dict.fromkeys(("upsample_bilinear2d", "upsample_bicubic2d"), "input output_size align_corners scales scales_w"),
    **dict.fromkeys(("upsample_nearest2d_backward", "upsample_bilinear2d_backward"), "grad output_size input_size"),
    "_scaled_dot_product_flash_attention": "q k v dropout_p is_causal",
    "_scaled_dot_product_efficient_attention": "q k v bias compute_log_sumexp dropout_p is_causal",
    "_scaled_dot_product_cudnn_attention": "q k v bias compute_log_sumexp dropout_p is_causal",
    "_scaled_dot_product_flash_attention_for_cpu": "q k v dropout_p is_causal",
    "_scaled_dot_product_flash_attention_backward": "grad q k v out lse cum_q cum_k max_q max_k dropout_p is_causal",
    "_scaled_dot_product_efficient_attention_backward": "grad q k v bias out lse seed offset dropout_p mask is_causal",
    "_scaled_dot_product_cudnn_attention_backward": "grad q k v out lse seed offset bias cum_q cum_k max_q max_k p is_causal",
    "_scaled_dot_product_flash_attention_for_cpu_backward": "grad q k v out lse dropout_p is_causal",
    "dropout": "input p train",
    "native_dropout": "input p train",
}
_INDEX: Final = "int64"
_STATISTICS: Final = "float32"
#: Widest first: what several types become together.
_WIDTHS: Final = (
    "complex64", "float64", "float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "int64", "uint64", "int32", "uint32",
    "int16", "int8", "uint8", "bool",
)  # fmt: skip


def argument(call: RecordedCall, name: str) -> Any:
    """Return an argument by its name; None where the operator has none of it, or the profiler did not say it."""
    names = ARGUMENTS.get(call.short, "").split()
    return call.said(names.index(name)) if name in names else None


def results_of(call: RecordedCall) -> tuple[Made, ...] | None:
    """Return the results of a call; None where nothing says how large they are.

    >>> from roofsim.lower.recorded.call import RecordedCall
    >>> results_of(RecordedCall("aten::mm", ((8, 4), (4, 2)), ("float", "float")))
    (((8, 2), 'float32'),)
    """
    find = _RESULTS.get(call.short)
    tensors = [(shape, str(call.dtype(place))) for place, shape in call.tensors()]
    if find is None or not (tensors or any(call.lists())):
        return None
    try:
        return find(call, tensors)
    except (IndexError, ValueError, TypeError):  # sizes that do not belong together
        return None


def promoted(dtypes: list[str]) -> str:
    """Return the type that tensors of some types become together.

    >>> promoted(["bfloat16", "float32", "int64"])
    'float32'
    """
    return min(dtypes, key=_WIDTHS.index)


def broadcast(shapes: list[Shape]) -> Shape:
    """Return the shape that several broadcast to.

    >>> broadcast([(2, 128, 1), (64,)])
    (2, 128, 64)
    """
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(max(sizes) for sizes in zip(*padded, strict=True))


def _pointwise(call: RecordedCall, tensors: list[Made]) -> tuple[Made, ...]:
    if call.operator.endswith("_"):
        return (tensors[0],)
    whole = [dtype for shape, dtype in tensors if shape] or [dtype for _, dtype in tensors]
    return ((broadcast([shape for shape, _ in tensors]), promoted(whole)),)


def _compared(_: RecordedCall, tensors: list[Made]) -> tuple[Made, ...]:
    return ((broadcast([shape for shape, _ in tensors]), "bool"),)


def _like(_: RecordedCall, tensors: list[Made]) -> tuple[Made, ...]:
    return (tensors[0],)


def _joined(call: RecordedCall, tensors: list[Made]) -> tuple[Made, ...]:
    """Return all elements of a list of tensors in one."""
    shapes = next(call.lists())
    return (((sum(map(math.prod, shapes)),), tensors[0][1] if tensors else ""),)


def _padded(call: RecordedCall, tensors: list[Made]) -> tuple[Made, ...]:
    shape, dtype = tensors[0]
    pad = argument(call, "pad") or []
    sizes = list(shape)
    for place, (before, behind) in enumerate(zip(pad[::2], pad[1::2], strict=True), 1):
        sizes[-place] += before + behind
    return ((tuple(sizes), dtype),)


def _repeated(call: RecordedCall, tensors: list[Made]) -> tuple[Made, ...] | None:
    times = argument(call, "repeats")
    return None if times is None else (((math.prod(tensors[0][0]) * math.prod(times),), tensors[0][1]),)


def _reduced(call: RecordedCall, tensors: list[Made]) -> tuple[Made, ...]:
    """Return the result of a reduction; of axes that nobody says, of all."""
    (shape, dtype), *others = tensors
    if others:  # the one that it writes into
        return (others[-1],)
    given = argument(call, "dim")
    axes = [given] if isinstance(given, int) and not isinstance(given, bool) else given
    if not isinstance(axes, list | tuple) or not axes:
        return (((), dtype),)
    gone = {axis % len(shape) for axis in axes}
    return ((tuple(size for place, size in enumerate(shape) if place not in gone), dtype),)


def _selected(call: RecordedCall, tensors: list[Made]) -> tuple[Made, ...]:
    (shape, dtype), (index, _) = tensors[:2]
    dim = argument(call, "dim") or 0
    return (((*shape[:dim], math.prod(index), *shape[dim + 1 :]), dtype),)


def _gathered(_: RecordedCall, tensors: list[Made]) -> tuple[Made, ...]:
    return ((tensors[1][0], tensors[0][1]),)


def _untold(_: RecordedCall, _tensors: list[Made]) -> None:
    """Return nothing: profilers do not say the sizes of a list of indices that may leave some out."""


def _ordered(call: RecordedCall, tensors: list[Made]) -> tuple[Made, ...]:
    shape, dtype = tensors[0]
    many, dim = argument(call, "k"), argument(call, "dim")
    if isinstance(many, int) and shape:
        place = (-1 if dim is None else dim) % len(shape)
        shape = (*shape[:place], many, *shape[place + 1 :])
    return ((shape, dtype), (shape, _INDEX))


def _product(left: int, right: int) -> Callable[[RecordedCall, list[Made]], tuple[Made, ...]]:
    def find(_: RecordedCall, tensors: list[Made]) -> tuple[Made, ...]:
        (first, dtype), (second, _dtype) = tensors[left], tensors[right]
        if len(first) < 2 or len(second) < 2 or first[-1] != second[-2]:
            raise ValueError("no product")
        return (((*first[:-1], second[-1]), "bfloat16" if dtype.startswith("float8") else dtype),)

    return find


def _linear(_: RecordedCall, tensors: list[Made]) -> tuple[Made, ...]:
    (shape, dtype), (weight, _dtype) = tensors[:2]
    if shape[-1] != weight[1]:
        raise ValueError("no product")
    return (((*shape[:-1], weight[0]), dtype),)


def _vector(_: RecordedCall, tensors: list[Made]) -> tuple[Made, ...]:
    return ((tensors[0][0][:-1], tensors[0][1]),)


def _convolved(call: RecordedCall, tensors: list[Made]) -> tuple[Made, ...] | None:
    (shape, dtype), (weight, _) = tensors[:2]
    stride, padding, dilation = (argument(call, name) for name in ("stride", "padding", "dilation"))
    if not all(isinstance(one, list) for one in (stride, padding, dilation)):
        return None
    axes = range(len(shape) - 2)
    stride, padding, dilation = (one * len(axes) if len(one) == 1 else one for one in (stride, padding, dilation))
    if argument(call, "transposed") or "transpose" in call.short:
        extra = argument(call, "output_padding") or [0] * len(axes)
        groups = argument(call, "groups") or 1
        sizes = [
            (shape[2 + at] - 1) * stride[at] - 2 * padding[at] + dilation[at] * (weight[2 + at] - 1) + extra[at] + 1
            for at in axes
        ]
        return (((shape[0], weight[1] * groups, *sizes), dtype),)
    sizes = [
        (shape[2 + at] + 2 * padding[at] - dilation[at] * (weight[2 + at] - 1) - 1) // stride[at] + 1 for at in axes
    ]
    return (((shape[0], weight[0], *sizes), dtype),)


def _normed(_: RecordedCall, tensors: list[Made]) -> tuple[Made, ...]:
    shape, dtype = tensors[0]
    weight = next((math.prod(one) for one, _ in tensors[1:] if one), shape[-1] if shape else 1)
    rows = max(math.prod(shape) // max(weight, 1), 1)
    return (tensors[0], ((rows,), _STATISTICS), ((rows,), _STATISTICS)) if dtype else (tensors[0],)


def _normed_by_channel(_: RecordedCall, tensors: list[Made]) -> tuple[Made, ...]:
    channels = tensors[0][0][1]
    return (tensors[0], ((channels,), _STATISTICS), ((channels,), _STATISTICS))


def _pooled(call: RecordedCall, tensors: list[Made]) -> tuple[Made, ...] | None:
    shape, dtype = tensors[0]
    kernel, stride, padding, dilation = (
        argument(call, name) for name in ("kernel_size", "stride", "padding", "dilation")
    )
    if not kernel:
        return None
    stride, axes = stride or kernel, range(len(kernel))
    padding, dilation = padding or [0] * len(axes), dilation or [1] * len(axes)
    rounds = math.ceil if argument(call, "ceil_mode") else math.floor
    lead = shape[: -len(axes)]
    sizes = [
        rounds((shape[at - len(axes)] + 2 * padding[at] - dilation[at] * (kernel[at] - 1) - 1) / stride[at]) + 1
        for at in axes
    ]
    out = (*lead, *sizes)
    return ((out, dtype), (out, _INDEX)) if "max" in call.short else ((out, dtype),)


def _pooled_to(call: RecordedCall, tensors: list[Made]) -> tuple[Made, ...] | None:
    shape, dtype = tensors[0]
    size = argument(call, "output_size")
    return None if not size else (((*shape[: -len(size)], *size), dtype),)


def _resized(call: RecordedCall, tensors: list[Made]) -> tuple[Made, ...] | None:
    shape, dtype = tensors[0]
    size, scales = argument(call, "output_size"), argument(call, "scales")
    if isinstance(size, list):
        return (((*shape[:2], *size), dtype),)
    if isinstance(scales, list):
        return (((*shape[:2], *(int(one * by) for one, by in zip(shape[2:], scales, strict=True))), dtype),)
    return None


def _attended(_: RecordedCall, tensors: list[Made]) -> tuple[Made, ...]:
    (q, dtype), v = tensors[0], tensors[2][0]
    return (((*q[:3], v[3]), dtype), (q[:3], _STATISTICS))


def _looked_up(_: RecordedCall, tensors: list[Made]) -> tuple[Made, ...]:
    (table, dtype), indices = tensors[0], tensors[1][0]
    return (((*indices, table[-1]), dtype),)


def _dropped(_: RecordedCall, tensors: list[Made]) -> tuple[Made, ...]:
    return (tensors[0], (tensors[0][0], "bool"))


def _lost(_: RecordedCall, tensors: list[Made]) -> tuple[Made, ...]:
    return (((), tensors[0][1]),)


def _table() -> dict[str, Callable[[RecordedCall, list[Made]], tuple[Made, ...] | None]]:
    by_rule = (
        (rules.ELEMENTWISE, _pointwise),
        (rules.FILLS, _like),
        (rules.COPIES, _like),
        (rules.REDUCTIONS, _reduced),
        (rules.GATHERS, _like),
        (rules.SORTS, _ordered),
        (rules.NORMS, _normed),
        (rules.POOLS, _pooled),
        (rules.RESIZES, _resized),
        (ATTENTIONS, _attended),
        (rules.LOSSES, _lost),
    )
    own: dict[str, Callable[[RecordedCall, list[Made]], tuple[Made, ...] | None]] = {
        name: find for table, find in by_rule for name in table
    }
    own |= dict.fromkeys((name for name, row in rules.ELEMENTWISE.items() if row.one == "compare"), _compared)
    own |= dict.fromkeys((name for name, row in rules.NORMS.items() if row == "batch"), _normed_by_channel)
    own |= dict.fromkeys((name for name, row in rules.POOLS.items() if row == "adaptive_average"), _pooled_to)
    return own | {
        "cat": _joined,
        "stack": _joined,
        "constant_pad_nd": _padded,
        "repeat": _repeated,
        "index_select": _selected,
        "gather": _gathered,
        **dict.fromkeys(("index", "_unsafe_index", "take_along_dim"), _untold),
        "mm": _product(0, 1),
        "bmm": _product(0, 1),
        "addmm": _product(1, 2),
        "baddbmm": _product(1, 2),
        "_scaled_mm": _product(0, 1),
        "_int_mm": _product(0, 1),
        "_addmm_activation": _product(1, 2),
        "linear": _linear,
        "mv": _vector,
        "dot": _vector,
        **dict.fromkeys(("convolution", "_convolution", "conv1d", "conv2d", "conv3d", "cudnn_convolution"), _convolved),
        **dict.fromkeys(("miopen_convolution", "mkldnn_convolution", "_conv_depthwise2d"), _convolved),
        "cudnn_convolution_transpose": _convolved,
        "embedding": _looked_up,
        "dropout": _dropped,
        "native_dropout": _dropped,
        **dict.fromkeys(("_softmax", "softmax", "_safe_softmax", "_log_softmax", "log_softmax", "_to_copy"), _like),
        **dict.fromkeys(("addcdiv", "lerp", "isin"), _pointwise),
    }


_RESULTS: Final = _table()
