"""Put the kernels of many measured steps into arrays, so that pricing them all with other constants is one expression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.cost.kernels.models.streaming import unit_reach
from roofsim.cost.kernels.sustained import sustained, window
from roofsim.numeric import smooth_maximum
from roofsim.records import dataclass, fields, replace
from roofsim.schedule.step import throttled

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roofsim.calibrate.cases import Case
    from roofsim.cost.device import Device
    from roofsim.cost.kernels.work import KernelWork
    from roofsim.evaluate import Evaluation
    from roofsim.numeric import Array
    from roofsim.spec.constants.kernels import Constants, Deviation

#: Number formats whose fractions architectures and cards may deviate in.
FORMATS: Final = ("fp16", "tf32", "fp32", "fp32_matrix")


@dataclass(frozen=True, kw_only=True)
class StepTable:
    """Kernels of measured steps; the first group of fields has one element a step, the second one a kernel.

    `times` says how often a kernel runs in a step; `at_peak` is its arithmetic in seconds at the dense peak, `moving`
    and `transposed` its traffic in seconds at the full bandwidth, or at that of its kernels where these have `own`; `norm` is
    the exponent of its corner (0: that of all); `load` is the bandwidth that a streaming kernel would draw per unit, against the
    share of `unit_bandwidth` that its elements ask for; `heat` are the joules of the arithmetic of long products in 16 bits (or
    fewer) and in tf32, 0 where the power limit does not hold a product on its own;
    `window` is the time over which a card's controller holds the mean power.
    """

    measured: Array
    host: Array
    watts: Array
    process: Array
    youth: Array
    headroom: Array
    window: Array
    gpus: Any
    architectures: Any

    step: Any
    times: Array
    floor: Array
    at_peak: Array
    moving: Array
    transposed: Array
    load: Array
    math: Any
    attention: Array
    conditions: Any
    kind: Any
    energy: Array
    own: Any
    norm: Array
    heat: Array

    def only(self, chosen: Any) -> StepTable:
        """Return the table of some steps, a mask."""
        chosen = np.asarray(chosen)
        kernels = chosen[self.step]
        renumbered = np.cumsum(chosen) - 1
        per_step = {name: getattr(self, name)[chosen] for name in _PER_STEP}
        per_kernel = {
            field.name: getattr(self, field.name)[kernels] for field in fields(self) if field.name not in _PER_STEP
        }
        return replace(self, **per_step, **per_kernel | {"step": renumbered[per_kernel["step"]]})


_PER_STEP: Final = (
    "measured",
    "host",
    "watts",
    "process",
    "youth",
    "headroom",
    "window",
    "gpus",
    "architectures",
)
#: Order of number formats, conditions and classes in the tables of indices.
#: Classes of kernels whose models leave the bandwidth to the constants of steps.
BY_CLASS: Final = ("attention", "convolution")
MATHS: Final = ("fp16", "bf16", "tf32", "fp32", "fp8", "fp4", "int8", "fp64", "fp32_matrix", "fp64_matrix", "")
CONDITIONS: Final = (
    "none", "convolution", "misaligned", "misaligned_batched", "depthwise", "vector", "misaligned_convolution",
    "unpacked_groups",
)  # fmt: skip


def step_table(cases: Iterable[Case], classes: list[str]) -> StepTable:
    """Lower and transform each case once, and collect its kernels."""
    kernels: list[list[Any]] = []
    steps: list[list[Any]] = []
    for number, case in enumerate(cases):
        evaluation = case.evaluate()
        gpu = evaluation.resolved.gpu
        steps.append(
            [
                case.measured,
                float(evaluation.step.host),
                np.inf if gpu.tdp is None else gpu.tdp,
                evaluation.resolved.architecture.process_energy,
                evaluation.resolved.constants.youth(
                    evaluation.resolved.engine.kernels.library_released, evaluation.resolved.architecture.kernels_since
                ),
                evaluation.resolved.architecture.clock_headroom,
                evaluation.device.power_window,
                gpu.name,
                gpu.architecture,
            ]
        )
        kernels += [[number, *row] for row in _merged(_kernels(evaluation, classes))]
    columns = list(zip(*kernels, strict=True))
    heads = list(zip(*steps, strict=True))
    return StepTable(
        measured=np.array(heads[0]),
        host=np.array(heads[1]),
        watts=np.array(heads[2]),
        process=np.array(heads[3]),
        youth=np.array(heads[4]),
        headroom=np.array(heads[5]),
        window=np.array(heads[6]),
        gpus=np.array(heads[7]),
        architectures=np.array(heads[8]),
        step=np.array(columns[0]),
        times=np.array(columns[1]),
        floor=np.array(columns[2]),
        at_peak=np.array(columns[3]),
        moving=np.array(columns[4]),
        transposed=np.array(columns[5]),
        load=np.array(columns[6]),
        math=np.array(columns[7]),
        attention=np.array(columns[8]),
        conditions=np.array(columns[9]),
        kind=np.array(columns[10]),
        energy=np.array(columns[11]),
        own=np.array(columns[12], dtype=bool),
        norm=np.array(columns[13]),
        heat=np.array(columns[14]),
    )


def _merged(rows: Iterable[list[Any]]) -> list[list[Any]]:
    """Put equal kernels together: the layers of a network repeat theirs."""
    merged: dict[str, list[Any]] = {}
    for row in rows:
        same = merged.setdefault(repr(row[1:]), [0.0, *row[1:]])
        same[0] += row[0]
    return list(merged.values())


def _kernels(evaluation: Evaluation, classes: list[str]) -> Iterable[list[Any]]:
    """Return a row for each kernel of each stage."""
    device = evaluation.device
    for stage, priced in zip(evaluation.program.stages, evaluation.priced, strict=True):
        for index, work in priced.works:
            op = priced.graph.ops[index]
            often = 1.0 if str(op.phase) == "optimizer" else float(evaluation.program.num_micro_batches)
            keys = list(work.compute_keys)
            math = keys.pop(0) if keys[0] in MATHS else ""
            fused = work.bandwidth_key == "attention" and "unfused" not in keys
            ids = [CONDITIONS.index(key) for key in keys]
            share = device.constants.transposes.get(math, 0.0)
            base = float(work.traffic) - share * float(work.transposed)
            width = (1 if "32" in math else 0) if work.on_tensor else 2
            own, moving, stretched = _moving(work, device, base)
            yield [
                float(priced.counts[index]) * float(stage.times) * often,
                float(work.launches) * device.architecture.kernel_floor + float(work.floor),
                float(work.flops) / (float(work.flop_peak) * float(work.tiling)),
                moving,
                float(work.transposed) / float(device.bandwidth) * stretched,
                float(work.load) * device.constants.unit_bandwidth,
                MATHS.index(math),
                device.attention_share(math.removesuffix("_matrix"), device.attention) / device.pace if fused else 0.0,
                ([*ids, 0, 0, 0])[:3],
                classes.index(work.bandwidth_key),
                _energies(work, device, math.removesuffix("_matrix"), width, base),
                own,
                float(work.norm),
                _heat(work, device, math),
            ]


def _heat(work: KernelWork, device: Device, math: str) -> list[float]:
    """Return the joules of a long product's arithmetic in 16 bits or fewer, and in tf32 at the energy of 16 bits."""
    if not work.apart or device.power is None or device.architecture.product_energy is None:
        return [0.0, 0.0]
    if math.removesuffix("_matrix") in ("tf32", "fp32"):
        return [0.0, float(work.heat) * device.constants.energy.tensor16 / device.constants.energy.tf32]
    return [float(work.heat), 0.0]


def _moving(work: KernelWork, device: Device, base: float) -> tuple[bool, float, float]:
    """Return whether a kernel's bandwidth is that of its model, the seconds of its traffic, and how much its bytes count.

    Of a kernel whose model knows the bandwidth, the seconds that it takes; of one that only counts other bytes than the op, those
    at full bandwidth of so many.
    """
    moving, share = base / float(device.bandwidth), float(work.bandwidth_share)
    if not work.norm or work.bandwidth_key in BY_CLASS:
        stretched = float(device.bandwidth_share(work.bandwidth_key)) / share if share else 1.0
        return False, moving * stretched, stretched
    return True, moving / share * device.pace if share else 0.0, 1.0


def _energies(work: KernelWork, device: Device, math: str, width: int, base: float) -> list[float]:
    """Return FLOPs on matrix units in 16 bits (as many as take the energy), in fp32 and on other units, and bytes that count."""
    table, process = device.constants.energy, device.architecture.process_energy
    flops = float(work.flops) / float(work.spared)
    wide = device.matrix_energy(math) / (table.tensor16 * process) if width == 0 else 0.0
    arithmetic = float(device.energy(flops, math or "fp32", 0.0, on_tensor=work.on_tensor))
    counts = float(work.energy) > arithmetic * (1.0 + 1e-9)
    return [flops * wide, flops * (width == 1), flops * (width == 2), base if counts else 0.0]


def predict(table: StepTable, constants: Constants) -> Array:
    """Return the seconds of every step under other constants; the same formulas as pricing, on all kernels at once."""
    levels = [
        constants.of_names(str(gpu), str(name)) for gpu, name in zip(table.gpus, table.architectures, strict=True)
    ]
    compute = np.array([_shares(constants, level) for level in levels])[table.step, table.math]
    stream = np.array([constants.stream * level.stream for level in levels])[table.step]
    factors = np.array([constants.factors.get(name, 1.0) for name in CONDITIONS])
    share = np.where(table.attention > 0.0, table.attention, compute * factors[table.conditions].prod(axis=1))
    bandwidth = stream * np.array(list(constants.classes.values()))[table.kind]
    bandwidth = bandwidth * unit_reach(table.load / constants.unit_bandwidth)
    bandwidth = np.where(table.own, 1.0, bandwidth)
    transposes = np.array([constants.transposes.get(name, 0.0) for name in MATHS])[table.math]
    kernels = smooth_maximum(
        table.at_peak / share,
        (table.moving + transposes * table.transposed) / bandwidth,
        np.where(table.norm > 0.0, table.norm, constants.norm),
    )
    kernels = kernels * (1.0 + constants.immaturity * table.youth)[table.step]
    energy = constants.energy
    root = np.sqrt(table.process)[table.step]
    process = table.process[table.step]
    joules = table.energy[:, :3] @ np.array([energy.tensor16, energy.tf32, energy.fp32]) * process
    joules = joules + table.energy[:, 3] * energy.byte * root
    return _composed(table, constants, kernels + table.floor, joules)


def _composed(table: StepTable, constants: Constants, each: Array, joules: Array) -> Array:
    """Return the seconds of steps from those of each kernel at full clock and its joules, as `roofsim.schedule.step` does."""
    physics = constants.physics
    held = np.flatnonzero(table.heat.any(axis=1))
    step, watts = table.step[held], table.watts[table.step[held]]
    heat = table.heat[held] @ np.array([1.0, constants.energy.tf32 / constants.energy.tensor16])
    share = window(each[held], table.window[step])
    own = sustained(each[held], heat / watts, joules[held] / watts, share, physics["power_corner"])

    def sums(values: Array, rows: Any = slice(None)) -> Array:
        total: Array = np.bincount(table.step[rows], table.times[rows] * values, len(table.measured)).astype(float)
        return total

    short = sums(each) - sums(np.asarray(own.alone), held)
    drawn = sums(joules) / table.watts - sums(np.asarray(own.power), held)
    slowed = throttled(short, np.maximum(drawn, 0.0), physics["clock_power"])
    corner = physics["busy_corner"]
    device = smooth_maximum(short, slowed, corner) + sums(np.asarray(own.held), held)
    composed: Array = np.asarray(smooth_maximum(device, table.host, corner))
    return composed


def _shares(constants: Constants, level: Deviation) -> list[float]:
    return [constants.compute.get(name, 1.0) * level.compute.get(name, 1.0) if name else 1.0 for name in MATHS]
