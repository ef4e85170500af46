"""What the static page does around its worker, and what keeps it offline, under Node: no browser and no Python in it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import roofsim

HERE = Path(__file__).parent
STATIC = Path(roofsim.__file__).parent / "web" / "static"
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="there is no node here")

ANSWER = {"ok": True, "headline": "14.9 ms"}
HOST = "https://host.example/app/"
PINNED = "https://cdn.example/python.wasm"


def told(script, where, said):
    """Return what a script of Node says of what it is told."""
    done = subprocess.run(
        [str(NODE), str(HERE / script), str(where)],
        input=json.dumps(said),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


# -- questions and the worker -----------------------------------------------------------------------------------------


@pytest.fixture
def played(tmp_path):
    """Return a function that plays steps before the page."""
    (tmp_path / "static").mkdir()
    shutil.copy(STATIC / "pyodide.js", tmp_path / "static")
    (tmp_path / "static" / "package.json").write_text('{"type": "module"}')
    (tmp_path / "bundle.json").write_text(json.dumps({"snapshot": {"url": "memory.gz"}}))

    def came(*steps):
        seen = told("node_page.mjs", tmp_path, steps)
        # A worker that is asked before it is told to start never answers.
        assert {worker.pop("first") for worker in seen["workers"]} == {"start"}
        return seen

    return came


def ask(name):
    return ["ask", name, "run", {"scenario": {"model": name}}]


def answer(number):
    return ["say", {"id": number, "answer": json.dumps(ANSWER)}]


def test_questions_are_given_one_at_a_time_in_order(played):
    came = played(ask("a"), ask("b"), ["say", {"state": "Starting"}], ["say", {"ready": {}}], answer(1), answer(2))
    assert came["answers"] == {"a": ANSWER, "b": ANSWER}
    assert came["workers"] == [{"ended": False, "kept": [True], "asked": [[1, "run"], [2, "run"]]}]
    assert came["states"][:2] == ["Starting", ""]


def test_a_question_that_waits_is_taken_back_without_a_trace(played):
    came = played(ask("a"), ask("b"), ["leave", "b"], answer(1), ["wait", 60_000])
    assert came["answers"] == {"a": ANSWER, "b": "AbortError"}
    assert came["workers"] == [{"ended": False, "kept": [True], "asked": [[1, "run"]]}]


def test_a_question_that_was_left_may_end_and_its_answer_is_dropped(played):
    came = played(ask("a"), ["leave", "a"], ask("b"), ["wait", 3900], answer(1), answer(2), ["wait", 60_000])
    assert came["answers"] == {"a": "AbortError", "b": ANSWER}
    assert [each["ended"] for each in came["workers"]] == [False]


def test_python_starts_anew_when_a_question_that_was_left_takes_long(played):
    came = played(ask("a"), ["leave", "a"], ask("b"), ["wait", 3900], ["wait", 200], answer(2))
    assert came["answers"] == {"a": "AbortError", "b": ANSWER}
    assert [(each["ended"], each["asked"]) for each in came["workers"]] == [
        (True, [[1, "run"]]),
        (False, [[2, "run"]]),
    ]


def test_nobody_waits_for_a_question_that_was_left_alone(played):
    came = played(ask("a"), ["leave", "a"], ["wait", 60_000])
    assert [each["ended"] for each in came["workers"]] == [False]  # nothing else is asked: it may go on


def test_the_start_is_waited_for_when_the_first_question_was_left(played):
    came = played(ask("a"), ["leave", "a"], ask("b"), ["wait", 1000], ["say", {"ready": {}}], answer(1), answer(2))
    assert came["answers"]["b"] == ANSWER
    assert len(came["workers"]) == 1


def test_a_start_that_fails_is_said_and_tried_again_by_the_next_question(played):
    came = played(ask("a"), ask("b"), ["say", {"failed": "python.wasm cannot be fetched (404)"}], ask("c"), answer(3))
    for name in "ab":
        assert came["answers"][name]["error"]["message"] == (
            "Python does not start here: python.wasm cannot be fetched (404). Reload the page to try again."
        )
    assert came["answers"]["c"] == ANSWER
    assert [each["ended"] for each in came["workers"]] == [True, False]


def test_a_worker_that_breaks_is_said(played):
    came = played(ask("a"), ["break", "out of memory"])
    assert came["answers"]["a"]["error"]["message"] == "Python stopped: out of memory. Reload the page to try again."


def test_where_a_kept_memory_does_not_run_python_starts_from_nothing(played):
    came = played(ask("a"), ask("b"), ["say", {"bare": "compiled packages lie elsewhere"}], answer(1), answer(2))
    assert came["answers"] == {"a": ANSWER, "b": ANSWER}
    assert [(each["ended"], each["kept"], each["asked"]) for each in came["workers"]] == [
        (True, [True], [[1, "run"]]),
        (False, [False], [[1, "run"], [2, "run"]]),
    ]


def test_a_question_that_breaks_python_twice_is_given_up_and_the_next_one_answered(played):
    broke = ["say", {"bare": "Python broke: out of bounds"}]
    came = played(ask("a"), ask("b"), broke, broke, answer(2))
    assert came["answers"]["a"]["error"]["message"] == "Python broke: out of bounds. Ask again: Python starts anew."
    assert came["answers"]["b"] == ANSWER
    assert [each["ended"] for each in came["workers"]] == [True, True, False]


# -- offline ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path):
    """Return a function that lets a version of the service worker see events."""

    def seen(version, events, *, network, kept=None, optional=False):
        files = [
            {"url": "./"},
            {"url": "static/app.js"},
            {"url": PINNED, "integrity": "sha256-x"},
            {"url": "https://cdn.example/later.whl", "integrity": "sha256-y", "optional": True},
        ]
        script = (STATIC / "service.js").read_text()
        (tmp_path / "service.js").write_text(
            f"const BUNDLE = {json.dumps({'version': version, 'files': files})};\n{script}"
        )
        return told(
            "node_service.mjs", tmp_path / "service.js", {"network": network, "kept": kept or {}, "events": events}
        )

    return seen


ONLINE = {
    HOST: "page",
    f"{HOST}static/app.js": "script",
    PINNED: "wasm",
    "https://cdn.example/later.whl": "wheel",
}


def test_all_of_a_version_is_kept(served):
    came = served("1", ["install"], network=ONLINE)
    assert came["said"] == ["done"]
    assert came["kept"] == {"roofsim-1": ONLINE}
    assert dict(came["fetched"])[PINNED] == "sha256-x"


@pytest.mark.parametrize("gone", sorted(ONLINE))
def test_a_version_is_kept_whole_or_not_at_all(served, gone):
    came = served("1", ["install"], network={url: text for url, text in ONLINE.items() if url != gone})
    if gone.endswith("later.whl"):  # what only some questions need
        assert came["said"] == ["done"]
    else:
        assert came["said"] == [f"failed: {gone}: 404"]


def test_a_new_version_takes_pinned_files_from_the_old_one_and_the_others_from_the_network(served):
    old = {HOST: "old page", PINNED: "wasm of before"}
    came = served("2", ["install", "activate"], network=ONLINE, kept={"roofsim-1": old, "other-page": {HOST: "x"}})
    assert came["said"] == ["done", "done"]
    assert came["kept"] == {"roofsim-2": ONLINE | {PINNED: "wasm of before"}, "other-page": {HOST: "x"}}
    assert PINNED not in dict(came["fetched"])


def test_the_old_version_stays_until_the_new_one_takes_over(served):
    came = served("2", ["install"], network=ONLINE, kept={"roofsim-1": {HOST: "old page"}})
    assert set(came["kept"]) == {"roofsim-1", "roofsim-2"}
    assert came["kept"]["roofsim-1"] == {HOST: "old page"}


def test_what_is_kept_is_served_without_a_network_and_all_else_is_left_alone(served):
    asked = [
        ["fetch", "GET", HOST],
        ["fetch", "GET", f"{HOST}index.html?x=1#scenario=y"],
        ["fetch", "GET", PINNED],
        ["fetch", "POST", HOST],
        ["fetch", "GET", f"{HOST}api/run"],
        ["fetch", "GET", f"{HOST}static/app.js"],
    ]
    kept = {"roofsim-1": {HOST: "page", PINNED: "wasm"}}
    came = served("1", asked, network=None, kept=kept)
    assert came["said"] == ["page", "page", "wasm", None, None, "failed: no network here"]
