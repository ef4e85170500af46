"""Recorded calls become the ops that they are: their FLOPs and bytes by hand."""

from __future__ import annotations

import pytest

from roofsim.graph.base import Phase
from roofsim.lower.recorded.call import call_of
from roofsim.lower.recorded.graph import CallToLower, RecordedCalls
from roofsim.lower.recorded.results import results_of
from tests.surely import sure

BF16, LONG = "c10::BFloat16", "long int"


def made(operator, dims, types, inputs=(), *, phase="", kernels=1.0, tensor_cores=False):
    call = sure(call_of(operator, dims, list(types), list(inputs)))
    asked = CallToLower(call=call, phase=phase, kernels=kernels, tensor_cores=tensor_cores)
    return RecordedCalls([asked]).ops_of(asked)


def work(*asked, **more):
    """Return class, FLOPs, bytes read and bytes written of a call's only op."""
    (op,) = made(*asked, **more)
    return str(op.group), op.flops(), op.bytes_read(), op.bytes_written()


@pytest.mark.parametrize(
    ("operator", "dims", "types", "inputs", "expected"),
    [
        ("aten::mm", [[8, 4], [4, 2]], [BF16, BF16], [], ("matmul", 128.0, 2 * (32 + 8), 32)),
        (
            "aten::addmm",
            [[2], [8, 4], [4, 2], [], []],
            ["float"] * 3 + ["Scalar"] * 2,
            [],
            ("matmul", 128.0, 4 * (32 + 8 + 2), 64),
        ),
        ("aten::mul", [[2, 8, 4], [4]], ["float", "float"], [], ("elementwise", 64.0, 4 * (64 + 4), 256)),
        ("aten::eq", [[8, 4], []], [BF16, "Scalar"], [], ("elementwise", 32.0, 64, 32)),
        ("aten::copy_", [[8, 4], [8, 4], []], ["float", BF16, "Scalar"], [], ("cast", 0.0, 64, 128)),
        ("aten::copy_", [[8, 4], [8, 4], []], [BF16, BF16, "Scalar"], [], ("copy", 0.0, 64, 64)),
        ("aten::fill_", [[8, 4], []], [BF16, "Scalar"], [], ("elementwise", 0.0, 0, 64)),
        ("aten::cat", [[[8, 4], [8, 4]], []], ["TensorList", "Scalar"], ["", "1"], ("copy", 0.0, 256, 256)),
        ("aten::sum", [[8, 4], [], [], []], [BF16, "ScalarList", "Scalar", ""], ["", "[0]", "True"], ("reduction", 32.0, 64, 8)),
        ("aten::index_select", [[100, 4], [], [8]], [BF16, "Scalar", LONG], ["", "0", ""], ("embedding", 0.0, 64 + 64, 64)),
        (
            "aten::convolution",
            [[2, 3, 16, 16], [8, 3, 3, 3], [8], [], [], [], [], [], []],
            ["float"] * 3 + ["ScalarList"] * 3 + ["Scalar", "ScalarList", "Scalar"],
            ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"],
            ("convolution", 2.0 * 2 * 8 * 64 * 27, 4 * (1536 + 216 + 8), 4 * 2 * 8 * 64),
        ),
        (
            "aten::max_pool2d_with_indices",
            [[2, 8, 16, 16], [], [], [], [], []],
            ["float"] + ["ScalarList"] * 4 + ["Scalar"],
            ["", "[2, 2]", "[2, 2]", "[0, 0]", "[1, 1]", "False"],
            ("pooling", 4.0 * 1024, 4 * 4096, (4 + 8) * 1024),
        ),
    ],
)  # fmt: skip
def test_forward_calls(operator, dims, types, inputs, expected):
    assert work(operator, dims, types, inputs) == expected


@pytest.mark.parametrize(
    ("operator", "dims", "types", "inputs", "expected"),
    [
        (
            "aten::native_layer_norm_backward",
            [[8, 4], [8, 4], [], [8, 1], [8, 1], [4], [4], []],
            [BF16, BF16, "ScalarList", "float", "float", BF16, BF16, "ScalarList"],
            [],
            ("normalization", 64 + 64 + 8 + 32 + 32, 64 + 8 + 8),
        ),
        ("aten::gelu_backward", [[8, 4], [8, 4]], [BF16, BF16], [], ("elementwise", 128, 64)),
        (
            "aten::_log_softmax_backward_data",
            [[8, 4], [8, 4], [], []],
            ["float", "float", "Scalar", "Scalar"],
            ["", "", "1", "6"],
            ("softmax", 256, 128),
        ),
        (
            "aten::embedding_dense_backward",
            [[8, 4], [8], [], [], []],
            [BF16, LONG, "Scalar", "Scalar", "Scalar"],
            ["", "", "100", "-1", "False"],
            ("embedding", 64 + 64, 2 * 400),
        ),
        (
            "aten::convolution_backward",
            [[2, 8, 16, 16], [2, 3, 16, 16], [8, 3, 3, 3], [], [], [], [], [], [], [], []],
            ["float"] * 3 + ["ScalarList"] * 8,
            ["", "", "", "[8]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "[False, True, True]"],
            ("convolution", 4 * (4096 + 1536), 4 * 216),
        ),
    ],
)
def test_backward_calls(operator, dims, types, inputs, expected):
    (op,) = made(operator, dims, types, inputs, phase="backward")
    assert op.phase is Phase.BACKWARD
    kind, _, read, written = work(operator, dims, types, inputs)
    assert (kind, written) == (expected[0], expected[2])
    assert read == pytest.approx(expected[1], rel=0.05)  # a convolution of one gradient needs no weight


def test_attention_is_causal_where_it_says_so():
    dims = [[2, 4, 128, 64]] * 3 + [[]] * 4
    types = [BF16] * 3 + ["Scalar"] * 4
    said = ["", "", "", "0.", "True", "False", ""]
    (op,) = made("aten::_scaled_dot_product_flash_attention", dims, types, said)
    (plain,) = made("aten::_scaled_dot_product_flash_attention", dims, types)
    assert (op.causal, plain.causal) == (True, False)
    assert plain.flops() == 4.0 * 2 * 4 * 128 * 128 * 64


def test_updates_move_what_their_lists_hold():
    lists = [[[8, 4], [8]], [[8, 4], [8]], [[8, 4], [8]], [[8, 4], [8]], [], [[], []], [], []]
    types = ["TensorList"] * 6 + ["Scalar"] * 2
    (op,) = made("aten::_fused_adamw_", lists, types, phase="optimizer", kernels=2.0)
    assert (op.bytes_read(), op.bytes_written(), op.kernels()) == (4 * 4 * 40, 4 * 3 * 40, 2.0)
    (op,) = made("aten::_foreach_lerp_", [[[8, 4]], [[8, 4]], []], ["TensorList", "TensorList", "Scalar"])
    assert (op.bytes_read(), op.bytes_written()) == (2 * 128, 128)


def test_compiled_kernels_move_their_tensors_once():
    (op,) = made("triton_poi_fused_add_gelu_3", [[8, 4], [8, 4], [8, 4], []], [BF16, BF16, BF16, "Scalar"])
    assert (str(op.group), op.bytes_read(), op.bytes_written()) == ("elementwise", 128, 64)


def test_fp32_runs_on_tensor_cores_where_kernels_say_so():
    plain, fast = (
        made("aten::mm", [[8, 4], [4, 2]], ["float", "float"], tensor_cores=said)[0].math for said in (False, True)
    )
    assert (plain, str(fast)) == (None, "tf32")


@pytest.mark.parametrize(
    ("operator", "dims", "types"),
    [
        ("my::op", [[8, 4]], [BF16]),
        ("aten::mm", [[8, 4], [5, 2]], [BF16, BF16]),
        ("aten::mm", [[8, 4]], [BF16]),
        ("aten::mm", [[8, 4], [4, 2]], ["", ""]),
        ("aten::convolution", [[2, 3, 16, 16], [8, 3, 3, 3]], ["float", "float"]),
        ("aten::index", [[8, 4], []], [BF16, ""]),
        ("aten::view", [[8, 4], []], [BF16, "ScalarList"]),
        ("aten::cat", [[], []], ["TensorList", "Scalar"]),
    ],
)
def test_what_is_not_told_is_no_op(operator, dims, types):
    assert made(operator, dims, types) == ()


def test_dimensions_that_are_none_are_no_call():
    assert call_of("aten::mm", None, None, None) is None
    call = call_of("aten::mm", [["a"], [True], 3, [-1]], None, None)
    assert call is not None
    assert call.dims == ((), (), (), ())
    assert results_of(call) is None
