"""Say what is known about measured rows that predictions miss, and what others reach: the words of the accuracy page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.calibrate.score import Prediction

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
        "**Age of the software.** The same scenario on the same card differs with the container: ResNet-50 on"
        " A100 was 16-25 % slower in containers of 2020-21 than in those of 2022, SSD-300 4-12 %. The table "
        "of software ages has every such pair. Where a card was measured in its first years only, the library"
        " is in the measurement."
    ),
    (
        "**SSD-300 in true FP32, container of 2020.** More images per second than in the container of 2022: "
        "29 % on V100, 43 % on Quadro RTX 8000, the two cards that have both. cuDNN 7 searched all its "
        "kernels for 3 x 3 convolutions and took Winograd ones for weight gradients too; libraries before cuDNN 8.0 (June 2020) "
        "have a constant of their own for that, which explains about half of the difference."
    ),
    (
        "**B200, four rows of one container of 2025.** One software version in the first year of the card; "
        "all four are BERT. How Blackwell data-centre cards run convolutions is not measured here: the "
        "source's rows are limited by its input pipeline."
    ),
    (
        "**P4 at 75 W.** Three rows; the clock falls under load far below the boost clock behind the "
        "datasheet's peak. BERT suffers more than GPT-2."
    ),
    (
        "**A40.** A passively cooled card: BERT in TF32 is 19-31 % slower than on the RTX A6000 of the same "
        "year, the same chip at the same power, where the memory is 9 % slower."
    ),
    (
        "**TensorFlow rows (dle-tf).** Scored with a PyTorch engine, XLA ones with the compiled one, because "
        "no TensorFlow engine ships. They show what a wrong engine costs; they are in every total that does "
        "not say otherwise."
    ),
    (
        "**TF32 that the logs call FP32.** The Lambda logs of Ampere and later cards say FP32, but their "
        "containers switch TF32 on; these rows are scored as TF32. True FP32 on such cards is in the NeuSight"
        " rows only."
    ),
    (
        "**Small batches of forward passes (dle-infer).** Issuing kernels from Python sets the time, hence "
        "the host's processor, which the source does not fully describe."
    ),
    (
        "**AMD in FP32 (NeuSight's MI100 and MI250 rows).** Whether the library uses matrix or vector units, "
        "and how well, changes between its versions."
    ),
    (
        "**GPT-3 XL (NeuSight).** Seven rows were dropped after a first scoring, for their shape is not certain (24 heads of "
        "128 do not make a width of 2,048). They were between 37 % too fast and 19 % too slow then, 20 % in the mean."
    ),
    (
        "**Steps that contradict themselves (neusight-odd).** Six training steps of NeuSight whose forward takes more than "
        "0.65 of their backward were set apart after a first scoring: with them the mean error of NeuSight was 9.2 % at that "
        "time, without them 9.1 %."
    ),
    (
        "**What NeuSight timed.** Its script empties the allocator's cache before each pass, so that allocations of the driver "
        "are in the time; it never clears gradients, so that each backward adds to them. Neither is modelled. Until its script "
        "was read, training steps were scored without dropout, and forward passes of BERT with a head for masked words; both "
        "were corrected after scoring (mean error of NeuSight 9.6 % before)."
    ),
    (
        "**The draw of fitted rows changed once.** A plain hash was replaced by every third row in sorted order after it had "
        "left a software version of the A100 without a fitted row (docs/decisions/0012-a-third-of-the-steps.md)."
    ),
    (
        "**Not independent.** A row is one machine, one container, one afternoon. Rows of one source share "
        "scripts and mistakes."
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
        "container of 2020, whose cuDNN ran true FP32 SSD faster than later ones",
        lambda row: row.case.family == "ssd" and row.case.precision == "fp32" and row.case.year <= 2020,
    ),
    ("75 W: clock falls under load", lambda row: row.case.gpu == "p4"),
    ("72 W in true FP32: clock under the power limit", lambda row: row.case.gpu == "l4"),
    ("passively cooled", lambda row: row.case.gpu == "a40"),
    ("AMD in FP32: units used by the library unknown", lambda row: row.architecture.startswith("cdna")),
    ("first container for this card", lambda row: row.case.gpu.startswith("b200")),
    ("container of the chip's first year", _early_ampere),
    (
        "small batch: set by the host",
        lambda row: row.case.regime == "forward" and row.case.source == "dle-infer" and _batch(row) <= SMALL_BATCH,
    ),
    ("group width is not a power of two", lambda row: row.model.startswith("regnety")),
    ("depthwise convolutions", lambda row: row.model.startswith(("efficientnet", "mobilenet"))),
)
