"""Time of collectives: laws on floats and arrays, and numbers that others measured."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofsim.cost.links.collectives import KINDS, collective_time, fabric_of, host_transfer_time
from roofsim.errors import NoDataError
from roofsim.spec import catalog
from roofsim.spec.constants import link_kinds
from roofsim.spec.constants.links import shipped_links
from roofsim.spec.hardware.schema import Gpu, System
from roofsim.spec.reading.validate import validate
from roofsim.spec.scenario.layout import layout_of
from roofsim.spec.scenario.workload import Parallel
from roofsim.units import parse
from tests.surely import sure

MICROSECOND, GB = parse("1 us", "s"), parse("1 GB", "B")
SYSTEMS = (
    "dgx-h100",
    "dgx-a100",
    "dgx-1v",
    "gb200-nvl72",
    "platform-8x-mi300x",
    "aws-g5-48xlarge",
    "azure-nc96ads-a100-v4",
)


@cache
def fabric(system):
    node = validate(System, catalog.load("system", system))
    gpu = validate(Gpu, catalog.load("gpu", sure(node.gpu)))
    return fabric_of(node, gpu, gpu.architecture)


kinds = st.sampled_from(KINDS)
systems = st.sampled_from(SYSTEMS)
sizes = st.floats(min_value=1.0, max_value=1e14)
ranks = st.integers(min_value=1, max_value=512).map(float)
strides = st.sampled_from([1.0, 2.0, 4.0, 8.0, 64.0])


@given(kinds, systems, sizes, ranks, strides)
@settings(deadline=None)
def test_time_is_positive_and_its_parts_sum(kind, system, size, count, stride):
    time = collective_time(kind, size, count, stride, fabric(system))
    assert (time.seconds > 0.0) == (count > 1.0)
    parts = (time.intra_node, time.inter_node, time.latency)
    assert min(parts) >= 0.0
    assert sum(parts) == pytest.approx(time.seconds, rel=1e-9)


@given(
    kinds,
    systems,
    sizes,
    ranks,
    strides,
    st.floats(min_value=1.0, max_value=100.0),
    st.sampled_from([None, "vllm", "mlc-llm"]),
)
@settings(deadline=None)
def test_more_bytes_are_never_faster(kind, system, size, count, stride, factor, custom):
    less = collective_time(kind, size, count, stride, fabric(system), custom=custom)
    more = collective_time(kind, size * factor, count, stride, fabric(system), custom=custom)
    assert more.seconds >= less.seconds * (1.0 - 1e-12)


@given(kinds, systems, sizes, ranks, strides, st.floats(min_value=1.0, max_value=10.0), st.booleans())
@settings(deadline=None)
def test_more_bandwidth_is_never_slower(kind, system, size, count, stride, factor, inside):
    scale = {"intra_scale": factor} if inside else {"inter_scale": factor}
    now = collective_time(kind, size, count, stride, fabric(system))
    faster = collective_time(kind, size, count, stride, fabric(system), **scale)
    assert faster.seconds <= now.seconds * (1.0 + 1e-12)


@given(systems)
@settings(deadline=None)
def test_a_ring_all_reduce_is_a_reduce_scatter_and_an_all_gather(system):
    def seconds(kind):
        return collective_time(kind, GB, 4.0, 1.0, fabric(system), in_switch=False).seconds

    assert seconds("all_reduce") == pytest.approx(seconds("reduce_scatter") + seconds("all_gather"), rel=0.15)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("kind", KINDS)
def test_arrays_are_what_scalars_are(kind, system):
    message = np.array([0.0, 1e3, 1e6, 1e9])[:, None, None]
    count = np.array([1.0, 2.0, 3.0, 8.0, 64.0])[:, None]
    stride = np.array([1.0, 2.0, 8.0])
    together = collective_time(kind, message, count, stride, fabric(system), custom="vllm")
    for place in np.ndindex(4, 5, 3):
        one = collective_time(
            kind, float(message[place[0], 0, 0]), float(count[place[1], 0]), float(stride[place[2]]), fabric(system),
            custom="vllm",
        )  # fmt: skip
        assert isinstance(one.seconds, float)
        for name in ("seconds", "intra_node", "inter_node", "latency"):
            whole = np.broadcast_to(getattr(together, name), (4, 5, 3))
            assert whole[place] == pytest.approx(getattr(one, name), rel=1e-12, abs=1e-18)


def test_nothing_to_move_takes_no_time():
    assert collective_time("all_reduce", GB, 1.0, 1.0, fabric("dgx-h100")).seconds == 0.0
    assert collective_time("all_reduce", 0.0, 8.0, 1.0, fabric("dgx-h100")).seconds == 0.0
    assert host_transfer_time(0.0, fabric("dgx-h100")) == 0.0


def test_groups_share_the_nics_of_their_node():
    data = collective_time("all_reduce", GB, 8.0, 8.0, fabric("dgx-h100"))
    alone = collective_time("all_reduce", GB, 8.0, 8.0, fabric("dgx-h100"), groups=1.0)
    whole = collective_time("all_reduce", GB, 64.0, 1.0, fabric("dgx-h100"))
    assert data.seconds > 4.0 * whole.seconds
    assert data.seconds == pytest.approx(alone.seconds)  # a NIC for every GPU
    few = collective_time("all_reduce", GB, 8.0, 8.0, fabric("aws-p4d"))
    assert few.seconds > 1.5 * collective_time("all_reduce", GB, 8.0, 8.0, fabric("aws-p4d"), groups=1.0).seconds


#: What others measured: system, operation, ranks, stride, bytes, engine with own kernels, microseconds, tolerance. The rows of
#: nccl-tests logs are in no fit.
PUBLISHED = [
    ("gb200-nvl72", "all_reduce", 72, 1, 4294967296, None, 10094, 0.2),  # coreweave/nccl-tests pull 43
    ("platform-8x-mi300x", "all_reduce", 8, 1, 8388608, None, 91.1, 0.15),  # crickett-hpe/hpc-ai-envs pull 30
    ("hgx-h20-8", "all_reduce", 8, 1, 2048, None, 16.49, 0.15),  # deepseek-ai/DeepEP issue 303
    ("dgx-h100", "all_reduce", 2, 8, 33554432, None, 812.3, 0.15),  # NVIDIA/nccl-tests issue 232
    ("dgx-a100", "all_reduce", 2, 8, 64, None, 19.36, 0.15),  # NVIDIA/nccl-tests issue 150
    ("dgx-a100", "all_reduce", 8, 1, 536870912, None, 4364, 0.1),  # ai-dynamo/aiconfigurator
    ("dgx-h100", "all_gather", 8, 1, 536870912, None, 1401, 0.1),
    ("dgx-h100", "all_reduce", 8, 1, 131072, "vllm", 7.7, 0.15),
    ("dgx-b200", "all_to_all", 8, 1, 134217728, None, 250, 0.1),
    ("aws-p6-b200", "all_reduce", 32, 1, 8589934592, None, 43750, 0.1),  # stas00/ml-engineering
    ("azure-nc96ads-a100-v4", "all_reduce", 4, 1, 134217728, None, 8494, 0.1),  # microsoft/vidur
]


@pytest.mark.parametrize(("system", "op", "count", "stride", "size", "custom", "microseconds", "within"), PUBLISHED)
def test_published_times(system, op, count, stride, size, custom, microseconds, within):
    time = collective_time(op, float(size), float(count), float(stride), fabric(system), custom=custom, groups=1.0)
    assert time.seconds == pytest.approx(microseconds * MICROSECOND, rel=within)


def test_own_kernels_win_on_short_messages_only():
    short, long = 32768.0, 268435456.0
    for engine in ("vllm", "sglang", "tensorrt-llm", "lightllm"):
        own = collective_time("all_reduce", short, 8.0, 1.0, fabric("dgx-h100"), custom=engine)
        assert own.seconds < 0.5 * collective_time("all_reduce", short, 8.0, 1.0, fabric("dgx-h100")).seconds
        far = collective_time("all_reduce", long, 8.0, 1.0, fabric("dgx-h100"), custom=engine)
        assert far.seconds == collective_time("all_reduce", long, 8.0, 1.0, fabric("dgx-h100")).seconds


@pytest.mark.parametrize(
    ("kib", "microseconds"), [(24, 6.3), (48, 6.7), (96, 7.6), (384, 13.1), (768, 16.0), (1536, 24.2)]
)
def test_own_kernels_read_all_peers_of_a_mesh(kib, microseconds):
    """All-reduce of vLLM over 8 MI355X (vllm-project/vllm pull 39080, before its change)."""
    size = float(kib) * 1024.0
    time = collective_time("all_reduce", size, 8.0, 1.0, fabric("platform-8x-mi355x"), custom="vllm")
    assert time.seconds == pytest.approx(parse(f"{microseconds} us", "s"), rel=0.2)
    library = collective_time("all_reduce", size, 8.0, 1.0, fabric("platform-8x-mi355x"))
    assert library.seconds > 1.2 * time.seconds


def test_switches_that_reduce_win_on_long_messages():
    with_switch = collective_time("all_reduce", GB, 8.0, 1.0, fabric("dgx-h100"))
    ring = collective_time("all_reduce", GB, 8.0, 1.0, fabric("dgx-h100"), in_switch=False)
    assert 1.1 < ring.seconds / with_switch.seconds < 1.6
    a100 = [
        collective_time("all_reduce", GB, 8.0, 1.0, fabric("dgx-a100"), in_switch=flag).seconds
        for flag in (True, False)
    ]
    assert a100[0] == a100[1]


def test_a_measured_bus_bandwidth_takes_the_graphs_place():
    rate = GB / collective_time("all_gather", GB, 8.0, 1.0, fabric("server-8x-l40s")).seconds * 7.0 / 8.0
    assert rate == pytest.approx(parse("2.1 GB/s", "B/s"), rel=0.1)
    first, both = fabric("server-8x-rtx-pro-6000").tiers
    assert both.ring(8.0) == pytest.approx(parse("31 GB/s", "B/s"))
    assert first.ring(4.0) > parse("45 GB/s", "B/s")  # smaller groups than any measured keep the graph's


def test_host_transfers_take_a_latency_and_the_link():
    seconds = host_transfer_time(np.array([1.0, 10.0]) * GB, fabric("dgx-h100"))
    assert seconds == pytest.approx(np.array([1.0, 10.0]) / (63.0 * 0.85), rel=0.01)


@pytest.mark.parametrize(
    ("kind", "count", "words"),
    [("all_reduced", 8.0, "Did you mean"), ("all_reduce", 16.0, "system.node_network")],
)
def test_what_cannot_be_priced_is_named(kind, count, words):
    with pytest.raises(NoDataError, match=words):
        collective_time(kind, GB, count, 1.0, fabric("server-8x-l40s"))


def test_every_kind_of_link_and_network_in_the_catalog_has_constants():
    links = shipped_links()
    for name in catalog.names("system"):
        system = validate(System, catalog.load("system", name))
        if system.network is not None:
            assert system.network in links.networks, name
        if system.link is not None:
            assert links.link(system.link.name).launch > 0.0


@pytest.mark.parametrize(
    ("tensor", "expert", "stride"), [(1, 8, 8.0), (1, 1, 1.0), (4, 1, 4.0), (4, 2, 2.0), (8, 16, 16.0)]
)
def test_ranks_with_the_same_experts_lie_an_expert_group_apart(tensor, expert, stride):
    layout = layout_of(Parallel(tensor=tensor, data=16, expert=expert, sequence=True))
    assert layout.stride("experts") == stride
    assert layout.expert_replicas == (16.0 if expert == 1 else 16.0 * tensor / expert)


def test_what_a_link_can_do_is_a_fact_and_not_in_its_name(monkeypatch):
    """A kind with another name and the same facts is priced alike; without reduction in its switches it has none."""
    system = validate(System, catalog.load("system", "dgx-h100"))
    gpu = validate(Gpu, catalog.load("gpu", sure(system.gpu)))
    known = link_kinds.shipped()
    family = known.kinds["nvlink2"].model_copy(update={"reduces_in_switch": True})
    own = {"wire": family, "nvlink9": family.model_copy(update={"reduces_in_switch": False, "reads_peers": False})}
    monkeypatch.setattr(link_kinds, "shipped", lambda: known.model_copy(update={"kinds": known.kinds | own}))

    def tier(name):
        link = sure(system.link).model_copy(update={"name": name})
        return fabric_of(system.model_copy(update={"link": link}), gpu, gpu.architecture).tiers[0]

    links = shipped_links()
    assert tier("wire").constants == links.links["nvlink"]
    assert tier("wire").switch == links.switches["nvlink"]
    assert tier("wire").custom["vllm"] == links.custom["vllm"]["nvlink"]
    assert (tier("nvlink9").switch, tier("nvlink9").custom) == (None, None)
    assert (tier("nvlink3").switch, tier("nvlink5").switch) == (None, links.switches["nvlink5"])


def test_a_link_of_no_known_kind_is_refused():
    with pytest.raises(NoDataError, match=r"no kind of link is named 'nvlink99'.*nvlink5"):
        shipped_links().link("nvlink99")
