"""Sealed forecasts: what is sealed is found changed, what is measured is scored, what was known counts for nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from roofsim.errors import SpecError
from roofsim_evidence.forecasts import asked, sealed, verbs
from roofsim_evidence.forecasts.asked import FILE, folder, forecast, read_asked

DECODE = {"phase": "decode", "batch_size": 1, "context_length": 512, "precision": "fp16", "engine": "vllm"}
LINES: list[dict[str, Any]] = [
    {
        "name": "small",
        "about": "a card",
        "scenario": {"model": "gpt2", "workload": DECODE, "hardware": {"gpu": "l40s"}},
    },
    {
        "name": "server",
        "about": "a server",
        "quantity": "output_tokens_per_second",
        "scenario": {
            "model": "gpt2",
            "workload": {"prompt_length": 100, "output_length": 50, "precision": "fp16", "engine": "vllm"},
            "hardware": {"gpu": "l40s"},
        },
    },
]


@pytest.fixture
def home(monkeypatch, tmp_path):
    """A folder of forecasts with two questions."""
    monkeypatch.setattr(asked, "HOME", tmp_path)
    place = tmp_path / "forecasts"
    place.mkdir()
    (place / FILE).write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return place


def edited(path, change):
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_forecasts_are_predictions_with_intervals_dated_and_hashed(evidence, home):
    code, out, _ = evidence("seal", "--date", "2026-12-01")
    assert code == 0
    assert "2026-12-01.json" in out
    document = json.loads((home / "2026-12-01.json").read_text())
    assert document["previous"] is None
    assert len(document["constants"]) == 64
    for row, line in zip(document["forecasts"], LINES, strict=True):
        assert row == forecast(asked.Asked(**({"quantity": "step_time"} | line)))
        assert row["interval"][0] < row["predicted"] < row["interval"][1]
    (one,) = sealed.verified()
    assert one.seal.sha256 == sealed.hash_of(document)
    (home / "2026-12-01.json").write_text(json.dumps(document))  # other spaces are no change
    assert len(sealed.verified()) == 1


def test_seals_are_a_chain_in_the_order_of_dates(home):
    sealed.seal("2026-12-01")
    sealed.seal("2026-12-02")
    first, second = sealed.verified()
    assert second.document["previous"] == first.seal.sha256
    for day, words in (
        ("2026-12-02", "there is a seal of 2026-12-02"),
        ("2026-11-30", "there is a seal of"),
        ("soon", "is no date"),
    ):
        with pytest.raises(SpecError, match=words):
            sealed.seal(day)


def _other_number(document):
    document["forecasts"][0]["predicted"] *= 1.0000001


def _other_interval(document):
    document["forecasts"][1]["interval"][1] *= 2.0


def _other_date(document):
    document["date"] = "2026-11-01"


def _one_less(document):
    del document["forecasts"][0]


@pytest.mark.parametrize("change", [_other_number, _other_interval, _other_date, _one_less])
def test_what_was_changed_after_the_seal_is_found(evidence, home, change):
    sealed.seal("2026-12-01")
    edited(home / "2026-12-01.json", change)
    code, out, err = evidence("score", "forecasts")
    assert (code, out) == (2, "")
    assert "2026-12-01.json: was changed after it was sealed on 2026-12-01" in err


def test_seals_that_are_changed_left_out_or_made_up_are_found(home):
    sealed.seal("2026-12-01")
    sealed.seal("2026-12-02")
    path = home / sealed.SEALS
    first, second = path.read_text().splitlines()
    path.write_text(f"{second}\n")
    with pytest.raises(SpecError, match="a seal is missing or was changed"):
        sealed.verified()
    path.write_text(f"{first}\n")
    with pytest.raises(SpecError, match=r"2026-12-02\.json: sealed by no line"):
        sealed.verified()
    # Changing a file together with its own line breaks the link of the next.
    edited(home / "2026-12-01.json", _other_number)
    again = json.loads(first) | {"sha256": sealed.hash_of(json.loads((home / "2026-12-01.json").read_text()))}
    path.write_text(f"{json.dumps(again)}\n{second}\n")
    with pytest.raises(SpecError, match=r"2026-12-02\.json: does not fit its seal"):
        sealed.verified()
    path.write_text(f"{first}\n{second}\n")
    (home / "2026-12-01.json").unlink()
    with pytest.raises(SpecError, match="was sealed, and cannot be read"):
        sealed.verified()


def test_results_are_scored_and_those_that_were_known_count_for_nothing(evidence, home):
    sealed.seal("2026-12-01")
    assert verbs.score().endswith("2 forecasts, 2 of them open, 0 measured since.\n")
    small, server = sealed.verified()[0].document["forecasts"]
    results = [
        {
            "date": "2026-12-01",
            "name": "small",
            "measured": small["predicted"] * 1.01,
            "published": "2027-01-01",
            "citation": "a",
        },
        {
            "date": "2026-12-01",
            "name": "server",
            "measured": server["predicted"] * 3.0,
            "published": "2026-11-01",
            "citation": "b",
        },
    ]
    (home / verbs.RESULTS).write_text("".join(json.dumps(row) + "\n" for row in results))
    first, second = verbs.outcomes()
    assert first.error == pytest.approx(1.0 / 1.01 - 1.0)
    assert (first.inside, first.known, second.inside, second.known) == (True, False, False, True)
    code, out, _ = evidence("score", "forecasts")
    assert code == 0
    assert "2 forecasts, 0 of them open, 1 measured since. Published before the seal, and not counted: 1." in out
    assert "Median error 1.0%; 1 of 1 inside their 80 % interval." in out
    assert "(known before)" in verbs.page().text


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"name": "smal"}, "nothing of the name 'smal' was sealed on 2026-12-01. Did you mean 'small'"),
        ({"measured": 0}, "expected a number above 0, got 0"),
        ({"when": "x"}, "has ['when']"),
    ],
)
def test_results_that_are_wrong_say_where_and_why(home, row, words):
    sealed.seal("2026-12-01")
    usual = {"date": "2026-12-01", "name": "small", "measured": 1.0, "published": "2027-01-01", "citation": "a"}
    (home / verbs.RESULTS).write_text(json.dumps(usual | row))
    with pytest.raises(SpecError) as caught:
        verbs.outcomes()
    assert words in str(caught.value)
    assert "results.jsonl:1" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"name": "x", "about": "y"}, "lacks the key 'scenario'"),
        ({"name": "x", "about": "y", "scenario": {}, "quantiy": 1}, "unknown key 'quantiy'. Did you mean 'quantity'"),
        ({"name": "x", "about": "y", "scenario": {}, "quantity": "speed"}, "unknown quantity 'speed'"),
    ],
)
def test_what_is_asked_must_be_complete(home, line, words):
    (home / FILE).write_text(json.dumps(line))
    with pytest.raises(SpecError) as caught:
        read_asked(home / FILE)
    assert words in str(caught.value)


def test_what_cannot_be_predicted_is_named(home):
    wrong = LINES[0] | {"scenario": {"model": "gpt2", "hardware": {"gpu": "a1001"}}}
    (home / FILE).write_text(json.dumps(wrong))
    with pytest.raises(SpecError, match=r"small: .*a1001"):
        sealed.seal("2026-12-01")
    assert not (home / sealed.SEALS).exists()


def test_committed_forecasts_are_as_sealed_and_ask_for_what_can_be_predicted():
    names = {one.name for one in read_asked(folder() / FILE)}
    assert len(names) > 50
    assert all(one.seal.file == f"{one.seal.date}.json" for one in sealed.verified())
    for name in ("rubin-llama3.1-8b-fp8-decode-64", "mlperf-training-llama2-70b-lora-8xgb300"):
        one = next(row for row in read_asked(folder() / FILE) if row.name == name)
        low, high = forecast(one)["interval"]
        assert 0.0 < low < high


def test_the_committed_page_is_that_of_the_committed_seals():
    assert verbs.page().difference() == ""
