"""Build cross entropies, as the engine's library computes them, also of a vocabulary that is split over a tensor group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.component import Purpose
from roofsim.graph.ops import Loss
from roofsim.graph.tensor import FP32
from roofsim.lower.blocks.exchange import statistics
from roofsim.lower.shares import one

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.blocks.layers import Layers


def cross_entropy(layers: Layers, logits: Tensor, labels: Tensor, *alive: Tensor, upcast: bool | None = None) -> Tensor:
    """Return the mean cross entropy of ``[tokens, classes]`` logits.

    `upcast` says whether the model's code widens them first (left out: as the flavour does); `alive` are other
    tensors that the calling function still holds.
    """
    fusion = layers.flavour.engine.fusion
    with layers.b.scope(Purpose.LOSS):
        if fusion.split_cross_entropy != "chain":
            statistics(layers, logits, FP32)
        for _ in range(layers.flavour.engine.training.loss_metrics):
            # What a metric computes of each micro batch's logits, without gradients: torch's loss in fp32.
            with layers.b.scope(Purpose.METRICS):
                log_probabilities = layers.softmax(layers.cast(logits, FP32), logarithm=True)
                _loss(layers, "metric", log_probabilities, labels, "nll")
        if fusion.cross_entropy == "fused":
            return _loss(layers, "cross_entropy", logits, labels, "fused_cross_entropy")
        in_place = fusion.cross_entropy == "in_place"
        widens = in_place or (fusion.cross_entropy == "upcast" if upcast is None else upcast)
        wide = layers.cast(logits, FP32) if widens else logits
        if in_place:
            return _loss(layers, "cross_entropy", wide, labels, "in_place_cross_entropy")
        if fusion.split_cross_entropy == "chain" and not one(layers.shares.tensor):
            return _chained_cross_entropy(layers, wide, labels, logits, *alive)
        log_probabilities = layers.softmax(wide, logarithm=True)
        loss = layers.b.tensor("loss", dtype=wide.dtype)
        weight = layers.b.tensor("total_weight", dtype=wide.dtype)
        # The caller's logits object lives until the loss function returns.
        layers.b.emit(
            Loss,
            "nll",
            inputs=(log_probabilities, labels),
            outputs=(loss, weight),
            holds=(logits, *alive),
            function="nll",
        )
        return loss


def _loss(layers: Layers, name: str, logits: Tensor, labels: Tensor, function: str) -> Tensor:
    """Emit a kernel that makes one number of logits and labels."""
    loss = layers.b.tensor("metric" if name == "metric" else "loss", dtype=FP32)
    layers.b.emit(Loss, name, inputs=(logits, labels), outputs=(loss,), function=function)
    return loss


def _chained_cross_entropy(layers: Layers, logits: Tensor, labels: Tensor, *alive: Tensor) -> Tensor:
    """Return the loss of this rank's share of the logits ``[tokens, classes]``, kernel by kernel.

    torch.distributed.tensor.parallel.loss: shifted logits, their exponentials and the log-probabilities are tensors of
    their own, and one function makes the gradient of the logits from the log-probabilities; between the two nothing
    passes a gradient. `alive` are tensors that the callers hold until the loss is known.
    """
    rows = (*logits.shape[:-1], 1.0)
    greatest = layers.reduce(logits, rows, "max")
    shifted = layers.pointwise("sub", logits, greatest)
    total = layers.reduce(layers.pointwise("exp", shifted), rows, "sum")
    statistics(layers, total, logits.dtype)
    result = layers.pointwise("sub", shifted, layers.pointwise("log", total))
    loss = layers.b.tensor("loss", dtype=logits.dtype)
    weight = layers.b.tensor("total_weight", dtype=logits.dtype)
    layers.b.emit(
        Loss, "nll", inputs=(result, labels), outputs=(loss, weight), holds=(logits, *alive), function="split_nll"
    )
    return loss
