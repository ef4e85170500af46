"""Take a scenario apart into the notes that flags are written from: `derive` the other way round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Problem, SpecError
from roofsim.importers.launch.derive import dealt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roofsim.importers.launch.table import FlagTable

#: Layers that an embedding or a head may count as.
_WEIGHTS: Final = range(5)


def notes_of(scenario: Mapping[str, Any], table: FlagTable) -> dict[str, Any]:
    """Return the notes, and the keys, that a program's flags are written from: the other way round."""
    parallel, workload, facts = scenario["parallel"], scenario["workload"], scenario["workload"]["engine_facts"]
    noted = {flag.key for flag in table.flags.values()} | {key for flag in table.flags.values() for key in _cases(flag)}
    notes: dict[str, Any] = {}
    if table.phase == "train":
        notes |= _batch_notes(workload, parallel, noted)
        notes |= _shard_notes(parallel)
        notes |= _stage_notes(scenario) if ".first_less" in noted else {}
        notes |= _precision_notes(workload, facts)
        notes |= _recompute_notes(workload["recompute"])
        notes |= {".per_node": None}
    elif ".gpu_layers" in noted:
        notes |= _card_notes(scenario)
    elif ".attention_data" in noted and parallel["expert"] > 1 and parallel["data"] > 1:
        notes |= {".attention_data": True, "parallel.tensor": parallel["tensor"] * parallel["data"]}
        notes |= {"parallel.expert_tensor": None}
    variants = str(workload["engine"]).partition("@")[0].split("+")[1:]
    return notes | {f".variant.{name}": name in variants for name in table.engine_variants}


def _card_notes(scenario: Mapping[str, Any]) -> dict[str, Any]:
    offload, layers = scenario["parallel"]["offload"], scenario["model"].get("num_layers")
    notes: dict[str, Any] = {".split": None, "parallel.pipeline": None}
    if offload["parameters"] == "host" and layers is not None:
        off = offload["layers"]
        notes[".gpu_layers"] = 0 if off is None or off >= layers else layers + 1 - off
    if offload["experts"] == "host" and offload["layers"] is not None:
        notes |= {".expert_layers": offload["layers"], "parallel.offload.experts": None}
    stored = scenario["workload"]["precision"]
    if stored["key_value_cache"] not in ("fp16", stored["compute"]):
        notes |= {".cache_type": stored["key_value_cache"], ".values_type": stored["key_value_cache"]}
    return notes


def _cases(flag: Any) -> list[str]:
    return [key for case in flag.cases.values() for key in case]


def _batch_notes(workload: Mapping[str, Any], parallel: Mapping[str, Any], noted: set[Any]) -> dict[str, Any]:
    micro, data = workload["micro_batch_size"], parallel["data"]
    steps = workload["global_batch_size"] // (micro * data)
    if ".piece" in noted and parallel["pipeline"] > 1:
        return {".piece": micro, ".local_batch": micro * steps, ".accumulation": 1}
    return {".piece": None, ".local_batch": micro, ".accumulation": steps}


def _shard_notes(parallel: Mapping[str, Any]) -> dict[str, Any]:
    sharding, data, context = parallel["sharding"], parallel["data"], parallel["context"]
    if isinstance(sharding, dict) and sharding.get("optimizer"):
        return {".instances": data * context // sharding["optimizer"], "parallel.sharding": "optimizer"}
    if isinstance(sharding, dict):
        ranks = sharding.get("full")
        if ranks is None or ranks % context:
            return {}
        shares = ranks // context
        return {".replicate": data // shares, ".shard": shares, ".keeps_parameters": False}
    if sharding == "none":
        return {".replicate": data, ".shard": 1, ".keeps_parameters": False}
    return {".replicate": 1, ".shard": -1, ".keeps_parameters": sharding == "gradients"}


def _stage_notes(scenario: Mapping[str, Any]) -> dict[str, Any]:
    parallel, layers = scenario["parallel"], scenario["model"].get("num_layers")
    stages, chunks = parallel["pipeline"], parallel["virtual_stages"]
    if stages == 1 or layers is None:
        return {".first_less": 1, ".last_less": 1}
    stated = parallel["stage_layers"]
    ends = [(int(parallel["account_for_embedding"]), int(parallel["account_for_loss"]))]
    if stated is not None:
        ends = [
            (first, last)
            for first in _WEIGHTS
            for last in _WEIGHTS
            if dealt(layers, stages, first, last) == list(stated)
        ]
    if not ends or (stated is None and (layers + sum(ends[0])) % (stages * chunks)):
        raise SpecError(
            Problem(
                f"the program deals {layers} layers out to {stages} stages in another way", hint="State an even split."
            )
        )
    first, last = ends[0]
    each = (layers + first + last) // (stages * chunks)
    return {
        ".first_less": first,
        ".last_less": last,
        ".layers_per_stage": each if chunks > 2 else None,
        ".schedule_stages": min(chunks, 2),
    }


def _recompute_notes(recompute: Any) -> dict[str, Any]:
    if isinstance(recompute, dict) and recompute.get("policy") == "full" and recompute.get("every") is not None:
        return {".checkpointing": "selective", ".checkpointing_every": recompute["every"]}
    every = "op" if recompute == "selective" else None
    return {".checkpointing": recompute if isinstance(recompute, str) else None, ".checkpointing_every": every}


def _precision_notes(workload: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    name = workload["precision"]["name"]
    sharded = facts.get("precision_recipe") == "sharded"
    if name in ("bf16-amp", "fp16-amp"):
        return {".mixed_precision": name.removesuffix("-amp"), ".sharded_recipe": False, ".load_type": None}
    if name == "fp32":
        return {".mixed_precision": "fp32", ".sharded_recipe": sharded, ".load_type": None}
    if sharded or name not in ("bf16", "fp16"):
        return {".mixed_precision": name, ".sharded_recipe": sharded, ".load_type": None}
    return {".mixed_precision": None, ".sharded_recipe": False, ".load_type": name}
