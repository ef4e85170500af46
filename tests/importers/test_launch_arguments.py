"""Tables of launch commands against the arguments that the programs declare."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from roofsim.importers.launch.table import bare, table_of
from roofsim.spec.reading.source import read_yaml

LISTS = Path(__file__).parent / "arguments"
#: Program -> the lists of its arguments.
PROGRAMS = {
    "accelerate": ("accelerate", "transformers"),
    "deepspeed": ("deepspeed", "transformers"),
    "llama.cpp": ("llama.cpp",),
    "megatron-lm": ("megatron-lm", "megatron-core"),
    "nemo": ("nemo",),
    "sglang": ("sglang",),
    "torchtitan": ("torchtitan",),
    "vllm": ("vllm",),
}
#: Keys that hold others, each of which the lists name too.
SECTIONS = {
    "data_types",
    "optimizer",
    "pipeline",
    "torch_autocast",
    "zero_optimization",
    "dynamo_config",
    "--help",
    "trainer.plugins",
    "trainer.strategy",
}


def declared(program: str) -> list[str]:
    """Return the arguments that a program declares, other spellings included."""
    lines = [line for name in PROGRAMS[program] for line in (LISTS / f"{name}.txt").read_text().splitlines()]
    return [word for line in lines if not line.startswith("#") for word in line.split()]


def of_elsewhere(program: str) -> list[str]:
    return [word for words in read_yaml(LISTS / "elsewhere.yaml").data.get(program, {}).values() for word in words]


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_argument_of_a_program_is_read_refused_or_said_to_change_nothing(program):
    table = table_of(program)
    unknown = [word for word in declared(program) if word not in SECTIONS and not table.knows(word)]
    assert not unknown, f"{program}: add to its table: {' '.join(unknown)}"


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_table_names_an_argument_that_its_program_does_not_have(program):
    table = table_of(program)
    known = {bare(word) for word in (*declared(program), *of_elsewhere(program))}
    named = [*table.flags, *table.refused, *table.same, *table.changes_nothing]
    foreign = [
        word for word in named if bare(word) not in known and not any(fnmatchcase(each, bare(word)) for each in known)
    ]
    assert not foreign, f"{program} has no {' '.join(foreign)}"


@pytest.mark.parametrize("program", PROGRAMS)
def test_lists_say_version_and_date(program):
    for name in PROGRAMS[program]:
        head = (LISTS / f"{name}.txt").read_text().splitlines()[0]
        assert head.lower().startswith(f"# arguments of {name}")
        assert ", read on 20" in head


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_is_refused_says_the_way_out(program):
    for flag, instead in table_of(program).refused.items():
        assert len(instead.split()) >= 3, f"{program}: {flag}: {instead!r}"
