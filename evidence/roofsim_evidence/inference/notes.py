"""The prose of the inference page: sources, excluded rows, the mechanisms that matter most, known errors."""

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
HEAD: Final = """\
# Accuracy of inference

`{command}` writes this page. {total} published inference measurements are listed with their scenario and citation in
`evidence/measurements/inference.jsonl` ([measurements/README.md](../measurements/README.md)): decode steps, prefills, generation of static
batches, passes of encoders, diffusion from prompt to picture, memory, and servers. {priced} of them can be predicted today,
{servers} of these on servers; {waiting} cannot. {fitted} of the predicted ones, every third when sorted by source, card, model,
precision, engine and a hash of the name, may be used to fit; the others are only scored. Errors are |predicted / measured - 1|;
bias is the median signed error (above zero: predicted too slow); rank is Spearman's correlation; "in interval" is the share
inside the 80 % interval; "held out" is the median error of rows that may not be fitted. Networks under plain PyTorch
(convolutional ones, ViT) are scored as steps in [accuracy.md](accuracy.md), and older memory peaks in
[memory-accuracy.md](memory-accuracy.md); they are not repeated here.

What an engine runs (attention kernel, fusions, launches, types) is read from its code and stated in `hardware/engines`. Where
nobody has measured an engine's kernels (llama.cpp, exllama, TensorFlow of 2020), its own constants are fitted to rows of this
page and marked so in the engine's file. Which facts matter was decided with all rows in sight, so "held out" means "not needed
for the fit", not "blind". No constant belongs to a model or a row.
"""
LEFT: Final = (
    (179 + 144, "measured under plain PyTorch, scored in accuracy.md"),
    (58, "peaks of memory, scored in memory-accuracy.md"),
    (
        128,
        "quality C: a setting unknown, host-bound, queueing, or self-reported (all rows of FlexGen, llmfit, geerlingguy)",
    ),
    (26, "MXNet: its kernels are not described here"),
    (13, "Megatron-LM's generation code: the same"),
    (1, "text-generation-inference: the same"),
    (18, "TensorFlow rows of FasterTransformer's int8 table, whose precision is not stated (as fast as fp16)"),
    (4, "prompts measured after tokens already in the cache: prefill does not support a context yet"),
    (2, "prompts in chunks of one and two tokens, which are not decode steps"),
    (
        7,
        "AutoAWQ's prompts of 64 tokens: its script has no warm-up; first rounds take 0.1 to 2 s, later ones 16 to 50 ms",
    ),
    (2, "TensorRT-LLM 0.5 without an output length"),
    (2, "a sum of the kernels of one layer (LLMCompass)"),
    (1, "batch and layout known only from a simulated counterpart (InferSim)"),
)
SERVERS: Final = """\
Servers under load, predicted by `roofsim serve`: `tpot` is the time per output token and `ttft` the time to first token at a
fixed concurrency; `output_rate` is the tokens per second of a saturated server. Of the constants here, only the host's time per
request and the widths of ranges were fitted, to a third of such rows. Times to first token are published up to 8 concurrent
requests. Sixteen times per token of DeepSeek are not scored: a later table of the same project gives their settings 1.2 to 2.4
times the time without multi-token prediction, and no longer lists these runs; how many guesses they accept is not published.
Predicted without speculation they are 1.25 to 2.4 times too slow, and the median error of mixtures becomes 12.9 % instead of
10.8 %.
"""
DECIDES: Final = """\
## What matters most

The arrows show errors before and after a mechanism was added.

- **Dequantize, then call the library.** For long prompts llama.cpp, AutoAWQ and exllama dequantize the weights and call the
  library's GEMM, which runs at the library's measured rate: llama.cpp's prefills 11 % -> 6 %. Kernels that dequantize on the
  fly (Marlin) reach a fraction of that rate on long prompts.
- **Side work of weight-only kernels.** AutoAWQ splits sums into 8 parts that a second kernel adds up, dequantizes weights again
  for every 16 rows, and until 2024 never used the library for long prompts; its fused attention applies the rotary embedding
  and writes the cache in the decode kernel: prompts 58 % -> 11 %, TinyChat on an RTX 4090 9 % -> 2 %.
- **Streaming of weights.** One-row GEMMs reach a fraction of the bandwidth, and at most a certain number of bytes per clock and
  unit, which differs between wide and narrow weights: decode of q4_k_m on A100 was 18 % too slow before.
- **GEMMs in int8.** llama.cpp multiplies quantized weights in int8 where the card lacks 16-bit matrix units, and on every card
  in versions since June 2024: P40 110 % -> 15 %.
- **Fused attention within bounds.** FasterTransformer's encoders run TensorRT's fused kernels up to 384 tokens, with heads of
  64, from Volta on; with biases packed before attention, and int8 kept between GEMMs, its encoders went from 15 % to 10 %.
- **Extra kernels of old frameworks.** Biases and masks as separate kernels (TorchScript), three kernels for each softmax and
  norm (XLA): 18 % -> 9 % and 22 % -> 12 % on the same guides.
- **Experts by engine.** Grouped GEMMs and attention over latent caches use the constants of the engine that they were measured
  in (medians of jointly fitted constants mean nothing); tokens are converted and copied once, results are summed in one pass,
  experts are selected in one kernel, and routed and shared experts are reduced once over the tensor ranks: time per token of
  mixtures 34 % -> 11 %, all without a fit to any server. Cut-down chips (H20) use their units better than full ones: prompts 36
  % -> 6 %.
- **ECC.** Server cards with GDDR6 keep check bits in the same memory and read them with the data, a 16th: decode on A40 and
  A10G, 7 % and 6 % too fast before, is now 2 % and 1 % too fast.
- **Modules.** Issuing a kernel takes 29 us where every kernel is a module (convolutional networks), and 20 us in decoders:
  `transformers` decoding 138 % -> 11 %, with one-row GEMMs at the rate of GEMV kernels.
- **Diffusion.** xformers pads heads of 40, 80 and 160 to 64, 128 and 256; convolutions chosen by cuDNN's heuristics reach half
  the rate of autotuned ones; PyTorch adds the bias of a convolution in a separate kernel. Without these, the error is 39 %. On
  H100 the libraries were as young as the chip: 18 % -> 9 %.
- **Memory of diffusion.** The decoder's growing feature maps leave the cache full of blocks that are too small, and
  convolutions copy their operands into their kernels' layout: reserved memory 13 % -> 4 %, with nothing fitted.
"""
REMAINS: Final = """\
## Known errors

- llama.cpp's prefill on H100 PCIe and RTX 6000 Ada (70B) is 15 to 20 % slower than predicted: power limits both, and no energy
  per operation that fits them fits the A100. On GeForce cards the error grows with the prompt (10 % at 8,192 tokens).
- pytorch-gpu-benchmark starts its clock before images are copied from pageable memory, while eight loader processes work:
  predictions are 25 % too fast, most on the A100, where the host dominates. BERT on TensorFlow 1 ran with XLA (its script says
  so), yet as slowly as without.
- Decodes of q4_k_m rank with 0.93: in the source, A100 PCIe is faster than A100 SXM and RTX 6000 Ada faster than RTX 4090, each
  with the same chip and less bandwidth; five cards are within 10 %. RTX 4090 and 6000 Ada use the same energy for a prompt in
  fp16 (50 J at their limits), more than is assumed for the latter.
- AutoAWQ: one A100 (pull request 320) takes 1.3 to 1.5 times as long to prefill as another A100 and an A800, although all use
  library GEMMs. Predictions for MPT and Falcon prompts are 25 to 30 % too fast: fused attention computes softmax in fp32 for
  every model.
- ViT at 384 pixels in fp16 under PyTorch of 2021 (577 tokens) is 2.5 times as slow as predicted: batched GEMMs with unaligned
  rows fell back to kernels without matrix units in that cuBLAS.
- TensorFlow's ResNet-50 on A100 ran in a container two months younger than the card: predictions are 40 to 80 % too fast at
  small batches, where the host dominates. TF32 of 2020-21 reaches 0.4 of the peak on A100; 0.6 is assumed. BERT on TensorFlow 1
  on a T4 runs 40 % slower than on TensorFlow 2; one profile covers both.
- Unstated hosts: a kernel of `transformers`, AutoAWQ and TinyChat takes 20 us on servers with an A100, half or less on desktops
  with an RTX 4090. AutoAWQ's decode after 2,048 tokens is predicted 5 to 20 % too fast: one block per head reads the cache.
- Stable Diffusion without xformers on an RTX A6000: in the source, this card is slower than an A10 with half its power limit
  (48.5 and 36.3 s, 16 images in fp16), so the run says more about that machine than about the card. The A10, which is not in
  the file, is 16 to 26 % slower than predicted.
- Memory that the allocator reserves after a diffusion pipeline: without xformers, two or three matrices of attention scores,
  depending on the case (two are predicted, 13 to 26 % short of three). On RTX A6000, decoding in TF32 took no workspace
  (predictions are 9 to 17 % too high from 4 images on), and 64 and 128 images in fp16 took 11 GB more than on A100,
  unexplained. For 16 images on a full V100, the source measured what was left after the cache had been released; the prediction
  is the peak.
- Times to first token of mixtures under TensorRT-LLM and SGLang are twice as long as predicted, and as long for 512 tokens as
  for 1,024 (Qwen3-235B on H100, 174 ms): the host issues prompts kernel by kernel. SGLang's runs of DeepSeek with prompts of
  8,192 tokens wait 5.5 s, unexplained.
- FasterTransformer in fp32 on A100 takes twice as long for one sequence of 128 tokens as the neighboring rows suggest; so do
  TensorFlow and PyTorch.
"""
