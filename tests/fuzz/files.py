"""Files: YAML in pieces, with signs of its own in wrong places, cut, repeated, in other encodings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

import roofsim
from roofsim.spec import catalog
from tests.fuzz.inputs import Input
from tests.fuzz.laws import broken_by_result
from tests.fuzz.scenarios import mutated, valid
from tests.fuzz.values import TEXTS

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

SIGNS = (
    "&a ", "*a", "<<: *a\n", "!!python/object:os.system ", "!!int ", "!!set ", "! ", "? ", ": ", "- ", "[", "]", "{",
    "}", "|\n", ">-\n", "---\n", "...\n", "%YAML 1.1\n", "\t", "\x00", "\ufeff", "'", '"', "#", ",", "\\", "@", "`",
    "\n", "\r", "\r\n", "  ", "~", "0o7", "1:2", ".nan", "1e999", "[" * 100, "{a: " * 100, "&b [*b]", "\ud7ff",
    "\u2028", "\x85", "=", "? [a]\n: b\n", "'" * 3, "a: b: c",
)  # fmt: skip
SUFFIXES = (".yaml", ".yml", ".json", ".txt", "", ".YAML", ".py", ".onnx", ".safetensors")


def text_of(data: Any, random: Random) -> str:
    """Write data as YAML of some style, or as JSON."""
    if random.random() < 0.2:
        return json.dumps(data)
    try:
        return yaml.safe_dump(
            data,
            sort_keys=False,
            default_flow_style=random.choice((True, False, None)),
            allow_unicode=random.random() < 0.5,
        )
    except (yaml.YAMLError, ValueError, RecursionError):
        return json.dumps(data)


def texts(random: Random, folder: Path) -> Input:
    """Return a scenario's or a model's file with its text changed."""
    if random.random() < 0.3:
        text = catalog.names("model")[random.choice(sorted(catalog.names("model")))].read_text(encoding="utf-8")
    else:
        text = text_of(mutated(valid(random), random, random.choice((0, 0, 1))), random)
    for _ in range(random.choice((0, 1, 1, 2, 3, 8))):
        text = _changed(text, random)
    encoding = random.choice(("utf-8",) * 20 + ("utf-16", "latin-1", "utf-8-sig", "cp500"))
    path = folder / f"fuzzed{random.choice((*SUFFIXES[:1] * 12, *SUFFIXES))}"

    def act() -> list[str]:
        path.write_bytes(text.encode(encoding, errors="replace"))
        return broken_by_result(roofsim.run(str(path)).to_dict())

    return Input(f"{path.name} ({encoding}): {text}", act)


def _changed(text: str, random: Random) -> str:
    place = random.randrange(len(text) + 1)
    pick = random.random()
    if pick < 0.5:
        return text[:place] + random.choice(SIGNS) + text[place:]
    if pick < 0.6:
        return text[:place] + str(random.choice(TEXTS[:60])) + text[place:]
    if pick < 0.75:
        return text[:place] + text[place + random.choice((1, 3, 20)) :]
    lines = text.splitlines(keepends=True)
    at = random.randrange(len(lines) + 1)
    if pick < 0.85:
        return "".join(lines[:at] + lines[at : at + 3] * random.choice((2, 50)) + lines[at:])
    if pick < 0.93:
        random.shuffle(lines)
        return "".join(lines)
    return text[:place]
