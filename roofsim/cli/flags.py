"""Define the arguments and flags that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from roofsim.cli.complete import choices, scenarios
from roofsim.cli.words import Argument, Declared, Option

if TYPE_CHECKING:
    from collections.abc import Sequence


def Choice(  # noqa: N802
    flag: str, names: Sequence[str], about: str, *, default: str | None = None, metavar: str = "NAME", **others: Any
) -> Declared:
    """Declare an option that takes one of a few names: they are completed, and the help lists them after `about`."""
    stated = "" if default is None else f" [default: {default}]"
    words = f"{about} One of: {', '.join(names)}.{stated}"
    return Option(flag, metavar=metavar, complete=choices(names), show_default=False, help=words, **others)


Scenario = Annotated[
    str,
    Argument(
        metavar="SCENARIO",
        show_default=False,
        complete=scenarios,
        help="A scenario or model file, a folder with a config.json, or the name of a model in the catalog.",
    ),
]
ScenarioOrNone = Annotated[
    str | None,
    Argument(
        metavar="SCENARIO",
        show_default=False,
        complete=scenarios,
        help="A scenario or model file, a folder with a config.json, or the name of a model in the catalog.",
    ),
]
FromLaunch = Annotated[
    str | None,
    Option(
        "--from-launch",
        metavar="COMMAND",
        panel="Other",
        help="Read a launch command instead of a scenario, or a file: a shell script, or a configuration (TOML, JSON, YAML). Of "
        "Megatron-LM, torchtitan, DeepSpeed, Accelerate, vLLM, SGLang and TensorRT-LLM: 'vllm serve MODEL ...', job.toml.",
    ),
]
Emit = Annotated[
    str | None,
    Option(
        "--emit",
        metavar="PROGRAM",
        help="Print the launch command of a program that runs this (of a plan: its winner), with the files it reads: "
        "megatron-lm, nemo, torchtitan, deepspeed, accelerate, vllm, sglang, tensorrt-llm, llama.cpp.",
    ),
]
Json = Annotated[bool, Option("--json", help="Print JSON: SI units, every figure.")]
Csv = Annotated[bool, Option("--csv", help="Print CSV: a header, one row per line.")]
Top = Annotated[
    int | None,
    Option(
        "--top",
        minimum=1,
        metavar="N",
        show_default=False,
        help="Show the first N rows only. [default: 30 in text; all in JSON and CSV]",
    ),
]
#: What pictures are written as.
PICTURES = (".png", ".svg", ".pdf")

Trace = Annotated[
    Path | None,
    Option("--trace", metavar="FILE.json", help="Write a trace for chrome://tracing or ui.perfetto.dev."),
]
Html = Annotated[
    Path | None,
    Option(
        "--html",
        metavar="FILE.html",
        help="Write a report to hand on: one page with charts, sources and all data, which needs no network.",
    ),
]
Dark = Annotated[bool, Option("--dark", help="Draw the picture of --plot on a dark background.")]
