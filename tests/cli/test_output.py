"""Answers arrive or say why not: files whole or not at all, any standard output, names that are no commands."""

from __future__ import annotations

import io
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from roofsim.cli.app import main
from roofsim.errors import OutputError
from roofsim.output import encoded, replacing, save_text, visible
from tests.surely import sure

ROOT = Path(__file__).resolve().parents[2]
TINY = "{family: decoder, num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 100, max_sequence_length: 64}"
#: Every kind of file that a verb writes.
FILES = [
    (["run", "TINY", "--plot"], "answer.png"),
    (["run", "TINY", "--plot"], "answer.pdf"),
    (["run", "TINY", "--trace"], "trace.json"),
    (["run", "TINY", "--html"], "answer.html"),
    (["compare", "TINY", "a100", "h100", "--plot"], "cards.png"),
    (["memory", "TINY", "--plot"], "curve.png"),
    (["timeline", "TINY", "--plot"], "lanes.png"),
    (["timeline", "TINY", "--trace"], "lanes.json"),
    (["graph", "TINY", "--output"], "graph.graphml"),
    (["graph", "TINY", "--output"], "graph.svg"),
    (["collectives", "--system", "dgx-h100", "--plot"], "collectives.png"),
    (["calibrate", "measure", "--force", "--output"], "measure.py"),
]


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(f"model: {TINY}\n")
    return path


def command(*words, **how):
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | how.pop("env", {})
    return subprocess.run(
        [sys.executable, "-m", "roofsim", *map(str, words)], capture_output=how.pop("capture_output", True), text=True,
        env=environment, check=False, timeout=60, **how,
    )  # fmt: skip


def inside(monkeypatch, *words, encoding="utf-8"):
    """Run in this process with a standard output of an encoding that refuses what it lacks."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict") for _ in range(2))
    err.reconfigure(errors="backslashreplace")
    monkeypatch.setattr(sys, "argv", ["roofsim", *map(str, words)])
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with pytest.raises(SystemExit) as stop:
        main()
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode(encoding))
    return stop.value.code, *texts


def assert_one_line(err):
    assert err.startswith("roofsim: cannot ")
    assert err.count("\n") == 1
    assert "defect" not in err


# -- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("words", "name"), FILES, ids=[f"{words[0]}-{name}" for words, name in FILES])
def test_a_file_that_cannot_be_written_leaves_the_old_one(words, name, tiny, tmp_path, monkeypatch):
    """The disk is full behind the first bytes: nothing is cut, nothing is left beside, one line says so."""
    folder = tmp_path / "out"
    folder.mkdir()
    target = folder / name
    target.write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, hard))
    try:
        code, out, err = inside(monkeypatch, *[tiny if word == "TINY" else word for word in words], target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert code == 1
    assert_one_line(err)
    assert "File too large" in err
    assert [path.name for path in folder.iterdir()] == [name]
    assert target.read_text() == "old"
    assert out.strip() or words[0] == "calibrate"  # the answer is worth reading all the same
    monkeypatch.undo()
    code, _, err = inside(monkeypatch, *[tiny if word == "TINY" else word for word in words], target)
    assert (code, err) == (0, "")
    assert target.stat().st_size > 512
    assert [path.name for path in folder.iterdir()] == [name]


@pytest.mark.parametrize("place", ["folder", "proc"])
def test_places_that_take_no_file(place, tiny, tmp_path, monkeypatch):
    target = tmp_path / "answer.png" if place == "folder" else Path("/proc/answer.png")
    if place == "folder":
        target.mkdir()
    code, _, err = inside(monkeypatch, "run", tiny, "--plot", target)
    assert code == 1
    assert_one_line(err)
    assert str(target) in err


def test_a_full_device_behind_a_link(tiny, tmp_path, monkeypatch):
    target = tmp_path / "trace.json"
    target.symlink_to("/dev/full")
    code, _, err = inside(monkeypatch, "run", tiny, "--trace", target)
    assert code == 1
    assert_one_line(err)
    assert "No space left on device" in err


def test_a_new_file_has_the_usual_permissions_and_an_old_one_keeps_its_own(tmp_path):
    new, old, link = tmp_path / "new", tmp_path / "old", tmp_path / "link"
    (tmp_path / "usual").write_text("")
    old.write_text("old")
    old.chmod(0o640)
    link.symlink_to(old)
    save_text(new, "text")
    save_text(link, "text")
    assert new.stat().st_mode == (tmp_path / "usual").stat().st_mode
    assert old.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert old.read_text() == "text"


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, OSError(28, "No space left on device")])
def test_whatever_stops_the_writing_the_old_file_stays(tmp_path, error):
    target = tmp_path / "file"
    target.write_text("old")
    expected = OutputError if isinstance(error, OSError) else error

    def write():
        with replacing(target) as beside:
            beside.write_text("half")
            raise error

    with pytest.raises(expected):
        write()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_names_that_no_file_can_have(tiny, monkeypatch):
    endless = "n" * 300
    for words in (
        ["run", tiny, "--plot", f"{endless}.png"],
        ["run", tiny, "--plot", f"{endless}/x.png"],
        ["run", endless],
        ["run", f"{endless}.yaml"],
        ["run", f"{endless}/{endless}"],
        ["run", tiny, "--calibration", endless],
        ["run", tiny, "--set", f"model={endless}"],
        ["run", tiny, "--set", f"model={endless}.json"],
        ["memory", "--snapshot", endless],
        ["calibrate", "fit", endless],
        ["calibrate", "measure", "--output", f"{endless}.py"],
        ["show", "gpu", endless],
        ["list", endless],
        ["run", "n" * 100_000],
        ["run", tiny, "n" * 100_000],
        ["n" * 100_000],
    ):
        code, out, err = inside(monkeypatch, *words)
        assert code in (1, 2), words
        assert out == "" or code == 1
        assert "defect" not in err
        assert err.startswith(("roofsim: ", "Usage: "))
        assert len(err) < 3_000


# -- standard output ------------------------------------------------------------------------------------------------


def test_a_full_standard_output(tiny):
    with Path("/dev/full").open("w") as full:
        process = command("run", tiny, stdout=full, stderr=subprocess.PIPE, capture_output=False)
    assert process.returncode == 1
    assert_one_line(process.stderr)
    assert "No space left on device" in process.stderr


def test_a_closed_standard_output(tiny):
    process = command("run", tiny, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, capture_output=False,
                    preexec_fn=lambda: os.close(1))  # fmt: skip
    assert process.returncode == 1
    assert_one_line(process.stderr)


def test_a_pipe_that_nobody_reads(tiny):
    reading, writing = os.pipe()
    os.close(reading)
    process = command("run", tiny, stdout=writing, stderr=subprocess.PIPE, capture_output=False)
    os.close(writing)
    assert process.returncode == 1
    assert_one_line(process.stderr)


def test_a_reader_who_leaves_loses_no_file(tiny, tmp_path):
    """`roofsim ... | head -1`: the answer is longer than a pipe holds, the reader goes after its first line."""
    trace = tmp_path / "trace.json"
    words = [sys.executable, "-m", "roofsim", "timeline", "gpt2-1558m", "--json", "--pipeline", "8", "--gpus", "8",
             "--global-batch-size", "64", "--trace", str(trace)]  # fmt: skip
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(ROOT)}
    ) as process:
        assert sure(process.stdout).read(1)
        sure(process.stdout).close()
        error = sure(process.stderr).read()
    assert (process.returncode, error) == (0, b"")
    assert json.loads(trace.read_text())["traceEvents"]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
@pytest.mark.parametrize(
    "words",
    [
        ["run", "NAMED"], ["run", "NAMED", "--csv"], ["run", "NAMED", "--json"], ["memory", "NAMED"],
        ["memory", "NAMED", "--curve"],
        ["ops", "NAMED"], ["ops", "NAMED", "--listing"], ["timeline", "NAMED"], ["explain", "NAMED"], ["fit", "NAMED"],
        ["graph", "NAMED"],
        ["compare", "NAMED", "h100"], ["list", "gpus"], ["show", "gpu", "a100"], ["collectives", "--system", "dgx-h100"],
        ["schema"], ["--help"], ["run", "--help"],
    ],
    ids="-".join,
)  # fmt: skip
def test_any_encoding_has_an_answer(words, encoding, tmp_path, monkeypatch):
    path = tmp_path / "modèle-模型.yaml"
    path.write_text(f"model: {TINY[:-1]}, name: 'modèle 模型 \\ud83d µ'}}\n".replace("\\ud83d", ""), encoding="utf-8")
    code, out, err = inside(monkeypatch, *[path if word == "NAMED" else word for word in words], encoding=encoding)
    assert code == 0, err
    assert out.strip()
    assert "defect" not in err


def test_signs_that_an_encoding_lacks_have_stand_ins():
    assert encoded("a · b 3 µs … ─│ 模", "ascii") == b"a - b 3 us ... -| ?"
    assert encoded("3 µs · ─", "latin-1") == "3 µs · -".encode("latin-1")
    assert encoded("…─", "cp1252") == "…-".encode("cp1252")
    assert encoded("\udcff", "utf-8") == b"?"
    assert encoded("x", "no such encoding") == b"x"


# -- names ----------------------------------------------------------------------------------------------------------

FOREIGN = {
    "markup": "[bold]a[/x] [link=http://x]y[/link] [/]",
    "emoji code": ":smile: :warning:",
    "colour": "\x1b[31mred\x1b[0m",
    "screen": "\x1b[2J\x1b]0;title\x07",
    "line": "a\rb\x08c\x7f\x9b1m",
    "direction": "a\u202egpj\u2066.\u2028x",
    "formula": "a$b_{$c^ $x^$",
    "format": "{0} %s %(x)d \\n",
}


def assert_harmless(text):
    assert not [sign for sign in text if (ord(sign) < 32 and sign not in "\n\t") or 127 <= ord(sign) < 160], text
    assert not set(text) & set("\u202e\u2066\u2028")


@pytest.mark.parametrize("name", ["markup", "emoji code", "colour", "formula", "format"])
def test_names_stand_as_they_are(name, tmp_path, monkeypatch):
    path = tmp_path / "model.yaml"
    path.write_text(json.dumps({"name": FOREIGN[name], "family": "resnet", "depth": 18}))
    code, out, _ = inside(monkeypatch, "run", path)
    assert code == 0
    assert visible(FOREIGN[name]) in out


def test_names_are_text_in_every_answer(tmp_path, monkeypatch):
    name = " ".join(FOREIGN.values())
    card = {"name": f"card {name}", "vendor": name, "memory": {"capacity": "24 GiB", "bandwidth": "1 TB/s"},
            "peak": {"bf16": "150 TFLOP/s"}, "vector_peak": {"fp32": "30 TFLOP/s"}}  # fmt: skip
    model = {"name": f"model {name}", "family": "decoder", "num_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
             "vocab_size": 100, "max_sequence_length": 64}  # fmt: skip
    folder = tmp_path / name.replace("/", "|").replace("\x00", "")
    folder.mkdir()
    path = folder / "scenario.yaml"
    path.write_text(json.dumps({"model": model, "hardware": {"gpu": card}}), encoding="utf-8")
    for words in (
        ["run", path], ["run", path, "--plot", folder / "a.png"], ["run", path, "--csv"], ["memory", path],
        ["memory", path, "--plot", folder / "a.png"], ["memory", path, "--by", "op"], ["ops", path], ["timeline", path],
        ["timeline", path, "--plot", folder / "a.png"], ["explain", path], ["fit", path], ["ops", path, "--listing"],
        ["compare", path, "a100", "h100", "--plot", folder / "a.svg"],
    ):  # fmt: skip
        code, out, err = inside(monkeypatch, *words)
        assert (code, err) == (0, ""), (words, err)
        assert_harmless(out)


@pytest.mark.parametrize("name", FOREIGN.values(), ids=FOREIGN)
def test_names_are_text_in_every_refusal(name, tmp_path, monkeypatch):
    path = tmp_path / "scenario.yaml"
    path.write_text(json.dumps({"model": "gpt", "workload": {name: 1, "engine": name}, "hardware": {"gpu": name}}))
    for words in (
        ["run", path], ["run", f"{name}.yaml"], ["run", name], ["run", "gpt", "--gpu", name], ["run", "gpt", f"--{name}"],
        [name], ["list", name], ["show", name, name], ["run", "gpt", "--set", name], ["memory", "--snapshot", name],
        ["run", "gpt", "--plot", name], ["collectives", "--system", name], ["collectives", "--system", "dgx-h100", "--sizes", name],
        ["validate", "--source", name], ["calibrate", "fit", name], ["ops", "gpt", "--by", name], ["explain", "gpt", name],
    ):  # fmt: skip
        code, _, err = inside(monkeypatch, *words)
        assert code == 2, (words, err)
        assert_harmless(err)
