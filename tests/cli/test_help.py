"""Help, words that people type, completion: what a newcomer meets first."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from roofsim.cli import compare, fit, memory, ops
from roofsim.cli.lazy import app, command_of
from roofsim.cli.options import WITHOUT_FLAG, flags_of, help_of, scenario_fields
from roofsim.cli.page import PANELS
from roofsim.cli.verbs import VERBS
from roofsim.spec.scenario.document import SECTIONS
from tests import documents

ROOT = Path(__file__).resolve().parents[2]
SINGLE = [name for name in VERBS if name != "calibrate"]
RESNET = ("resnet18", "--micro-batch-size", "8")


# -- help -----------------------------------------------------------------------------------------------------------


def test_the_list_of_verbs_has_whole_lines(cli):
    out = " ".join(cli("--help").split())
    assert "..." not in out.replace("COMMAND ...", "")
    for name, verb in VERBS.items():
        assert f"{name} {verb.line}" in out


@pytest.mark.parametrize("verb", SINGLE)
def test_help_has_sections_and_three_examples(cli, verb, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    out = cli(verb, "--help")
    assert out.count("  roofsim ") >= 3
    assert len(VERBS[verb].examples) == 3
    heads = re.findall(r"^(\w+):$", out, re.MULTILINE)
    assert [head for head in heads if head in PANELS] == [panel for panel in PANELS if panel in heads]
    assert VERBS[verb].line in " ".join(out.split())


@pytest.mark.parametrize("verb", SINGLE)
def test_a_verb_says_of_itself_what_the_list_says(verb):
    function = command_of(verb).callback
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    assert function.__doc__.splitlines()[0] == VERBS[verb].line


@pytest.mark.parametrize("verb", SINGLE)
def test_help_fits_sixty_columns(cli, verb, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    too_long = [line for line in cli(verb, "--help").splitlines() if len(line) > 60]
    assert all(len(line.split()) <= 4 for line in too_long), too_long  # a single long option or value


def test_every_key_is_described_once_in_the_schema():
    for section, schema in SECTIONS.items():
        for key, field in schema.model_fields.items():
            assert field.description, f"{section}.{key}"
            assert field.description.endswith((".", ":")), f"{section}.{key}"


def test_help_states_choices_and_defaults_of_the_schema(cli):
    out = " ".join(cli("run", "--help").split())
    for _, key, field in scenario_fields():
        if key not in ("concurrency", "request_rate", "serving"):
            assert " ".join(help_of(field).split()) in out.replace("- ", "-") or help_of(field)[:40] in out
    assert "One of: train, forward, prefill, decode, generate, inference. [default: train]" in out
    assert "[default: adamw]" in out
    assert "[default: a100-sxm4-80gb]" in out
    assert {key for schema in SECTIONS.values() for key in schema.model_fields} == {
        *WITHOUT_FLAG, *(key for _, key, _ in scenario_fields())
    }  # fmt: skip


def test_only_the_options_that_a_verb_uses(cli):
    shown = {
        verb: set(re.findall(r"--[a-z-]+", cli(verb, "--help"))) for verb in ("run", "ops", "memory", "serve", "fit")
    }
    assert {"--mtbf", "--optimizer", "--jitter"} <= shown["run"]
    assert "--concurrency" not in shown["run"]
    assert not shown["ops"] & {"--mtbf", "--checkpoint", "--concurrency"}
    assert not shown["memory"] & {"--jitter", "--mtbf", "--input"}
    assert not shown["fit"] & {"--jitter", "--mtbf", "--request-rate"}
    assert not shown["serve"] & {"--optimizer", "--sharding", "--phase", "--mtbf", "--global-batch-size", "--schedule"}
    assert {"--concurrency", "--request-rate", "--tp", "--gpu"} <= shown["serve"]


def test_serve_states_its_own_default_engine(cli):
    assert "[default: vllm; of networks of one pass tensorrt]" in " ".join(cli("serve", "--help").split())


def test_words_of_the_command_line_are_those_of_the_analyses():
    from roofsim.analyze.alive import VIEWS
    from roofsim.analyze.ops import GROUPS, ORDERS
    from roofsim.compare.winners import SORTS
    from roofsim.search.fitting.sizes import WORDS

    assert (ops.GROUPS, ops.ORDERS, memory.VIEWS) == (GROUPS, ORDERS, VIEWS)
    assert compare.ORDERS == SORTS
    assert {word.replace("-", "_") for word in fit.LARGEST} == {word.replace("-", "_") for word in (*WORDS, "model")}


def examples():
    served = ("roofsim web", "roofsim mcp")  # which go on
    skipped = ("calibrate fit", "validate", "--plot", "--trace", "transplant", *served, ">")
    long = ("roofsim budget llama3-8b",)  # every card with every number of GPUs, for every size of the model
    shown = {line for path in documents.documents() for line in path.read_text(encoding="utf-8").splitlines()}
    lines = [
        line
        for verb in VERBS.values()
        for line in verb.examples
        if not any(word in line for word in skipped) and f"$ {line}" not in shown  # documents print what these answer
    ]
    return [pytest.param(line, marks=pytest.mark.slow) if line.startswith(long) else line for line in lines]


@pytest.mark.parametrize("line", examples())
def test_examples_of_the_help_work(cli, line, tmp_path, monkeypatch):
    if not line.startswith("roofsim init"):
        shutil.copy(ROOT / "gpt.yaml", tmp_path)
    if line.startswith("roofsim diff"):
        _two_commits(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert cli(*shlex.split(line)[1:]).strip()


def _two_commits(folder):
    git = ["git", "-C", folder, "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for arguments in (
        ["init", "-q", "-b", "main"],
        ["add", "."],
        ["commit", "-qm", "old"],
        ["commit", "-q", "--allow-empty", "-m", "new"],
    ):
        subprocess.run([*git, *arguments], check=True)


def test_help_needs_no_schema_and_one_verb_no_other():
    code = (
        "import sys; sys.argv = ['roofsim', *sys.argv[1:]]\nfrom roofsim.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\nprint('MODULES', *sorted(sys.modules))"
    )

    def loaded(*arguments):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
        return set(done.stdout.rsplit("MODULES", 1)[1].split())

    assert not loaded("--help") & {"pydantic", "numpy", "rich", "roofsim.cli.run", "roofsim.cli.options"}
    assert not loaded("list", "--help") & {"numpy", "roofsim.cli.run", "roofsim.cli.options", "roofsim.spec"}


# -- near matches ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("run", "resnet18", "--micro-batchsize", "4"),
            "no option '--micro-batchsize'. Did you mean --micro-batch-size",
        ),
        (("run", "resnet18", "--pipline", "4"), "no option '--pipline'. Did you mean --pipeline"),
        (("run", "resnet18", "--tensor-parallel-size", "4"), "Did you mean --tensor?"),
        (("serve", "llama3-8b", "--optimizer", "adamw"), "`roofsim run` has it"),
        (("run", "resnet18", "--override", "x"), "--set override=VALUE"),
        (("run", "resnet18", "--offload", "host"), "say what goes where, for example optimizer_state=host"),
        (("run", "resnet18", "--zzzz", "x"), "`roofsim run --help` lists the options"),
        (("list", "--jsn"), "Did you mean --json?"),
        (("calibrate", "fit", "--overlya", "x"), "Did you mean --overlay"),
        (("rnu", "resnet18"), "unknown verb 'rnu'. Did you mean 'run'"),
        (("llama3-8b",), "To predict it: `roofsim run llama3-8b`"),
    ],
)
def test_near_matches_of_flags_and_verbs(cli, arguments, said):
    error = cli(*arguments, code=2)
    assert error.startswith("roofsim: ")
    assert said in error
    assert "Traceback" not in error


# -- words that people type -----------------------------------------------------------------------------------------


def scenario_of(cli, *arguments):
    return json.loads(cli("run", *arguments, "--json"))["scenario"]


def test_short_flags(cli):
    short = scenario_of(
        cli, "gpt2-124m", "--tp", "2", "--pp", "2", "--dp", "2", "--cp", "1", "--ep", "1", "--seq-len", "1k", "--batch", "2",
        "--dtype", "bfloat16", "--gpus", "8",
    )  # fmt: skip
    long = scenario_of(
        cli, "gpt2-124m", "--tensor", "2", "--pipeline", "2", "--data", "2", "--context", "1", "--expert", "1",
        "--sequence-length", "1024", "--batch-size", "2", "--precision", "bf16", "--gpus", "8",
    )  # fmt: skip
    assert short == long
    for key in ("tensor", "pipeline", "data", "expert", "context", "sequence_length", "batch_size", "precision"):
        assert len(flags_of(key)) == 2


@pytest.mark.parametrize(
    ("word", "meant"),
    [("zero1", "optimizer"), ("zero2", "gradients"), ("zero3", "full"), ("ZeRO-3", "full"), ("fsdp", "full")],
)
def test_words_for_sharding(cli, tmp_path, word, meant):
    assert scenario_of(cli, "gpt2-124m", "--gpus", "2", "--sharding", word)["parallel"]["sharding"] == meant
    path = tmp_path / "s.yaml"
    path.write_text(f"model: gpt2-124m\nparallel: {{sharding: {word}, dp: 2}}\nhardware: {{gpus: 2}}\n")
    assert scenario_of(cli, path)["parallel"]["sharding"] == meant
    assert (
        scenario_of(cli, "gpt2-124m", "--set", f"parallel.sharding={word}", "--gpus", "2")["parallel"]["sharding"]
        == meant
    )


@pytest.mark.parametrize(
    ("word", "number"), [("1k", 1024), ("1,024", 1024), ("1024", 1024), ("5e2", 500), ("0.5K", 512), ("1 k", 1024)]
)
def test_words_for_counts(cli, tmp_path, word, number):
    assert scenario_of(cli, "gpt2-124m", "--seq-len", word)["workload"]["sequence_length"] == number
    path = tmp_path / "s.yaml"
    path.write_text(f"model: gpt2-124m\nworkload:\n  sequence_length: {word}\n")
    assert scenario_of(cli, path)["workload"]["sequence_length"] == number


@pytest.mark.parametrize("word", ["2x", "2kk", "10,24", "k", "2048.5", "-1k", "1e400"])
def test_what_is_no_count(cli, word):
    assert "workload.sequence_length: expected" in cli("run", "gpt2-124m", "--seq-len", word, code=2)


@pytest.mark.parametrize(
    ("word", "meant"),
    [("4090", "rtx4090"), ("RTX 4090", "rtx4090"), ("nvidia-h100", "h100-sxm5-80gb"), ("geforce-rtx-3090", "rtx3090")],
)
def test_words_for_cards(cli, word, meant):
    assert scenario_of(cli, *RESNET, "--gpu", word)["hardware"]["gpu"] == meant


def test_a_number_that_is_several_cards_is_refused(cli):
    error = cli("run", *RESNET, "--gpu", "100", code=2)
    for name in ("a100-sxm4-80gb", "h100-sxm5-80gb", "v100-sxm2-16gb"):
        assert name in error


def test_inference_is_the_models_own(cli):
    lengths = ("--prompt-length", "64", "--output-length", "4")
    assert scenario_of(cli, "gpt2-124m", "--phase", "inference", *lengths)["workload"]["phase"] == "generate"
    assert scenario_of(cli, "resnet18", "--phase", "inference")["workload"]["phase"] == "forward"


def test_two_names_of_one_key_are_refused(cli, tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("model: gpt2-124m\nparallel: {tp: 2, tensor: 2}\n")
    assert "tp and tensor mean the same; give one" in cli("run", path, code=2)


# -- list, top ------------------------------------------------------------------------------------------------------


def test_list_alone_is_an_overview(cli):
    rows = json.loads(cli("list", "--json"))
    assert [row["catalog"] for row in rows] == ["gpus", "systems", "engines", "models", "architectures"]
    for row in rows:
        assert row["entries"] == len(json.loads(cli("list", row["catalog"], "--json")))
        assert row["examples"]
        for name in row["examples"]:
            assert json.loads(cli("show", row["catalog"].removesuffix("s"), name, "--json"))["name"]
    assert "roofsim show" in cli("list")


def test_json_and_csv_honour_top(cli):
    for verb, by in (("ops", "op"), ("memory", "layer")):
        every = json.loads(cli(verb, *RESNET, "--by", by, "--json"))
        assert len(every) > 3
        assert json.loads(cli(verb, *RESNET, "--by", by, "--top", "3", "--json")) == every[:3]
        assert len(cli(verb, *RESNET, "--by", by, "--top", "3", "--csv").splitlines()) == 4


# -- completion -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("roofsim r", "run"),
        ("roofsim run --gpu h100-s", "h100-sxm5-80gb"),
        ("roofsim run --system dgx-h", "dgx-h100"),
        ("roofsim run --engine pytorch-e", "pytorch-eager"),
        ("roofsim run llama3-8", "llama3-8b"),
        ("roofsim run gpt2-124m --phase pre", "prefill"),
        ("roofsim run gpt2-124m --micro", "--micro-batch-size"),
        ("roofsim ops gpt2-124m --by la", "layer"),
        ("roofsim list mod", "models"),
        ("roofsim show dgx-h", "dgx-h100"),
        ("roofsim collectives --system dgx-a1", "dgx-a100"),
    ],
)
def test_shells_complete(words, expected):
    environment = {
        **os.environ, "_ROOFSIM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)
    }  # fmt: skip
    code = "from roofsim.cli.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert expected in done.stdout.split(), done.stderr


def test_completion_can_be_installed(cli):
    assert "--install-completion" in cli("--help")
    assert {"--install-completion", "--show-completion"} <= {
        flag for param in get_command(app).params for flag in param.opts
    }
