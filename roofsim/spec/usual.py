"""Name what is meant where nothing is named: the one place where engines, cards, systems and models stand in code by name."""

from __future__ import annotations

from typing import Final

#: What runs a scenario.
ENGINE: Final = "pytorch-eager"
#: What serves.
SERVER: Final = "vllm"
#: What serves a network that answers in one pass.
PASS_SERVER: Final = "tensorrt"
#: The percentile of latencies that a bound is on.
LATENCY_PERCENTILE: Final = 99.0
#: The percentile of latencies that bounds on tokens are on.
TARGET_PERCENTILE: Final = 90.0
#: What trains a model that is given by its size: bf16 with fp32 master parameters.
TRAINER: Final = "megatron-core"
#: The card of a scenario.
GPU: Final = "a100-sxm4-80gb"
#: Cards that are compared: three data-centre generations and two that a person can buy.
CARDS: Final = ("v100", "a100", "h100", "rtx4090", "rtx3060")
#: Names of each catalog that people look for first.
EXAMPLES: Final = {
    "gpu": ("h100", "a100", "rtx4090", "mi300x"),
    "system": ("dgx-h100", "dgx-a100", "workstation-2x-rtx4090"),
    "engine": ("pytorch-eager", "megatron-core", "vllm", "llama.cpp"),
    "model": ("llama3-8b", "gpt2-124m", "resnet50", "sd15-unet"),
    "architecture": ("hopper", "ampere-ga100", "ada"),
}

#: A model that stands where kernels and messages need none.
ANY_MODEL: Final = "gpt2-124m"
