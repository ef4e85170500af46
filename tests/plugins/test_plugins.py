"""Plug-ins: the example distribution through every verb, clashes of names, broken ones, and nothing to pay where there is none."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import roofsim
from roofsim import plugins
from roofsim.analyze.catalogs import entry, json_schema
from roofsim.analyze.listed import catalog_rows
from roofsim.analyze.plugins import plugin_rows
from roofsim.analyze.protocols import family_rows, schedule_rows
from roofsim.errors import PluginError, SpecError, UnknownNameError
from roofsim.passes.plugged import own_passes
from roofsim.schedule.pipeline.plan import plan
from roofsim.schedule.pipeline.registry import schedule_named
from roofsim.spec import catalog
from roofsim.spec.scenario.workload import RecomputePlan
from tests.plugins.distributions import EXAMPLE, describe, install, plugged_in

ROOT = Path(__file__).resolve().parents[2]
NAMED = "roofsim-example 1.2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return install(tmp_path_factory.mktemp("site"))


@pytest.fixture
def example(folder):
    with plugged_in(folder):
        yield folder


def described(result):
    return {row["what"]: row["value"] for row in result.provenance}


def test_a_model_of_a_family_that_no_code_of_ours_knows(example):
    result = roofsim.run("acme-mlp-350m", gpu="h100")
    assert result.parameters["total"] == catalog.load("model", "acme-mlp-350m").data["published_parameters"]
    assert result.step_time > 0.0
    assert described(result)["model"] == f"catalog entry acme-mlp-350m of plug-in {NAMED}"
    assert described(result)["model.family"] == f"mlp-lm of plug-in {NAMED}"
    # Defaults of the protocol: it generates nothing, and a pass is no denoising step.
    assert roofsim.run("acme-mlp-350m", gpu="h100", phase="inference").scenario["workload"]["phase"] == "forward"
    with pytest.raises(SpecError, match="decode is for models that generate tokens; acme-mlp-350m is a mlp-lm"):
        roofsim.run("acme-mlp-350m", phase="decode")
    with pytest.raises(SpecError, match="mlp-lm models are not split by tensor"):
        roofsim.run("acme-mlp-350m", tensor=2)


def test_every_table_of_that_model(example):
    scenario = {"model": "acme-mlp-350m", "workload": {"sequence_length": 256}, "hardware": {"gpu": "x1"}}
    assert any(row["class"] == "matmul" for row in roofsim.ops(scenario).to_rows())
    assert roofsim.memory(scenario).to_rows()
    assert roofsim.timeline(scenario).to_rows()
    assert roofsim.fit(scenario).to_dict()["fits"] is True
    assert roofsim.fit(scenario, largest="model", family="acme").to_dict()["largest_model"]["value"] == "acme-mlp-350m"
    assert roofsim.run(scenario | {"model": {"inherits": "acme-mlp-350m", "num_layers": 6}}).step_time > 0.0
    inline = {"family": "mlp-lm", "num_layers": 4, "hidden_size": 256}
    assert (
        roofsim.run(scenario | {"model": inline, "parallel": {"pipeline": 2}, "hardware": {"gpu": "h100"}}).step_time
        > 0.0
    )


def test_a_card(example):
    result = roofsim.run("gpt2-124m", gpu="x1")
    assert described(result)["gpu"] == f"catalog entry acme-x1 of plug-in {NAMED}"
    assert result.scenario["hardware"]["gpu"] == "acme-x1"
    rows = {row["name"]: row for row in catalog_rows("gpu")}
    assert rows["acme-x1"]["aliases"] == ["x1"]
    assert list(rows)[-1] == "acme-x1"  # behind our own
    assert entry("acme-x1", None)["kind"] == "gpu"
    assert "gpu" not in described(roofsim.run("gpt2-124m", gpu="h100"))


def test_a_pass_runs_where_it_says(example):
    def listed(*passes, **workload):
        scenario = {"model": "gpt2-124m", "workload": {"sequence_length": 128, "passes": list(passes)} | workload}
        return roofsim.run(scenario), {row["class"] for row in roofsim.ops(scenario).to_rows()}

    plain, classes = listed()
    without, fewer = listed("without-norms")
    assert classes - fewer == {"normalization"}
    assert without.step_time < plain.step_time
    assert described(without)["pass"] == f"without-norms of plug-in {NAMED}"
    generated, kinds = listed(
        "without-norms", phase="generate", sequence_length=None, prompt_length=64, output_length=4
    )
    assert "normalization" not in kinds
    assert generated.step_time > 0.0


def test_a_schedule_keeps_the_laws(example):
    schedule = schedule_named("eager-1f1b")
    for stages, micro_batches in ((2, 4), (4, 4), (4, 12), (6, 3)):
        held = plan(schedule, stages, micro_batches).most_held(stages)
        said = [schedule.in_flight(float(index), float(stages), 1.0, float(micro_batches)) for index in range(stages)]
        assert held == pytest.approx(said)
    scenario = {
        "model": "gpt2-124m", "workload": {"global_batch_size": 12, "sequence_length": 128},
        "parallel": {"pipeline": 4, "schedule": "eager-1f1b"}, "hardware": {"gpu": "h100"},
    }  # fmt: skip
    eager = roofsim.run(scenario)
    plain = roofsim.run(scenario | {"parallel": {"pipeline": 4}})
    assert eager.step_time <= plain.step_time * (1.0 + 1e-9)
    assert described(eager)["parallel.schedule"] == f"eager-1f1b of plug-in {NAMED}"
    with pytest.raises(SpecError, match="schedule eager-1f1b has no virtual stages"):
        roofsim.run(scenario | {"parallel": {"pipeline": 4, "schedule": "eager-1f1b", "virtual_stages": 3}})


def test_schemas_and_near_matches_know_plugged_names(example):
    assert any("mlp-lm" in json.dumps(one) for one in json_schema("model")["$defs"].values())
    for wanted, match in (
        ({"model": "acme-mlp-35m"}, "Did you mean 'acme-mlp-350m'"),
        ({"model": {"family": "mlp-ln", "num_layers": 2}}, "Did you mean 'mlp-lm'"),
        (
            {"model": "gpt2-124m", "parallel": {"pipeline": 2, "schedule": "eager"}},
            r"'eager-1f1b'; got 'eager'\. Did you mean 'eager-1f1b'",
        ),
        (
            {"model": "gpt2-124m", "workload": {"passes": ["without-norm"]}},
            "workload.passes.*Did you mean 'without-norms'",
        ),
    ):
        with pytest.raises(SpecError, match=match):
            roofsim.run(wanted)


def test_names_of_our_own_ask_for_no_plugin(example):
    """Nothing is imported or searched for scenarios that name only what roofsim ships."""
    roofsim.run("gpt2-124m", gpu="a100")
    roofsim.run(
        {"model": "gpt2-124m", "parallel": {"pipeline": 2, "schedule": "gpipe"}, "hardware": {"system": "dgx-a100"}}
    )
    roofsim.compare("resnet50", gpus=["h100", "dgx-h100", "4090"])
    installed: Any = plugins.installed
    assert installed.cache_info().currsize == 0
    with pytest.raises(UnknownNameError):
        roofsim.run("gpt2-124m", gpu="no-such-card")
    assert installed.cache_info().currsize == 1


def test_lists_of_families_and_schedules(example):
    families = {row["name"]: row for row in family_rows()}
    assert families["mlp-lm"] == {
        "name": "mlp-lm", "counted in": "tokens", "phases": ["train", "forward"], "split by": ["pipeline"], "from": NAMED,
    }  # fmt: skip
    assert families["decoder"]["split by"] == ["tensor", "context", "pipeline"]
    assert families["encoder-decoder"]["phases"] == ["train", "forward", "prefill", "decode", "generate"]
    assert families["dit-pipeline"]["phases"] == ["forward"]
    schedules = {row["name"]: row for row in schedule_rows()}
    assert schedules["eager-1f1b"]["from"] == NAMED
    taken = {name: row["virtual stages"] for name, row in schedules.items() if row["from"] == "roofsim"}
    assert taken == {
        "gpipe": "1", "1f1b": "1 or more", "interleaved": "2 or more", "zero-bubble": "1", "breadth-first": "1 or more",
        "zero-bubble-v": "2",
    }  # fmt: skip


def test_without_plugins():
    plugins.refresh()
    assert [row for row in plugin_rows() if row["distribution"] == "roofsim-example"] == []
    with pytest.raises(UnknownNameError, match=r"no plug-in has a pass 'x'\. `roofsim list plugins`"):
        roofsim.run({"model": "gpt2-124m", "workload": {"passes": ["x"]}})


# -- clashes ----------------------------------------------------------------------------------------------------------


def other(tmp_path, points, name="acme-other", code=""):
    """Install a second distribution with a module `acme_other` that says so."""
    (tmp_path / "acme_other.py").write_text(code or "from roofsim_example.family import MLP_LM\n", encoding="utf-8")
    describe(tmp_path, name, "0.3", points)
    return tmp_path


def families_again(tmp_path):
    return other(tmp_path, {"roofsim.families": {"mlp-lm": "acme_other:MLP_LM"}})


def test_two_plugins_with_one_name(folder, tmp_path):
    with plugged_in(folder, families_again(tmp_path)), pytest.raises(PluginError) as error:
        roofsim.run("acme-mlp-350m")
    said = (
        "acme-other 0.3 and roofsim-example 1.2 both define model family 'mlp-lm'. "
        "Rename one, or remove it: pip uninstall acme-other or roofsim-example."
    )
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("group", "name", "value", "noun", "ask"),
    [
        ("families", "decoder", "acme_other:X", "model family 'decoder'", lambda: roofsim.run({"model": {"family": "x"}})),
        ("schedules", "gpipe", "acme_other:X", "pipeline schedule 'gpipe'", lambda: schedule_named("x")),
        ("passes", "autograd", "acme_other:X", "pass 'autograd'",
         lambda: roofsim.run({"model": "gpt2-124m", "workload": {"passes": ["x"]}})),
    ],
)  # fmt: skip
def test_a_name_of_ours(tmp_path, group, name, value, noun, ask):
    site = other(tmp_path, {f"roofsim.{group}": {name: value}})
    with plugged_in(site), pytest.raises(PluginError, match=rf"roofsim \S+ and acme-other 0.3 both define {noun}"):
        ask()


@pytest.mark.parametrize(
    ("kind", "name"), [("gpu", "h100-sxm"), ("gpu", "h100"), ("model", "gpt2-124m"), ("model", "gpt2")]
)
def test_an_entry_of_ours(tmp_path, kind, name):
    """By its name or by one of its aliases."""
    taken = [*catalog.names(kind), *catalog.aliases(kind)]
    name = name if name in taken else next(one for one in taken if one.startswith(name))
    place = tmp_path / "shelf" / {"gpu": "hardware/gpus", "model": "models"}[kind]
    place.mkdir(parents=True)
    (place / f"{name}.yaml").write_text("schema: 1\n", encoding="utf-8")
    site = other(
        tmp_path, {"roofsim.catalogs": {"more": "acme_other:SHELF"}}, code=f"SHELF = {str(tmp_path / 'shelf')!r}\n"
    )
    with plugged_in(site):
        with pytest.raises(
            PluginError, match=rf"roofsim \S+ and acme-other 0.3 both define {kind} '{re.escape(name)}'"
        ):
            catalog.resolve_name(kind, "nothing-of-that-name")
        (row,) = plugin_rows()
        assert row["adds"] == []
        assert "both define" in row["problem"]


# -- broken plug-ins --------------------------------------------------------------------------------------------------

FAMILY = """
from roofsim.spec.model.base import ModelSpec
from roofsim.spec.model.plugged import Family
from typing import Any, Literal
class Broken(ModelSpec):
    family: Literal["broken"] = "broken"
def lower(model, call):
    raise KeyError("no such thing")
X = Family(schema=Broken, lower=lower)
"""
PASS = """
from roofsim.passes.plugged import PlacedPass
class Pass:
    name, requires, ensures = "broken", frozenset({requires!r}), frozenset()
    def __call__(self, graph):
        {body}
X = PlacedPass(make=lambda resolved: Pass(), phases=frozenset({{"train"}}), after={after!r}, before={before!r})
"""


def a_pass(body="return graph", requires=(), after=(), before=()):
    return PASS.format(body=body, requires=requires, after=after, before=before)


BROKEN = {
    "an import that fails": ("families", "import nothing_like_this", "cannot be loaded: ModuleNotFoundError: No module"),
    "code that fails": ("schedules", "1 / 0", "cannot be loaded: ZeroDivisionError: division by zero"),
    "a name that is not there": ("passes", "Y = 1", "cannot be loaded: AttributeError"),
    "something else": ("families", "X = 3", r"is int 3; expected a roofsim.spec.model.plugged.Family"),
    "no schedule": ("schedules", "class X: pass", "expected a class derived from"),
    "no folder": ("catalogs", "X = '/no/such/folder'", "expected a package, or the path of a folder"),
    "a family of another name": ("families", FAMILY.replace('"broken"', '"other"'), "describes family 'other'"),
    "a lowering that fails": ("families", FAMILY, "cannot build inline: KeyError: 'no such thing'"),
    "a pass that fails": ("passes", a_pass("raise OSError('disk')"), "failed: OSError: disk"),
    "a pass that breaks the graph": ("passes", a_pass("return graph.replaced(list(graph)[3:])"), "failed: GraphError"),
    "a pass with an unmet need": ("passes", a_pass(requires=("sung",)), "requires sung, which no pass before it ensures"),
    "a pass after nothing": ("passes", a_pass(after=("singing",)), "stands before or after 'singing', which is no pass"),
    "a pass without a place": (
        "passes", a_pass(after=("autograd",), before=("precision",)), "run after autograd and before precision",
    ),
    "a pass of no phase": ("passes", a_pass().replace('{"train"}', '{"decode"}'), "pass broken runs in decode; the phase is train"),
}  # fmt: skip

ASK: dict[str, dict[str, Any]] = {
    "families": {"model": {"family": "broken"}},
    "schedules": {"model": "gpt2-124m", "parallel": {"pipeline": 2, "schedule": "broken"}},
    "passes": {"model": "gpt2-124m", "workload": {"passes": ["broken"]}},
    "catalogs": {"model": "broken"},
}


@pytest.mark.parametrize(("group", "code", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_plugin_is_one_message(tmp_path, group, code, message):
    site = other(tmp_path, {f"roofsim.{group}": {"broken": "acme_other:X"}}, code=code)
    with plugged_in(site):
        with pytest.raises(SpecError, match=message) as error:
            roofsim.run(ASK[group])
        if "of no phase" not in str(error.value) and isinstance(error.value, PluginError):
            assert f"plug-in acme-other 0.3 (roofsim.{group}: broken = acme_other:X)" in str(error.value)
        # What has nothing to do with it goes on.
        assert roofsim.run("gpt2-124m").step_time > 0.0
        assert {row["distribution"] for row in plugin_rows()} == {"acme-other"}


# -- the command line -------------------------------------------------------------------------------------------------


def called(*arguments, site):
    environment = os.environ | {"PYTHONPATH": f"{site}{os.pathsep}{ROOT}", "COLUMNS": "140"}
    return subprocess.run(
        [sys.executable, "-m", "roofsim", *arguments], capture_output=True, text=True, check=False, env=environment
    )


def test_list_plugins(folder, tmp_path):
    site = other(tmp_path, {"roofsim.families": {"broken": "acme_other:X"}}, code="import nothing_like_this")
    both = f"{folder}{os.pathsep}{site}"
    shown = called("list", "plugins", site=both)
    assert shown.returncode == 0
    assert re.search(r"roofsim-example +1\.2 +roofsim\.passes +without-norms", shown.stdout)
    assert re.search(r"acme-other +0\.3 +roofsim\.families +cannot be used", shown.stdout)
    assert "plug-in acme-other 0.3 (roofsim.families: broken = acme_other:X) cannot be loaded" in shown.stdout.replace(
        "\n", " "
    )
    rows = json.loads(called("list", "plugins", "--json", site=folder).stdout)
    assert {(row["distribution"], row["version"]) for row in rows} == {("roofsim-example", "1.2")}
    failed = called("run", "gpt2-124m", "--set", "model.family=broken", site=site)
    assert failed.returncode == 2
    assert "Traceback" not in failed.stderr


# -- what is written about it -----------------------------------------------------------------------------------------


def test_the_page_shows_the_files_that_these_tests_run():
    page = (ROOT / "docs" / "how-to" / "write-a-plugin.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^`([\w./-]+)`:\n\n```\w+\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    files = {
        str(path.relative_to(EXAMPLE)): path.read_text(encoding="utf-8")
        for path in EXAMPLE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.name != "__init__.py"
    }
    assert shown == files


def test_names_of_our_passes():
    from roofsim.passes.manager import training_passes

    resolved = roofsim.resolve("gpt2-124m", recompute="full", engine="megatron-core")
    workload = resolved.workload
    passes = training_passes(resolved.precision, resolved.engine, RecomputePlan(policy="full"), workload.optimizer, 4.0)
    assert {one.name for one in passes} <= own_passes()
