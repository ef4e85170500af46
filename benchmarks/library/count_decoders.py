"""Count parameters, FLOPs and saved bytes of published decoders by the transformers library itself, without a GPU.

Runs where torch and transformers are (not in roofsim's own environment):

    python benchmarks/library/count_decoders.py > tests/lower/hub_reference.csv

Models of ``tests/importers/published.json`` and ``published_hub.json`` are cut to four layers and run in bf16 over fake CUDA
tensors: shapes, types and storages, no values. Attention is PyTorch's flash kernel, which reads grouped heads as they are, and
for some once more the library's own code (`eager`: unfused). FLOPs are those of `FlopCounterMode`, which does not know grouped
products: none are written of models with experts. DBRX's code takes its experts one after another, by indices that fake tensors
do not have: they are those of Phi-3.5-MoE, as many parameters in grouped products. `saved` are the distinct storages that autograd
keeps, parameters, buffers and inputs apart. Last run: transformers 5.23.0, torch 2.14.1; Command R+, DBRX, Phi-3.5-MoE and the rows
with `changes`, keys of the configuration, torch 2.13.0.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import transformers.integrations.sdpa_attention as library_attention
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.dbrx import modeling_dbrx
from transformers.models.phimoe.modeling_phimoe import PhimoeExperts

IMPORTED = Path(__file__).parents[2] / "tests/importers"
PUBLISHED = ("published.json", "published_hub.json")
COLUMNS = (
    "model",
    "attention",
    "layers",
    "dense_layers",
    "batch",
    "length",
    "parameters",
    "forward_flops",
    "saved",
    "changes",
)
LAYERS, BATCH, LENGTH = 4, 2, 512
#: Where fake tensors lie; a build for the CPU, whose flash kernel has the same results, knows no other device.
DEVICE = "cuda" if torch.backends.cuda.is_built() else "cpu"
PER_LAYER = ("layer_types", "no_rope_layers", "mlp_layer_types")
DENSE_FIRST = ("first_k_dense_replace", "moe_layer_start_index")
#: One of each model_type, and of what else differs.
COUNTED = (
    "codellama-7b", "yi-9b", "falcon3-7b", "smollm2-360m", "qwen1.5-0.5b", "qwen1.5-32b", "mistral-nemo-12b", "ministral-8b",
    "gemma3-4b", "gemma3-27b", "phi-4-mini", "glm-4-9b", "glm-4-32b-0414", "starcoder2-3b", "starcoder2-15b", "olmo2-7b",
    "olmo3-7b", "minitron-4b", "pythia-1b", "cerebras-gpt-1.3b", "seed-oss-36b", "exaone-4.0-1.2b",
    "exaone-4.0-32b", "smollm3-3b", "granite-3-2b", "granite-3-3b-a800m", "granite-8b-code", "starcoder-15.5b", "olmoe-1b-7b",
    "stablelm-3b-4e1t", "stablelm-2-1.6b", "ernie-4.5-300b-a47b", "hunyuan-7b", "dots.llm1", "qwen3-coder-480b-a35b",
    "command-r", "command-r-08-2024", "command-r7b", "falcon-7b", "falcon-40b", "redpajama-3b", "redpajama-7b",
    "command-r-plus", "dbrx-132b", "phi-3.5-moe",
)  # fmt: skip
#: Those whose layers are counted without experts, whose products are not, by their unfused attention.
DENSE = ("deepseek-v3.2", "glm-5")
#: Those whose unfused attention is counted as well: shared heads, parallel blocks, norms that the library writes out.
UNFUSED = (
    "pythia-1b", "command-r", "command-r-08-2024", "command-r7b", "command-r-plus", "falcon-7b", "falcon-40b", "redpajama-3b",
)  # fmt: skip

#: Keys that published configurations leave at nothing, and that another checkpoint may state.
CHANGES = {"olmoe-1b-7b": {"clip_qkv": 8.0}, "mixtral-8x7b": {"router_jitter_noise": 0.1}}


def flash(q, k, v, *_mask, dropout_p=0.0, scale=None, **_others):
    """Run the flash kernel: over fake tensors PyTorch would choose the unfused one, and hand over a mask that a GPU needs not."""
    return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, dropout_p, True, False, scale=scale)[0]


torch.nn.functional.scaled_dot_product_attention = flash
library_attention.use_gqa_in_sdpa = lambda *_args, **_kwargs: True
torch.cuda.get_device_capability = lambda *_args: (9, 0)


class GroupedExperts(PhimoeExperts):
    """DBRX's experts in grouped products."""

    def __init__(self, config):
        super().__init__(
            SimpleNamespace(
                num_local_experts=config.moe_num_experts,
                hidden_size=config.hidden_size,
                intermediate_size=config.ffn_hidden_size,
                hidden_act=config.ffn_act_fn["name"],
                _experts_implementation="grouped_mm",
            )
        )

    def forward(self, hidden_states, top_k_index, top_k_weights):
        """Run over all tokens as rows, as the other models' experts do."""
        rows = hidden_states.reshape(-1, hidden_states.shape[-1])
        return super().forward(rows, top_k_index, top_k_weights).reshape(hidden_states.shape)


modeling_dbrx.DbrxExperts = GroupedExperts


def cut(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration of a few layers."""
    small = {key: value[:LAYERS] if key in PER_LAYER else value for key, value in config.items()}
    return {
        key: LAYERS if key in ("num_hidden_layers", "n_layer", "n_layers") else value for key, value in small.items()
    }


def count(config: dict[str, Any], attention: str) -> dict[str, Any]:
    """Return the counts of one model, cut."""
    fields = cut(config)
    library = CONFIG_MAPPING[fields.pop("model_type")](**fields)
    library.use_cache = False
    with FakeTensorMode(allow_non_fake_inputs=True), torch.device(DEVICE):
        torch.set_default_dtype(torch.bfloat16)
        model = AutoModelForCausalLM.from_config(library, attn_implementation=attention).train()
        ids = torch.zeros(BATCH, LENGTH, dtype=torch.int64, device=DEVICE)
        own = {held.untyped_storage()._cdata for held in (*model.parameters(), *model.buffers(), ids)}
        saved: dict[int, Any] = {}

        def keep(tensor):
            storage = tensor.untyped_storage()
            if storage._cdata not in own:
                saved[storage._cdata] = storage
            return tensor

        with (
            torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
            FlopCounterMode(display=False) as flops,
        ):
            model(input_ids=ids, labels=ids, use_cache=False)
        trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
        experts = fields.get("first_k_dense_replace") != LAYERS and any(
            "expert" in key or key == "ffn_config" for key, value in config.items() if value
        )
        return {
            "parameters": trained,
            "forward_flops": "" if experts else flops.get_total_flops(),
            "saved": sum(storage.nbytes() for storage in saved.values()),
        }


def main() -> None:
    """Write a row of each model."""
    entries = [entry for name in PUBLISHED for entry in json.loads((IMPORTED / name).read_text(encoding="utf-8"))]
    published = {entry["name"]: entry["config"] for entry in entries}
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for name in DENSE:
        published[name] |= {"first_k_dense_replace": LAYERS}
    unfused = ((name, "eager", {}) for name in (*UNFUSED, *DENSE))
    changed = ((name, "sdpa", changes) for name, changes in CHANGES.items())
    for name, attention, changes in (*((name, "sdpa", {}) for name in COUNTED), *unfused, *changed):
        dense = max((published[name].get(key, 0) for key in DENSE_FIRST), default=0)
        sizes = {
            "model": name,
            "attention": attention,
            "layers": LAYERS,
            "dense_layers": dense,
            "batch": BATCH,
            "length": LENGTH,
        }
        written = {"changes": json.dumps(changes) if changes else ""}
        writer.writerow(sizes | count(published[name] | changes, attention) | written)


if __name__ == "__main__":
    main()
