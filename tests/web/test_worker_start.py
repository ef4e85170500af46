"""What a first answer waits for: nothing that a worker could have done before; and what is said where the extra is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
