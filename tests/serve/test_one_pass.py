"""Servers of networks that answer in one pass: batches, latencies and bounds, held to closed forms and to a simulation."""

from __future__ import annotations

import json

import numpy as np
import pytest

import roofsim
from roofsim.api import run
from roofsim.errors import SpecError
from roofsim.serve.one_pass.batching import Batcher
from roofsim.serve.one_pass.simulation import simulate
from roofsim.serve.surface import Curve
from tests.surely import sure

SIZES = tuple(2.0**power for power in range(10))
#: A pass whose time grows with its batch, as measured passes do: a floor, and so much for each request.
TIMES = Curve(points=SIZES, seconds=tuple(1e-4 + 1.5e-5 * size for size in SIZES))


def batcher(most, **settings):
    return Batcher(times=TIMES, most=float(most), **settings)


def at_share(server, share):
    """Return a rate that is a share of what the server completes at most."""
    return share * server.most / server.times.at(server.most) * server.copies


@pytest.mark.parametrize("share", [0.2, 0.6, 0.9])
def test_single_requests_are_an_m_d_1_queue(share):
    """Pollaczek and Khinchine: the mean wait is share / (2 (1 - share)) services."""
    server = batcher(1)
    latencies = sure(server.under(at_share(server, share)))
    service = TIMES.at(1.0)
    assert latencies.mean == pytest.approx(service * (1.0 + share / (2.0 * (1.0 - share))), rel=0.01)
    assert latencies.mean_batch == pytest.approx(1.0)


@pytest.mark.parametrize(("most", "delay"), [(8, 0.0), (64, 0.0), (512, 0.0), (64, 2e-3)])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_as_simulated(most, delay, share):
    server = batcher(most, delay=delay)
    rate = at_share(server, share)
    latencies, simulated = sure(server.under(rate)), simulate(server, rate, (50.0, 99.0))
    # Who joins while the oldest waits is taken for the mean.
    assert latencies.mean == pytest.approx(simulated.mean, rel=0.05 if delay else 0.03)
    assert latencies.percentile(50.0) == pytest.approx(simulated.percentiles["50"], rel=0.05)
    assert latencies.percentile(99.0) == pytest.approx(simulated.percentiles["99"], rel=0.08)
    assert latencies.mean_batch == pytest.approx(simulated.mean_batch, rel=0.05 if delay else 0.03)


def test_many_requests_are_counted_in_lumps():
    """Batches of thousands: as simulated, and not slower to answer."""
    sizes = tuple(2.0**power for power in range(17))
    times = Curve(points=sizes, seconds=tuple(1e-4 + 1e-8 * size for size in sizes))
    server = Batcher(times=times, most=sizes[-1])
    rate = at_share(server, 0.8)
    latencies, simulated = sure(server.under(rate)), simulate(server, rate, (99.0,))
    assert latencies.mean == pytest.approx(simulated.mean, rel=0.05)
    assert latencies.mean_batch == pytest.approx(simulated.mean_batch, rel=0.05)


def test_copies_share_a_queue():
    """Four copies: another stream of arrivals gives the same, and each request finds a free copy sooner than with one."""
    several, one = batcher(1, copies=4.0), batcher(1)
    rate = at_share(several, 0.7)
    shared = sure(several.under(rate))
    simulated = simulate(several, rate, (99.0,), seed=7)
    assert shared.mean == pytest.approx(simulated.mean, rel=0.05)
    assert shared.mean < 0.7 * sure(one.under(rate / 4.0)).mean


@pytest.mark.parametrize("poisson", [True, False])
def test_a_delay_of_many_batches(poisson):
    """An idle server that waits for longer than batches take: full ones, or a delay for the first of each."""
    server = batcher(512, delay=0.05, poisson=poisson)
    rate = 5_000.0
    latencies, simulated = sure(server.under(rate)), simulate(server, rate, (50.0,))
    assert latencies.mean == pytest.approx(simulated.mean, rel=0.1)
    assert latencies.mean_batch == pytest.approx(simulated.mean_batch, rel=0.1)


def test_evenly_spaced_requests_wait_less():
    server = batcher(8)
    rate = at_share(server, 0.8)
    even = sure(batcher(8, poisson=False).under(rate))
    assert even.mean < sure(server.under(rate)).mean
    assert even.mean == pytest.approx(simulate(batcher(8, poisson=False), rate, (50.0,)).mean, rel=0.1)


def test_more_than_it_can_do():
    server = batcher(64)
    assert server.under(at_share(server, 1.001)) is None
    assert server.highest_rate == pytest.approx(64.0 / TIMES.at(64.0))


def test_the_most_within_a_bound():
    server = batcher(512)
    assert server.within(0.9 * TIMES.at(1.0), 99.0) == 0.0  # not even a request alone
    rates = [server.within(bound, 99.0) for bound in (1e-3, 4e-3, 1.0)]
    assert rates == sorted(rates)
    assert rates[-1] == pytest.approx(server.highest_rate, rel=1e-3)
    assert sure(server.under(rates[1])).percentile(99.0) == pytest.approx(4e-3, rel=0.02)
    assert server.within(4e-3, 50.0) > rates[1]


# -- whole answers ------------------------------------------------------------------------------------------------------


def test_times_are_those_of_run():
    served = roofsim.serve("resnet50", gpu="h100", precision="int8", engine="tensorrt")
    for row in (served.rows()[0], served.rows()[-1]):
        step = run(
            "resnet50",
            phase="forward",
            gpu="h100",
            precision="int8",
            engine="tensorrt",
            batch_size=int(row["batch_size"]),
        )
        assert row["time"] == pytest.approx(step.step_time, rel=1e-9)
    assert served.kind == "saturated"
    assert served.steady.request_rate == pytest.approx(served.highest_rate, rel=0.05)


def test_rate_bound_and_plain_data():
    bound = {"latency_bound": "15 ms", "max_batch_size": 2048}
    served = roofsim.serve("resnet50", gpu="h100", precision="int8", serving=bound)
    data = json.loads(json.dumps(served.to_dict()))
    most = data["slo"]["max_request_rate"]
    assert data["slo"]["max_request_rate_range"][0] < most < data["slo"]["max_request_rate_range"][1]
    assert most < data["saturation"]["requests_per_second"]
    assert data["latency"]["percentiles"]["99"] == pytest.approx(0.015, rel=0.03)
    assert data["throughput"]["requests_per_second"] == most
    again = roofsim.serve("resnet50", gpu="h100", precision="int8", serving=bound, request_rate=most)
    assert again.kind == "open"
    assert again.steady.percentiles["99"] == data["latency"]["percentiles"]["99"]
    assert again.verdict == "tight"
    assert "requests/s" in str(served)
    assert "latency" in repr(served)
    assert "roofsim serve" in served._repr_html_()


def test_replicas_share_the_load():
    alone = roofsim.serve("resnet50", gpu="h100", serving={"max_batch_size": 64})
    four = roofsim.serve("resnet50", gpu="h100", gpus=4, serving={"max_batch_size": 64})
    assert four.highest_rate == pytest.approx(4.0 * alone.highest_rate)
    assert four.to_dict()["scenario"]["replicas"] == 4.0


def test_a_closed_loop():
    """Requests that are always under way form two batches, which take turns; of full ones, twice as many wait twice as long."""
    batches = {"max_batch_size": 32}
    few = roofsim.serve("vit-b16", gpu="a100", serving=batches, concurrency=16)
    assert few.steady.batch == 8.0
    full, twice = (
        roofsim.serve("vit-b16", gpu="a100", serving=batches, concurrency=number).steady for number in (64, 128)
    )
    assert full.request_rate == pytest.approx(twice.request_rate)
    assert twice.latency == pytest.approx(2.0 * full.latency)
    assert full.latency * full.request_rate == pytest.approx(64.0)  # Little's law


def test_networks_of_many_passes_and_encoders():
    image = roofsim.serve("stable-diffusion-xl-pipeline", gpu="h100", num_inference_steps=20, engine="tensorrt")
    assert 0.5 < image.highest_rate < 10.0
    text = roofsim.serve("bert-large", gpu="h100", sequence_length=128)
    assert text.plan.times.at(1.0) < 0.01
    assert text.to_dict()["scenario"]["sequence_length"] == 128


def test_what_does_not_fit():
    served = roofsim.serve("vit-giant-patch14-dinov2", gpu="rtx-2080-ti", serving={"max_batch_size": 60000})
    assert not served.plan.fits
    assert served.steady is None
    assert "does NOT fit" in str(served)
    assert served.to_dict()["saturation"]["requests_per_second"] is None


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"batch_size": 4}, "a server's batch follows from its load"),
        ({"prompt_length": 4}, "belongs to models that generate tokens"),
        ({"phase": "train"}, "runs forward, not train"),
        ({"request_rate": 1.0, "concurrency": 1}, "different loads"),
        ({"serving": {"max_num_seqs": 4}}, "is a setting of servers that generate tokens"),
        (
            {"serving": {"prefix_shared": True, "prefix_cache_tokens": 3}},
            "is a setting of servers that generate tokens",
        ),
        ({"serving": {"arrivals": "constant"}}, "goes with request_rate or latency_bound"),
        ({"serving": {"latency_percentile": 95}}, "goes with latency_bound"),
        ({"serving": {"max_batch_size": 1, "max_queue_delay": "1 ms"}}, "nobody joins a batch of one"),
        ({"concurrency": 2, "gpus": 4}, "would leave some replicas idle"),
    ],
)
def test_refusals(keys, message):
    with pytest.raises(SpecError, match=message):
        roofsim.serve("resnet50", gpu="h100", **keys)


def test_servers_of_tokens_have_no_such_settings():
    with pytest.raises(SpecError, match="networks that answer in one pass"):
        roofsim.serve("llama3-8b", gpu="h100", serving={"latency_bound": "1 s"})
    with pytest.raises(SpecError, match="token by token without an encoder"):
        roofsim.serve("t5-base", gpu="h100")


def test_rates_rise_with_the_load_they_are_asked_under():
    """Latency rises with the rate, whatever the batches."""
    server = batcher(64)
    means = [sure(server.under(at_share(server, share))).mean for share in np.linspace(0.05, 0.98, 8)]
    assert means == sorted(means)
