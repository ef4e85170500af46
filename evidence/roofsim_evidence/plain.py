"""State a measurement as an ordinary user would: what was run on what, without the facts that only the one who ran it knows."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place
from roofsim.records import replace
from roofsim.spec.engine.choice import read_choice

if TYPE_CHECKING:
    from roofsim.calibrate.cases import Case

#: What a user states of the workload: phase, batch, lengths, load, precision, engine, what is trained, recomputation, which
#: belongs to the layout, and the format of images: frameworks keep theirs unless a program asks for another in so many words, as
#: it does for a precision, and publishers name their tables after both. Optimizer, attention, dropout and all facts of the engine
#: are left to defaults.
WORKLOAD: Final = (
    "phase", "micro_batch_size", "batch_size", "global_batch_size", "sequence_length", "packed_length", "image_size",
    "num_inference_steps", "target_length", "prompt_length", "output_length", "context_length", "concurrency", "request_rate",
    "precision", "engine", "adapter", "recompute", "memory_format",
)  # fmt: skip
#: What a user states of a server: how requests come, and what decides how much is computed; no limits of its scheduler.
SERVING: Final = (
    "arrivals", "length_variation", "num_prompts", "prefix_cache_hit_rate", "prefix_cache_tokens", "prefix_shared", "speculative",
    "lora", "disaggregated",
)  # fmt: skip
#: What a user states of the hardware: which card, and how many.
HARDWARE: Final = ("gpu", "gpus")
#: Without an optimizer a training step has no update: that is part of what was run, not of how.
_NO_UPDATE: Final = "none"


def plain_scenario(scenario: dict[str, Any]) -> dict[str, Any]:
    """Return a scenario with model, card, number, batch, lengths, precision, format of images, phase, engine and layout only.

    The engine loses its variant, and keeps its version or date where the source has one: an unstated version means today's, and the
    day of a measurement is that of whoever measured. A precision of several roles is named by what it computes in; what was not
    stated stays unstated.

    >>> plain_scenario({"model": "gpt2", "workload": {"engine": "pytorch-eager+clipped@2021-09", "dropout": 0.1}})
    {'model': 'gpt2', 'workload': {'engine': 'pytorch-eager@2021-09'}}
    """
    plain: dict[str, Any] = {"model": deepcopy(scenario["model"])}
    if "workload" in scenario:
        plain["workload"] = _workload(scenario["workload"])
    if "parallel" in scenario:
        plain["parallel"] = deepcopy(scenario["parallel"])
    if "hardware" in scenario:
        plain["hardware"] = _chosen(scenario["hardware"], HARDWARE)
    return plain


def plainly(case: Case) -> Case:
    """Return a measurement with its scenario stated plainly; see `plain_scenario`."""
    return replace(case, scenario=plain_scenario(case.scenario))


def _workload(stated: dict[str, Any]) -> dict[str, Any]:
    workload = _chosen(stated, WORKLOAD)
    if "engine" in workload:
        workload["engine"] = _without_variant(workload["engine"])
    if isinstance(workload.get("precision"), dict):
        workload["precision"] = workload["precision"]["compute"]
    if stated.get("optimizer") == _NO_UPDATE:
        workload["optimizer"] = _NO_UPDATE
    if stated.get("serving"):
        serving = _chosen(stated["serving"], SERVING)
        workload |= {"serving": serving} if serving else {}
    return workload


def _without_variant(engine: Any) -> str:
    choice = read_choice(engine, Place("measurements"))
    when = choice.version or choice.released
    return choice.name if when is None else f"{choice.name}@{when}"


def _chosen(stated: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: deepcopy(value) for key, value in stated.items() if key in keys}
