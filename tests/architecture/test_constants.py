"""Code holds mathematics: constants of physics stand in hardware/constants, with unit, meaning, source and plausible range."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import pytest
import yaml

from roofsim.analyze.catalogs import entry
from roofsim.api import resolve
from roofsim.errors import SpecError
from roofsim.evaluate import evaluate
from roofsim.spec.constants.kernel_models import shipped_models
from roofsim.spec.constants.physics import shipped_physics
from tests.scenarios import evaluated

ROOT = Path(__file__).resolve().parents[2] / "roofsim"
ROOMS = ("cost", "schedule", "analyze")

#: Numbers that modules may hold, by what they are. A new name here is a decision: physics goes to hardware/constants.
ALLOWED = {
    # counts, codes and units
    "cost/kernels/roofline.py": {"COMPUTE", "MEMORY_BANDWIDTH", "LAUNCH"},
    "schedule/pipeline/protocol.py": {"FORWARD", "BACKWARD", "WEIGHTS"},
    "analyze/money.py": {"SECONDS_PER_HOUR", "JOULES_PER_KWH", "MILLION"},
    "analyze/ops.py": {"_NOTHING"},
    "analyze/timeline/passes.py": {"WRITTEN", "MOST_OPS"},
    # what an algorithm or a number format is by definition: taps, tiles, points of a transform, bytes of an element
    "cost/kernels/models/convolution.py": {
        "TILES", "POINT_TILES", "COMPLEX_TILES", "MATRIX_WIDTH", "PATCHES", "FUSED_CHANNELS", "FUSED_AREA", "FUSED_POINTS",
        "STAGED_SIDE", "STAGED_POINTS", "FOURIER_SIDES", "COMPLEX", "COMPLEX_BYTES", "STEP", "FULL_BLOCK", "ALIGNMENT",
        "FEW_CHANNELS", "STAGED_LAUNCHES",
    },
    "cost/kernels/models/gemm.py": {"TILES", "SPLITS", "_THINNESS", "K_STEP", "PARTIAL_BYTES"},
    "cost/kernels/models/attention.py": {"QUERY_TILE", "GROUP_TILE"},
    "cost/kernels/models/experts.py": {"PERMUTE_BYTES"},
    "cost/kernels/attention.py": {"HEAD_TILES", "WIDEST", "WHOLE", "STATED_WIDTH"},
    "cost/kernels/experts.py": {"PRODUCTS_OF_A_LAYER"},
    "cost/kernels/ops.py": {"FIRST_CHANNELS"},
    "cost/kernels/rated.py": {"WIDTHS"},
    "cost/links/collectives.py": {"ROUNDS"},
    "analyze/goodput.py": {"_FULL", "HOPELESS"},
    "analyze/verdicts.py": {"_END"},
    # steps, rounds and bounds of a method
    "cost/links/communication.py": {"_UNLIMITED"},
    "cost/links/fabric.py": {"PROBED", "_NOTHING"},
    "cost/stacks.py": None,
    "cost/priced_kernels.py": {"_MOST_REMEMBERED"},
    "cost/kernels/products.py": {"MOST_PRODUCTS"},
    "schedule/pipeline/simulation.py": None,
    "schedule/makespan.py": None,
    "schedule/pipeline/makespan.py": None,
    "schedule/staged.py": {"_HALVINGS"},
    "schedule/surroundings.py": {"_REACH", "_PIECES"},
    "analyze/bottleneck.py": None,
    "analyze/collectives.py": {"LARGEST", "MOST_RANKS", "NODES"},
    "analyze/explain.py": {"SHOWN"},
    "analyze/op_graph.py": {"MOST_NODES"},
    "analyze/sensitivity.py": None,
    "analyze/shares.py": {"NEGLIGIBLE"},
    "analyze/timeline/build.py": {"MOST_PIECES"},
}  # fmt: skip


#: What an expression is made of.
PARTS = {
    ast.UnaryOp: ("operand",), ast.BinOp: ("left", "right"), ast.Tuple: ("elts",), ast.List: ("elts",), ast.Dict: ("values",),
}  # fmt: skip


def holds_a_number(node):
    """Tell whether an expression is made of numbers that somebody wrote down."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    if isinstance(node, ast.Call):
        return getattr(node.func, "id", "") == "parse" or any(map(holds_a_number, node.args))
    parts = {
        ast.UnaryOp: ("operand",),
        ast.BinOp: ("left", "right"),
        ast.Tuple: ("elts",),
        ast.List: ("elts",),
        ast.Dict: ("values",),
    }
    held = [getattr(node, name) for name in parts.get(type(node), ())]
    return any(holds_a_number(each) for part in held for each in (part if isinstance(part, list) else [part]))


def numbers_of(path):
    """Return the names of a module's own numbers."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets, value = [], None
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], node.value
        elif isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        if value is not None and holds_a_number(value):
            yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))


@pytest.mark.parametrize("room", ROOMS)
def test_modules_hold_no_physics(room):
    numbers = []
    for path in sorted((ROOT / room).rglob("*.py")):
        place = str(path.relative_to(ROOT))
        allowed = ALLOWED.get(place, set())
        if allowed is not None:
            numbers += [f"roofsim/{place}: {name}" for name in numbers_of(path) if name not in allowed]
    assert numbers == [], "constants of physics belong to hardware/constants/physics.yaml"


def test_nothing_is_allowed_that_is_gone():
    for place, names in ALLOWED.items():
        path = ROOT / place
        if names is not None:
            assert path.exists(), place
            assert names <= set(numbers_of(path)), f"{place}: {names - set(numbers_of(path))}"


def test_constants_are_plausible_and_say_what_they_are():
    constants = shipped_physics().constants
    assert len(constants) > 35
    for name, constant in constants.items():
        low, high = constant.range
        assert low < high, name
        assert constant.si(low) <= shipped_physics()[name] <= constant.si(high), name
        assert len(constant.meaning) > 20, name
        assert len(constant.source) >= 4, name


def test_kernel_models_are_plausible_and_say_what_they_are():
    models = shipped_models()
    for operation, architectures in models.classes.items():
        meanings = models.meanings[operation]
        used = {
            name
            for libraries in architectures.values()
            for kinds in libraries.values()
            for numbers in kinds.values()
            for name in numbers
        }
        assert used <= set(meanings), operation
        for name, meaning in meanings.items():
            low, high = meaning.limits()
            assert 0.0 <= low < high < math.inf, (operation, name)


def calibrated(tmp_path, **physics):
    """Return a step with other constants, by a calibration file."""
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"schema": 1, "gpu": "a100-sxm4-80gb", "physics": physics}), encoding="utf-8")
    workload = {"precision": "bf16", "micro_batch_size": 8, "hardware_gpu": "a100-sxm4-80gb"}
    return evaluated("gpt2-1558m", hardware_calibration=str(path), **workload)


def test_constants_of_a_calibration_reach_the_links(tmp_path):
    """Transfers inside nodes and between them overlap as the scenario's constants say, not as the catalog's."""
    seconds = []
    for overlap in (1.0, 4.0):
        path = tmp_path / f"{overlap}.yaml"
        path.write_text(
            yaml.safe_dump({"schema": 1, "gpu": "a100-sxm4-80gb", "physics": {"node_overlap": overlap}}),
            encoding="utf-8",
        )
        workload = {"precision": "bf16", "global_batch_size": 64, "micro_batch_size": 1}
        hardware = {"system": "dgx-a100", "gpus": 64, "calibration": str(path)}
        scenario = {"model": "gpt2-1558m", "workload": workload, "hardware": hardware, "parallel": {"data": 64}}
        seconds.append(float(evaluate(resolve(scenario)).step.step))
    assert seconds[0] > 1.001 * seconds[1]


def test_a_calibration_file_puts_other_constants_in_their_place(tmp_path):
    usual, slower = calibrated(tmp_path), calibrated(tmp_path, attention_backward_rate=0.5)
    assert float(slower.step.step) > 1.005 * float(usual.step.step)
    steeper = calibrated(tmp_path, clock_power=3.0)
    assert float(steeper.step.step) < float(usual.step.step)


def test_constants_are_shown():
    shown = entry("physics", None)
    assert shown["contention"] == "0.95 (0.5 to 1)"
    assert shown["plain_decode_start"].startswith("1.8 us")
    assert set(shown["sources"]) == set(shipped_physics().constants)
    assert set(entry("physics", "clock_power")) == {"kind", "name", "clock_power", "sources"}
    with pytest.raises(SpecError, match="no physical constant"):
        entry("physics", "contentoin")


@pytest.mark.parametrize(
    ("physics", "said"),
    [
        ({"contention": 3.0}, "contention: 3 lies outside of its plausible range, 0.5 to 1"),
        ({"contentoin": 0.9}, "contention"),
    ],
)
def test_what_is_not_plausible_is_refused(tmp_path, physics, said):
    with pytest.raises(SpecError, match=said):
        calibrated(tmp_path, **physics)
