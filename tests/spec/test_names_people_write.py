"""Names as drivers and makers print them, and short names: known, or answered with the entries whose name begins so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
import yaml

from roofsim.errors import UnknownNameError
from roofsim.spec.catalog import names, resolve_name

PRINTED: Final[dict[str, str]] = yaml.safe_load(
    Path(__file__).with_name("names_people_write.yaml").read_text(encoding="utf-8")
)
MAKER: Final = re.compile(r"^(?:NVIDIA|AMD|Intel\(R\)|Intel) ")


def test_every_card_has_a_printed_name():
    assert set(PRINTED) == set(names("gpu"))


@pytest.mark.parametrize("card", PRINTED)
def test_a_card_answers_to_its_printed_name_with_and_without_its_maker(card):
    printed = PRINTED[card]
    bare = MAKER.sub("", printed)
    maker = {"Tesla": "NVIDIA ", "Quadro": "NVIDIA "}.get(bare.split()[0], "") if bare == printed else ""
    spellings = [printed, bare, maker + printed, printed.upper(), printed.lower(), bare.replace(" ", "-")]
    assert {spelling: resolve_name("gpu", spelling) for spelling in spellings} == dict.fromkeys(spellings, card)


@pytest.mark.parametrize(
    ("written", "card"),
    [
        ("AMD Instinct MI300X OAM", "mi300x"),
        ("MI250X", "mi250x-1gcd"),
        ("Tesla V100-SXM2-16GB", "v100-sxm2-16gb"),
        ("NVIDIA Jetson AGX Orin 64G", "jetson-agx-orin-64gb"),
        ("NVIDIA Jetson AGX Orin Developer Kit", "jetson-agx-orin-64gb"),
        ("NVIDIA GH200 120GB", "gh200-96gb"),
        ("NVIDIA H100", "h100-sxm5-80gb"),
        ("AMD Radeon RX 9060 XT 16GB", "rx9060xt"),
        ("NVIDIA GeForce RTX 3060 12GB", "rtx3060-12gb"),
        ("Tesla P100-PCIE", "p100-pcie-16gb"),
    ],
)
def test_other_spellings(written, card):
    assert resolve_name("gpu", written) == card


def test_a_node_written_as_a_card_is_named_as_the_command_takes_it():
    """A name with blanks in it is no argument of a command: the catalog's own is."""
    with pytest.raises(UnknownNameError, match=r"It is a system: --system dgx-spark, or hardware\.system"):
        resolve_name("gpu", "DGX Spark")


@pytest.mark.parametrize(
    ("short", "named"),
    [
        ("jamba", ["jamba-v0.1", "jamba-1.5-large"]),
        ("clip", ["clip-vit-base-patch16", "clip-vit-large-patch14"]),
        ("rwkv", ["rwkv-4-3b", "rwkv-5-world-3b"]),
        ("nemotron-h", ["nemotron-h-8b", "nemotron-h-56b"]),
        ("yolov8", ["yolov8n", "yolov8x"]),
        ("yolo11", ["yolo11n", "yolo11x"]),
        ("wan2.1", ["wan2.1-t2v-14b", "wan2.1-t2v-1.3b"]),
        ("pixtral", ["pixtral-12b"]),
        ("sd3.5", ["sd3.5-large", "sd3.5-medium"]),
    ],
)
def test_a_short_name_lists_what_begins_so(short, named):
    with pytest.raises(UnknownNameError, match=f"unknown model '{short}'. Did you mean ") as refused:
        resolve_name("model", short)
    listed = re.findall(r"'([^']+)'", str(refused.value))[1:]
    assert set(named) <= set(listed)
    assert all(name.startswith(short) for name in listed)


@pytest.mark.parametrize(("short", "model"), [("bamba", "bamba-9b"), ("maxvit", "maxvit_t")])
def test_a_short_name_with_one_meaning_is_known(short, model):
    assert resolve_name("model", short) == model
