"""Count parameters, FLOPs and saved bytes of encoders with sums on their scores, and of ConvNeXt V2, by the transformers library.

No GPU is needed.

Runs where torch and transformers are (not in roofsim's own environment):

    python benchmarks/library/count_encoders.py > tests/lower/encoder_reference.csv

Models of ``tests/importers/published_hub.json`` run one step of training in bf16 over fake tensors: shapes, types and storages, no
values. FLOPs are those of `FlopCounterMode`, `saved` the distinct storages that autograd keeps, parameters, buffers and inputs
apart. A build of torch for the CPU keeps statistics of layer norms in bf16 and masks of dropout as numbers where CUDA has fp32
and booleans: they are counted as CUDA has them. Last run: transformers 5.23.0, torch 2.13.0.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForImageClassification, AutoModelForMaskedLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.deberta_v2 import modeling_deberta_v2

PUBLISHED = Path(__file__).parents[2] / "tests/importers/published_hub.json"
COLUMNS = ("model", "batch", "length", "parameters", "forward_flops", "saved")
COUNTED = ("mpnet-base", "deberta-v3-base", "convnextv2-tiny")
BATCH, LENGTH = 4, 128
#: Where fake tensors lie; a build for the CPU knows no other device.
DEVICE = "cuda" if torch.backends.cuda.is_built() else "cpu"


def dropout(x, p=0.5, training=True, inplace=False):
    """Drop as CUDA does, with a mask of booleans."""
    del inplace
    return torch.native_dropout(x, p, training)[0] if training and p else x


torch.nn.functional.dropout = dropout


def layer_norm(norm, x, forward=torch.nn.LayerNorm.forward):
    """Normalise, and note how many more bytes of statistics CUDA keeps."""
    if DEVICE == "cpu" and x.dtype is torch.bfloat16:
        Saved.statistics += 2 * 2 * (x.numel() // x.shape[-1])
    return forward(norm, x)


def root(layer, factor, made=modeling_deberta_v2.scaled_size_sqrt):
    """Return the number by which DeBERTa's scores are divided, which lies on the host."""
    out = made(layer, factor).to(layer.dtype)
    Saved.own.add(out.untyped_storage()._cdata)
    Saved.alive.append(out)
    return out


class Rates(list):
    """Equal numbers that a model's code splits and reads while it is built: no layers are dropped."""

    def split(self, counts):
        """Return parts."""
        return [Rates([0.0] * count) for count in counts]

    def tolist(self):
        """Return plain numbers."""
        return list(self)


torch.linspace = lambda *_args, **_kwargs: Rates()
torch.nn.LayerNorm.forward = layer_norm
modeling_deberta_v2.scaled_size_sqrt = root


class Saved:
    """The storages that autograd keeps beside a model's own, in the run at hand."""

    own: ClassVar[set[int]]
    storages: ClassVar[dict[int, Any]]
    alive: ClassVar[list[Any]]
    statistics: ClassVar[int]

    @classmethod
    def start(cls, own: set[int]) -> None:
        """Forget the run before."""
        cls.own, cls.storages, cls.alive, cls.statistics = own, {}, [], 0

    @classmethod
    def keep(cls, tensor):
        """Note a tensor."""
        storage = tensor.untyped_storage()
        if storage._cdata not in cls.own:
            cls.storages[storage._cdata] = storage
        return tensor

    @classmethod
    def nbytes(cls) -> int:
        """Return their bytes on CUDA."""
        return sum(storage.nbytes() for storage in cls.storages.values()) + cls.statistics


def count(config: dict[str, Any]) -> dict[str, Any]:
    """Return the counts of one model."""
    fields = dict(config)
    library = CONFIG_MAPPING[fields.pop("model_type")](**fields)
    with FakeTensorMode(allow_non_fake_inputs=True), torch.device(DEVICE):
        torch.set_default_dtype(torch.bfloat16)
        if "image_size" in fields:
            model, size = AutoModelForImageClassification.from_config(library).train(), fields["image_size"]
            given = {"pixel_values": torch.zeros(BATCH, 3, size, size, device=DEVICE)}
            given["labels"] = torch.zeros(BATCH, dtype=torch.int64, device=DEVICE)
        else:
            model, size = AutoModelForMaskedLM.from_config(library, attn_implementation="eager").train(), LENGTH
            ids = torch.zeros(BATCH, LENGTH, dtype=torch.int64, device=DEVICE)
            given = {"input_ids": ids, "labels": ids}
        own = (*model.parameters(), *model.buffers(), *given.values())
        Saved.start({held.untyped_storage()._cdata for held in own})
        hooks = torch.autograd.graph.saved_tensors_hooks(Saved.keep, lambda tensor: tensor)
        with hooks, FlopCounterMode(display=False) as flops:
            model(**given)
        return {
            "length": size,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "forward_flops": flops.get_total_flops(),
            "saved": Saved.nbytes(),
        }


def main() -> None:
    """Write a row of each model."""
    published = {entry["name"]: entry["config"] for entry in json.loads(PUBLISHED.read_text(encoding="utf-8"))}
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for name in sys.argv[1:] or COUNTED:
        writer.writerow({"model": name, "batch": BATCH} | count(published[name]))


if __name__ == "__main__":
    main()
