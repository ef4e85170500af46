"""What other programs write: Hugging Face configurations, snapshots of PyTorch's memory."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import roofsim
from roofsim.analyze.allocation import measured_of, replay
from roofsim.importers.snapshot import read_snapshot
from tests.fuzz.inputs import Input
from tests.fuzz.laws import broken_by_result, broken_by_snapshot
from tests.fuzz.scenarios import valid
from tests.fuzz.values import hostile
from tests.importers.snapshots import snapshot

if TYPE_CHECKING:
    from random import Random

CONFIGS = [
    entry["config"]
    for entry in json.loads((Path(__file__).parents[1] / "importers" / "published.json").read_text(encoding="utf-8"))
]
#: Keys of configurations beyond those that an entry has.
KEYS = [
    *sorted({key for config in CONFIGS for key in config}),
    "quantization_config", "torch_dtype", "dtype", "text_config", "vision_config", "rope_scaling", "layer_types", "_name_or_path",
]  # fmt: skip


def config_value(random: Random) -> Any:
    """Return a value of a configuration."""
    if random.random() < 0.5:
        return random.choice((1, 2, 3, 4, 8, 12, 64, 100, 256, 768, 1024, 4096, 50257))
    return hostile(random)


def configurations(random: Random, folder: Path) -> Input:
    """Return a published configuration with some keys changed, as a file."""
    config = copy.deepcopy(random.choice(CONFIGS))
    for _ in range(random.choice((0, 1, 1, 2, 3, 4))):
        key = random.choice(list(config) or KEYS) if random.random() < 0.7 else random.choice(KEYS)
        if random.random() < 0.15:
            config.pop(key, None)
        else:
            config[key] = config_value(random)
    if random.random() < 0.1:
        config["model_type"] = random.choice(CONFIGS).get("model_type")
    if random.random() < 0.08:
        config = {"architectures": ["X"], "model_type": random.choice(("wrapper", "llava")), "text_config": config}
    if "num_hidden_layers" in config and random.random() < 0.5:
        config["num_hidden_layers"] = random.choice((1, 2, 4))
    path = folder / "config.json"
    text = json.dumps(config)
    if random.random() < 0.1:
        place = random.randrange(len(text))
        text = (
            text[:place]
            + random.choice(("", "{", "]", "\x00", '"', "NaN,", "1e999", "\ud800"))
            + text[place + random.choice((0, 1, 9)) :]
        )
    other = {name: part for name, part in valid(random).items() if name != "model"}

    def act() -> list[str]:
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        return broken_by_result(roofsim.run({"model": str(path)} | other).to_dict())

    return Input(f"{text} with {other!r}", act)


def snapshots(random: Random, folder: Path) -> Input:
    """Return a memory snapshot with parts changed, pickled or as JSON, some bytes of it wrong."""
    data: Any = snapshot()
    for _ in range(random.choice((0, 1, 1, 2, 3))):
        at, key = _place(data, random)
        if at is None:
            continue
        if isinstance(at, dict) and random.random() < 0.2:
            at.pop(key)
        elif isinstance(at, list) and random.random() < 0.4:
            at.append(copy.deepcopy(at[key]))
        else:
            at[key] = _snapshot_value(random, at[key])
    kind = random.randrange(4)
    raw = json.dumps(data).encode() if kind == 0 else pickle.dumps(data, random.randrange(6))
    if random.random() < 0.4:
        raw = _damaged(raw, random)
    path = folder / ("snapshot.json" if kind == 0 else "snapshot.pickle")

    def act() -> list[str]:
        path.write_bytes(raw)
        measured = read_snapshot(path)
        replay(measured)
        return broken_by_snapshot(measured_of(measured).to_dict())

    return Input(raw.decode("latin-1"), act)


def _snapshot_value(random: Random, old: Any) -> Any:
    if isinstance(old, int) and random.random() < 0.6:
        return random.choice((old + 1, old - 1, old * 2, 0, -old, old + 511, 1, 2**40, 2**62, 2**64))
    return hostile(random)


def _place(data: Any, random: Random) -> tuple[Any, Any]:
    """Return a container somewhere in the data and a key of it."""
    at = data
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return None, None
        key = random.choice(keys)
        if not isinstance(at[key], dict | list) or random.random() < 0.1:
            return at, key
        at = at[key]


def _damaged(raw: bytes, random: Random) -> bytes:
    data = bytearray(raw)
    for _ in range(random.choice((1, 1, 2, 5, 20))):
        place = random.randrange(len(data) + 1)
        pick = random.random()
        if pick < 0.5 and place < len(data):
            data[place] = random.randrange(256)
        elif pick < 0.7:
            data[place:place] = bytes(random.randrange(256) for _ in range(random.choice((1, 2, 9))))
        elif pick < 0.9:
            del data[place : place + random.choice((1, 2, 30))]
        else:
            del data[place:]
    return bytes(data)
