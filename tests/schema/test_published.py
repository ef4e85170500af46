"""The JSON Schemas that editors check files with accept every file of the catalog, and refuse what is wrong."""

from __future__ import annotations

import importlib.util
import json
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

from roofsim.analyze.catalogs import SCHEMA_KINDS, json_schema
from roofsim.cli.init import SCHEMAS, template
from roofsim.cli.schema import KINDS
from roofsim.report.schema_files import schema_file, write_schemas
from roofsim.spec.reading.source import parse_yaml, read_yaml
from tests.importers.test_captured import data_of
from tests.spec.test_bad_input import run_cli

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "gpu": "hardware/gpus",
    "system": "hardware/systems",
    "engine": "hardware/engines",
    "architecture": "hardware/architectures",
    "model": "models",
}
#: Kind -> a file of the catalog, and ways to break it: a key path, and what stands there; None takes the key away.
BROKEN: dict[str, tuple[str, list[tuple[str, Any]]]] = {
    "gpu": (
        "nvidia/h100-sxm5-80gb.yaml",
        [("name", None), ("memory.bandwith", "3 TB/s"), ("peak", "990 TFLOP/s"), ("tdp", -1), ("compute_units", "many")],
    ),
    "system": (
        "dgx-h100.yaml",
        [("gpus_per_node", 0), ("gpus_per_node", "eight"), ("nics", {"a": 1}), ("topology", 3), ("colour", "red")],
    ),
    "engine": ("vllm.yaml", [("phases", "decode"), ("phases", ["dekode"]), ("fusion.grups", ["qkv"]), ("name", 7)]),
    "architecture": ("hopper.yaml", [("name", None), ("colour", "red")]),
    "model": (
        "decoder/llama3-8b.yaml",
        [("family", "decodr"), ("family", None), ("num_layers", None), ("num_layers", -4), ("hidden_size", "wide"),
         ("num_layerz", 3)],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def validators():
    return {kind: jsonschema.Draft202012Validator(json_schema(kind)) for kind in SCHEMA_KINDS}


def changed(data, path, value):
    made = deepcopy(data)
    *outer, last = path.split(".")
    at = made
    for key in outer:
        at = at[key]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return made


@pytest.mark.parametrize("kind", SCHEMA_KINDS)
def test_a_schema_is_one_and_its_references_lead_somewhere(kind, validators):
    schema = validators[kind].schema
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:roofsim:schema:{kind}"

    def references(part):
        if isinstance(part, dict):
            yield from ([part["$ref"]] if isinstance(part.get("$ref"), str) else [])
            for each in part.values():
                yield from references(each)
        elif isinstance(part, list):
            for each in part:
                yield from references(each)

    names = {name.removeprefix("#/$defs/") for name in references(schema)}
    assert names <= set(schema.get("$defs", {}))


@pytest.mark.parametrize("kind", FOLDERS)
def test_every_file_of_the_catalog_is_valid(kind, validators):
    files = sorted((ROOT / FOLDERS[kind]).rglob("*.yaml"))
    assert len(files) >= 20
    wrong = {path.name: error.message for path in files for error in validators[kind].iter_errors(read_yaml(path).data)}
    assert not wrong


@pytest.mark.parametrize(
    ("kind", "path", "value"), [(kind, *way) for kind, (_, ways) in BROKEN.items() for way in ways]
)
def test_a_broken_file_is_not(kind, path, value, validators):
    data = read_yaml(ROOT / FOLDERS[kind] / BROKEN[kind][0]).data
    assert validators[kind].is_valid(data)
    assert not validators[kind].is_valid(changed(data, path, value))


@pytest.mark.parametrize(
    "broken",
    [
        {"workload": {}},  # no model
        {"model": "gpt", "workload": {"phase": "trian"}},
        {"model": "gpt", "workload": {"micro_batchsize": 8}},
        {"model": "gpt", "workload": {"micro_batch_size": 0}},
        {"model": "gpt", "parallel": {"tensor": "two"}},
        {"model": "gpt", "hardware": {"gpus": 1.5}},
        {"model": "gpt", "workload": {"engine_facts": {"crossentropy": "fused"}}},
        {"model": "gpt", "wrkload": {}},
        ["model"],
    ],
)
def test_a_broken_scenario_is_not_valid(broken, validators):
    assert not validators["scenario"].is_valid(broken)


def test_scenarios_are_valid(validators):
    for text in (template("gpt.yaml"), (ROOT / "gpt.yaml").read_text(encoding="utf-8")):
        validators["scenario"].validate(parse_yaml(text, "gpt.yaml").data)
    examples = sorted((ROOT / "examples").rglob("*.yaml"))
    for path in examples:
        data = read_yaml(path).data
        if isinstance(data, dict) and "model" in data:
            validators["scenario"].validate(data)
    validators["model"].validate(parse_yaml(template("net.yaml", layers=True), "net.yaml").data)
    validators["capture"].validate(data_of("mlp"))


def test_the_site_and_the_command_have_the_same_files(tmp_path, monkeypatch, capsys):
    assert tuple(KINDS) == tuple(dict.fromkeys(KINDS))
    assert set(KINDS) == set(SCHEMA_KINDS)
    hook = ROOT / "docs" / "_site" / "schemas.py"
    assert "docs/_site/schemas.py" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    loaded = importlib.util.spec_from_file_location("schemas_hook", hook)
    assert loaded is not None
    assert loaded.loader is not None
    module = importlib.util.module_from_spec(loaded)
    loaded.loader.exec_module(module)
    module.on_post_build(SimpleNamespace(site_dir=str(tmp_path / "site")))
    monkeypatch.chdir(tmp_path)
    assert run_cli(monkeypatch, capsys, "schema", "--write", "written/here")[0] == 0
    for kind in SCHEMA_KINDS:
        text = (tmp_path / "site" / "schemas" / schema_file(kind)).read_text(encoding="utf-8")
        assert (tmp_path / "written" / "here" / schema_file(kind)).read_text(encoding="utf-8") == text
        assert json.loads(text) == json_schema(kind)


def test_one_kind_is_written_alone_and_an_unknown_one_is_not(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_cli(monkeypatch, capsys, "schema", "gpu", "--write", "x")[0] == 0
    assert [path.name for path in Path("x").iterdir()] == ["gpu.schema.json"]
    code, _, said = run_cli(monkeypatch, capsys, "schema", "gpuu", "--write", "y")
    assert code == 2
    assert "Did you mean 'gpu'" in said
    assert not Path("y").exists()
    Path("file").write_text("", encoding="utf-8")
    code, _, said = run_cli(monkeypatch, capsys, "schema", "--write", "file")
    assert code == 1
    assert "cannot write file" in said


@pytest.mark.parametrize(("options", "kind"), [((), "scenario"), (("--layers",), "model")])
def test_what_init_writes_names_the_schema_that_it_writes(options, kind, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    code, out, _ = run_cli(monkeypatch, capsys, "init", "sub/x.yaml", *options)
    assert code == 0
    first, second, *_ = Path("sub/x.yaml").read_text(encoding="utf-8").splitlines()
    named = first.removeprefix("# yaml-language-server: $schema=")
    assert named == second.removeprefix("# $schema: ") == f"{SCHEMAS}/{schema_file(kind)}"
    schema = Path("sub") / named
    assert str(schema) in out
    assert json.loads(schema.read_text(encoding="utf-8")) == json_schema(kind)
    jsonschema.Draft202012Validator(json_schema(kind)).validate(read_yaml(Path("sub/x.yaml")).data)


def test_a_schema_replaces_one_of_another_version(tmp_path):
    (tmp_path / "gpu.schema.json").write_text("{}", encoding="utf-8")
    (path,) = write_schemas(tmp_path, ["gpu"])
    assert json.loads(path.read_text(encoding="utf-8"))["$id"] == "urn:roofsim:schema:gpu"
