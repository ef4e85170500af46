"""Cards in lists: what entries stand for, that they can be written again, and where a fault stands."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsim.errors import SpecError, UnknownNameError
from roofsim.spec import catalog
from roofsim.spec.reading.source import from_mapping
from roofsim.spec.settle.cards import read_cards
from tests.surely import sure


@pytest.mark.parametrize(
    ("text", "label", "gpu", "gpus"),
    [
        ("a100", "a100-sxm4-80gb", "a100-sxm4-80gb", None),
        (" RTX 4090 ", "rtx4090", "rtx4090", None),
        ("8xa100", "8xa100-sxm4-80gb", "a100-sxm4-80gb", 8),
        ("8 X a100", "8xa100-sxm4-80gb", "a100-sxm4-80gb", 8),
        ("1xrtx4090", "rtx4090", "rtx4090", 1),
        ("dgx-h100", "dgx-h100", "h100-sxm5-80gb", 8),
        ("2x(dgx-h100)", "2x(dgx-h100)", "h100-sxm5-80gb", 16),
        ("2xdgx-h100", "2x(dgx-h100)", "h100-sxm5-80gb", 16),
        ("4x( l40s )", "4xl40s", "l40s", 4),
        ("a100{memory.bandwidth=2x}", "a100-sxm4-80gb{memory.bandwidth=2x}", "a100-sxm4-80gb", None),
        (
            "8xa100{ node_network = 2x , tdp=-10% }",
            "8xa100-sxm4-80gb{system.node_network=2x,tdp=-10%}",
            "a100-sxm4-80gb",
            8,
        ),
        ("2x(dgx-h100){node_network=400 GB/s}", "2x(dgx-h100){node_network=400 GB/s}", "h100-sxm5-80gb", 16),
        ("dgx-h100{memory.capacity=+50%}", "dgx-h100{gpu.memory.capacity=+50%}", "h100-sxm5-80gb", 8),
    ],
)
def test_an_entry_says_what_runs(text, label, gpu, gpus):
    (card,) = read_cards(text)
    assert (card.label(), card.gpu, card.gpus) == (label, gpu, gpus)
    assert read_cards(card.label())[0].key == card.key or card.count == 1


def test_lists_are_separated_by_commas_outside_braces():
    cards = read_cards(["a100,, 8xh100,", "a100{memory.bandwidth=2x,peak.bf16=+10%},dgx-a100", ""])
    assert [card.name for card in cards] == ["a100-sxm4-80gb", "h100-sxm5-80gb", "a100-sxm4-80gb", "dgx-a100"]
    assert dict(cards[2].override) == {"gpu.memory.bandwidth": "2x", "gpu.peak.bf16": "+10%"}


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("a100,b1000", "unknown gpu 'b1000'. Did you mean", 6),
        ("8xa10O", "unknown gpu 'a10O'. Did you mean 'a10'", 3),
        ("dgx-h10", "unknown gpu 'dgx-h10'. Did you mean 'dgx-h100'", 1),
        ("h100, 0xa100", "whole number of cards from 1", 7),
        ("1.5xa100", "whole number of cards", 1),
        ("-2xa100", "whole number of cards", 1),
        ("99999999999999xa100", "whole number of cards", 1),
        ("2x(dgx-h100", "'(' is not closed", 3),
        ("2x()", "expected the name of a card or a system; got ')'", 4),
        ("2x(a100, h100)", "'(' is not closed after the name", 3),
        ("a100{memory.bandwidth=2x", "'{' is not closed", 5),
        ("a100{}", "expected PATH=VALUE", 6),
        ("a100{memory.bandwidth}", "expected PATH=VALUE", 6),
        ("a100{memory.bandwidth=}", "expected PATH=VALUE", 6),
        ("a100{memory={}}", "expected a plain value; got '{'", 13),
        ("a100{tdp=2x,memory.bandwith=2x}", "unknown key 'bandwith'. Did you mean 'bandwidth'", 13),
        ("a100{memry.bandwidth=2x}", "neither a card nor a system has a key 'memry'. Did you mean 'memory'", 6),
        ("a100{tdp=2x, tdp=3x}", "'tdp' is set twice", 14),
        ("a100{memory.bandwidth=3 GB}", "expected a quantity in B/s", 6),
        ("a100{memory.bandwidth=10%}", "expected a factor such as 2x", 6),
        ("a100{name=x}", "not a quantity that can be overridden", 6),
        ("a100{tdp=2x}h100", "expected ',' or the end after 'a100{tdp=2x}'; got 'h'", 13),
        ("a100}", "expected ',' or the end", 5),
        ("h100,server-pcie4", "comes with no card of its own", 6),
        ("a100x8", "A count comes before the name: 8xa100", 1),
        ("a100:8", "A count comes before the name: 8xa100", 1),
        ("8x", "Write the name right after the count", 1),
        ("a100 h100", "Separate cards with commas: a100,h100", 1),
        ("a100memory.bandwidth=2x", "Quote what has braces", 1),
    ],
)
def test_a_fault_is_shown_where_it_stands(text, message, column):
    with pytest.raises(SpecError) as caught:
        read_cards(text, "--gpu")
    (problem,) = caught.value.problems
    assert message in str(problem)
    assert str(problem).startswith("--gpu: ")
    assert sure(problem.place).column == column
    assert str(problem).endswith(f"    {text}\n    {' ' * (column - 1)}^")


def test_a_card_that_is_no_text_is_refused():
    several: tuple[Any, ...] = (["a100", 8], 8, None)
    for wrong in several:
        with pytest.raises(SpecError, match="expected a card such as a100"):
            read_cards(wrong)


def test_every_name_of_the_catalog_is_an_entry():
    for kind in ("gpu", "system"):
        for name in (*catalog.names(kind), *catalog.aliases(kind)):
            own = kind == "gpu" or catalog.load(kind, name).data.get("gpu") is not None
            if own:
                (card,) = read_cards(f"2x({name})")
                assert (card.kind, card.name, card.count) == (kind, catalog.resolve_name(kind, name), 2)
            else:
                with pytest.raises(SpecError, match="comes with no card of its own"):
                    read_cards(name)


PIECES = (
    "a100",
    "8x",
    "2x(",
    "dgx-h100",
    ")",
    "{",
    "}",
    "memory.bandwidth",
    "=",
    "2x",
    "+10%",
    ",",
    " ",
    "gpu.",
    "\n",
    "é",
)


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text(max_size=30))
def test_any_text_is_a_list_or_a_located_refusal(text):
    try:
        cards = read_cards(text, "--gpu")
    except SpecError as error:
        cards, problems = [], error.problems
    else:
        problems = ()
    assert all(problem.place is not None and problem.message for problem in problems)
    for card in cards:
        again = read_cards(card.label())[0]
        assert (again.kind, again.name, again.override) == (card.kind, card.name, card.override)


def test_an_unknown_name_is_of_its_own_kind():
    with pytest.raises(UnknownNameError):
        read_cards("4xl40t")


def test_the_list_replaces_the_machine_of_a_file():
    document = from_mapping({"model": "gpt", "hardware": {"gpu": "a100", "gpus": 64, "system": "dgx-a100"}}, "s.yaml")
    same, other, node = (card.on(document).data["hardware"] for card in read_cards("8xa100,h100,2x(dgx-h100)"))
    assert (same["gpus"], same["system"]) == (8, "dgx-a100")
    assert (other["gpu"], other["gpus"], other["system"]) == ("h100-sxm5-80gb", 64, None)
    assert (node["gpus"], node["system"]) == (16, "dgx-h100")
