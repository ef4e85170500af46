"""Compare captured models with what PyTorch counts of them, and with roofsim's own families: docs/captures.md."""

from __future__ import annotations

import csv
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import roofsim
from roofsim.graph.base import HEAVY_KINDS, Phase
from roofsim.graph.ops import Copy
from roofsim.importers.captured.reading import read_capture
from roofsim.memory.profile import profile
from roofsim.records import dataclass
from roofsim.structures import program_of
from roofsim_evidence.markdown import table
from roofsim_evidence.pages import DocsPage, filled
from roofsim_evidence.places import measurements

if TYPE_CHECKING:
    from pathlib import Path

    from roofsim.graph.opgraph import OpGraph
    from roofsim.importers.captured.form import Capture

#: What libraries' code of vision transformers does otherwise than transformers', which the catalog has.
_TIMM: Final[dict[str, Any]] = {"model__fused_query_key_value": True}
_TORCHVISION: Final[dict[str, Any]] = _TIMM | {"model__query_key_value_stack": "copied"}
#: Captured model -> the catalog's model of the same network, the engine that runs it as its library does, and sizes.
FAMILIES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "gpt2": ("gpt2-124m", {"engine": "huggingface", "batch": 8, "seq_len": 1024}),
    "bert-base": ("bert-base", {"engine": "huggingface", "batch": 16, "seq_len": 512}),
    "distilbert": ("distilbert-base", {"engine": "huggingface", "batch": 16, "seq_len": 512}),
    "roberta": ("roberta-base", {"engine": "huggingface", "batch": 16, "seq_len": 512}),
    "opt-125m": ("opt-125m", {"engine": "huggingface", "batch": 8, "seq_len": 1024}),
    "resnet18": ("resnet18", {"batch": 64, "image_size": 224}),
    "resnet50": ("resnet50", {"batch": 64, "image_size": 224}),
    "vgg16": ("vgg16", {"batch": 64, "image_size": 224}),
    "densenet121": ("densenet121", {"batch": 64, "image_size": 224}),
    "mobilenet-v2": ("mobilenetv2-100", {"batch": 64, "image_size": 224}),
    "efficientnet-b0": ("efficientnet-b0", {"batch": 64, "image_size": 224}),
    "convnext-tiny": ("convnext-tiny", {"batch": 64, "image_size": 224}),
    "inception-v3": ("inception-v3", {"batch": 64, "image_size": 299}),
    "mobilenet-v3-small": ("mobilenetv3-small-100", {"batch": 64, "image_size": 224}),
    "regnet-y-400mf": ("regnety-004", {"batch": 64, "image_size": 224}),
    "swin-t": ("swin-tiny-patch4-window7-224", {"batch": 64, "image_size": 224}),
    "timm-resnext50": ("resnext50-32x4d", {"batch": 64, "image_size": 224}),
    "timm-seresnet50": ("seresnet50", {"batch": 64, "image_size": 224}),
    "timm-vit-base": ("vit-b16", {"batch": 64, "image_size": 224, **_TIMM}),
    "timm-swin-tiny": ("swin-tiny-patch4-window7-224", {"batch": 64, "image_size": 224}),
    "timm-beit-base": ("beit-base-patch16-224", {"batch": 64, "image_size": 224}),
    "timm-deit-tiny": ("vit-tiny-patch16-224", {"batch": 64, "image_size": 224, **_TIMM}),
    "vit-b-16": ("vit-b16", {"batch": 64, "image_size": 224, **_TORCHVISION}),
    "timm-mixer-b16": ("mixer-b16-224", {"batch": 64, "image_size": 224}),
    "sd15-unet": ("sd15-unet", {"batch": 4, "image_size": 64}),
}
PATH: Final = "docs/captures.md"
#: The card on which step times are compared.
CARD: Final = "h100-sxm5-80gb"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A captured model beside what PyTorch counts; ratios are of roofsim's count to PyTorch's."""

    name: str
    ops: int
    parameters: int
    parameters_counted: int
    forward: float
    backward: float
    saved: float


def folder() -> Path:
    """Return the folder of captures."""
    return measurements() / "captures"


def file_of(name: str) -> Path:
    """Return the file of a capture."""
    return folder() / f"{name}.roofsim.json.gz"


@cache
def counts() -> dict[str, dict[str, str]]:
    """Return the rows of the table of what PyTorch counts, by name."""
    with (folder() / "counts.csv").open(encoding="utf-8", newline="") as file:
        return {row["name"]: row for row in csv.DictReader(file)}


def captured() -> list[str]:
    """Return the names of the models that were captured."""
    return [name for name, row in counts().items() if not row["refused"]]


def graph_of(name: str, file: Path | None = None) -> OpGraph:
    """Return the graph of a training step at the size at which PyTorch counted: of the kept capture, or of the one in `file`."""
    file = file or file_of(name)
    row, (capture, _) = counts()[name], read_capture(file)
    size = {"tokens": "seq_len", "images": "image_size"}.get(capture.counted_in)
    sizes: dict[str, Any] = {"batch": int(row["batch"])} | ({} if size is None else {size: int(row["length"])})
    resolved = roofsim.resolve(file, gpu=CARD, precision="bf16", optimizer="none", **sizes)
    return program_of(resolved).stages[0].graph


def heavy_flops(graph: OpGraph, phase: Phase) -> float:
    """Return the FLOPs of products, convolutions and attention in a phase."""
    return float(graph.total(lambda op: op.flops() if op.phase is phase and op.group in HEAVY_KINDS else 0.0))


def compared(name: str, file: Path | None = None) -> Compared:
    """Return what roofsim counts of the kept capture, or of the one in `file`, against PyTorch."""
    row, graph = counts()[name], graph_of(name, file)
    capture, _ = read_capture(file or file_of(name))
    parameters = sum(tensor.numel * times for tensor, times in graph.parameters().items())
    unread = _unread(capture)
    return Compared(
        name=name,
        ops=len(capture.ops),
        parameters=int(parameters) + unread,
        parameters_counted=int(row["parameters"]),
        forward=_ratio(heavy_flops(graph, Phase.FORWARD), float(row["forward_flops"])),
        backward=_ratio(heavy_flops(graph, Phase.BACKWARD), float(row["backward_flops"])),
        saved=_ratio(float(profile(graph).saved_activations), float(row["saved_bytes"])),
    )


def _ratio(counted: float, wanted: float) -> float:
    return counted / wanted if wanted else 1.0 if counted == 0.0 else float("inf")


def _unread(capture: Capture) -> int:
    """Return the parameters that no op of the program reads: heads that a loss does without."""
    read = {number for op in capture.ops for number in op.reads}
    read |= {tensor.base for tensor in capture.tensors if tensor.base is not None}
    total = 0
    for number, tensor in enumerate(capture.tensors):
        if tensor.role == "parameter" and number not in read:
            product = 1
            for size in tensor.shape:
                assert isinstance(size, int)
                product *= size
            total += product
    return total


def copied(name: str) -> int:
    """Return how many gradients a training step copies, as their views do not show them in the shape before."""
    return sum(
        round(float(op.repeats))
        for op in graph_of(name).ops
        if op.phase is Phase.BACKWARD
        and isinstance(op, Copy)
        and op.name.rstrip(".0123456789").endswith("copy_gradient")
    )


def copied_by_pytorch(name: str) -> int:
    """Return how many tensors the captured backward pass copies."""
    capture, _ = read_capture(file_of(name))
    return int(capture.backward.get("aten.clone", 0))


def beside_family(name: str) -> tuple[float, float]:
    """Return step times (seconds) of a capture and of the catalog's model, run alike."""
    model, asked = FAMILIES[name]
    sizes = {key: value for key, value in asked.items() if not key.startswith("model__")}
    own, family = (
        roofsim.run(given, gpu=CARD, precision="bf16", **words)
        for given, words in ((file_of(name), sizes), (model, asked))
    )
    return float(own.step_time), float(family.step_time)


#: How far saved bytes and step times may be off before the page says so.
SAVED_WITHIN: Final = 0.01
STEP_WITHIN: Final = 0.03


@cache
def all_compared() -> tuple[Compared, ...]:
    """Return every captured model beside what PyTorch counts."""
    return tuple(compared(name) for name in captured())


@cache
def step_ratios() -> dict[str, float]:
    """Return, of models that a family describes too, the step time of the capture against that of the family."""
    ratios = {}
    for name in FAMILIES:
        if name in captured():
            own, family = beside_family(name)
            ratios[name] = own / family
    return ratios


def listed() -> str:
    """Return the table in Markdown: a row for each captured model."""
    rows = []
    for one in all_compared():
        equal = "equal" if one.parameters == one.parameters_counted else f"{one.parameters - one.parameters_counted:+,}"
        step = step_ratios().get(one.name)
        rows.append(
            (
                one.name,
                f"{one.ops:,}",
                f"{one.parameters_counted:,}",
                equal,
                _off(one.forward),
                _off(one.backward),
                _off(one.saved),
                "" if step is None else _off(step),
            )
        )
    heads = (
        "model",
        "ops",
        "parameters",
        "counted",
        "FLOPs forward",
        "backward",
        "bytes saved",
        "step against the family",
    )
    return table(heads, rows)


def _off(ratio: float) -> str:
    """Return how far a ratio is from one: ``equal`` to six digits, else in percent."""
    return "equal" if abs(ratio - 1.0) < 5e-7 else f"{ratio - 1.0:+.3%}"


def page() -> DocsPage:
    """Return the page."""
    every, ratios = all_compared(), step_ratios()
    refused = [f"{name}: {row['refused']}" for name, row in counts().items() if row["refused"]]
    versions = next(row for row in counts().values() if row["torch"])
    return DocsPage(
        path=PATH,
        text=filled(
            "captures.md",
            table=listed(),
            number=len(every),
            copies=sum(copied(name) == copied_by_pytorch(name) for name in captured()),
            parameters=sum(one.parameters == one.parameters_counted for one in every),
            flops=sum(abs(one.forward - 1.0) < 5e-7 and abs(one.backward - 1.0) < 5e-7 for one in every),
            saved=sum(abs(one.saved - 1.0) <= SAVED_WITHIN for one in every),
            families=len(ratios),
            steps=sum(abs(ratio - 1.0) <= STEP_WITHIN for ratio in ratios.values()),
            refused=refused,
            torch=versions["torch"],
        ),
    )
