"""Names that people ask for: known, or refused for a reason that is written down."""

from __future__ import annotations

import pytest

from tests.spec.names_asked import ASKED, PAGE, answered, page

GROUPS = [pytest.param(group, id=group["where"]) for group in ASKED["asked"]]


@pytest.mark.parametrize("group", GROUPS)
def test_what_is_not_known_has_a_reason(group):
    missing = {name for name in group["names"] if not answered(group["kind"], name)}
    assert missing <= set(ASKED["unanswered"])


def test_no_reason_is_given_for_what_is_known():
    kinds = {name: group["kind"] for group in ASKED["asked"] for name in group["names"]}
    assert [name for name in ASKED["unanswered"] if answered(kinds[name], name)] == []


def test_most_names_are_known():
    whole = [(group["kind"], name) for group in ASKED["asked"] for name in group["names"]]
    known = sum(answered(kind, name) for kind, name in whole)
    assert known >= 0.85 * len(whole)


def test_the_page_is_of_today():
    assert PAGE.read_text(encoding="utf-8") == page()
