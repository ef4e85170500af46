"""Write fitted kernel constants as files of hardware/constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.calibrate.kernel_classes import EIGHT_BITS, arithmetic, generation, matrix_rate, peak, units_per_bandwidth
from roofsim.calibrate.kernel_constants import ABOUT, kernels_text, median_of, numbers_of, plain_number
from roofsim.calibrate.kernel_fit import KernelFit, class_of
from roofsim.calibrate.kernel_shapes import TILING_NAMES
from roofsim.calibrate.kernel_table import Group, card
from roofsim.cost.kernels.models.silicon import sustained_share
from roofsim.cost.kernels.table import NARROW, WIDE_UNITS
from roofsim.output import save_text
from roofsim_evidence.places import constants as constants_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.calibrate.kernels import GroupErrors
    from roofsim.calibrate.least_squares import Constants

COMMAND: Final = "evidence fit kernels --write"
KERNELS: Final = f"""\
# Constants of the kernel models (roofsim/cost/kernels/models), written by `{COMMAND}`
# from evidence/measurements/kernels.csv.gz; do not edit by hand. Fitted to all rows; `error` and `p90` are those on the half of the
# rows that a fit to the other half had not seen.
{ABOUT}"""
TILINGS: Final = f"""\
# How the matrix products of each generation are tiled, written by `{COMMAND} --tilings`
# from evidence/measurements/kernels.csv.gz: a part of kernels.yaml that is quick to read. The meaning of each number is in
# roofsim/cost/kernels/models/gemm.py (Tiling). shared: medians, for generations without measurements.
schema: 1
"""
INFERENCE: Final = f"""\
# What kernels of inference achieve, by operation, architecture, kernel generation and arithmetic; written by
# `{COMMAND}`
# from evidence/measurements/kernels.csv.gz: a part of kernels.yaml that is quick to read. The meaning of each number is in
# roofsim/cost/kernels/models. any: medians over generations; shared: medians over architectures, narrow: over those with
# the matrix units of workstation and consumer cards. Cards of an architecture of
# which several were measured follow by name; the others of that architecture take after the one whose compute units have the
# most similar share of the memory bandwidth (bytes_per_clock). compute of ada and blackwell-rtx: share of what power sustains.
schema: 1
"""
#: Inference engines that were measured through.
ENGINES: Final = ("sglang", "trtllm", "vllm")
#: Operations that steps of inference are priced with.
SERVED: Final = ("attention_decode", "attention_prefill", "gemm", "mla_decode", "moe_gemm")
#: Those whose long kernels lower the clock of a board.
SUSTAINED: Final = ("attention_prefill", "gemm", "moe_gemm")
#: Those of them whose share of the bandwidth differs between cards of an architecture.
BY_CARD: Final = ("attention_decode",)
#: Arithmetic that steps cannot ask for, or not of these kernels; products of experts are asked for with scales by block.
UNASKED: Final = ("fp32", "sq")
BLOCKS: Final = "fp8_block"
EXPERTS: Final = "moe_gemm"
#: Operations whose kernels go by the engine that they were measured in.
BY_ENGINE: Final = (EXPERTS, "gemm", "mla_decode")
#: Operations that were measured in an engine with constant weights, which draw less power: 5 to 12 % fast when large.
APART: Final = (("gemm", "vllm"),)
#: Architecture -> measuring engine -> generation of its attention kernels there (aiconfigurator's collectors).
GENERATIONS: Final = {
    "ampere-ga100": {"vllm": "flash2", "sglang": "flashinfer", "trtllm": "trtllm"},
    "hopper": {"vllm": "flash3", "sglang": "flash3", "trtllm": "trtllm"},
    "blackwell": {"vllm": "flashinfer", "sglang": "trtllm", "trtllm": "trtllm"},
    "ada": {"vllm": "flash2", "sglang": "flashinfer", "trtllm": "trtllm"},
    "blackwell-rtx": {"vllm": "flash2", "sglang": "flashinfer", "trtllm": "trtllm"},
}


def write_constants(found: KernelFit, scores: Sequence[GroupErrors], *, tilings: bool = False) -> None:
    """Write kernels.yaml and inference.yaml, a part of it, into the catalog's folder of constants.

    tilings.yaml, another part, only when asked: the constants of training steps (steps.yaml) are fitted on top of it.
    """
    folder = constants_folder()
    save_text(folder / "kernels.yaml", kernels_text(found, scores, head=KERNELS))
    if tilings:
        save_text(folder / "tilings.yaml", tilings_text(found))
    save_text(folder / "inference.yaml", inference_text(found))


def tilings_text(found: KernelFit) -> str:
    """Return the tilings of plain products by architecture and arithmetic as YAML."""
    rows: dict[str, dict[str, Constants]] = {}
    for family, constants in sorted(found.shared.items()):
        if family[1] == "gemm":
            rows.setdefault(family[0], {})[family[2]] = constants
    merged = {name for kinds in rows.values() for name in kinds}
    rows["shared"] = {
        name: median_of([kinds[name] for kinds in rows.values() if name in kinds], TILING_NAMES)
        for name in sorted(merged)
    }
    lines = []
    for architecture, kinds in rows.items():
        lines.append(f"{architecture}:")
        for name, constants in kinds.items():
            numbers = ", ".join(f"{key}: {plain_number(constants[key])}" for key in TILING_NAMES)
            lines.append(f"  {name}: {{{numbers}}}")
    return TILINGS + "\n".join(lines) + "\n"


def inference_text(found: KernelFit) -> str:
    """Return what steps of inference are priced with as YAML."""
    tree: dict[str, dict[str, dict[str, dict[str, Constants]]]] = {}
    for place, constants in _served(found).items():
        op, architecture, kernels, kind = place
        tree.setdefault(op, {}).setdefault(architecture, {}).setdefault(kernels, {})[kind] = constants
    lines = ["cards:"]
    for group in sorted({_card_of(group) for group in _several(found)}):
        rate = units_per_bandwidth(group)
        if rate is not None:
            lines.append(
                f"  {group.gpu}: {{architecture: {generation(group)}, bytes_per_clock: {plain_number(1.0 / rate)}}}"
            )
    for op, architectures in tree.items():
        lines.append(f"{op}:")
        for architecture, generations in architectures.items():
            lines.append(f"  {architecture}:")
            for name, kinds in generations.items():
                lines.append(f"    {name}:")
                lines += [
                    f"      {kind}: {{{', '.join(f'{key}: {value}' for key, value in numbers_of(constants).items())}}}"
                    for kind, constants in kinds.items()
                ]
    return INFERENCE + "\n".join(lines) + "\n"


def _served(found: KernelFit) -> dict[tuple[str, ...], Constants]:
    """Return medians by operation, architecture, kernel generation and arithmetic."""
    gathered: dict[tuple[str, ...], list[Constants]] = {}
    several = _several(found)
    for group in sorted(found.own):
        kind, architecture = arithmetic(group), generation(group)
        if group.op not in SERVED or kind in UNASKED or (kind == BLOCKS and group.op != EXPERTS):
            continue
        constants = _by_power(group, found.constants(class_of(group.op), group))
        places = [(architecture, "any"), ("shared", "any")]
        if matrix_rate(group) < WIDE_UNITS:
            places.append((NARROW, "any"))
        names = [architecture]
        if group in several and group.op in BY_CARD:
            names.append(card(group.gpu).name)
            places.append((names[-1], "any"))
        kernels = GENERATIONS.get(architecture, {}).get(group.engine)
        if kernels is not None and group.op.startswith("attention"):
            places += [(name, kernels) for name in names]
        if group.op in BY_ENGINE and group.engine in ENGINES and (group.op, group.engine) not in APART:
            places += [(architecture, group.engine), ("shared", group.engine)]
        for where in places:
            gathered.setdefault((group.op, *where, kind), []).append(constants)
    return {place: median_of(sets, tuple(sets[0])) for place, sets in sorted(gathered.items())}


def _several(found: KernelFit) -> set[Group]:
    """Return the groups that steps are priced with, of architectures of which several cards were measured there."""
    groups = {group for group in found.own if group.op in SERVED and group.engine in ENGINES}
    cards: dict[str, set[str]] = {}
    for group in groups:
        cards.setdefault(generation(group), set()).add(card(group.gpu).name)
    return {group for group in groups if len(cards[generation(group)]) > 1}


def _card_of(group: Group) -> Group:
    return Group(card(group.gpu).name, "", "", "")


def _by_power(group: Group, constants: Constants) -> Constants:
    """Return constants with the compute share as one of what the board's power sustains, so that it fits other boards."""
    gpu = card(group.gpu)
    if group.op not in SUSTAINED:
        return constants
    bits = "8-bit" if group.dtype in EIGHT_BITS else "16-bit"
    return constants | {
        "compute": constants["compute"] / float(sustained_share(peak(group), gpu.tdp, gpu.architecture, bits))
    }
