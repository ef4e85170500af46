"""docs/concepts/walk.md names functions that its commands call, in that order, fewer than ten for each walk."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from operator import attrgetter

import pytest

from roofsim import structures
from tests import documents

PAGE = documents.ROOT / "docs" / "concepts" / "walk.md"
#: A heading, and what follows it up to the next.
SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^```sh\n(.+?)\n```$", re.MULTILINE | re.DOTALL)
HOP = re.compile(r"^(\d+)\. \[`([\w.]+):([\w.]+)`\]\(([\w./]+)\)", re.MULTILINE)
WALKS = dict(SECTION.findall(PAGE.read_text(encoding="utf-8")))


def hops(body):
    """Return (module, function, link) of each hop, and check that they are counted."""
    matches = HOP.findall(body)
    assert [int(number) for number, *_ in matches] == list(range(1, len(matches) + 1))
    assert len(matches) == len(re.findall(r"^\d+\. ", body, re.MULTILINE)), "a hop has another form"
    return [tuple(rest) for _, *rest in matches]


def code_of(module, name):
    """Return the code of a function or method, without what decorates it."""
    return inspect.unwrap(attrgetter(name)(importlib.import_module(module))).__code__


def calls_of(command, wanted):
    """Return the calls of some codes that a command makes, in order; nothing that was kept helps it."""
    calls = []

    def watch(frame, event, _):
        if event == "call" and frame.f_code in wanted:
            calls.append(frame.f_code)

    structures.forget()
    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        answer = documents.run_command(command)
    finally:
        sys.setprofile(before)
    assert not documents.REFUSED.search(answer), answer
    return calls


def longest_start(walk, calls):
    """Return how many of a walk's hops are called, each after the one before it.

    >>> longest_start("abc", "xbacab"), longest_start("abc", "cbac")
    (2, 1)
    """
    hop = 0
    for call in calls:
        hop += hop < len(walk) and call == walk[hop]
    return hop


def test_what_is_walked():
    assert [title.lower() for title in WALKS] == [
        "a scenario", "an op", "a tensor", "a degree of a layout", "a request to a server",
    ]  # fmt: skip


@pytest.mark.parametrize("title", WALKS)
def test_a_walk_is_short_and_its_links_lead_to_the_functions(title):
    walk = hops(WALKS[title])
    assert 4 < len(walk) < 10
    for module, name, link in walk:
        path = (PAGE.parent / link).resolve().relative_to(documents.ROOT)
        assert path.as_posix() == f"{module.replace('.', '/')}.py"
        assert callable(attrgetter(name)(importlib.import_module(module)))


@pytest.mark.parametrize("title", WALKS)
def test_its_command_calls_the_functions_in_this_order(title, monkeypatch):
    monkeypatch.chdir(documents.ROOT)
    (command,) = COMMAND.findall(WALKS[title])
    names = [f"{module}:{name}" for module, name, _ in hops(WALKS[title])]
    walk = [code_of(module, name) for module, name, _ in hops(WALKS[title])]
    calls = calls_of(command, set(walk))
    reached = longest_start(walk, calls)
    assert reached == len(walk), f"{PAGE.name}, {title!r}: {names[reached]} is " + (
        f"not called after {names[reached - 1]}" if walk[reached] in calls else "not called by the command"
    )
