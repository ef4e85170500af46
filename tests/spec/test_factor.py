"""Factors on numbers of hardware: what they are worth, where they go, and what is refused."""

from __future__ import annotations

import contextlib
import json
import sys
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofsim
from roofsim.cli.app import main
from roofsim.errors import SpecError
from roofsim.spec.reading.factor import factor_of, times
from roofsim.spec.reading.source import from_mapping
from roofsim.spec.settle.cards import read_cards
from roofsim.units import humanize, parse
from tests.surely import sure

SMALL = {"model": "resnet18", "workload": {"phase": "forward", "batch_size": 4, "precision": "fp16"}}


def hardware(override, gpu="a100", system=None):
    section = {"gpu": gpu, "override": override} | ({"system": system} if system else {})
    return roofsim.resolve({**SMALL, "hardware": section})


@given(st.floats(1e3, 1e17), st.decimals("0.01", 100, places=3, allow_nan=False))
def test_a_factor_multiplies_a_quantity_and_keeps_its_unit(value, factor):
    product = times(humanize(value, "B/s"), factor)
    assert parse(product, "B/s") == pytest.approx(value * float(factor), rel=1e-14)


@given(st.integers(1, 9999), st.sampled_from("+-"))
def test_per_cents_are_factors(amount, sign):
    wanted = 1 + Decimal(f"{sign}{amount}") / 100
    if wanted <= 0:
        with pytest.raises(ValueError, match="above zero"):
            factor_of(f"{sign}{amount}%")
    else:
        assert factor_of(f"{sign}{amount}%") == factor_of(f" {sign} {amount} % ") == wanted


@pytest.mark.parametrize("text", ["10%", "x2", "*2", "2 times", "-2x", "+2x", "/2"])
def test_what_resembles_a_factor_is_not_guessed_at(text):
    with pytest.raises(SpecError, match=r"expected a factor such as 2x, \+10% or -10%"):
        hardware({"gpu.memory.bandwidth": text})


@pytest.mark.parametrize(
    ("path", "of"),
    [
        ("gpu.memory.bandwidth", lambda resolved: resolved.gpu.memory.bandwidth),
        ("gpu.memory.capacity", lambda resolved: resolved.gpu.memory.capacity),
        ("gpu.peak.fp16", lambda resolved: resolved.gpu.peak["fp16"]),
        ("gpu.tdp", lambda resolved: resolved.gpu.tdp),
        ("gpu.compute_units", lambda resolved: resolved.gpu.compute_units),
        ("gpu.price.hourly", lambda resolved: resolved.gpu.price.hourly),
        ("system.node_network", lambda resolved: resolved.system.node_network),
        ("system.link.bandwidth", lambda resolved: resolved.system.link.bandwidth),
        ("system.nics_per_node", lambda resolved: resolved.system.nics_per_node),
        ("system.host.issue_factor", lambda resolved: resolved.system.host.issue_factor),
    ],
)
@pytest.mark.parametrize(("text", "factor"), [("2x", 2.0), ("+50%", 1.5), ("-50%", 0.5), (".5x", 0.5)])
def test_every_number_of_hardware_takes_one(path, of, text, factor):
    assert of(hardware({path: text})) == pytest.approx(factor * of(hardware({})))


def test_peaks_are_multiplied_all_at_once():
    plain, doubled = hardware({}).gpu, hardware({"gpu.peak": "2x"}).gpu
    assert doubled.peak == {name: pytest.approx(2.0 * rate) for name, rate in plain.peak.items()}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ({"gpu.memory.bandwith": "2x"}, r"unknown key 'bandwith'. Did you mean 'bandwidth'"),
        ({"gpu.peak.fp8": "2x"}, r"a100-sxm4-80gb states no gpu.peak.fp8 to take 2x of.*does state gpu.peak.fp64"),
        ({"gpu.memory": "2x"}, r"whole group.*gpu.memory.capacity, gpu.memory.bandwidth"),
        ({"gpu.memory.type": "2x"}, r"2x of 'HBM2e' has no meaning"),
        ({"gpu.memory.bandwidth": "0x"}, r"above zero"),
        ({"gpu.memory.bandwidth": "-100%"}, r"above zero"),
        ({"gpu.compute_units": "+10%"}, r"whole number; got 118.8"),
        ({"gpu.memory.bandwidth": "1000000000x"}, r"plausible"),
    ],
)
def test_what_cannot_be_multiplied_says_why(override, message):
    with pytest.raises(SpecError, match=message):
        hardware(override)


def test_a_missing_number_of_a_system_is_named():
    with pytest.raises(SpecError, match=r"states no system\.node_network to take 2x of"):
        hardware({"system.node_network": "2x"}, "rtx4090")


def test_a_factor_on_a_peak_is_not_taken_for_sparsity():
    assert hardware({"gpu.peak.bf16": "2x"}).gpu.peak["bf16"] == pytest.approx(624e12)
    for override in ({"gpu.peak.bf16": "624 TFLOP/s"}, {"gpu": {"peak": {"bf16": "624 TFLOP/s"}}}):
        with pytest.raises(SpecError, match="sparsity"):
            hardware(override)


def test_files_flags_calls_and_lists_mean_the_same(tmp_path, monkeypatch, capsys):
    def bandwidth(result):
        return next(row["value"] for row in result["provenance"] if row["what"] == "gpu.memory.bandwidth")

    path = tmp_path / "s.yaml"
    path.write_text(
        "model: resnet18\nworkload: {phase: forward, batch_size: 4, precision: fp16}\n"
        "hardware: {gpu: a100, override: {gpu.memory.bandwidth: +10%}}\n"
    )
    inline = {**SMALL, "hardware": {"gpu": {"inherits": "a100", "name": "mine", "memory": {"bandwidth": "+10%"}}}}
    results = [
        roofsim.run(str(path)).to_dict(),
        roofsim.run(SMALL, gpu="a100", hardware__override={"gpu.memory.bandwidth": "1.1x"}).to_dict(),
        roofsim.run(inline).to_dict(),
        sure(roofsim.compare(SMALL, ["a100{memory.bandwidth=+10%}"]).rows[0].result).to_dict(),
    ]
    arguments = ["run", str(path), "--set", "hardware.override.gpu.memory.bandwidth=+10%", "--json"]
    monkeypatch.setattr(sys, "argv", ["roofsim", *arguments])
    with contextlib.suppress(SystemExit):
        main()
    results.append(json.loads(capsys.readouterr().out))
    assert {bandwidth(result) for result in results} == {"2.2429 TB/s"}


def test_a_price_is_no_change_of_hardware():
    plain = roofsim.run(SMALL, gpu="a100")
    cheaper = roofsim.run(SMALL, gpu="a100", hardware__override={"gpu.price.hourly": "-20%"})
    faster = roofsim.run(SMALL, gpu="a100", hardware__override={"gpu.memory.bandwidth": "1.0001x"})
    assert cheaper.step_time_interval == plain.step_time_interval
    assert sure(faster.step_time_interval)[1] > sure(plain.step_time_interval)[1]
    assert cheaper.cost["usd_per_hour"] == pytest.approx(0.8 * plain.cost["usd_per_hour"])
    assert (cheaper.cost["price_kind"], cheaper.cost["price_seller"]) == ("own", None)


def test_a_what_if_in_a_list_stands_on_the_scenario():
    scenario = {**SMALL, "hardware": {"gpu": "a100", "override": {"gpu": {"memory": {"bandwidth": "1 TB/s"}}}}}
    for written, wanted in (("2x", 2e12), ("3 TB/s", 3e12)):
        document = read_cards(f"h100{{memory.bandwidth={written}}}")[0].on(from_mapping(scenario))
        assert roofsim.api.resolve_document(document).gpu.memory.bandwidth == pytest.approx(wanted)


@pytest.mark.parametrize(("text", "factor"), [("1e3x", 1e3), ("2.5e-1x", 0.25), ("1.5E2x", 150.0)])
def test_factors_may_have_exponents(text, factor):
    assert factor_of(text) == pytest.approx(factor)
