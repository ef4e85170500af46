"""Name the optimizers of training steps, and say what of them a step's time does not hold."""

from __future__ import annotations

from typing import Final, Literal

OptimizerName = Literal[
    "adamw",
    "adamw-fused",
    "adamw-loop",
    "paged-adamw",
    "lamb",
    "adam8bit",
    "paged-adam8bit",
    "adam4bit",
    "ademamix",
    "ademamix8bit",
    "sgd",
    "sgd-momentum",
    "lars",
    "adagrad",
    "adafactor",
    "lion",
    "muon",
    "soap",
    "shampoo",
    "galore",
    "none",
]

OPTIMIZERS: Final = (
    "adamw", "adamw-fused", "adamw-loop", "paged-adamw", "lamb", "adam8bit", "paged-adam8bit", "adam4bit", "ademamix",
    "ademamix8bit", "sgd", "sgd-momentum", "lars", "adagrad", "adafactor", "lion", "muon", "soap", "shampoo", "galore", "none",
)  # fmt: skip

#: Optimizers that multiply matrices, which no host is priced for.
MULTIPLY: Final = ("muon", "soap", "shampoo", "galore")

#: Optimizer -> what a reader of its step time should know.
NOTES: Final = {
    "paged-adamw": "its state is priced on the card; pages that find no room there would move over PCIe in every step",
    "paged-adam8bit": "its state is priced on the card; pages that find no room there would move over PCIe in every step",
    "galore": "rank 128; new projections (a singular value decomposition of each matrix every 200 steps) are not in the step",
    "soap": "its bases are renewed every 10 steps, a tenth of that is in each; QR is priced as matrix products",
    "shampoo": "blocks of 1,024; new roots (an eigendecomposition of each block, every precondition_frequency steps) are not in "
    "the step",
}
