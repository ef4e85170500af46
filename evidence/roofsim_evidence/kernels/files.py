"""Write fitted kernel constants as files of hardware/constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.calibrate.kernels.classes import (
    arithmetic,
    generation,
    matrix_energy,
    matrix_rate,
    peak,
    per_clock,
    units_per_bandwidth,
    wide_units,
)
from roofsim.calibrate.kernels.constants import ABOUT, kernels_text, median_of, numbers_of, plain_number
from roofsim.calibrate.kernels.fit import KernelFit, class_of
from roofsim.calibrate.kernels.table import Group, card
from roofsim.cost.kernels.models.silicon import full_clock_share
from roofsim.cost.kernels.table import NARROW
from roofsim.output import save_text
from roofsim.spec.constants.physics import shipped_physics
from roofsim.units import humanize
from roofsim_evidence.kernels.power import APART
from roofsim_evidence.places import constants as constants_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from roofsim.calibrate.kernels.least_squares import Constants
    from roofsim.calibrate.kernels.scores import GroupErrors

Energies = dict[str, dict[str, float]]

COMMAND: Final = "evidence fit kernels --write"
KERNELS: Final = f"""\
# Constants of the kernel models (roofsim/cost/kernels/models), written by `{COMMAND}`
# from evidence/measurements/kernels.csv.gz; do not edit by hand. Fitted to all rows; `error` and `p90` are those on the half of the
# rows that a fit to the other half had not seen.
{ABOUT}"""
MODELS: Final = f"""\
# Constants of the kernel models, in every phase: what kernels achieve by class, architecture (or card), library and arithmetic;
# written by `{COMMAND}` from evidence/measurements/kernels.csv.gz: a part of kernels.yaml that is
# quick to read, with medians for what nobody measured. The models are roofsim/cost/kernels/models; `meanings` says what each
# constant is, and the range outside of which it is refused. any: medians over libraries; shared: medians over architectures,
# narrow: over those with the matrix units of workstation and consumer cards. Cards of an architecture of which several were
# measured follow by name; the others of that architecture take after the one whose compute units have the most similar share of
# the memory bandwidth (bytes_per_clock).
# Times and shares are those at the card's full clock: what power leaves of them follows from the energy of a whole pass
# (physics.yaml, hardware/architectures). The share of the peak that products in 16 and more bits reach stands in steps.yaml, for
# it was measured in whole steps; `own_rates` lists the formats whose share stands here.
schema: 1
source: evidence/measurements/kernels.csv.gz
arithmetic:
  {{fp64: fp32, fp32: fp32, tf32: 16-bit, fp16: 16-bit, bf16: 16-bit, fp8: fp8, int8: fp8, fp6: fp8, fp4: nvfp4, int4: nvfp4}}
own_rates: [fp8, fp4]
"""
#: Operations that stream.
STREAMS: Final = ("elementwise", "embedding", "layernorm", "rmsnorm", "softmax")
#: What the constants of a class mean, where several classes have them, and their units.
COMMON: Final = {
    "floor": ("smallest call", "s"),
    "compute": ("share of the dense peak that large calls reach, padding and tiles apart", "1"),
    "bandwidth": (
        "share of the memory bandwidth that large calls reach; more than 1: part of the traffic stays on chip",
        "1",
    ),
    "cache_speedup": ("bandwidth of the last-level cache over that of memory", "1"),
    "cache_reach": ("largest working set that stays in the cache, against its capacity", "1"),
    "sharpness": ("exponent of the corner between arithmetic and traffic; 1 adds them", "1"),
    "fill": ("bandwidth that one block per compute unit draws, against the whole", "1"),
    "thinness": ("slowdown of a tile per unit of operand traffic", "1"),
    "ramp": ("prologue and epilogue of a tile, in elements of depth", "1"),
    "wave": ("share of the last, partly filled wave that is wasted", "1"),
}
#: The same of one class.
MEANINGS: Final = {
    "gemm": {
        "reduction": ("extra depth of a tile whose depth is split over blocks, in elements", "1"),
        "quantise": ("bandwidth share of the pass that converts activations to a narrow format", "1"),
    },
    "attention_prefill": {
        "softmax": ("clocks of ordinary units per score that matrix units wait for", "1"),
        "ramp": ("prologue and epilogue of a tile, in keys", "1"),
        "balance": ("exponent of the corner between the mean load of a unit and the longest tile", "1"),
    },
    "attention_decode": {
        "block": ("time that a compute unit spends on starting and ending one sequence and key head", "s"),
        "chunk": ("keys that one block reads before the cache is split over more blocks", "1"),
    },
    "conv2d": {
        "latency": ("time of a step of depth of a single small block, against that of a tile of 128 x 128", "1"),
        "winograd": ("rate of fused Winograd products, transforms of images included, against implicit ones", "1"),
        "weights": ("share of the bandwidth of convolutions that kernels reach which transform weights", "1"),
        "images": ("share of the bandwidth of convolutions that kernels reach which transform images", "1"),
        "first_layer": ("factor on the rate where an image has at most four channels", "1"),
        "stride": ("factor on the rate of kernels that move by more than one pixel", "1"),
    },
    "streams": {
        "row": ("time that a compute unit spends on a row, however short", "s"),
        "walk": ("time per byte in which one block walks along its row", "s"),
        "again": ("further reads of a row that does not fit on chip, in passes", "1"),
        "on_chip": ("bytes of the longest row that stays on chip", "1"),
    },
    "moe_gemm": {
        "tile": ("rows to which the tokens of each expert are padded", "1"),
        "width": ("columns of one tile", "1"),
        "expert": ("time per active expert and compute unit: scheduling of a group", "s"),
        "permute": ("passes over the routed tokens, in and out of the order of experts", "1"),
        "imbalance": ("load of the busiest card over the mean, against a Gaussian estimate", "1"),
        "asleep": ("share of the experts asleep by chance that a power law adds", "1"),
    },
}
#: Operations whose constants mean what those of another do.
ALIKE: Final = {"mla_decode": "attention_decode", **dict.fromkeys(STREAMS, "streams")}
#: Inference engines that were measured through.
ENGINES: Final = ("sglang", "trtllm", "vllm")
#: Operations that steps of inference are priced with.
SERVED: Final = ("attention_decode", "attention_prefill", "conv2d", *STREAMS, "gemm", "mla_decode", "moe_gemm")
#: Their constants that are not priced with: what belongs to the measuring engine or process, and shares measured in whole steps.
UNPRICED: Final = {
    "conv2d": ("floor", "compute", "bandwidth", "launch", "doubling", "growth", "transpose"),
    **dict.fromkeys(STREAMS, ("floor", "bandwidth", "sharpness")),
    "gemm": ("heat", "window"),
}
#: Operations of which those in fp32 are priced with.
IN_FULL: Final = ("conv2d", *STREAMS, "gemm")
#: Those whose long kernels lower the clock of a board.
SUSTAINED: Final = ("attention_prefill", "gemm", "moe_gemm")
#: Those of which cards of an architecture have constants of their own: attention whose share of the bandwidth differs, products
#: in arithmetic in which the units of one do so many times more FLOP per clock than those of another.
BY_CARD: Final = ("attention_decode",)
BY_UNITS: Final = ("gemm",)
WIDER: Final = 1.2
#: Arithmetic that steps cannot ask for; products of experts are asked for with scales by block.
UNASKED: Final = ("sq",)
#: Arithmetic of plain products whose share of the peak was measured in whole steps, and stands in steps.yaml.
IN_STEPS: Final = ("16-bit", "fp32")
BLOCKS: Final = "fp8_block"
EXPERTS: Final = "moe_gemm"
#: Operations whose kernels go by the engine that they were measured in.
BY_ENGINE: Final = (EXPERTS, "gemm", "mla_decode")
#: Largest share of a peak at full clock: clocks above the datasheet's.
MOST: Final = 1.1
#: How far beyond the range of a fit a constant is still plausible: medians of rounded numbers.
BELOW, ABOVE = 0.5, 2.0
#: Architecture -> measuring engine -> generation of its attention kernels there (aiconfigurator's collectors).
GENERATIONS: Final = {
    "ampere-ga100": {"vllm": "flash2", "sglang": "flashinfer", "trtllm": "trtllm"},
    "hopper": {"vllm": "flash3", "sglang": "flash3", "trtllm": "trtllm"},
    "blackwell": {"vllm": "flashinfer", "sglang": "trtllm", "trtllm": "trtllm"},
    "ada": {"vllm": "flash2", "sglang": "flashinfer", "trtllm": "trtllm"},
    "blackwell-rtx": {"vllm": "flash2", "sglang": "flashinfer", "trtllm": "trtllm"},
}


def write_constants(fit: KernelFit, scores: Sequence[GroupErrors], energies: Energies) -> None:
    """Write kernels.yaml and kernel_models.yaml, a part of it, into the catalog's folder of constants.

    `energies` are those of matrix units by architecture and width (`matrix_energies`), where power holds products back.
    """
    folder = constants_folder()
    save_text(folder / "kernels.yaml", kernels_text(fit, scores, head=KERNELS))
    save_text(folder / "kernel_models.yaml", models_text(fit, energies))


def models_text(fit: KernelFit, energies: Energies) -> str:
    """Return what steps are priced with as YAML."""
    tree: dict[str, dict[str, dict[str, dict[str, Constants]]]] = {}
    for place, constants in _served(fit, energies).items():
        op, architecture, kernels, kind = place
        tree.setdefault(op, {}).setdefault(architecture, {}).setdefault(kernels, {})[kind] = constants
    lines = ["meanings:"]
    for op in tree:
        lines.append(f"  {op}:")
        lines += [f"    {name}: {text}" for name, text in _meanings(op)]
    lines.append("cards:")
    for group in sorted({_card_of(group) for group in _several(fit)}):
        rate = units_per_bandwidth(group)
        if rate is not None:
            lines.append(
                f"  {group.gpu}: {{architecture: {generation(group)}, bytes_per_clock: {plain_number(1.0 / rate)}}}"
            )
    lines.append("classes:")
    for op, architectures in tree.items():
        lines.append(f"  {op}:")
        for architecture, generations in architectures.items():
            lines.append(f"    {architecture}:")
            for name, kinds in generations.items():
                lines.append(f"      {name}:")
                lines += [
                    f"        {kind}: {{{', '.join(f'{key}: {value}' for key, value in numbers_of(constants).items())}}}"
                    for kind, constants in kinds.items()
                ]
    return MODELS + "\n".join(lines) + "\n"


def _meanings(op: str) -> Iterable[tuple[str, str]]:
    """Return the constants of a class with what they mean, their units and ranges."""
    kernel = class_of(op)
    own = MEANINGS.get(ALIKE.get(op, op), {})
    for parameter in (*kernel.own, *kernel.shared):
        if parameter.name in UNPRICED.get(op, ()):
            continue
        meaning, unit = own.get(parameter.name) or COMMON[parameter.name]
        ends = [
            humanize(end, "s", 4) if unit == "s" else plain_number(end)
            for end in (parameter.low * BELOW, parameter.high * ABOVE)
        ]
        quoted = f'"{unit}"' if unit == "1" else unit
        yield parameter.name, f"{{meaning: '{meaning}', unit: {quoted}, range: [{', '.join(ends)}]}}"


def _served(fit: KernelFit, energies: Energies) -> dict[tuple[str, ...], Constants]:
    """Return medians by operation, architecture, kernel generation and arithmetic."""
    gathered: dict[tuple[str, ...], list[Constants]] = {}
    several = _several(fit)
    apart = _of_other_units(several)
    for group in sorted(fit.own):
        kind, architecture = arithmetic(group), generation(group)
        if group.op not in SERVED or kind in UNASKED or (kind == BLOCKS and group.op != EXPERTS):
            continue
        if kind == "fp32" and group.op not in IN_FULL:
            continue
        constants = _at_full_clock(group, fit.constants(class_of(group.op), group), energies)
        constants = {name: value for name, value in constants.items() if name not in UNPRICED.get(group.op, ())}
        if group.op == "gemm" and kind in IN_STEPS:
            constants.pop("compute")
        places = [(architecture, "any"), ("shared", "any")]
        if matrix_rate(group) < wide_units() and "floor" not in UNPRICED.get(group.op, ()):
            places.append((NARROW, "any"))
        names = [architecture]
        if group in several and (group.op in BY_CARD or group in apart):
            names.append(card(group.gpu).name)
            places.append((names[-1], "any"))
        kernels = GENERATIONS.get(architecture, {}).get(group.engine)
        if kernels is not None and group.op.startswith("attention"):
            places += [(name, kernels) for name in names]
        if group.op in BY_ENGINE and group.engine in ENGINES and (group.op, group.engine) not in APART:
            places += [*((name, group.engine) for name in names), ("shared", group.engine)]
        for where in places:
            gathered.setdefault((group.op, *where, kind), []).append(constants)
    return {place: median_of(sets, tuple(sets[0])) for place, sets in sorted(gathered.items())}


def _several(fit: KernelFit) -> set[Group]:
    """Return the groups that steps are priced with, of architectures of which several cards were measured there."""
    groups = {group for group in fit.own if group.op in SERVED and group.engine in ENGINES}
    cards: dict[str, set[str]] = {}
    for group in groups:
        cards.setdefault(generation(group), set()).add(card(group.gpu).name)
    return {group for group in groups if len(cards[generation(group)]) > 1}


def _of_other_units(groups: set[Group]) -> set[Group]:
    """Return groups in arithmetic in which units of an architecture's cards differ: Blackwell Ultra's in 4 bits."""
    rates: dict[tuple[str, str], list[float]] = {}
    for group in groups:
        rates.setdefault((generation(group), group.dtype), []).append(per_clock(group))
    differ = {key for key, each in rates.items() if max(each) > WIDER * min(each)}
    return {group for group in groups if group.op in BY_UNITS and (generation(group), group.dtype) in differ}


def _card_of(group: Group) -> Group:
    return Group(card(group.gpu).name, "", "", "")


def _at_full_clock(group: Group, constants: Constants, energies: Energies) -> Constants:
    """Return constants with the compute share at full clock, where the board's power held the measured kernels back."""
    gpu, own = card(group.gpu), energies.get(generation(group))
    if group.op not in SUSTAINED or own is None or gpu.tdp is None:
        return dict(constants)
    drawn = peak(group) * matrix_energy(group, own) / gpu.tdp
    exponent = shipped_physics()["clock_power"]
    return constants | {"compute": min(full_clock_share(constants["compute"], drawn, exponent), MOST)}
