"""Count parameters and FLOPs of linear layers of RWKV-6 and 7 by flash-linear-attention's own classes, over meta tensors.

Runs where torch, transformers, flash-linear-attention and fla-core are (not in roofsim's own environment):

    python benchmarks/library/count_rwkv.py

prints rows of tests/lower/layers_reference.csv: FLOPs of 256 tokens. Last run: flash-linear-attention 0.6.0, torch 2.14.1,
transformers 5.23.0. Sizes are those of the published checkpoints (BlinkDL's RWKV-6 World and RWKV-7 World).
"""

from __future__ import annotations

import csv
import sys
from typing import Any

import torch
from fla.models.rwkv6.configuration_rwkv6 import RWKV6Config
from fla.models.rwkv6.modeling_rwkv6 import RWKV6ForCausalLM
from fla.models.rwkv7.configuration_rwkv7 import RWKV7Config
from fla.models.rwkv7.modeling_rwkv7 import RWKV7ForCausalLM
from torch import nn

TOKENS = 256
#: Name -> layers, width, rank of mixes, rank of decays.
FINCH = {
    "rwkv-6-world-1.6b": (24, 2048, 32, 64),
    "rwkv-6-world-3b": (32, 2560, 32, 64),
    "rwkv-6-world-7b": (32, 4096, 64, 128),
    "rwkv-6-world-14b": (61, 4096, 64, 128),
}
#: Name -> layers, width, ranks of decays, rates, values and gates.
GOOSE = {
    "rwkv-7-world-0.1b": (12, 768, 64, 64, 32, 128),
    "rwkv-7-world-0.4b": (24, 1024, 64, 64, 32, 128),
    "rwkv-7-world-1.5b": (24, 2048, 96, 96, 64, 256),
    "rwkv-7-world-2.9b": (32, 2560, 96, 96, 64, 320),
}


def finch(layers: int, width: int, mix: int, decay: int) -> Any:
    """Build a model of version 6."""
    config = RWKV6Config(
        vocab_size=65536, hidden_size=width, num_hidden_layers=layers, expand_k=1.0, num_heads=width // 64,
        proj_low_rank_dim=mix, gate_low_rank_dim=decay, fuse_norm=False, fuse_cross_entropy=False,
    )  # fmt: skip
    return RWKV6ForCausalLM(config)


def goose(layers: int, width: int, decay: int, rate: int, value: int, gate: int) -> Any:
    """Build a model of version 7."""
    config = RWKV7Config(
        vocab_size=65536, hidden_size=width, num_hidden_layers=layers, head_dim=64, decay_low_rank_dim=decay,
        a_low_rank_dim=rate, v_low_rank_dim=value, gate_low_rank_dim=gate, fuse_norm=False, fuse_cross_entropy=False,
    )  # fmt: skip
    return RWKV7ForCausalLM(config)


def main() -> None:
    """Print a row for each model."""
    # Weights without values need no first ones.
    nn.Module.apply = lambda self, _: self  # type: ignore[method-assign,assignment]
    rows = csv.writer(sys.stdout, lineterminator="\n")
    for build, models in ((finch, FINCH), (goose, GOOSE)):
        for name, sizes in models.items():
            with torch.device("meta"):
                model = build(*sizes)
            weights = sum(
                part.in_features * part.out_features for part in model.modules() if isinstance(part, nn.Linear)
            )
            count = sum(parameter.numel() for parameter in model.parameters())
            rows.writerow([name, type(model).__name__, TOKENS, count, 2 * TOKENS * weights])


if __name__ == "__main__":
    main()
