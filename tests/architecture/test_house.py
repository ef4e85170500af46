"""Hold the house to its own rules: layers, sizes, words, tables."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import roofsim
from roofsim.graph import ops as vocabulary
from roofsim.graph.base import AbstractOp, Kind
from roofsim.schema.base import BaseModel

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "roofsim").rglob("*.py"))


def test_imports_go_down(monkeypatch):
    from importlinter.cli import lint_imports

    monkeypatch.chdir(ROOT)
    assert lint_imports(no_cache=True) == 0


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_exceeds_400_lines(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


def test_lines_are_formatted_by_hand_in_few_tables_only():
    # A table of literals reads better in rows of its own; the number may fall, and not rise.
    assert sum(path.read_text(encoding="utf-8").count("# fmt: skip") for path in MODULES) < 60


def test_powers_of_ten_live_in_units_only():
    pattern = re.compile(r"(?<![\w.])1e(3|6|9|12|15)(?!\d)|1024 ?\*\*")
    offenders = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in MODULES
        if path.name != "units.py"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line.split("#")[0]) and not line.strip().startswith((">>>", '"""'))
    ]
    assert offenders == []


def test_files_and_pictures_are_written_by_one_door():
    """What else writes may leave half a file where a whole one was."""
    pattern = re.compile(r"(?<!formatter)\.write_text\(|\.write_bytes\(|savefig\(|open\([^)]*[\"'][wax]b?\+?[\"']")
    doors = {
        "roofsim/output.py",
        "roofsim/report/figure.py",
        "roofsim/calibrate/microbenchmark/main.py",
        "roofsim/capture/main.py",
    }  # a script of its own
    offenders = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in MODULES
        if str(path.relative_to(ROOT)) not in doors
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line) and "os.devnull" not in line
    ]
    assert offenders == []


def test_package_files_hold_docstring_imports_and_all():
    for path in MODULES:
        if path.name == "__init__.py" and path.parent.name != "roofsim":
            body = ast.parse(path.read_text(encoding="utf-8")).body
            allowed = (ast.Import, ast.ImportFrom, ast.Assign, ast.Expr, ast.If)
            assert all(isinstance(node, allowed) for node in body), path


def test_records_and_schemas_come_through_their_doors():
    """Classes of `dataclasses` and `pydantic` take half a millisecond each to make, and pydantic a tenth of a second to import."""
    pattern = re.compile(r"^\s*(?:from|import) (?:dataclasses|pydantic|pydantic_core)\b", re.MULTILINE)
    doors = {
        "roofsim/records.py",
        "roofsim/schema/base.py",
        "roofsim/schema/reference.py",
        "roofsim/spec/reading/validate.py",  # their errors, once there are some
        "roofsim/spec/scenario/schedules.py",
        "roofsim/calibrate/microbenchmark/timing.py",  # a script of its own
    }
    using = {str(path.relative_to(ROOT)) for path in MODULES if pattern.search(path.read_text(encoding="utf-8"))}
    assert using <= doors


def test_no_catch_all_module_names():
    bad = {"utils.py", "helpers.py", "common.py", "misc.py"}
    assert not [path for path in MODULES if path.name in bad]


def test_public_names_are_sorted_and_complete():
    assert list(roofsim.__all__) == sorted(roofsim.__all__)
    for name in roofsim.__all__:
        assert getattr(roofsim, name) is not None
    assert set(dir(roofsim)) == set(roofsim.__all__)


def test_public_names_stay_what_they_are():
    """In a fresh interpreter: before any call, after each, and after every module of the package was imported."""
    script = """
import importlib, pkgutil, types
import roofsim
before = {name: getattr(roofsim, name) for name in roofsim.__all__}
assert not any(isinstance(value, types.ModuleType) for value in before.values())
resolved = roofsim.resolve("gpt2-124m", gpu="a100")
calls = [
    lambda: roofsim.run("gpt2-124m", gpu="a100"),
    lambda: roofsim.evaluate(resolved),
    lambda: roofsim.compare("gpt2-124m", gpus=["a100"]),
    lambda: roofsim.fit("gpt2-124m", gpu="a100"),
    lambda: roofsim.serve("gpt2-124m", gpu="a100", engine="vllm", prompt_length=64, output_length=8),
]
calls += [lambda name=module.name: importlib.import_module(f"roofsim.{name}") for module in pkgutil.iter_modules(roofsim.__path__)
          if module.name != "__main__"]
for call in calls:
    call()
    for name, value in before.items():
        assert getattr(roofsim, name) is value, name
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


def schemas(parent):
    for child in parent.__subclasses__():
        yield child
        yield from schemas(child)


def test_no_schema_takes_what_is_no_number():
    """Infinity or NaN behind any key would go through every product to the answer."""
    for module in pkgutil.walk_packages(roofsim.__path__, "roofsim."):
        if not module.name.startswith(("roofsim.__main__", "roofsim.calibrate.microbenchmark", "roofsim.capture")):
            importlib.import_module(module.name)
    own = {schema for schema in schemas(BaseModel) if schema.__module__.startswith("roofsim.")}
    assert len(own) > 50
    assert sorted(schema.__name__ for schema in own if schema.model_config.get("allow_inf_nan") is not False) == []


def final_ops():
    return [getattr(vocabulary, name) for name in vocabulary.__all__ if inspect.isclass(getattr(vocabulary, name))]


def test_every_op_has_a_row_in_every_table():
    from roofsim.cost.kernels.ops import kernels_of
    from roofsim.passes.autograd.tape import ROWS, backward
    from roofsim.passes.precision import autocast_policy

    for rows in ROWS:
        importlib.import_module(rows)
    # kernels_of has a default for ops that only move bytes; it is registered by name for each of them.
    for op_class in final_ops():
        assert op_class in autocast_policy.registry, op_class
        assert op_class in backward.registry, op_class
        assert op_class in kernels_of.registry, op_class


def test_every_kind_has_a_bandwidth_share():
    from roofsim.spec.constants.kernels import shipped

    needed = {str(kind) for kind in Kind if kind not in (Kind.VIEW, Kind.COLLECTIVE, Kind.HOST_TRANSFER)} | {
        "batch_normalization",
        "depthwise_backward",
    }
    assert needed <= set(shipped().classes)


def test_ops_are_final_and_documented():
    for op_class in final_ops():
        assert op_class.__bases__ == (AbstractOp,), op_class
        assert op_class.__doc__
        assert isinstance(op_class.kind, Kind)


#: Flags that set a key of the scenario. A new one is a decision: it stays for good.
FLAGS = """
--account-for-embedding --account-for-loss --adapter --attention --batch --batch-size --beam-width --calibration --checkpoint
--clock-limit --concurrency --context --context-communication --context-heads --context-length --cp --data --dp --dropout
--dtype --engine --ep --expert --expert-capacity --expert-imbalance --expert-tensor --global-batch-size --gpu --gpus
--guided-decoding --image-size --input --jitter --local-steps --memory-format --micro-batch-size --mtbf --mtbf-per-gpu
--num-inference-steps --num-return-sequences --offload --optimizer --output-length --packed-length --phase --pipeline
--power-limit --pp --precision --prompt-length --recompute --redundant-experts --request-rate --restart --schedule --seq-len
--sequence --sequence-length --serving --sharding --stage-layers --system --tables --target-length --tensor --tp
--virtual-stages --weight-average
"""


def test_command_line_options_are_frozen():
    from roofsim.cli.options import flags_of, scenario_fields

    assert sorted(flag for _, key, _ in scenario_fields() for flag in flags_of(key)) == FLAGS.split()


#: The names that `from roofsim import ...` knows.
PUBLIC = """
NoDataError Result RoofsimError Scenario SpecError UnitError UnknownNameError __version__ advise budget check collectives
compare diff evaluate explain fit graph measurement_script memory need ops plan power predict_batch rent_or_buy resolve run
serve sweep timeline transplant whatif
"""


def test_public_names_are_frozen():
    assert list(roofsim.__all__) == PUBLIC.split()
