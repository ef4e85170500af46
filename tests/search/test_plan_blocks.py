"""Tests of searches in blocks: the same bytes in processes, on a cluster that loses a worker, resumed, and from parts."""

import json
import os
import random
import signal
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.plans import planning_tools
from roofsim.search.planning import running, workers
from roofsim.search.planning.asked import PlanRequest
from roofsim.search.planning.blocks import (
    BlockTask,
    RowBlock,
    SearchInput,
    WorkersDifferError,
    blocks_of,
    findings_from,
    ordered,
    plain_findings,
    rounds_of,
    search_block,
    search_name,
    version,
)
from roofsim.search.planning.plan import part_asked, plan_asked
from roofsim.search.planning.running import Progress, Spread, read_share, run_blocks
from roofsim.search.planning.search import Limits
from roofsim.spec.scenario.document import load_scenario

MODEL = {
    "family": "decoder", "num_layers": 4, "hidden_size": 512, "num_attention_heads": 8, "vocab_size": 8192,
    "max_sequence_length": 2048,
}  # fmt: skip
SCENARIO = {
    "model": MODEL,
    "workload": {"sequence_length": 512, "global_batch_size": 16, "engine": "megatron-core", "precision": "bf16"},
    "hardware": {"gpu": "a100-sxm4-80gb"},
}
AXES: dict[str, list[Any]] = {
    "parallel.account_for_embedding": [False],
    "parallel.account_for_loss": [False],
    "workload.recompute": ["none", "full"],
    "workload.micro_batch_size": [1, 2, 4],
    "parallel.pipeline": [1, 2, 4],
}


def given(constraints=(), top=5):
    asked = PlanRequest.of(4, None, "step_time", constraints, AXES, ())
    return SearchInput(document=load_scenario(SCENARIO, {}), asked=asked, tools=planning_tools(), k=top, cuts=True)


def said(findings):
    return json.dumps(plain_findings(findings))


def text(plan):
    return json.dumps({key: value for key, value in plan.to_dict().items() if key != "seconds"})


def answered(**spread):
    one = given()
    return text(plan_asked(one.document, one.asked, one.tools, k=5, spread=Spread(**spread)))


@pytest.fixture(scope="module", autouse=True)
def small_blocks():
    """Let a small space have many blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("roofsim.search.planning.blocks.MOST_ROWS", 4)
        yield


@pytest.fixture(scope="module")
def plainly():
    return answered()


def test_the_answer_is_that_of_the_function(plainly):
    assert text(roofsim.plan(SCENARIO, gpus=4, axes=AXES, top=5)) == plainly


def test_processes_give_the_same_bytes(plainly):
    assert answered(jobs=2) == plainly


class Unruly:
    """Workers that give results in any order, and some of them twice."""

    def results(self, tasks):
        known = [search_block(task) for task in tasks]
        known += known[::2]
        random.Random(len(tasks)).shuffle(known)
        yield from known


def test_order_and_duplicates_do_not_matter(plainly, monkeypatch):
    from contextlib import nullcontext

    monkeypatch.setattr(running, "workers_for", lambda *_: nullcontext(Unruly()))
    assert answered() == plainly


def test_a_process_that_dies_is_replaced(plainly, monkeypatch, tmp_path):
    mark = tmp_path / "died"
    monkeypatch.setattr(workers, "search_block", Deadly(str(mark)))
    assert answered(jobs=2) == plainly
    assert mark.exists()


class Deadly:
    """Search a block, but once die in the middle of it."""

    def __init__(self, mark):
        self.mark = mark

    def __call__(self, task):
        done = search_block(task)
        if task.block.family % 3 == 0 and not Path(self.mark).exists():
            Path(self.mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return done


def test_a_search_that_always_dies_says_so(monkeypatch):
    monkeypatch.setattr(workers, "search_block", always_dies)
    with pytest.raises(roofsim.errors.RoofsimError, match="--jobs"):
        answered(jobs=2)


def always_dies(_task):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_cluster_that_loses_a_worker_gives_the_same_bytes(plainly, tmp_path):
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        victim = next(iter(cluster.workers.values())).pid
        done = []

        def watch(progress):
            done.append(progress.done)
            if len(done) == 9:
                os.kill(victim, signal.SIGKILL)

        assert answered(scheduler=cluster.scheduler_address, watch=watch) == plainly
    assert len(done) > 9
    assert done == sorted(done)


def test_a_stopped_search_goes_on_where_it_was(plainly, tmp_path, monkeypatch):
    class Stop(BaseException):
        pass

    def stop(progress):
        if progress.done > progress.of / 2:
            raise Stop

    with pytest.raises(Stop):
        answered(folder=tmp_path, watch=stop)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    searched = []

    def counted(task):
        searched.append(task.key)
        return search_block(task)

    monkeypatch.setattr(workers, "search_block", counted)
    assert answered(folder=tmp_path) == plainly
    assert 0 < len(before) < len(list(tmp_path.iterdir()))
    assert len(searched) + len(before) == len(list(tmp_path.iterdir()))
    assert all((tmp_path / name).stat().st_mtime_ns == then for name, then in before.items())
    searched.clear()
    assert answered(folder=tmp_path) == plainly
    assert searched == []


def test_parts_of_a_batch_system_give_the_same_bytes(plainly, tmp_path):
    one = given()
    ask = (one.document, one.asked, one.tools)
    for part in (2, 1, 3):
        part_asked(*ask, k=5, cuts=True, robust=False, spread=Spread(folder=tmp_path / str(part), share=(part, 3)))
    assert answered(merge=tuple(tmp_path / str(part) for part in (3, 1, 2))) == plainly
    with pytest.raises(SpecError, match="missing"):
        answered(merge=(tmp_path / "1", tmp_path / "3"))
    other = given(constraints=["memory < 20 GiB"])
    with pytest.raises(SpecError, match="missing"):
        plan_asked(other.document, other.asked, other.tools, k=5, spread=Spread(merge=(tmp_path / "1",)))
    file = next((tmp_path / "1").iterdir())
    with pytest.raises(SpecError, match="another search"):
        plan_asked(other.document, other.asked, other.tools, k=5, spread=Spread(merge=(file,)))
    file.write_text("{}")
    with pytest.raises(SpecError, match="expected results"):
        answered(folder=tmp_path / "1")


def test_a_block_is_a_pure_function():
    """What was searched before in a process, or that another one searches, changes nothing."""
    one, space = given(), given().space()
    name, blocks = search_name(one, space), blocks_of(one, space)
    limits = Limits(0.05, {"0:0": 0.04})
    tasks = [BlockTask(given=one, search=name, block=block, limits=limits, version=version()) for block in blocks[:6]]
    with ProcessPoolExecutor(1) as other:
        there = dict(other.map(search_block, tasks[::-1]))
    for task in tasks:
        key, findings = search_block(task)
        assert key == task.key
        assert said(findings) == said(there[key])
        assert said(findings_from(json.loads(said(findings)))) == said(findings)


def test_rows_of_a_class_may_be_cut_anywhere(monkeypatch):
    monkeypatch.setattr("roofsim.search.planning.blocks.MOST_ROWS", 10**6)
    whole = run_blocks(given(), given().space(), Spread())
    monkeypatch.setattr("roofsim.search.planning.blocks.MOST_ROWS", 3)
    parts = run_blocks(given(), given().space(), Spread())
    assert parts.top["id"].tolist() == whole.top["id"].tolist()
    assert parts.considered == whole.considered
    for one in (parts, whole):  # why a layout is left out depends on what was known by then; that it is does not
        assert one.considered == one.priced + one.does_not_fit + one.cut + sum(one.refused.values())


def test_names_follow_what_is_searched():
    one = given()
    names = {
        search_name(one, one.space()),
        search_name(given(["memory < 9 GiB"]), one.space()),
        search_name(given(top=6), one.space()),
    }
    assert len(names) == 3
    assert search_name(given(), given().space()) in names


def test_a_worker_of_another_version_refuses():
    one, space = given(), given().space()
    task = BlockTask(given=one, search="x", block=blocks_of(one, space)[0], limits=Limits(1.0), version="0.0.1")
    with pytest.raises(WorkersDifferError, match="Install the same"):
        search_block(task)


def test_progress_grows_to_all_layouts():
    seen: list[Progress] = []
    plan = given()
    answer = plan_asked(plan.document, plan.asked, plan.tools, k=5, spread=Spread(watch=seen.append))
    assert [one.done for one in seen] == sorted(one.done for one in seen)
    assert seen[-1].done == seen[-1].of == answer.considered
    assert seen[-1].least == pytest.approx(answer.least)


@pytest.mark.parametrize("count", [1, 2, 7, 48, 100, 1000])
def test_every_block_is_in_one_round(count):
    assert sorted(ordered(count)) == list(range(count))
    sizes = [len(each) for each in rounds_of([RowBlock(at, 0, 1) for at in range(count)])]
    assert sum(sizes) == count
    assert sizes[:5] == [1, 1, 2, 4, 8][: len(sizes[:5])] or count < 16


def test_shares_are_read():
    assert read_share("3/10") == (3, 10)
    for wrong in ("0/3", "4/3", "a", "1/0"):
        with pytest.raises(SpecError, match="--block"):
            read_share(wrong)


def test_an_address_without_a_scheduler_is_refused():
    begin = time.monotonic()
    with pytest.raises(SpecError, match="no Dask scheduler answers"):
        answered(scheduler="nothing")
    assert time.monotonic() - begin < 15


def test_blocks_with_the_least_bounds_come_first():
    one = given()
    space = one.space()
    searcher = one.searcher(space)
    classes = searcher.classes()
    blocks = [(classes[block.family], block) for block in blocks_of(one, space)]
    least = [searcher.least(families, families.rows()[block.first : block.last]) for families, block in blocks]
    assert least == sorted(least)
    assert 0.0 < least[0] < least[-1]
