"""Gather the numbers of one GPU that pricing needs, as floats or arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from roofsim.cost.voltage import ClockEnergy, energy_at
from roofsim.errors import NoDataError
from roofsim.graph.base import Phase
from roofsim.numeric import Real, exactly, real
from roofsim.records import dataclass, field
from roofsim.spec.constants.attention_kernels import attention_kernel
from roofsim.units import humanize

if TYPE_CHECKING:
    from roofsim.spec.constants.kernels import Constants, Deviation
    from roofsim.spec.hardware.architecture import Architecture
    from roofsim.spec.hardware.schema import Gpu

#: Formats that ordinary units of one vendor and matrix units of another have; the two reach different shares.
ON_BOTH: Final = ("fp32", "fp64")
SIXTEEN_BIT: Final = ("bf16", "fp16")
#: Narrow number format -> its width, as files of architectures name it.
WIDTHS: Final[dict[str, Literal["8-bit", "6-bit", "4-bit"]]] = {
    "fp8": "8-bit", "int8": "8-bit", "fp6": "6-bit", "fp4": "4-bit", "int4": "4-bit",
}  # fmt: skip
#: Formats of whole numbers.
INTEGERS: Final = ("int8", "int4")
#: Width -> the constant that says its energy per FLOP against one of 16 bits.
WIDTH_ENERGIES: Final = {
    "8-bit": "width_energy_8_bit",
    "6-bit": "width_energy_6_bit",
    "4-bit": "width_energy_4_bit",
}


@dataclass(frozen=True, kw_only=True)
class HostTimes:
    """Seconds that the host takes to issue kernels, all 0 where it replays a graph of them.

    Attributes
    ----------
    call
        Per kernel of a forward pass, through its modules.
    backward
        Per kernel of a backward pass.
    issue
        Per kernel of an update.
    tensor
        Per parameter tensor and kernel of an update by kernels over many tensors.
    """

    call: Real = 0.0
    backward: Real = 0.0
    issue: Real = 0.0
    tensor: Real = 0.0


@dataclass(frozen=True, kw_only=True)
class Device:
    """One GPU: datasheet rates, and what its generation achieves of them.

    Attributes
    ----------
    tensor, vector
        Dense FLOP/s of matrix units and of ordinary units, by number format.
    bandwidth
        Bytes per second of device memory.
    capacity
        Bytes of device memory.
    constants, deviation, level
        What kernels achieve of the datasheet, on all cards, how this one deviates, and which level says so.
    cache
        Bytes of the last-level cache, or None when unknown.
    compute_units
        Streaming multiprocessors, or None when unknown.
    vector_units
        Cores that do all but matrix products, where those units are matrix engines apart from them; None: they do both.
    clock
        Their clock at the stated peaks, or None when unknown.
    attention_effort
        Energy of a FLOP of this engine's attention kernels against one of a large product.
    attention
        Generation of this engine's attention kernels; None: not stated.
    old_tiles
        Whether libraries cut convolutions on matrix units with few tiles, as those of before cuDNN 8 do.
    clock_energy
        What a limit on the clock leaves of energies.
    exponentials
        Exponentials that a compute unit takes per clock, against the usual number.
    pace
        Speed of kernels against those of a mature library.
    power
        Watts that the card may draw over a step, or None when unknown.
    host
        What the host takes to issue kernels.
    """

    name: str
    tensor: dict[str, Real]
    vector: dict[str, Real]
    bandwidth: Real
    capacity: Real
    architecture: Architecture
    constants: Constants
    deviation: Deviation
    level: str
    power: Real | None
    cache: Real | None
    compute_units: int | None
    clock: Real | None
    pace: float
    attention: str | None
    attention_effort: float
    host: HostTimes
    vector_units: int | None = None
    old_tiles: bool = False
    exponentials: Real = 1.0
    clock_energy: ClockEnergy = field(default_factory=ClockEnergy)

    def rate(self, math: str) -> tuple[Real, bool]:
        """Return the peak of a number format, and whether matrix units give it.

        Raises
        ------
        NoDataError
            When the card has no such arithmetic; names what it has.
        """
        if math in self.tensor:
            return self.tensor[math], True
        if math in self.vector:
            return self.vector[math], False
        has = [*self.tensor, *(name for name in self.vector if name not in self.tensor)]
        raise NoDataError(
            f"{self.name} has no peak for {math} arithmetic; it has {', '.join(has) or 'none'}. "
            f"Choose such a precision, or state gpu.peak.{math}."
        )

    def product_rate(self, math: str, *, half: bool) -> tuple[Real, bool]:
        """Return the peak of products of a format, and whether matrix units give it.

        Sums in `half` precision have a rate of their own on some cards (GeForce).

        Raises
        ------
        NoDataError
            As `rate`.
        """
        own = f"{math}_fp16"
        return self.rate(own if half and own in self.tensor else math)

    def share_key(self, math: str) -> str:
        """Return the name of the share that large products of a format reach: that of matrix units where these take it."""
        return f"{math}_matrix" if math in ON_BOTH and math in self.tensor else math

    def has(self, math: str) -> bool:
        """Whether the card has arithmetic of a format."""
        return math in self.tensor or math in self.vector

    def compute_share(self, math: str) -> Real:
        """Return the share of the dense peak that large matmuls in a format reach.

        Raises
        ------
        NoDataError
            When no constant says so.
        """
        table = self.constants.compute
        if math not in table:
            raise NoDataError(f"no achieved fraction is known for {math} arithmetic; known: {', '.join(table)}")
        return float(table[math] * self.deviation.compute.get(math, 1.0) * self.pace)

    def attention_factor(self, generation: str | None) -> float:
        """Return the speed of a generation of attention kernels against the usual ones of the architecture."""
        return self.architecture.attention_generations.get(generation or "", 1.0)

    def attention_format(self, math: str) -> str:
        """Return the format in which the share of fused attention is stated: 16 bits where nobody stated one of 8."""
        table = self.architecture.attention
        wide = [name for name in SIXTEEN_BIT if name in table]
        return math if math in table or WIDTHS.get(math) != WIDTHS["fp8"] or not wide else wide[0]

    def attention_share(self, math: str, generation: str | None) -> Real:
        """Return the share of the dense peak that fused attention kernels of a generation reach on this architecture.

        Raises
        ------
        NoDataError
            When the architecture states none.
        """
        table = self.architecture.attention
        math = self.attention_format(math)
        if math not in table:
            raise NoDataError(
                f"architecture {self.architecture.name} states no achieved fraction of fused attention for {math}; "
                f"it has {', '.join(table)}"
            )
        return table[math] * self.attention_factor(generation) * self.pace

    def bandwidth_share(self, kind: str) -> float:
        """Return the achieved share of the memory bandwidth of a class of kernels."""
        return float(self.constants.stream * self.deviation.stream * self.constants.classes[kind] * self.pace)

    @property
    def power_window(self) -> float:
        """Seconds over which the card's controller holds the mean power."""
        own = self.architecture.power_window
        return self.constants.physics["power_window"] if own is None else own

    def energy(self, flops: Real, math: str, traffic: Real, *, on_tensor: bool) -> Real:
        """Return the joules of a kernel, static power included; traffic's share falls with the root of the process."""
        table, process = self.constants.energy, self.architecture.process_energy
        if not on_tensor:
            each = table.fp32 * process
        elif math in ("tf32", "fp32"):
            each = table.tf32 * process
        else:
            each = self.matrix_energy(math)
        byte = self._of_clock(table.byte * process**0.5)
        joules: Real = flops * each * self.clock_energy.arithmetic + traffic * byte
        return joules

    def streaming_energy(self, traffic: Real) -> Real:
        """Return the joules that a card draws to stream bytes, as its board measures them, beyond what it draws waiting."""
        each = self.constants.physics["streaming_energy"] * self.architecture.process_energy**0.5
        joules: Real = traffic * self._of_clock(each)
        return joules

    def _of_clock(self, byte: float) -> Real:
        """Return the joules of a byte at the clock that a limit leaves: the memory devices have one of their own."""
        chip = self.clock_energy.on_chip
        if exactly(chip, 1.0):
            return byte
        own = min(self.constants.physics["memory_device_energy"], byte)
        return own + (byte - own) * chip

    def matrix_energy(self, math: str) -> float:
        """Return the joules of a FLOP of matrix arithmetic in 16 bits or fewer, at full clock."""
        architecture, width = self.architecture, self.width_energy(math)
        own = architecture.matrix_energy
        if not own:
            return self.constants.energy.tensor16 * width * architecture.process_energy
        bits = "16-bit" if width == 1.0 else "8-bit"
        if bits not in own:
            return own["16-bit"] * width
        return own[bits] * width / (self.width_energy("fp8") if bits == "8-bit" else 1.0)

    def width_energy(self, math: str) -> float:
        """Return the energy of a FLOP of matrix arithmetic in a format against one in 16 bits."""
        each = self.constants.physics[WIDTH_ENERGIES[WIDTHS[math]]] if math in WIDTHS else 1.0
        return each * self._integer_energy(math)

    def _integer_energy(self, math: str) -> float:
        """Return the energy of a FLOP in a format against one on floating-point numbers as wide."""
        return self.constants.physics["integer_energy"] if math in INTEGERS else 1.0

    def heat(self, flops: Real, math: str) -> Real:
        """Return the joules of the arithmetic of a long product on matrix units, at the clock that it can hold."""
        joules: Real = flops * self._product_energy(math)
        return joules

    def _product_energy(self, math: str) -> float:
        each, own = self.architecture.product_energy or 0.0, self.architecture.narrow_product_energy
        if math in ("tf32", "fp32"):
            return each * self.constants.energy.tf32 / self.constants.energy.tensor16
        width = WIDTHS.get(math)
        if width is not None and width in own:
            return own[width] * self._integer_energy(math)
        return each * self.width_energy(math)

    def host_time(self, phase: Phase) -> Real:
        """Return the host's seconds to issue a kernel in a phase."""
        if phase in (Phase.FORWARD, Phase.RECOMPUTE):
            return self.host.call
        return self.host.backward if phase is Phase.BACKWARD else self.host.issue

    @property
    def vector_rate(self) -> Real | None:
        """FLOP/s of ordinary units in fp32, or None when unknown."""
        return self.vector.get("fp32")

    def text(self) -> str:
        """Return the card in one line."""
        return (
            f"{self.name}, {humanize(float(self.capacity), 'B', 4)}" if isinstance(self.capacity, float) else self.name
        )


def device_of(
    gpu: Gpu,
    architecture: Architecture,
    constants: Constants,
    host: HostTimes,
    *,
    library: float | None = None,
    attention: str | None = None,
) -> Device:
    """Build the device of a GPU description.

    Parameters
    ----------
    host
        What the host takes to issue kernels.
    library
        When the kernel libraries came out, a decimal year; None: mature.
    attention
        Generation of the engine's attention kernels.
    """
    deviation, level = constants.of(gpu)
    deviation = deviation.model_copy(update={"compute": architecture.compute | deviation.compute})
    return Device(
        name=gpu.name,
        tensor={name: real(rate) for name, rate in gpu.peak.items()},
        vector={name: real(rate) for name, rate in gpu.vector_peak.items()},
        bandwidth=real(gpu.memory.bandwidth),
        capacity=real(gpu.memory.capacity),
        architecture=architecture,
        constants=constants,
        deviation=deviation,
        level=level,
        cache=None if gpu.l2 is None else real(gpu.l2.capacity),
        compute_units=gpu.compute_units,
        vector_units=gpu.vector_units,
        clock=None if gpu.clock is None else real(gpu.clock.boost),
        attention=attention,
        attention_effort=_attention_effort(attention, architecture, constants.physics["attention_effort"]),
        pace=1.0 / (1.0 + constants.immaturity * constants.youth(library, architecture.kernels_since)),
        power=None if gpu.tdp is None else real(gpu.tdp),
        exponentials=1.0
        if gpu.exponentials_per_clock is None
        else real(gpu.exponentials_per_clock) / constants.physics["usual_exponentials"],
        clock_energy=ClockEnergy()
        if gpu.clock is None
        else energy_at(real(gpu.clock.held), architecture, constants.physics),
        old_tiles=library is not None and library < constants.physics["convolutions_as_products"],
        host=host,
    )


def _attention_effort(generation: str | None, architecture: Architecture, usual: float) -> float:
    """Return the energy of a FLOP of attention kernels against one of a long GEMM."""
    if attention_kernel(generation).operands == "shared_memory":
        return 1.0
    return usual if architecture.register_effort is None else architecture.register_effort
