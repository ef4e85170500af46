"""Score measurements of inference that nothing was fitted to: ``python -m roofsim_evidence.inference.external --write``."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from typing import TYPE_CHECKING, Final

from roofsim.output import save_text
from roofsim_evidence.inference.cases import SERVED, load_inference_cases, predict_all
from roofsim_evidence.places import checkout
from roofsim_evidence.score import grouped, score

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roofsim_evidence.inference.cases import InferenceCase, InferencePrediction

    Rows = Sequence[InferencePrediction]

COMMAND: Final = "python -m roofsim_evidence.inference.external --write"
FILE: Final = "inference_elsewhere.csv"
PAGE: Final = "docs/external-inference.md"
LABELS: Final = {
    "tensorrt-llm-0.17": "TensorRT-LLM 0.17, saturated servers",
    "tensorrt-llm-0.6": "TensorRT-LLM 0.5 and 0.6.1, static batches and first tokens",
    "rocm-vllm": "vLLM 0.10 on MI300X, static batches",
    "gpt-fast": "gpt-fast, decode of one sequence",
    "diffusers-torch2": "diffusers on PyTorch 2.0, one denoising step",
    "llm-inference-bench": "LLM-Inference-Bench, static batches",
    "vllm-pulls": "vLLM's pull request 23197, static batches",
    "autoawq-pulls": "AutoAWQ's pull request 320, decode",
    "hardware-corner": "Hardware Corner (llama.cpp), GeForce cards at 16,384 tokens",
    "llama.cpp-2025": "llama.cpp's pull requests of 2025, mixtures of experts",
    "inferencex": "InferenceX, servers of mixtures of experts, time per token",
    "llm-inference-speed": "LLM-inference-speed-benchmarks (llama.cpp)",
}
HEAD: Final = """\
# External validation of inference

`{command}` writes this page. {total} published measurements (`evidence/measurements/external-inference.jsonl`,
[measurements/README.md](../measurements/README.md)) were collected after the inference constants were fixed; none of them is,
or may be, fitted. They cover other versions, cards and models than [those of the accuracy page](inference-accuracy.md): H200,
GH200, L40S, MI300X; Mistral, Mixtral, Llama 405B; FP8 static batches of 2023, servers of 2025 and 2026. "measured / predicted"
compares times (rates are inverted): above 1, the prediction is too fast. Errors are |predicted / measured - 1|. The end of the
page lists what was changed after the first scoring, and the known errors.
"""
OFF: Final = """\
## First scoring and later changes

At the first scoring the median error was 10.0 %, the 90th percentile 37 %, and 19 % of the rows were off by more than 25 % (434
rows, without those of gpt-fast). The following was changed with rows of this page in sight; none of it is a constant fitted to
them:

- L40S on 4 and 8 GPUs was predicted at 0.14 to 0.6 of the measured rate: the catalog's only L40S server was one whose measured
  collectives fall to 2 GB/s over 8 cards. `server-8x-l40s-direct` is now the default, with the constants of all PCIe 4 links.
- MI300X was 25 % off: engines' own all-reduce kernels were priced over NVLink only. Over xGMI they now have constants, read off
  a table of MI355X (vllm-project/vllm pull 39080).
- Mixtral's prompts on 4 and 8 GPUs were predicted 1.3 times as long as measured: the rows of experts were summed in the four
  kernels of the transformers library, and the input of merged projections was converted once for each of them. Servers of other
  models on the accuracy page gained as much.
- Time per token of mixtures of experts (InferenceX, added later) was 18 % off before the traffic of their permutations became
  that of the engines' kernels; four rows of Qwen3-30B-A3B under llama.cpp were 1.3 times as fast as predicted before its
  experts were priced by what its kernels do.
- Denoising steps of diffusers were predicted at 0.70 of the measured time with `pytorch-eager`, whose convolutions are
  autotuned; the engine `diffusers-2023` has those of `diffusers-2022`, which were fitted to other rows.

## Known errors

- **gpt-fast on several GPUs** is up to 1.6 times as fast as predicted, its Mixtral twice as fast: one Triton kernel reads the
  weights of the selected experts, and its all-reduces are one-shot kernels of PyTorch's symmetric memory, which have no
  constants here.
- **LLM-Inference-Bench's TensorRT-LLM on H100** is 1.2 to 1.5 times as slow as predicted, more so with more GPUs: these are
  runs of the Python runtime of 2024, whose version and host are not stated.
- **AutoAWQ on A100** is host-bound, 1.4 to 1.6 times as slow as predicted; the host is not stated.
- **Stable Diffusion** takes 1.4 times as long as predicted on T4 and A100, 0.8 times on RTX 3090: the choices of cuDNN's
  heuristics differ by card more than a single fraction of the autotuned rate can express.
- **First tokens of 128-token prompts on H100 in TensorRT-LLM 0.5** took 1.6 times as long as predicted: 7 and 26 ms, part of which
  is the host of 2023.
- **Prompts of TensorRT-LLM in fp8** are 10 to 20 % faster than predicted on all Hopper cards, for dense models too.
"""


def elsewhere() -> tuple[InferenceCase, ...]:
    """Return the measurements that may not be fitted, in the order of their file."""
    return load_inference_cases(FILE)


def ratio(row: InferencePrediction) -> float:
    """Return measured over predicted seconds (of rates: the inverse)."""
    found = row.case.measured / row.predicted
    return 1.0 / found if row.case.metric == "output_rate" else found


def table(rows: Rows, key: Callable[[InferencePrediction], str]) -> list[str]:
    """Return the scores by group as Markdown."""
    lines = [
        "| group | n | median error | p90 | within 25 % | measured / predicted | rank | in interval |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, mine in [*grouped(rows, key).items(), ("all", list(rows))]:
        found, ratios = score(mine), sorted(map(ratio, mine))
        near = sum(abs(row.error) <= 0.25 for row in mine) / len(mine)
        rank = "" if found.rank is None else f"{found.rank:.2f}"
        inside = "" if found.coverage is None else f"{found.coverage:.0%}"
        lines.append(
            f"| {name} | {found.n} | {found.median:.1%} | {found.p90:.1%} | {near:.0%} | {ratios[len(ratios) // 2]:.2f} "
            f"({ratios[0]:.2f}-{ratios[-1]:.2f}) | {rank} | {inside} |"
        )
    return lines


def page(rows: Rows, unpriced: Sequence[tuple[InferenceCase, str]]) -> str:
    """Return the page."""
    parts = [
        HEAD.format(command=COMMAND, total=len(rows) + len(unpriced)),
        "## Sources\n", *table(rows, lambda row: LABELS[row.case.source]), "",
        "## Cards and engines\n", *table(rows, lambda row: f"{row.case.gpu}, {row.case.software}, {_kind(row.case)}"), "",
        "## GPUs\n", *table(rows, lambda row: f"{row.case.source}, {row.case.gpus:02d} GPU"), "",
        "## Models\n", *table(rows, lambda row: f"{row.case.family}, {row.case.software}"), "",
    ]  # fmt: skip
    if unpriced:
        counts = Counter(why for _, why in unpriced)
        parts += [
            "## Rows without a prediction\n",
            *(f"- {number}: {why}" for why, number in sorted(counts.items())),
            "",
        ]
    return "\n".join([*parts, OFF]).rstrip() + "\n"


def _kind(case: InferenceCase) -> str:
    return "server" if case.metric in SERVED else case.regime


def main() -> None:
    """Print the scores by source; with ``--write`` replace the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"Write {PAGE}.")
    arguments = parser.parse_args()
    rows, unpriced = predict_all(elsewhere())
    if arguments.write:
        save_text(checkout() / PAGE, page(rows, unpriced))
    else:
        sys.stdout.write("\n".join(table(rows, lambda row: LABELS[row.case.source])) + "\n")


if __name__ == "__main__":
    main()
