"""Data accepted in Python is data that pydantic accepts, with the same result; everything else is pydantic's to judge."""

from __future__ import annotations

import copy
import json
import pickle
import random
from functools import cache
from typing import Any

import pydantic
import pytest

from roofsim.schema.accept import UnsureError, accepted
from roofsim.schema.reference import checked_json
from roofsim.spec import catalog
from roofsim.spec.constants.kernels import Constants
from roofsim.spec.constants.links import Links
from roofsim.spec.engine.schema import Engine
from roofsim.spec.hardware.architecture import Architecture
from roofsim.spec.hardware.schema import Gpu, System
from roofsim.spec.model.registry import family_schema
from roofsim.spec.reading.quantity import SI
from roofsim.spec.reading.source import read_yaml
from roofsim.spec.scenario.offload import Offload
from roofsim.spec.scenario.workload import Parallel, Scenario, Workload

SCHEMAS = {"gpu": Gpu, "system": System, "engine": Engine, "architecture": Architecture}
CONSTANTS = {"kernels": Constants, "links": Links}
SCENARIO = {
    "model": "gpt",
    "workload": {
        "phase": "train", "micro_batch_size": "4k", "global_batch_size": 16, "sequence_length": "2,048", "dropout": 0,
        "precision": {"compute": "bf16", "parameters": "fp32"}, "recompute": {"policy": "full", "every": 2},
        "adapter": {"kind": "lora", "rank": 8, "targets": ["query"]},
        "engine_facts": {"cross_entropy": "fused", "x": [1, {"y": None}]},
        "request_rate": 3, "checkpoint": {"every": 500},
    },
    "parallel": {
        "tensor": 8, "stage_layers": [10, 12], "sharding": {"full": 8}, "offload": {"parameters": {"host": 0.5}}, "sequence": True,
        "expert_imbalance": 2,
    },
    "hardware": {"gpu": 4090, "gpus": "1k", "override": {"gpu.memory.bandwidth": "3 TB/s"}, "mtbf": "5 h", "jitter": 0},
}  # fmt: skip
#: What may stand where something else belongs.
ODD = [
    None, True, 0, -1, 3, 3.0, 2.5, 10**20, float("nan"), float("inf"), "", "8", "x", "3 TB/s", "none", [], [1], ["a"], {},
    {"a": 1},
]  # fmt: skip


def documents():
    for kind, schema in SCHEMAS.items():
        plain: Any = kind
        for name in catalog.names(plain):
            yield f"{kind}/{name}", schema, catalog.load(plain, name).data
    for name in catalog.names("model"):
        data = {"name": name, **catalog.load("model", name).data}
        yield f"model/{name}", family_schema(data["family"]), data
    for name, schema in CONSTANTS.items():
        matches = [path for path in (catalog.root() / "hardware" / "constants").glob("*.yaml") if _has(path, schema)]
        for path in matches:
            yield f"constants/{name}/{path.stem}", schema, read_yaml(path).data
    yield "scenario", Scenario, SCENARIO


def _has(path, schema):
    data = read_yaml(path).data
    return set(data) <= {field.alias or name for name, field in schema.model_fields.items()}


@cache
def read_documents() -> list[tuple[str, Any, Any]]:
    """Read them when a test asks, as every worker collects this file."""
    return list(documents())


def judged(schema, data):
    try:
        return checked_json(schema, json.dumps(data), strict=True, context={SI: False})
    except pydantic.ValidationError:
        return None


def same(one, other):
    assert one == other
    assert repr(one) == repr(other)  # 3 is 3.0, but not the same
    assert one.model_fields_set == other.model_fields_set


def test_every_file_of_the_catalog_is_accepted_without_pydantic():
    assert len(read_documents()) > 300
    for name, schema, data in read_documents():
        if name == "scenario":
            continue
        try:
            accepted(schema, data, {SI: False})
        except UnsureError as error:
            pytest.fail(f"{name}: {error}")


def test_what_is_accepted_is_what_pydantic_makes_of_it():
    seen = set()
    for _, schema, data in read_documents():
        keys = (schema, *sorted(map(str, data)))
        if keys not in seen:
            seen.add(keys)
            same(accepted(schema, data, {SI: False}), judged(schema, data))
    assert len(seen) > 50


def parents(data, path=()):
    """Yield every mapping and list in data, with the way to it."""
    if isinstance(data, dict | list):
        yield data
        for below in data.values() if isinstance(data, dict) else data:
            yield from parents(below)


@pytest.mark.parametrize("seed", range(6))
def test_what_pydantic_refuses_is_not_accepted(seed):
    chance = random.Random(seed)
    pool = [document for document in read_documents() if len(json.dumps(document[2])) < 6000]
    accepted_changes = 0
    for _ in range(250):
        name, schema, data = read_documents()[-1] if chance.random() < 0.4 else chance.choice(pool)
        changed = copy.deepcopy(data)
        for _ in range(chance.choice((1, 1, 2))):
            place = chance.choice([each for each in parents(changed) if each] or [changed])
            key = chance.choice(list(place)) if isinstance(place, dict) else chance.randrange(len(place))
            action = chance.random()
            if action < 0.15 and isinstance(place, dict):
                del place[key]
            elif action < 0.25 and isinstance(place, dict):
                place["unheard_of"] = 1
            else:
                place[key] = copy.deepcopy(chance.choice(ODD))
        try:
            ours = accepted(schema, changed, {SI: False})
        except UnsureError:
            continue
        accepted_changes += 1
        theirs = judged(schema, changed)
        assert theirs is not None, (name, changed)
        same(ours, theirs)
    assert accepted_changes > 10


def test_an_instance_is_frozen_compared_by_value_and_copied():
    one, other = Offload(gradients="host"), Offload(gradients="host")
    assert one == other
    assert hash(one) == hash(other)
    assert one != Offload()
    assert one.model_fields_set == {"gradients"}
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == copy.copy(one) == one
    for key in ("gradients", "layers"):
        with pytest.raises(AttributeError, match="frozen"):
            setattr(one, key, "none")
    changed = one.model_copy(update={"layers": 3})
    assert (changed.layers, one.layers, changed.model_fields_set) == (3, None, {"gradients", "layers"})
    assert repr(one).startswith("Offload(parameters='none', layers=None")


def test_what_python_gives_is_checked_as_strictly():
    nested = Parallel(offload=Offload(gradients="host"), stage_layers=(1, 2))
    assert nested.model_dump()["offload"]["gradients"] == "host"
    for wrong in ({"tensor": 0}, {"sequence": 1}, {"nothing": 1}, {"stage_layers": [1.5]}):
        with pytest.raises(pydantic.ValidationError):
            Parallel(**wrong)
    with pytest.raises(pydantic.ValidationError, match="mean the same"):
        Workload(micro_batch_size=2, batch_size=3)


def test_a_dump_leaves_out_what_is_asked():
    scenario = Scenario(model="gpt", workload=Workload(phase="forward"))
    assert scenario.model_dump(exclude_unset=True) == {"model": "gpt", "workload": {"phase": "forward"}}
    assert "units" not in scenario.model_dump(exclude={"units"})
