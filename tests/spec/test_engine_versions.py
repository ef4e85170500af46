"""Engines by version, date and variant: facts of then, one spelling, refusals of what nobody knows."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofsim
from roofsim.errors import Place, SpecError
from roofsim.spec import catalog
from roofsim.spec.engine.choice import EngineChoice, decimal_year, older, read_choice
from roofsim.spec.engine.facts import leaves
from roofsim.spec.engine.find import choose
from roofsim.spec.engine.schema import Engine, catalog_engine
from tests.spec.test_bad_input import run_cli

ENGINES = sorted(catalog.names("engine"))
HERE = Place("test")


def engine(choice, **workload):
    phase = {"phase": "decode", "context_length": 64} if "phase" not in workload else {}
    return roofsim.resolve({"model": "gpt2-124m", "workload": {"engine": choice, **phase, **workload}}).engine


def facts(choice):
    return choose(choice, HERE).stated.read(Engine).facts()


def sourced(part):
    """Tell whether each fact of a version or variant has a source, of it or of what it is a part of; and each source a fact."""
    stated = {keys for keys, _ in leaves(Engine, part.facts)}
    named = {tuple(key.split(".")) for key in part.sources}
    return (
        all(any(fact[: len(source)] == source for source in named) for fact in stated),
        all(any(fact[: len(source)] == source for fact in stated) for source in named),
    )


@pytest.mark.parametrize("name", ENGINES)
def test_every_version_and_variant_of_a_file_is_a_valid_engine(name):
    today = facts(name)
    parts = catalog_engine(name)
    first = next(iter(parts.releases), "0.0.1")
    for entry in parts.versions:
        assert sourced(entry) == (True, True), "a source for every fact, and of no other"
        before = facts(EngineChoice(name=name, released=f"{int(decimal_year(entry.released)) - 1}"))
        assert before != today
        assert entry.before is None or facts(f"{name}@{entry.before}") != facts(f"{name}@{first}")
    for variant in parts.variants.values():
        assert sourced(variant)[1], "sources of facts that the variant does not state"
        assert len(variant.description) > 20
    for word in parts.variants:
        # A variant that became the default still changes what ran before it did.
        bases = [name, *(f"{name}+{other}" for other in parts.variants if other != word)]
        assert any(facts(f"{base}+{word}") != facts(base) for base in bases)
    assert facts(f"{name}@2039") == today | ({"library_released": 2039.5} if parts.library_date == "release" else {})


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("autoawq", {"attention": "flash", "expand_weights_from": 1024}),
        ("autoawq@0.2.8", {"attention": "flash", "expand_weights_from": 1024}),
        ("autoawq@0.2.7", {"attention": "unfused", "decode_attention": "single_query", "expand_weights_from": 1024}),
        ("autoawq@0.1", {"attention": "unfused", "expand_weights_from": None}),
        ("awq@2023-12", {"attention": "unfused", "expand_weights_from": None}),
        ("autoawq@2024-06", {"attention": "unfused", "expand_weights_from": 1024}),
        ({"name": "autoawq", "version": "0.1.6"}, {"attention": "unfused", "expand_weights_from": None}),
        ({"name": "autoawq", "released": "2024-06"}, {"attention": "unfused", "expand_weights_from": 1024}),
        ("llama.cpp", {"attention": "flash", "router": "fused"}),
        ("llama.cpp@2025-09-01", {"attention": "flash", "router": "modules"}),
        ("llama.cpp@2025-03", {"attention": "fused_softmax", "router": "modules"}),
        ("tensorrt-llm@0.9", {"cache_block_size": 64}),
        ("tensorrt-llm@1.0", {"cache_block_size": 32}),
        ("vllm@0.4.2", {"expand_weights_from": 256}),
        ("vllm@0.10", {"expand_weights_from": None}),
        (
            "pytorch-eager@1.13",
            {"attention": "unfused", "adamw": "loop", "library_released": decimal_year("2022-10")},
        ),
        ("pytorch-eager@2.0", {"attention": "sdpa", "adamw": "foreach", "library_released": decimal_year("2023-03")}),
        ("pytorch-eager@2.1.2", {"attention": "sdpa", "attention_generation": "flash1"}),
        ("pytorch-eager@2020-07", {"attention": "unfused", "library_released": decimal_year("2020-07")}),
        ("pytorch-eager", {"attention": "sdpa", "library_released": None}),
        ("pytorch-compile", {"decode_launch": "graphs", "launch": "eager"}),
    ],
)
def test_facts_of_a_version(choice, expected):
    facts = engine(choice)
    assert {name: facts.fact(name) for name in expected} == expected


def test_a_scenario_still_overrides_what_a_version_says():
    assert engine("autoawq@0.1", engine_facts={"expand_weights_from": 5}).matmul.expand_weights_from == 5
    assert engine("autoawq@0.1", attention="flash").attention.implementation == "flash"


def test_the_answer_says_which_version_it_was_and_runs_again():
    result = roofsim.run("gpt2", phase="decode", engine="awq+gemv@0.1.6", precision="int4")
    assert result.scenario["workload"]["engine"] == "autoawq+gemv@0.1.6"
    assert "engine awq: autoawq" in result.assumed
    again = roofsim.run("gpt2", phase="decode", engine=result.scenario["workload"]["engine"], precision="int4")
    assert again.step_time == result.step_time
    silent = roofsim.resolve({"model": "gpt2", "workload": {"engine": "sglang@0.4", "phase": "decode"}})
    assert "engine sglang@0.4: no fact is known to have been different then" in silent.assumed


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("autoawq@", "cannot read the engine 'autoawq@'"),
        ("autoawq@new", "cannot read the engine 'autoawq@new'. Write NAME, NAME@VERSION"),
        ("@0.1", "cannot read the engine '@0.1'"),
        ("autoawq@0.1@0.2", "cannot read the engine"),
        ("autoawk@0.1", "unknown engine 'autoawk'. Did you mean 'autoawq'"),
        ("autoawq+gemw", "unknown variant 'gemw' of autoawq. Did you mean 'gemv'"),
        ("vllm+gemv", "unknown variant 'gemv' of vllm. vllm has no variants: leave .gemv out"),
        (
            "llama.cpp@b4000",
            "changes of llama.cpp are known by date, not by version; got 'b4000'. State when it came out",
        ),
        (
            "tensorrt-llm@77",
            r"unknown version '77' of tensorrt-llm. Nearest known: 0.20 .* 0.21 .* 1.0 \(2025-09\). For another",
        ),
        ("tensorrt-llm@0.4", r"unknown version '0.4' of tensorrt-llm. Nearest known: 0.5 \(2023-10\), 0.6"),
        (
            "pytorch-eager@1.99",
            r"unknown version '1.99' of pytorch-eager. Nearest known: 1.12 .*, 1.13 .*, 2.0 \(2023-03\)",
        ),
        ({"name": "autoawq", "version": 0.1}, "a version is text, lest 0.10 become 0.1; write it in quotes"),
        ({"name": "autoawq", "version": "new"}, "'new' is not a version such as"),
        ({"name": "autoawq", "released": "2024-13"}, "'2024-13' is not a date: expected YYYY, YYYY-MM or YYYY-MM-DD"),
        ({"name": "autoawq", "released": "2024-02-30"}, "'2024-02-30' is not a date"),
        ({"name": "autoawq", "date": "2024"}, "unknown key 'date'"),
        (3, "expected a text or a mapping; got 3"),
    ],
)
def test_what_nobody_knows_is_refused(choice, message):
    with pytest.raises(SpecError, match=message):
        engine(choice)


VERSIONS = st.lists(st.integers(0, 30), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))


@given(VERSIONS, VERSIONS, VERSIONS)
def test_versions_have_an_order(one, two, three):
    assert not older(one, one)
    assert not (older(one, two) and older(two, one))
    assert older(one, three) or not (older(one, two) and older(two, three))
    assert older(one, f"{one}.1")


@given(st.dates(min_value=date(2010, 1, 1), max_value=date(2039, 12, 31)))
def test_dates_have_an_order_and_a_month_holds_its_days(day):
    year, month, whole = day.strftime("%Y"), day.strftime("%Y-%m"), day.isoformat()
    assert abs(decimal_year(month) - decimal_year(whole)) < 0.05
    assert abs(decimal_year(year) - decimal_year(whole)) <= 0.5
    choice = read_choice(f"llama.cpp@{whole}", HERE)
    assert (choice.released, choice.version) == (whole, None)
    assert choice.label("llama.cpp") == f"llama.cpp@{whole}"


def test_gemv_kernels_of_few_rows_give_way_to_tiles():
    def seconds(batch):
        result = roofsim.run("llama-7b", gpu="rtx4090", engine="autoawq+gemv@0.1.6", precision="int4", phase="decode",
                            context_length=64, batch_size=batch)  # fmt: skip
        return float(result.step_time)

    assert seconds(1) <= seconds(4) <= seconds(8)
    assert seconds(9) > 2.0 * seconds(8)  # tiles of 128 rows at a twentieth of the card's rate


def test_compiled_decode_steps_run_from_cuda_graphs_by_default():
    given = {"phase": "decode", "context_length": 512, "gpu": "h100"}
    default = roofsim.run("llama3-8b", engine="pytorch-compile", **given)
    eager = roofsim.run(
        "llama3-8b", engine="pytorch-compile", workload__engine_facts={"decode_launch": "eager"}, **given
    )
    assert float(eager.step_time) > 2.0 * float(default.step_time)
    assert float(default.time["launch"]) < 0.5 * float(eager.time["launch"])


@pytest.mark.parametrize(("gpu", "launch"), [("rtx4090", "graphs"), ("rx7900xtx", "eager"), ("mi300x", "eager")])
def test_how_decode_steps_are_launched_depends_on_the_card(gpu, launch):
    resolved = roofsim.resolve(
        {"model": "llama3-8b", "workload": {"engine": "llama.cpp", "phase": "decode"}, "hardware": {"gpu": gpu}}
    )
    assert resolved.engine.launch_on(resolved.architecture.name, decodes=True) == launch


def test_show_lists_what_is_otherwise(monkeypatch, capsys):
    code, out, _ = run_cli(monkeypatch, capsys, "show", "engine", "autoawq")
    assert code == 0
    assert "before 0.2.8 (2025-01)" in out
    assert "autoawq+gemv: " in out
    assert "{" not in out
