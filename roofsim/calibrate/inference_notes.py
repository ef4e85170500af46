"""What the page of inference says in words: sources, what was left out, what decides, what is known to be off."""

from __future__ import annotations

from typing import Final

LABELS: Final = {
    "gpu-benchmarks": "GPU benchmarks on LLM inference (llama.cpp)",
    "llama.cpp-pulls": "pull requests of llama.cpp",
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
    "aiconfigurator": "aiconfigurator's samples of servers",
    "pytorch-gpu-benchmark": "pytorch-gpu-benchmark",
}
HEAD: Final = """\
# How well inference is predicted

`{command}` writes this page. {total} published measurements of inference, listed with their scenario and citation in
`measurements/inference.csv` ([measurements/README.md](../measurements/README.md)): decode steps, prefills, generation of
static batches, passes of encoders, diffusion from prompt to picture, memory, and servers. {priced} of them are priced today,
{servers} of these are of servers; {waiting} are not priced. {fitted} of the priced ones, every
third when sorted by source, card, model, precision, engine and a hash of the name, may be used to fit; the others only score.
Errors are |predicted / measured - 1|, bias is the median of signed ones (above zero: predicted too slow), rank is Spearman's
correlation, "in interval" the share inside the 80 % interval, "held out" the median of rows that may not be fitted. Networks
under plain PyTorch (convolutional ones, ViT) are scored as steps in [accuracy.md](accuracy.md), older peaks of memory in
[memory-accuracy.md](memory-accuracy.md); they are not repeated here.

What an engine runs (attention kernel, what is merged, launches, types) is read from its code and stated in
`hardware/engines`. Its own constants, where kernels were never measured by anybody (llama.cpp, exllama, TensorFlow of 2020),
are fitted to rows of this page and marked so in the engine's file; which facts matter was seen with all rows in sight, so
"held out" means "not needed for the fit", not "blind". Nothing belongs to a model or a row.
"""
LEFT: Final = (
    (179 + 144, "measured under plain PyTorch, scored in accuracy.md"),
    (58, "peaks of memory, scored in memory-accuracy.md"),
    (
        128,
        "quality C: a setting unknown, host-bound, queueing, or self-reported; among them all rows of FlexGen, llmfit, geerlingguy",
    ),
    (26, "MXNet: nobody described here what its kernels are"),
    (13, "Megatron-LM's generation code: the same"),
    (1, "text-generation-inference: the same"),
    (18, "TensorFlow rows of FasterTransformer's int8 table, whose precision is not stated (as fast as fp16)"),
    (4, "prompts measured behind tokens that are cached already: prefill has no context yet"),
    (2, "prompts in pieces of one and two tokens, which are no decode steps"),
    (2, "TensorRT-LLM 0.5 without an output length"),
    (2, "a sum of kernels of one layer (LLMCompass)"),
    (1, "batch and layout known only of a simulated twin (InferSim)"),
)
SERVERS: Final = """\
Servers under load, by `roofsim serve`: `tpot` is the time per output token and `ttft` that to the first token at a fixed
concurrency, `output_rate` the tokens per second of a server that is given more than it can take. Of the constants here only the
host's time per request and the widths of ranges were fitted to a third of such rows. Times to the first token are published up to
8 requests at once. Some published runs of TensorRT-LLM and SGLang with DeepSeek are faster than reading the weights that a step
needs at the best measured rates: they may speculate (multi-token prediction), which the source does not say.
"""
DECIDES: Final = """\
## What decides

- **A library product stays one behind quantisation.** llama.cpp, AutoAWQ and exllama write narrow weights out for long
  prompts and call the library; those products run at the library's measured rate: llama.cpp's prefills 11 % -> 6 %. Kernels that
  expand weights on the way (Marlin) reach a share of that rate in long prompts.
- **What streams.** Products of one row draw a share of the bandwidth, and at most so many bytes per clock and unit, of wide
  and of narrow weights differently: decode of q4_k_m on A100 was 18 % slow before.
- **Products in int8.** llama.cpp multiplies quantised weights in int8 where the card lacks 16-bit matrix units, and
  everywhere in versions since June 2024: P40 110 % -> 15 %.
- **Fused attention within bounds.** FasterTransformer's encoders run TensorRT's fused kernels up to 384 tokens, heads of 64,
  from Volta on; with biases packed before it, and int8 kept between products, its encoders went from 15 % to 10 %.
- **What old frameworks run beside products.** Biases and masks as kernels of their own (TorchScript), three kernels for each
  softmax and norm (XLA): 18 % -> 9 % and 22 % -> 12 % on the same guides.
- **Diffusion.** Heads of 40, 80 and 160 are padded to 64, 128 and 256 by xformers; convolutions that nobody searched (cuDNN's
  heuristics) reach half of the rate of those that were; PyTorch adds the bias of a convolution in a kernel of its own.
  Without these, 39 %.
"""
REMAINS: Final = """\
## What is known to be off

- llama.cpp's prefill on H100 PCIe and RTX 6000 Ada (70B) is 15 to 20 % slower than predicted: both are held by power, and no
  energy that fits them fits the A100. It grows on GeForce cards with the prompt (10 % at 8,192 tokens).
- AutoAWQ's prefill of 64 tokens takes 55 to 120 ms whatever the model, which no count of kernels explains (57 % fast);
  prompts of 2,048 tokens are 17 to 41 % fast. Its GEMV kernels (Vicuna, TinyLlama) run with less host time than its GEMM
  kernels.
- ViT at 384 pixels in fp16 under PyTorch of 2021 (577 tokens) is 2.5 times as slow as predicted: batched products whose rows
  are not aligned fell back to kernels without matrix units in that cuBLAS.
- TensorFlow's ResNet-50 on A100 ran in a container two months younger than the card: 40 to 80 % fast at small batches, where
  its host decides. TF32 of 2020-21 reaches 0.4 of the peak on A100, 0.6 are assumed. BERT on TensorFlow 1 on a T4 runs 40 %
  slower than on TensorFlow 2; one profile covers both.
- `transformers` decoding (the baseline of TinyChat's table) ran on a host that issues a kernel in 12 us; 29 us are assumed.
- Stable Diffusion without xformers on an RTX A6000 slows down fivefold from batch 4 to 8; unexplained. H100: 20 % fast.
- What the allocator reserves after a diffusion pipeline without VAE slicing but with xformers is up to twice what is
  predicted: workspaces of cuDNN's convolutions on 512 x 512 maps are not counted.
- SGLang on H20 (InferSim): prompts are 35 % faster than predicted, lengths known of a simulated twin only.
- FasterTransformer in fp32 on A100 at 128 tokens is twice as slow as at 32 sequences' worth of neighbours; so are TensorFlow
  and PyTorch there.
"""
