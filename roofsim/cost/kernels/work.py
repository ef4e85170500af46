"""Describe one kernel launch as the roofline sees it, and build such descriptions from what an op moves and computes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from roofsim.cost.kernels.library import KernelLibrary
from roofsim.cost.kernels.models.streaming import unit_load
from roofsim.records import dataclass, field, replace
from roofsim.spec.mechanisms import ALL, Mechanisms

if TYPE_CHECKING:
    from roofsim.cost.device import Device
    from roofsim.graph.base import AbstractOp
    from roofsim.numeric import Real

#: Classes that read what no kernel just before them wrote.
SCATTERED: Final = ("embedding", "gather", "optimizer")
#: Classes whose kernels keep several loads in flight per thread (ATen's multi_tensor_apply: four).
UNROLLED: Final = ("optimizer",)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelWork:
    """One kernel launch as the roofline sees it.

    Attributes
    ----------
    flops, flop_peak
        Arithmetic of the launch and the dense peak of the units that do it; `on_tensor` says whether matrix units.
    compute_keys
        Names of the constants whose product is the achieved share of the peak: number format first, then conditions.
    compute_share, bandwidth_share
        The achieved fractions.
    traffic
        Bytes to and from memory, transposes included; `transposed` says how many bytes a full transpose would move.
    bandwidth_key
        Class of kernel.
    energy
        Joules that the power limit counts.
    by_units, by_vectors, by_memory
        Shares of the arithmetic's seconds that go with the rate of compute units beside their peaks, with that of ordinary units
        and with the memory's; the rest goes with the units that do the arithmetic.
    flat
        Share of the traffic's seconds that is latency: it does not go with the memory's rate.
    streamed
        Bytes of the traffic whose energy is not among them.
    at_random
        Whether it moves rows at random places: the traffic is what the cache does not hold of them.
    spared
        FLOPs of a direct convolution against those of the algorithm that the kernel takes (Winograd's does fewer).
    part
        Which pass of a convolution it is.
    host
        Seconds of the host beside those to issue the launches.
    apart, heat
        Whether it is a product, which is held to the power limit on its own if it is long, and the joules of its arithmetic.
    product
        m, n, k and number of the matrix products that the kernel cuts into tiles; None: it is not cut so.
    tiling
        Share of the compute rate that tiles and waves leave.
    load
        Bandwidth per compute unit against what simple kernels ask for; 0 where the kernel is not held by that.
    limit
        Bytes per second that the kernel's own loads allow, whatever the memory gives.
    floor
        Seconds of the smallest such kernel beyond those of the smallest kernel of all.
    norm
        Exponent of the corner between arithmetic and traffic; 0: that of the constants.
    """

    flops: Real
    flop_peak: Real
    compute_keys: tuple[str, ...]
    compute_share: Real
    traffic: Real
    transposed: Real
    bandwidth_key: str
    bandwidth_share: Real
    launches: Real
    on_tensor: bool
    energy: Real
    product: tuple[Real, Real, Real, Real] | None = None
    tiling: Real = 1.0
    load: Real = 0.0
    limit: Real = math.inf
    floor: Real = 0.0
    norm: float = 0.0
    spared: Real = 1.0
    heat: Real = 0.0
    apart: bool = False
    part: str = ""
    host: Real = 0.0
    streamed: Real = 0.0
    by_units: Real = 0.0
    by_vectors: Real = 0.0
    by_memory: Real = 0.0
    flat: Real = 0.0
    at_random: bool = False

    def slower(self, factor: float) -> KernelWork:
        """Return the kernel taking so many times as long beyond its launch: its arithmetic and its traffic reach so much less."""
        return replace(
            self,
            compute_share=self.compute_share / factor,
            bandwidth_share=self.bandwidth_share / factor,
            limit=self.limit / factor,
        )


@dataclass(frozen=True)
class Pricing:
    """Context of pricing: the device, the layout of images, and how the engine multiplies.

    `library` says whose kernels run, `stream_limit` what a product of few rows draws at most, in bytes per second.
    """

    device: Device
    channels_last: bool = False
    library: KernelLibrary = field(default_factory=KernelLibrary)
    stream_limit: Real = math.inf
    mechanisms: Mechanisms = ALL

    @property
    def few_rows(self) -> float:
        """Rows up to which a product streams its weights."""
        return self.device.constants.physics["few_rows"]

    def heavy(
        self,
        op: AbstractOp,
        flops: Real,
        traffic: Real,
        kind: str,
        conditions: tuple[tuple[str, Real], ...] = (),
        transposed: Real = 0.0,
        math: str | None = None,
        product: tuple[Real, Real, Real, Real] | None = None,
    ) -> KernelWork:
        """Return the work of a kernel with matrix arithmetic; `conditions` are named factors on its compute share."""
        device = self.device
        math = math or str(op.math or op.inputs[0].dtype)
        peak, on_tensor = self.product_rate(math)
        key = device.share_key(math)
        share = (
            device.attention_share(math, device.attention) if kind == "fused_attention" else device.compute_share(key)
        )
        for _, factor in conditions:
            share = share * factor
        effort = device.attention_effort if kind == "fused_attention" else 1.0
        kind = "attention" if kind == "fused_attention" else kind
        return KernelWork(
            flops=flops,
            flop_peak=peak,
            compute_keys=(key, *(name for name, _ in conditions)),
            compute_share=share,
            traffic=traffic + device.constants.transposes.get(math, 0.0) * transposed,
            transposed=transposed,
            bandwidth_key=kind,
            bandwidth_share=device.bandwidth_share(kind),
            launches=1.0,
            on_tensor=on_tensor,
            energy=device.energy(flops, math, traffic, on_tensor=on_tensor),
            product=product,
            heat=device.heat(flops * effort, math),
            apart=on_tensor and kind != "convolution",
        )

    def product_rate(self, math: str) -> tuple[Real, bool]:
        """Return the peak of products of a format as the engine adds them up, and whether matrix units give it."""
        return self.device.product_rate(math, half=self.library.half_accumulation)

    def unit_load(self) -> Real:
        """Return the bandwidth per compute unit against what a unit asks for in simple kernels.

        0 where nobody states the units, and where cores load ahead of their arithmetic.
        """
        device = self.device
        if device.compute_units is None or device.architecture.loads_ahead:
            return 0.0
        return unit_load(device.bandwidth, device.compute_units, device.constants.unit_bandwidth)

    def light(
        self, flops: Real, traffic: Real, kind: str, launches: Real = 1.0, condition: str = "vector"
    ) -> KernelWork:
        """Return the work of a kernel on ordinary units; its arithmetic is free where their peak is unknown."""
        device = self.device
        rate = device.vector_rate
        flops = 0.0 * flops if rate is None else flops
        return KernelWork(
            flops=flops,
            flop_peak=1.0 if rate is None else rate,
            compute_keys=(condition,),
            compute_share=device.constants.factors[condition] * device.pace,
            traffic=traffic,
            transposed=0.0,
            bandwidth_key=kind,
            bandwidth_share=device.bandwidth_share(kind),
            load=0.0 if kind in UNROLLED or not self.mechanisms.bytes_in_flight else self.unit_load(),
            launches=launches,
            on_tensor=False,
            energy=device.energy(flops, "fp32", traffic, on_tensor=False),
        )
