"""Names of the sources of steps on several GPUs, and published errors of other tools on them."""

from __future__ import annotations

from typing import Final

#: The source whose times are no measurements.
COMPOSED: Final = "vtrain-composed"
#: Sources whose software no engine describes: they only score.
FOREIGN: Final = ("dle-tf-many",)
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
}
#: Errors that other tools state on these rows, or on a superset.
PEERS: Final = {
    "Megatron, full and selective recomputation": "Calculon 3.7 %",
    "Megatron weak scaling": "Calculon 8.3 %",
    "vTrain, many nodes": "vTrain 14.7 %",
    "llm-foundry": "llm-analysis 15.9 % (A100), 23 % (H100)",
    "SimuMax": "SimuMax 5.9 % (dense rows)",
}
