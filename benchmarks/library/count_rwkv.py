"""Count parameters and FLOPs of linear layers of RWKV-5, 6 and 7 by libraries' own code, over tensors without values.

Runs where torch and the library of a version are (not in roofsim's own environment): for 6 and 7 transformers,
flash-linear-attention and fla-core, for 5 its author's package rwkv:

    python benchmarks/library/count_rwkv.py 5 6 7

prints rows of tests/lower/layers_reference.csv: FLOPs of 256 tokens (of version 5, which goes from token to token, of 32). Last
run: flash-linear-attention 0.6.0, torch 2.14.1, transformers 5.23.0; of version 5 rwkv 0.8.32, torch 2.13.0. Sizes are those of the
published checkpoints (BlinkDL's RWKV World). Of version 5 the package runs a checkpoint, in whose place tensors of the names and
shapes stand that it reads: FLOPs are those of its products with weights, and those with states (``bmm``) are left out.
"""

from __future__ import annotations

import csv
import os
import sys
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

TOKENS, FEWER, VOCABULARY, HEAD = 256, 32, 65536, 64
#: Name -> layers, width, width of the feed-forward layer.
EAGLE = {
    "rwkv-5-world-0.4b": (24, 1024, 3584),
    "rwkv-5-world-1.5b": (24, 2048, 7168),
    "rwkv-5-world-3b": (32, 2560, 8960),
    "rwkv-5-world-7b": (32, 4096, 14336),
}
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


def checkpoint(layers: int, width: int, inner: int) -> dict[str, torch.Tensor]:
    """Return the tensors of a checkpoint of version 5."""
    shapes: dict[str, tuple[int, ...]] = {"emb.weight": (VOCABULARY, width), "head.weight": (VOCABULARY, width)}
    norms = ["ln_out", "blocks.0.ln0"]
    for layer in range(layers):
        mix, feed = f"blocks.{layer}.att", f"blocks.{layer}.ffn"
        norms += [f"blocks.{layer}.ln1", f"blocks.{layer}.ln2", f"{mix}.ln_x"]
        shapes |= {f"{mix}.{name}.weight": (width, width) for name in ("receptance", "key", "value", "gate", "output")}
        shapes |= {f"{mix}.time_mix_{letter}": (1, 1, width) for letter in "kvrg"}
        shapes |= {f"{mix}.{name}": (width // HEAD, HEAD) for name in ("time_decay", "time_faaaa")}
        shapes |= {f"{feed}.key.weight": (inner, width), f"{feed}.value.weight": (width, inner)}
        shapes |= {f"{feed}.receptance.weight": (width, width)}
        shapes |= {f"{feed}.time_mix_{letter}": (1, 1, width) for letter in "kr"}
    shapes |= {f"{name}.{part}": (width,) for name in norms for part in ("weight", "bias")}
    return {name: torch.zeros(shape, dtype=torch.bfloat16) for name, shape in shapes.items()}


def eagle(*sizes: int) -> tuple[str, int, int]:
    """Return the package's class of version 5, the parameters of a checkpoint, and the FLOPs of its products of matrices."""
    os.environ |= {"RWKV_JIT_ON": "0", "RWKV_CUDA_ON": "0"}
    from rwkv.model import RWKV

    with FakeTensorMode():
        tensors = checkpoint(*sizes)
        count = sum(tensor.numel() for tensor in tensors.values())
        torch.load = lambda *_args, **_kwargs: tensors  # type: ignore[assignment]
        model = RWKV("given.pth", "cpu bf16", verbose=False)
        with FlopCounterMode(display=False) as counter:
            model.forward([0] * FEWER, None, full_output=True)
    assert model.version == 5.2
    products = counter.get_flop_counts()["Global"]
    return "rwkv.model.RWKV 5.2", count, products[torch.ops.aten.mm]


def finch(layers: int, width: int, mix: int, decay: int) -> Any:
    """Build a model of version 6."""
    from fla.models.rwkv6.configuration_rwkv6 import RWKV6Config
    from fla.models.rwkv6.modeling_rwkv6 import RWKV6ForCausalLM

    config = RWKV6Config(
        vocab_size=65536, hidden_size=width, num_hidden_layers=layers, expand_k=1.0, num_heads=width // 64,
        proj_low_rank_dim=mix, gate_low_rank_dim=decay, fuse_norm=False, fuse_cross_entropy=False,
    )  # fmt: skip
    return RWKV6ForCausalLM(config)


def goose(layers: int, width: int, decay: int, rate: int, value: int, gate: int) -> Any:
    """Build a model of version 7."""
    from fla.models.rwkv7.configuration_rwkv7 import RWKV7Config
    from fla.models.rwkv7.modeling_rwkv7 import RWKV7ForCausalLM

    config = RWKV7Config(
        vocab_size=65536, hidden_size=width, num_hidden_layers=layers, head_dim=64, decay_low_rank_dim=decay,
        a_low_rank_dim=rate, v_low_rank_dim=value, gate_low_rank_dim=gate, fuse_norm=False, fuse_cross_entropy=False,
    )  # fmt: skip
    return RWKV7ForCausalLM(config)


def linear_layers(model: Any) -> tuple[str, int, int]:
    """Return a model's class, its parameters, and the FLOPs of its linear layers."""
    weights = sum(part.in_features * part.out_features for part in model.modules() if isinstance(part, nn.Linear))
    return type(model).__name__, sum(parameter.numel() for parameter in model.parameters()), 2 * TOKENS * weights


def main() -> None:
    """Print a row for each model of the versions that are named."""
    # Weights without values need no first ones.
    nn.Module.apply = lambda self, _: self  # type: ignore[method-assign,assignment]
    rows = csv.writer(sys.stdout, lineterminator="\n")
    for version in sys.argv[1:] or ("5", "6", "7"):
        for name, sizes in {"5": EAGLE, "6": FINCH, "7": GOOSE}[version].items():
            if version == "5":
                source, count, products = eagle(*sizes)
            else:
                with torch.device("meta"):
                    source, count, products = linear_layers({"6": finch, "7": goose}[version](*sizes))
            rows.writerow([name, source, FEWER if version == "5" else TOKENS, count, products])


if __name__ == "__main__":
    main()
