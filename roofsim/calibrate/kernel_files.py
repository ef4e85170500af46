"""Write fitted kernel constants as files of hardware/constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.calibrate.kernel_classes import EIGHT_BITS, arithmetic, generation, matrix_rate, peak, units_per_bandwidth
from roofsim.calibrate.kernel_fit import KernelFit, class_of
from roofsim.calibrate.kernel_shapes import TILING_NAMES
from roofsim.calibrate.kernel_table import Group, card
from roofsim.cost.kernels.models.silicon import sustained_share
from roofsim.cost.kernels.table import NARROW, WIDE_UNITS
from roofsim.output import save_text
from roofsim.spec import catalog
from roofsim.units import humanize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from roofsim.calibrate.kernels import Score
    from roofsim.calibrate.least_squares import Constants

#: Constants in seconds; the others are plain numbers.
SECONDS: Final = ("floor", "block", "row", "walk", "expert")
COMMAND: Final = "python -m roofsim.calibrate.kernels --write"
KERNELS: Final = f"""\
# Constants of the kernel models (roofsim/cost/kernels/models), written by `{COMMAND}`
# from measurements/kernels.csv.gz; do not edit by hand. Fitted to all rows; `error` and `p90` are those on the half of the
# rows that a fit to the other half had not seen.
# measured: constants of one card, operation, format and measuring engine (floors hold that engine's launch cost).
# families: what the kernels of a generation share. architectures, shared: medians for cards without measurements.
schema: 1
"""
TILINGS: Final = f"""\
# How the matrix products of each generation are tiled, written by `{COMMAND} --tilings`
# from measurements/kernels.csv.gz: a part of kernels.yaml that is quick to read. The meaning of each number is in
# roofsim/cost/kernels/models/gemm.py (Tiling). shared: medians, for generations without measurements.
schema: 1
"""
INFERENCE: Final = f"""\
# What kernels of inference achieve, by operation, architecture, kernel generation and arithmetic; written by
# `{COMMAND}`
# from measurements/kernels.csv.gz: a part of kernels.yaml that is quick to read. The meaning of each number is in
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


def write_constants(found: KernelFit, scores: Sequence[Score], *, tilings: bool = False) -> None:
    """Write kernels.yaml and inference.yaml, a part of it, into the catalog's folder of constants.

    tilings.yaml, another part, only when asked: the constants of training steps (steps.yaml) are fitted on top of it.
    """
    folder = catalog.root() / "hardware" / "constants"
    save_text(folder / "kernels.yaml", kernels_text(found, scores))
    if tilings:
        save_text(folder / "tilings.yaml", tilings_text(found))
    save_text(folder / "inference.yaml", inference_text(found))


def write_fit(path: Path, found: KernelFit, scores: Sequence[Score]) -> None:
    """Write the constants of a fit to a file of one's own."""
    save_text(path, kernels_text(found, scores))


def kernels_text(found: KernelFit, scores: Sequence[Score]) -> str:
    """Return a fit as YAML."""
    errors = {score.group: score for score in scores}
    lines = ["measured:"]
    for group in sorted(found.own):
        numbers = _numbers(found.own[group])
        numbers["rows"] = str(found.rows[group])
        if group in errors:
            numbers["error"] = f"{errors[group].median:.3f}"
            numbers["p90"] = f"{np.percentile(errors[group].errors, 90):.3f}"
        names = {"gpu": card(group.gpu).name, "op": group.op, "dtype": group.dtype, "engine": group.engine}
        lines.append(_entry({**names, **numbers}))
    lines.append("families:")
    for family in sorted(found.shared):
        architecture, op, *rest = family
        extra = {("engine" if _is_engine(name, found) else "arithmetic"): name for name in rest}
        lines.append(_entry({"architecture": architecture, "op": op, **extra, **_numbers(found.shared[family])}))
    for title, key in (
        ("architectures", lambda group: {"architecture": generation(group), **_kind(group)}),
        ("shared", _kind),
    ):
        lines.append(f"{title}:")
        lines += [_entry({**dict(names), **_numbers(value)}) for names, value in _medians(found, key)]
    return KERNELS + "\n".join(lines) + "\n"


def tilings_text(found: KernelFit) -> str:
    """Return the tilings of plain products by architecture and arithmetic as YAML."""
    rows: dict[str, dict[str, Constants]] = {}
    for family, constants in sorted(found.shared.items()):
        if family[1] == "gemm":
            rows.setdefault(family[0], {})[family[2]] = constants
    merged = {name for kinds in rows.values() for name in kinds}
    rows["shared"] = {
        name: _median([kinds[name] for kinds in rows.values() if name in kinds], TILING_NAMES)
        for name in sorted(merged)
    }
    lines = []
    for architecture, kinds in rows.items():
        lines.append(f"{architecture}:")
        for name, constants in kinds.items():
            numbers = ", ".join(f"{key}: {_plain(constants[key])}" for key in TILING_NAMES)
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
            lines.append(f"  {group.gpu}: {{architecture: {generation(group)}, bytes_per_clock: {_plain(1.0 / rate)}}}")
    for op, architectures in tree.items():
        lines.append(f"{op}:")
        for architecture, generations in architectures.items():
            lines.append(f"  {architecture}:")
            for name, kinds in generations.items():
                lines.append(f"    {name}:")
                lines += [
                    f"      {kind}: {{{', '.join(f'{key}: {value}' for key, value in _numbers(constants).items())}}}"
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
    return {place: _median(sets, tuple(sets[0])) for place, sets in sorted(gathered.items())}


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


def _kind(group: Group) -> dict[str, str]:
    return {"op": group.op, "arithmetic": arithmetic(group)}


def _medians(
    found: KernelFit, key: Callable[[Group], dict[str, str]]
) -> Iterable[tuple[tuple[tuple[str, str], ...], Constants]]:
    """Return medians of all constants over the groups with the same key."""
    gathered: dict[tuple[tuple[str, str], ...], list[Constants]] = {}
    for group in sorted(found.own):
        constants = found.constants(class_of(group.op), group)
        gathered.setdefault(tuple(key(group).items()), []).append(constants)
    return [(names, _median(sets, tuple(sets[0]))) for names, sets in sorted(gathered.items())]


def _median(sets: Sequence[Constants], names: Sequence[str]) -> Constants:
    return {name: float(np.exp(np.median([np.log(constants[name]) for constants in sets]))) for name in names}


def _is_engine(name: str, found: KernelFit) -> bool:
    return any(group.engine == name for group in found.own)


def _numbers(constants: Constants) -> dict[str, str]:
    return {name: humanize(value, "s", 4) if name in SECONDS else _plain(value) for name, value in constants.items()}


def _plain(value: float) -> str:
    return np.format_float_positional(value, precision=4, fractional=False, trim="-")


def _entry(fields: dict[str, str]) -> str:
    return "  - {" + ", ".join(f"{name}: {value}" for name, value in fields.items()) + "}"
