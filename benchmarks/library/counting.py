"""What counts a model by a library's own code over fake tensors: the calls that cases share, and the counts.

A case says what of a model is counted, what builds it, and what calls it. Importing this module replaces what only values
or a GPU could decide: the kernel of attention, and the first values of weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode
from transformers import PreTrainedModel

#: Of a case: what is counted of it, what builds the model, what calls it.
Case = tuple[str, str, Callable[[], Any], Callable[[Any], Any]]


#: Where fake tensors lie; a build for the CPU, whose flash kernel has the same results, knows no other device.
DEVICE = "cuda" if torch.backends.cuda.is_built() else "cpu"


def flash(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, **_others):
    """Run the flash kernel: over fake tensors PyTorch would choose the unfused one. With a bias of its own, the efficient one."""
    if attn_mask is not None and attn_mask.requires_grad:
        attend = torch.ops.aten._scaled_dot_product_efficient_attention
        return attend(query, key, value, attn_mask, True, dropout_p, is_causal, scale=scale)[0]
    attend = torch.ops.aten._scaled_dot_product_flash_attention
    return attend(query, key, value, dropout_p, is_causal, False, scale=scale)[0]


torch.nn.functional.scaled_dot_product_attention = flash
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


def classes(out: Any) -> torch.Tensor:
    """Return the cross entropy of classes or tokens."""
    rows = first(out).flatten(0, -2)
    return functional.cross_entropy(rows, entering(torch.zeros(len(rows), dtype=torch.int64)))


def both_ways(out: Any) -> torch.Tensor:
    """Return CLIP's loss: images against texts, and texts against images."""
    return classes([out.logits_per_image]) + classes([out.logits_per_text])


def none(out: Any) -> Any:
    """Take no loss: what matches boxes with objects needs values."""
    return out


def saved(case: Case, loss: Callable[[Any], Any]) -> int:
    """Return the bytes that autograd keeps of a step."""
    _, _, build, call = case
    kept: dict[int, Any] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage._cdata] = storage
        return tensor

    with FakeTensorMode(allow_non_fake_inputs=True), torch.device(DEVICE):
        torch.set_default_dtype(torch.bfloat16)
        model = build().train()
        Samples.count, Samples.entered[:] = 2, []
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss(call(model))
        Samples.count = 1
        own = {held.untyped_storage()._cdata for held in (*model.parameters(), *model.buffers(), *Samples.entered)}
        return sum(storage.nbytes() for key, storage in kept.items() if key not in own)


def count(case: Case) -> dict[str, Any]:
    """Return the counts of one model."""
    _, _, build, call = case
    with FakeTensorMode(allow_non_fake_inputs=True), torch.device(DEVICE):
        torch.set_default_dtype(torch.bfloat16)
        model = build()
        model = model.eval() if hasattr(model, "eval") else model
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            call(model)
        flops = {str(op): number for op, number in counter.get_flop_counts().get("Global", {}).items()}
        attention = sum(number for op, number in flops.items() if "attention" in op)
        return {
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "products": sum(flops.values()) - attention,
            "attention": attention,
        }
