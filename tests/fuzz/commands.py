"""The command line: verbs with flags of every kind, files to write to, standard outputs of every kind."""

from __future__ import annotations

import io
import json
import sys
from contextlib import chdir, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from roofsim.cli.app import main
from roofsim.errors import SpecError
from roofsim.output import visible
from tests.fuzz.files import text_of
from tests.fuzz.inputs import Input
from tests.fuzz.laws import broken_by_message, broken_by_numbers, broken_by_result
from tests.fuzz.scenarios import CARDS, QUICK, QUICK_OTHERS, mutated, options, scenario_paths, valid
from tests.fuzz.values import NUMBERS, TEXTS, WORDS, catalog_name, hostile, of_schema

if TYPE_CHECKING:
    from random import Random

ENCODINGS = ("utf-8",) * 6 + ("ascii", "latin-1", "cp1252", "utf-16")
#: Verb -> its own options: a name, and what to draw the value from (None: a flag).
VERBS: dict[str, dict[str, tuple[Any, ...] | None]] = {
    "run": {"--json": None, "--csv": None},
    "compare": {
        "--json": None, "--csv": None, "--gpu": ("a100,h100", "h100", "a100,nothing", ",", ""),
        "--sort": ("speed", "price", "cost", "memory", "x"),
        "--price": ("h100=2.50", "h100=-1", "h100=inf", "h100", "=", "x=1", "h100=1e400"),
    },
    "fit": {"--json": None, "--csv": None, "--largest": ("micro-batch-size", "sequence-length", "model", "x"),
    "--fewest": ("gpus", "x"),
            "--family": ("decoder", "gpt2", "x")},
    "serve": {"--json": None, "--csv": None, "--prompt-length": (64, 1000), "--output-length": (16, 100),
    "--request-rate": (1, 5, 0.1),
              "--concurrency": (1, 8), "--engine": ("vllm", "sglang", "tensorrt-llm")},
    "ops": {"--json": None, "--csv": None, "--by": ("op", "class", "layer", "phase", "x"), "--sort": ("time",
    "flops", "bytes", "program", "x"),
            "--top": (1, 5, 0, -1, 10**9), "--listing": None},
    "memory": {"--json": None, "--csv": None, "--by": ("op", "layer", "role", "stage", "x"), "--curve": None,
    "--top": (1, 3), "--tensor": ("", "x")},
    "timeline": {"--json": None, "--csv": None},
    "graph": {"--json": None, "--csv": None, "--only": ("forward", "backward", "x"), "--block": ("layers", "x", ""),
              "--stage": ("step", "decode", "x"), "--unrolled": None, "--top": (1, 3, 0)},
    "collectives": {"--json": None, "--csv": None, "--system": ("dgx-h100", "dgx-a100", "dgx-2", "x"),
    "--ranks": ("8", "8,16", "0", "-1", "99999"),
                    "--op": ("all_reduce", "all_gather", "send_recv", "x"), "--sizes": ("1 GiB", "1 B",
                    "64 MiB,1 KiB", "0 B", "x"), "--stride": (1, 8, 0, -1),
                    "--engine": ("vllm", "pytorch-eager"), "--gpu": ("h100", "a100")},
    "explain": {"--json": None},
    "list": {"--json": None, "--csv": None},
    "show": {"--json": None},
    "schema": {},
    "init": {"--force": None},
}  # fmt: skip
#: Cards as `compare` takes them: names, counts, systems, what-ifs, and none of these.
CARD_WORDS = (
    *CARDS, "8xa100", "2x(dgx-h100)", "dgx-a100", "a100{memory.bandwidth=2x}", "a100{memory.bandwidth=0x}", "a100{", "0xa100",
    "-1xa100", f"{10**30}xa100", "a100{gpu.nothing=2x}", "h100{memory.capacity=+10%}", "nothing", "",
)  # fmt: skip
#: Files that a verb writes.
WRITES = {
    "run": ("--plot", "--trace"), "compare": ("--plot",), "memory": ("--plot",), "timeline": ("--plot", "--trace"),
    "collectives": ("--plot",), "serve": ("--plot",), "graph": ("--output",),
}  # fmt: skip
NAMES = (
    "out.png",
    "out.svg",
    "out.pdf",
    "out.graphml",
    "out.dot",
    "out.json",
    "OUT.PNG",
    "out.jpg",
    "out",
    ".png",
    "$x$^.png",
    "[/x].png",
    "\x1b[2J.png",
    "模.png",
)


def _value(random: Random, name: str) -> str:
    """Return the text of a scenario option's value."""
    known, definitions = scenario_paths()
    schemas = [schema for path, schema in known if path[-1] == name and len(path) == 2]
    pick = random.random()
    if pick < 0.6 and schemas:
        value = of_schema(schemas[0], definitions, random)
    elif pick < 0.8:
        value = random.choice((*TEXTS, *NUMBERS[:30], *WORDS))
    else:
        value = hostile(random)
    with suppress(ValueError, RecursionError):
        return value if isinstance(value, str) else json.dumps(value)
    return "x"


def _target(random: Random, verb: str) -> str:
    if verb == "init":
        return random.choice(("new.yaml", "scenario.yaml", "nowhere/new.yaml", "folder", "x", *TEXTS[:20]))
    if verb in ("list", "schema"):
        return random.choice(("gpus", "models", "systems", "engines", "scenario", "model", "gpu", "x", *TEXTS[:20]))
    if verb == "show":
        return catalog_name(random) if random.random() < 0.8 else random.choice((*TEXTS, "gpu"))
    pick = random.random()
    if pick < 0.4:
        return "scenario.yaml"
    return random.choice((*QUICK, *QUICK_OTHERS)) if pick < 0.85 else str(random.choice((*TEXTS, catalog_name(random))))


def _words(random: Random, verb: str) -> list[str]:
    words = [verb]
    if verb != "collectives":
        words.append(_target(random, verb))
    if verb == "compare":
        words += random.sample(CARD_WORDS, random.choice((0, 1, 2, 3)))
    if verb == "explain" and random.random() < 0.7:
        words.append(random.choice(("step_time", "memory", "memory.peak", "mfu", "throughput", "cost", "x", "")))
    own = VERBS[verb]
    for name in random.sample(list(own), min(len(own), random.choice((0, 1, 1, 2, 3)))):
        choices = own[name]
        words.append(name)
        if choices is not None:
            words.append(str(random.choice(choices)))
    if verb == "serve":
        words += ["--prompt-length", "64", "--output-length", "16"] if random.random() < 0.7 else []
    if verb not in ("collectives", "init", "list", "show", "schema"):
        words += _scenario_words(random)
    if random.random() < 0.05:
        odd = str(random.choice((*TEXTS, "--nothing", "-x", "--help", "--version")))
        words.insert(random.randrange(len(words) + 1), odd)
    return words


def _scenario_words(random: Random) -> list[str]:
    words = []
    for name in random.sample(options(), random.choice((0, 0, 1, 1, 2, 3))):
        words += [f"--{name.replace('_', '-')}", _value(random, name)]
    if random.random() < 0.2:
        path, _ = random.choice(scenario_paths()[0])
        words += ["--set", f"{'.'.join(path)}={_value(random, path[-1])}"]
    return words


def flags(random: Random, folder: Path) -> Input:
    """Return a command with flags."""
    words = _words(random, random.choice(list(VERBS)))
    return _command(random, folder, words)


def outputs(random: Random, folder: Path) -> Input:
    """Return a command that writes a file to a place where that may be impossible."""
    verb = random.choice(list(WRITES))
    words = (
        ["collectives", "--system", "dgx-h100"]
        if verb == "collectives"
        else [verb, random.choice(("scenario.yaml", "gpt2-124m", "resnet50"))]
    )
    if verb == "serve":
        words += ["--engine", "vllm", "--prompt-length", "64", "--output-length", "16"]
    option = random.choice(WRITES[verb])
    usual = "out.json" if option == "--trace" else "out.png"
    name = (
        usual
        if random.random() < 0.6
        else random.choice(NAMES)
        if random.random() < 0.7
        else str(random.choice(TEXTS[:62]))
    )
    place = random.choice(("", "", "folder/", "nowhere/", "link/", "file/", "full/", "x" * 300 + "/", "/proc/", "old/"))
    return _command(random, folder, [*words, option, place + name])


class _Gone(io.TextIOWrapper):
    """A standard output whose reader has gone, or whose disk is full."""

    def __init__(self, error: OSError) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")
        self.error = error

    def flush(self) -> None:
        raise self.error

    def close(self) -> None:
        pass


def _stream(random: Random) -> Any:
    pick = random.random()
    if pick < 0.03:
        return None
    if pick < 0.06:
        return _Gone(random.choice((BrokenPipeError(32, "Broken pipe"), OSError(28, "No space left on device"))))
    return io.TextIOWrapper(io.BytesIO(), encoding=random.choice(ENCODINGS), errors="strict")


def _command(random: Random, folder: Path, words: list[str]) -> Input:
    scenario = text_of(mutated(valid(random), random, random.choice((0, 0, 1))), random)
    out, err = _stream(random), io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    words = [
        word.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
        for word in words
        if "\x00" not in word
    ]

    def act() -> list[str]:
        _prepare(folder, scenario)
        with chdir(folder), mock.patch.multiple(sys, argv=["roofsim", *words], stdout=out, stderr=err):
            try:
                main()
            except SystemExit as stop:
                code = stop.code
        broken = _broken(code, _text(out), _text(err), words)
        refusal = _text(err)
        if code == 2 and refusal and not broken:
            raise SpecError(refusal)
        return broken

    return Input(f"roofsim {' '.join(map(repr, words))} into {getattr(out, 'encoding', out)} with {scenario}", act)


def _prepare(folder: Path, scenario: str) -> None:
    """Make the places that commands name."""
    (folder / "scenario.yaml").write_text(scenario, encoding="utf-8", errors="replace")
    for name in ("folder", "old"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "old" / "out.png").write_text("old")
    (folder / "file").write_text("a file, and no folder")
    with suppress(FileExistsError):
        (folder / "link").symlink_to(folder / "folder")
    (folder / "full").mkdir(exist_ok=True)
    for name in ("out.png", "out.json"):
        with suppress(FileExistsError):
            (folder / "full" / name).symlink_to("/dev/full")
    (folder / "folder" / "out.svg").mkdir(exist_ok=True)


def _text(stream: Any) -> str | None:
    """Return what a stream got; None where nobody could read it."""
    if stream is None or isinstance(stream, _Gone):
        return None
    stream.flush()
    return str(stream.buffer.getvalue().decode(stream.encoding))


def _broken(code: Any, out: str | None, err: str | None, words: list[str]) -> list[str]:
    err = err or ""
    complaints = []
    if code not in (0, 1, 2):
        complaints.append(f"exit code {code}")
    if code == 0 and err:
        complaints.append(f"an answer with a complaint: {err[:300]}")
    if code in (1, 2) and not (out and words[0] == "compare"):
        complaints += broken_by_message(err)
    if code == 1 and (not err.startswith("roofsim: ") or err.count("\n") != 1):
        complaints.append(f"not one line: {err[:500]}")
    if code == 2 and out and words[0] != "compare":  # which shows cards that cannot run beside those that can
        complaints.append("a refusal beside an answer")
    for text in (out or "", err):
        if visible(text.replace("\r\n", "\n")) != text.replace("\r\n", "\n"):
            complaints.append("signs that a terminal obeys")
    if list(Path().glob(".roofsim-*")):
        complaints.append("a half-written file is left")
    return complaints + (_of_json(out, words) if code == 0 and out else [])


def _of_json(out: str, words: list[str]) -> list[str]:
    """Return the laws that an answer in JSON breaks."""
    if "--json" not in words or {"--csv", "--listing", "--help", "--version"}.intersection(words):
        return []
    data = json.loads(out)
    if words[0] in ("schema", "show", "list"):
        return []
    return broken_by_result(data) if words[0] == "run" and "step_time" in data else broken_by_numbers(data)
