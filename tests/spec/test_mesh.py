"""Numbers of a scenario replaced by arrays: every word that names a size is heard."""

from __future__ import annotations

import numpy as np
import pytest

from roofsim import run
from roofsim.api import resolve
from roofsim.errors import SpecError
from roofsim.evaluate import evaluate
from roofsim.spec.mesh import axes, with_values

DECODE = {"phase": "decode", "context_length": 100, "engine": "vllm", "gpu": "h100"}
GENERATE = {"phase": "generate", "prompt_length": 100, "output_length": 10, "engine": "vllm", "gpu": "h100"}


@pytest.mark.parametrize(
    ("model", "workload", "key"),
    [
        ("llama3-8b", DECODE, "batch_size"),
        ("llama3-8b", DECODE, "micro_batch_size"),
        ("llama3-8b", DECODE, "context_length"),
        ("llama3-8b", GENERATE, "prompt_length"),
        ("llama3-8b", GENERATE, "output_length"),
        ("mixtral-8x7b", DECODE, "batch_size"),
        ("deepseek-v2-lite", DECODE, "batch_size"),
        ("resnet50", {"phase": "forward", "gpu": "h100"}, "batch_size"),
    ],
)
def test_sizes_of_inference_sweep_as_single_runs(model, workload, key):
    values = [1, 7, 200]
    (along,) = axes([values])
    swept = evaluate(with_values(resolve(model, **workload), {f"workload.{key}": along})).step.step
    single = [run(model, **(workload | {key: value})).to_dict()["step_time"] for value in values]
    np.testing.assert_allclose(swept, single, rtol=1e-9)


def test_what_is_no_number_is_refused():
    with pytest.raises(SpecError, match="Did you mean 'batch_size'"):
        with_values(resolve("llama3-8b", **DECODE), {"workload.batch_sizes": np.ones(3)})
