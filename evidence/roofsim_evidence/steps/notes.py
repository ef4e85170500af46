"""The prose of the accuracy page: known causes of rows that predictions miss, and errors of other tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim_evidence.score import Prediction

#: Batch of a forward pass up to which issuing kernels, not running them, takes the time.
SMALL_BATCH: Final = 16


@dataclass(frozen=True)
class Peer:
    """Another tool's mean absolute error on rows that it can express."""

    tool: str
    repository: str
    rows: str
    error: str


#: Measured by running the tools on the rows named, in the configurations that their documents recommend.
PEERS: Final = (
    Peer("Calculon", "calculon-ai/calculon", "Megatron-LM's eight A100 runs", "3.7 %"),
    Peer("Calculon", "calculon-ai/calculon", "Megatron-LM's weak scaling", "8.3 %"),
    Peer("llm-analysis", "cli99/llm-analysis", "MosaicML's A100 table", "15.9 % (defaults: 75 %)"),
    Peer("llm-analysis", "cli99/llm-analysis", "MosaicML's H100 table", "23 % (defaults: 138 %)"),
    Peer("SimuMax", "MooreThreads/SimuMax", "its B200 table of Megatron-LM steps", "5.6 % time, 0.46 % memory"),
    Peer("vTrain", "VIA-Research/vTrain", "its multi-node runs on A100", "14.7 % (one constant: 17.9 %)"),
    Peer("NeuSight", "sitar-lab/NeuSight", "its transformers in FP32, across GPUs", "8.9 % (plain roofline: 31 %)"),
    Peer("aiconfigurator", "ai-dynamo/aiconfigurator", "TensorRT-LLM prefill", "12 %"),
    Peer("aiconfigurator", "ai-dynamo/aiconfigurator", "TensorRT-LLM static batches", "14-34 %"),
    Peer("the best of several", "", "llama.cpp decode", "35 %"),
    Peer("cookbook", "EleutherAI/cookbook", "peak memory of torchtitan's runs", "10.9 %"),
)

#: What anyone should know who reads errors of these rows. Ratios are between measurements, in the cases themselves.
TRAPS: Final = (
    (
        "**Software age.** The time of one scenario on one card depends on the container: ResNet-50 on A100 was 16-25 % "
        "slower in containers of 2020-21 than in those of 2022, SSD-300 4-12 %. The table of equal runs has every such "
        "pair. Where a card was measured only in its first years, the measurement includes the early library."
    ),
    (
        "**SSD-300 in true FP32, container of 2020.** More images per second than in the container of 2022: 29 % on V100, "
        "43 % on Quadro RTX 8000, the two cards that have both. cuDNN 7 searched all its kernels for 3 x 3 convolutions "
        "and chose Winograd kernels for weight gradients too. Libraries before cuDNN 8.0 (June 2020) have a separate "
        "constant for that, which explains about half of the difference."
    ),
    (
        "**B200, four rows of one container of 2025.** One software version in the first year of the card; all four are "
        "BERT. Convolutions on Blackwell data-center cards are not measured here: the source's rows are limited by its "
        "input pipeline."
    ),
    (
        "**P4 at 75 W.** Three rows; under load the clock falls far below the boost clock on which the datasheet's peak is "
        "based. BERT suffers more than GPT-2."
    ),
    (
        "**A40.** A passively cooled card: BERT in TF32 is 19-31 % slower than on the RTX A6000 of the same year, although "
        "it has the same chip and power limit and only 9 % less memory bandwidth."
    ),
    (
        "**TensorFlow rows (dle-tf).** Scored with a PyTorch engine, and with the compiled one for XLA, because there is no "
        "TensorFlow engine for training. They show what a wrong engine costs; they are in every total that does not say "
        "otherwise."
    ),
    (
        "**TF32 labeled FP32.** The Lambda logs of Ampere and later cards say FP32, but their containers enable TF32; these "
        "rows are scored as TF32. True FP32 on such cards is in the NeuSight rows only."
    ),
    (
        "**Small batches of forward passes (dle-infer).** Issuing kernels from Python sets the time, so it depends on the "
        "host's processor, which the source does not fully describe."
    ),
    (
        "**AMD in FP32 (NeuSight's MI100 and MI250 rows).** Whether the library uses matrix or vector units, and how well, "
        "changes between versions."
    ),
    (
        "**GPT-3 XL (NeuSight).** Seven rows were dropped after a first scoring because their shape is uncertain (24 heads "
        "of 128 do not give a width of 2,048). At that time they were predicted between 37 % too fast and 19 % too slow, "
        "with a mean error of 20 %."
    ),
    (
        "**Inconsistent steps (neusight-odd).** Six training steps of NeuSight, whose forward pass takes more than 0.65 of "
        "the backward pass, were separated after a first scoring: at that time the mean error of NeuSight was 9.2 % with "
        "them and 9.1 % without."
    ),
    (
        "**What NeuSight timed.** Its script empties the allocator's cache before each pass, so the times include driver "
        "allocations; it never clears gradients, so each backward pass accumulates into them. Neither is modeled. Before the "
        "script was read, training steps were scored without dropout, and forward passes of BERT with a masked-word head; "
        "both were corrected after scoring (mean error of NeuSight 9.6 % before)."
    ),
    (
        "**The selection of fitted rows changed once.** A plain hash left a software version of the A100 without a fitted "
        "row, and was replaced by every third row in sorted order (docs/decisions/0012-a-third-of-the-steps.md)."
    ),
    (
        "**Rows are not independent.** A row is one machine, one container, one afternoon. Rows of one source share scripts "
        "and mistakes."
    ),
)


def note(row: Prediction) -> str:
    """Return what is known about a row, whatever its error; empty where nothing is."""
    return "; ".join(text for text, applies in _KNOWN if applies(row))


def _batch(row: Prediction) -> float:
    return float(row.case.scenario["workload"]["micro_batch_size"])


def _compiled(row: Prediction) -> bool:
    return "compile" in row.case.software


def _early_ampere(row: Prediction) -> bool:
    return row.case.source == "lambda" and row.case.year <= 2021 and row.architecture.startswith("ampere")


#: What is known -> rows that it is known of.
_KNOWN: Final[tuple[tuple[str, Callable[[Prediction], bool]], ...]] = (
    ("TensorFlow, scored with a PyTorch engine", lambda row: row.case.source == "dle-tf"),
    (
        "compiled: Inductor may choose channels-last convolutions by itself",
        lambda row: _compiled(row) and row.case.family == "cnn",
    ),
    ("compiled", lambda row: _compiled(row) and row.case.family != "cnn"),
    (
        "container of 2020, whose cuDNN ran SSD in true FP32 faster than later ones",
        lambda row: row.case.family == "ssd" and row.case.precision == "fp32" and row.case.year <= 2020,
    ),
    ("75 W: the clock falls under load", lambda row: row.case.gpu == "p4"),
    ("72 W in true FP32: the clock is lowered by the power limit", lambda row: row.case.gpu == "l4"),
    ("passively cooled", lambda row: row.case.gpu == "a40"),
    ("AMD in FP32: units used by the library are unknown", lambda row: row.architecture.startswith("cdna")),
    ("first container for this card", lambda row: row.case.gpu.startswith("b200")),
    ("container of the chip's first year", _early_ampere),
    (
        "small batch: host-bound",
        lambda row: row.case.regime == "forward" and row.case.source == "dle-infer" and _batch(row) <= SMALL_BATCH,
    ),
    ("group width is not a power of two", lambda row: row.model.startswith("regnety")),
    ("depthwise convolutions", lambda row: row.model.startswith(("efficientnet", "mobilenet"))),
)
