"""A price that is too large is said to be too large; amounts of tokens and days read as people say them."""

from __future__ import annotations

import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.report.words import plural
from roofsim.spec.own_prices import stated_prices
from roofsim.units import parameters


@pytest.mark.parametrize("amount", ["1e12", "1000001", "$2000000/h"])
def test_a_price_that_is_too_large_names_its_bound(amount):
    with pytest.raises(SpecError, match=r"at most 1,000,000 dollars per hour for h100"):
        stated_prices([f"h100={amount}"])
    with pytest.raises(SpecError, match=r"at most 1,000,000 dollars per hour for h100"):
        roofsim.compare("gpt2-124m", gpus=["h100", "a100"], prices={"h100": amount})


@pytest.mark.parametrize("amount", ["0", "-1", "nan", "inf", "free"])
def test_a_price_that_is_none_is_still_told_so(amount):
    with pytest.raises(SpecError, match=r"dollars per hour above zero for h100"):
        stated_prices([f"h100={amount}"])


def test_many_tokens_keep_their_unit():
    assert parameters(3.847e16) == "38,470 T"
    assert parameters(6.3672e15) == "6,367 T"
    assert parameters(8030261248.0) == "8.03 B"
    assert parameters(1e30) == "1e+30"


def test_one_of_a_thing_is_not_several():
    assert plural("1", "day") == "1 day"
    assert [plural(shown, "day") for shown in ("0.5", "2", "1,000")] == ["0.5 days", "2 days", "1,000 days"]
