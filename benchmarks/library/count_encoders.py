"""Count parameters, FLOPs and saved bytes of encoders whose scores get a bias, by the transformers library, without a GPU.

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
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForMaskedLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

PUBLISHED = Path(__file__).parents[2] / "tests/importers/published_hub.json"
COLUMNS = ("model", "batch", "length", "parameters", "forward_flops", "saved")
COUNTED = ("mpnet-base",)
BATCH, LENGTH = 4, 128
#: Where fake tensors lie; a build for the CPU knows no other device.
DEVICE = "cuda" if torch.backends.cuda.is_built() else "cpu"


def dropout(x, p=0.5, training=True, inplace=False):
    """Drop as CUDA does, with a mask of booleans."""
    del inplace
    return torch.native_dropout(x, p, training)[0] if training and p else x


torch.nn.functional.dropout = dropout


class Saved:
    """The storages that autograd keeps beside a model's own."""

    def __init__(self, own: set[int]) -> None:
        self.own = own
        self.storages: dict[int, Any] = {}
        self.statistics = 0

    def keep(self, tensor):
        """Note a tensor, and whether it is a statistic of a norm that CUDA would keep in fp32."""
        storage = tensor.untyped_storage()
        if storage._cdata not in self.own and storage._cdata not in self.storages:
            self.storages[storage._cdata] = storage
            narrow = DEVICE == "cpu" and tensor.dtype is torch.bfloat16
            self.statistics += tensor.numel() if narrow and tensor.dim() == 3 and tensor.shape[-1] == 1 else 0
        return tensor

    @property
    def nbytes(self) -> int:
        """Return their bytes on CUDA."""
        return sum(storage.nbytes() for storage in self.storages.values()) + 2 * self.statistics


def count(config: dict[str, Any]) -> dict[str, Any]:
    """Return the counts of one model."""
    fields = dict(config)
    library = CONFIG_MAPPING[fields.pop("model_type")](**fields)
    with FakeTensorMode(allow_non_fake_inputs=True), torch.device(DEVICE):
        torch.set_default_dtype(torch.bfloat16)
        model = AutoModelForMaskedLM.from_config(library, attn_implementation="eager").train()
        ids = torch.zeros(BATCH, LENGTH, dtype=torch.int64, device=DEVICE)
        saved = Saved({held.untyped_storage()._cdata for held in (*model.parameters(), *model.buffers(), ids)})
        hooks = torch.autograd.graph.saved_tensors_hooks(saved.keep, lambda tensor: tensor)
        with hooks, FlopCounterMode(display=False) as flops:
            model(input_ids=ids, labels=ids)
        return {
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "forward_flops": flops.get_total_flops(),
            "saved": saved.nbytes,
        }


def main() -> None:
    """Write a row of each model."""
    published = {entry["name"]: entry["config"] for entry in json.loads(PUBLISHED.read_text(encoding="utf-8"))}
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for name in sys.argv[1:] or COUNTED:
        writer.writerow({"model": name, "batch": BATCH, "length": LENGTH} | count(published[name]))


if __name__ == "__main__":
    main()
