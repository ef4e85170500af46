"""Exported programs against independent counts: every committed file, and the page that shows them."""

import pytest

from roofsim_evidence.exports import table
from roofsim_evidence.places import measurements

#: Files that hold more parameters than their network, and why.
TWICE = {"bert-base.onnx": "the exporter folds the transposition of the output's matrix, and so holds it twice"}

#: Files of another program than the catalog's, of the same network, and what the difference is.
OTHER_PROGRAMS = {
    "convnext-tiny.onnx": "channels are moved to the last axis and back by transpositions",
    "gpt2.onnx": "attention has a mask, which nothing says is causal",
    "efficientnet-b0.onnx": "one more launch in each squeeze and excitation",
}


@pytest.mark.parametrize("file", table.counts())
def test_counts_are_those_of_who_made_the_file(file):
    one = table.compared(file)
    assert one.ratio == pytest.approx(1.0, abs=5e-7)
    if file in TWICE:
        assert one.parameters > one.parameters_counted
    else:
        assert one.parameters == one.parameters_counted


@pytest.mark.parametrize("file", table.FAMILIES)
def test_a_forward_pass_takes_as_long_as_that_of_the_family(file):
    own, family = table.beside_family(file)
    if file in OTHER_PROGRAMS:
        assert own > (1.0 + table.STEP_WITHIN) * family
    else:
        assert own == pytest.approx(family, rel=table.STEP_WITHIN)


def test_every_file_has_a_row():
    files = {path.name.removesuffix(".gz") for path in (measurements() / "exports").glob("*.gz")}
    assert files == set(table.counts())
