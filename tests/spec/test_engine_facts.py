"""Facts of an engine by any of their names: flat, dotted or in groups; in scenarios, in files, in the editor's schema."""

from __future__ import annotations

import re

import pytest

from roofsim.analyze.catalogs import json_schema
from roofsim.api import resolve, run
from roofsim.decide.whatif import whatif
from roofsim.errors import SpecError
from roofsim.spec import catalog
from roofsim.spec.engine.facts import groups, path_of, paths, stated_names
from roofsim.spec.engine.schema import Engine, catalog_engine, read_engine
from roofsim.spec.reading.source import parse_yaml
from tests.spec.test_engines import ENGINES, OTHER
from tests.surely import sure

#: The names that facts had before they were in groups: scenarios and files may go on using them.
FLAT = re.findall(
    r"\w+",
    """
attention attention_generation attention_generation_on decode_attention encoder_attention grouped_heads attention_copies
attention_unpads packs_heads cache_read_share matmul_accumulation stream_share stream_bytes_per_clock vector_rows weight_only
expand_weights_from never_expands_on narrow_products narrow_merged narrow_product_launches memory_format convolution_share
convolution_workspace expert_products expert_products_on expert_product_streams
expert_fused_accumulation router expert_kernels expert_rows expert_capacity_rows serving_experts uneven_experts
expert_copies fusion compiled rms_norm gelu_new
rotary silu_backward cross_entropy split_cross_entropy plain_kernels library_released measured_as kernel_cycles
extra_kernels_per_layer launch decode_launch decode_launch_on host_issue_time host_call_time host_backward_time host_tensor_time
host_time_per_step host_time_per_sequence default_precision precision_recipe activation_type narrow_operands weight_formats
formats formats_not_on expands_foreign_formats gradient_type gradient_accumulation fused_accumulation_in adamw gradient_clipping
selective_recompute recompute_stops_early loss_metrics reduction_type gradient_bucket gradient_buckets gather_copies
reduction_copies rest_units sharded_accumulation pipelined_shards sync_batch_norm tensor_parallel overlap all_reduce rank_wait
pipeline_message sequence_gather context_communication context_balance context_merge key_value_cache cache_block_size
cache_write_kernels decode_cache_write_kernels host_layers host_layers_copied_from host_cache allocator communication_pools
reserved_overhead
runtime_memory workspace_per_token merged_weights preallocated_share prefill_chunk serving_pipeline phases server
""",
)


def engine_with(facts, **workload):
    return resolve({"model": "gpt2-124m", "workload": {"engine_facts": facts, **workload}}).engine


def beside(fact):
    """Return what a fact needs to be valid."""
    return {"key_value_cache": "paged"} if fact == "cache_block_size" else {}


def test_flat_names_stay():
    assert set(FLAT) <= set(Engine(name="mine").facts())
    assert len(paths(Engine)) == len(set(paths(Engine).values()))


@pytest.mark.parametrize("fact", FLAT)
def test_a_fact_means_the_same_however_it_is_written(fact):
    flat = engine_with({fact: OTHER[fact]} | beside(fact))
    path = sure(path_of(Engine, fact))
    assert engine_with({".".join(path): OTHER[fact]} | beside(fact)) == flat
    if len(path) > 1:
        assert engine_with({path[0]: {path[1]: OTHER[fact]}} | beside(fact)) == flat
    assert flat.fact(fact) == flat.fact(".".join(path))
    assert flat.changed(**{fact: flat.fact(fact)}) == flat


@pytest.mark.parametrize(
    "overlap",
    [{"overlap": {"tensor": True}}, {"overlap.tensor": True}, {"communication": {"overlap": {"tensor": True}}}],
)
def test_facts_of_a_scenario_keep_the_rest_of_their_group(overlap):
    """A part that is stated leaves the other parts of its fact, and the other facts of its group, as the engine has them."""
    own = catalog_engine("megatron-core")
    engine = engine_with(overlap | {"cross_entropy": "fused"}, engine="megatron-core")
    assert own.communication.overlap.pipeline  # which it would not by itself
    assert engine.communication.overlap == own.communication.overlap.model_copy(update={"tensor": True})
    assert engine.fusion == own.fusion.model_copy(update={"cross_entropy": "fused"})


def test_a_part_that_a_command_sets_leaves_the_others():
    """``--set`` writes mappings where a dot stands."""
    own = catalog_engine("megatron-core").communication.overlap
    answer = whatif("gpt2-124m", {"engine_facts.overlap.data": False}, gpu="a100", engine="megatron-core")
    facts = sure(answer.after).to_dict()["scenario"]["workload"]["engine_facts"]
    assert facts["overlap"] == own.model_dump() | {"data": False}


def test_an_empty_fact_has_its_defaults():
    own = catalog_engine("megatron-core")
    engine = engine_with({"overlap": {}}, engine="megatron-core")
    assert engine.communication.overlap == type(own.communication.overlap)() != own.communication.overlap


def test_a_table_is_stated_as_a_whole():
    own = catalog_engine("megatron-core").attention.generation_on
    engine = engine_with({"attention_generation_on": {"hopper": "flash2"}}, engine="megatron-core")
    assert len(own) > 1
    assert engine.attention.generation_on == {"hopper": "flash2"}


def test_what_was_resolved_is_written_flat_and_runs_again():
    first = run(
        {"model": "gpt2-124m", "workload": {"engine": "megatron-core", "engine_facts": {"fusion.rms_norm": "chain"}}}
    )
    facts = first.to_dict()["scenario"]["workload"]["engine_facts"]
    assert set(FLAT) <= set(facts)
    assert facts["rms_norm"] == "chain"
    again = run({"units": "SI", "model": "gpt2-124m", "workload": {"engine": "megatron-core", "engine_facts": facts}})
    assert again.step_time == first.step_time


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"cross_entropy": "fused", "fusion": {"cross_entropy": "native"}}, "'fusion.cross_entropy' and 'cross_entropy' state"),
        ({"fusion.cross_entropi": "fused"}, r"unknown engine fact 'fusion.cross_entropi'. Did you mean 'fusion.cross_entropy'"),
        ({"fusion": {"cross_entropi": "fused"}}, r"unknown engine fact 'fusion.cross_entropi'. Did you mean"),
        ({"matmul": 3}, r"matmul is a group of engine facts; expected a mapping. State facts of it: matmul: {accumulation: ...}"),
        ({"fusion": {"cross_entropy": "fusd"}}, r"engine_facts.fusion.cross_entropy: expected one of .* got 'fusd'. Did you mean"),
        ({"cross_entropy": "fusd"}, r"engine_facts.cross_entropy: expected one of .* got 'fusd'. Did you mean 'fused'"),
        ({"overlap": {"tensor": True}, "overlap.tensor": False}, "'overlap.tensor' is stated twice"),
        ({"overlap.tensr": True}, r"engine_facts.overlap.tensr: unknown key 'tensr'. Did you mean 'tensor'"),
        ({"sources": {}}, "unknown engine fact 'sources'"),
        ({"name": "mine"}, "unknown engine fact 'name'"),
    ],
)  # fmt: skip
def test_wrong_facts_are_named_as_they_were_written(facts, message):
    with pytest.raises(SpecError, match=message):
        engine_with(facts)


# -- files ----------------------------------------------------------------------------------------------------------


def flat_file(name):
    """Return an engine's file as it would be written without groups."""
    data = dict(catalog.load("engine", name).data)
    for group in groups(Engine):
        for leaf, value in data.pop(group, {}).items():
            data[next(flat for flat, path in paths(Engine).items() if path == (group, leaf))] = value
    names = {".".join(path): flat for flat, path in paths(Engine).items()}
    data["sources"] = {names.get(key, key): value for key, value in data["sources"].items()}
    return data


@pytest.mark.parametrize("name", ENGINES)
def test_a_flat_file_means_the_same(name):
    document = catalog.load("engine", name)
    flat = type(document)(flat_file(name), "mine.yaml")
    assert read_engine(flat).facts() == catalog_engine(name).facts()
    assert read_engine(flat).sources == catalog_engine(name).sources
    assert set(stated_names(Engine, flat.data)) >= set(stated_names(Engine, document.data))


MINE = """name: mine
attention: flash
{line}
"""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("cross_entropy: fusd", r"mine.yaml:3:1: cross_entropy: expected one of .* got 'fusd'. Did you mean 'fused'"),
        ("attention_generaton: flash2", r"mine.yaml:3:1: attention_generaton: unknown key .* Did you mean 'attention_generation'"),
        ("fusion: {cross_entropy: fusd}", r"mine.yaml:3:10: fusion.cross_entropy: expected one of .* got 'fusd'"),
        ("overlap: {tensor: 3}", r"mine.yaml:3:11: overlap.tensor: expected true or false or one of .sequences.; got 3"),
        ("attention_generation_on: {hopper: flash9}", r"mine.yaml:3:27: attention_generation_on.hopper: expected one of"),
        ("cross_entropy: fused\nfusion: {cross_entropy: fused}", "'cross_entropy' and 'fusion.cross_entropy' state the same"),
        ("sources: {atention: nowhere}", "unknown engine fact 'atention'"),
    ],
)  # fmt: skip
def test_errors_of_flat_files_name_file_line_and_key(line, message):
    with pytest.raises(SpecError, match=message):
        read_engine(parse_yaml(MINE.format(line=line), "mine.yaml"))


# -- editors --------------------------------------------------------------------------------------------------------


def test_editors_complete_groups_and_flat_names():
    engine = json_schema("engine")["properties"]
    assert {*FLAT, *groups(Engine), "schema", "sources", "versions"} <= set(engine)
    assert engine["cross_entropy"]["deprecated"]
    assert "deprecated" not in engine["fusion"]
    facts = json_schema("scenario")["$defs"]["Workload"]["properties"]["engine_facts"]
    assert {*FLAT, *groups(Engine)} <= set(facts["properties"])
    assert not {"name", "sources", "schema", "versions"} & set(facts["properties"])
    assert facts["properties"]["cross_entropy"]["enum"] == ["native", "upcast", "in_place", "fused"]
