"""Files made to break a reader are refused within a second: deep, repeated, endless."""

from __future__ import annotations

import gc
import json
import sys
import time
from typing import Any

import pytest

from roofsim.errors import SpecError
from roofsim.importers.huggingface import read_config
from roofsim.spec.reading.source import DEEPEST, LARGEST_FILE, MOST_VALUES, parse_yaml

DEEP, MANY = r"is nested deeper than 60 levels", r"more than 50000 values"
HOSTILE = {
    "flow sequences": ("model: " + "[" * 50_000, DEEP),
    "flow mappings": ("model: " + "{a: " * 50_000, DEEP),
    "block sequences": ("- " * 50_000 + "a", DEEP),
    "block mappings": ("".join(" " * depth + "a:\n" for depth in range(2_000)), DEEP),
    "complex keys": ("? " * 50_000, r"a key that is not a plain word"),
    "a long text repeated": ("a: &a '" + "x" * 100_000 + "'\nb: [" + "*a," * 100_000 + "]", r"more than \d+ characters"),
    "a short text repeated": ("a: &a x\nb: [" + "*a," * 100_000 + "]", MANY),
    "repeated repetitions": (
        "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"{c}: &{c} [{','.join(['*' + p] * 9)}]\n" for p, c in zip("abcdefg", "bcdefgh", strict=True)),
        r"aliases multiply too far",
    ),
    "repetition in depth": (
        "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 1_000)), DEEP,
    ),
    "a repeated part of itself": ("a: &a [1, *a]", r"refers to itself"),
    "many items": ("a: [" + "1," * 1_000_000 + "]", MANY),
    "many keys": ("".join(f"a{number}: 1\n" for number in range(200_000)), MANY),
    "many anchors": ("".join(f"a{number}: &b{number} 1\n" for number in range(100_000)), MANY),
    "many documents": ("---\n" * 1_000_000, r"second document"),
    "a long key": ("a" * LARGEST_FILE + ": 1", r"is not valid YAML"),
    "a long number": ("a: " + "9" * 1_000_000, r"cannot read '99.*' as a number"),
    "a number of many parts": ("a: 1" + ":1" * 500_000, r"cannot read '1:1.*' as a number"),
    "a long quotation": ('"' + "\\x41" * 1_000_000, r"is not valid YAML"),
    "a word tagged as a number": ("a: !!int many", r"cannot read 'many' as a number"),
    "a word tagged as a truth": ("a: !!bool many", r"cannot read 'many' as a number"),
}  # fmt: skip

#: A second; a tracer, such as that of `make coverage`, slows Python down.
SECONDS = 1.0 if sys.gettrace() is None else 5.0


@pytest.fixture(scope="module")
def own_garbage():
    """Let collections leave alone what other tests have kept: in a process that ran thousands they take seconds."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("own_garbage")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_yaml_is_refused_within_a_second(name):
    text, message = HOSTILE[name]
    start = time.process_time()
    with pytest.raises(SpecError, match=message) as refusal:
        parse_yaml(text, "hostile.yaml")
    assert time.process_time() - start < SECONDS
    assert len(str(refusal.value)) < 3_000


def test_bounds_leave_room_for_specifications():
    depth = "a: " + "[" * (DEEPEST - 1) + "]" * (DEEPEST - 1)
    assert parse_yaml(depth, "deep.yaml").data
    assert len(parse_yaml("a: [" + "1," * (MOST_VALUES - 3) + "1]", "long.yaml").data["a"]) == MOST_VALUES - 2


def test_what_aliases_repeat_knows_its_place():
    document = parse_yaml("a: &part\n  b: [1, 2]\nc: *part\n", "file.yaml")
    assert document.data == {"a": {"b": [1, 2]}, "c": {"b": [1, 2]}}
    assert document.place(("c",)).line == 3
    assert document.place(("c", "b", 1)).line == 2
    document.data["c"]["b"].append(3)
    assert document.data["a"] == {"b": [1, 2]}


@pytest.mark.usefixtures("own_garbage")
@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a": ' * 100_000, "[" * 900 + "]" * 900, '{"a": ' + "9" * 10_000 + "}"]
)
def test_hostile_json_is_refused_within_a_second(text, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(text)
    start = time.process_time()
    with pytest.raises(SpecError):
        read_config(path)
    assert time.process_time() - start < SECONDS


def test_a_request_of_many_problems_is_answered_in_a_page():
    import roofsim

    endless = {"model": "gpt", "workload": {f"key{number}": 1 for number in range(5_000)} | {"k" * 700_000: 1}}
    with pytest.raises(SpecError) as refusal:
        roofsim.run(endless)
    assert len(str(refusal.value)) < 20_000
    assert "more problems" in str(refusal.value)
    with pytest.raises(SpecError) as refusal:
        roofsim.run({"model": "m" * 700_000})
    assert len(str(refusal.value)) < 3_000


def test_a_deep_mapping_in_python_is_refused():
    import roofsim

    deep: dict[Any, Any] = {}
    at = deep
    for _ in range(100_000):
        at["model"] = at = {}
    with pytest.raises(SpecError):
        roofsim.run({"model": deep})
    assert json.dumps({"alive": True})
