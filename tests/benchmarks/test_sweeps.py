"""The benchmarks of sweeps ask what can be answered."""

import numpy as np
import pytest

import roofsim
from benchmarks.sweep_growth import DECODER, MODELS, axes_of


@pytest.mark.parametrize("name", [*MODELS, ""])
def test_what_is_swept_is_possible(name):
    model = name or DECODER | {"num_layers": 2}
    axes = axes_of(name or "llama3-8b", 16.0)
    swept = roofsim.sweep(model, axes, figures=["step_time"], gpu=MODELS[name or "llama3-8b"]["gpu"], precision="bf16")
    assert swept.feasible.all()
    assert len(swept) == np.prod([len(values) for values in axes.values()])
