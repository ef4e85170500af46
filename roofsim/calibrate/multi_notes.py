"""What the page of multi-GPU steps says in words: sources, published errors of other tools, what each mechanism gave."""

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
HEAD: Final = """\
# How well steps of several GPUs are predicted

`{command}` writes this page. {total} published steps of 1 to 6,144 GPUs, listed with their scenario and citation in
`measurements/multi.csv` ([measurements/README.md](../measurements/README.md)); {fitted} of them, every third when sorted by source,
card, family, precision, software and a hash of the name, may be used to fit constants, the others only score. Errors are
|predicted / measured - 1|, bias is the median of signed ones (above zero: predicted too slow), rank is Spearman's correlation,
"in interval" the share inside the 80 % interval, whose width is that of every third row, or of single GPUs where that is wider.
The page of single GPUs is [accuracy.md](accuracy.md). The few constants that these rows decided (energies of long products,
rates of attention kernels, shares of what overlaps) were set by hand within their plausible ranges while all rows were in sight:
read "held out" as "not needed for the fit", not as blind.

A constant belongs to a card, an architecture, an engine, a kind of link or a system, never to a row or a model. What an engine runs
(attention kernel, what is fused, types of gradients, copies around collectives) is read from its code and stated in
`hardware/engines`; some of these facts were chosen among readings of the code by these rows, so the table is not blind. A run of
an engine that nobody described should be expected to be 10 to 30 % off.
"""
LEVERS: Final = """\
## What decides

What each mechanism moved predictions by, on the rows that it touches, when it was added
([what each is worth now](mechanisms/evidence.md), switched off one by one):

- **Long products within the power limit.** A product that runs for milliseconds is held to the clock that the card's power allows
  on its own (`product_energy`, `power_window` of an architecture): 16-bit products sustain about 0.85 of the peak on A100 at
  400 W, 0.66 on H100 at 700 W, 0.45 on B200 at 1,000 W. Before, power was averaged with the cheap kernels of the step, and
  GPT-sized steps came out 5 to 15 % fast on A100, 15 to 25 % on H100 and B200. Steps of single GPUs move by less than their error.
- **Attention.** The rate of fused attention rises with the length of rows (tiles compute their diagonal in full and must begin);
  the backward kernel runs at 0.8 of it; generations of kernels differ by a factor of three on H100. 3 to 15 % on long sequences.
- **Megatron's fused softmax** reads each row once and skips what the causal mask hides: 10 to 20 % on its unfused attention.
- **Copies of sharded engines**: out of the gathered buffer, into the reduction's, casts and divisions; the unpadding of
  llm-foundry's attention; the metric that its trainer computes of each micro batch's logits. 2 to 10 %.
- **Collectives beside kernels.** What FSDP hides still costs compute: the transfer over a GPU's own links (0.95 of it), and the
  units that its kernels hold while they wait for the network. 2 to 8 %.
- **Chips of one name differ** (arXiv 2208.11035: by 8 % at work that their power limits). Ranks that run in step wait for the
  slowest: with a deviation of 0.9 % of the arithmetic, 0.8 % of a step on 8 GPUs, 1.7 % on 512. Steps of the same shape grow
  with the number of nodes by more than that (llm-foundry, 16 to 512 GPUs: 3.7 % in the median, 0.8 % predicted).
- **Dropout, softmax and products of attention, fused updates.** Steps of BERT on one card cannot tell them apart, those of
  Megatron can: dropout's backward is a multiplication by the mask, its forward pass draws random numbers at half of the
  bandwidth. 3 to 8 %.
- **Buckets of gradients** run beside the backward pass as FSDP's collectives do, and slow it down; the last one comes when
  nothing is left of it. Fine-tuning BERT on 8 GPUs loses what the links of a node take. 1 to 3 % of a step without accumulation.
- **BigScience's nodes**: four NVLinks a GPU and Omni-Path; DeepSpeed's cast and sum of every micro batch's gradients. 15 %.
"""
MEMORY: Final = """\
All {total} runs were measured, so they fitted; {refused} of them are predicted not to (layouts of BigScience within 15 % of the
memory, whose published peaks are whole gigabytes). Of the runs predicted to leave less than 5 % of the memory one in seven was
20 % slower than its neighbours (MPT-1B on 32 A100), the others were not slow: above 95 % a result carries a warning, and the
upper end of its interval lies half as far again.
"""
REMAINS: Final = """\
## What is known to be off

- Context parallelism of torchtitan at 131k and 262k tokens (4 and 8 ranks) takes 6.7 s for each block of 32k tokens; at 32k and
  65k (1 and 2 ranks, the same code) it takes 5 s. Messages, merging in fp32 and gradients that go round explain 3 to 5 % of the
  30 % that are missing; nothing in the code of the ring distinguishes 2 ranks from 4.
- Runs of 8 GPUs with 64 micro batches a step, whose reduction is nothing, are 2 to 4 % slower than one GPU of
  DeepLearningExamples and 5 to 7 % on 32 nodes; chips that differ explain 1 and 2 %. Its convolutional networks in AMP lose 13
  to 18 % on 8 GPUs to their loader. DGX-2H at 16 and 32 nodes under TensorFlow comes out 25 % fast.
- Tensor parallelism over 8 B200 is 20 to 25 % slower than predicted, over 4 and 2 within 10 %.
- MPT-13B on 8 A100 of 40 GB (14 % slow) and MPT-760M on A100 of 80 GB at 512 and 1,024 tokens (20 %), predicted to fill 0.84
  and 0.9 of the memory; MPT-1B on 32 A100 differs by 20 % from its own runs on 16 and 64. All stay in the table.
- vTrain: TP 2 with PP 8 and 16, and micro batches of 64 at TP 8, are 20 to 60 % slower than their neighbours; no mechanism here
  explains them.
- BigScience: the same layout differs by up to 5 % between dates, and some head counts are 10 % slow without a reason in the shape.
- The network of llm-foundry's A100 nodes of 40 GB is not stated: the card's usual node is taken (1,600 Gbit/s), and its runs
  on many nodes come out 3 % fast. A network of 400 Gbit/s would fit them better, but nobody published it.
- Megatron's tables of 2021 and 2024 do not state the micro batch (2024: nor interleaving); it is assumed.
- Row-wise fp8 of torchtitan ran at the speed of bf16 (another kernel); its rows, and those under pipelines with an unstated
  number of micro batches, are not in the file.
"""
