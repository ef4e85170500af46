"""Optimizers in the spellings of frameworks, and those that have none here."""

from __future__ import annotations

from typing import get_args

import pytest

from roofsim.api import resolve
from roofsim.errors import SpecError
from roofsim.spec.reading.spoken import OPTIMIZERS
from roofsim.spec.scenario.workload import OptimizerName

#: transformers 5.23.0, training_args.OptimizerNames, that a method here stands for; bitsandbytes', DeepSpeed's and Apex's classes.
SPOKEN = {
    "adamw_torch": "adamw",
    "adamw_torch_fused": "adamw-fused",
    "adamw_apex_fused": "adamw-fused",
    "adamw_bnb_8bit": "adam8bit",
    "adamw_8bit": "adam8bit",
    "adamw8bit": "adam8bit",
    "AdamW8bit": "adam8bit",
    "paged_adamw": "paged-adamw",
    "paged_adamw_32bit": "paged-adamw",
    "paged_adamw_8bit": "paged-adam8bit",
    "PagedAdamW8bit": "paged-adam8bit",
    "ademamix_8bit": "ademamix8bit",
    "galore_adamw": "galore",
    "FusedAdam": "adamw-fused",
    "AdamW": "adamw",
    "SGD": "sgd",
}


@pytest.mark.parametrize(("spelling", "name"), SPOKEN.items())
def test_spellings(spelling, name):
    assert resolve("gpt2-124m", gpu="h100", optimizer=spelling).workload.optimizer == name


def test_every_spelling_stands_for_an_optimizer():
    assert set(OPTIMIZERS.values()) <= set(get_args(OptimizerName))


@pytest.mark.parametrize("unknown", ["lomo", "adamww", ""])
def test_others_are_refused(unknown):
    with pytest.raises(SpecError, match=r"workload\.optimizer"):
        resolve("gpt2-124m", optimizer=unknown)
