"""Make the ops of recorded backward operators: those that PyTorch's autograd calls in the place of a forward one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.graph.ops import (
    Attention,
    Convolution,
    Dropout,
    Elementwise,
    Embedding,
    Loss,
    Normalization,
    Pool,
    Resize,
    Softmax,
)
from roofsim.lower.recorded.results import argument
from roofsim.lower.recorded.tensors import tensor_of, tensors_of
from roofsim.numeric import product

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.graph.base import AbstractOp
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.recorded.call import RecordedCall

    Rule = Callable[[RecordedCall], AbstractOp | None]


def _like(tensor: Tensor, name: str = "gradient") -> Tensor:
    return tensor_of(name, tensor.shape, tensor.dtype)


def _norm(method: str, places: tuple[int, ...], *, grad: int = 0) -> Rule:
    """Return the rule of a norm's backward: the places of its input, its weight and its statistics among the arguments."""

    def make(call: RecordedCall) -> AbstractOp | None:
        given = tensors_of(call)
        if grad not in given or places[0] not in given:
            return None
        x, *rest = (given[place] for place in places if place in given)
        weights = [given[places[1]]] if places[1] in given else []
        results = (_like(x), *(_like(one) for one in weights for _ in range(1 if method == "rms" else 2)))
        return Normalization(
            name=call.short, method=method, backward=True, inputs=(given[grad], x, *rest), outputs=results
        )

    return make


def _softmax(*, logarithm: bool) -> Rule:
    def make(call: RecordedCall) -> AbstractOp | None:
        given = tensors_of(call)
        if not {0, 1} <= set(given):
            return None
        dim, shape = argument(call, "dim"), given[1].shape
        axis = dim if isinstance(dim, int) and -len(shape) <= dim < len(shape) else -1
        row = shape[axis] if shape else 1.0
        return Softmax(
            name=call.short,
            row=row,
            logarithm=logarithm,
            backward=True,
            inputs=(given[0], given[1]),
            outputs=(_like(given[1]),),
        )

    return make


def _loss(function: str) -> Rule:
    def make(call: RecordedCall) -> AbstractOp | None:
        given = tensors_of(call)
        if not {0, 1, 2} <= set(given):
            return None
        return Loss(
            name=call.short,
            function=function,
            backward=True,
            inputs=(given[0], given[1], given[2]),
            outputs=(_like(given[1]),),
        )

    return make


def _table(call: RecordedCall) -> AbstractOp | None:
    """Return the gradient of a table; where nothing says how many rows it has, of those that were looked up."""
    given = tensors_of(call)
    if not {0, 1} <= set(given):
        return None
    lookups, width = product(*given[1].shape), given[0].shape[-1]
    entries = argument(call, "num_weights")
    rows = float(entries) if isinstance(entries, int) else lookups
    out = tensor_of("gradient", (rows, width), given[0].dtype)
    return Embedding(
        name=call.short, lookups=lookups, width=width, backward=True, inputs=(given[0], given[1]), outputs=(out,)
    )


def _dropout(call: RecordedCall) -> AbstractOp | None:
    given = tensors_of(call)
    if not {0, 1} <= set(given):
        return None
    return Dropout(name=call.short, backward=True, inputs=(given[0], given[1]), outputs=(_like(given[0]),))


def _convolution(call: RecordedCall) -> AbstractOp | None:
    given, stride = tensors_of(call), argument(call, "stride")
    if not {0, 1, 2} <= set(given) or not isinstance(stride, list):
        return None
    grad, x, weight = (given[place] for place in range(3))
    said = argument(call, "mask")
    mask = said if isinstance(said, list) and len(said) == 3 else [True, True, False]
    transposed = bool(argument(call, "transposed"))
    wanted = [one for one, asked in zip((x, weight), mask, strict=False) if asked] or [x]
    return Convolution(
        name=call.short,
        batch=x.shape[0],
        in_channels=x.shape[1],
        out_channels=grad.shape[1],
        in_size=x.shape[2:],
        out_size=grad.shape[2:],
        kernel_size=weight.shape[2:],
        stride=float(stride[0]),
        groups=float(argument(call, "groups") or 1),
        transposed=transposed,
        backward=True,
        data_gradient=bool(mask[0]),
        weight_gradient=bool(mask[1]),
        inputs=(grad, x, weight),
        outputs=tuple(_like(one) for one in wanted),
    )


def _attention(kernel: str) -> Rule:
    def make(call: RecordedCall) -> AbstractOp | None:
        given = tensors_of(call)
        if not {0, 1, 2, 3} <= set(given):
            return None
        grad, q, k, v = (given[place] for place in range(4))
        rest = [given[place] for place in sorted(given) if place > 3 and given[place].shape][:2]
        batch, heads, length, size = q.shape
        return Attention(
            name=call.short,
            batch=batch,
            heads=heads,
            kv_heads=k.shape[1],
            q_length=length,
            kv_length=k.shape[2],
            head_size=size,
            value_head_size=v.shape[3],
            causal=bool(argument(call, "is_causal")),
            kernel=kernel,
            backward=True,
            inputs=(grad, q, k, v, *rest),
            outputs=(_like(q), _like(k), _like(v)),
        )

    return make


def _pool(function: str) -> Rule:
    def make(call: RecordedCall) -> AbstractOp | None:
        given = tensors_of(call)
        if not {0, 1} <= set(given):
            return None
        kernel = argument(call, "kernel_size")
        window = (
            product(*map(float, kernel)) if kernel else product(*given[1].shape) / max(product(*given[0].shape), 1.0)
        )
        indices = tuple(given[place] for place in given if place > 1)
        return Pool(
            name=call.short,
            function=function,
            window=window,
            backward=True,
            inputs=(given[0], *indices, given[1]),
            outputs=(_like(given[1]),),
        )

    return make


def _resize(function: str) -> Rule:
    def make(call: RecordedCall) -> AbstractOp | None:
        given, size = tensors_of(call), argument(call, "input_size")
        if 0 not in given or not isinstance(size, list):
            return None
        out = tensor_of("gradient", tuple(map(float, size)), given[0].dtype)
        return Resize(name=call.short, function=function, backward=True, inputs=(given[0],), outputs=(out,))

    return make


def _pointwise(call: RecordedCall) -> AbstractOp | None:
    given = tuple(tensors_of(call).values())
    if not given:
        return None
    return Elementwise(name=call.short, function=call.short, inputs=given, outputs=(_like(given[0]),))


#: Places of the input, the weight and the statistics among the arguments of norms' backward operators.
_NORMS: Final[dict[str, tuple[str, tuple[int, ...], int]]] = {
    "native_layer_norm_backward": ("layer", (1, 5, 3, 4), 0),
    "_fused_rms_norm_backward": ("rms", (1, 4, 3), 0),
    "native_group_norm_backward": ("group", (1, 4, 2, 3), 0),
    "native_batch_norm_backward": ("batch", (1, 2, 5, 6), 0),
    "cudnn_batch_norm_backward": ("batch", (0, 2, 5, 6), 1),
    "miopen_batch_norm_backward": ("batch", (0, 2, 5, 6), 1),
}

RULES: Final[dict[str, Any]] = {
    **{name: _norm(method, places, grad=grad) for name, (method, places, grad) in _NORMS.items()},
    "_softmax_backward_data": _softmax(logarithm=False),
    "_log_softmax_backward_data": _softmax(logarithm=True),
    "nll_loss_backward": _loss("nll"),
    "nll_loss2d_backward": _loss("nll"),
    **dict.fromkeys(("mse_loss_backward", "smooth_l1_loss_backward", "huber_loss_backward"), _loss("mse")),
    "binary_cross_entropy_backward": _loss("mse"),
    "embedding_dense_backward": _table,
    "native_dropout_backward": _dropout,
    "masked_scale": _dropout,
    "_masked_scale": _dropout,
    "convolution_backward": _convolution,
    "_scaled_dot_product_flash_attention_backward": _attention("flash"),
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention("flash"),
    "_scaled_dot_product_cudnn_attention_backward": _attention("flash"),
    "_scaled_dot_product_efficient_attention_backward": _attention("efficient"),
    "max_pool2d_with_indices_backward": _pool("max"),
    "avg_pool2d_backward": _pool("average"),
    "_adaptive_avg_pool2d_backward": _pool("adaptive_average"),
    "upsample_nearest2d_backward": _resize("nearest"),
    "upsample_bilinear2d_backward": _resize("bilinear"),
    **dict.fromkeys(
        (
            "tanh_backward",
            "gelu_backward",
            "silu_backward",
            "threshold_backward",
            "sigmoid_backward",
            "hardswish_backward",
            "hardsigmoid_backward",
            "hardtanh_backward",
            "leaky_relu_backward",
            "elu_backward",
            "mish_backward",
            "softplus_backward",
            "log_sigmoid_backward",
        ),
        _pointwise,
    ),
}
