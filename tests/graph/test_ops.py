"""Work of ops against numbers computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsim.errors import GraphError
from roofsim.graph.ops import (
    Attention,
    CacheAppend,
    Convolution,
    Elementwise,
    Embedding,
    Fused,
    GroupedMatmul,
    Matmul,
    OptimizerUpdate,
    Scan,
    View,
    visible_share,
)
from roofsim.graph.tensor import BF16, BOOL, FP32, INT64, Role, Tensor


def tensor(*shape, dtype=BF16, role=Role.ACTIVATION, base=None):
    return Tensor("t", tuple(map(float, shape)), dtype, role, base)


def test_matmul_counts_two_flops_per_multiply_add():
    x, w, out = tensor(3, 5), tensor(7, 5), tensor(3, 7)
    op = Matmul(name="m", m=3.0, n=7.0, k=5.0, inputs=(x, w), outputs=(out,))
    assert op.flops() == 2 * 3 * 7 * 5
    assert op.bytes_read() == 2 * (15 + 35)
    assert op.bytes_written() == 2 * 21
    op.check()


def test_matmul_notices_operands_that_do_not_match():
    op = Matmul(name="m", m=3.0, n=7.0, k=6.0, inputs=(tensor(3, 5), tensor(7, 6)), outputs=(tensor(3, 7),))
    with pytest.raises(GraphError, match=r"left operand is 15\.0, expected 18\.0"):
        op.check()


def test_an_input_read_twice_is_counted_once():
    x, out = tensor(10), tensor(10)
    assert Elementwise(name="e", function="mul", inputs=(x, x), outputs=(out,)).bytes_read() == 20


def test_attention_forward_and_backward():
    shape: dict[str, Any] = {
        "batch": 2.0,
        "heads": 3.0,
        "kv_heads": 3.0,
        "q_length": 8.0,
        "kv_length": 8.0,
        "head_size": 4.0,
        "value_head_size": 6.0,
    }
    forward = Attention(name="a", **shape)
    backward = Attention(name="b", backward=True, **shape)
    scores = 2 * 3 * 8 * 8
    assert forward.flops() == 2 * scores * (4 + 6)
    assert backward.flops() == 2 * scores * (3 * 4 + 2 * 6)  # scores again, then four gradients
    assert backward.model_flops() == 2 * forward.model_flops()
    causal = Attention(name="c", causal=True, **shape)
    assert causal.flops() == forward.flops()
    assert causal.executed_flops() == forward.flops() * 36 / 64
    assert causal.model_flops() == forward.model_flops()
    assert causal.needed_flops() == causal.hardware_flops() == forward.flops() * 36 / 64
    product = Matmul(name="d", m=8.0, n=8.0, k=4.0, batch=6.0, scores=True, visible=36 / 64)
    assert product.hardware_flops() == product.model_flops()
    assert product.needed_flops() == product.flops() * 36 / 64


@given(st.integers(1, 40), st.integers(0, 60), st.one_of(st.none(), st.integers(1, 50)))
def test_visible_share_is_the_mask_counted_out(q, extra, window):
    kv = q + extra
    rows, columns = np.arange(q)[:, None] + extra, np.arange(kv)[None, :]
    mask = columns <= rows
    if window is not None:
        mask &= columns > rows - window
    share = visible_share(float(q), float(kv), causal=True, window=None if window is None else float(window))
    assert share == pytest.approx(mask.mean(), rel=1e-12)


def test_visible_share_takes_arrays():
    lengths = np.array([4.0, 8.0, 1.0])
    expected = [visible_share(length, length, causal=True) for length in lengths]
    assert np.asarray(visible_share(lengths, lengths, causal=True)).tolist() == expected


def test_convolution_flops_bytes_and_kernels():
    # the first layer of ResNet-50: 7x7, stride 2, 224 -> 112 pixels
    x, w, out = tensor(1, 3, 224, 224), tensor(64, 3, 7, 7), tensor(1, 64, 112, 112)
    shape: dict[str, Any] = {
        "batch": 1.0, "in_channels": 3.0, "out_channels": 64.0, "in_size": (224.0, 224.0), "out_size": (112.0, 112.0),
        "kernel_size": (7.0, 7.0), "stride": 2.0,
    }  # fmt: skip
    op = Convolution(name="c", inputs=(x, w), outputs=(out,), **shape)
    assert op.flops() == 2 * 112 * 112 * 64 * 3 * 49
    assert op.bytes_written() == 2 * 64 * 112 * 112
    both = Convolution(name="b", inputs=(out, x, w), outputs=(x, w), backward=True, **shape)
    assert both.flops() == 2 * op.flops()
    assert both.kernels() == 2
    only_weight = Convolution(name="w", inputs=(out, x, w), outputs=(w,), backward=True, data_gradient=False, **shape)
    assert only_weight.flops() == op.flops()


def test_depthwise_convolution_divides_flops_by_groups():
    shape: dict[str, Any] = {
        "batch": 2.0, "in_channels": 32.0, "out_channels": 32.0, "in_size": (8.0, 8.0), "out_size": (8.0, 8.0),
        "kernel_size": (3.0, 3.0),
    }  # fmt: skip
    dense = Convolution(
        name="d", inputs=(tensor(2, 32, 8, 8), tensor(32, 32, 3, 3)), outputs=(tensor(2, 32, 8, 8),), **shape
    )
    thin = Convolution(
        name="t",
        groups=32.0,
        inputs=(tensor(2, 32, 8, 8), tensor(32, 1, 3, 3)),
        outputs=(tensor(2, 32, 8, 8),),
        **shape,
    )
    assert thin.flops() * 32 == dense.flops()
    assert thin.depthwise()
    assert not dense.depthwise()


def test_experts_touched_by_few_rows():
    weight = tensor(8, 16, 4, role=Role.PARAMETER)
    op = GroupedMatmul(
        name="g", rows=1.0, n=16.0, k=4.0, experts=8.0, inputs=(tensor(1, 4), weight), outputs=(tensor(1, 16),)
    )
    assert op.experts_touched() == pytest.approx(1.0)
    assert op.bytes_read() == pytest.approx(2 * 4 + 2 * 16 * 4)
    many = GroupedMatmul(
        name="h", rows=4096.0, n=16.0, k=4.0, experts=8.0, inputs=(tensor(4096, 4), weight), outputs=(tensor(4096, 16),)
    )
    assert many.experts_touched() == pytest.approx(8.0)


def test_embedding_reads_the_rows_it_looks_up():
    table, indices, out = tensor(1000, 16, role=Role.PARAMETER), tensor(10, dtype=INT64), tensor(10, 16)
    op = Embedding(name="e", lookups=10.0, width=16.0, inputs=(table, indices), outputs=(out,))
    assert op.bytes_read() == 10 * 16 * 2 + 10 * 8
    few = Embedding(
        name="f", lookups=10.0, width=16.0, inputs=(tensor(2, 16, role=Role.PARAMETER), indices), outputs=(out,)
    )
    assert few.bytes_read() == 2 * 16 * 2 + 10 * 8  # never more than the table
    backward = Embedding(name="b", lookups=10.0, width=16.0, backward=True, inputs=(out, indices), outputs=(table,))
    assert backward.bytes_written() == 1000 * 16 * 2


def test_views_cost_nothing():
    x = tensor(4, 4)
    op = View(name="v", function="split", inputs=(x,), outputs=(tensor(4, 2, base=x),))
    assert (op.flops(), op.bytes_read(), op.bytes_written(), op.kernels()) == (0, 0, 0, 0)


def test_reading_an_expanded_view_touches_its_storage_only():
    row = tensor(4, 1, dtype=FP32)
    wide = tensor(4, 100, dtype=FP32, base=row)
    assert wide.bytes == 16


def test_fused_kernel_moves_what_crosses_its_border():
    x, y, middle, out = tensor(100), tensor(100), tensor(100), tensor(100)
    first = Elementwise(name="a", function="add", inputs=(x, y), outputs=(middle,))
    second = Elementwise(name="b", function="relu", inputs=(middle,), outputs=(out,))
    fused = Fused(name="f", parts=(first, second), inputs=(x, y), outputs=(out,))
    assert fused.flops() == first.flops() + second.flops()
    assert fused.bytes_read() + fused.bytes_written() == 3 * 200


def test_cache_append_in_place_and_concatenated():
    new, cache = tensor(1, 1, 64), tensor(1, 100, 64, role=Role.KEY_VALUE_CACHE)
    place = CacheAppend(name="p", inputs=(new, cache), outputs=(tensor(1, 100, 64, base=cache),))
    assert place.bytes_read() + place.bytes_written() == 2 * 128
    anew = CacheAppend(name="c", concatenates=True, inputs=(new, cache), outputs=(tensor(1, 100, 64),))
    assert anew.bytes_read() + anew.bytes_written() == 128 + 2 * 12800


def test_scan_and_optimizer_count_what_they_say():
    scan = Scan(name="s", batch=2.0, channels=4.0, length=8.0, state_size=16.0)
    assert scan.flops() == 9 * 2 * 4 * 8 * 16
    update = OptimizerUpdate(
        name="o", method="adamw", implementation="fused", elements=10.0, read=160.0, written=120.0, launches=1.0
    )
    assert (update.flops(), update.bytes_read(), update.bytes_written(), update.kernels()) == (120, 160, 120, 1)


def test_masks_take_a_byte():
    assert tensor(10, dtype=BOOL).bytes == 10
