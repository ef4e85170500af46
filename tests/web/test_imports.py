"""Hold what runs in a browser to what it may import: each question in a process that refuses every other distribution."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

#: A run, right or wrong.
ENGINE = {"numpy", "yaml"}
PYDANTIC = {"pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"}
#: The answer as HTML: templates, the text that is printed, and lines of equal time.
SHOWN = {"jinja2", "markupsafe", "rich", "contourpy"}
CODE = """
import json, sys

allowed = set(sys.argv[1].split(",")) | {"roofsim"} | set(sys.stdlib_module_names)


class Refuse:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in allowed and not top.startswith("_sysconfigdata"):  # a part of sysconfig
            raise ImportError(f"imports {top}")


sys.meta_path.insert(0, Refuse())
exec(sys.stdin.read())
"""
SMALL = {"model": "gpt2-124m", "hardware": {"gpu": "a100"}}
SEVERAL = {"model": "llama3-8b", "hardware": {"gpu": "h100", "gpus": 8}, "parallel": {"tensor": 4}}
SERVED = {"model": "llama3-8b", "hardware": {"gpu": "h100"}}
ASKED = {
    "run": (SMALL, {}),
    "run-several": (SEVERAL, {}),
    "compare": (SMALL, {"gpus": ["a100", "h100"]}),
    "fit": (SEVERAL, {}),
    "memory": (SEVERAL, {}),
    "serve": (SERVED, {}),
    "sweep": (SMALL, {"axes": {"workload.micro_batch_size": [1, 2, 4]}}),
    "whatif": (SMALL, {"changes": ["hardware.gpu=h100"]}),
    "timeline": (SEVERAL, {}),
    "explain": (SMALL, {"figure": "step_time"}),
    "need": (SMALL, {"step_time": "50 ms"}),
    "advise": (SMALL, {}),
    "plan": (SMALL, {"gpus": 2, "gpu": "a100"}),
}


def fresh(code, *allowed):
    """Run code in a process of its own that imports nothing else, and return what it prints."""
    words = [sys.executable, "-c", CODE, ",".join(allowed)]
    done = subprocess.run(words, input=code, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("scenario", [SMALL, SEVERAL], ids=["one card", "several"])
def test_a_run_imports_numpy_and_yaml(scenario):
    seconds = float(fresh(f"import roofsim; print(roofsim.run({scenario!r}).step_time)", *ENGINE))
    assert seconds > 0.0


def test_what_is_wrong_is_said_with_pydantic():
    wrong = SMALL | {"workload": {"micro_batch_size": "x"}}
    code = f"import roofsim\ntry:\n    roofsim.run({wrong!r})\nexcept roofsim.SpecError as error:\n    print(error)"
    assert "expected a whole number; got 'x'" in fresh(code, *ENGINE, *PYDANTIC)


@pytest.mark.parametrize("name", ASKED)
def test_answers_import_numpy_and_yaml_and_pages_what_the_bundle_holds(name):
    """Ask for data, then let come what pages take, and ask for the page."""
    verb, (scenario, options) = name.partition("-")[0], ASKED[name]
    data, page = (json.dumps({"scenario": scenario, "options": options, "html": html}) for html in (False, True))
    code = (
        "from roofsim.web.in_browser import answer\n"
        f"print(answer({verb!r}, {data!r}))\n"
        f"allowed |= {SHOWN!r}\n"
        f"print(answer({verb!r}, {page!r}))\n"
    )
    answers = [json.loads(line) for line in fresh(code, *ENGINE).splitlines()]
    for answer in answers:
        assert answer["ok"], answer["error"]["message"]
    assert answers[0]["data"]
    assert "<" in answers[1]["html"]


@pytest.mark.parametrize(
    ("section", "values", "message", "hint"),
    [
        ("workload", {"micro_batch_size": "x"}, "--micro-batch-size: workload.micro_batch_size: cannot be 'x'", ""),
        ("workload", {"micro_batch_size": 0}, "--micro-batch-size: workload.micro_batch_size: cannot be 0", ""),
        (
            "workload",
            {"sequence_length": "4 cats"},
            "--sequence-length: workload.sequence_length: cannot be '4 cats'",
            "4 cats",
        ),
        ("workload", {"sequnce_length": 4}, "unknown key 'sequnce_length'", "Did you mean 'sequence_length'"),
        ("hardware", {"gpus": "x"}, "hardware.gpus: cannot be 'x'", ""),
    ],
)
def test_without_pydantic_the_place_of_what_is_wrong_is_said(section, values, message, hint):
    wrong = SMALL | {section: SMALL.get(section, {}) | values}
    code = f"from roofsim.web.in_browser import answer\nprint(answer('run', {json.dumps({'scenario': wrong})!r}))"
    error = json.loads(fresh(code, *ENGINE))["error"]
    assert message in error["message"]
    assert hint in error["message"]
    assert error["key"] == f"{section}.{next(iter(values))}"


def test_a_package_that_comes_later_ends_the_question_unanswered():
    wrong = {"scenario": SMALL | {"workload": {"micro_batch_size": "x"}}}
    assert fresh(
        "import sys\n"
        "import roofsim, roofsim.web.ask, roofsim.web.worker, numpy, yaml\n"
        "from roofsim.web.in_browser import answer, arrived, expect_later\n"
        f"request = {json.dumps(wrong)!r}\n"
        "expect_later(['pydantic'])\n"
        "sys.meta_path.insert(0, sys.meta_path.pop())  # as where no finder before it has the package\n"
        "print([answer('run', request)])\n"
        "arrived()\n"
        "print(json.loads(answer('run', request))['error']['message'])\n",
        *ENGINE,
        *PYDANTIC,
    ).splitlines() == ["['']", "--micro-batch-size: workload.micro_batch_size: expected a whole number; got 'x'"]
