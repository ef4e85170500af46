"""`roofsim show constants`: every file of constants can be read where the physics is asked for."""

from __future__ import annotations

import pytest

from roofsim.analyze.catalogs import entry
from roofsim.errors import UnknownNameError
from roofsim.spec import catalog
from roofsim.spec.reading.source import read_yaml

FOLDER = catalog.root() / "hardware" / "constants"
FILES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


def test_files_are_listed_with_what_they_hold():
    listed = entry("constants", None)
    assert [name for name in listed if name not in ("kind", "name")] == FILES
    assert all(len(listed[name]) > 40 for name in FILES)


@pytest.mark.parametrize("name", [name for name in FILES if name != "physics"])
def test_a_file_is_shown_whole(name):
    shown = entry("constants", name)
    assert shown.items() >= read_yaml(FOLDER / f"{name}.yaml").data.items()
    assert entry(name, None) == shown


def test_physics_is_shown_with_meanings():
    assert entry("constants", "physics") == entry("physics", None)


@pytest.mark.parametrize("name", ["kernle_models", "../gpus/a100", ""])
def test_other_names_are_refused(name):
    with pytest.raises(UnknownNameError, match="no file of constants"):
        entry("constants", name)
