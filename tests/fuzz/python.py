"""The functions of the package, with arguments of every type."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import roofsim
from tests.fuzz.inputs import Input, described
from tests.fuzz.laws import broken_by_numbers, broken_by_result
from tests.fuzz.scenarios import QUICK, QUICK_OTHERS, mutated, options, scenario_paths, valid
from tests.fuzz.values import TEXTS, hostile, of_schema

if TYPE_CHECKING:
    from random import Random


def argument(random: Random) -> Any:
    """Return what a Python program may pass."""
    pick = random.randrange(12)
    if pick < 5:
        return hostile(random)
    return random.choice(
        (
            np.int64(8), np.float64(2048.0), np.float32(0.5), np.float64("nan"), np.array([1, 2, 4]),
            np.array(3.0), np.bool_(True), b"bytes",
            {1, 2}, (1, 2), object(), lambda: 1, Path("gpt"), Path("nowhere/gpt.yaml"), range(3), 3 + 4j, int,
            Exception("x"), "bf16", 4, 2.0, 10**5000,
        )
    )  # fmt: skip


def calls(random: Random, folder: Path) -> Input:
    """Return a call of a public function."""
    del folder
    scenario: Any = valid(random) if random.random() < 0.5 else random.choice((*QUICK, *QUICK_OTHERS))
    if random.random() < 0.15:
        scenario = argument(random)
    elif isinstance(scenario, dict) and random.random() < 0.3:
        scenario = mutated(scenario, random, 1)
    keys: dict[str, Any] = {}
    for name in random.sample(options(), random.choice((0, 1, 1, 2))):
        schema, definitions = {path[-1]: part for path, part in scenario_paths()[0]}.get(name, {}), scenario_paths()[1]
        keys[name] = of_schema(schema, definitions, random) if random.random() < 0.5 else argument(random)
    if random.random() < 0.15:
        path, _ = random.choice(scenario_paths()[0])
        keys["__".join(path)] = argument(random)
    if random.random() < 0.05:
        keys[str(random.choice(TEXTS))] = argument(random)
    verb = random.choice(("run", "run", "run", "resolve", "evaluate", "compare", "fit", "serve"))
    return Input(
        f"roofsim.{verb}({described(scenario)}, **{described(keys)})", lambda: _call(verb, scenario, keys, random)
    )


def _call(verb: str, scenario: Any, keys: dict[str, Any], random: Random) -> list[str]:
    if verb == "run":
        return broken_by_result(roofsim.run(scenario, **keys).to_dict())
    if verb == "resolve":
        roofsim.resolve(scenario, **keys)
        return []
    if verb == "evaluate":
        roofsim.evaluate(roofsim.resolve(scenario, **keys))
        return []
    if verb == "compare":
        keys = {name: value for name, value in keys.items() if name not in ("gpu", "gpus")}
        cards: Any = random.choice((["a100"], ["a100", "h100"], ["h100", "rtx4090"], [], ["nothing"]))
        comparison = roofsim.compare(scenario, cards, **keys)
        return [line for row in comparison for line in _of_row(row.to_dict())]
    if verb == "fit":
        largest = random.choice((None, None, "micro-batch-size", "sequence-length", "model", "x"))
        return broken_by_numbers(roofsim.fit(scenario, largest=largest, **keys).to_dict())
    sizes: dict[str, Any] = {"prompt_length": 64, "output_length": 16, "engine": "vllm"} | keys
    return broken_by_numbers(roofsim.serve(scenario, **sizes).to_dict())


def _of_row(data: dict[str, Any]) -> list[str]:
    """Return the laws that a card of a comparison breaks; one that cannot run says why."""
    if data.get("step_time") is None:
        return [] if data.get("reason") else ["a row without a figure and without a reason"]
    return broken_by_result(data)
