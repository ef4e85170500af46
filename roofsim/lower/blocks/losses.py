"""The cross entropy of a vocabulary that is split over a tensor group, as DTensor's loss_parallel computes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.ops import Loss
from roofsim.lower.shares import statistics

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.blocks.layers import Layers


def chained_cross_entropy(layers: Layers, logits: Tensor, labels: Tensor, *alive: Tensor) -> Tensor:
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
    )  # fmt: skip
    return loss
