"""Arguments of recorded calls stand where PyTorch's own schemas have them."""

from __future__ import annotations

import pytest

from roofsim.lower.recorded.results import ARGUMENTS

#: Arguments that are asked for -> what schemas call them.
ASKED = {
    **{name: {name} for name in ("stride", "padding", "dilation", "transposed", "output_padding", "groups", "dim", "kernel_size")},
    **{name: {name} for name in ("ceil_mode", "output_size", "input_size", "num_weights", "pad", "repeats", "is_causal")},
    "training": {"training"},
    "mask": {"output_mask", "grad_input_mask"},
    "scales": {"scale_factors", "scales_h"},
}  # fmt: skip


@pytest.mark.parametrize("operator", ARGUMENTS)
def test_arguments_stand_where_pytorch_has_them(operator):
    torch = pytest.importorskip("torch")
    schemas = [
        [argument.name for argument in schema.arguments]
        for schema in torch._C._jit_get_schemas_for_operator(f"aten::{operator}")
    ]
    assert schemas, operator
    for place, name in enumerate(ARGUMENTS[operator].split()):
        if name in ASKED:
            assert any(len(names) > place and names[place] in ASKED[name] for names in schemas), (place, name, schemas)
