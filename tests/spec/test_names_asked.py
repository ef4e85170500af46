"""Names that people ask for: known, or refused for a reason that is written down."""

from __future__ import annotations

import pytest

from roofsim.errors import UnknownNameError
from roofsim.spec.catalog import resolve_name, root
from roofsim.spec.reading.source import read_kept
from tests.spec.names_asked import ASKED, PAGE, answered, page, reason

GROUPS = [pytest.param(group, id=group["where"]) for group in ASKED["asked"]]


@pytest.mark.parametrize("group", GROUPS)
def test_what_is_not_known_has_a_reason(group):
    missing = [name for name in group["names"] if not answered(group["kind"], name)]
    assert [name for name in missing if not reason(group["kind"], name)] == []


def test_no_reason_is_given_for_what_is_known():
    given = read_kept(root() / "hardware" / "not_modelled.yaml").data["names"]
    assert [name for kind, names in given.items() for name in names if answered(kind, name)] == []


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        (
            "model",
            "deepseek-ai/DeepSeek-V4-Flash",
            r"unknown model 'deepseek-ai/DeepSeek-V4-Flash'. Its compressed attention is not built; deepseek-v3.2 has",
        ),
        ("model", "deepseek-v4-flash", "Its compressed attention is not built"),
        ("model", "stable-diffusion", "Several models have that name: sd15"),
        ("gpu", "AMD Instinct MI25", "No entry yet; mi50 is the nearest"),
        ("gpu", "RTX 5090D", "cut for export"),
        ("gpu", "Ascend 910B", "Ascend processors are not modelled"),
    ],
)
def test_a_run_says_why_in_one_line(kind, name, message):
    with pytest.raises(UnknownNameError, match=message) as refused:
        resolve_name(kind, name)
    assert "\n" not in str(refused.value)
    assert "Did you mean" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "first", "never"),
    [
        ("AMD Instinct MI300Y", "mi300x", "mi100"),
        ("NVIDIA RTX 4091", "rtx4090", "rtx3090"),
        ("NVIDIA A101", "a10", "h100"),
        ("Tesla V200", "v100", "p100"),
    ],
)
def test_cards_that_begin_alike_come_first(name, first, never):
    with pytest.raises(UnknownNameError) as refused:
        resolve_name("gpu", name)
    suggested = str(refused.value).partition("Did you mean ")[2]
    assert suggested.startswith(f"'{first}")
    assert f"'{never}" not in suggested


def test_most_names_are_known():
    whole = [(group["kind"], name) for group in ASKED["asked"] for name in group["names"]]
    known = sum(answered(kind, name) for kind, name in whole)
    assert known >= 0.85 * len(whole)


def test_the_page_is_of_today():
    assert PAGE.read_text(encoding="utf-8") == page()
