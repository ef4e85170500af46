"""Export usual networks by torch.export without their weights, and count them with PyTorch.

Run as ``python -m roofsim_evidence.exports.make_pt2``.
Needs what `make_onnx` needs, whose networks these are. Of an archive the program's JSON is kept, and of its nodes what
they are and
where they come from.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
import warnings
import zipfile
from typing import TYPE_CHECKING, Any, Final

import torch

from roofsim_evidence.exports.make_counts import HOME, written
from roofsim_evidence.exports.make_onnx import NETS, counted

if TYPE_CHECKING:
    from pathlib import Path

#: Name -> the network of `make_onnx`, and whether its ops are core ATen or those of the training IR.
EXPORTED: Final = {
    "resnet18": ("resnet18", False),
    "resnet50": ("resnet50", True),
    "mobilenet-v2": ("mobilenet-v2", True),
    "vgg16": ("vgg16", False),
    "bert-base": ("bert-base", False),
    "llama": ("llama-dynamo", True),
}


def stripped(archive: io.BytesIO) -> bytes:
    """Return an archive with the program alone."""
    with zipfile.ZipFile(archive) as whole:
        name = next(each for each in whole.namelist() if "/models/" in each and each.endswith(".json"))
        program = json.loads(whole.read(name))
    for node in program["graph_module"]["graph"]["nodes"]:
        about = node["metadata"]
        lines = [line for line in about.get("stack_trace", "").splitlines() if line.strip().startswith("File ")]
        node["metadata"] = {"nn_module_stack": about.get("nn_module_stack", "").split(";")[-1]}
        if lines:
            place, line = lines[-1].strip().split(", ")[:2]
            node["metadata"]["stack_trace"] = f'File "{"/".join(place.split("/")[-2:])}, {line}'.replace('""', '"')
    program["guards_code"] = []
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as kept:
        kept.writestr(zipfile.ZipInfo("model/models/model.json"), json.dumps(program))
    return out.getvalue()


def made(name: str, home: Path = HOME) -> dict[str, Any]:
    """Export a network, write its file into a folder, and return its row."""
    own, core = EXPORTED[name]
    net = NETS[own]
    module = net.make().eval()
    given = net.inputs(net.batch, net.length)
    most = {"sequence": 512}
    shapes = tuple({at: torch.export.Dim(axis, max=most.get(axis)) for at, axis in axes.items()} for axes in net.axes)
    exported = torch.export.export(module, given, dynamic_shapes=dict(zip(_names(module), shapes, strict=True)))
    exported = exported.run_decompositions() if core else exported
    archive = io.BytesIO()
    torch.export.save(exported, archive)
    with (home / f"{name}.pt2.gz").open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        packed.write(stripped(archive))
    _, flops = counted(module, given)
    return {
        "name": name,
        "form": "pt2",
        "counted_in": "images" if net.length == 224 else "tokens",
        "batch": net.batch,
        "length": net.length,
        "parameters": sum(parameter.numel() for parameter in module.parameters()),
        "flops": flops,
        "made_by": f"torch {torch.__version__}, {'core ATen' if core else 'training IR'}",
    }


def _names(module: Any) -> list[str]:
    import inspect

    return list(inspect.signature(module.forward).parameters)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for each in sys.argv[1:] or EXPORTED:
        try:
            written([made(each)])
            print(each, (HOME / f"{each}.pt2.gz").stat().st_size)
        except Exception as error:
            print(f"{each}: {type(error).__name__}: {str(error)[:600]}")
