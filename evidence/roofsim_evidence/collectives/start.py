"""Say what is believed of links before any measurement: where fits begin, and what stays where nothing is measured."""

from __future__ import annotations

from typing import Any, Final

from roofsim.spec.constants.links import Links
from roofsim.spec.reading.source import from_mapping
from roofsim.spec.reading.validate import validate

_NVLINK: Final = {
    "efficiency": 0.8, "launch": "6 us", "step": "1 us", "handshake": "1 us", "handshake_step": "0.3 us",
    "small": "10 GB/s", "fill": "20 us", "fill_step": "2 us", "ramp": "100 GB/s",
    "exchange_step": "1 us", "exchange_handshake": "5 us", "exchange_small": "10 GB/s",
}  # fmt: skip
_PCIE: Final = _NVLINK | {"efficiency": 0.77, "launch": "10 us", "step": "2 us", "handshake": "2 us", "ramp": "20 GB/s"}
_CUSTOM: Final = {
    "launch_one": "3.5 us", "launch_two": "8 us", "step": "0.2 us", "efficiency_one": 0.6, "efficiency_two": 0.6, "limit": "8 MiB",
}  # fmt: skip
#: 8 MI355X, 24 to 48 KiB in one shot and 96 KiB to 1.5 MiB in two: 6.3 to 24.2 us (vllm-project/vllm pull 39080, before it).
_CUSTOM_XGMI: Final = {
    "launch_one": "5.2 us", "launch_two": "5.8 us", "step": "0.1 us", "efficiency_one": 0.8, "efficiency_two": 0.29,
}  # fmt: skip
_SWITCH: Final = {"efficiency": 0.6, "launch": "50 us"}
_INFINIBAND: Final = {
    "efficiency": 0.93, "step": "5 us", "fill": "60 us", "ramp": 0.8, "point": "8 us", "point_efficiency": 0.8,
    "noise": 0.02,
}  # fmt: skip
#: Flows over a link: see `SOURCES`.
_HASHED: Final = {"flows": 290.0, "flows_least": 18.0}
_NVLINKS: Final = ("nvlink", "nvlink3", "nvlink4", "nvlink5")
#: Engine -> the largest message that its own kernels take: vLLM less than 8 MiB, SGLang 16 MiB, TensorRT-LLM what is
#: faster than the library, about 1 MiB (the engines' sources).
LIMITS: Final = {"any": "8 MiB", "vllm": "7.99 MiB", "sglang": "16 MiB", "tensorrt-llm": "1 MiB"}

#: Kinds of links and networks with their beliefs.
BELIEFS: Final[dict[str, Any]] = {
    "shared": {
        "own_copy": {"all_reduce": 0.2, "all_gather": 0.3, "reduce_scatter": 0.3, "all_to_all": 0.3},
        "exchange_efficiency": 0.9,
        "corner": 3.0,
        "tree": 0.85,
        "sockets": 0.75,
        "staged": 0.7,
        "staging": 1.5,
        "launch": "8 us",
    },
    "links": {
        **dict.fromkeys(("nvlink", "nvlink3", "nvlink4", "nvlink5", "nvlink3-bridge", "nvlink4-bridge"), _NVLINK),
        **dict.fromkeys(("pcie", "pcie3", "pcie4", "pcie5"), _PCIE),
        "xgmi": _NVLINK | {"efficiency": 0.75, "launch": "12 us"},
        "roce": _PCIE | {"efficiency": 0.85},
    },
    "switches": dict.fromkeys(("nvlink", "nvlink4", "nvlink5"), _SWITCH),
    "custom": {
        engine: {**dict.fromkeys(_NVLINKS, _CUSTOM | {"limit": limit}), "xgmi": _CUSTOM_XGMI | {"limit": limit}}
        for engine, limit in LIMITS.items()
    },
    "networks": {
        "infiniband": _INFINIBAND,
        "infiniband-staged": _INFINIBAND | {"efficiency": 0.3, "ramp": 0.3, "step": "12 us"},
        "roce": _INFINIBAND | {"efficiency": 0.9, "step": "8 us"} | _HASHED,
        "efa": _INFINIBAND | {"efficiency": 0.9, "step": "40 us", "fill": "500 us"},
        "omnipath": _INFINIBAND | {"efficiency": 0.4, "step": "10 us"},
        "slingshot": _INFINIBAND | {"efficiency": 0.85, "step": "10 us"},
        "ethernet": _INFINIBAND | {"efficiency": 0.7, "step": "25 us", "ramp": 0.5, "noise": 0.04} | _HASHED,
    },
    "host": {"efficiency": 0.85, "latency": "8 us", "kinds": {"nvlink-c2c": {"from_host": 0.83, "to_host": 0.66}}},
}

SOURCES: Final = {
    "links": (
        "nvlink3, nvlink4, nvlink5, pcie3, pcie4, pcie5, bridges: fitted to evidence/measurements/collectives.csv.gz, but for the "
        "exchange constants of PCIe and bridges (assumed); nvlink, pcie: geometric means, for kinds without measurements; "
        "xgmi: 48 of 64 GB/s a link (ROCm blog, Understanding RCCL bandwidth and xGMI performance on MI300X, 2025), the rest "
        "assumed; roce (between accelerators of a node): assumed"
    ),
    "switches": "fitted; NVIDIA/nccl-tests issue 212 expects 480 GB/s bus of H100 against 370 GB/s of a ring",
    "custom": "fitted to the kernels of vLLM, SGLang and TensorRT-LLM; limits: the engines' sources, and where their times end; "
    "xgmi: read off the table of vllm-project/vllm pull 39080 (8 MI355X, before its change), assumed for other meshes",
    "networks": (
        "efa, infiniband-staged (without GPUDirect RDMA), and point and point_efficiency of infiniband: fitted; step of "
        "infiniband: 19 us an all-reduce of two nodes with one A100 each (NVIDIA/nccl-tests issue 150); its efficiency: 46-48 "
        "of 50 GB/s a 400 Gbit/s port (NVIDIA/nccl-tests issue 290), 93-96 of 100 GB/s over four ports (issues 119, 252); "
        "omnipath: data-parallel exchange of BigScience's layout search, 100 Gbit/s a pair of A100 without GPUDirect RDMA; "
        "flows of roce and ethernet: assumed so that queue-pair scaling gains 40 % on an all-reduce, the most that Meta states "
        "(RDMA over Ethernet for Distributed Training at Meta Scale, SIGCOMM 2024, and its engineering blog of 5 August 2024), "
        "with 16 queue pairs and 128 links, which are assumed: 18 flows without it and 290 with it; all others assumed"
    ),
    "shared": (
        "own_copy, exchange_efficiency, corner, sockets, staged: fitted; tree: assumed (on two nodes a tree passes the NICs "
        "once, NVIDIA/nccl-tests issue 196); staged agrees with 28-35 GB/s bus over PCIe 5 of RTX 5090 (NVIDIA/nccl issue "
        "1639); staging, launch: assumed (42 us an all-reduce over 8 RTX 4090, NVIDIA/nccl issue 1530)"
    ),
    "host": "pinned copies reach 80-90 % of the PCIe line rate in public bandwidth tests; latency assumed; nvlink-c2c: 375 GB/s "
    "from the host and 297 GB/s to it of 450 each way on a GH200 (Schieffer et al., Harnessing Integrated CPU-GPU System Memory "
    "for HPC, ICPP 2024, arXiv 2407.07850)",
}

RANGES: Final = {
    "links.efficiency": "0.6-0.9 (0.35-0.8 over PCIe)",
    "links.launch": "4-15 us",
    "links.step": "0.6-3 us",
    "links.handshake": "0.5-5 us",
    "links.handshake_step": "0.1-0.6 us",
    "links.small": "5-25 GB/s",
    "links.fill": "5-60 us",
    "links.fill_step": "0-10 us",
    "links.ramp": "40-250 GB/s (5-50 over PCIe)",
    "switches.efficiency": "0.45-0.75",
    "switches.launch": "30-100 us",
    "custom.launch_one": "2-8 us",
    "custom.launch_two": "4-20 us",
    "custom.efficiency_one, efficiency_two": "0.3-1",
    "networks.efficiency": "0.8-0.97 (0.2-0.4 without GPUDirect RDMA, 0.5-0.9 over TCP)",
    "networks.step": "3-25 us (30-100 us EFA)",
    "networks.flows": "18 (one queue pair) to any number (packets spread)",
    "shared.own_copy": "0-1.2",
    "shared.corner": "2-6",
    "shared.sockets": "0.5-1",
    "shared.staged": "0.4-0.9",
    "host.kinds": "0.6-0.95",
}


def start() -> Links:
    """Return the beliefs as constants."""
    return validate(Links, from_mapping(BELIEFS, "beliefs"))
