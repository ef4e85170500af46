"""Facts that measurements share are versions and variants of engines, with a source, and not facts of single rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roofsim.errors import Place
from roofsim.spec.engine.choice import read_choice
from roofsim.spec.engine.facts import leaves, path_of, stated_names
from roofsim.spec.engine.find import choose
from roofsim.spec.engine.schema import Engine, catalog_engine

FOLDER = Path(__file__).parents[2] / "evidence" / "measurements"
#: Facts that one run sets for itself: an option of a benchmark, the age of a library, the attention of a container, the host of
#: a simulator.
OF_A_RUN = {"prefill_chunk", "library_released", "attention_generation_on", "host_issue_time", "host_call_time"}


def workloads(path):
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [row["scenario"]["workload"] for row in rows if "scenario" in row]


def stated(workload):
    """Return an engine with the facts of its scenario."""
    engine = choose(workload["engine"], Place("measurements")).stated
    return engine.with_facts(Engine, workload.get("engine_facts", {}), lambda _: Place("measurements")).read(Engine)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.jsonl")), ids=lambda path: path.stem)
def test_no_row_states_the_facts_of_a_variant(path):
    for workload in {
        json.dumps(one, sort_keys=True): one for one in workloads(path) if one.get("engine_facts")
    }.values():
        facts, engine = stated_names(Engine, workload["engine_facts"]), stated(workload)
        name = read_choice(workload["engine"], Place("measurements")).name
        for variant, meant in catalog_engine(name).variants.items():
            own = choose(f"{name}+{variant}", Place("measurements")).stated.read(Engine)
            names = stated_names(Engine, meant.facts)
            same = set(names) <= set(facts) and all(own.fact(fact) == engine.fact(fact) for fact in names)
            assert not same, f"{workload['engine']} {workload['engine_facts']}: name the variant {variant}"


def test_facts_of_many_rows_are_those_of_a_run():
    rows: dict[tuple[str, str], int] = {}
    for path in FOLDER.glob("*.jsonl"):
        for workload in workloads(path):
            for fact in stated_names(Engine, workload.get("engine_facts", {})):
                if fact not in OF_A_RUN:
                    key = read_choice(workload["engine"], Place("measurements")).name, fact
                    rows[key] = rows.get(key, 0) + 1
    assert all(count < 5 for count in rows.values()), rows


def test_every_variant_states_known_facts():
    for name in ("pytorch-eager", "torchtitan", "megatron-core", "megatron-lm", "megatron-deepspeed"):
        for variant in catalog_engine(name).variants.values():
            assert all(path_of(Engine, ".".join(keys)) for keys, _ in leaves(Engine, variant.facts))
