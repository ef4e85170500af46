"""What counts a model by a library's own code over fake tensors: the calls that cases share, and the counts.

A case says what of a model is counted, what builds it, and what calls it. Importing this module replaces what only values
or a GPU could decide: the kernel of attention, and the first values of weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, ClassVar

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode
from transformers import PreTrainedModel
from transformers.integrations import sdpa_attention

#: Of a case: what is counted of it, what builds the model, what calls it.
Case = tuple[str, str, Callable[[], Any], Callable[[Any], Any]]


#: Where fake tensors lie; a build for the CPU, whose flash kernel has the same results, knows no other device.
DEVICE = "cuda" if torch.backends.cuda.is_built() else "cpu"


def flash(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, **_others):
    """Run the flash kernel: over fake tensors PyTorch would choose the unfused one. With a bias of its own, the efficient one.

    So with values of another size than keys, or wide heads, which the flash kernel does not take.
    """
    if value.shape[-1] != key.shape[-1] or key.shape[-1] > 256:
        attend = torch.ops.aten._scaled_dot_product_efficient_attention
        return attend(query, key, value, None, query.requires_grad, dropout_p, is_causal, scale=scale)[0]
    if attn_mask is not None and attn_mask.requires_grad:
        attend = torch.ops.aten._scaled_dot_product_efficient_attention
        return attend(query, key, value, attn_mask, True, dropout_p, is_causal, scale=scale)[0]
    attend = torch.ops.aten._scaled_dot_product_flash_attention
    return attend(query, key, value, dropout_p, is_causal, False, scale=scale)[0]


class LayerNorm(torch.autograd.Function):
    """The kernel of a GPU, whose means and deviations are fp32; one for the CPU leaves them in the type of its input."""

    @staticmethod
    def forward(ctx: Any, given: torch.Tensor, weight: Any, bias: Any, parts: int) -> torch.Tensor:
        """Return the normalised tensor; keep what went in, with a mean and a deviation of each row."""
        mean, deviation = (torch.empty(given.numel() // parts, dtype=torch.float32) for _ in range(2))
        ctx.save_for_backward(given, weight, bias, mean, deviation)
        return torch.empty(given.shape, dtype=given.dtype)


def layer_norm(given, normalized_shape, weight=None, bias=None, _eps=1e-5):
    """Normalise the last dimensions."""
    return LayerNorm.apply(given, weight, bias, prod(normalized_shape))


class RmsNorm(torch.autograd.Function):
    """The kernel of a GPU; a build for the CPU computes it by several, in fp32."""

    @staticmethod
    def forward(ctx: Any, given: torch.Tensor, weight: Any, parts: int) -> torch.Tensor:
        """Return the normalised tensor; keep what went in, with the factor of each row."""
        ctx.save_for_backward(given, weight, torch.empty(given.numel() // parts, dtype=torch.float32))
        return torch.empty(given.shape, dtype=given.dtype)


def rms_norm(given, normalized_shape, weight=None, _eps=None):
    """Normalise the last dimensions by their root mean square."""
    return RmsNorm.apply(given, weight, prod(normalized_shape))


class BatchNorm(torch.autograd.Function):
    """The kernel of a GPU, whose means and deviations of channels are fp32, too."""

    @staticmethod
    def forward(ctx: Any, given: torch.Tensor, weight: Any) -> torch.Tensor:
        """Return the normalised maps; keep what went in, with a mean and a deviation of each channel."""
        mean, deviation = (torch.empty(given.shape[1], dtype=torch.float32) for _ in range(2))
        ctx.save_for_backward(given, weight, mean, deviation)
        return torch.empty_like(given)


def batch_norm(given, _mean, _variance, weight=None, _bias=None, training=False, *_others):
    """Normalise channels by their own statistics, or by those of a buffer."""
    return BatchNorm.apply(given, weight) if training else torch.empty_like(given)


def dropout(given, p=0.5, training=True, inplace=False):
    """Drop by the kernel of a GPU, whose mask has a byte for each element."""
    del inplace
    return torch.native_dropout(given, p, True)[0] if training and p else given


torch.nn.functional.scaled_dot_product_attention = flash
if DEVICE == "cpu":
    torch.nn.functional.layer_norm = layer_norm
    torch.nn.functional.rms_norm = rms_norm
    torch.nn.functional.batch_norm = batch_norm
    torch.nn.functional.dropout = dropout
# Keys and values as they are, for all heads that share them, as on a GPU: of those that its flash kernel takes.
sdpa_attention.use_gqa_in_sdpa = lambda _mask, key, value, **_kwargs: key.shape[-1] == value.shape[-1] <= 256
torch.cuda.get_device_capability = lambda *_args: (9, 0)
# Weights without values need no first ones, and some are drawn until they fit.
torch.nn.init.trunc_normal_ = lambda tensor, *_args, **_kwargs: tensor
PreTrainedModel.initialize_weights = lambda _self: None


class Samples:
    """How many samples a call has, and what entered it."""

    count = 1
    entered: ClassVar[list[torch.Tensor]] = []


def entering(given: torch.Tensor) -> torch.Tensor:
    """Note what enters a model, which autograd keeps for nothing."""
    Samples.entered.append(given)
    return given


def numbers(*shape: int) -> torch.Tensor:
    """Return numbers of a shape; a first 1 stands for the samples."""
    first = Samples.count if shape[0] == 1 else shape[0]
    return entering(torch.zeros(first, *shape[1:], dtype=torch.bfloat16))


def ids(length: int) -> torch.Tensor:
    """Return token ids."""
    return entering(torch.zeros(Samples.count, length, dtype=torch.int64))


def first(out: Any) -> torch.Tensor:
    """Return the first result of a model."""
    return out if isinstance(out, torch.Tensor) else out[0]


def squares(out: Any) -> torch.Tensor:
    """Return the mean square of what comes out."""
    made = first(out)
    return functional.mse_loss(made, entering(torch.zeros_like(made)))


def wide_squares(out: Any) -> torch.Tensor:
    """Return the mean square of what comes out in fp32, from noise, as trainings of diffusion models take it."""
    made = first(out)
    return functional.mse_loss(made.float(), entering(torch.zeros_like(made)).float())


def classes(out: Any) -> torch.Tensor:
    """Return the cross entropy of classes or tokens."""
    rows = first(out).flatten(0, -2)
    return functional.cross_entropy(rows, entering(torch.zeros(len(rows), dtype=torch.int64)))


def both_ways(out: Any) -> torch.Tensor:
    """Return CLIP's loss: images against texts, and texts against images."""
    return classes([out.logits_per_image]) + classes([out.logits_per_text])


def tower(out: Any) -> torch.Tensor:
    """Return the sum of what a tower hands on, which keeps nothing: the rest of its results is dropped."""
    made = getattr(out, "pooler_output", None)
    return first(out if made is None else made).sum()


def none(out: Any) -> Any:
    """Take no loss: what matches boxes with objects needs values."""
    return out


def _tensors(given: Any) -> Iterator[torch.Tensor]:
    """Iterate over the tensors of what a node holds."""
    if isinstance(given, torch.Tensor):
        if given.dim() or given.dtype not in (
            torch.float64,
            torch.int64,
        ):  # a number of the code is held as one of the host
            yield given
    elif isinstance(given, list | tuple | dict):
        for each in given.values() if isinstance(given, dict) else given:
            yield from _tensors(each)


def held_from(end: torch.Tensor) -> Iterator[torch.Tensor]:
    """Iterate over what autograd holds for the way back from the end of a step; what no way leads to is not held by then."""
    waiting, known = [end.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in known:
            continue
        known.add(node)
        names = [name for name in dir(node) if name.startswith("_saved_")]
        for name in (*names, "saved_tensors"):
            yield from _tensors(getattr(node, name, None))
        waiting += [before for before, _ in node.next_functions]


def saved(case: Case, loss: Callable[[Any], Any]) -> int:
    """Return the bytes that autograd keeps of a step."""
    _, _, build, call = case
    with FakeTensorMode(allow_non_fake_inputs=True), torch.device(DEVICE):
        torch.set_default_dtype(torch.bfloat16)
        model = build().train()
        Samples.count, Samples.entered[:] = 2, []
        storages = {
            storage._cdata: storage
            for end in _tensors(loss(call(model)))
            for storage in (held.untyped_storage() for held in held_from(end))
        }
        Samples.count = 1
        own = {held.untyped_storage()._cdata for held in (*model.parameters(), *model.buffers(), *Samples.entered)}
        return sum(storage.nbytes() for key, storage in storages.items() if key not in own)


def grouped(tokens: Any, weights: Any, *_others: Any, out_shape: Any = None, **_more: Any) -> int:
    """Return the FLOPs of products of groups: each row meets the weights of one expert."""
    del out_shape
    return 2 * tokens[0] * weights[-2] * weights[-1]


#: PyTorch's counter does not know them.
GROUPED = {torch.ops.aten._grouped_mm: grouped}


def count(case: Case) -> dict[str, Any]:
    """Return the counts of one model."""
    _, _, build, call = case
    with FakeTensorMode(allow_non_fake_inputs=True), torch.device(DEVICE):
        torch.set_default_dtype(torch.bfloat16)
        model = build()
        model = model.eval() if hasattr(model, "eval") else model
        with torch.no_grad(), FlopCounterMode(display=False, custom_mapping=GROUPED) as counter:
            call(model)
        flops = {str(op): number for op, number in counter.get_flop_counts().get("Global", {}).items()}
        attention = sum(number for op, number in flops.items() if "attention" in op)
        return {
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "products": sum(flops.values()) - attention,
            "attention": attention,
        }
