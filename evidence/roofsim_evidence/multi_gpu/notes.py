"""Names of the sources of steps on several GPUs, and published errors of other tools on them."""

from __future__ import annotations

from typing import Final

#: The source whose times are no measurements.
COMPOSED: Final = "vtrain-composed"
#: Sources whose software no engine describes: they only score.
FOREIGN: Final = ("dle-tf-many",)
#: Sources that were read after constants had been set with the others in sight: they only score.
LATER: Final = (
    "megatron-bridge", "megatron-bridge-experts", "nemo-2024", "nemo-long", "torchao", "litgpt", "tinyllama", "lambda-many",
    "dle-ssd-many",
)  # fmt: skip
LABELS: Final = {
    "megatron-2020": "Megatron 2020",
    "megatron-weak": "Megatron weak scaling",
    "megatron-recompute": "Megatron, full and selective recomputation",
    "megatron-2024": "Megatron 2024",
    "bigscience": "BigScience",
    "vtrain": "vTrain, many nodes",
    COMPOSED: "vTrain, one node",
    "llm-foundry": "llm-foundry",
    "torchtitan": "torchtitan",
    "simumax": "SimuMax",
    "dle-many": "DeepLearningExamples, many GPUs",
    "dle-tf-many": "DeepLearningExamples, many GPUs, TensorFlow",
    "megatron-bridge": "Megatron-Bridge",
    "megatron-bridge-experts": "Megatron-Bridge, experts",
    "nemo-2024": "NeMo 2024",
    "nemo-long": "NeMo 2024, long sequences",
    "torchao": "torchao",
    "litgpt": "litgpt",
    "tinyllama": "TinyLlama",
    "lambda-many": "Lambda, several GPUs",
    "dle-ssd-many": "DeepLearningExamples, several GPUs, SSD",
}
#: Errors that other tools state on these rows, or on a superset.
PEERS: Final = {
    "Megatron, full and selective recomputation": "Calculon 3.7 %",
    "Megatron weak scaling": "Calculon 8.3 %",
    "vTrain, many nodes": "vTrain 14.7 %",
    "llm-foundry": "llm-analysis 15.9 % (A100), 23 % (H100)",
    "SimuMax": "SimuMax 5.9 % (dense rows)",
}
