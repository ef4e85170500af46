"""Declare the options of captured and exported programs: what ops cost that have no rule, and how modules are split over ranks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from roofsim.cli.words import Option, VerbParameter

if TYPE_CHECKING:
    from collections.abc import Container

#: Names of the options.
PROGRAM: Final = ("cost", "parallelize")


def program_options(own: Container[str]) -> list[VerbParameter]:
    """Return the options, but those that a verb has of its `own` (`need` has a target named cost)."""
    return [option for option in (_costs(), _plan_of_modules()) if option.name not in own]


def program_settings(given: dict[str, Any], own: Container[str]) -> list[tuple[str, str, str]]:
    """Take the options out of what was given, and return what they say as settings of the scenario."""
    stated = {name: given.pop(name, None) for name in PROGRAM if name not in own}
    return [*costs_stated(stated.get("cost") or []), *plan_stated(stated.get("parallelize"))]


def _costs() -> VerbParameter:
    declared = Option(
        "--cost",
        metavar="OP=FLOPS,BYTES",
        panel="Model",
        help="What a call of an op takes that roofsim has no rule for, in a captured program: my::op=2e9,3e6. May be repeated.",
    )
    return VerbParameter("cost", list[str], declared, None, required=False)


def _plan_of_modules() -> VerbParameter:
    declared = Option(
        "--parallelize",
        metavar="PLAN",
        panel="Parallelism",
        help="YAML file that says how the modules of a captured program are split over ranks, in torch's words: tensor: "
        "{model.layers.*.mlp.up_proj: ColwiseParallel, ...}; pipeline: model.layers.",
    )
    return VerbParameter("parallelize", str, declared, None, required=False)


def plan_stated(path: str | None) -> list[tuple[str, str, str]]:
    """Return what the file of ``--parallelize`` says as one setting of the model; raises `SpecError` where it cannot be read."""
    if path is None:
        return []
    from roofsim.spec.reading.source import read_yaml

    return [("model.parallelize", json.dumps(read_yaml(Path(path)).data), "--parallelize")]


def costs_stated(texts: list[str]) -> list[tuple[str, str, str]]:
    """Return what ``--cost`` says as one setting of the model.

    Raises
    ------
    BadParameter
        For a text that is no op with two numbers.
    """
    costs: dict[str, list[float]] = {}
    for text in texts:
        op, _, numbers = text.partition("=")
        parts = numbers.split(",")
        if not op.strip() or len(parts) != 2 or not all(map(is_number, parts)):
            import typer

            raise typer.BadParameter(
                f"expected OP=FLOPS,BYTES, such as my::op=2e9,3e6; got {text!r}", param_hint="--cost"
            )
        costs[op.strip()] = [float(part) for part in parts]
    return [("model.costs", str(costs), "--cost")] if costs else []


def is_number(text: str) -> bool:
    """Tell whether a text is a number, without a unit or a name."""
    try:
        float(text)
    except ValueError:
        return False
    return True
