"""Capture the models of the list, and count each in PyTorch's own words: ``python -m roofsim_evidence.captures.make [NAME ...]``.

Needs torch, transformers, torchvision, timm and diffusers; roofsim itself needs none of them. Writes the captures and their row of
the table `counts.csv` into ``evidence/measurements/captures``. Beside parameters, the table has what `FlopCounterMode` counts and
the bytes that saved-tensor hooks see of an ordinary run over fake tensors at the largest size of each capture.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count

from roofsim.capture import main as script
from roofsim.capture.record import AsOnGpu, tensors_in, walk_back
from roofsim.capture.values import KnownValues
from roofsim.importers.captured.sizes import CaptureError
from roofsim_evidence.captures.models import MODELS


def gradients_of(
    grad: Any,
    x: Any,
    weight: Any,
    _bias: Any,
    _stride: Any,
    _padding: Any,
    _dilation: Any,
    transposed: Any,
    *rest: Any,
    **_: Any,
) -> int:
    """Return the FLOPs of a convolution's gradients: each costs what the forward pass does; `FlopCounterMode` forgets groups."""
    mask = rest[2]
    return int(conv_flop_count(x, weight, grad, transposed)) * (int(mask[0]) + int(mask[1]))


MAPPING: Final = {torch.ops.aten.convolution_backward: gradients_of}
HOME: Final = Path(__file__).resolve().parents[2] / "measurements" / "captures"
COLUMNS: Final = (
    "name", "batch", "length", "parameters", "forward_flops", "backward_flops", "saved_bytes", "refused", "torch", "libraries",
)  # fmt: skip
BATCHES: Final = (2, 3)


def counted(name: str) -> dict[str, Any]:
    """Return what PyTorch counts of a model at its largest size: parameters, FLOPs of both passes, bytes kept."""
    entry, mode = MODELS[name], FakeTensorMode(allow_non_fake_inputs=True)
    kept: dict[int, Any] = {}
    with torch.backends.cudnn.flags(enabled=False):
        torch._C._ensureCUDADeviceGuardSet()
        module = script.on_fake_gpu(script.made_by(entry.model, mode), mode, torch.bfloat16).train()
        with script.as_in_a_run(), mode, torch.device("cuda"):
            given = entry.inputs(BATCHES[-1], entry.length[-1])
            named = given if isinstance(given, dict) else {}
            plain = () if named else tuple(script.typed(value, torch.bfloat16) for value in given)
            named = {key: script.typed(value, torch.bfloat16) for key, value in named.items()}
            stand = [*module.parameters(), *module.buffers(), *tensors_in([*plain, *named.values()])]
            known = {tensor.untyped_storage()._cdata for tensor in stand}

            def keep(tensor: Any) -> Any:
                storage = tensor.untyped_storage()
                if storage._cdata not in known:
                    kept[storage._cdata] = storage
                return tensor

            forward, backward = (FlopCounterMode(display=False, custom_mapping=MAPPING) for _ in range(2))
            with (
                KnownValues(),
                AsOnGpu(),
                torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
                forward,
            ):
                loss = script.loss_of(entry.step(module, *plain, **named))
            with backward:
                walk_back(loss)
    return {
        "name": name,
        "batch": BATCHES[-1],
        "length": entry.length[-1],
        "parameters": sum(parameter.numel() for parameter in module.parameters()),
        "forward_flops": forward.get_total_flops(),
        "backward_flops": backward.get_total_flops(),
        "saved_bytes": sum(storage.nbytes() for storage in kept.values()),
    }


def made(name: str, home: Path = HOME) -> dict[str, Any]:
    """Capture a model, write the file into a folder, and return its row; of one that can't be captured, why."""
    entry = MODELS[name]
    try:
        captured = script.capture(
            entry.model,
            entry.inputs,
            entry.step,
            batch=BATCHES,
            length=entry.length,
            counted_in=entry.counted_in,
            name=name,
        )
    except CaptureError as error:
        return {"name": name, "batch": BATCHES[-1], "length": entry.length[-1], "refused": str(error)}
    script.save(captured, home / f"{name}.roofsim.json.gz")
    versions = dict(captured["made_by"])
    own = {"torch": versions.pop("torch"), "libraries": " ".join(f"{key} {value}" for key, value in versions.items())}
    return counted(name) | own


def main(names: list[str]) -> None:
    """Capture the models named, or all, and put their rows into the table."""
    HOME.mkdir(parents=True, exist_ok=True)
    path, rows = HOME / "counts.csv", {}
    for name in names or list(MODELS):
        try:
            row = made(name)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}")
            continue
        if path.exists():
            with path.open(encoding="utf-8", newline="") as file:
                rows = {each["name"]: each for each in csv.DictReader(file)}
        rows[name] = row
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows[each] for each in MODELS if each in rows)
        print(name, row.get("refused") or f"{row['parameters']:,} parameters")


if __name__ == "__main__":
    main(sys.argv[1:])
