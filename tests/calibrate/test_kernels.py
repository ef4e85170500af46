"""Measured kernels, the models of them and the fit: facts, physics, recovery, errors."""

from __future__ import annotations

import csv
import gzip
import json
import re
import sys
import time
from typing import Any

import numpy as np
import pytest

from roofsim.calibrate.kernels.classes import silicon
from roofsim.calibrate.kernels.fit import class_of, fit_kernels, fitted_constants, halves, lend, predict, usable
from roofsim.calibrate.kernels.scores import fit_scores, held_out, ideal_seconds, load_kernels, report
from roofsim.calibrate.kernels.shapes import CLASSES, convolution_shape
from roofsim.calibrate.kernels.table import COLUMNS, SIZES, Group, engine_of, kernel_table, read_rows
from roofsim.cost.kernels.models import attention, convolution, experts, gemm, streaming
from roofsim.cost.kernels.models.silicon import Silicon, corner, power_share
from roofsim.cost.kernels.table import TILING, arithmetic_of, constants_of
from roofsim.errors import SpecError
from roofsim.records import replace
from roofsim.spec import catalog
from roofsim.spec.constants.physics import shipped_physics
from roofsim.spec.reading.source import read_yaml
from roofsim.units import parse
from roofsim_evidence.kernels.score import measured_file, transfer
from roofsim_evidence.places import measurements

DATA = measured_file()
ONE = np.ones(1)


@pytest.fixture(scope="module")
def table():
    return load_kernels(DATA)[0]


@pytest.fixture(scope="module")
def shipped():
    return read_yaml(catalog.root() / "hardware" / "constants" / "kernels.yaml").data


def number(value):
    return parse(value, "s") if isinstance(value, str) else float(value)


# ------------------------------------------------------------------------------------------------------------- facts


def test_the_table_holds_what_its_readme_says(table):
    rows = read_rows(DATA)
    assert len(rows) == 33_629
    assert tuple(rows[0]) == ("source", "gpu", "op", *SIZES, "other", "dtype", "time_us")
    text = (measurements() / "README.md").read_text(encoding="utf-8").partition("## collectives")[0]
    stated = {name: int(count.replace(",", "")) for name, count in re.findall(r"`(\w+):` \| ([\d,]+)", text)}
    counted = {name: sum(row["source"].startswith(f"{name}:") for row in rows) for name in stated}
    assert stated == counted
    assert sum(counted.values()) == len(rows)
    assert len({group.gpu for group in table.groups}) == 24
    assert len(table) == len(rows)


def test_every_card_of_the_table_is_in_the_catalog(table):
    assert {group.gpu for group in table.groups} <= set(catalog.names("gpu"))
    assert np.all(silicon(table).compute_units > 1.0)


@pytest.mark.parametrize(
    ("source", "engine"),
    [
        ("aiconfigurator:vllm-0.24.0", "vllm"),
        ("deepbench:Results FP32", "deepbench"),
        ("measured:2025-01-01", "measured"),
    ],
)
def test_engine_of(source, engine):
    assert engine_of(source) == engine


GOOD = {
    "source": "measured:x", "gpu": "t4", "op": "gemm", "m": "64", "n": "64", "k": "64", "other": "{}", "dtype": "fp16",
    "time_us": "10",
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"time_us": "0"}, "above 0"),
        ({"time_us": "x"}, "expected a number, got 'x'"),
        ({"m": "many"}, "expected a number, got 'many'"),
        ({"other": "{"}, "is not JSON"),
        ({"gpu": "gtx9999"}, "unknown gpu 'gtx9999'"),
        ({"op": "juggle"}, "no row that a kernel model covers"),
        ({"dtype": "fp3"}, "no row that a kernel model covers"),
    ],
)
def test_bad_tables_are_refused(tmp_path, change, words):
    path = tmp_path / "mine.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerow({**GOOD, **change})
    with pytest.raises(SpecError, match=re.escape(words)):
        fit_kernels(load_kernels(path)[0])


def test_files_that_are_no_tables_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("m,n\n1,2\n")
    (tmp_path / "b.csv.gz").write_bytes(b"not gzip")
    for name, words in (
        ("a.csv", "lacks the column source"),
        ("b.csv.gz", "cannot be read"),
        ("c.csv", "cannot be read"),
    ):
        with pytest.raises(SpecError, match=words):
            read_rows(tmp_path / name)


# ----------------------------------------------------------------------------------------------------------- physics

CARD = Silicon(compute_units=100.0, peak=1e14, bandwidth=1e12, cache=4e7, per_clock=1024.0, physics=shipped_physics())
SQUARE = {"itemsize_a": 2.0 * ONE, "itemsize_b": 2.0 * ONE, "itemsize_c": 2.0 * ONE, "batch": ONE}


TILED = gemm.Tiling(thinness=0.15, ramp=64.0, wave=0.7, reduction=64.0)
CACHED = {"cache_speedup": 3.0, "cache_reach": 0.7}


def product(m, n, k, **constants):
    shape = gemm.GemmShape(m=m * ONE, n=n * ONE, k=k * ONE, **SQUARE)
    own = {"floor": 2e-6, "compute": 0.8, "bandwidth": 0.8, "fill": 1.0, "sharpness": 4.0, "quantise": np.inf} | CACHED
    return float(gemm.gemm_time(shape, CARD, gemm.GemmConstants(**(own | constants), tiling=TILED))[0])


def test_efficiency_lies_between_0_and_1_and_rises_with_size():
    random = np.random.default_rng(0)
    m, n, k = (2.0 ** random.uniform(0, 14, 500) for _ in range(3))
    share = gemm.tile_efficiency(m, n, k, 1.0, 108.0, TILED)
    assert np.all((share > 0.0) & (share <= 1.0))
    sizes: Any = 2.0 ** np.arange(6, 15)
    assert np.asarray(gemm.tile_efficiency(sizes, sizes, sizes, 1.0, 108.0, TILED))[-1] > 0.9
    assert isinstance(gemm.tile_efficiency(64.0, 64.0, 64.0, 1.0, 108.0, TILED), float)


def test_efficiency_broadcasts_like_scalars():
    m = np.array([1.0, 100.0, 4096.0])
    one_by_one = [gemm.tile_efficiency(float(x), 4096.0, 512.0, 2.0, 80.0, TILED) for x in m]
    assert np.allclose(gemm.tile_efficiency(m, 4096.0, 512.0, 2.0, 80.0, TILED), np.array(one_by_one))


def test_efficiency_of_two_hundred_products_takes_about_a_millisecond():
    m = np.linspace(1.0, 8192.0, 200)
    runs = []
    for _ in range(20):
        start = time.perf_counter()
        gemm.tile_efficiency(m, m, m, 1.0, 108.0, TILED)
        runs.append(time.perf_counter() - start)
    assert min(runs) < parse("2 ms", "s")


def test_a_wave_more_costs_a_wave_with_sharp_waves_only():
    sharp, flat = (
        [gemm.tile_efficiency(m, 6144.0, 4096.0, 1.0, 108.0, replace(TILED, wave=wave)) for m in (4608.0, 4609.0)]
        for wave in (1.0, 0.0)
    )
    assert sharp[1] < 0.95 * sharp[0]
    assert flat[1] > 0.97 * flat[0]


def test_large_products_reach_the_compute_share_and_small_ones_the_floor():
    ideal = 2.0 * 16384.0**3 / 1e14 / 0.8
    assert product(16384.0, 16384.0, 16384.0) == pytest.approx(ideal, rel=0.02)
    assert 2e-6 < product(1.0, 32.0, 32.0) < 2.5e-6


def test_products_get_no_slower_with_better_hardware_or_constants():
    base = product(512.0, 4096.0, 4096.0)
    for better in ({"compute": 0.9}, {"bandwidth": 0.9}, {"floor": 1e-6}, {"fill": 2.0}, {"cache_speedup": 5.0}):
        assert product(512.0, 4096.0, 4096.0, **better) <= base
    assert product(512.0, 4096.0, 4096.0, quantise=0.5) > base


@pytest.mark.parametrize(("causal", "window"), [(1.0, np.inf), (1.0, 100.0), (0.0, np.inf), (1.0, 17.0), (1.0, 290.0)])
@pytest.mark.parametrize(("query", "context"), [(64.0, 64.0), (64.0, 300.0), (1.0, 50.0)])
def test_mean_keys_equal_a_count(query, context, causal, window):
    shape = attention.AttentionShape(
        batch=ONE, heads=ONE, key_heads=ONE, query=query * ONE, context=context * ONE, head_dim=ONE, value_dim=ONE,
        window=window * ONE, causal=causal * ONE, latent=0.0 * ONE, itemsize=ONE, cache_itemsize=ONE,
    )  # fmt: skip
    seen = [min(context - query + i + 1, window) if causal else min(context, window) for i in range(int(query))]
    assert shape.mean_keys()[0] == pytest.approx(np.mean(seen), abs=0.51)  # the count is half a key above the integral


def call(query, context, batch=1.0, heads=32.0, key_heads=8.0, latent=0.0):
    return attention.AttentionShape(
        batch=batch * ONE, heads=heads * ONE, key_heads=key_heads * ONE, query=query * ONE, context=context * ONE,
        head_dim=128.0 * ONE, value_dim=128.0 * ONE, window=np.inf * ONE, causal=ONE, latent=latent * ONE,
        itemsize=2.0 * ONE, cache_itemsize=2.0 * ONE,
    )  # fmt: skip


def test_long_prefill_is_compute_and_long_decode_is_bandwidth():
    constants = attention.PrefillConstants(
        floor=0.0, compute=0.5, bandwidth=0.8, softmax=0.0, ramp=128.0, balance=3.0, sharpness=2.0
    )
    flops = 2.0 * 32.0 * 2.0 * 128.0 * 32768.0**2 / 2.0
    assert attention.prefill_time(call(32768.0, 32768.0), CARD, constants)[0] == pytest.approx(flops / 5e13, rel=0.03)
    decode = attention.DecodeConstants(
        floor=0.0, bandwidth=0.8, compute=0.5, chunk=512.0, fill=1.0, block=0.0, sharpness=3.0, **CACHED
    )
    traffic = 64.0 * 8.0 * 32768.0 * 256.0 * 2.0
    assert attention.decode_time(call(1.0, 32768.0, batch=64.0), CARD, decode)[0] == pytest.approx(
        traffic / 8e11, rel=0.05
    )


def test_a_latent_cache_is_read_once():
    assert call(1.0, 100.0, latent=1.0).cached_bytes()[0] == call(1.0, 100.0).cached_bytes()[0] / 2.0


def test_active_experts_match_draws():
    random = np.random.default_rng(1)
    draws = [len(set(random.integers(0, 64, 4 * 20))) for _ in range(400)]
    expected = experts.active_experts(20.0, 64.0, 4.0, 64.0)
    assert expected == pytest.approx(np.mean(draws), rel=0.03)
    assert experts.active_experts(1e6, 64.0, 4.0, 8.0) == pytest.approx(8.0)


def layer(tokens, *, skew=0.0, up=2.0, down=1.0, local=128.0):
    return experts.ExpertShape(
        tokens=tokens * ONE, hidden=2880.0 * ONE, intermediate=2880.0 * ONE, experts=128.0 * ONE, chosen=4.0 * ONE,
        local=local * ONE, up=up * ONE, down=down * ONE, skew=skew * ONE, whole=ONE, itemsize_a=2.0 * ONE, itemsize_b=ONE,
    )  # fmt: skip


EXPERTS = experts.ExpertConstants(
    floor=0.0, compute=0.6, bandwidth=0.9, tile=16.0, width=128.0, fill=1.0, expert=0.0, permute=0.0, imbalance=1.0,
    asleep=0.8, sharpness=2.0, **CACHED,
)  # fmt: skip


def test_a_single_token_wakes_as_many_experts_as_it_chooses():
    """However skewed the choice: it takes different ones."""
    even, skewed = (experts.expert_limits(layer(1.0, skew=skew), CARD, EXPERTS)[1][0] for skew in (0.0, 1.2))
    assert skewed == pytest.approx(even, rel=1e-9)
    many = [experts.expert_limits(layer(64.0, skew=skew), CARD, EXPERTS)[1][0] for skew in (0.0, 1.2)]
    assert many[1] < 0.8 * many[0]


def test_a_layer_of_experts_is_its_products_one_after_the_other():
    """What whole layers are fitted with is what the products of a pass are priced with."""
    whole, up, down = (
        experts.expert_limits(shape, CARD, EXPERTS)[:2]
        for shape in (layer(4.0), layer(4.0, down=0.0), layer(4.0, up=0.0))
    )
    assert whole[0][0] == pytest.approx(up[0][0] + down[0][0], rel=1e-9)
    rows = 4.0 * 4.0 * 3.0 * 2880.0 * 2.0  # each of the two alone is charged all rows
    assert whole[1][0] == pytest.approx(up[1][0] + down[1][0], abs=float(3.0 * rows / (CARD.bandwidth * 0.9)))


def test_few_blocks_gain_less_by_a_cache_than_many():
    """A block has so many bytes in flight, whose latency a cache halves at best."""
    hot, cold = (
        experts.expert_limits(layer(1.0), replace(CARD, cache=cache), replace(EXPERTS, fill=fill, cache_speedup=4.0))[
            1
        ][0]
        for fill, cache in ((0.1, 1e12), (0.1, 0.0))
    )
    assert cold / hot == pytest.approx(CARD.physics["cached_latency"], rel=0.02)


def test_long_products_are_fitted_as_power_holds_them(table):
    """Long products say nothing of the share of the peak that short ones reach on a card at its power limit."""
    kernel = class_of("gemm")
    part = table.select(np.array([g.gpu == "b200-sxm-180gb" and g.dtype == "nvfp4" for g in table.groups])[table.group])
    constants = {group: {p.name: p.expected for p in (*kernel.own, *kernel.shared)} for group in part.groups}
    cool = {group: numbers | {"heat": 0.2} for group, numbers in constants.items()}
    slower = predict(part, kernel, constants) / predict(part, kernel, cool)
    seconds = predict(part, kernel, cool)
    assert np.all(slower[seconds < 1e-4] < 1.005)
    long = (seconds > 0.03) & (part.sizes["m"] == 32768.0)
    assert np.all(slower[long] > 1.1)


def image(channels=256.0, side=64.0, *, taps=9.0, stride=1.0, **sizes):
    after = side / stride
    itemsize = sizes.get("itemsize", 4.0)
    shape = {
        "batch": 32.0,
        "in_channels": channels,
        "out_channels": 256.0,
        "out_height": after,
        "out_width": after,
        "taps": taps,
        "square": float(taps == 9.0 and stride == 1.0),
        "strided": float(stride > 1.0),
        "groups": 1.0,
        "itemsize": itemsize,
        "matrix": 0.0,
        "planned": 0.0,
    } | sizes
    read, written = channels * side**2, shape["out_channels"] * after**2
    shape["image_bytes"] = shape["batch"] * (read + written) * itemsize
    shape["weight_bytes"] = channels * shape["out_channels"] * taps * itemsize
    return convolution.ConvolutionShape(**{name: size * ONE for name, size in shape.items()})


CONVOLVED = convolution.ConvolutionConstants(
    floor=0.0,
    compute=0.9,
    bandwidth=0.8,
    launch=0.1,
    thinness=0.35,
    ramp=14.0,
    wave=0.55,
    latency=0.7,
    winograd=0.82,
    weights=0.4,
    images=0.65,
    first_layer=0.6,
    stride=0.9,
    cache_speedup=2.5,
    cache_reach=0.7,
    sharpness=4.0,
    transpose=0.05,
)
ALGORITHMS = ("implicit", "fused", "staged")


def convolved(shape, constants=CONVOLVED, products=None):
    return float(convolution.convolution_time(shape, CARD, constants, products)[0])


def algorithms(shape):
    compute, memory, beside = convolution.algorithms(shape, CARD, CONVOLVED)
    return dict(zip(ALGORITHMS, (corner(compute, memory, 4.0) + beside)[:, 0], strict=True))


def test_winograd_beats_the_direct_peak_and_needs_stride_1_and_channels():
    shapes = {"3x3": image(), "stride": image(stride=2.0), "first": image(3.0, 224.0)}
    share = {name: float(shape.flops()[0] / 1e14) / convolved(shape) for name, shape in shapes.items()}
    assert share["3x3"] > 1.4
    assert share["stride"] < 0.95
    assert share["first"] < 0.7


@pytest.mark.parametrize(
    ("shape", "usable"),
    [
        (image(), {*ALGORITHMS}),
        (image(stride=2.0), {"implicit"}),
        (image(matrix=1.0, itemsize=2.0), {"implicit"}),
        (image(taps=1.0), {"implicit"}),
        (image(taps=25.0), {"implicit"}),
    ],
)
def test_each_algorithm_has_its_kernels(shape, usable):
    assert {name for name, seconds in algorithms(shape).items() if np.isfinite(seconds)} == usable


def test_the_fastest_algorithm_is_taken_and_its_kernels_all_count():
    """Limits of arithmetic and traffic come out, together, at what the fastest algorithm takes with its transforms."""
    for shape in (image(), image(64.0, 112.0), image(1000.0, 5.0, batch=4.0), image(stride=2.0)):
        limits = convolution.convolution_limits(shape, CARD, CONVOLVED)
        together = float(corner(limits.compute, limits.memory, 4.0)[0])
        assert together == pytest.approx(min(algorithms(shape).values()), rel=1e-9)
        assert np.asarray(limits.spared)[0] in (1.0, 2.25, 4.0)


def test_many_channels_of_tiny_images_go_by_fused_winograd():
    tiny = algorithms(image(1000.0, 5.0, batch=4.0))
    assert min(tiny, key=tiny.get) == "fused"


def test_a_patch_of_winograd_cannot_be_cut():
    whole, more = (algorithms(image(side=side))["fused"] for side in (16.0, 17.0))
    assert more > 1.2 * whole


def test_one_small_block_waits_for_every_step_of_depth():
    narrow, wide = (algorithms(image(2048.0, 5.0, batch=1.0, out_channels=n))["implicit"] for n in (8.0, 128.0))
    assert wide == pytest.approx(narrow, rel=0.1)


def test_matrix_units_pad_channels_and_vector_units_do_not():
    sizes = {"itemsize": 2.0, "taps": 1.0}
    padded, full = (convolved(image(channels, matrix=1.0, **sizes)) for channels in (241.0, 248.0))
    assert padded == pytest.approx(full, rel=0.03)
    assert image(241.0).flops() < image(248.0).flops()


def test_a_library_that_cuts_convolutions_as_products_keeps_its_older_kernels():
    """More tiles to choose from never cost time, on matrix units; kernels of ordinary units are as they were."""
    tiling = gemm.Tiling(thinness=0.3, ramp=64.0, wave=0.7, reduction=64.0)
    for channels in (3.0, 24.0, 64.0, 256.0):
        for side in (7.0, 28.0, 112.0):
            shape = image(channels, side, matrix=1.0, itemsize=2.0)
            assert convolved(shape, products=tiling) <= convolved(shape) * (1.0 + 1e-12)
            assert convolved(image(channels, side), products=tiling) == convolved(image(channels, side))


def test_rows_that_the_stride_skips_are_not_read():
    rows = [dict.fromkeys(COLUMNS, "") | GOOD for _ in range(2)]
    for row, stride, m in zip(rows, (1, 2), (100, 25), strict=True):
        row.update(op="conv2d", dtype="fp32", m=str(m), n="64", k="64", batch="1", source="deepbench:x")
        row["other"] = json.dumps({"cin": 64, "ks": 1, "hw": 10, "stride": stride, "pad": 0})
    every, half = convolution_shape(kernel_table(rows)).image_bytes
    assert half == pytest.approx(every * (0.5 + 0.25) / 2.0)


def test_the_host_slows_with_the_shapes_that_it_has_planned():
    constants = replace(CONVOLVED, floor=5e-5, doubling=1000.0, growth=1.5)
    times = [convolved(image(planned=before), constants) for before in (0.0, 1000.0, 4000.0)]
    assert times[1] - times[0] == pytest.approx(5e-5)
    assert times[2] - times[0] == pytest.approx(8.0 * 5e-5)


def test_rows_of_a_sweep_that_do_not_say_where_are_taken_at_its_middle():
    rows = [dict.fromkeys(COLUMNS, "") | GOOD for _ in range(3)]
    sizes = {"op": "conv2d", "dtype": "fp32", "m": "100", "n": "64", "k": "576", "batch": "1"}
    other = '{"cin":64,"ks":3,"hw":10,"stride":1,"pad":1%s}'
    for row, source, more in zip(
        rows, ("neusight:x", "neusight:x", "deepbench:x"), (',"planned":7', "", ""), strict=True
    ):
        row.update({**sizes, "source": source, "other": other % more})
    shape = convolution_shape(kernel_table(rows))
    assert shape.planned.tolist() == [7.0, 2500.0, 0.0]
    assert shape.taps.tolist() == [9.0] * 3


STREAMED = streaming.StreamConstants(
    floor=3e-6,
    bandwidth=0.9,
    unit_bandwidth=1e12,
    row=0.0,
    walk=0.0,
    again=0.0,
    on_chip=4096.0,
    sharpness=1.5,
    cache_speedup=2.5,
    cache_reach=0.7,
)


def stream(rows, width, itemsize=2.0):
    sizes = {"rows": rows, "width": width * itemsize, "tensor": rows * width * itemsize}
    sizes["traffic"] = 2.0 * sizes["tensor"]
    return streaming.StreamShape(**{name: size * ONE for name, size in sizes.items()})


def test_streams_reach_the_bandwidth_and_the_floor():
    short, long = (
        float(streaming.stream_time(stream(*sizes), CARD, STREAMED)[0]) for sizes in ((1.0, 64.0), (1e6, 1024.0))
    )
    assert short == pytest.approx(3e-6, rel=0.01)
    assert long == pytest.approx(4.096e9 / 9e11, rel=0.01)


def test_long_rows_are_read_again_and_many_short_ones_take_their_starts():
    fits, spills = (
        float(streaming.stream_time(stream(2**24 / width, width), CARD, replace(STREAMED, again=1.0))[0])
        for width in (512.0, 65536.0)
    )
    assert 1.4 < spills / fits < 1.6
    starts = float(streaming.stream_time(stream(1e6, 16.0), CARD, replace(STREAMED, row=1e-6))[0])
    assert starts == pytest.approx(1e6 * 1e-6 / float(CARD.compute_units), rel=0.05)


def test_corner_and_power():
    assert float(corner(1.0, 1.0, 1.0)) == 2.0
    assert float(corner(3.0, 1.0, 50.0)) == pytest.approx(3.0)
    shares = [
        power_share(1e14 * 1e-11 / watts, shipped_physics()["sustained_corner"]) for watts in (10.0, 100.0, 1000.0, 1e5)
    ]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)


def test_tilings_of_every_architecture_and_format():
    for architecture in catalog.names("architecture"):
        for dtype in ("fp64", "fp32", "tf32", "bf16", "fp8", "fp4", "int8"):
            _, numbers = constants_of("gemm", architecture, None, arithmetic_of(dtype))
            tiling = gemm.Tiling(**{name: numbers[name] for name in TILING})
            assert 0.0 < gemm.tile_efficiency(100.0, 100.0, 100.0, 1.0, 80.0, tiling) <= 1.0


# ----------------------------------------------------------------------------------------------------------- fitting


def test_halves_alternate_in_size(table):
    fitted = halves(table, ideal_seconds(table))
    for i in range(0, len(table.groups), 7):
        rows = table.group == i
        assert 0 <= 2 * int(fitted[rows].sum()) - int(rows.sum()) <= 1


def test_a_fit_recovers_the_times_that_known_constants_make(table):
    kernel = class_of("gemm")
    part = table.select(
        np.array([g.gpu == "t4" and g.dtype == "fp16" and g.op == "gemm" for g in table.groups])[table.group]
    )
    known = {"floor": 6e-6, "compute": 0.55, "bandwidth": 0.7, **{p.name: p.expected for p in kernel.shared}}
    (group,) = {part.groups[i] for i in part.group}
    made = predict(part, kernel, {group: known})
    fit = fit_kernels(type(part)(part.groups, part.group, part.sizes, part.other, made))
    assert np.median(np.abs(predict(part, kernel, fitted_constants(part, kernel, fit)) / made - 1.0)) < 0.01
    assert fit.own[group]["compute"] == pytest.approx(0.55, rel=0.1)


#: Median errors, over all rows of a class, that the shipped constants keep on the rows they were fitted to.
FITTED = {
    "gemm": 0.08, "prefill": 0.10, "decode": 0.09, "convolution": 0.07, "streaming": 0.04, "experts": 0.16,
}  # fmt: skip


@pytest.mark.parametrize("kernel", CLASSES, ids=lambda kernel: kernel.name)
def test_shipped_constants_explain_the_measurements(table, shipped, kernel):
    families = {}
    for row in shipped["families"]:
        key = tuple(row[name] for name in ("architecture", "op", "arithmetic", "engine") if name in row)
        families[key] = row
    names = [p.name for p in kernel.shared]
    own = {(row["gpu"], row["op"], row["dtype"], row["engine"]): row for row in shipped["measured"]}
    part = table.of(kernel.ops)
    constants = {}
    from roofsim.calibrate.kernels.table import card

    for group in {part.groups[i] for i in part.group}:
        row, shared = own[card(group.gpu).name, *group[1:]], families[kernel.family(group)]
        constants[group] = {
            **{p.name: number(row[p.name]) for p in kernel.own}, **{name: number(shared[name]) for name in names}
        }  # fmt: skip
    errors = np.abs(predict(part, kernel, constants) / part.seconds - 1.0)
    assert np.median(errors) < FITTED[kernel.name]
    assert [row["error"] for row in own.values() if row["op"] in kernel.ops]


def test_shipped_constants_are_physical(shipped):
    for row in (*shipped["measured"], *shipped["architectures"], *shipped["shared"]):
        for parameter in (*class_of(row["op"]).own, *class_of(row["op"]).shared):
            if parameter.name in row:
                assert 0.99 * parameter.low <= number(row[parameter.name]) <= 1.01 * parameter.high, row


def test_lent_constants_come_from_the_nearest_cards(table):
    part = table.select(np.array([g.engine == "vidur" and g.op == "gemm" for g in table.groups])[table.group])
    fit = fit_kernels(part)
    kernel = class_of("gemm")
    (a40,) = {g for g in fit.own if g.gpu == "a40"}
    fit.own.pop(a40)
    (lent,) = lend(a40, kernel, fit)
    (a100,) = {g for g in fit.own if g.gpu == "a100-sxm4-80gb"}
    assert lent["floor"] == fit.own[a100]["floor"]
    assert lend(Group("a40", "bmm", "fp16", "vidur"), kernel, fit) == []


def test_usable_drops_backward_and_unknown_rows():
    rows = [dict.fromkeys(COLUMNS, ""), dict.fromkeys(COLUMNS, ""), dict.fromkeys(COLUMNS, "")]
    for row, change in zip(rows, ({}, {"other": '{"dir":"bwd"}'}, {"op": "launch_gap"}), strict=True):
        row.update({**GOOD, **change})
    assert len(usable(kernel_table(rows))) == 1


#: Held-out median errors by class.
HELD_OUT = {
    "gemm": 0.08, "prefill": 0.10, "decode": 0.09, "convolution": 0.08, "streaming": 0.04, "experts": 0.16,
}  # fmt: skip


@pytest.mark.slow
def test_held_out_rows_and_cards(table):
    half, scores = held_out(table)
    for kind, bound in HELD_OUT.items():
        errors = np.concatenate([score.errors for score in scores if score.kind == kind])
        assert np.median(errors) < bound, kind
    nvidia = [score for score in transfer(table, half) if score.group.gpu not in ("arc-pro-b60", "mi100-32gb")]
    for kind, dtype, bound in (
        ("gemm", "bf16", 0.13), ("gemm", "fp32", 0.18), ("decode", "bf16", 0.17), ("prefill", "bf16", 0.18),
        ("convolution", "fp32", 0.15), ("convolution", "fp16", 0.15),
    ):  # fmt: skip
        errors = np.concatenate([s.errors for s in nvidia if s.kind == kind and s.group.dtype == dtype])
        assert np.median(errors) < bound, (kind, dtype)


def test_report_and_scores(table):
    part = table.select(np.array([g.gpu == "a40" for g in table.groups])[table.group]).of(("layernorm", "rmsnorm"))
    scores = fit_scores(part, fit_kernels(part))
    lines = report(scores, groups=True)
    assert lines[1].startswith("streaming    all")
    assert sum("a40" in line for line in lines) == 2


def test_fit_on_the_command_line(tmp_path, monkeypatch, capsys):
    from roofsim.cli.app import main

    rows = [row for row in read_rows(DATA) if row["gpu"] == "t4" and row["dtype"] == "fp16"]
    source, target = tmp_path / "mine.csv.gz", tmp_path / "mine.yaml"
    with gzip.open(source, "wt", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    arguments = ["roofsim", "calibrate", "fit", str(source), "--hold-out", "--groups", "--output", str(target)]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
    assert "254 rows, 0 left out because no model covers them" in capsys.readouterr().out
    assert {row["gpu"] for row in read_yaml(target).data["measured"]} == {"t4"}


def test_long_rows_do_not_tell_what_a_row_needs_to_begin():
    """Rows of 8 KB and more alone: their start keeps what is believed, where a free fit would take it for a lower bandwidth."""
    streaming = next(kernel for kernel in CLASSES if kernel.name == "streaming")
    table, _ = load_kernels(measured_file())
    names = [group.op == "rmsnorm" and group.gpu == "h100-sxm5-80gb" for group in table.groups]
    rows = table.select(np.array(names)[table.group])
    believed = next(each for each in streaming.shared if each.name == "row").expected
    (held,), (free,) = (
        fit_kernels(rows, [kernel]).shared.values()
        for kernel in (streaming, replace(streaming, untold=lambda _: frozenset()))
    )
    assert held["row"] == pytest.approx(believed, rel=0.01)
    assert free["row"] > 10.0 * believed
