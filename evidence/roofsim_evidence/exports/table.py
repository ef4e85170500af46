"""Compare exported programs with independent counts, and with roofsim's own families: docs/exports.md."""

from __future__ import annotations

import csv
import gzip
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

import roofsim
from roofsim.graph.base import HEAVY_KINDS
from roofsim.records import dataclass
from roofsim.structures import program_of
from roofsim_evidence.markdown import table
from roofsim_evidence.pages import DocsPage, filled
from roofsim_evidence.places import measurements

#: Exported program -> the catalog's model of the same network, and how both are run.
FAMILIES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "resnet18.onnx": ("resnet18", {"engine": "onnxruntime", "batch": 64, "image_size": 224}),
    "resnet50.onnx": ("resnet50", {"engine": "onnxruntime", "batch": 64, "image_size": 224}),
    "resnet50-dynamo.onnx": ("resnet50", {"engine": "onnxruntime", "batch": 64, "image_size": 224}),
    "vgg16.onnx": ("vgg16", {"engine": "onnxruntime", "batch": 64, "image_size": 224}),
    "densenet121.onnx": ("densenet121", {"engine": "onnxruntime", "batch": 64, "image_size": 224}),
    "mobilenet-v2.onnx": ("mobilenetv2-100", {"engine": "onnxruntime", "batch": 64, "image_size": 224}),
    "efficientnet-b0.onnx": ("efficientnet-b0", {"engine": "onnxruntime", "batch": 64, "image_size": 224}),
    "convnext-tiny.onnx": ("convnext-tiny", {"engine": "onnxruntime", "batch": 64, "image_size": 224}),
    "deit-tiny.onnx": ("vit-tiny-patch16-224", {"engine": "onnxruntime", "batch": 64, "image_size": 224}),
    "bert-base.onnx": ("bert-base", {"engine": "onnxruntime", "batch": 16, "seq_len": 512}),
    "bert-base-dynamo.onnx": ("bert-base", {"engine": "onnxruntime", "batch": 16, "seq_len": 512}),
    "resnet18.pt2": ("resnet18", {"batch": 64, "image_size": 224}),
    "resnet50.pt2": ("resnet50", {"batch": 64, "image_size": 224}),
    "mobilenet-v2.pt2": ("mobilenetv2-100", {"batch": 64, "image_size": 224}),
    "vgg16.pt2": ("vgg16", {"batch": 64, "image_size": 224}),
    "gpt2.onnx": ("gpt2-124m", {"engine": "onnxruntime", "batch": 8, "seq_len": 1024}),
}
PATH: Final = "docs/exports.md"
#: The card on which step times are compared.
CARD: Final = "h100-sxm5-80gb"
#: How far a step may be off that of the family before the page says so.
STEP_WITHIN: Final = 0.03


@dataclass(frozen=True, kw_only=True)
class ComparedExport:
    """An exported program beside what was counted of it where it was made."""

    file: str
    ops: int
    parameters: int
    parameters_counted: int
    flops: float
    flops_counted: float

    @property
    def ratio(self) -> float:
        """FLOPs against those that were counted."""
        return self.flops / self.flops_counted


@cache
def counts() -> dict[str, dict[str, str]]:
    """Return the table of counts, by the name of the file."""
    with (measurements() / "exports" / "counts.csv").open(encoding="utf-8", newline="") as file:
        return {f"{row['name']}.{row['form']}": row for row in csv.DictReader(file)}


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


@cache
def file_of(file: str) -> Path:
    """Return an exported file, unpacked."""
    return unpacked(measurements() / "exports" / f"{file}.gz", Path(_folder().name))


def unpacked(packed: Path, home: Path) -> Path:
    """Unpack a compressed file into a folder, and return what it is there."""
    path = home / packed.name.removesuffix(".gz")
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    return path


def sizes_of(file: str) -> dict[str, Any]:
    """Return the sizes at which a program was counted, as roofsim takes them."""
    row = counts()[file]
    length = {"images": "image_size", "tokens": "seq_len"}.get(row["counted_in"])
    return {"batch": int(row["batch"])} | ({} if length is None else {length: int(row["length"])})


@cache
def compared(file: str, path: Path | None = None) -> ComparedExport:
    """Return what roofsim counts of the kept program, or of the one in `path`, against what was counted where it was made."""
    row = counts()[file]
    resolved = roofsim.resolve(
        path or file_of(file), gpu=CARD, precision="bf16", engine="pytorch-eager", **sizes_of(file)
    )
    graph = program_of(resolved).stages[0].graph
    parameters = sum(tensor.numel * times for tensor, times in graph.parameters().items())
    return ComparedExport(
        file=file,
        ops=len(graph),
        parameters=int(parameters),
        parameters_counted=int(row["parameters"]),
        flops=float(graph.total(lambda op: op.flops() if op.group in HEAVY_KINDS else 0.0)),
        flops_counted=float(row["flops"]),
    )


@cache
def beside_family(file: str) -> tuple[float, float]:
    """Return step times (seconds) of an exported program and of the catalog's model, run alike."""
    model, asked = FAMILIES[file]
    own, family = (
        roofsim.run(given, gpu=CARD, precision="bf16", phase="forward", **asked) for given in (file_of(file), model)
    )
    return float(own.step_time), float(family.step_time)


def listed() -> str:
    """Return the table in Markdown: a row for each exported program."""
    rows = []
    for file, row in counts().items():
        one = compared(file)
        step = None
        if file in FAMILIES:
            own, family = beside_family(file)
            step = own / family
        equal = "equal" if one.parameters == one.parameters_counted else f"{one.parameters - one.parameters_counted:+,}"
        rows.append(
            (
                file,
                row["made_by"],
                f"{one.ops:,}",
                f"{one.parameters_counted:,}",
                equal,
                f"{one.flops_counted:,.0f}",
                _off(one.ratio),
                "" if step is None else _off(step),
            )
        )
    heads = ("file", "made by", "ops", "parameters", "in the file", "FLOPs", "counted", "step against the family")
    return table(heads, rows)


def _off(ratio: float) -> str:
    """Return how far a ratio is from one: ``equal`` to six digits, else in percent."""
    return "equal" if abs(ratio - 1.0) < 5e-7 else f"{ratio - 1.0:+.3%}"


def page() -> DocsPage:
    """Return the page."""
    every = [compared(file) for file in counts()]
    steps = [own / family for own, family in map(beside_family, FAMILIES)]
    return DocsPage(
        path=PATH,
        text=filled(
            "exports.md",
            table=listed(),
            number=len(every),
            parameters=sum(one.parameters == one.parameters_counted for one in every),
            flops=sum(abs(one.ratio - 1.0) < 5e-7 for one in every),
            families=len(steps),
            steps=sum(abs(ratio - 1.0) <= STEP_WITHIN for ratio in steps),
        ),
    )
