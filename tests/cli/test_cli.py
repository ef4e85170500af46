"""The verbs, their formats, and what a fresh process imports."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys

import pytest

from roofsim.spec import catalog
from roofsim.units import humanize

RESNET = ("resnet18", "--micro-batch-size", "8", "--precision", "bf16")


def test_run_prints_the_answer_first(cli):
    out = cli("run", *RESNET)
    for words in (
        "step time",
        "limited by",
        "would be next",
        "memory at the peak",
        "fits",
        "where the time goes",
        "Assumed:",
    ):
        assert words in out


@pytest.mark.parametrize(
    ("verb", "line"), [("run", 2), ("memory", 1), ("ops", 0), ("timeline", 0), ("graph", 0), ("fit", 2)]
)
def test_what_does_not_fit_says_so_before_any_figure(cli, verb, line):
    large = ("llama3-8b", "--gpu", "rtx4090", "--sequence-length", 2048)
    lines = cli(verb, *large).splitlines()
    assert "does NOT fit" in lines[line]
    assert "GiB missing" in lines[line]
    assert "does NOT fit" not in cli(verb, *RESNET)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ("llama3-8b", "--phase", "decode", "--context-length", 512),
            "sequences, one token each, after 512 cached tokens",
        ),
        (("llama3-8b", "--phase", "prefill", "--prompt-length", 64), "64 prompt tokens"),
        (
            ("gpt2-124m", "--phase", "generate", "--prompt-length", 64, "--output-length", 3),
            "64 prompt tokens + 3 output",
        ),
        (("resnet50", "--phase", "forward"), "images of 224 pixels"),
        (("bert-base", "--phase", "forward", "--sequence-length", 128), "128 tokens"),
    ],
)
def test_a_batch_of_inference_is_that_of_each_replica(cli, arguments, line):
    asked = (*arguments, "--gpu", "h100", "--gpus", 32, "--batch-size", 256)
    said = f"256 on each of 32 replicas, 8,192 in all: {line}"
    assert said in cli("run", *asked)
    model, *flags = asked
    del flags[flags.index("--gpu") : flags.index("--gpu") + 2]
    assert said in cli("compare", model, "h100", "a100", *flags)
    assert "replicas" not in cli("run", *arguments, "--gpu", "h100", "--batch-size", 256)
    data = json.loads(cli("run", *asked, "--json"))
    rate, steps = data["throughput"]["samples_per_second"], data["scenario"]["workload"]["output_length"] or 1
    assert rate * data["step_time"] * (1 if "generate" in arguments else steps) == pytest.approx(8192)


def test_a_replica_of_training_has_micro_batches(cli):
    assert "replicas" not in cli("run", *RESNET, "--gpus", 8)


def test_the_largest_batch_of_inference_is_that_of_each_replica(cli):
    asked = ("fit", "llama3-8b", "--phase", "decode", "--context-length", 512, "--gpu", "h100")
    one = json.loads(cli(*asked, "--gpus", 4, "--json"))["largest"]["value"]
    assert f"largest batch size: {one:,} on each of 4 replicas, {4 * one:,} in all, takes" in cli(*asked, "--gpus", 4)
    alone = cli(*asked)
    assert "largest batch size: " in alone
    assert "on each of" not in alone


def test_run_json_is_the_contract(cli):
    data = json.loads(cli("run", *RESNET, "--json"))
    assert data["schema"] == "roofsim/result/1"
    assert {
        "schema", "scenario", "step_time", "step_time_interval", "throughput", "latency", "model_flops", "hardware_flops", "mfu",
        "hfu", "utilization", "bound", "runner_up", "bandwidth_bound", "time", "waits", "parameters", "work", "memory",
        "elasticity", "cost", "warnings", "provenance",
    } == set(data)  # fmt: skip
    assert set(data["time"]) == {
        "compute", "memory_bandwidth", "exposed_communication", "launch", "bubble", "optimizer", "host_transfer", "input",
    }  # fmt: skip
    assert {
        "allocated_peak", "reserved", "device_total", "peak", "saved_activations", "capacity", "fits", "verdict", "fit_probability",
        "peak_interval", "shortfall", "components",
    } == set(data["memory"])  # fmt: skip
    assert set(data["memory"]["components"]) == {
        "parameters", "gradients", "optimizer_state", "activations", "key_value_cache", "temporary",
        "communication_buffers", "context", "fragmentation",
    }  # fmt: skip
    assert data["scenario"]["workload"]["micro_batch_size"] == 8
    assert data["scenario"]["hardware"]["system"] == "dgx-a100"


def test_run_csv_is_one_row(cli):
    rows = list(csv.DictReader(io.StringIO(cli("run", *RESNET, "--csv"))))
    assert len(rows) == 1
    assert float(rows[0]["step_time"]) > 0


def test_flags_and_settings_reach_the_scenario(cli):
    data = json.loads(
        cli("run", *RESNET, "--gpu", "h100", "--set", "hardware.override.gpu.memory.bandwidth=1 TB/s", "--set",
            "workload.engine_facts.host_issue_time=9 us", "--json")
    )  # fmt: skip
    assert data["scenario"]["hardware"]["gpu"] == "h100-sxm5-80gb"
    assert data["scenario"]["hardware"]["override"] == {"gpu.memory.bandwidth": "1 TB/s"}
    assert data["scenario"]["workload"]["engine_facts"]["host_issue_time"] == pytest.approx(9e-6)


def test_less_bandwidth_is_slower(cli):
    wide, narrow = (
        json.loads(
            cli(
                "run",
                *RESNET,
                "--micro-batch-size",
                "64",
                "--set",
                f"hardware.override.gpu.memory.bandwidth={value}",
                "--json",
            )
        )["step_time"]
        for value in ("900 GB/s", "300 GB/s")
    )
    assert narrow > 1.5 * wide


def test_pictures_are_written(cli, tmp_path):
    for verb, extra in (("run", ()), ("compare", ("a100", "rtx4090")), ("memory", ())):
        path = tmp_path / f"{verb}.png"
        cli(verb, RESNET[0], *extra, *RESNET[1:], "--plot", path)
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size > 20_000


def test_compare_shows_every_card(cli):
    out = cli("compare", RESNET[0], "v100", "a100", "--gpu", "h100,rtx4090", "--micro-batch-size", "8")
    for name in ("v100-sxm2-16gb", "a100-sxm4-80gb", "h100-sxm5-80gb", "rtx4090"):
        assert name in out
    data = json.loads(cli("compare", RESNET[0], "v100,a100", "--json", "--micro-batch-size", "8"))["rows"]
    assert [row["scenario"]["hardware"]["gpu"] for row in data] == ["v100-sxm2-16gb", "a100-sxm4-80gb"]
    assert [row["scenario"]["workload"]["precision"]["name"] for row in data] == ["fp16", "bf16"]


@pytest.mark.parametrize("by", ["op", "class", "layer", "phase"])
def test_ops_tables_sum_to_the_step(cli, by):
    rows = json.loads(cli("ops", *RESNET, "--by", by, "--json"))
    result = json.loads(cli("run", *RESNET, "--json"))
    work = sum(row["time"] for classes in result["work"].values() for row in classes.values())
    assert sum(row["time"] for row in rows if row["kind"] == "op") == pytest.approx(work)
    assert sum(row["time"] for row in rows) == pytest.approx(result["step_time"], rel=1e-9)
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)
    times = [row["time"] for row in rows]
    assert times == sorted(times, reverse=True)


def test_ops_end_with_the_step(cli):
    """The last row is what `run` says; what is not shown stands in one row."""
    step = json.loads(cli("run", *RESNET, "--json"))["step_time"]
    lines = [line for line in cli("ops", *RESNET, "--top", "5").splitlines() if line.strip()]
    total = next(line for line in lines if line.split()[0] == "step")
    assert humanize(step, "s", 3) in total
    assert "100.0 %" in total
    assert any(" more " in line for line in lines)


def test_ops_sorted_by_program_and_listed(cli):
    rows = json.loads(cli("ops", *RESNET, "--sort", "program", "--json"))
    assert rows[0]["name"] == "stem.conv.conv"
    assert "bound" in cli("ops", *RESNET, "--top", "5")
    listing = cli("ops", *RESNET, "--listing")
    assert listing.splitlines()[0].split()[:3] == ["phase", "op", "class"]


def test_memory_ledger(cli):
    out = cli("memory", *RESNET)
    assert "allocated over the step" in out
    assert "peak in the" in out
    row = json.loads(cli("memory", *RESNET, "--json"))[0]
    assert sum(row["components"].values()) == pytest.approx(row["peak"])


@pytest.mark.parametrize(
    "figure",
    [
        "step_time", "time.compute", "throughput.samples_per_second", "memory.peak", "memory.fits", "mfu", "hfu",
        "model_flops", "hardware_flops", "parameters.total", "elasticity", "bound", "cost.usd_per_hour",
        "work.forward.convolution.flops", "stem.conv.conv",
    ],
)  # fmt: skip
def test_every_figure_unfolds(cli, figure):
    out = cli("explain", *(RESNET[0], figure), *RESNET[1:])
    assert figure.rsplit(".", maxsplit=1)[-1] in out
    data = json.loads(cli("explain", *(RESNET[0], figure), *RESNET[1:], "--json"))
    assert data["parts"]


@pytest.mark.parametrize(
    ("what", "least"), [("gpus", 89), ("systems", 41), ("engines", 4), ("models", 60), ("architectures", 20)]
)
def test_catalogs_are_listed(cli, what, least):
    rows = json.loads(cli("list", what, "--json"))
    assert len(rows) >= least
    assert f"{len(rows)} entries" in cli("list", what)


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        (("gpu", "h100"), "hardware/gpus/nvidia/h100-sxm5-80gb.yaml"),
        (("mixtral",), "models/decoder/mixtral-8x7b.yaml"),
        (("engine", "vllm"), "hardware/engines/vllm.yaml"),
        (("physics",), "hardware/constants/physics.yaml"),
    ],
)
def test_a_file_is_shown_as_it_is_written(cli, arguments, file):
    assert cli("show", *arguments, "--yaml") == (catalog.root() / file).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "arguments",
    [
        ("gpu", "a100"),
        ("system", "dgx-a100"),
        ("engine", "pytorch"),
        ("model", "resnet50"),
        ("architecture", "hopper"),
        ("rtx4090",),
    ],
)
def test_entries_are_shown_with_sources(cli, arguments):
    out = cli("show", *arguments)
    assert "source" in out
    assert json.loads(cli("show", *arguments, "--json"))["name"]


@pytest.mark.parametrize("what", ["scenario", "model", "gpu", "system", "engine", "architecture"])
def test_schemas_are_json_schema(cli, what):
    data = json.loads(cli("schema", what))
    assert "oneOf" in data or "properties" in data


def test_version_and_help(cli):
    assert cli("--version").startswith("roofsim ")
    for verb in ("run", "compare", "ops", "memory", "explain", "list", "show", "schema"):
        assert "Usage" in cli(verb, "--help")


def fresh(*arguments):
    """Run a verb in a process of its own and return the modules it imported."""
    code = (
        "import sys; sys.argv = ['roofsim', *sys.argv[1:]]\n"
        "from roofsim.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('MODULES', *sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return set(done.stdout.rsplit("MODULES", 1)[1].split())


def test_run_imports_nothing_heavy():
    loaded = fresh("run", *RESNET)
    assert "roofsim.evaluate" in loaded
    assert "networkx" not in loaded
    assert not loaded & {"scipy", "matplotlib", "pandas", "dask", "plotly", "IPython"}


def test_help_imports_no_numbers():
    loaded = fresh("--help")
    assert not loaded & {"numpy", "networkx", "yaml", "pydantic", "scipy", "matplotlib", "roofsim.api"}


LLAMA_CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 160,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 128,
    "max_position_embeddings": 256, "tie_word_embeddings": False, "hidden_act": "silu", "rms_norm_eps": 1e-5,
}  # fmt: skip


@pytest.mark.parametrize("how", ["folder", "file", "model key", "no such folder beside it"])
def test_a_hugging_face_configuration_is_a_model(cli, tmp_path, monkeypatch, how):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA_CONFIG))
    (tmp_path / "scenario.yaml").write_text("model: ./llama\nworkload: {precision: bf16}\n")
    given = {"folder": "./llama", "file": "llama/config.json", "model key": "scenario.yaml"}.get(how, str(folder))
    data = json.loads(cli("run", given, "--json"))
    per_layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 160 + 2 * 64
    assert data["parameters"]["total"] == 2 * per_layer + 2 * 128 * 64 + 64


@pytest.mark.parametrize(
    "arguments",
    [
        ("memory", "gpt2-124m", "--phase", "generate", "--prompt-length", "64", "--output-length", "16"),
        ("run", "gpt2-124m", "--phase", "generate", "--prompt-length", "64", "--output-length", "16"),
        ("run", "dlrm"),
        ("compare", "dlrm", "a100", "h100"),
        ("explain", "resnet18", "parameters"),
        ("explain", "resnet18", "cost.usd_per_hour"),
        ("run", "gpt2-124m", "--optimizer", "muon"),
    ],
)
def test_verbs_answer(cli, arguments):
    assert cli(*arguments).strip()


@pytest.mark.parametrize("phase", ["generate", "decode"])
def test_pictures_of_generation(cli, tmp_path, phase):
    lengths = ("--prompt-length", "32") if phase == "generate" else ("--context-length", "32")
    target = tmp_path / "picture.png"
    cli("run", "gpt2-124m", "--phase", phase, *lengths, "--output-length", "8", "--plot", target)
    assert target.stat().st_size > 10_000


def test_parameters_are_counted_once_beside_master_weights(cli):
    plain, master = (
        json.loads(cli("run", "gpt2-124m", "--engine", engine, "--json"))["parameters"]["total"]
        for engine in ("pytorch-eager", "megatron-lm")
    )
    assert plain == master


def test_what_the_host_holds_up_has_a_true_runner_up(cli):
    data = json.loads(cli("run", "resnet50", "--gpu", "h100", "--json"))
    assert data["bound"] == "launch"
    assert data["runner_up"]["bound"] == "memory_bandwidth"
    assert 1 < data["runner_up"]["headroom"] < 100


def test_a_window_does_not_push_utilization_above_one(cli):
    data = json.loads(cli("run", "mistral-7b", "--gpu", "h100", "--json"))
    assert 0 < data["mfu"] <= data["hfu"] < 1


def test_wide_parameters_under_narrow_arithmetic_are_cast(cli):
    mapping = "{compute: bf16, parameters: fp32}"
    mixed, plain = (
        json.loads(cli("run", "gpt2-124m", "--micro-batch-size", "8", "--precision", given, "--json"))
        for given in (mapping, "fp32")
    )
    assert mixed["step_time"] < 0.7 * plain["step_time"]
    assert mixed["scenario"]["workload"]["precision"]["compute"] == "bf16"


def test_memory_that_runs_out_is_said_as_that(cli, monkeypatch):
    def full(*_arguments, **_options):
        raise MemoryError("Unable to allocate 968. KiB")

    monkeypatch.setattr("roofsim.api.answer", full)
    error = cli("run", "resnet18", "--gpu", "a100", "--batch", "3", code=1)
    assert error.startswith("roofsim: memory ran out")
