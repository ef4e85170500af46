"""Count parameters and FLOPs of models that the catalog lists layer by layer, by the libraries themselves, without a GPU.

Runs where torch and the library of the row are: torchvision, timm, transformers, diffusers, ultralytics, monai,
torch_geometric or torchrec (not in roofsim's own environment); `counting` itself needs transformers:

    python benchmarks/library/count_listed.py > tests/lower/listed_reference.csv
    python benchmarks/library/count_listed.py gemma3-4b-vision      # one row

Cases stand in the modules ``cases_*.py`` beside it. Models are built over fake tensors: shapes, types and storages,
no values; on CUDA, or where PyTorch is a build for the CPU there (which runs LSTMs by a kernel that its counter does
not know: rows of such models come from a build for CUDA; its norms are stood in for).
`parameters` are those of the whole model, FLOPs those of one sample, as `FlopCounterMode` counts them: `products` of
linear layers, experts and convolutions, `attention` of attention kernels (whole score matrices). `part` says what of a
model is counted: ``tower`` is the image part of a vision-language model; of ``all``, attention runs as products and is
counted with them; of a ``hybrid``, what scans compute inside of their kernels is left out, whose functions are stood in
for (`kernels`); of ``chunks`` it runs as products and is counted with them. `saved` are the bytes that autograd keeps
of a training step of two samples in bf16 (one by itself needs fewer copies): distinct storages that lead back from the
end of the step, parameters, buffers and inputs apart; `loss` says whether that of training is among them (it is not
where targets are found on the host; of a tower the ``sum`` of its result is the end). `size` are the tokens of a sample
where it is not the model's usual size.

Last run: towers, hybrids, volumes, graphs, diffusion models of images, detectors, recommenders, embedding models and
Wav2Vec2-Conformer torch 2.13.0 for the CPU, transformers 5.23.0, diffusers 0.42.1, torchvision 0.28.0, monai 1.6.1, torch_geometric
2.8.1, torchrec 1.9.2 with fbgemm_gpu_cpu 1.8.0; others torch 2.14.1 (Gemma 3n: 2.13.0), torchvision 0.29.1, transformers 5.23.0,
diffusers 0.42.1, ultralytics 8.4.190, timm 1.0.31.
"""

from __future__ import annotations

import csv
import sys

import cases_detectors
import cases_diffusion
import cases_graphs
import cases_hybrids
import cases_images
import cases_recommenders
import cases_tokens
import cases_towers
import cases_video
import cases_volumes
from counting import count, none, saved, tower

COLUMNS = ("model", "source", "part", "parameters", "products", "attention", "loss", "saved", "size")
MODULES = (
    cases_hybrids, cases_tokens, cases_towers, cases_video, cases_images, cases_volumes, cases_graphs, cases_diffusion,
    cases_detectors, cases_recommenders,
)  # fmt: skip
CASES = {name: case for module in MODULES for name, case in module.CASES.items()}
LOSSES = {name: loss for module in MODULES for name, loss in getattr(module, "LOSSES", {}).items()}
SIZES = {name: size for module in MODULES for name, size in getattr(module, "SIZES", {}).items()}
#: What a row says of its loss, where it is not that of training.
WRITTEN = {none: "left out", tower: "sum"}


def main() -> None:
    """Write a row of each model, or of those that are named."""
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for name in sys.argv[1:] or CASES:
        source, part, *_ = CASES[name]
        row = {"model": name, "source": source, "part": part, "size": SIZES.get(name, "")} | count(CASES[name])
        if name in LOSSES:
            row |= {
                "loss": WRITTEN.get(LOSSES[name], "included"),
                "saved": saved(CASES[name], LOSSES[name]),
            }
        writer.writerow(row)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
