"""Layers that read several results, and inputs of several kinds: what is wrong is said with its line and the way out."""

from __future__ import annotations

import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.spec.model.read import read_model
from roofsim.spec.model.registry import family_schema
from roofsim.spec.reading.source import parse_yaml

VIDEO = """\
family: layers
inputs: volumes
sizes: {frames: 9, height: 64, wide: 32, hidden: 64, steps: (frames - 1) / 4 + 1}
sides: [steps, height / 8, wide / 8]
in_channels: 4
more_inputs:
  time: {kind: rows, width: 16}
  text: {kind: features, length: 7, width: 64}
layers:
  - patches: {width: hidden, size: [1, 2, 2]}
  - {aside: [{linear: 3 * hidden}], from: time, as: parts}
  - repeat: 2
    carries: [text]
    layers:
      - residual:
          - layer_norm: {affine: false}
          - scale_shift: {by: parts, shift: 0, scale: 1}
          - joint_attention: {num_attention_heads: 4, other: text}
          - gate: {by: parts, part: 2}
  - append: text
  - slice: {drop: 7}
  - linear: 16
  - transpose: [steps, height / 16, wide / 16]
  - loss
"""


def read(text):
    return read_model(family_schema("layers"), parse_yaml(text, "net.yaml"))


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("shift: 0, scale: 1", "shift: 0, scale: 3", 17, "part 3 of 3, counted from 0"),
        (
            "by: parts, shift",
            "by: part, shift",
            17,
            "no earlier step of this list keeps its result as 'part'. Did you mean",
        ),
        ("by: parts, part", "by: text, part", 19, "part 2 of 1, counted from 0"),
        ("3 * hidden", "3 * hidden + 1", 17, "the width of the rows 193 is not a multiple of 64"),
        ("other: text", "other: time", 18, "cannot attend over tokens"),
        ("width: 64}", "width: 32}", 18, "cannot attend over tokens"),
        ("carries: [text]", "carries: [txt]", 13, "Did you mean 'text'?"),
        ("frames: 9", "frames: 8", 4, "expected a whole number; steps is 2.75"),
        ("sides: [steps, ", "sides: [", 4, "2 sides of volumes, which have 3"),
        ("kind: rows, width: 16", "kind: rows", 7, "rows need width"),
        ("as: parts", "name: parts", 11, "aside needs a name for its result (as)"),
        ("drop: 7", "drop: 7, tokens: 3", 21, "expected exactly one of tokens, drop, width"),
        ("size: [1, 2, 2]", "size: [2, 2]", 10, "2 sizes for maps in 3 dimensions"),
    ],
)
def test_what_is_wrong_says_where(old, new, line, message):
    assert old in VIDEO
    with pytest.raises(SpecError) as caught:
        read(VIDEO.replace(old, new))
    assert message in str(caught.value)
    assert f"net.yaml:{line}:" in str(caught.value)
    assert len(caught.value.problems) == 1


def run(**workload):
    model = parse_yaml(VIDEO, "net.yaml").data
    return roofsim.run({"model": model, "workload": {"phase": "forward", **workload}, "hardware": {"gpu": "h100"}})


def test_videos_have_sides_of_their_own():
    assert run().step_time > 0.0
    with pytest.raises(SpecError, match=r"Change model\.sizes\.frames, model\.sizes\.height, model\.sizes\.wide"):
        run(image_size=64)


@pytest.mark.parametrize("phase", ["train", "forward"])
def test_work_follows_the_frames(phase):
    model = parse_yaml(VIDEO, "net.yaml").data

    def flops(frames):
        sizes = {**model["sizes"], "frames": frames}
        given = {"model": {**model, "sizes": sizes}, "workload": {"phase": phase}, "hardware": {"gpu": "h100"}}
        return roofsim.run(given).to_dict()["model_flops"]

    passes = {"forward": 1, "train": 3}[phase]
    assert 0 < flops(13) - flops(9) < passes * flops(9)
    assert flops(13) > flops(9)
