"""Read what was written again, and compare: a launch command says all that its scenario states, or what it leaves out is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.importers.launch.read import read_launch
from roofsim.spec.reading.source import from_mapping
from roofsim.spec.resolve import Resolved, Resolver

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from roofsim.importers.launch.table import FlagTable

#: What a request is, which no launch command says: of servers, and of training.
_REQUESTS: Final = (
    "phase",
    "batch_size",
    "micro_batch_size",
    "sequence_length",
    "prompt_length",
    "output_length",
    "context_length",
    "concurrency",
    "request_rate",
    "beam_width",
    "num_return_sequences",
    "guided_decoding",
    "target_length",
    "image_size",
    "num_inference_steps",
)
_DATA: Final = ("packed_length", "checkpoint", "input", "passes")
#: What of `serving` is the load and not the server.
_LOAD: Final = (
    "arrivals",
    "length_variation",
    "num_prompts",
    "prefix_cache_hit_rate",
    "prefix_cache_tokens",
    "prefix_shared",
    "max_batch_size",
    "max_queue_delay",
    "latency_bound",
    "latency_percentile",
)
#: Fields of a model that neither time nor memory depends on where others state it.
_NAMES: Final = frozenset(
    {
        "name",
        "stored",
        "max_sequence_length",
        "published_parameters",
        "published_parameters_source",
        "source",
        "aliases",
    }
)

#: How a checkpoint stores weights that an engine joins itself: field of the model -> the fusion that makes it moot.
_JOINED: Final = {"fused_query_key_value": "qkv", "fused_gate_up": "gate_up"}


def differences(scenario: Mapping[str, Any], text: str, table: FlagTable) -> tuple[list[str], tuple[str, ...]]:
    """Return what a written command does not say, and notes about facts of the engine that it cannot state.

    Raises
    ------
    SpecError
        Where what was written is refused when it is read.
    """
    stated = _resolved({**scenario, "model": _model(scenario)})
    read = read_launch(text, "what was written", gpus=scenario["hardware"]["gpus"]).scenario
    again = _resolved(_completed(read, scenario, table))
    wrong = list(_unequal(stated, again))
    return wrong, _notes(stated, again, table)


def _model(scenario: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in scenario["model"].items() if key != "stored"}


def _resolved(scenario: dict[str, Any]) -> Resolved:
    return Resolver(from_mapping(scenario)).run()


def _completed(read: dict[str, Any], scenario: Mapping[str, Any], table: FlagTable) -> dict[str, Any]:
    """Return what was read, with the requests and the hardware that no command says."""
    stated = scenario["workload"]
    keys = _DATA if table.phase == "train" else (*_DATA, *_REQUESTS)
    given = {key: stated[key] for key in keys if stated.get(key) is not None}
    load = {key: value for key, value in (stated.get("serving") or {}).items() if key in _LOAD and value is not None}
    serving = {**load, **read.get("workload", {}).get("serving", {})}
    workload = {**given, **read.get("workload", {}), **({"serving": serving} if serving else {})}
    model = read.get("model", _model(scenario))
    return {**read, "model": model, "workload": workload, "hardware": scenario["hardware"], "units": "SI"}


def _unequal(stated: Resolved, again: Resolved) -> Iterator[str]:
    """Yield what differs: keys, with what the scenario has."""
    fused = again.engine.facts()["fusion"]
    ignored = _NAMES | {key for key, fusion in _JOINED.items() if fusion in fused}
    pairs = (
        ("model", stated.model.completed().model_dump(), again.model.completed().model_dump()),
        ("parallel", _parallel(stated), _parallel(again)),
        ("workload", _workload(stated), _workload(again)),
    )
    for section, own, other in pairs:
        for key, value in own.items():
            if key not in ignored and value != other.get(key):
                yield f"{section}.{key} {_shown(value)}"
    if stated.precision.name != again.precision.name:
        yield f"workload.precision {stated.precision.name}"


def _shown(value: Any) -> str:
    held = (
        {key: each for key, each in value.items() if each not in (None, "none")} if isinstance(value, dict) else value
    )
    return str(held)[:80]


def _parallel(resolved: Resolved) -> dict[str, Any]:
    data = resolved.parallel.model_dump()
    data["schedule"] = {"interleaved": "1f1b"}.get(data["schedule"], data["schedule"]) if data["pipeline"] > 1 else None
    data["sequence"] = data["sequence"] and data["tensor"] > 1
    data["expert_tensor"] = data["expert_tensor"] or (1 if data["expert"] > 1 else data["tensor"])
    if data["context"] == 1:
        data["context_communication"] = data["context_heads"] = None
    return data


def _workload(resolved: Resolved) -> dict[str, Any]:
    hidden = {"engine", "engine_facts", "precision", "serving", "memory_format", "attention"}
    data: dict[str, Any] = resolved.workload.model_dump(exclude=hidden)
    serving = resolved.workload.serving
    stated = (
        {}
        if serving is None
        else {key: value for key, value in serving.model_dump().items() if value not in (None, False)}
    )
    return data | {"serving": {key: value for key, value in stated.items() if key not in _LOAD}}


def _notes(stated: Resolved, again: Resolved, table: FlagTable) -> tuple[str, ...]:
    """Return what the program does in its own way."""
    own, other = (str(each.workload.engine).partition("+")[0].partition("@")[0] for each in (stated, again))
    if own != other:
        return (f"The scenario is of engine {own}; {table.name} runs it as engine {other} does.",)
    facts, rest = stated.engine.facts(), again.engine.facts()
    differs = sorted(key for key, value in facts.items() if value != rest.get(key))
    return (f"Facts of the engine that no flag says: {', '.join(differs)}.",) if differs else ()
