"""Hold facts of cards to each other: rates of types, capacity, caches, links, power; a fact twice or half as large is noticed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from roofsim.spec import catalog
from roofsim.spec.hardware.schema import Gpu
from roofsim.spec.reading.validate import validate

if TYPE_CHECKING:
    from collections.abc import Iterator

GPUS = {name: validate(Gpu, catalog.load("gpu", name)) for name in catalog.names("gpu")}
every_gpu = pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)

#: Cards for gamers, at the voltage that is fastest; and those of them, with the DGX Spark's part, whose matrix units run at
#: half their rate with fp32 accumulation.
CONSUMER = re.compile(r"(rtx[2-5]0\d0(?!-ada)|gtx|titan-[vx]|rx\d|arc-[ab]|radeon-vii).*|gb10")
HALF_RATE = re.compile(r"rtx[2-5]0\d0(ti|d)?(-super)?(-laptop)?(-\d+gb)?|gb10")


class Known(NamedTuple):
    """What one card has that its architecture does not lead to expect, and why."""

    value: float
    why: str


# ------------------------------------------------------------------------------------------------ rates of types

#: Rate of a type of matrix units over that of another one, by the architecture. White papers of NVIDIA from Turing to
#: Blackwell, AMD's of CDNA and RDNA, Intel's of Xe: half the bits, twice the rate, but for what stands here.
MATRIX: dict[tuple[str, str], dict[str, float]] = {
    ("int8", "fp16"): {
        "cdna1": 1.0,  # MI100: 184.6 TOPS of int8 and TFLOP/s of fp16
        "cdna2": 1.0,  # MI250: 383 of both
        "rdna3": 1.0,  # WMMA: 512 operations a clock of both
        "*": 2.0,
    },
    ("int4", "int8"): {"*": 2.0},
    ("fp4", "fp8"): {"*": 2.0},
    ("fp64", "fp16"): {
        "ampere-ga100": 1 / 16, "hopper": 1 / 15, "blackwell": 1 / 60, "cdna2": 1 / 4, "cdna3": 1 / 8, "cdna4": 1 / 32,
    },
    ("fp32", "fp16"): {"cdna1": 1 / 4, "cdna2": 1 / 4, "cdna3": 1 / 8, "cdna4": 1 / 16, "gaudi3": 1 / 2},
}  # fmt: skip
#: Types whose rate cards with half the rate of fp32 accumulation keep: over fp16 or fp8, it is twice the architecture's.
WHOLE_RATE = {("int8", "fp16"), ("fp4", "fp8")}
_CUT = "cut to 1/64 of fp32 for export"
_ULTRA = "Blackwell Ultra gave int8 and fp64 up for fp4"
MATRIX_EXCEPTIONS: dict[tuple[str, str, str], Known] = {
    ("b300-sxm-288gb", "int8", "fp16"): Known(1 / 15, _ULTRA),
    ("gb300", "int8", "fp16"): Known(1 / 15, _ULTRA),
    ("b300-sxm-288gb", "fp64", "fp16"): Known(1 / 1800, _ULTRA),
    ("gb300", "fp64", "fp16"): Known(1 / 1800, _ULTRA),
    ("b300-sxm-288gb", "fp4", "fp8"): Known(3.0, _ULTRA),
    ("gb300", "fp4", "fp8"): Known(3.0, _ULTRA),
    ("h800-sxm-80gb", "fp64", "fp16"): Known(1 / 989, _CUT),
    ("h20-96gb", "fp64", "fp16"): Known(1 / 148, _CUT),
}
#: Rate of a type of ordinary units over that of fp32 (CUDA programming guide, throughput of arithmetic instructions; AMD's
#: and Intel's white papers).
VECTOR: dict[str, dict[str, float]] = {
    "fp16": {
        "ampere-ga100": 4.0, "ampere-ga10b": 2.0, "blackwell": 2.0, "hopper": 2.0, "gcn5": 2.0, "pascal": 2.0, "rdna2": 2.0,
        "turing": 2.0, "volta": 2.0, "xe-hpg": 2.0, "*": 1.0,
    },
    "bf16": {"ampere-ga100": 2.0, "blackwell": 2.0, "hopper": 2.0, "gaudi2": 2.0, "gaudi3": 2.0, "*": 1.0},
    "fp64": {
        "ada": 1 / 64, "ampere-ga10x": 1 / 64, "blackwell-rtx": 1 / 64, "ampere-ga100": 1 / 2, "blackwell": 1 / 2, "cdna1": 1 / 2,
        "cdna2": 1.0, "cdna3": 1 / 2, "cdna4": 1 / 2, "gcn5": 1 / 2, "hopper": 1 / 2, "kepler": 1 / 3, "maxwell": 1 / 32,
        "pascal": 1 / 32, "rdna2": 1 / 16, "rdna3": 1 / 32, "turing": 1 / 32, "volta": 1 / 2, "xe2": 1 / 16,
    },
    "int8": {"*": 4.0},
}  # fmt: skip
_GP100 = "GP100 has fp64 units for half its fp32 ones, the other chips of Pascal for 1/32"
VECTOR_EXCEPTIONS: dict[tuple[str, str], Known] = {
    ("p100-pcie-16gb", "fp64"): Known(1 / 2, _GP100),
    ("p100-sxm2-16gb", "fp64"): Known(1 / 2, _GP100),
    ("radeon-vii", "fp64"): Known(1 / 4, "cut to half of the MI50's"),
    ("b300-sxm-288gb", "fp64"): Known(1 / 62, _ULTRA),
    ("gb300", "fp64"): Known(1 / 62, _ULTRA),
    ("h800-sxm-80gb", "fp64"): Known(1 / 67, _CUT),
    ("h20-96gb", "fp64"): Known(1 / 44, _CUT),
}

# ------------------------------------------------------------------------------------------- memory, caches, links

#: GiB of 32 lines of GDDR or LPDDR, or of a stack of HBM, that cards of an architecture have; one chip, or two that share
#: the lines where it says so below (JEDEC: chips of 4 to 24 Gbit).
PER_LINES: dict[tuple[str, str], float] = {
    ("ada", "GDDR6"): 4.0, ("ada", "GDDR6X"): 2.0, ("ampere-ga100", "HBM2"): 8.0, ("ampere-ga100", "HBM2e"): 16.0,
    ("ampere-ga10b", "LPDDR5"): 4.0, ("ampere-ga10x", "GDDR6"): 2.0, ("ampere-ga10x", "GDDR6X"): 1.0, ("blackwell", "HBM3e"): 24.0,
    ("blackwell-rtx", "GDDR6"): 2.0, ("blackwell-rtx", "GDDR7"): 2.0, ("blackwell-rtx", "LPDDR5X"): 16.0, ("cdna1", "HBM2"): 8.0,
    ("cdna2", "HBM2e"): 16.0, ("cdna3", "HBM3"): 24.0, ("cdna3", "HBM3e"): 32.0, ("cdna4", "HBM3e"): 36.0,
    ("gaudi2", "HBM2e"): 16.0, ("gaudi3", "HBM2e"): 16.0, ("gcn5", "HBM2"): 4.0, ("hopper", "HBM2e"): 16.0,
    ("hopper", "HBM3"): 16.0,
    ("hopper", "HBM3e"): 24.0, ("kepler", "GDDR5"): 1.0, ("maxwell", "GDDR5"): 0.5, ("pascal", "GDDR5"): 1.0,
    ("pascal", "GDDR5X"): 1.0,
    ("pascal", "HBM2"): 4.0, ("rdna2", "GDDR6"): 2.0, ("rdna3", "GDDR6"): 2.0, ("rdna3", "LPDDR5X"): 16.0, ("rdna4", "GDDR6"): 2.0,
    ("turing", "GDDR5"): 1.0, ("turing", "GDDR6"): 1.0, ("volta", "HBM2"): 4.0, ("xe-hpg", "GDDR6"): 2.0, ("xe2", "GDDR6"): 2.0,
}  # fmt: skip
#: Cards whose name says how much they have are held to it in `test_hardware_catalog.py`; these say nothing.
_ONE_CHIP, _TWO_CHIPS = "chips of 16 Gbit, one for 32 lines", "two chips for 32 lines"
_EIGHT = "chips of 8 Gbit"
CAPACITY_EXCEPTIONS: dict[str, Known] = {
    **dict.fromkeys(
        ("rtx4050-laptop", "rtx4060-laptop", "rtx4060", "rtx4070-laptop", "rtx4080-laptop", "rtx4090-laptop"), Known(2.0, _ONE_CHIP)
    ),
    **dict.fromkeys(
        ("rtx3050-laptop", "rtx3050ti-laptop", "rtx3060-laptop", "rtx3060ti", "rtx3070-laptop", "rtx3070", "rtx3070ti-laptop"),
        Known(1.0, _EIGHT),
    ),
    **dict.fromkeys(("a16-1gpu", "a2", "a40", "rtx-a6000"), Known(4.0, _TWO_CHIPS)),
    **dict.fromkeys(("rtx3090",), Known(2.0, "two chips of 8 Gbit for 32 lines")),
    **dict.fromkeys(("rtx3090ti", "quadro-rtx5000", "quadro-rtx6000", "t4", "titan-rtx"), Known(2.0, _ONE_CHIP)),
    **dict.fromkeys(("rtx-pro-2000-blackwell", "rtx-pro-4000-blackwell", "rtx-pro-4500-blackwell"), Known(4.0, _TWO_CHIPS)),
    **dict.fromkeys(
        ("rtx-pro-6000-blackwell", "rtx-pro-6000-blackwell-maxq", "rtx-pro-6000-blackwell-server"),
        Known(6.0, "two chips of 24 Gbit for 32 lines"),
    ),
    "rtx5090-laptop": Known(3.0, "chips of 24 Gbit"),
    "gb300": Known(36.0, "stacks of 12 layers"),
    **dict.fromkeys(("titan-x-maxwell",), Known(1.0, "two chips of 4 Gbit for 32 lines")),
    **dict.fromkeys(("p40", "quadro-p5000", "quadro-p6000"), Known(2.0, _TWO_CHIPS)),
    **dict.fromkeys(("w6800", "rx7600xt", "w7800", "w7900", "rx9060xt", "radeon-ai-pro-r9700"), Known(4.0, _TWO_CHIPS)),
    **dict.fromkeys(("arc-pro-b50", "arc-pro-b60", "quadro-rtx8000"), Known(4.0, _TWO_CHIPS)),
    "arc-a750": Known(1.0, _EIGHT),
}  # fmt: skip
#: MiB of the last cache for 32 lines of memory, or for a stack; slices that a maker fuses off move it by a quarter.
CACHE: dict[str, float] = {
    "ada": 7.6, "ampere-ga100": 8.0, "ampere-ga10b": 0.5, "ampere-ga10x": 0.55, "blackwell": 15.75, "blackwell-rtx": 7.0,
    "cdna1": 2.0, "cdna2": 2.0, "cdna3": 32.0, "cdna4": 32.0, "gaudi2": 8.0, "gaudi3": 12.0, "gcn5": 1.0, "hopper": 9.1,
    "kepler": 0.125, "maxwell": 0.25, "pascal": 0.25, "rdna2": 16.0, "rdna3": 8.0, "rdna4": 8.0, "turing": 0.5, "volta": 1.5,
    "xe-hpg": 2.0, "xe2": 3.7,
}  # fmt: skip
_NAVI23 = "Navi 23 has 32 MiB of Infinity Cache over 128 lines"
_TU11X = "chips TU116 and TU117 have half the cache of the others"
CACHE_EXCEPTIONS: dict[str, Known] = {
    "rtx2000-ada": Known(3.0, "12 of the chip's 32 MiB"),
    "rtx4050-laptop": Known(4.0, "half of the chip's cache"),
    "gb10": Known(3.0, "a part with 24 MiB and memory of 256 lines"),
    "radeon-8060s": Known(4.0, "32 MiB of Infinity Cache over LPDDR5X of 256 lines"),
    **dict.fromkeys(("p100-pcie-16gb", "p100-sxm2-16gb"), Known(1.0, "GP100: 4 MiB and four stacks")),
    **dict.fromkeys(("rx6600", "rx6600xt", "rx6650xt"), Known(8.0, _NAVI23)),
    **dict.fromkeys(("gtx1650", "gtx1660", "gtx1660-super", "gtx1660ti"), Known(0.25, _TU11X)),
}
#: GB/s each way of one link (NVIDIA's and AMD's white papers; Gaudi: ports of 100 and 200 Gbit/s).
LINKS: dict[tuple[str, str], float] = {
    ("pascal", "nvlink1"): 20.0, ("volta", "nvlink2"): 25.0, ("turing", "nvlink2-bridge"): 25.0, ("ampere-ga100", "nvlink3"): 25.0,
    ("ampere-ga100", "nvlink3-bridge"): 25.0, ("ampere-ga10x", "nvlink3-bridge"): 14.0625, ("hopper", "nvlink4"): 25.0,
    ("hopper", "nvlink4-bridge"): 25.0, ("blackwell", "nvlink5"): 50.0, ("gcn5", "xgmi"): 46.0, ("cdna1", "xgmi"): 46.0,
    ("cdna2", "xgmi"): 50.0, ("cdna3", "xgmi"): 64.0, ("cdna4", "xgmi"): 76.8, ("gaudi2", "roce"): 12.5, ("gaudi3", "roce"): 25.0,
}  # fmt: skip

# ---------------------------------------------------------------------------------------------------------- power

#: Watts of a card for gamers of 50 compute units at 1 GHz: the table's own cards, each a 0.81th power of units times clock.
WATTS: dict[str, float] = {
    "ada": 102, "ampere-ga100": 157, "ampere-ga10b": 214, "ampere-ga10x": 163, "blackwell": 268, "blackwell-rtx": 106, "cdna1": 142,
    "cdna2": 106, "cdna3": 109, "cdna4": 158, "gaudi2": 5221, "gaudi3": 2629, "gcn5": 203, "hopper": 190, "kepler": 655,
    "maxwell": 441, "pascal": 268, "rdna2": 117, "rdna3": 109, "rdna4": 97, "turing": 156, "volta": 160, "xe-hpg": 189, "xe2": 173,
}  # fmt: skip
GROWS = 0.81
#: The same units at the lower voltage of a laptop or a passive card take less.
FORMS = {"laptop": 0.56, "module": 1.03, "work": 0.75, "consumer": 1.0}
_SLOT = "fed by the slot alone, below the clock that its peak is stated at"
_PACKAGE = "power of the package, processor and memory included: the file says so"
_RANGE = "makers set the limit of a laptop; the file has the highest"
POWER_EXCEPTIONS: dict[str, Known] = {
    **dict.fromkeys(("l4", "t4"), Known(0.49, _SLOT)),
    "rtx4000-sff-ada": Known(0.66, _SLOT),
    **dict.fromkeys(("arc-pro-b50", "rtx-a1000", "rtx-pro-2000-blackwell", "p4", "rtx3050-6gb"), Known(0.7, _SLOT)),
    "a10": Known(0.6, "150 W, passive, at the clock of cards of 300 W"),
    "arc-pro-b60": Known(1.55, "as the Arc B580, a card for gamers"),
    "radeon-ai-pro-r9700": Known(1.4, "as the RX 9070 XT, a card for gamers"),
    "rtx-pro-6000-blackwell-maxq": Known(0.66, "Max-Q: 300 of the 600 W"),
    "mi210-64gb": Known(1.38, "one of the two dies of an MI250 in a card of 300 W"),
    "h100-sxm5-96gb-500w": Known(0.72, "500 of the 700 W, for one customer"),
    **dict.fromkeys(("gh200-96gb", "gh200-144gb"), Known(1.44, _PACKAGE)),
    "rtx4060-laptop": Known(2.19, _RANGE),
    "rtx4070-laptop": Known(1.72, _RANGE),
    "rtx3050ti-laptop": Known(1.68, _RANGE),
    "p100-sxm2-16gb": Known(0.73, "GP100: 64 cores per unit, not 128"),
    "p100-pcie-16gb": Known(0.81, "GP100: 64 cores per unit, not 128"),
    "h200-nvl-141gb": Known(1.35, "600 W in a slot"),
    "p40": Known(1.32, "250 W as the TITAN Xp"),
    "rtx-pro-4000-blackwell": Known(0.75, "140 W in one slot"),
}


def kind_of(gpu: Gpu) -> str:
    if gpu.form in ("mobile", "jetson", "strix-halo", "gb10"):
        return "laptop"
    if gpu.form != "pcie":
        return "module"
    return "consumer" if CONSUMER.fullmatch(gpu.name) else "work"


class Held(NamedTuple):
    """A relation of one card: the fact that it holds, what the card has, what is expected, and how far off it may be."""

    fact: str
    value: float
    expected: float
    within: float

    @property
    def broken(self) -> bool:
        return not 1.0 / self.within <= self.value / self.expected <= self.within


def of_architecture(table: dict[str, float], gpu: Gpu) -> float | None:
    return table.get(gpu.architecture, table.get("*"))


def rates(gpu: Gpu) -> Iterator[Held]:
    for (narrow, wide), table in MATRIX.items():
        if narrow not in gpu.peak or wide not in gpu.peak:
            continue
        whole = 2.0 if (narrow, wide) in WHOLE_RATE and HALF_RATE.fullmatch(gpu.name) else 1.0
        known = MATRIX_EXCEPTIONS.get((gpu.name, narrow, wide))
        expected = None if known is None else known.value
        expected = expected or (of_architecture(table, gpu) or 0.0) * whole
        assert expected, f"{gpu.architecture} has no ratio of {narrow} to {wide}: write it in MATRIX"
        yield Held(f"peak.{narrow}", gpu.peak[narrow] / gpu.peak[wide], expected, 1.08)
    for dtype, table in VECTOR.items():
        if dtype not in gpu.vector_peak:
            continue
        known = VECTOR_EXCEPTIONS.get((gpu.name, dtype))
        expected = of_architecture(table, gpu) if known is None else known.value
        assert expected, f"{gpu.architecture} has no ratio of {dtype} to fp32: write it in VECTOR"
        yield Held(f"vector_peak.{dtype}", gpu.vector_peak[dtype] / gpu.vector_peak["fp32"], expected, 1.08)


def lines_of(gpu: Gpu) -> float | None:
    """Return how many groups of 32 lines, or stacks, a card's memory has; None: nobody states its bus."""
    bus = gpu.memory.bus
    return None if bus is None else bus / (1024 if str(gpu.memory.type).startswith("HBM") else 32)


def said_capacity(gpu: Gpu) -> float | None:
    said = re.search(r"-(\d+)gb", gpu.name)
    return None if said is None else float(said[1])


def stores(gpu: Gpu) -> Iterator[Held]:
    lines, gibibytes = lines_of(gpu), gpu.memory.capacity / 2**30
    said = said_capacity(gpu)
    if said is not None:
        yield Held("memory.capacity", gibibytes, said, 1.08)
    elif lines is not None:
        known = CAPACITY_EXCEPTIONS.get(gpu.name)
        expected = PER_LINES[gpu.architecture, str(gpu.memory.type)] if known is None else known.value
        yield Held("memory.capacity", gibibytes / lines, expected, 1.08)
    if lines is not None and gpu.l2 is not None:
        known = CACHE_EXCEPTIONS.get(gpu.name)
        expected = CACHE[gpu.architecture] if known is None else known.value
        yield Held("l2.capacity", gpu.l2.capacity / 2**20 / lines, expected, 1.35)


def links(gpu: Gpu) -> Iterator[Held]:
    link = gpu.link
    if link is not None and link.bandwidth and link.count:
        yield Held("link.bandwidth", link.bandwidth / link.count / 1e9, LINKS[gpu.architecture, link.name], 1.01)


def power(gpu: Gpu) -> Iterator[Held]:
    assert gpu.tdp is not None
    assert gpu.compute_units is not None
    assert gpu.clock is not None
    known = POWER_EXCEPTIONS.get(gpu.name, Known(1.0, ""))
    size = (gpu.compute_units * gpu.clock.boost / 50e9) ** GROWS
    expected = WATTS[gpu.architecture] * size * FORMS[kind_of(gpu)] * known.value
    yield Held("tdp", gpu.tdp, expected, 1.38)


def relations(gpu: Gpu) -> list[Held]:
    return [*rates(gpu), *stores(gpu), *links(gpu), *power(gpu)]


@every_gpu
def test_facts_of_a_card_agree_with_each_other(gpu):
    assert [held for held in relations(gpu) if held.broken] == []


def test_exceptions_are_of_cards_and_say_why():
    keys = {key if isinstance(key, str) else key[0] for table in EXCEPTIONS for key in table}
    assert keys <= set(GPUS)
    assert all(known.why for table in EXCEPTIONS for known in table.values())


EXCEPTIONS: tuple[dict[Any, Known], ...] = (
    MATRIX_EXCEPTIONS, VECTOR_EXCEPTIONS, CAPACITY_EXCEPTIONS, CACHE_EXCEPTIONS, POWER_EXCEPTIONS,
)  # fmt: skip


# ------------------------------------------------------------------------------------------------------ by mutation


def scaled(gpu: Gpu, fact: str, factor: float) -> Gpu:
    """Return a card one of whose facts is another one: ``peak.int8``, ``memory.capacity``, ``tdp``."""
    group, _, field = fact.partition(".")
    value = getattr(gpu, group)
    if not field:
        return gpu.model_copy(update={group: value * factor})
    if isinstance(value, dict):
        return gpu.model_copy(update={group: {**value, field: value[field] * factor}})
    return gpu.model_copy(update={group: value.model_copy(update={field: getattr(value, field) * factor})})


def facts_of(gpu: Gpu) -> list[str]:
    """Return the facts that this file holds of a card."""
    narrow = [f"peak.{dtype}" for dtype in ("int8", "int4", "fp4", "fp64", "fp32") if dtype in gpu.peak]
    vector = [f"vector_peak.{dtype}" for dtype in VECTOR if dtype in gpu.vector_peak]
    link = ["link.bandwidth"] if gpu.link is not None and gpu.link.bandwidth else []
    return ["tdp", "memory.capacity", "l2.capacity", *narrow, *vector, *link]


def unnoticed() -> dict[str, list[str]]:
    """Return the cards, twice (x2, x0.5), of which a fact may be twice or half as large without a word."""
    passed_over: dict[str, list[str]] = {}
    for gpu in GPUS.values():
        for fact in facts_of(gpu):
            for factor in (2.0, 0.5):
                if not any(held.broken for held in relations(scaled(gpu, fact, factor))):
                    passed_over.setdefault(fact, []).append(f"{gpu.name} x{factor:g}")
    return passed_over


#: What nothing holds: a part for one customer, of whose memory no list speaks.
NOT_HELD = {"l2.capacity": ["h100-sxm5-96gb-500w x2", "h100-sxm5-96gb-500w x0.5"]}


def test_a_fact_twice_or_half_as_large_is_noticed():
    assert unnoticed() == NOT_HELD
