"""Describe GPUs and systems: the schemas of the files in hardware/gpus and hardware/systems."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from roofsim.schema.base import Field, field_validator
from roofsim.spec.hardware.price import Price
from roofsim.spec.reading.quantity import (
    Bandwidth,
    Bytes,
    BytesOrNone,
    FlopRate,
    Frequency,
    Power,
    SecondsOrNone,
)
from roofsim.spec.strict import Strict

#: Element types that a tensor (matrix) unit may take; ``_fp16`` marks accumulation in fp16 instead of fp32.
PEAK_TYPES: Final = (
    "fp64", "fp32", "tf32", "fp16", "bf16", "fp16_fp16", "fp8", "fp8_fp16", "fp6", "fp4", "int8", "int4",
)  # fmt: skip
VECTOR_TYPES: Final = ("fp64", "fp32", "fp16", "bf16", "int8")

#: Maker of a card that a scenario describes without one.
UNKNOWN_VENDOR: Final = "unknown"

#: Names and kinds, which no override changes.
FIXED: Final = (
    "name",
    "schema",
    "sources",
    "aliases",
    "checked",
    "recalled",
    "architecture",
    "vendor",
    "gpu",
    "topology",
    "form",
)


class Clock(Strict):
    """Clocks of the compute units."""

    boost: Frequency = Field(description="Clock at which the peaks are stated.")
    maximum: Frequency | None = Field(default=None, description="Highest clock the part reaches, where it differs.")
    held: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        default=1.0, description="Share of its own clock that a limit leaves: its voltage is lower then."
    )


class DeviceMemory(Strict):
    """Device memory."""

    capacity: Bytes
    bandwidth: Bandwidth = Field(description="Datasheet bandwidth, one direction at a time.")
    type: str = ""
    bus: Annotated[int, Field(ge=32, le=16384)] | None = Field(
        default=None, description="Data lines, all stacks or chips together."
    )
    rate: Bandwidth | None = Field(
        default=None, description="Of one data line; times `bus` it is the bandwidth, which is what counts."
    )
    stacks: Annotated[int, Field(ge=1, le=64)] | None = Field(
        default=None,
        description="Stacks of high-bandwidth memory on the package; null: it has none, or nobody states them.",
    )
    per_stack: Bandwidth | None = Field(
        default=None, description="Bandwidth of one stack; with `stacks` it says the bandwidth."
    )
    capacity_per_stack: Bytes | None = Field(
        default=None, description="Capacity of one stack; with `stacks` it says the capacity."
    )
    unified: bool = Field(
        default=False,
        description="Whether it is the memory of the host's processors as well (DGX Spark, integrated graphics): nothing can be "
        "moved from it to the host.",
    )
    error_correction: Literal["apart", "inline"] = Field(
        default="apart",
        description="inline: check bits are in the same memory, and take a 16th of what an engine's own kernels stream (the "
        "capacity is the maker's); apart: they cost nothing.",
    )


class Cache(Strict):
    """Last-level cache of the device."""

    capacity: Bytes
    bandwidth: Bandwidth | None = Field(default=None, description="Null: not published; nothing is assumed.")


class Link(Strict):
    """A link of one GPU: to its peers, or to the host."""

    name: str = Field(
        description="nvlink3, nvlink3-bridge, xgmi, pcie4, roce, none: a kind of hardware/constants/link_kinds.yaml."
    )
    bandwidth: Bandwidth | None = Field(default=None, description="All links of this GPU together, each way.")
    count: Annotated[int, Field(ge=0, le=1024)] | None = None
    lanes: Annotated[int, Field(ge=1, le=64)] | None = None


class Gpu(Strict):
    """A GPU (or another accelerator) as its maker describes it. Peaks are dense; null means unknown, not zero."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    name: str
    vendor: str
    architecture: str = Field(description="A file of hardware/architectures: where achieved fractions come from.")
    form: str | None = Field(
        default=None,
        description="Socket or slot that it sits in: pcie, sxm4, sxm5, oam ...; null: unknown, fits anywhere.",
    )
    year: Annotated[int, Field(ge=2005, le=2040)] | None = None
    checked: str | None = Field(
        default=None,
        description="When the figures were last held against their sources, YYYY-MM-DD; null: not noted.",
    )
    recalled: tuple[str, ...] = Field(
        default=(),
        description="Figures from memory, without a source: field or field.part. Lists, `show`, warnings and intervals of "
        "answers say so.",
    )
    aliases: tuple[str, ...] = ()
    compute_units: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None, description="Streaming multiprocessors, compute units, cores."
    )
    vector_units: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None,
        description="Cores that do all but matrix products, where compute_units counts matrix engines apart from them (Gaudi's "
        "TPC); null: the compute units do both.",
    )
    clock: Clock | None = None
    peak: dict[str, FlopRate] = Field(
        description=f"Dense rate of matrix units by input type ({', '.join(PEAK_TYPES)}), fp32 accumulation unless the "
        "name says otherwise."
    )
    vector_peak: dict[str, FlopRate] = Field(
        default_factory=dict, description=f"Rate of the ordinary units by type ({', '.join(VECTOR_TYPES)})."
    )
    exponentials_per_clock: Annotated[float, Field(gt=0.0, le=1024.0)] | None = Field(
        default=None,
        description="Exponentials that the special-function units of a compute unit take per clock, where they are more or fewer "
        "than its architecture's usual ones (usual_exponentials of `roofsim show physics`).",
    )
    sparsity: Annotated[float, Field(ge=1.0, le=4.0)] | None = Field(
        default=None, description="Factor of the maker's sparse figures over these dense ones."
    )
    memory: DeviceMemory
    l2: Cache | None = None
    link: Link | None = Field(default=None, description="To other GPUs.")
    host_link: Link | None = None
    tdp: Power | None = None
    power_held: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        default=1.0, description="Share of its own power that a limit leaves: what it draws waiting stays."
    )
    price: Price = Price()
    usual_system: str | None = Field(default=None, description="A file of hardware/systems.")
    usual_box: str | None = Field(
        default=None,
        description="A file of hardware/systems: the node for more of these cards than usual_system has room for, which has no "
        "network; null: none is usual.",
    )
    sources: dict[str, str] = Field(
        default_factory=dict, description="Field (or field.part) -> where its numbers come from."
    )
    notes: str = ""

    @field_validator("peak", "vector_peak")
    @classmethod
    def _known_types(cls, value: dict[str, float], info: Any) -> dict[str, float]:
        known = PEAK_TYPES if info.field_name == "peak" else VECTOR_TYPES
        unknown = [name for name in value if name not in known]
        if unknown:
            raise ValueError(f"unknown number format {', '.join(map(repr, unknown))}; known: {', '.join(known)}")
        return value

    def flops_per_clock(self, dtype: str = "fp16") -> float | None:
        """Return dense FLOP per clock and compute unit of the matrix units, if all three numbers are known."""
        rate = self.peak.get(dtype)
        if rate is None or self.compute_units is None or self.clock is None:
            return None
        return rate / (self.compute_units * self.clock.boost)


class Host(Strict):
    """The machine around the GPUs."""

    memory: BytesOrNone | None = None
    memory_bandwidth: Bandwidth | None = None
    cores: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None, description="Of all processors of the node; null: unknown, and nothing is limited by them."
    )
    issue_factor: Annotated[float, Field(gt=0.0, le=20.0)] = Field(
        default=1.0, description="Host time per kernel launch against the reference host (a 2020 server CPU)."
    )


class Expander(Strict):
    """Memory behind CXL: expanders of a node, which its processors load from and its GPUs copy from without passing DRAM."""

    capacity: Bytes
    bandwidth: Bandwidth = Field(
        description="Of all expanders of the node, reads and writes together: the lesser of their links and of the DRAM behind."
    )
    latency: SecondsOrNone | None = Field(default=None, description="Of a load; null: the constant cxl_latency.")


class Storage(Strict):
    """Local or attached storage of a node, or storage that it reaches over its network (NVMe over fabrics)."""

    read: Bandwidth | None = None
    write: Bandwidth | None = None
    capacity: Bytes | None = None
    latency: SecondsOrNone | None = Field(
        default=None, description="Of the first page of a copy; null: the constant storage_latency."
    )
    direct: bool = Field(
        default=False,
        description="Whether GPUs read and write it without a copy in host memory (GPUDirect Storage).",
    )


TOPOLOGIES: Final = (
    "single", "nvswitch", "hybrid-cube-mesh", "all-to-all", "bridge-pairs", "pcie", "pcie-no-peer", "xgmi-mesh",
    "roce-all-to-all",
)  # fmt: skip


class System(Strict):
    """A node: GPUs, the links between them, NICs, host, storage."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    name: str
    checked: str | None = Field(
        default=None,
        description="When the figures were last held against their sources, YYYY-MM-DD; null: not noted.",
    )
    recalled: tuple[str, ...] = Field(
        default=(),
        description="Figures from memory, without a source: field or field.part. Lists, `show`, warnings and intervals of "
        "answers say so.",
    )
    aliases: tuple[str, ...] = ()
    description: str = ""
    gpu: str | None = Field(default=None, description="The GPU that it comes with; null: any.")
    form: str | None = Field(
        default=None, description="Sockets or slots for its GPUs: pcie, sxm4, sxm5, oam ...; null: unknown, holds any."
    )
    gpus_per_node: Annotated[int, Field(ge=1, le=10_000)]
    topology: Literal[
        "single",
        "nvswitch",
        "hybrid-cube-mesh",
        "all-to-all",
        "bridge-pairs",
        "pcie",
        "pcie-no-peer",
        "xgmi-mesh",
        "roce-all-to-all",
    ]
    link: Link | None = Field(default=None, description="GPU to GPU inside the node, per GPU, each way.")
    bridged: Annotated[int, Field(ge=2, le=64)] | None = Field(
        default=None,
        description="Of all-to-all and xgmi-mesh: only this many neighbours are joined by links of their own, groups of them over "
        "the host; null: all are.",
    )
    link_latency: SecondsOrNone | None = None
    host_link: Link | None = Field(default=None, description="GPU to host, per GPU, each way; null: the GPU's own.")
    gpus_per_host_link: Annotated[int, Field(ge=1, le=64)] = Field(
        default=1,
        description="GPUs that share one link to the host: those behind one PCIe switch, which reach one another without it.",
    )
    nics_per_node: Annotated[int, Field(ge=0, le=10_000)] | None = None
    node_network: Bandwidth | None = Field(default=None, description="All NICs of a node together, each way.")
    network: str | None = Field(
        default=None, description="infiniband, roce, efa, ethernet, slingshot ...; null: unknown."
    )
    peer: Literal["node", "socket", "switch", "none"] = Field(
        default="node",
        description="How far GPUs reach one another over PCIe without staging through host memory: switch: not from one root port "
        "of a processor to another.",
    )
    stand_in: bool = Field(
        default=False,
        description="A stand-in for hosts about which nothing else is known: what runs over it may take as long as hosts differ.",
    )
    sockets: Annotated[int, Field(ge=1, le=64)] | None = Field(
        default=None, description="Processors that the GPUs are attached to; null: one for up to four GPUs, else two."
    )
    dies: Annotated[int, Field(ge=1, le=8)] = Field(
        default=1, description="GPUs that are dies of one package, joined by more links than others."
    )
    bus_bandwidth: dict[int, Bandwidth] = Field(
        default_factory=dict,
        description="Measured ring bandwidth of large messages by GPUs of one node (nccl-tests: busbw).",
    )
    host: Host = Host()
    cxl: Expander | None = Field(default=None, description="Memory behind CXL; null: there is none.")
    storage: Storage = Storage()
    remote_storage: Storage | None = Field(
        default=None,
        description="Storage over the node's network (NVMe over fabrics), as the targets give it to one node; null: there is none.",
    )
    price: Price = Price()
    sources: dict[str, str] = Field(default_factory=dict)
    notes: str = ""
