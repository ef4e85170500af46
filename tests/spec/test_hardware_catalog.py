"""Hold the hardware catalog to its rules: valid files, unique names, a source for every number, dense peaks."""

import json
import math
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from roofsim.api import resolve, run
from roofsim.cost.links.fabric import fabric_of, shape_of
from roofsim.errors import NoDataError, SpecError
from roofsim.graph.topology import build
from roofsim.spec import catalog
from roofsim.spec.hardware.architecture import Architecture
from roofsim.spec.hardware.schema import Gpu, System
from roofsim.spec.reading.validate import validate
from roofsim.spec.settle.clocks import with_clock
from roofsim.spec.settle.hardware import HOST_ONLY, misfit
from tests.scenarios import TINY
from tests.surely import sure

HARDWARE = Path(__file__).parents[2] / "hardware"
GPU_FILES = sorted((HARDWARE / "gpus").glob("*/*.yaml"))
SYSTEM_FILES = sorted((HARDWARE / "systems").glob("*.yaml"))

#: What published measurements name; the catalog has them all.
CATALOG_NAMES = (
    "a10", "a100-pcie-40gb", "a100-pcie-80gb", "a100-sxm4-40gb", "a100-sxm4-80gb", "a10g", "a16-1gpu", "a2", "a30",
    "a40", "a800-sxm4-80gb", "arc-a770-16gb", "arc-b580", "arc-pro-b60", "b100-sxm-192gb", "b200-sxm-180gb",
    "b300-sxm-288gb", "gaudi2", "gaudi3", "gb10", "gb200", "gb300", "gh200-144gb", "gh200-96gb", "gtx1060-6gb",
    "gtx1070", "gtx1070ti", "gtx1080", "gtx1080ti", "gtx1660", "gtx1660-super", "gtx1660ti", "gtx980ti",
    "h100-nvl-94gb", "h100-pcie-80gb", "h100-sxm5-80gb", "h100-sxm5-96gb-500w", "h20-96gb", "h200-nvl-141gb",
    "h200-sxm-141gb", "h800-sxm-80gb", "jetson-agx-orin-64gb", "jetson-orin-nx-16gb", "k80-1gpu", "l20", "l4",
    "l40", "l40s", "m40-24gb", "mi100-32gb", "mi210-64gb", "mi250-1gcd", "mi250x-1gcd", "mi300x", "mi325x",
    "mi350x", "mi355x", "mi50-16gb", "p100-pcie-16gb", "p100-sxm2-16gb", "p4", "p40", "quadro-rtx5000",
    "quadro-rtx6000", "quadro-rtx8000", "radeon-8060s", "radeon-ai-pro-r9700", "radeon-vii", "rtx-a2000-12gb",
    "rtx-a4000", "rtx-a4500", "rtx-a5000", "rtx-a5500", "rtx-a6000", "rtx-pro-4000-blackwell",
    "rtx-pro-4500-blackwell", "rtx-pro-5000-blackwell-48gb", "rtx-pro-6000-blackwell",
    "rtx-pro-6000-blackwell-maxq", "rtx-pro-6000-blackwell-server", "rtx2000-ada", "rtx2060", "rtx2060-12gb",
    "rtx2060-super", "rtx2070", "rtx2070-super", "rtx2080", "rtx2080-super", "rtx2080ti", "rtx3050", "rtx3060-12gb",
    "rtx3060-laptop", "rtx3060ti", "rtx3070", "rtx3070-laptop", "rtx3070ti", "rtx3080-10gb", "rtx3080-12gb",
    "rtx3080-laptop-16gb", "rtx3080ti", "rtx3090", "rtx3090ti", "rtx4000-ada", "rtx4050-laptop", "rtx4060",
    "rtx4060-laptop", "rtx4060ti-16gb", "rtx4060ti-8gb", "rtx4070", "rtx4070-laptop", "rtx4070-super", "rtx4070ti",
    "rtx4070ti-super", "rtx4080", "rtx4080-laptop", "rtx4080-super", "rtx4090", "rtx4090-laptop", "rtx4500-ada",
    "rtx5000-ada", "rtx5050", "rtx5060", "rtx5060-laptop", "rtx5060ti-16gb", "rtx5060ti-8gb", "rtx5070",
    "rtx5070-laptop", "rtx5070ti", "rtx5070ti-laptop", "rtx5080", "rtx5080-laptop", "rtx5090", "rtx5090-laptop",
    "rtx6000-ada", "rx6700xt", "rx6800", "rx6800xt", "rx6900xt", "rx7800xt", "rx7900gre", "rx7900xt", "rx7900xtx",
    "rx9060xt", "rx9070", "rx9070xt", "t4", "titan-rtx", "titan-v", "titan-x-maxwell", "titan-x-pascal", "titan-xp",
    "v100-pcie-16gb", "v100-pcie-32gb", "v100-sxm2-16gb", "v100-sxm2-32gb", "v100-sxm3-32gb", "v100-sxm3-32gb-450w",
    "v100s-pcie-32gb", "w7900",
)  # fmt: skip

#: Short names that people write, and the one card that each stands for.
FAMILIES = {
    "a100": "a100-sxm4-80gb", "a800": "a800-sxm4-80gb", "b100": "b100-sxm-192gb", "b200": "b200-sxm-180gb",
    "b300": "b300-sxm-288gb", "gh200": "gh200-96gb", "h100": "h100-sxm5-80gb", "h20": "h20-96gb",
    "h200": "h200-sxm-141gb", "h800": "h800-sxm-80gb", "p100": "p100-pcie-16gb", "rtx3060": "rtx3060-12gb",
    "rtx3080": "rtx3080-10gb", "rtx4060ti": "rtx4060ti-16gb", "v100": "v100-sxm2-16gb",
}  # fmt: skip

#: Dense FLOP per clock and compute unit of the matrix units, fp16 inputs (Gaudi: bf16), fp32 accumulation.
MATRIX_RATE = {
    "volta": 1024, "turing": 1024, "ampere-ga100": 2048, "ampere-ga10x": 1024, "ada": 1024, "hopper": 4096,
    "blackwell": 8192, "blackwell-rtx": 1024, "cdna1": 1024, "cdna2": 1024, "cdna3": 2048, "cdna4": 4096,
    "rdna3": 512, "rdna4": 1024, "xe2": 2048, "xe-hpg": 2048, "ampere-ga10b": 2048, "gaudi2": 131072, "gaudi3": 131072,
}  # fmt: skip
#: The same for fp32 on the ordinary units (Gaudi: of each core beside the matrix engines), at the highest clock.
VECTOR_RATE = {
    "pascal": 256, "volta": 128, "turing": 128, "ampere-ga100": 128, "ampere-ga10x": 256, "ada": 256, "hopper": 256,
    "blackwell": 256, "blackwell-rtx": 256, "gcn5": 128, "cdna1": 128, "cdna2": 128, "cdna3": 256, "cdna4": 256,
    "rdna2": 128, "rdna3": 256, "rdna4": 256, "xe2": 256, "xe-hpg": 256, "ampere-ga10b": 256, "maxwell": 256, "kepler": 384,
    "gaudi2": 128, "gaudi3": 128,
}  # fmt: skip
ARCHITECTURES = {*MATRIX_RATE, *VECTOR_RATE}
WITHOUT_MATRIX_UNITS = {"pascal", "gcn5", "rdna2", "maxwell", "kepler"}
#: GeForce cards, and the DGX Spark's part, accumulate in fp32 at half the rate of fp16 accumulation.
HALF_RATE_NAMES = re.compile(r"rtx[2-5]0\d0(ti|d)?(-super)?(-laptop)?(-\d+gb)?|gb10")
MATRIX_EXCEPTIONS = {
    "a10g": (512, "AWS's variant of the A10 has half the tensor rate per unit"),
    "l40": (512, "half the rate of the L40S by NVIDIA's own datasheet"),
    "l20": (512, "cut for export"),
    "h20-96gb": (1024, "matrix units cut to a quarter for export"),
}
VECTOR_EXCEPTIONS = {
    "p100-pcie-16gb": (128, "GP100 has 64 cores per unit, the other Pascal chips 128"),
    "p100-sxm2-16gb": (128, "GP100 has 64 cores per unit, the other Pascal chips 128"),
    "h20-96gb": (285, "lists say 44 TFLOP/s, more than 78 units can do: kept, and marked as doubtful"),
}
TOLERANCE = 0.07
#: What stands for a source that nobody has looked up yet.
NO_SOURCE = re.compile(r"to ?do|tbd|unknown|none|n/?a|\?+|-+|x+|datasheet|the internet|google")

LINK_NAMES = {
    "none", "nvlink1", "nvlink2", "nvlink2-bridge", "nvlink3", "nvlink3-bridge", "nvlink4", "nvlink4-bridge", "nvlink5",
    "xgmi", "roce",
}  # fmt: skip
#: GB/s each way over 16 lanes, after encoding.
PCIE = {"pcie3": 15.75, "pcie4": 31.5, "pcie5": 63.0, "pcie6": 121.0}
HOST_LINKS = {*PCIE, "nvlink-c2c", "xgmi", "unified"}

QUANTITY = re.compile(r"\d[\d.]*\s*(?:[A-Za-z$]+(?:/[a-z]+)?)")
GIGA, TERA = 1e9, 1e12


#: The parser in C where there is one: every worker reads every file when it collects.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def raw(path: Path) -> dict[str, Any]:
    return yaml.load(path.read_text(encoding="utf-8"), Loader=LOADER)


def read_gpu(path: Path) -> Gpu:
    """Read a file as the catalog does: through JSON, in which a list may stand for a tuple."""
    return Gpu.model_validate_json(json.dumps(raw(path)))


def read_system(path: Path) -> System:
    return System.model_validate_json(json.dumps(raw(path)))


GPUS = {path.stem: read_gpu(path) for path in GPU_FILES}
SYSTEMS = {path.stem: read_system(path) for path in SYSTEM_FILES}
HALF_RATE = {name for name in GPUS if HALF_RATE_NAMES.fullmatch(name)}
#: GeForce GTX of a generation whose RTX cards have matrix units.
WITHOUT_THEM = {name for name, gpu in GPUS.items() if gpu.architecture == "turing" and name.startswith("gtx")}

every_file = pytest.mark.parametrize("path", GPU_FILES + SYSTEM_FILES, ids=lambda path: path.stem)
every_gpu = pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)
every_system = pytest.mark.parametrize("system", SYSTEMS.values(), ids=lambda system: system.name)


def numbers(node: Any, path: str = "") -> Iterator[str]:
    """Yield the path of every number and quantity of a file."""
    if isinstance(node, dict):
        for key, value in node.items():
            if path or key not in ("schema", "name", "aliases", "description", "sources", "notes"):
                yield from numbers(value, f"{path}.{key}" if path else key)
    elif isinstance(node, bool) or node is None:
        return
    elif isinstance(node, (int, float)) or (isinstance(node, str) and QUANTITY.fullmatch(node) and " " in node):
        yield path


def covered(path: str, sources: dict[str, str]) -> bool:
    return any(path == key or path.startswith(f"{key}.") for key in sources)


def exists(path: str, node: Any) -> bool:
    for key in path.split("."):
        if not isinstance(node, dict) or key not in node:
            return False
        node = node[key]
    return True


def near(value: float, expected: float, tolerance: float = TOLERANCE) -> bool:
    return abs(value / expected - 1) <= tolerance


# ---------------------------------------------------------------------------------------------------- every file


@every_file
def test_name_is_the_file_name(path):
    assert raw(path)["name"] == path.stem


@every_file
def test_schema_comes_first(path):
    assert next(iter(raw(path))) == "schema"


@every_file
def test_every_number_has_a_source(path):
    data = raw(path)
    missing = [field for field in numbers(data) if not covered(field, data["sources"])]
    assert not missing, "numbers without a line under `sources`"


@every_file
def test_every_source_is_a_text_about_a_field_of_the_file(path):
    data = raw(path)
    assert all(isinstance(text, str) and text.strip() for text in data["sources"].values())
    assert [key for key in data["sources"] if not exists(key, data)] == [], (
        "sources of fields that the file does not have"
    )
    vague = [key for key, text in data["sources"].items() if NO_SOURCE.fullmatch(text.strip().lower())]
    assert vague == [], "name who says it: a datasheet, a page, a file of a repository"


@every_file
def test_no_path_of_a_machine(path):
    assert not re.search(r"(^|\s)/(home|tmp|work|root|usr|mnt)\b", path.read_text(encoding="utf-8"))


def source_of(key: str, sources: dict[str, str]) -> str:
    """Return the text about a field, through `as another field`."""
    text = sources[key]
    referred = re.fullmatch(r"as ([a-z_0-9.]+)", text.strip())
    return source_of(referred[1], sources) if referred and referred[1] in sources else text


@every_file
def test_what_was_recalled_is_marked_and_nothing_else(path):
    data = raw(path)
    said = {key for key in data["sources"] if "recalled" in source_of(key, data["sources"])}
    marked = data.get("recalled", [])
    assert [key for key in marked if not exists(key, data)] == []
    assert {key.split(".")[0] for key in marked} == {key.split(".")[0] for key in said}, (
        "a field in `recalled` has the word in its source, and the other way around"
    )


@every_file
def test_the_date_of_the_last_check_is_one(path):
    checked = raw(path)["checked"]
    assert date(2026, 1, 1) <= date.fromisoformat(checked) <= date(2030, 1, 1)


def test_walk_finds_numbers():
    keys = list(numbers({"schema": 1, "tdp": "400 W", "memory": {"type": "HBM2", "capacity": "80 GiB"}, "year": 2020}))
    assert keys == ["tdp", "memory.capacity", "year"]


# ---------------------------------------------------------------------------------------------------------- GPUs


def test_all_names_of_the_catalog_are_present():
    assert len(CATALOG_NAMES) == len(set(CATALOG_NAMES)) == 159
    assert set(CATALOG_NAMES) - set(GPUS) == set()


def test_the_readme_counts_what_the_catalog_holds():
    counted = f"{len(GPUS)} GPUs and {len(SYSTEMS)} systems"
    assert counted in (HARDWARE.parent / "README.md").read_text(encoding="utf-8"), f"write {counted!r} in README.md"


@pytest.mark.parametrize("things", [GPUS, SYSTEMS], ids=["gpus", "systems"])
def test_aliases_are_unique_and_shadow_no_name(things):
    aliases = [alias for thing in things.values() for alias in thing.aliases]
    assert sorted(aliases) == sorted(set(aliases))
    assert set(aliases) & set(things) == set()
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", alias) for alias in aliases)


@pytest.mark.parametrize(("family", "name"), FAMILIES.items())
def test_short_family_names_stand_on_one_card(family, name):
    assert family in GPUS[name].aliases


@pytest.mark.parametrize("path", GPU_FILES, ids=lambda path: path.stem)
def test_vendor_is_the_folder(path):
    assert read_gpu(path).vendor == path.parent.name


@every_gpu
def test_architecture_is_known(gpu):
    assert gpu.architecture in ARCHITECTURES


@every_gpu
def test_usual_system_exists_and_fits(gpu):
    system = SYSTEMS[gpu.usual_system]
    assert system.gpu in (None, gpu.name) or GPUS[sure(system.gpu)].architecture == gpu.architecture


@every_gpu
def test_what_must_be_stated(gpu):
    assert gpu.compute_units
    assert gpu.year
    assert gpu.tdp
    assert gpu.l2
    assert gpu.link
    assert gpu.host_link
    assert gpu.peak or gpu.vector_peak
    assert gpu.clock


@every_gpu
def test_matrix_peak_is_dense(gpu):
    if gpu.architecture in WITHOUT_MATRIX_UNITS or gpu.name in WITHOUT_THEM:
        assert gpu.peak == {}
        return
    rate = gpu.flops_per_clock("bf16" if gpu.architecture.startswith("gaudi") else "fp16")
    expected = MATRIX_RATE[gpu.architecture] // (2 if gpu.name in HALF_RATE else 1)
    expected = MATRIX_EXCEPTIONS.get(gpu.name, (expected, ""))[0]
    assert expected.bit_count() == 1, "a rate is a power of two"
    assert near(rate, expected), (
        f"{rate:,.0f} FLOP per clock and unit where {gpu.architecture} does {expected:,}: is the peak dense, with fp32 "
        "accumulation, and clock.boost the clock that it was stated at?"
    )


@every_gpu
def test_a_card_without_a_clock_gets_its_own(gpu):
    """Matrix units of GeForce cards are held to half their rate, so that their 16-bit peak alone says half the clock."""
    architecture, assumed = validate(Architecture, catalog.load("architecture", gpu.architecture)), list[str]()
    bare = gpu.model_copy(update={"clock": None})
    clock = with_clock(bare, bare, architecture, assumed).clock
    if architecture.vector_lanes is not None:
        assert near(sure(clock).boost, gpu.clock.boost)
        assert "fp32 vector peak" in assumed[0]
        silent = bare.model_copy(update={"vector_peak": {}, "peak": {"fp16": 1e14}})
        assert with_clock(silent, silent, architecture, assumed).clock is None
        assert "state gpu.vector_peak.fp32 or gpu.clock.boost" in assumed[1]
    elif clock is not None and gpu.name not in MATRIX_EXCEPTIONS:
        assert near(clock.boost, gpu.clock.boost)


@every_gpu
def test_vector_peak_follows_from_units_and_clock(gpu):
    if "fp32" not in gpu.vector_peak:
        return
    expected = VECTOR_EXCEPTIONS.get(gpu.name, (VECTOR_RATE[gpu.architecture], ""))[0]
    clock = gpu.clock.maximum or gpu.clock.boost
    rate = gpu.vector_peak["fp32"] / ((gpu.vector_units or gpu.compute_units) * clock)
    assert near(rate, expected), f"{rate:,.0f} FLOP per clock and unit where {gpu.architecture} does {expected:,}"


@every_gpu
def test_rates_of_the_types_stand_in_their_ratios(gpu):
    peak = gpu.peak
    half = gpu.name in HALF_RATE
    ratios = {
        ("bf16", "fp16"): {"cdna1": 0.5, "gaudi3": 4.0}.get(gpu.architecture, 1.0),
        ("tf32", "fp16"): {"gaudi3": 1.0}.get(gpu.architecture, 0.5),
        ("fp16_fp16", "fp16"): 2.0 if half or gpu.name == "l40" else 1.0,
        ("fp8_fp16", "fp8"): 2.0,
        ("fp8", "fp16"): {"gaudi3": 4.0}.get(gpu.architecture, 2.0),
        ("fp6", "fp8"): {"cdna4": 2.0}.get(gpu.architecture, 1.0),
    }
    for (first, second), ratio in ratios.items():
        if first in peak and second in peak:
            assert near(peak[first] / peak[second], ratio, 0.02), (first, second)


def test_half_rate_is_for_geforce_only():
    twice = {n for n, g in GPUS.items() if "fp16_fp16" in g.peak and g.peak["fp16_fp16"] > 1.5 * g.peak["fp16"]}
    assert twice == HALF_RATE | {"l40"}
    assert {n for n, g in GPUS.items() if "fp8_fp16" in g.peak} == {n for n in HALF_RATE if "fp8" in GPUS[n].peak}


def test_only_what_the_units_take():
    assert {tuple(g.peak) for g in GPUS.values() if g.architecture == "volta"} == {("fp16",)}
    assert not any("tf32" in g.peak or "bf16" in g.peak for g in GPUS.values() if g.architecture == "turing")
    fp8 = {g.architecture for g in GPUS.values() if "fp8" in g.peak}
    assert fp8 <= {"ada", "hopper", "blackwell", "blackwell-rtx", "cdna3", "cdna4", "rdna4", "gaudi2", "gaudi3"}
    fp4 = {g.architecture for g in GPUS.values() if "fp4" in g.peak}
    assert fp4 == {"blackwell", "blackwell-rtx", "cdna4"}


@every_gpu
def test_sparsity_only_where_the_hardware_has_it(gpu):
    sparse = {
        "ampere-ga100",
        "ampere-ga10x",
        "ampere-ga10b",
        "ada",
        "hopper",
        "blackwell",
        "blackwell-rtx",
        "cdna3",
        "cdna4",
        "rdna4",
    }
    assert gpu.sparsity == (2.0 if gpu.architecture in sparse else None)


@every_gpu
def test_plausible_ranges(gpu):
    least = 0.6 if gpu.form == "jetson" else 1.0
    assert 100 * least * GIGA <= gpu.memory.bandwidth <= 10 * TERA
    assert 4 * 2**30 <= gpu.memory.capacity <= 300 * 2**30
    assert 25 * least <= gpu.tdp <= 1500
    assert 2014 <= gpu.year <= 2030
    assert 2**20 <= gpu.l2.capacity <= 256 * 2**20
    assert gpu.l2.bandwidth is None or gpu.l2.bandwidth > 2 * gpu.memory.bandwidth
    assert 0.85 * least * GIGA <= gpu.clock.boost <= 3.2 * GIGA
    assert gpu.clock.maximum is None or gpu.clock.boost < gpu.clock.maximum <= 1.2 * gpu.clock.boost
    best = gpu.peak.get("fp16") or gpu.peak.get("bf16") or gpu.vector_peak["fp32"]
    assert 10 <= best / gpu.memory.bandwidth <= 500, "FLOP per byte"


#: Parts for one customer, whose memory no list describes.
UNKNOWN_BUS = {"h100-sxm5-96gb-500w"}
#: GiB of a chip of 32 data lines, one or two beside each other; of a stack of 1,024.
CHIPS, STACKS = {0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0}, (3, 4, 8, 16, 24, 32, 36)


@every_gpu
def test_bandwidth_is_bus_times_rate(gpu):
    memory = gpu.memory
    if gpu.name in UNKNOWN_BUS:
        assert memory.bus is None
        return
    implied = memory.bus * memory.rate
    assert near(implied, memory.bandwidth, 0.03), f"bus times rate is {implied / GIGA:,.0f} GB/s"
    assert memory.bus % 32 == 0
    assert memory.stacks in (None, memory.bus / 1024)


@every_gpu
def test_capacity_is_a_number_of_whole_chips(gpu):
    memory = gpu.memory
    if memory.bus is None:
        return
    if memory.type.startswith("HBM"):
        assert any(near(memory.capacity / 2**30 / (memory.bus / 1024), size, 0.08) for size in STACKS)
    elif memory.type.startswith("GDDR"):
        assert memory.capacity / 2**30 / (memory.bus / 32) in CHIPS
    else:
        assert (memory.capacity / 2**30) == 2 ** round(math.log2(memory.capacity / 2**30))


@every_gpu
def test_power_is_that_of_the_card_alone_or_says_whose(gpu):
    if gpu.host_link.name in ("unified", "nvlink-c2c"):
        assert re.search(r"superchip|package|module|without Grace|GPU alone", gpu.notes + gpu.sources["tdp"])


@every_gpu
def test_capacity_is_what_the_name_says(gpu):
    said = re.search(r"-(\d+)gb", gpu.name)
    if said:
        assert near(gpu.memory.capacity / 2**30, int(said[1]), 0.08)


@every_gpu
def test_links_are_named_and_wide_enough(gpu):
    assert gpu.link.name in LINK_NAMES
    assert (gpu.link.name == "none") == (gpu.link.bandwidth is None) == (gpu.link.count == 0)
    assert gpu.host_link.name in HOST_LINKS
    if gpu.host_link.name in PCIE:
        assert near(gpu.host_link.bandwidth, PCIE[gpu.host_link.name] * GIGA * gpu.host_link.lanes / 16, 0.001)


# ------------------------------------------------------------------------------------------------------- systems


@every_system
def test_gpu_of_a_system_exists(system):
    assert system.gpu is None or system.gpu in GPUS


@every_system
def test_link_agrees_with_the_gpu(system):
    if system.link is None:
        assert system.topology == "single" if system.gpus_per_node == 1 else system.gpu is None
        return
    gpu = GPUS[sure(system.gpu)]
    same = gpu.host_link if system.link.name in PCIE else gpu.link
    assert system.link.name == sure(same).name
    lanes = (system.link.lanes or 1) / (sure(same).lanes or 1) if system.link.name in PCIE else 1.0
    links = (system.link.count or 1) / (sure(same).count or 1)  # a maker may wire fewer
    assert near(system.link.bandwidth, sure(sure(same).bandwidth) * lanes * links, 0.001)


@every_system
def test_host_link_agrees_with_the_gpu(system):
    if system.gpu is None:
        assert near(system.host_link.bandwidth, PCIE[system.host_link.name] * GIGA, 0.001)
        return
    own = GPUS[sure(system.gpu)].host_link
    assert system.host_link.name == sure(own).name
    assert system.host_link.bandwidth <= sure(own).bandwidth


@every_system
def test_network_is_stated_with_its_cards(system):
    if system.node_network is not None:
        assert system.nics_per_node
        per_card = system.node_network * 8 / GIGA / system.nics_per_node
        assert per_card in (25, 80, 100, 200, 400, 800), "Gbit/s of one card"


def test_generic_hosts():
    generic = {name for name, system in SYSTEMS.items() if system.gpu is None}
    kinds = [f"{kind}{size}" for kind in ("workstation", "server") for size in ("", "-8x")]
    assert generic == {f"{kind}-pcie{generation}" for kind in kinds for generation in (3, 4, 5)} | {
        "workstation-ryzen9-7950x",
        "laptop-pcie4",
    }
    for name in generic:
        assert SYSTEMS[name].gpus_per_node == (8 if "-8x" in name else 1)
        assert SYSTEMS[name].nics_per_node is None


def test_a_named_node_brings_its_cards():
    named = resolve({"model": "gpt2", "hardware": {"system": "dgx-h100"}})
    assert named.gpu.name == "h100-sxm5-80gb"
    assert any("that of dgx-h100" in line for line in named.assumed)
    with pytest.raises(
        SpecError, match=r"server-pcie4 takes any card of form pcie, and none is named. Name one: --gpu NAME"
    ):
        resolve({"model": "gpt2", "hardware": {"system": "server-pcie4"}})
    stated = {"model": "gpt2", "hardware": {"system": "dgx-h100", "gpu": "h200"}}
    assert resolve(stated).gpu.name == "h200-sxm-141gb"


# ------------------------------------------------------------------------------------------- cards in their nodes


@every_gpu
def test_every_card_has_a_form_and_sits_in_its_usual_nodes(gpu):
    assert gpu.form is not None
    for name in filter(None, (gpu.usual_system, gpu.usual_box)):
        assert misfit(gpu, SYSTEMS[name]) is None, name


@every_system
def test_every_system_holds_the_card_it_comes_with(system):
    assert system.form is not None
    if system.gpu is not None:
        assert misfit(GPUS[sure(system.gpu)], system) is None


#: What a machine has one of, and nobody joins to others as a matter of course.
ALONE = {"mobile", "jetson", "strix-halo"}


@pytest.mark.parametrize("gpu", [gpu for gpu in GPUS.values() if gpu.form not in ALONE], ids=lambda gpu: gpu.name)
@pytest.mark.parametrize("gpus", [2, 4, 8])
def test_up_to_eight_cards_need_no_words_about_the_node(gpu, gpus):
    resolved = resolve({"model": TINY, "hardware": {"gpu": gpu.name, "gpus": gpus}})
    inside = resolved.system.gpus_per_node >= gpus
    assert inside or resolved.system.node_network is not None
    assert misfit(gpu, resolved.system) is None
    assert any(note.startswith(f"system: {resolved.system.name}") for note in resolved.assumed)
    assert resolved.places >= (gpus if inside else resolved.system.gpus_per_node)


@pytest.mark.parametrize("gpu", [gpu for gpu in GPUS.values() if gpu.form in ALONE], ids=lambda gpu: gpu.name)
def test_what_stands_alone_has_no_network_until_one_is_stated(gpu):
    given = {"gpu": gpu.name, "gpus": 2, "precision": "fp32", "sequence_length": 64}
    with pytest.raises(NoDataError, match="network between nodes"):
        run({"model": TINY}, **given)
    stated = {"hardware": {"override": {"system.node_network": "10 Gbit/s"}}, "model": TINY}
    assert run(stated, **given).step_time > 0.0


@pytest.mark.parametrize("gpu", [gpu for gpu in GPUS.values() if gpu.usual_box], ids=lambda gpu: gpu.name)
def test_eight_cards_of_a_box_train_and_sixteen_need_a_network(gpu):
    given = {"gpu": gpu.name, "precision": "fp32", "sequence_length": 64}
    assert run({"model": TINY}, gpus=8, **given).step_time > 0.0
    with pytest.raises(NoDataError, match=r"network between nodes. State it, .*system.node_network='400 Gbit/s'"):
        run({"model": TINY}, gpus=16, **given)
    stated = {"hardware": {"override": {"system.node_network": "100 Gbit/s"}}, "model": TINY}
    assert run(stated, gpus=16, **given).scenario["hardware"]["system"] == gpu.usual_box


@pytest.mark.parametrize("phase", ["train", "decode"])
def test_one_rule_for_all_phases(phase):
    def system(gpus):
        hardware = {"gpu": "rtx-a5000", "gpus": gpus}
        return resolve({"model": "gpt2", "workload": {"phase": phase}, "hardware": hardware}).system.name

    assert [system(gpus) for gpus in (1, 2, 8)] == ["workstation-pcie4", "server-8x-pcie4", "server-8x-pcie4"]


@pytest.mark.parametrize(
    ("gpu", "system", "message"),
    [
        (
            "h100",
            "dgx-a100",
            r"dgx-a100 cannot hold h100-sxm5-80gb: its GPUs have form sxm4, the card has form sxm5",
        ),
        ("a100", "dgx-h100", r"its GPUs have form sxm5, the card has form sxm4. These hold it: dgx-a100, "),
        ("rtx4090", "dgx-h100", r"These hold it: workstation-4x-rtx4090, workstation-8x-rtx4090"),
        ("a800", "dgx-a100", r"joined by nvlink3 of 300.0 GB/s each, the card has nvlink3 of 200.0 GB/s. .*hgx-a800-8"),
        ("rtx4090", "server-8x-a40-nvlink", r"joined by nvlink3-bridge of 56.25 GB/s each, the card has none of 0 B/s"),
        ("gb200", "dgx-b200", r"its GPUs have form sxm6, the card has form grace-blackwell"),
        ("mi300x", "dgx-h100", r"These hold it: platform-8x-mi300x"),
    ],
)
def test_a_node_that_cannot_hold_the_card_is_refused(gpu, system, message):
    with pytest.raises(SpecError, match=message):
        resolve({"model": "gpt2", "hardware": {"gpu": gpu, "system": system}})


@pytest.mark.parametrize(
    "hardware",
    [
        {"gpu": "h200", "system": "dgx-h100"},
        {"gpu": "v100-32gb", "system": "dgx-1v"},
        {"gpu": "a100-40gb", "system": "dgx-a100"},
        {"gpu": "rtx4090", "system": "server-8x-pcie4"},
        {"gpu": "a100", "system": {"gpus_per_node": 4, "topology": "nvswitch", "link": {"name": "nvlink4", "bandwidth": "1 TB/s"}}},
        {"gpu": {"inherits": "none", "name": "mine", "peak": {"bf16": "1 TFLOP/s"}, "vector_peak": {"fp32": "1 TFLOP/s"},
                 "memory": {"capacity": "8 GiB", "bandwidth": "1 TB/s"}}, "system": "dgx-a100"},
    ],
)  # fmt: skip
def test_what_nothing_speaks_against_is_taken(hardware):
    assert resolve({"model": "gpt2", "hardware": hardware}).system.gpus_per_node >= 1


def test_bridged_groups_are_joined_inside_and_over_the_host_between():
    for name in ("server-8x-h200-nvl", "platform-8x-mi100", "platform-8x-mi210"):
        system = SYSTEMS[name]
        gpu = GPUS[sure(system.gpu)]
        topology = build(shape_of(system, gpu))
        assert topology.linked(sure(system.bridged))
        assert not topology.linked(2 * sure(system.bridged))
        tiers = fabric_of(system, gpu, gpu.architecture).tiers
        assert tiers[0].name == sure(system.link).name
        assert tiers[-1].name == sure(system.host_link).name
        assert system.topology not in HOST_ONLY
