"""Build the layers of convolutional networks: convolutions, batch and group norms, pooling, resizing."""

from __future__ import annotations

from functools import reduce
from typing import Final

from roofsim.graph.component import Purpose
from roofsim.graph.ops import Collective, Convolution, Elementwise, Normalization, Pool, Resize
from roofsim.graph.tensor import FP32, INT64, Tensor
from roofsim.lower.blocks.layers import Layers
from roofsim.lower.blocks.losses import cross_entropy
from roofsim.lower.shares import one
from roofsim.numeric import Real, floor, maximum, product
from roofsim.records import dataclass

#: Activations whose gradient is computed from the input, also where they run in place.
OVERWRITTEN: Final = frozenset({"silu", "hardswish", "hardsigmoid", "mish", "relu6"})


@dataclass(frozen=True)
class VisionLayers(Layers):
    """Layers over images ``[batch, channels, height, width]`` (or sequences ``[batch, channels, length]``).

    `frozen_norms`: batch norms are buffers, neither trained nor measured (torchvision, FrozenBatchNorm2d).
    """

    frozen_norms: bool = False

    def conv(
        self,
        x: Tensor,
        out_channels: Real,
        kernel: Real | tuple[Real, ...],
        leaf: str,
        *,
        stride: Real | tuple[Real, ...] = 1.0,
        padding: Real | tuple[Real, ...] | None = None,
        dilation: Real = 1.0,
        groups: Real = 1.0,
        bias: bool = False,
        same_padding: bool = False,
    ) -> Tensor:
        """Convolve; `padding` left out keeps the size at stride 1 (half the dilated kernel).

        `same_padding`: output size is ceil(size / stride) whatever the kernel (TensorFlow's SAME).
        """
        in_size = x.shape[2:]
        kernels = tuple(kernel) if isinstance(kernel, tuple) else tuple(kernel for _ in in_size)
        if padding is None:
            pads: tuple[Real, ...] = tuple(dilation * (k - 1.0) / 2.0 for k in kernels)
        else:
            pads = padding if isinstance(padding, tuple) else tuple(padding for _ in in_size)
        strides = stride if isinstance(stride, tuple) else tuple(stride for _ in in_size)
        if same_padding:
            out_size = tuple(floor((size - 1.0) / step) + 1.0 for size, step in zip(in_size, strides, strict=True))
        else:
            out_size = tuple(
                floor((size + 2.0 * pad - dilation * (k - 1.0) - 1.0) / step) + 1.0
                for size, pad, k, step in zip(in_size, pads, kernels, strides, strict=True)
            )
        with self.b.scope(leaf):
            weights = self.kernel_weights(out_channels, x.shape[1] / groups, kernels, bias=bias)
            longest = reduce(maximum, strides)
            return self.convolve(x, weights, out_size, stride=longest, groups=groups)

    def kernel_weights(
        self, out_channels: Real, in_channels: Real, kernels: tuple[Real, ...], *, bias: bool
    ) -> tuple[Tensor, ...]:
        """Return the weights of a convolution, and its bias where it has one."""
        weight = self.b.parameter("weight", out_channels, in_channels, *kernels)
        return (weight, self.b.parameter("bias", out_channels)) if bias else (weight,)

    def convolve(
        self,
        x: Tensor,
        weights: tuple[Tensor, ...],
        out_size: tuple[Real, ...],
        *,
        stride: Real = 1.0,
        groups: Real = 1.0,
    ) -> Tensor:
        """Convolve with weights that exist, which several convolutions may share."""
        out_channels, _, *kernels = weights[0].shape
        out = self.b.tensor("out", x.shape[0], out_channels, *out_size)
        self.b.emit(
            Convolution,
            "conv",
            inputs=(x, *weights),
            outputs=(out,),
            batch=x.shape[0],
            in_channels=x.shape[1],
            out_channels=out_channels,
            in_size=x.shape[2:],
            out_size=out_size,
            kernel_size=tuple(kernels),
            stride=stride,
            groups=groups,
        )
        return out

    def batch_norm(self, x: Tensor, leaf: str, *, affine: bool = True) -> Tensor:
        """Normalise channels over batch and positions; keeps mean and inverse deviation per channel."""
        if self.frozen_norms:
            return self._frozen_norm(x, leaf)
        b, channels = self.b, x.shape[1]
        with b.scope(leaf):
            weights = tuple(b.parameter(name, channels) for name in ("weight", "bias")) if affine else ()
            running = tuple(b.buffer(name, channels) for name in ("running_mean", "running_var"))
            out = b.tensor("out", *x.shape)
            statistics = tuple(b.tensor(name, channels, dtype=FP32) for name in ("mean", "inverse_deviation"))
            training = self.flavour.training
            if training:
                seen = b.buffer("num_batches_tracked", dtype=INT64)
                counted = b.tensor("counted", dtype=INT64, base=seen)
                b.emit(Elementwise, "count", inputs=(seen,), outputs=(counted,), function="add_scalar")
            if training and not one(self.flavour.batch_norm_ranks):
                gathered = self._statistics_of_all(x)
                b.emit(
                    Normalization,
                    "norm",
                    inputs=(x, *weights, gathered),
                    outputs=(out, *statistics),
                    holds=running,
                    method="synchronised",
                    ranks=self.flavour.batch_norm_ranks,
                )
                return out
            b.emit(
                Normalization,
                "norm",
                inputs=(x, *weights, *running),
                outputs=(out, *statistics) if training else (out,),
                method="batch",
                training=training,
            )
            return out

    def _frozen_norm(self, x: Tensor, leaf: str) -> Tensor:
        """Scale and shift channels by what buffers say: two kernels, or what an engine folds into the convolution."""
        b, channels = self.b, x.shape[1]
        with b.scope(leaf):
            names = ("weight", "bias", "running_mean", "running_var")
            kept = tuple(b.buffer(name, channels) for name in names)
            if not self.flavour.training and self.flavour.engine.convolution.norms == "folded":
                out = b.tensor("out", *x.shape)
                b.emit(Normalization, "norm", inputs=(x, *kept), outputs=(out,), method="batch", training=False)
                return out
            inverse = self.pointwise("rsqrt", self.pointwise("add_scalar", kept[3]))
            scale = self.pointwise("mul", kept[0], inverse)
            shift = self.pointwise("sub", kept[1], self.pointwise("mul", kept[2], scale))
            wide = (1.0, channels, 1.0, 1.0)
            scale, shift = (self.view(one, "reshape", *wide) for one in (scale, shift))
            return self.pointwise("add", self.pointwise("mul", x, scale), shift)

    def _statistics_of_all(self, x: Tensor) -> Tensor:
        """Gather mean, deviation and count of every rank's batch (torch/nn/modules/_functions.py, SyncBatchNorm)."""
        b, ranks = self.b, self.flavour.batch_norm_ranks
        own = b.tensor("own_statistics", 2.0 * x.shape[1] + 1.0, dtype=FP32)
        b.emit(Normalization, "statistics", inputs=(x,), outputs=(own,), method="batch_statistics")
        gathered = b.tensor("all_statistics", own.numel * ranks, dtype=FP32)
        b.emit(
            Collective,
            "gather_statistics",
            inputs=(own,),
            outputs=(gathered,),
            function="all_gather",
            group_of="statistics",
            ranks=ranks,
        )
        return gathered

    def group_norm(self, x: Tensor, groups: Real, leaf: str) -> Tensor:
        """Normalise groups of channels of each sample; keeps mean and reciprocal deviation in the input's type."""
        with self.b.scope(leaf):
            weights = tuple(self.b.parameter(name, x.shape[1]) for name in ("weight", "bias"))
            return self.group_norm_with(x, groups, weights)

    def group_norm_with(self, x: Tensor, groups: Real, weights: tuple[Tensor, ...]) -> Tensor:
        """Normalise groups of channels with weights that exist, which several norms may share."""
        out = self.b.tensor("out", *x.shape)
        statistics = tuple(self.b.tensor(name, x.shape[0], groups) for name in ("mean", "rstd"))
        self.b.emit(Normalization, "norm", inputs=(x, *weights), outputs=(out, *statistics), method="group")
        return out

    def relu(self, x: Tensor, *, inplace: bool = True) -> Tensor:
        """Rectify, by default in place as the usual CNN code does."""
        return self.pointwise("relu", x, inplace=inplace)

    def activate(self, x: Tensor, function: str) -> Tensor:
        """Apply an activation in place; what its gradient needs of the overwritten input, PyTorch copies first."""
        kept = (self.copy(x),) if self.flavour.training and function in OVERWRITTEN else ()
        out = self.b.tensor(function, *x.shape, dtype=x.dtype, base=x)
        return self._one(Elementwise, function, (x,), out, function=function, holds=kept)

    def conv_norm(
        self,
        x: Tensor,
        out_channels: Real,
        kernel: Real | tuple[Real, ...],
        leaf: str,
        *,
        stride: Real = 1.0,
        padding: Real | tuple[Real, ...] | None = None,
        groups: Real = 1.0,
        activation: str | None = "relu",
    ) -> Tensor:
        """Convolve without bias, normalise by batch, and apply an activation in place."""
        with self.b.scope(leaf):
            x = self.conv(x, out_channels, kernel, "conv", stride=stride, padding=padding, groups=groups)
            x = self.batch_norm(x, "norm")
            return x if activation is None else self.activate(x, activation)

    def dropout_in_place(self, x: Tensor, rate: float) -> Tensor:
        """Drop elements in place: no fused kernel does it, a factor for each is drawn, scaled and multiplied by."""
        return self.pointwise("mul", x, self._drawn(x, *x.shape), inplace=True) if self._drops(rate) else x

    def stochastic_depth(self, x: Tensor, rate: float) -> Tensor:
        """Drop whole samples of a residual branch: a factor for each is drawn, scaled and multiplied by."""
        ones = (1.0 for _ in x.shape[1:])
        return self.mul(x, self._drawn(x, x.shape[0], *ones)) if self._drops(rate) else x

    def _drops(self, rate: float) -> bool:
        return self.flavour.training and rate > 0.0 and self.flavour.dropout != 0.0

    def _drawn(self, like: Tensor, *shape: Real) -> Tensor:
        drawn = self.b.tensor("drawn", *shape)
        self.b.emit(Elementwise, "random", outputs=(drawn,), holds=(like,), function="random")
        return self.pointwise("div_scalar", drawn, inplace=True)

    def pool(
        self,
        x: Tensor,
        function: str,
        kernel: Real,
        leaf: str,
        *,
        stride: Real | None = None,
        padding: Real = 0.0,
        ceil_mode: bool = False,
    ) -> Tensor:
        """Pool windows; ``max`` writes an int64 index beside each output, in inference too (PyTorch has one kernel for both)."""
        stride = kernel if stride is None else stride
        slack = stride - 1.0 if ceil_mode else 0.0
        size = tuple(floor((length + 2.0 * padding - kernel + slack) / stride) + 1.0 for length in x.shape[2:])
        out = self.b.tensor(leaf, *x.shape[:2], *size)
        outputs: tuple[Tensor, ...] = (out,)
        if function == "max":
            outputs = (out, self.b.tensor("indices", *out.shape, dtype=INT64))
        window = product(*(kernel for _ in size))
        self.b.emit(Pool, leaf, inputs=(x,), outputs=outputs, function=function, window=window)
        return out

    def adaptive_average(self, x: Tensor, side: Real, leaf: str) -> Tensor:
        """Average over a grid of ``side x side`` windows that together cover the image, whatever its size."""
        out = self.b.tensor(leaf, *x.shape[:2], *(side for _ in x.shape[2:]))
        self.b.emit(Pool, leaf, inputs=(x,), outputs=(out,), function="adaptive_average", window=x.numel / out.numel)
        return out

    def global_average(self, x: Tensor) -> Tensor:
        """Average over all positions: ``[batch, channels]``."""
        return self.reduce(x, x.shape[:2], "mean")

    def resize(self, x: Tensor, size: tuple[Real, ...], function: str = "nearest") -> Tensor:
        """Interpolate to another size."""
        out = self.b.tensor("resized", *x.shape[:2], *size)
        self.b.emit(Resize, "resize", inputs=(x,), outputs=(out,), function=function)
        return out

    def squeeze_excite(
        self, x: Tensor, reduced: Real, leaf: str, *, activation: str = "relu", gate: str = "sigmoid"
    ) -> Tensor:
        """Scale channels by a gate computed from their means (two 1x1 convolutions with biases)."""
        with self.b.scope(leaf):
            pooled = self.reduce(x, (*x.shape[:2], 1.0, 1.0), "mean")
            inner = self.conv(pooled, reduced, 1.0, "reduce", bias=True)
            inner = self.activate(inner, activation)
            weights = self.pointwise(gate, self.conv(inner, x.shape[1], 1.0, "expand", bias=True))
            return self.mul(x, weights)

    def classify(self, x: Tensor, classes: Real, *, train: bool, bias: bool = True) -> Tensor:
        """Apply a linear classifier to ``[batch, width]`` and, while training, the cross entropy loss."""
        logits = self.linear(x, classes, Purpose.CLASSIFIER, bias=bias)
        return cross_entropy(self, logits, self.labels(x.shape[0])) if train else logits

    def patches(self, images: Tensor, width: Real, size: Real) -> Tensor:
        """Turn square patches into tokens ``[batch, patches, width]`` by one convolution without overlap."""
        x = self.conv(images, width, size, "patches", stride=size, padding=0.0, bias=True)
        return self.view(x, "transpose", x.shape[0], x.shape[2] * x.shape[3], width)

    def image(self, call_batch: Real, channels: Real, size: Real) -> Tensor:
        """Return the input images."""
        return self.b.input("images", call_batch, channels, size, size)
