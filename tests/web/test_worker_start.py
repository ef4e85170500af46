"""What a first answer waits for: nothing that a worker could have done before; and what is said where the extra is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from roofsim.web.worker import WARM, until_asked

ROOT = Path(__file__).parents[2]
CODE = """
import json, sys, time
from roofsim.web.worker import answered, warm
warm()
before = set(sys.modules)
answer = answered(sys.argv[1].encode() + b"\\0" + sys.argv[2].encode())
print(json.dumps([answer[:1].decode(), sorted(set(sys.modules) - before)]))
"""
DECODE = {"model": "mistral-7b", "workload": {"phase": "decode", "context_length": 1024}, "hardware": {"gpu": "l40s"}}
TRAIN = {"model": "llama2-13b", "hardware": {"gpu": "h200", "gpus": 8}, "parallel": {"sharding": "full"}}


@pytest.mark.parametrize(
    ("verb", "scenario", "options"),
    [
        ("run", DECODE, {}),
        ("run", TRAIN, {}),
        ("sweep", DECODE, {"axes": {"batch_size": [1, 2, 4]}, "figures": ["step_time"]}),
        ("whatif", TRAIN, {"changes": ["memory.bandwidth=2x"]}),
    ],
)
def test_a_first_answer_imports_nothing(verb, scenario, options):
    command = [sys.executable, "-c", CODE, verb, json.dumps({"scenario": scenario, "options": options})]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert json.loads(done.stdout) == ["1", []]


CONFINED = """
import json, sys
from roofsim.web.worker import _IMPORTED, WARM, answered, confine, warm
confine()
told = [answered(verb.encode() + b"\\0" + json.dumps(request).encode())[:1].decode() for verb, request in WARM]
warm()
print(json.dumps([told, [name for name in _IMPORTED if name not in sys.modules]]))
"""


def test_a_worker_gets_warm_after_it_has_given_up_files():
    """It says that it is ready at once, and is confined before; what it then imports and reads has to be allowed."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", CONFINED], capture_output=True, text=True, check=True, env=environment)
    assert json.loads(done.stdout) == [["1"] * len(WARM), []]


def test_a_question_comes_before_what_is_left_of_getting_warm():
    read, write = os.pipe()
    done = []

    def steps():
        for number in range(4):
            done.append(number)
            if number == 1:
                os.write(write, b"question")
            yield number

    left = steps()
    with os.fdopen(read, "rb", buffering=0) as source:
        until_asked(source, left)
        assert done == [0, 1]
        source.read(8)
        until_asked(source, left)
    assert done == [0, 1, 2, 3]
    os.close(write)


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_a_missing_extra_is_named(missing):
    code = (
        f"import sys; sys.modules[{missing!r}] = None; sys.argv = ['roofsim', 'web', '--port', '0']\n"
        "from roofsim.cli.app import main; main()"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 2
    assert done.stderr.startswith(f"roofsim: the page needs {missing}, which is not installed. ")
    assert "pip install 'roofsim[web]'" in done.stderr


def test_no_other_verb_imports_the_server():
    code = (
        "import sys; sys.argv = ['roofsim', 'run', 'gpt2-124m', '--json']\nfrom roofsim.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(sorted(name for name in sys.modules if name.startswith(('starlette', 'uvicorn', 'roofsim.web'))), file=sys.stderr)"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stderr.strip() == "[]"
