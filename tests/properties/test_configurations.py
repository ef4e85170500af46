"""Hostile configurations: each gives a model that the schema accepts, or one located error; never anything else."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roofsim.errors import SpecError
from roofsim.importers.huggingface import imported
from roofsim.spec.model.registry import family_schema
from roofsim.spec.reading.source import from_mapping
from roofsim.spec.reading.validate import validate
from tests.importers import test_quantization as checkpoints

PUBLISHED = [
    entry["config"]
    for name in ("published.json", "published_newer.json")
    for entry in json.loads((Path(__file__).parents[1] / "importers" / name).read_text(encoding="utf-8"))
]
QUANTISED = [
    {**checkpoints.LLAMA_8B, "torch_dtype": "bfloat16", "quantization_config": given}
    for given in (
        checkpoints.AWQ, checkpoints.GPTQ, checkpoints.BLOCKS, checkpoints.NF4, checkpoints.W4A16, checkpoints.W8A8,
        checkpoints.FP8_DYNAMIC, checkpoints.MODELOPT, checkpoints.MXFP4, {"quant_method": "exl2", "bits": 4.0},
        {"quant_method": "exl3", "bits": 3.5, "head_bits": 6},
    )
]  # fmt: skip
HOSTILE: st.SearchStrategy[Any] = st.sampled_from([
    0, -1, 1, 3, 10**12, 10**400, 0.5, -0.0, 1e300, float("inf"), float("nan"), True, False, None, "", "a", "\x00", "[/x]",
    [], [0], [0, 0], [-1, 2], ["a"], [[]], {}, {"a": 1}, {"num_bits": 4}, "re:(", ["re:(a*)*b"], "float8_e4m3fn",
])  # fmt: skip


def paths(data, at=()):
    """Return every key path of a configuration."""
    for key, value in data.items():
        yield (*at, key)
        if isinstance(value, dict):
            yield from paths(value, (*at, key))


@st.composite
def configurations(draw):
    config = copy.deepcopy(draw(st.sampled_from([*PUBLISHED, *QUANTISED, *QUANTISED])))
    for path in draw(st.lists(st.sampled_from(list(paths(config))), min_size=1, max_size=3, unique=True)):
        at = config
        for key in path[:-1]:
            at = at.get(key) if isinstance(at, dict) else None
        if not isinstance(at, dict):
            continue
        if draw(st.booleans()):
            at[path[-1]] = draw(HOSTILE)
        else:
            at.pop(path[-1], None)
    return config


@settings(max_examples=600, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(configurations())
def test_hostile_configurations_are_read_or_refused(config):
    try:
        model_read = imported(config, "x/config.json")
        model = validate(family_schema(model_read.mapping["family"]), from_mapping(model_read.mapping))
    except SpecError:
        return
    assert model.completed() == model.completed()
    if model.stored is not None and not model.stored.unread:
        model.stored.weight_format()
