"""The worker of the static page under Node: what it does around Python always, and Python itself where its packages are at hand.

The latter takes what `tests.web.whole_site` finds.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from roofsim.web.bundle.pins import pins
from roofsim.web.bundle.site import laid_out, write_site
from roofsim.web.in_browser import answer
from tests.web.whole_site import whole_site

HERE = Path(__file__).parent
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="there is no node here")

REQUEST = {"scenario": {"model": "gpt2-124m"}, "options": {}}
SLIP = {"scenario": {"model": "gpt2-124m", "workload": {"micro_batch_size": "x"}}}
TYPO = {"scenario": {"model": "gpt2-124m", "workload": {"micro_batch_size": "y"}}}
RECORDED: list[dict[str, Any]] = [
    {"verb": "run", "request": REQUEST, "answer": {"ok": True, "headline": "14.9 ms · é"}},
    {
        "verb": "run",
        "request": SLIP,
        "answer": {"ok": False, "error": {"message": "expected a whole number"}},
        "later": True,
    },
    {
        "verb": "run",
        "request": TYPO,
        "answer": {"ok": False, "error": {"message": "cannot be 'y'", "key": "workload.micro_batch_size"}},
        "later": True,
    },
]
SMALL = {"model": "gpt2-124m", "hardware": {"gpu": "a100"}}
SEVERAL = {"model": "llama3-70b", "hardware": {"gpu": "h100", "gpus": 64}, "parallel": {"tensor": 8, "pipeline": 4}}
ASKED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("run", {"scenario": SMALL}),
    (
        "run",
        {
            "scenario": {
                "model": "llama3-70b",
                "hardware": {"gpu": "h100", "gpus": 64},
                "parallel": {"tensor": 8, "pipeline": 4},
            }
        },
    ),
    ("run", {"scenario": {"model": "resnet50", "hardware": {"gpu": "v100"}, "workload": {"batch_size": 64}}}),
    ("compare", {"scenario": SMALL, "options": {"gpus": ["a100", "h100", "rtx4090"]}}),
    ("fit", {"scenario": {"model": "llama3-8b", "hardware": {"gpu": "rtx4090"}}}),
    ("memory", {"scenario": SMALL}),
    ("serve", {"scenario": {"model": "llama3-8b", "hardware": {"gpu": "h100"}}}),
    ("sweep", {"scenario": SMALL, "options": {"axes": {"workload.micro_batch_size": [1, 2, 4]}}}),
    ("timeline", {"scenario": SMALL}),
    ("explain", {"scenario": SMALL, "options": {"figure": "step_time"}}),
    ("run", {"scenario": {"model": "gpt2-124m", "hardware": {"gpu": "a1001"}}}),
)


def posted(site, loader, questions, **environment):
    """Return what the worker posts: what it loaded, its states, and its answers by the number of their question."""
    words = [str(NODE), str(HERE / "node_worker.mjs"), str(site), str(HERE / loader)]
    text = json.dumps({"questions": questions, "offline": True})
    done = subprocess.run(
        words, input=text, capture_output=True, text=True, check=False, env=os.environ | environment, timeout=600
    )
    said = [json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("POSTED ")]
    assert said, done.stderr[-2000:]
    return said


def answers(said):
    return {each["id"]: json.loads(each["answer"]) for each in said if "id" in each}


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory):
    """A site whose packages are at hand, of contents that nobody looks into."""
    folder = tmp_path_factory.mktemp("site")
    start = {wheel.file: b"PK" for wheel in pins().wheels if wheel.when == "start"}
    core = dict.fromkeys(pins().files, b"//")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("roofsim.web.bundle.site.compiler_of", lambda *_: None)
        write_site(laid_out(core=core, wheels=start), folder)
    recorded = folder / "recorded.json"
    recorded.write_text(json.dumps(RECORDED), encoding="utf-8")
    return folder, {"RECORDED": str(recorded)}


@needs_node
def test_the_worker_unpacks_starts_and_answers_in_order(stand_in):
    site, recorded = stand_in
    said = posted(
        site, "stand_in_pyodide.mjs", [["run", REQUEST], ["run", {"unknown": 1}], ["run", REQUEST]], **recorded
    )
    loaded = next(each["loaded"] for each in said if "loaded" in each)
    packages = f"/lib/python{pins().python}/site-packages"
    assert loaded["name"] == "roofsim.web.in_browser"
    assert loaded["info"] == pins().info
    assert f"{packages}/roofsim/api.py" in loaded["written"]
    import roofsim

    assert loaded["written"][f"{packages}/roofsim/api.py"] == (Path(roofsim.__file__).parent / "api.py").stat().st_size
    assert [size for name, size in loaded["written"].items() if name.startswith("wheel ")] == [2, 2]
    assert [each["state"] for each in said if "state" in each] == [
        "Fetching Python",
        "Fetching roofsim",
        "Starting roofsim",
    ]
    assert [each["id"] for each in said if "id" in each] == [1, 2, 3]
    given = answers(said)
    assert given[1] == given[3] == RECORDED[0]["answer"]
    assert given[2]["error"]["message"] == "Python failed: KeyError: 'nobody recorded this'"


@needs_node
def test_what_comes_later_is_fetched_when_it_is_needed_and_its_lack_is_said(stand_in):
    site, recorded = stand_in
    said = posted(site, "stand_in_pyodide.mjs", [["run", REQUEST], ["run", SLIP], ["run", REQUEST]], **recorded)
    fetched = next(each["fetched"] for each in said if "fetched" in each)
    later = {wheel.url for wheel in pins().wheels if wheel.when == "later"}
    assert later <= set(fetched)
    assert not [url for url in fetched if url.startswith("https:") and url not in later]
    given = answers(said)
    assert given[1]["ok"]
    assert "could not be fetched" in given[2]["error"]["message"]
    assert "Ask again when you are online" in given[2]["error"]["message"]
    assert given[3]["ok"]


@needs_node
def test_where_what_explains_an_error_cannot_be_fetched_the_place_is_said_and_the_next_question_tries_again(stand_in):
    site, recorded = stand_in
    said = posted(site, "stand_in_pyodide.mjs", [["run", TYPO], ["run", TYPO]], **recorded)
    given = answers(said)
    assert given[1] == given[2] == RECORDED[2]["answer"]
    assert [each["state"] for each in said if "state" in each][3:] == ["Fetching what explains this"] * 2
    fetched = next(each["fetched"] for each in said if "fetched" in each)
    later = [wheel.url for wheel in pins().wheels if wheel.when == "later"]
    assert [fetched.count(url) for url in later] == [2] * len(later)


@needs_node
def test_what_explains_an_error_is_fetched_once_and_the_question_answered(tmp_path):
    wheels = {wheel.file: b"PK" for wheel in pins().wheels}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("roofsim.web.bundle.site.compiler_of", lambda *_: None)
        write_site(laid_out(core=dict.fromkeys(pins().files, b"//"), wheels=wheels), tmp_path)
    recorded = tmp_path / "recorded.json"
    recorded.write_text(json.dumps(RECORDED), encoding="utf-8")
    said = posted(tmp_path, "stand_in_pyodide.mjs", [["run", SLIP], ["run", SLIP]], RECORDED=str(recorded))
    given = answers(said)
    assert given[1] == given[2] == RECORDED[1]["answer"]
    assert [each["state"] for each in said if "state" in each][3:] == ["Fetching what explains this"]
    fetched = next(each["fetched"] for each in said if "fetched" in each)
    for wheel in pins().wheels:
        assert sum(url.endswith(wheel.file) for url in fetched) == 1, wheel.file


@needs_node
@pytest.mark.parametrize("gone", ["roofsim-", "wheels/numpy-"])
def test_a_file_that_is_missing_is_named(stand_in, tmp_path, gone):
    site, recorded = stand_in
    shutil.copytree(site, tmp_path / "site")
    next(path for path in (tmp_path / "site").rglob("*") if gone in path.as_posix()).unlink()
    said = posted(tmp_path / "site", "stand_in_pyodide.mjs", [["run", REQUEST]], **recorded)
    failed = next(each["failed"] for each in said if "failed" in each)
    assert gone in failed
    assert "cannot be fetched (404)" in failed


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A site with Python and all that a first answer takes."""
    site = tmp_path_factory.mktemp("whole")
    write_site(whole_site(), site)
    return site


@needs_node
def test_figures_are_those_of_this_python(whole):
    questions = [(verb, {**request, "html": False}) for verb, request in ASKED]
    given = answers(posted(whole, "node_pyodide.mjs", questions))
    assert len(given) == len(ASKED)
    figures: list[bool] = []
    for place, (verb, request) in enumerate(questions):
        ours, theirs = json.loads(answer(verb, json.dumps(request))), given[place + 1]
        assert theirs["ok"] == ours["ok"], (verb, theirs.get("error"))
        figures += same(theirs.get("data", theirs.get("error")), ours.get("data", ours.get("error")), verb)
    assert len(figures) > 3000
    assert sum(figures) > 0.9 * len(figures)  # to the last digit


def same(theirs, ours, where):
    """Hold two answers to one another, and return for each number whether it is the same to the last digit.

    What logarithms and powers round to differs by a digit between libraries; elasticities divide differences of nearly equal times.
    """
    assert type(theirs) is type(ours), where
    if isinstance(ours, dict):
        assert list(theirs) == list(ours), where
        return [each for key in ours for each in same(theirs[key], ours[key], f"{where}/{key}")]
    if isinstance(ours, list):
        assert len(theirs) == len(ours), where
        pairs = enumerate(zip(theirs, ours, strict=True))
        return [each for place, pair in pairs for each in same(*pair, f"{where}/{place}")]
    if isinstance(ours, float):
        loose = any(word in where for word in ("elasticity", "headroom"))
        assert theirs == pytest.approx(ours, rel=1e-8 if loose else 1e-13), where
        return [theirs == ours]
    assert theirs == ours, where
    return [True] if isinstance(ours, int) and not isinstance(ours, bool) else []


@needs_node
def test_a_first_answer_is_there_within_the_time_of_a_laptop(whole):
    """Processor time, which other work on the machine does not lengthen as it does the time on the clock."""
    said = posted(whole, "node_pyodide.mjs", [["run", {"scenario": SMALL}]])
    first = next(each for each in said if "id" in each)
    assert json.loads(first["answer"])["html"]
    assert first["cpu"] < 6.0, f"{sys.version}: {first}"
