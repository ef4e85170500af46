"""ARCHITECTURE.md says of imports what the contracts enforce, and names nothing that does not exist."""

from __future__ import annotations

import re

import pytest

from tests.architecture import rooms


def test_the_page_is_up_to_date():
    text = rooms.PAGE.read_text(encoding="utf-8")
    assert rooms.page(text) == text, "run: python -m tests.architecture.rooms --write"


def test_the_page_follows_the_contract(monkeypatch):
    """A room that moves to another layer, or a rule that is added, moves the page."""
    text = rooms.PAGE.read_text(encoding="utf-8")
    first, *rest = rooms.contracts()
    swapped = {**first, "layers": [first["layers"][1], first["layers"][0], *first["layers"][2:]]}
    monkeypatch.setattr(
        rooms, "contracts", lambda: [swapped, *rest, {"name": "Nobody knows the moon", "type": "forbidden"}]
    )
    moved = rooms.page(text)
    assert moved != text
    assert "- Nobody knows the moon." in moved
    with pytest.raises(ValueError, match="lacks <!-- layers: generated -->"):
        rooms.page(text.replace("<!-- layers: generated -->", ""))


def test_every_room_is_on_the_page():
    on_page = set(re.findall(r"^\| \d* \| `([^`]+)` \|", rooms.layers_block(), re.MULTILINE))
    folders = {f"{path.parent.relative_to(rooms.PACKAGE).as_posix()}/" for path in rooms.PACKAGE.glob("*/__init__.py")}
    folders |= {
        f"{path.parent.relative_to(rooms.PACKAGE).as_posix()}/" for path in rooms.PACKAGE.glob("*/*/__init__.py")
    }
    modules = {path.name for path in rooms.PACKAGE.glob("*.py")} - {"__init__.py"}
    assert on_page == folders | modules


def test_paths_on_the_page_exist():
    text = rooms.PAGE.read_text(encoding="utf-8")
    paths = set(re.findall(r"`([\w./]+(?:/|\.py|\.csv|\.toml|\.md))`", text))
    assert len(paths) > 40
    inside = (rooms.PACKAGE, rooms.ROOT / "evidence")
    assert [
        path
        for path in paths
        if not (rooms.ROOT / path).exists() and not any(any(folder.rglob(path)) for folder in inside)
    ] == []
