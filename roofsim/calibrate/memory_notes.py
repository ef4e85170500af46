"""Say what is known about measured peaks of memory: the words of docs/memory-accuracy.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from roofsim.calibrate.memory_cases import MemoryPrediction

INTRODUCTION: Final = """\
# How well memory is predicted

`python -m roofsim.calibrate.memory_cases --page` writes this page: {rows} published peaks of memory on one device, each held
against the figure of the answer that stands for what its source measured: tensors (`allocated`), the allocator's pools
(`reserved`), or the whole card (`device`). Errors are |predicted / measured - 1|, bias is the median of signed errors: above
zero, predictions are too high. No constant of time enters; what decides are facts of engines. Every third row ({fitted}) gives
the widths of intervals, which are scored on the others. {apart} rows, in which a setting is not stated, score apart; no other
row is left out. Where the rows come from: [measurements/README.md](../measurements/README.md); how the figures are made:
[concepts/memory.md](concepts/memory.md).

"State alone" is a model that counts parameters, gradients and optimizer state (of inference: weights) and nothing else."""

#: What each source ran.
GROUPS: Final = {
    "autoawq": "4-bit language models on one RTX 4090",
    "bigscience": "layouts of a 177-181B model on 384 A100, full recomputation, ZeRO-1",
    "exllama": "4-bit Llama of 2023 on one RTX 4090, scored with the facts of exllamav2, its successor",
    "fastertransformer": "GPT 350M to 6.7B on one A100, batch 1 to 256",
    "litgpt": "LoRA and QLoRA of models of 1.3 to 13B on one A100",
    "litgpt-fsdp": "the same under FSDP with recomputation, 2 and 4 A100",
    "litgpt-thunder": "TinyLlama trained by eager PyTorch on 1 and 8 A100 (not the rows of its compiler)",
    "megatron-bridge": "Llama 3 70B in fp8 on 32 H100, three layouts",
    "simumax": "12 layers of Llama 3 70B's widths under Megatron-LM on 8 B200: tensor, pipeline and context parallel",
    "simumax-moe": "4 layers of DeepSeek-V2's widths, the same",
    "torchao-b200": "Llama 3 8B under torchtitan of 2025 on 8 B200, bf16, fp8, mxfp8",
    "torchao-h100": "Llama 3 8B under torchtitan on 8 H100, bf16 and fp8",
    "torchao-vit": "ViT-H fine-tuned with 32-, 8- and 4-bit Adam on an RTX 4070 Ti SUPER",
    "torchtitan": "Llama 3 8B and 70B on 8 to 256 H100: FSDP, context and tensor parallel, eager and compiled, bf16 and fp8",
}

#: For hardware/constants/memory.yaml.
SOURCES: Final = {
    "train": "measurements/memory.csv; litgpt and simumax print what is allocated, torchtitan what is reserved, BLOOM a monitor",
    "infer": "measurements/memory.csv; AutoAWQ and exllama print what is allocated, FasterTransformer the monitor",
}

CHOSEN: Final = (
    (
        "**Numbers fitted to rows of this page.** `megatron-deepspeed`: 6 GiB of libraries and communicators, to every"
        " third row of"
        " `bigscience`. `fastertransformer`: 1.8 GiB beside the context and 25 values a prompt token, to its own table, which is"
        " therefore no test of it."
    ),
    (
        "**Facts found because rows were off, then read in the engine's code, without a number of their own.**"
        " `torchtitan`: streams"
        " of gathers and reductions with pools of their own, the chain of DTensor's loss_parallel, whole shards through a"
        " pipeline."
        " `torchao-b200`: embedding and head as units of their own. `autoawq`: parts of merged weights that stay until"
        " the model is"
        " built, the name that holds the scores. `litgpt-fsdp`: whole gradients of frozen parameters under no_sync."
        " `litgpt-thunder`:"
        " keys and values written out, fp32 products in RMSNorm, DDP's buckets. `megatron-core`: the head's gradient"
        " beside its buffer"
        " (`simumax`); cross entropy in place. `bigscience`: that these runs added gradients up in fp16 stands in its notes."
    ),
    (
        "**Rows that no fact was chosen on.** `simumax-moe`, `torchao-vit`, `torchao-h100`, `exllama`, the three rows of"
        " `megatron-bridge`. All rows have been seen: none of these errors is that of a run nobody had looked at."
    ),
)

PEERS: Final = (("cookbook", "`EleutherAI/cookbook`", "`torchtitan`", "10.9 %"),)

REMAINS: Final = (
    (
        "`megatron-bridge`: two layouts over 4 tensor ranks are 23-26 % too high, the one over 8 ranks is right. What is"
        " in the three"
        " numbers does not scale as any ledger of the same terms does: with twice the tensor ranks activations must"
        " halve, and the"
        " numbers leave no room for that. Its recipe recomputes more than the page states, or another rank was read."
    ),
    (
        "`torchtitan` 70B over 8 tensor ranks without asynchronous tensor parallelism is 11 % too low, with it 6 %: what the"
        " gathered sequence leaves behind in the allocator is not followed."
    ),
    (
        "Rows apart of 405B: the number of micro batches is not stated, the default of the code (as many as stages) is taken. The"
        " last stage keeps the logits of all micro batches for the loss (torch.distributed.pipelining), which is not counted."
    ),
    "`bigscience`: whole gigabytes; one layout is listed twice, with 44 and 38 GB; the same settings differ by up to 4 GB.",
    "`litgpt`: cross entropy in chunks of 128 tokens came and went in that code; the whole logits are counted.",
    (
        "Stable Diffusion under diffusers (112 rows, what is reserved after a pipeline of three networks) is scored in"
        " inference-accuracy.md."
    ),
)


def note(row: MemoryPrediction) -> str:
    """Return what is known about a row."""
    case = row.case
    known = {
        "exllama": "the engine's fixed buffers and its loading are not stated",
        "megatron-bridge": "see what remains",
        "torchtitan": "see what remains",
        "bigscience": "whole gigabytes of a monitor",
        "fastertransformer": "one constant for libraries: smaller models need less, and what they free comes back late",
    }
    return case.note or known.get(case.source, "not explained")
