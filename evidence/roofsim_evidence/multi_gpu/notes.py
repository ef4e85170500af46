"""The prose of the multi-GPU page: sources, published errors of other tools, the effect of each mechanism."""

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
# Accuracy of steps on several GPUs

`{command}` writes this page. {total} published steps on 1 to 6,144 GPUs are listed with their scenario and citation in
`evidence/measurements/multi-gpu.jsonl` ([measurements/README.md](../measurements/README.md)); {fitted} of them, every third when sorted by
source, card, family, precision, software and a hash of the name, may be used to fit constants; the others are only scored.
Errors are |predicted / measured - 1|; bias is the median signed error (above zero: predicted too slow); rank is Spearman's
correlation; "in interval" is the share inside the 80 % interval, whose width comes from every third row, or from single GPUs
where that is wider. Single GPUs are scored in [accuracy.md](accuracy.md). The few constants that these rows determine (energies
of long GEMMs, rates of attention kernels, overlap factors) were set by hand within their plausible ranges, with all rows in
sight: read "held out" as "not needed for the fit", not as "blind".

A constant belongs to a card, an architecture, an engine, a kind of link or a system, never to a row or a model. What an engine
runs (attention kernel, fusions, types of gradients, copies around collectives) is read from its code and stated in
`hardware/engines`. Some of these facts were chosen among readings of the code with the help of these rows, so the table is not
blind. Expect an error of 10 to 30 % for an engine that has no description.
"""
LEVERS: Final = """\
## What matters most

How far each mechanism moved the predictions of the rows it touches when it was added ([the current effect of
each](mechanisms/evidence.md), in an ablation one by one):

- **Long GEMMs within the power limit.** A GEMM that runs for milliseconds is held to the clock that the card's power allows for
  it alone (`product_energy`, `power_window` of an architecture): 16-bit GEMMs sustain about 0.85 of the peak on A100 at 400 W,
  0.66 on H100 at 700 W, 0.45 on B200 at 1,000 W. Before, power was averaged with the step's cheap kernels, and GPT-sized steps
  were predicted 5 to 15 % too fast on A100, 15 to 25 % on H100 and B200. Steps on single GPUs move by less than their error.
- **Attention.** The rate of fused attention rises with row length (tiles compute their diagonal in full and have a startup
  cost); the backward kernel runs at 0.8 of it; kernel generations differ by a factor of three on H100. 3 to 15 % on long
  sequences.
- **Megatron's fused softmax** reads each row once and skips what the causal mask hides: 10 to 20 % on its unfused attention.
- **Copies in sharded engines**: out of the gathered buffer, into the reduction's buffer, casts and divisions; the unpadding of
  llm-foundry's attention; the metric that its trainer computes from each micro batch's logits. 2 to 10 %.
- **Collectives beside kernels.** What FSDP hides still costs compute: the transfer over a GPU's own links (0.95 of its time),
  and the compute units that its kernels occupy while they wait for the network. 2 to 8 %.
- **Chips of the same type differ** (arXiv 2208.11035: by 8 % on power-limited work). Ranks in lockstep wait for the slowest:
  with a deviation of 0.9 % of the arithmetic, 0.8 % of a step on 8 GPUs, 1.7 % on 512. Steps of the same shape grow with the
  number of nodes by more than that (llm-foundry, 16 to 512 GPUs: 3.7 % in the median, 0.8 % predicted).
- **Dropout, softmax and GEMMs of attention, fused updates.** BERT's steps on one card cannot separate these, Megatron's can:
  dropout's backward pass is a multiplication by the mask, its forward pass draws random numbers at half the bandwidth. 3 to 8
  %.
- **Gradient buckets** run beside the backward pass, as FSDP's collectives do, and slow it down; the last one has nothing left
  to hide behind. Fine-tuning BERT on 8 GPUs loses the time of the node's links. 1 to 3 % of a step without accumulation.
- **BigScience's nodes**: four NVLinks per GPU and Omni-Path; DeepSpeed's cast and sum of every micro batch's gradients. 15 %.
"""
MEMORY: Final = """\
All {total} runs were measured, so they fit in memory; {refused} of them are predicted not to (layouts of BigScience within 15 %
of the memory, whose published peaks are whole gigabytes). Of the runs predicted to leave less than 5 % of the memory, one in
seven was 20 % slower than its neighbors (MPT-1B on 32 A100); the others were not slow. Above 95 %, a result carries a warning,
and the upper end of its interval is 1.5 times as far away.
"""
REMAINS: Final = """\
## Known errors

- torchtitan's context parallelism at 131k and 262k tokens (4 and 8 ranks) takes 6.7 s per block of 32k tokens; at 32k and 65k
  (1 and 2 ranks, the same code) it takes 5 s. Messages, merging in fp32 and gradients sent around the ring explain 3 to 5 % of
  the missing 30 %; nothing in the ring's code distinguishes 2 ranks from 4.
- DeepLearningExamples' runs with 64 micro batches per step, whose reduction cost is negligible, are 2 to 4 % slower on 8 GPUs
  than on one, and 5 to 7 % slower on 32 nodes; differences between chips explain 1 and 2 %. Its convolutional networks in AMP
  lose 13 to 18 % on 8 GPUs to their data loader. DGX-2H at 16 and 32 nodes under TensorFlow is predicted 25 % too fast.
- Tensor parallelism over 8 B200 is 20 to 25 % slower than predicted, over 4 and 2 within 10 %.
- MPT-13B on 8 A100 of 40 GB (14 % slow) and MPT-760M on A100 of 80 GB at 512 and 1,024 tokens (20 %) are predicted to fill 0.84
  and 0.9 of the memory; MPT-1B on 32 A100 differs by 20 % from its own runs on 16 and 64. All stay in the table.
- vTrain: TP 2 with PP 8 and 16, and micro batches of 64 at TP 8, are 20 to 60 % slower than their neighbors; no mechanism here
  explains them.
- BigScience: the same layout differs by up to 5 % between dates, and some head counts are 10 % slow without a reason in the
  shape.
- The network of llm-foundry's A100 nodes of 40 GB is not stated: the card's usual node is assumed (1,600 Gbit/s), and its runs
  on many nodes are predicted 3 % too fast. A network of 400 Gbit/s would fit them better, but none is published.
- Megatron's tables of 2021 and 2024 do not state the micro batch (2024: nor interleaving); it is assumed.
- Row-wise fp8 in torchtitan ran at the speed of bf16 (another kernel); its rows, and those under pipelines with an unstated
  number of micro batches, are not in the file.
"""
