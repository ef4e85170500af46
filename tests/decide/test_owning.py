"""Renting against buying: laws, break-even, refusals, the verb."""

from __future__ import annotations

import json
from typing import Any

import pytest

import roofsim
from roofsim.cli.app import main
from roofsim.decide.owned import Costs, costs_of, payback_months
from roofsim.errors import SpecError
from tests.surely import sure

SMALL: dict[str, Any] = {"gpu": "a100", "gpus": 8, "batch_size": 64, "precision": "bf16-amp"}
ASSUMED: dict[str, Any] = {
    "power_price": 0.1,
    "pue": 1.5,
    "hosting": 150.0,
    "years": 3.0,
    "utilisation": 0.5,
    "resale": 0.25,
}


def owning(**others):
    return roofsim.rent_or_buy("resnet18", **(SMALL | {"purchase": 120_000} | others))


def test_both_cost_the_same_where_they_break_even():
    answer = owning(rent=3.0)
    share = sure(answer.break_even)
    at = owning(rent=3.0, assume={"utilisation": share})
    assert at.own == pytest.approx(sure(at.rent), rel=1e-9)
    assert owning(rent=answer.even_rent / 8).own == pytest.approx(
        sure(owning(rent=answer.even_rent / 8).rent), rel=1e-9
    )


def test_the_verdict_turns_at_the_break_even():
    share = sure(owning(rent=3.0).break_even)
    assert owning(rent=3.0, assume={"utilisation": share * 1.01}).verdict == "buy"
    assert owning(rent=3.0, assume={"utilisation": share * 0.99}).verdict == "rent"


def test_costs_by_hand():
    costs, parts = costs_of(100_000.0, 8_000.0, 10_000.0, ASSUMED)
    assert parts == pytest.approx(
        {
            "purchase less resale": 75_000.0,
            "electricity and cooling": 8.0 * 1.5 * 0.1 * 8766 * 3 * 0.5,
            "hosting": 10.0 * 150.0 * 12 * 3,
        }
    )
    assert costs.of_an_hour(0.5) == pytest.approx(sum(parts.values()) / (8766 * 3 * 0.5), rel=1e-12)


def test_what_never_pays_has_no_break_even():
    costs = Costs(fixed=1e6, per_hour=2.0, hours=10_000.0)
    assert costs.break_even(1.0) is None
    assert costs.break_even(2.0) is None
    assert costs.break_even(50.0) is None
    assert costs.break_even(1002.0) == pytest.approx(0.1)
    assert owning(rent=0.01).months is None


@pytest.mark.parametrize("key", ["power_price", "pue", "hosting", "purchase"])
def test_what_costs_more_makes_owning_dearer(key):
    def at(value):
        own = {"purchase": value} if key == "purchase" else {"assume": {key: value}}
        return owning(rent=3.0, **own)

    low, high = {"power_price": (0.05, 0.3), "pue": (1.1, 1.9), "hosting": (50, 300), "purchase": (1e5, 2e5)}[key]
    assert at(high).own > at(low).own
    assert sure(at(high).break_even) > sure(at(low).break_even)


def test_a_sale_and_more_hours_make_owning_cheaper():
    assert owning(assume={"resale": 0.5}).own < owning(assume={"resale": 0.1}).own
    assert owning(assume={"utilisation": 0.9}).own < owning(assume={"utilisation": 0.3}).own


def test_every_default_has_a_source():
    answer = owning()
    assert {one.name for one in answer.assumptions} == {
        "power_price",
        "pue",
        "hosting",
        "years",
        "utilisation",
        "resale",
        "resale_after",
    }
    assert all(one.source for one in answer.assumptions)
    stated = owning(assume={"pue": 1.2})
    assert next(one for one in stated.assumptions if one.name == "pue").stated


def test_cards_without_a_price_of_their_node_are_put_in_servers():
    answer = roofsim.rent_or_buy("resnet18", **(SMALL | {"gpu": "h100", "gpus": 4}))
    share = next(one for one in answer.assumptions if one.name == "gpus_in_server").value
    assert answer.purchase == pytest.approx(4 * 23_500 / share)
    assert "refurbished" in answer.purchase_words


def test_another_card_is_worth_what_its_work_is():
    other = sure(owning(rent=2.0, against="h100").against)
    assert sure(other.even_rent) == pytest.approx(16.0 * other.speed)
    rates: list[Any] = [
        sure(roofsim.run("resnet18", **(SMALL | {"gpu": gpu})).throughput["samples_per_second"])
        for gpu in ("a100", "h100")
    ]
    assert other.speed == pytest.approx(rates[1] / rates[0], rel=1e-6)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"purchase": 0}, "a number above zero"),
        ({"purchase": "x"}, "a number above zero"),
        ({"rent": -1}, "a number above zero"),
        ({"assume": {"years": 0}}, "a number above zero"),
        ({"assume": {"utilisation": "160%"}}, "up to 1 or 100%"),
        ({"assume": {"pue": 0.9}}, "at least what its machines do"),
        ({"assume": {"resale": -0.1}}, "zero or more"),
        ({"batch_size": 100_000}, "resnet18 does not fit on 8 x a100-sxm4-80gb: .* missing. `roofsim fit`"),
        ({"against": "h1000"}, "unknown gpu 'h1000'"),
        ({"purchase": None, "gpu": "l40s"}, "no purchase price of l40s is known"),
    ],
)
def test_a_wrong_request_says_what_is_wrong(asked, message):
    with pytest.raises(SpecError, match=message):
        owning(**asked)


def test_the_verb_prints_and_writes(capsys, monkeypatch):
    line = "rent-or-buy resnet18 --gpu a100 --batch 64 --purchase 20k --rent 2 --utilisation 80% --against h100"
    printed = []
    for more in ((), ("--json",)):
        monkeypatch.setattr("sys.argv", ["roofsim", *line.split(), *more])
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code
        printed.append(capsys.readouterr().out)
    assert "utilisation an hour costs" in printed[0]
    assert "80 % interval" in printed[0]
    assert "Uptime Institute" in printed[0]
    assert json.loads(printed[1])["schema"] == "roofsim/owning/1"


def test_another_card_is_taken_as_it_is():
    other = sure(owning(rent=2.0, against="h100", tdp="300 W").against)
    assert any("hardware.override" in note for note in other.notes)
    plain = sure(owning(rent=2.0, against="h100").against).speed
    assert other.speed == pytest.approx(plain * owning(rent=2.0).rate / owning(rent=2.0, tdp="300 W").rate)


def test_months_until_it_is_paid_by_hand():
    """By hand: 100,000 / (20 x 365.25 - 1.2 x 365.25 - 1,500): electricity and hosting are due each month."""
    months = payback_months(100_000.0, 20.0, 8_000.0, 10_000.0, ASSUMED)
    assert months == pytest.approx(100_000.0 / (7_305.0 - 8.0 * 1.5 * 0.1 * 365.25 - 10.0 * 150.0), rel=1e-12)
    assert payback_months(100_000.0, 5.0, 8_000.0, 10_000.0, ASSUMED) is None


def test_at_that_time_rents_have_paid_the_purchase():
    """Used so long and then worth nothing, owned machines cost what rented ones do."""
    months = sure(owning(rent=3.0).months)
    at = owning(rent=3.0, assume={"years": months / 12.0, "resale": 0.0})
    assert at.own == pytest.approx(sure(at.rent), rel=1e-9)


@pytest.mark.parametrize("rent", [1.0, 2.0, 2.5, 3.0, 5.0])
@pytest.mark.parametrize("years", [0.5, 2.0, 5.0])
def test_payback_does_not_contradict_the_verdict(rent, years):
    answer = owning(rent=rent, assume={"years": years})
    assert answer.verdict == "buy" or not answer.paid_back
    printed = " ".join(str(answer).split())
    assert ("is paid by rents saved after" in printed) == bool(answer.paid_back)
    if not answer.paid_back and answer.verdict == "buy":
        assert "the sale at the end makes up for the rest" in printed


def test_the_payback_at_the_lowest_rent_is_that_of_stating_it():
    asked = {"gpu": "h100", "gpus": 1, "purchase": None}
    answer = owning(**asked, assume={"utilisation": 0.9})
    stated = owning(**asked, assume={"utilisation": 0.9}, rent=sure(answer.rent_low))
    assert sure(answer.months_low) == pytest.approx(sure(stated.months), rel=1e-12)
    assert answer.paid_back_low == stated.paid_back
    assert sure(answer.months_low) > sure(answer.months)
    assert "the lowest rent" in " ".join(str(answer).split())
    assert (stated.months_low, stated.paid_back_low) == (None, None)


def test_the_sentence_names_both_sellers_where_they_decide():
    asked = {"gpu": "h100", "gpus": 1, "purchase": None}
    answer = owning(**asked, assume={"utilisation": 0.4})
    low = sure(answer.rent_low)
    assert (answer.verdict, answer.verdicts) == ("depends", {"rent": "buy", "rent_low": "rent"})
    assert low < answer.own < sure(answer.rent)
    sentence = line(answer)
    assert sentence.startswith("It depends on the seller: ")
    assert f"({answer.rent_words})" in sentence
    assert f"({answer.rent_low_words})" in sentence
    assert "(refurbished, used cards, 2026)" in sentence
    sure_of_it = owning(**asked, assume={"utilisation": 0.9})
    assert (sure_of_it.verdict, sure_of_it.verdicts) == ("buy", {"rent": "buy", "rent_low": "buy"})
    assert str(sure_of_it.rent_low_words) in line(sure_of_it)
    assert owning(rent=3.0).verdicts["rent_low"] is None


def line(answer):
    from roofsim.report.owning import sentence

    return sentence(answer)


def test_a_sale_brings_less_after_more_years():
    def resale(**assume):
        return next(one for one in owning(assume=assume).assumptions if one.name == "resale")

    assert resale().value == 0.3
    assert resale(years=6).value == pytest.approx(0.3**2)
    assert resale(years=1).value ** 3 == pytest.approx(0.3)
    assert "after 6 years" in resale(years=6).meaning
    stated = owning(assume={"years": 10, "resale": "30%"})
    assert stated.parts["purchase less resale"] == pytest.approx(0.7 * 120_000)
    assert "resale_after" not in {one.name for one in stated.assumptions}


def test_the_interval_of_the_speed_reaches_dollars():
    answer, result = owning(rent=3.0), roofsim.run("resnet18", **SMALL)
    fast, slow = (sure(result.step_time_interval)[end] / result.step_time for end in (0, 1))
    rented = sure(answer.usd_per_million["rented"])
    assert answer.usd_per_million_interval["rented"] == pytest.approx((rented * fast, rented * slow))
    assert answer.rate_interval == pytest.approx((answer.rate / slow, answer.rate / fast))
    low, high = sure(answer.even_rent_interval)
    assert low <= answer.even_rent <= high
    low, high = sure(answer.usd_per_million_interval["owned"])
    assert low < sure(answer.usd_per_million["owned"]) < high
    # Only electricity changes with the speed: in an hour no more than all of it.
    electricity = answer.parts["electricity and cooling"] / (8766 * 3 * 0.6)
    own = sure(answer.even_rent_interval)
    assert own[1] - own[0] <= electricity * (1.0 / fast - 1.0 / slow) + 1e-12


def test_the_other_card_has_an_interval_and_must_fit():
    answer = owning(rent=2.0, against="h100")
    other = sure(answer.against)
    low, high = sure(other.speed_interval)
    assert low < other.speed < high
    assert other.even_rent_interval == pytest.approx((16.0 * low, 16.0 * high))
    small = owning(rent=2.0, against="rtx3050-8gb", batch_size=2048)
    assert sure(small.against).even_rent is None
    assert "does not fit, " in str(small)


def test_a_rent_inside_the_interval_is_said():
    answer = owning()
    near = owning(rent=answer.even_rent / 8 * 1.0001)
    assert "either may cost less" in " ".join(str(near).split())
    assert "either may cost less" not in " ".join(str(owning(rent=answer.even_rent / 8 * 2.0)).split())
