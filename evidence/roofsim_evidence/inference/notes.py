"""Names of the sources of measured inference."""

from __future__ import annotations

from typing import Final

LABELS: Final = {
    "gpu-benchmarks": "GPU benchmarks on LLM inference (llama.cpp)",
    "llama.cpp-pulls": "llama.cpp's pull requests",
    "fastertransformer": "FasterTransformer's guides",
    "tensorrt-llm": "TensorRT-LLM's pages",
    "dle": "DeepLearningExamples (TensorFlow)",
    "lambda-diffusers": "lambda-diffusers",
    "autoawq": "AutoAWQ",
    "exllama": "exllama and exllamav2",
    "llm-perf-bench": "MLC's llm-perf-bench",
    "tinychat": "TinyChat",
    "lmdeploy": "LMDeploy",
    "ninehills": "llm-inference-benchmark",
    "infersim": "InferSim",
    "aiconfigurator": "aiconfigurator's server samples",
    "pytorch-gpu-benchmark": "pytorch-gpu-benchmark",
}
