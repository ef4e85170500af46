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
    (
        7,
        "AutoAWQ's prompts of 64 tokens: its script has no warm-up, first rounds take 0.1 to 2 s, later ones 16 to 50 ms",
    ),
    (2, "TensorRT-LLM 0.5 without an output length"),
    (2, "a sum of kernels of one layer (LLMCompass)"),
    (1, "batch and layout known only of a simulated twin (InferSim)"),
)
SERVERS: Final = """\
Servers under load, by `roofsim serve`: `tpot` is the time per output token and `ttft` that to the first token at a fixed
concurrency, `output_rate` the tokens per second of a server that is given more than it can take. Of the constants here only the
host's time per request and the widths of ranges were fitted to a third of such rows. Times to the first token are published up to
8 requests at once. Sixteen times per token of DeepSeek are not scored: a later table of the same project has their settings at 1.2
to 2.4 times the time, without multi-token prediction, and not these runs; how many guesses they accept is not published. Priced
as if they did not speculate they are 1.25 to 2.4 times too slow, and the median of mixtures is 12.9 % instead of 10.8 %.
"""
DECIDES: Final = """\
## What decides

- **A library product stays one behind quantisation.** llama.cpp, AutoAWQ and exllama write narrow weights out for long
  prompts and call the library; those products run at the library's measured rate: llama.cpp's prefills 11 % -> 6 %. Kernels that
  expand weights on the way (Marlin) reach a share of that rate in long prompts.
- **What a weight-only kernel does beside its product.** AutoAWQ splits sums in 8 parts that a kernel adds up, expands weights anew
  for each 16 rows, and until 2024 never handed long prompts to the library; its fused attention rotates and writes the cache in
  the decode kernel: prompts 58 % -> 11 %, TinyChat on an RTX 4090 9 % -> 2 %.
- **What streams.** Products of one row draw a share of the bandwidth, and at most so many bytes per clock and unit, of wide
  and of narrow weights differently: decode of q4_k_m on A100 was 18 % slow before.
- **Products in int8.** llama.cpp multiplies quantised weights in int8 where the card lacks 16-bit matrix units, and
  everywhere in versions since June 2024: P40 110 % -> 15 %.
- **Fused attention within bounds.** FasterTransformer's encoders run TensorRT's fused kernels up to 384 tokens, heads of 64,
  from Volta on; with biases packed before it, and int8 kept between products, its encoders went from 15 % to 10 %.
- **What old frameworks run beside products.** Biases and masks as kernels of their own (TorchScript), three kernels for each
  softmax and norm (XLA): 18 % -> 9 % and 22 % -> 12 % on the same guides.
- **Whose experts.** Grouped products and attention over latent caches go by the engine that they were measured in (medians of
  constants that were fitted together say nothing); tokens are converted and copied once, results summed in one pass, experts
  chosen in one kernel, routed and shared experts summed once over tensor ranks: time per token of mixtures 34 % -> 11 %, all
  without a fit to any server. Units that were cut down (H20) are used better than whole ones: prompts 36 % -> 6 %.
- **Check bits.** GDDR6 cards for servers keep them in the same memory and read them along, a 16th: decode on A40 and A10G
  7 % and 6 % fast -> 2 % and 1 %.
- **Modules.** Issuing a kernel takes 29 us where every kernel is a module (convolutional networks), 20 us in decoders:
  `transformers` decoding 138 % -> 11 %, with products of one row at the rate of kernels for vectors.
- **Diffusion.** Heads of 40, 80 and 160 are padded to 64, 128 and 256 by xformers; convolutions that nobody searched (cuDNN's
  heuristics) reach half of the rate of those that were; PyTorch adds the bias of a convolution in a kernel of its own.
  Without these, 39 %. On H100 the libraries were as young as the chip: 18 % -> 9 %.
- **Memory of diffusion.** The decoder's growing maps leave the cache full of blocks that are too small, and convolutions copy their
  operands into their kernels' layout: reserved memory 13 % -> 4 %, nothing fitted.
"""
REMAINS: Final = """\
## What is known to be off

- llama.cpp's prefill on H100 PCIe and RTX 6000 Ada (70B) is 15 to 20 % slower than predicted: both are held by power, and no
  energy that fits them fits the A100. It grows on GeForce cards with the prompt (10 % at 8,192 tokens).
- pytorch-gpu-benchmark starts its clock before images are copied from pageable memory, while eight loader processes work: 25 %
  fast, most on the A100, where the host decides. BERT on TensorFlow 1 ran with XLA (its script says so), yet as slow as without.
- Decodes of q4_k_m rank with 0.93: A100 PCIe is above A100 SXM and RTX 6000 Ada above RTX 4090 in the source, each with the same
  chip and less bandwidth; five cards lie within 10 %. RTX 4090 and 6000 Ada take the same joules for a prompt in fp16 (50 J at
  their limits), more than is assumed for the latter.
- AutoAWQ: one A100 (pull request 320) prefills 1.3 to 1.5 times as long as another and as an A800, with library products alike.
  MPT and Falcon prompts are 25 to 30 % fast: its fused attention computes softmax in fp32 for every model.
- ViT at 384 pixels in fp16 under PyTorch of 2021 (577 tokens) is 2.5 times as slow as predicted: batched products whose rows
  are not aligned fell back to kernels without matrix units in that cuBLAS.
- TensorFlow's ResNet-50 on A100 ran in a container two months younger than the card: 40 to 80 % fast at small batches, where
  its host decides. TF32 of 2020-21 reaches 0.4 of the peak on A100, 0.6 are assumed. BERT on TensorFlow 1 on a T4 runs 40 %
  slower than on TensorFlow 2; one profile covers both.
- Hosts that nobody states: a kernel of `transformers`, AutoAWQ and TinyChat takes 20 us on servers with an A100, half or less on
  desktops with an RTX 4090. AutoAWQ's decode behind 2,048 tokens is 5 to 20 % fast: one block a head reads the cache.
- Stable Diffusion without xformers on an RTX A6000: the card was slower there than an A10 with half its power limit is in the same
  table (48.5 and 36.3 s, 16 images in fp16), so that its run says more of that machine than of the card. A10, not in the file,
  is 16 to 26 % slower than predicted.
- What the allocator reserves after a diffusion pipeline: without xformers two or three matrices of attention scores, as the
  case may be (two are predicted, 13 to 26 % short of three); on RTX A6000 decoding in TF32 took no workspace (9 to 17 % too
  much predicted from 4 images on), and 64 and 128 images in fp16 took 11 GB more than on A100, unexplained; 16 images on a
  full V100: what was left after the cache had gone back was measured, its peak is predicted.
- First tokens of mixtures behind TensorRT-LLM and SGLang take twice as long as predicted, and as long for 512 tokens as for 1,024
  (Qwen3-235B on H100, 174 ms): the host, which issues prompts kernel by kernel. SGLang's runs of DeepSeek with prompts of 8,192
  tokens wait 5.5 s, unexplained.
- FasterTransformer in fp32 on A100 at 128 tokens is twice as slow as at 32 sequences' worth of neighbours; so are TensorFlow
  and PyTorch there.
"""
