"""Build the layers that model families share, kernel by kernel, as the engine's library runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.component import Purpose
from roofsim.graph.ops import (
    Cast,
    Copy,
    Dropout,
    Elementwise,
    Embedding,
    Loss,
    Matmul,
    Normalization,
    Reduction,
    Softmax,
    View,
)
from roofsim.graph.tensor import BOOL, FP32, INT64, DType, Tensor
from roofsim.lower.shares import Shares
from roofsim.numeric import Real, product, same
from roofsim.records import dataclass, field

if TYPE_CHECKING:
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.builder import Builder
    from roofsim.lower.flavour import Flavour


@dataclass(frozen=True)
class Layers:
    """Emit layers into a builder in one flavour. Tensors are ``[batch, sequence, width]`` or ``[batch, channels, ...]``."""

    b: Builder
    flavour: Flavour
    shares: Shares = field(default_factory=Shares)

    # -- elementary kernels -------------------------------------------------------------------------------------

    def _one(
        self, op_class: type[AbstractOp], leaf: str, inputs: tuple[Tensor, ...], out: Tensor, **fields: object
    ) -> Tensor:
        self.b.emit(op_class, leaf, inputs=inputs, outputs=(out,), **fields)
        return out

    def pointwise(self, function: str, *inputs: Tensor, inplace: bool = False, dtype: DType | None = None) -> Tensor:
        """Apply an elementwise function; the result has the shape of the largest input."""
        like = max(inputs, key=lambda tensor: len(tensor.shape)) if len(inputs) > 1 else inputs[0]
        shape = _broadcast([tensor.shape for tensor in inputs])
        out = self.b.tensor(
            function, *shape, dtype=like.dtype if dtype is None else dtype, base=inputs[0] if inplace else None
        )
        return self._one(Elementwise, function, inputs, out, function=function)

    def add(self, a: Tensor, c: Tensor, *, inplace: bool = False) -> Tensor:
        """Add two tensors (a residual connection)."""
        return self.pointwise("add", a, c, inplace=inplace)

    def mul(self, a: Tensor, c: Tensor) -> Tensor:
        """Multiply two tensors."""
        return self.pointwise("mul", a, c)

    def cast(self, x: Tensor, to: DType | Tensor) -> Tensor:
        """Convert to a type, or to whatever type another tensor turns out to have; free when it has it already."""
        dtype = to.dtype if isinstance(to, Tensor) else to
        out = self.b.tensor("cast", *x.shape, dtype=dtype)
        holds = (to,) if isinstance(to, Tensor) else ()
        return self._one(Cast, "cast", (x,), out, holds=holds)

    def copy(self, x: Tensor, function: str = "clone", shape: tuple[Real, ...] | None = None) -> Tensor:
        """Write the elements anew (made contiguous, transposed, padded)."""
        out = self.b.tensor(function, *(x.shape if shape is None else shape), dtype=x.dtype)
        return self._one(Copy, function, (x,), out, function=function)

    def concat(self, parts: tuple[Tensor, ...], axis: int) -> Tensor:
        """Concatenate along an axis."""
        length: Real = 0.0
        for part in parts:
            length = length + part.shape[axis]
        shape = tuple(
            length if index == axis % len(parts[0].shape) else size for index, size in enumerate(parts[0].shape)
        )
        out = self.b.tensor("concat", *shape, dtype=parts[0].dtype)
        return self._one(Copy, "concat", parts, out, function="concat")

    def view(self, x: Tensor, function: str, *shape: Real, copies_gradient: bool = False) -> Tensor:
        """Show the same storage in another shape."""
        out = self.b.tensor(function, *shape, dtype=x.dtype, base=x)
        return self._one(View, function, (x,), out, function=function, copies_gradient=copies_gradient)

    def split(self, x: Tensor, *widths: Real, axis: int = -1, function: str = "split") -> tuple[Tensor, ...]:
        """Show parts of the last (or another) axis; each keeps the whole storage alive.

        ``split`` gathers the gradients in one copy; ``slices`` writes each into zeros of the full size and adds them.
        """
        axis %= len(x.shape)
        parts = tuple(
            self.b.tensor("split", *x.shape[:axis], width, *x.shape[axis + 1 :], dtype=x.dtype, base=x)
            for width in widths
        )
        self.b.emit(View, "split", inputs=(x,), outputs=parts, function=function)
        return parts

    def release(self, *locals_: Tensor) -> None:
        """Keep tensors up to here: local variables of the library's code hold them until their function returns."""
        self.b.emit(View, "release", holds=locals_, function="release")

    def reduce(self, x: Tensor, shape: tuple[Real, ...], function: str = "sum") -> Tensor:
        """Reduce to a smaller shape."""
        out = self.b.tensor(function, *shape, dtype=x.dtype)
        return self._one(Reduction, function, (x,), out, function=function)

    def dropout(self, x: Tensor, rate: float) -> Tensor:
        """Drop elements while training; nothing happens at rate 0 or in inference."""
        rate = rate if self.flavour.dropout is None or rate == 0.0 else self.flavour.dropout
        if rate == 0.0 or not self.flavour.training:
            return x
        out = self.b.tensor("dropout", *x.shape, dtype=x.dtype)
        mask = self.b.tensor("mask", *x.shape, dtype=BOOL)
        self.b.emit(Dropout, "dropout", inputs=(x,), outputs=(out, mask))
        return out

    # -- layers -------------------------------------------------------------------------------------------------

    def linear(
        self,
        x: Tensor,
        width: Real,
        leaf: str,
        *,
        bias: bool | Tensor = False,
        weight: Tensor | None = None,
        repeated: Real = 1.0,
    ) -> Tensor:
        """Apply ``x @ W^T (+ b)`` with ``W: [width, x.shape[-1]]``; the bias rides in the matmul's epilogue.

        `repeated` as in `Matmul`.
        """
        with self.b.scope(leaf):
            k = x.shape[-1]
            w = self.b.parameter("weight", width, k) if weight is None else weight
            extra: tuple[Tensor, ...] = (bias,) if isinstance(bias, Tensor) else ()
            if bias is True:
                extra = (self.b.parameter("bias", width),)
            out = self.b.tensor("out", *x.shape[:-1], width)
            m = product(*x.shape[:-1])
            return self._one(Matmul, "matmul", (x, w, *extra), out, m=m, n=width, k=k, repeated=repeated)

    def embedding(self, indices: Tensor, entries: Real, width: Real, leaf: str) -> Tensor:
        """Look up rows of a trained table ``[entries, width]``."""
        with self.b.scope(leaf):
            table = self.b.parameter("weight", entries, width)
            return self.lookup(indices, table)

    def lookup(self, indices: Tensor, table: Tensor) -> Tensor:
        """Look up rows of a given table."""
        width = table.shape[-1]
        out = self.b.tensor("out", *indices.shape, width)
        return self._one(Embedding, "lookup", (table, indices), out, lookups=indices.numel, width=width)

    def layer_norm(
        self,
        x: Tensor,
        leaf: str,
        *,
        affine: bool = True,
        bias: bool = True,
        weight_form: str = "plain",
        each_head: bool = False,
    ) -> Tensor:
        """Apply layer normalisation over the last axis in one kernel; keeps mean and reciprocal deviation per row.

        `weight_form` ``fp32``: a norm that the library's code writes out, a weight and no bias, where the engine runs that code.
        `each_head`: weights ``[heads, size]`` of their own for every head of ``[batch, length, heads, size]``.
        """
        with self.b.scope(leaf):
            sizes = x.shape[-2:] if each_head else x.shape[-1:]
            if weight_form == "fp32" and self.flavour.engine.fusion.rms_norm == "chain":
                return self._layer_chain(x, self.b.parameter("weight", *sizes))
            weights: tuple[Tensor, ...] = (self.b.parameter("weight", *sizes),) if affine else ()
            weights += (self.b.parameter("bias", *sizes),) if affine and bias else ()
            out = self.b.tensor("out", *x.shape)
            rows = x.shape[:-1]
            mean, rstd = (self.b.tensor(leaf_, *rows, dtype=FP32) for leaf_ in ("mean", "rstd"))
            self.b.emit(Normalization, "norm", inputs=(x, *weights), outputs=(out, mean, rstd), method="layer")
            return out

    def rms_norm(self, x: Tensor, leaf: str, *, weight_form: str = "plain", affine: bool = True) -> Tensor:
        """Apply RMS normalisation: one kernel, or the fp32 chain of the transformers library.

        In the chain the weight multiplies the result after it is cast back (``plain``), before (``fp32``), or before
        and as an offset from one (``zero_centered``); ``mixed``: as plain, but what is scaled is the tensor itself, not
        its wide copy (diffusers' RMSNorm). ``widened``: as fp32, with an fp32 copy of the weight (Nemotron-H); ``wide``: with
        a power in the place of the root, too (Gemma 3n). ``kernel``: one kernel, whatever the engine has (torch.nn.RMSNorm).
        Without weights if not `affine`.
        """
        with self.b.scope(leaf):
            width = x.shape[-1]
            weights = (self.b.parameter("weight", width),) if affine else ()
            if self.flavour.engine.fusion.rms_norm == "chain" and weight_form != "kernel":
                return self._rms_chain(x, weights, weight_form)
            out = self.b.tensor("out", *x.shape)
            rstd = self.b.tensor("rstd", *x.shape[:-1], dtype=FP32)
            self.b.emit(Normalization, "norm", inputs=(x, *weights), outputs=(out, rstd), method="rms")
            return out

    def _layer_chain(self, x: Tensor, weight: Tensor) -> Tensor:
        """Normalise in fp32, one kernel at a time; deviations are taken twice, as Cohere's code does, and kept twice."""
        wide, column = self.cast(x, FP32), (*x.shape[:-1], 1.0)
        mean = self.reduce(wide, column, "mean")
        variance = self.reduce(self.pointwise("square", self.pointwise("sub", wide, mean)), column, "mean")
        scale = self.pointwise("rsqrt", self.pointwise("add_scalar", variance))
        normed = self.mul(self.pointwise("sub", wide, mean), scale)
        return self.cast(self.mul(self.cast(weight, FP32), normed), x)

    def _rms_chain(self, x: Tensor, weights: tuple[Tensor, ...], weight_form: str) -> Tensor:
        wide = self.cast(x, FP32)
        variance = self.reduce(self.pointwise("square", wide), (*x.shape[:-1], 1.0), "mean")
        root = "pow" if weight_form == "wide" else "rsqrt"
        scale = self.pointwise(root, self.pointwise("add_scalar", variance))
        if not weights:
            return self.cast(self.mul(wide, scale), x)
        (weight,) = weights
        if weight_form == "mixed":
            return self.mul(weight, self.cast(self.pointwise("mul", x, scale, dtype=FP32), x))
        if weight_form != "plain":
            factor = weight if weight_form == "fp32" else self.cast(weight, FP32)
            factor = self.pointwise("add_scalar", factor) if weight_form == "zero_centered" else factor
            return self.cast(self.mul(self.mul(wide, scale), factor), x)
        return self.mul(weight, self.cast(self.mul(wide, scale), x))

    def norm(self, x: Tensor, kind: str, leaf: str, *, bias: bool = True, weight_form: str = "plain") -> Tensor:
        """Apply the normalisation that a model names: ``layernorm`` or ``rmsnorm``."""
        if kind == "rmsnorm":
            return self.rms_norm(x, leaf, weight_form=weight_form)
        return self.layer_norm(x, leaf, bias=bias, weight_form=weight_form)

    def soft_cap(self, x: Tensor) -> Tensor:
        """Bound values smoothly: ``cap * tanh(x / cap)``."""
        return self.pointwise("mul_scalar", self.pointwise("tanh", self.pointwise("div_scalar", x)))

    def activation(self, x: Tensor, function: str) -> Tensor:
        """Apply an activation function by its usual name."""
        if function == "gelu_new" and self.flavour.engine.fusion.gelu_new == "chain":
            return self._gelu_chain(x)
        if function == "quick_gelu":
            return self.mul(x, self.pointwise("sigmoid", self.pointwise("mul_scalar", x)))
        if function == "relu_squared":
            return self.pointwise("square", self.pointwise("relu", x))
        if function == "xielu":
            # Two learned numbers (arXiv 2411.13010), in one kernel of its authors' package.
            return self.pointwise("xielu", x, *(self.b.parameter(name, 1.0) for name in ("alpha_p", "alpha_n")))
        return self.pointwise("gelu" if function in ("gelu_new", "gelu_tanh") else function, x)

    def _gelu_chain(self, x: Tensor) -> Tensor:
        """Compute ``0.5 x (1 + tanh(c (x + 0.044715 x^3)))`` one kernel at a time, as GPT-2's usual code does."""
        half = self.pointwise("mul_scalar", x)
        inner = self.pointwise("add", x, self.pointwise("mul_scalar", self.pointwise("cube", x)))
        tanh = self.pointwise("tanh", self.pointwise("mul_scalar", inner))
        return self.mul(half, self.pointwise("add_scalar", tanh))

    def softmax(
        self, x: Tensor, *alive: Tensor, logarithm: bool = False, on_chip: bool = False, visible: Real = 1.0
    ) -> Tensor:
        """Apply softmax over the last axis; `alive` are tensors that the calling code still holds.

        `on_chip`: no row is read twice; `visible`: share of the elements that a mask leaves to read.
        """
        leaf = "log_softmax" if logarithm else "softmax"
        out = self.b.tensor(leaf, *x.shape, dtype=x.dtype)
        fields = {"row": x.shape[-1], "logarithm": logarithm, "on_chip": on_chip, "visible": visible, "holds": alive}
        return self._one(Softmax, leaf, (x,), out, **fields)

    def mse_loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the mean squared error."""
        with self.b.scope(Purpose.LOSS):
            loss = self.b.tensor("loss", dtype=FP32)
            return self._one(Loss, "mse", (prediction, target), loss, function="mse")

    def labels(self, *shape: Real) -> Tensor:
        """Return integer targets of the batch."""
        return self.b.input("labels", *shape, dtype=INT64)


def _broadcast(shapes: list[tuple[Real, ...]]) -> tuple[Real, ...]:
    """Return the shape that numpy would give; sizes may be arrays, and 1.0 means broadcast."""
    longest = max(shapes, key=len)
    result = list(longest)
    for shape in shapes:
        for back in range(1, len(shape) + 1):
            own, other = result[-back], shape[-back]
            if own is not other and same(own, 1.0) and not same(other, 1.0):
                result[-back] = other
    return tuple(result)
