"""A process that answers reads nothing but what it consists of, writes nothing, and starts and reaches nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REFUSED = [
    "open('/etc/passwd')",
    "open(FILE)",
    "open(os.path.join(os.path.dirname(roofsim.__file__), '..', '..', '..', '..', '..', '..', '..', 'etc', 'passwd'))",
    "open('/proc/self/../../etc/passwd')",
    "pathlib.Path(FILE).read_text()",
    "os.open(FILE, os.O_RDONLY)",
    "open(FILE, 'w')",
    "open(NEW, 'w')",
    "open(roofsim.__file__, 'a')",
    "os.open(NEW, os.O_CREAT | os.O_WRONLY)",
    "os.mkdir(NEW)",
    "os.remove(FILE)",
    "os.rename(FILE, NEW)",
    "os.symlink(FILE, NEW)",
    "shutil.copyfile(FILE, NEW)",
    "tempfile.mkstemp()",
    "os.system('true')",
    "os.fork()",
    "subprocess.run(['true'])",
    "socket.create_connection(('127.0.0.1', 9))",
    "socket.socket().bind(('127.0.0.1', 0))",
]
CODE = """
import os, pathlib, shutil, socket, subprocess, sys, tempfile
import roofsim
from roofsim.web.confined import confine
FILE, NEW = sys.argv[1:3]
confine()
for text in sys.argv[3:]:
    try:
        eval(text)
    except OSError:
        print("refused")
    else:
        print("done")
"""


def test_what_an_answer_has_no_use_for_is_refused(tmp_path):
    file, new = tmp_path / "secret.yaml", tmp_path / "new"
    file.write_text("31337", encoding="utf-8")
    command = [sys.executable, "-c", CODE, str(file), str(new), *REFUSED]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment())
    assert dict(zip(REFUSED, done.stdout.split(), strict=True)) == dict.fromkeys(REFUSED, "refused")
    assert [path.name for path in tmp_path.iterdir()] == ["secret.yaml"]


def environment():
    return os.environ | {"PYTHONPATH": f"{ROOT}"}


@pytest.mark.parametrize(
    ("verb", "request_"),
    [
        ("run", {"scenario": {"model": "resnet50", "hardware": {"gpu": "rtx4090"}}}),
        ("sweep", {"scenario": "gpt2-124m", "options": {"axes": {"gpu": ["a100", "mi300x"]}}}),
        ("explain", {"scenario": "bert-large"}),
        ("read", {"text": "vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 2"}),
        ("catalog", {}),
    ],
)
def test_answers_need_nothing_that_is_refused(verb, request_):
    code = (
        "import json, sys\nfrom roofsim.web.confined import confine\nfrom roofsim.web.ask import ask\nconfine()\n"
        "answer = ask(sys.argv[1], json.loads(sys.argv[2]))\nprint(answer['ok'], answer.get('error'))"
    )
    command = [sys.executable, "-B", "-c", code, verb, json.dumps(request_)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/", env=environment())
    assert done.stdout.strip() == "True None", done.stdout + done.stderr
