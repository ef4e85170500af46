"""What a command imports: a process that answers one question must not load what the question has no use for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path, PurePath

import pytest

from roofsim.cli.lazy import command_of
from roofsim.cli.page import verb_page
from roofsim.cli.parse import arguments_of
from roofsim.cli.verbs import VERBS
from roofsim.cli.words import parameters_of, target_of
from tests.surely import sure

ROOT = Path(__file__).resolve().parents[2]
#: What takes tens of milliseconds to import, and no ordinary command needs.
HEAVY = {
    "dataclasses", "importlib.metadata", "matplotlib", "networkx", "pandas", "pydantic", "pydantic_core", "scipy", "simpy", "typer",
}  # fmt: skip
CODE = (
    "import json, sys; sys.argv = ['roofsim', *sys.argv[1:]]\nfrom roofsim.cli.app import main\n"
    "try:\n    main()\nexcept SystemExit as stop:\n    code = stop.code\n"
    "print('MODULES', json.dumps(sorted(sys.modules)), code)"
)
#: Command line -> modules of roofsim that it may load, and what beside `HEAVY` it must do without.
COMMANDS = {
    "--help": (12, {"numpy", "rich", "yaml", "inspect"}),
    "--version": (10, {"numpy", "rich", "yaml", "inspect"}),
    "run --help": (75, {"rich"}),
    "list --help": (16, {"numpy", "rich", "yaml"}),
    "list gpus": (42, {"numpy"}),
    "list models --json": (40, {"numpy", "rich"}),
    "run gpt.yaml --gpu a100 --json": (305, {"rich"}),
    "run gpt.yaml --gpu a100": (312, set()),
    "run resnet50 --gpu h100 --batch 64 --csv": (295, {"rich"}),
    "run llama3-8b --gpu h100 --phase generate --prompt-length 1k --output-length 64 --json": (297, {"rich"}),
}


def loaded(*arguments):
    done = subprocess.run(
        [sys.executable, "-c", CODE, *arguments], capture_output=True, text=True, check=True, cwd=ROOT
    )
    names, _, code = done.stdout.rsplit("MODULES ", 1)[1].rpartition(" ")
    assert code.strip() == "0", done.stderr
    return set(json.loads(names))


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_loads_no_more_than_it_needs(line):
    most, without = COMMANDS[line]
    modules = loaded(*line.split())
    # rich brings dataclasses with it; lists ask what plug-ins are installed.
    needed = {"dataclasses"} if "rich" in modules else set()
    needed |= {"importlib.metadata"} if line.startswith(("list gpus", "list models")) else set()
    assert sorted(modules & (HEAVY - needed | without)) == []
    assert len([name for name in modules if name.partition(".")[0] == "roofsim"]) <= most


def test_the_python_api_needs_no_command_line():
    code = "import json, sys, roofsim; roofsim.run('gpt.yaml', gpu='a100'); print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    modules = set(json.loads(done.stdout))
    assert sorted(modules & (HEAVY | {"rich"})) == []
    assert not [name for name in modules if name.startswith(("roofsim.cli", "roofsim.report", "roofsim.calibrate"))]


# -- both ways of reading a command line ----------------------------------------------------------------------------

LINES = [
    ("run", "gpt.yaml --gpu a100"),
    ("run", "gpt.yaml --gpu=a100 --seq-len 4k --json --set workload.phase=train --set hardware.gpus=2"),
    ("run", "gpt.yaml --plot a.png --trace t.json --csv"),
    ("compare", "gpt.yaml a100 h100 --gpu v100,t4 --gpu l4 --sort speed --price a100=1"),
    ("ops", "gpt.yaml --top 5 --by class --listing"),
    ("memory", "--snapshot s.pickle"),
    ("memory", "gpt.yaml --tensor 2 --tensor x"),
    ("explain", "gpt.yaml step_time --json"),
    ("explain", "gpt.yaml"),
    ("show", "gpu a100 --json"),
    ("init", "--force"),
    ("collectives", "--system dgx-a100 --stride 2"),
    ("schema", ""),
    ("list", "gpus"),
]


@pytest.mark.parametrize(("verb", "line"), LINES)
def test_an_ordinary_line_is_read_as_the_parser_reads_it(verb, line):
    command = command_of(verb)
    ours = arguments_of(parameters_of(target_of(VERBS[verb])), line.split())
    context = command.make_context(verb, line.split())
    theirs = {name: list(value) if isinstance(value, tuple) else value for name, value in context.params.items()}
    # Typer 0.26 makes paths of texts when it calls the verb, later ones before that.
    assert {name: _plain(value) for name, value in sure(ours).items()} == {
        name: _plain(value) for name, value in theirs.items()
    }


def _plain(value):
    return str(value) if isinstance(value, PurePath) else value or None


@pytest.mark.parametrize(
    "line",
    [
        "gpt.yaml h100", "gpt.yaml --gup a100", "gpt.yaml --gpu", "gpt.yaml --json=1", "gpt.yaml -j", "gpt.yaml --gpu -x",
        "gpt.yaml --gpu a100 --gpu h100", "gpt.yaml --json --csv", "gpt.yaml --help", "-- gpt.yaml",
    ],
)  # fmt: skip
def test_what_is_not_ordinary_is_left_to_the_parser(line):
    assert arguments_of(parameters_of(target_of(VERBS["run"])), line.split()) is None


def test_a_number_is_checked_by_the_parser():
    parameters = parameters_of(target_of(VERBS["ops"]))
    for text in ("0", "-1", "x", "1.5", "²"):
        assert arguments_of(parameters, ["gpt.yaml", "--top", text]) is None


@pytest.mark.parametrize("verb", [name for name in VERBS if name != "calibrate"])
def test_help_is_the_same_whoever_is_asked(verb, cli):
    verbal = VERBS[verb]
    page = verb_page(f"roofsim {verb}", verbal.line, parameters_of(target_of(verbal)), verbal.examples)
    assert cli(verb, "--help") == f"{page}\n"
    assert cli(verb, "--json", "--help").strip() == page if verb == "run" else True
