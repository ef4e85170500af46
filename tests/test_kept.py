"""What is kept is what would be made again: keys tell apart whatever matters, results share nothing that changes."""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import Any

import numpy as np
import pytest

import roofsim
from roofsim import structures
from roofsim.errors import PassError
from roofsim.graph.opgraph import OpGraph
from roofsim.kept import Kept, NoKeyError, key_of, remembered
from roofsim.passes.manager import run_passes
from roofsim.spec import catalog
from roofsim.spec.reading.source import read_kept
from roofsim.structures import forget, program_of
from tests.scenarios import TINY_LLAMA
from tests.surely import noted

CASES: list[dict[str, Any]] = [
    {"model": TINY_LLAMA, "workload": {"sequence_length": 64}, "hardware": {"gpu": "a100"}},
    {"model": TINY_LLAMA, "workload": {"sequence_length": 128}, "hardware": {"gpu": "a100"}},
    {"model": TINY_LLAMA, "workload": {"sequence_length": 64, "recompute": "full"}, "hardware": {"gpu": "a100"}},
    {"model": TINY_LLAMA, "workload": {"sequence_length": 64, "precision": "fp16"}, "hardware": {"gpu": "v100"}},
    {"model": TINY_LLAMA, "workload": {"phase": "decode", "context_length": 64}, "hardware": {"gpu": "h100"}},
    {"model": TINY_LLAMA, "workload": {"phase": "generate", "prompt_length": 32, "output_length": 8}, "hardware": {"gpu": "h100"}},
    {"model": TINY_LLAMA, "workload": {"sequence_length": 64}, "parallel": {"pipeline": 2}, "hardware": {"gpu": "a100", "gpus": 4}},
    {"model": "resnet18", "workload": {"batch_size": 8}, "hardware": {"gpu": "h100"}},
]  # fmt: skip


def fresh(case):
    forget()
    return roofsim.run(case).to_dict()


def test_an_answer_is_the_same_whatever_was_asked_before():
    alone = [fresh(case) for case in CASES]
    forget()
    for _ in range(2):
        assert [roofsim.run(case).to_dict() for case in reversed(CASES)] == alone[::-1]


def test_answers_of_threads_are_those_of_one():
    alone = [fresh(case) for case in CASES]
    forget()
    answers = {}

    def ask(place):
        answers[place] = roofsim.run(CASES[place % len(CASES)]).to_dict()

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(2 * len(CASES))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answers[place] for place in range(2 * len(CASES))] == alone * 2


def test_a_structure_is_built_once_for_all_cards(monkeypatch):
    forget()
    built: list[Any] = []
    monkeypatch.setattr(structures, "build", lambda resolved, **more: noted(built, 1) or build(resolved, **more))
    from roofsim.program import build

    for gpu in ("a100", "h100", "l4"):
        roofsim.run(CASES[0], gpu=gpu)
    assert len(built) == 1
    roofsim.run(CASES[1])
    assert len(built) == 2


def test_no_more_than_some_are_kept():
    kept: Kept[Any] = Kept(2)
    for key in "abcab":
        assert kept.get(key, key.upper) == key.upper()
    assert len(kept) == 2


def test_what_is_kept_weighs_no_more_than_it_may_but_for_the_latest():
    kept: Kept[list[int]] = Kept(10, len)
    for size in (4, 5, 3):
        kept.get(size, partial(list, range(size)))
    assert [kept.known(size) is None for size in (4, 5, 3)] == [True, False, False]
    assert len(kept.get(20, lambda: [0] * 20)) == 20
    assert len(kept) == 1
    kept.clear()
    kept.get(5, lambda: [0] * 5)
    kept.get(4, lambda: [0] * 4)
    assert len(kept) == 2


def test_keys_tell_values_apart_and_refuse_arrays():
    one, other = (roofsim.resolve(case) for case in CASES[:2])
    assert key_of(one.workload) != key_of(other.workload)
    assert key_of(one.model, one.engine) == key_of(other.model, other.engine)
    assert key_of(True) != key_of(1)
    with pytest.raises(NoKeyError):
        key_of(one.model.with_sizes(hidden_size=np.array([1.0, 2.0])))


def test_a_file_of_the_catalog_is_read_again_once_it_has_changed(tmp_path):
    path = tmp_path / "card.yaml"
    path.write_text("name: one\n", encoding="utf-8")
    first = read_kept(path)
    assert read_kept(path) is first
    path.write_text("name: two\n", encoding="utf-8")
    os.utime(path, ns=(1, 1))
    assert read_kept(path).data == {"name": "two"}


def test_nothing_changes_a_document_of_the_catalog():
    before = {name: repr(catalog.load("gpu", name).data) for name in ("a100-sxm4-80gb", "h100-sxm5-80gb")}
    roofsim.run("gpt2-124m", gpu={"inherits": "h100", "memory": {"bandwidth": "4 TB/s"}})
    roofsim.run("gpt2-124m", gpu="a100", hardware__override={"gpu.memory.bandwidth": "2x"})
    assert before == {name: repr(catalog.load("gpu", name).data) for name in before}


class Breaks:
    """A pass that leaves out the first op."""

    name = "breaks"
    requires: frozenset[str] = frozenset()
    ensures: frozenset[str] = frozenset()

    def __call__(self, graph):
        return OpGraph(graph.ops[1:])


@pytest.mark.parametrize("verify", [True, False])
def test_a_pass_that_breaks_a_graph_is_named(monkeypatch, verify):
    monkeypatch.setenv("ROOFSIM_VERIFY", "1" if verify else "")
    graph = program_of(roofsim.resolve(CASES[0])).stages[0].graph
    broken: Any = Breaks()
    with pytest.raises(PassError, match="breaks left a broken graph"):
        run_passes(graph, [broken])


def test_passes_of_a_server_are_built_once(monkeypatch):
    forget()
    built: list[Any] = []
    build = vars(structures)["serving_pass"]
    monkeypatch.setattr(structures, "serving_pass", lambda *a, **k: noted(built, a) or build(*a, **k))
    asked = {"phase": "generate", "prompt_length": 64, "output_length": 16, "request_rate": 2}
    first = roofsim.serve({"model": TINY_LLAMA, "workload": asked, "hardware": {"gpu": "h100"}}).to_dict()
    number = len(built)
    assert 0 < number <= 9
    assert roofsim.serve({"model": TINY_LLAMA, "workload": asked, "hardware": {"gpu": "h100"}}).to_dict() == first
    roofsim.serve({"model": TINY_LLAMA, "workload": asked, "hardware": {"gpu": "a100"}})
    assert len(built) <= number + 2  # sizes that depend on the card's memory alone
    forget()
    assert roofsim.serve({"model": TINY_LLAMA, "workload": asked, "hardware": {"gpu": "h100"}}).to_dict() == first


def test_a_record_remembers_by_arguments():
    class Record:
        calls = 0

        @remembered
        def of(self, number, other=0.0):
            self.calls += 1
            return number + other

    one, other = Record(), Record()
    assert [one.of(1.0), one.of(1.0), one.of(1.0, 2.0), one.of(0.0), one.of(0.0)] == [1.0, 1.0, 3.0, 0.0, 0.0]
    assert one.calls == 3
    assert (other.of(1.0), other.calls) == (1.0, 1)


def test_many_are_made_at_once_and_kept_each_by_itself():
    kept: Kept[Any] = Kept(2)
    asked: list[Any] = []

    def make(places):
        asked.append(places)
        return [10 * place for place in places]

    assert kept.get_all(["a", "b", "a", "c"], make) == [20, 10, 20, 30]
    assert kept.get_all(["c", "a", "d"], make)[0] == 30
    assert asked == [[2, 1, 3], [2]] or len(asked) == 2
    assert kept.known("e") is None


def test_a_first_stage_that_was_built_is_not_built_again(monkeypatch):
    """A search rules layouts out by their first stage, and builds the rest of those that are left."""
    from roofsim import program
    from roofsim.api import resolve

    scenario = resolve(CASES[-2]["model"], parallel__pipeline=2, gpu="a100", gpus=4, workload__sequence_length=64)
    forget()
    built: list[Any] = []
    stage = program._stage
    monkeypatch.setattr(program, "_stage", lambda *args: noted(built, args[2].name) or stage(*args))
    first = structures.first_stage_of(scenario)
    whole = program_of(scenario)
    assert whole.stages[0] is first.stages[0]
    assert built == ["stage 0", "stage 1"]
