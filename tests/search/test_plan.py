"""Tests of `roofsim.plan`: each layout is what `run` says, none is left out that would win, merging does not depend on order."""

import functools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofsim
from roofsim.errors import Place, SpecError
from roofsim.report.plan import one_layout
from roofsim.search.planning import best
from roofsim.search.planning import search as searching
from roofsim.search.planning.asked import read_gpus
from roofsim.search.planning.objectives import OBJECTIVES, read_constraints
from roofsim.search.planning.priced import part_of
from roofsim.search.planning.rows import joined_layouts
from roofsim.search.stacking import by_structure
from roofsim.spec.scenario.document import load_scenario

DECODER = {
    "family": "decoder", "num_layers": 6, "hidden_size": 1024, "num_attention_heads": 8, "vocab_size": 8192,
    "max_sequence_length": 2048,
}  # fmt: skip
EXPERTS = DECODER | {"num_experts": 4, "experts_per_token": 2, "num_layers": 4}
WORK = {"sequence_length": 1024, "global_batch_size": 16, "engine": "megatron-core", "precision": "bf16"}
#: Few enough values to price every layout, with uneven stages, chunks, context, recomputation and shards among them.
FEW: dict[str, list[Any]] = {
    "parallel.sharding": ["none", "optimizer"],
    "workload.micro_batch_size": [1, 4],
    "parallel.sequence": [True],
}


def scenario(model=DECODER, gpu="a100-sxm4-80gb", **work):
    return {"model": model, "workload": WORK | work, "hardware": {"gpu": gpu}}


def merged(base, changes):
    both = {key: dict(value) if isinstance(value, dict) else value for key, value in base.items()}
    for section in ("parallel", "workload", "hardware"):
        both[section] = both.get(section, {}) | changes[section]
    return both


@pytest.fixture(scope="module")
def plans():
    return {
        cut: roofsim.plan(scenario(), gpus=8, axes=FEW | {"parallel.account_for_embedding": [False]}, cut=cut, top=8)
        for cut in (True, False)
    }


def test_each_of_the_best_is_the_run_of_the_scenario_with_it(plans):
    for one in plans[True].to_dict()["top"]:
        result = roofsim.run(merged(scenario(), one))
        assert result.step_time == pytest.approx(one["step_time"], rel=1e-9)
        assert result.memory.device_total == pytest.approx(one["memory_peak"], rel=1e-9)
        assert result.step_time_interval == pytest.approx(tuple(one["step_time_interval"]), rel=1e-9)


def test_the_search_knows_the_same_steps_as_runs(plans):
    """The front has the search's own figures, not those of runs."""
    for one in plans[False].to_dict()["front"]:
        assert roofsim.run(merged(scenario(), one)).step_time == pytest.approx(one["step_time"], rel=1e-9)


def test_cutting_leaves_the_best_as_they_are(plans):
    cut, whole = plans[True], plans[False]
    assert [one.id for one in cut.top] == [one.id for one in whole.top]
    assert cut.cut > 0
    assert whole.cut == 0
    assert cut.considered == whole.considered
    assert cut.lower_bound == whole.lower_bound == pytest.approx(cut.best.step_time)


@pytest.mark.slow
def test_the_best_are_found_among_layouts_with_state_on_the_host_too():
    """Those are held against their hosts only where their device leaves them open: the others are cut, and counted."""
    axes: dict[str, list[Any]] = {
        "parallel.offload": [{}, {"optimizer_state": "host"}, {"activations": "host"}, {"parameters": "host"}],
        "parallel.sharding": ["optimizer"],
        "parallel.sequence": [True],
        "parallel.context": [1],
        "workload.recompute": ["none"],
        "workload.micro_batch_size": [1, 4],
    }
    fixed = ["parallel.account_for_embedding", "parallel.account_for_loss"]
    small = scenario() | {"hardware": {"gpu": "a100-sxm4-80gb", "override": {"gpu.memory.capacity": "3 GiB"}}}
    cut, whole = (roofsim.plan(small, gpus=4, axes=axes, fixed=fixed, cut=cut, top=3) for cut in (True, False))
    assert [one.id for one in cut.top] == [one.id for one in whole.top]
    assert (cut.considered, cut.lower_bound) == (whole.considered, whole.lower_bound)
    assert cut.considered == cut.priced + cut.does_not_fit + cut.cut + sum(cut.refused.values())
    assert cut.cut > whole.considered / 2


def test_a_replayed_search_finds_what_arrays_find(monkeypatch):
    axes = FEW | {"workload.recompute": ["none"], "parallel.sharding": ["optimizer"], "parallel.context": [1]}
    fixed = ["parallel.account_for_embedding", "parallel.account_for_loss"]
    whole = roofsim.plan(scenario(), gpus="2..8", axes=axes, fixed=fixed, cut=False, top=8)
    monkeypatch.setattr(searching, "REPLAYED_FROM", 1)
    replayed = roofsim.plan(scenario(), gpus="2..8", axes=axes, fixed=fixed, cut=False, top=8)
    assert [one.id for one in replayed.top] == [one.id for one in whole.top]
    assert (replayed.priced, replayed.does_not_fit, replayed.refused) == (
        whole.priced,
        whole.does_not_fit,
        whole.refused,
    )
    assert replayed.structures == 0 < whole.structures
    for one, other in zip(replayed.front, whole.front, strict=True):
        assert one.step_time == pytest.approx(other.step_time, rel=1e-9)
        assert one.memory == pytest.approx(other.memory, rel=1e-9)
        assert one.cost == pytest.approx(other.cost, rel=1e-9)


def test_every_layout_is_accounted_for(plans):
    for plan in plans.values():
        assert plan.considered == plan.priced + plan.does_not_fit + plan.cut + sum(plan.refused.values())


def test_steps_are_in_order_and_differences_in_words(plans):
    steps = [one.step_time for one in plans[True].top]
    assert steps == sorted(steps)
    assert plans[True].top[0].why == ""
    assert all("behind" in one.why or "as fast" in one.why for one in plans[True].top[1:])


class Drawn:
    """Draws layouts of a space, with their bounds and what pricing says of them."""

    def __init__(self, document, gpus, axes=None, objective="step_time", also=()):
        from roofsim.api import import_model, resolve_document
        from roofsim.search.planning.building import space_of
        from roofsim.search.planning.objectives import Goal
        from roofsim.search.planning.search import Searcher
        from roofsim.search.planning.space import Wish
        from roofsim.search.resolving import Shared

        self.space = space_of(document, Wish(gpus=gpus, axes=axes or {}, also=also), resolve_document)
        self.searcher = Searcher(
            space=self.space, goal=Goal(objective=objective), importer=import_model, shared=Shared(), k=3
        )
        self.families = [(one, at) for one in self.searcher.classes() for at in range(len(one.families()))]

    def bounded(self, family, seeds):
        """Return bound over step, and over memory 1 or less where the floor says that a layout does not fit."""
        families, own = self.families[family % len(self.families)]
        rows = families.rows()[:]
        rows = rows[families.holds(rows)[own]]
        if not len(rows):
            return np.empty(0), []
        chosen = rows[np.unique(np.asarray(seeds) % len(rows))]
        known = self.searcher.bound(families, chosen)
        least, full = known.least[own], known.full[own]
        assert (self.searcher.bound_of_all(families, chosen) <= least * (1.0 + 1e-12)).all()
        pricer, shares, fits_beyond = self.searcher.pricer(), [], []
        part = self.space.rows_at(families.families()[own], chosen)
        for piece in pricer.reader.read(part):
            for some in by_structure(piece.resolved) if piece.resolved is not None else [np.arange(len(piece))]:
                for priced in pricer.price(part_of(piece, some)):
                    at = part.places_of(priced.places)
                    fits_beyond += (priced.fits & full[at]).tolist()
                    value = priced.figures[OBJECTIVES[self.searcher.goal.objective]]
                    shares += (least[at][priced.fits] / value[priced.fits]).tolist()
        return np.array(shares), fits_beyond


@functools.cache
def drawn(model, engine, gpu):
    return Drawn(load_scenario(scenario(MODELS[model], gpu, engine=engine), {}), (8,))


MODELS = {
    "decoder": DECODER,
    "experts": EXPERTS,
    "7 layers": DECODER | {"num_layers": 7},
    "dense layers first": EXPERTS | {"num_layers": 7, "num_dense_layers": 2},
}


@pytest.mark.parametrize("engine", ["megatron-core", "torchtitan"])
@pytest.mark.parametrize("gpu", ["a100-sxm4-80gb", "h100-sxm5-80gb"])
@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=12, deadline=None)
@given(family=st.integers(0, 10**6), seeds=st.lists(st.integers(0, 10**6), min_size=4, max_size=12))
def test_no_bound_exceeds_what_a_layout_takes(model, engine, gpu, family, seeds):
    shares, fits_beyond = drawn(model, engine, gpu).bounded(family, seeds)
    assert (shares <= 1.0).all()
    assert (shares > 0.1).all()
    assert not any(fits_beyond)


def test_a_host_that_is_slower_in_layers_alone_does_not_add_to_the_ends():
    """Layers wait for their launches, head and loss do not: a step takes the longer of the two sums, not the sum of the longer."""
    axes = {
        "parallel.tensor": [4],
        "parallel.pipeline": [1],
        "parallel.context": [1],
        "parallel.sequence": [True],
        "parallel.sharding": ["optimizer"],
        "workload.recompute": ["selective"],
        "workload.micro_batch_size": [1, 2],
    }
    workload = {"engine": "megatron-core", "precision": "bf16", "global_batch_size": 32}
    space = Drawn(load_scenario({"model": "gpt2", "workload": workload, "hardware": {"gpu": "a100"}}, {}), (4, 8), axes)
    shares = np.concatenate([space.bounded(family, range(8))[0] for family in range(len(space.families))])
    assert len(shares) > 2
    assert 0.9 < shares.max() <= 1.0


@functools.cache
def varied(objective):
    axes = {
        "workload.sequence_length": [512, 2048],
        "workload.recompute": ["none", "full", {"policy": "full", "layers": 2}],
        "parallel.offload": [{}, {"optimizer_state": "host"}],
    }
    return Drawn(load_scenario(scenario(), {}), (4, 8), axes, objective)


@pytest.mark.parametrize("objective", ["step_time", "cost", "tokens_per_joule", "memory"])
@settings(max_examples=10, deadline=None)
@given(family=st.integers(0, 10**6), seeds=st.lists(st.integers(0, 10**6), min_size=8, max_size=16))
def test_bounds_hold_where_lengths_gpus_and_objectives_vary(objective, family, seeds):
    space = varied(objective)
    shares, fits_beyond = space.bounded(family, seeds)
    assert (shares <= 1.0).all()
    assert not any(fits_beyond)


@pytest.mark.parametrize(
    "sharding",
    [pytest.param("none", marks=pytest.mark.slow), "optimizer", pytest.param("full", marks=pytest.mark.slow)],
)
def test_bounds_hold_and_are_near_where_copies_to_the_host_set_the_pace(sharding):
    """Each of eight ways to keep parts of the state on the host, in a job whose cards share their host's links."""
    places = [{}, *({part: "host"} for part in ("activations", "optimizer_state"))]
    places += [{"activations": "host", "optimizer_state": "host"}, {"optimizer_state": "nvme"}]
    if sharding in ("none", "full"):
        places += [{"parameters": "host", "optimizer_state": "host"}, {"gradients": "host", "optimizer_state": "host"}]
        places += [dict.fromkeys(("parameters", "gradients", "optimizer_state", "activations"), "host")]
    axes: dict[str, list[Any]] = {
        "parallel.offload": places,
        "parallel.sharding": [sharding],
        "parallel.account_for_embedding": [False],
        "parallel.account_for_loss": [False],
        "parallel.sequence": [True],
        "parallel.context": [1],
        "workload.micro_batch_size": [1, 4],
    }
    rates = {"system.storage.read": "7 GB/s", "system.storage.write": "5 GB/s"}
    base = scenario(DECODER | {"num_layers": 12}) | {"hardware": {"gpu": "a100-sxm4-80gb", "override": rates}}
    space = Drawn(load_scenario(base, {}), (8,), axes)
    known = [space.bounded(family, range(0, 30, 4)) for family in range(len(space.families))]
    shares = np.concatenate([each for each, _ in known])
    assert len(shares) > 60
    assert shares.max() <= 1.0
    assert np.median(shares) > 0.5
    assert not any(any(beyond) for _, beyond in known)


@pytest.mark.parametrize("also", ["recompute-counts", "offload", "options"])
def test_bounds_hold_for_what_is_tried_on_demand(also):
    """Some layers of a stage recomputed, state on the host, and switches of the engine."""
    axes: dict[str, list[Any]] = {
        "parallel.account_for_embedding": [False],
        "parallel.account_for_loss": [False],
        "parallel.sequence": [True],
        "parallel.sharding": ["optimizer"],
        "parallel.pipeline": [1, 2],
        "workload.micro_batch_size": [2, 4],
        **({} if also == "recompute-counts" else {"workload.recompute": ["none"]}),
    }
    space = Drawn(load_scenario(scenario(DECODER | {"num_layers": 12}), {}), (4,), axes, also=(also,))
    known = [space.bounded(family, range(family % 4, 60, 4)) for family in range(len(space.families))]
    shares = np.concatenate([each for each, _ in known])
    assert len(shares) > 4
    assert shares.max() <= 1.0
    assert np.median(shares) > 0.5
    assert not any(any(beyond) for _, beyond in known)
    if also == "recompute-counts":  # of some layers nothing is saved, of the others nothing is computed again
        saved = [table.costs["saved"] for table in space.searcher.bounds.tables.values() if table.places]
        assert {bool(each.any()) for each in saved} == {True, False}


@pytest.mark.parametrize(
    ("model", "engine", "gpu", "gpus", "batch"),
    [
        ("gpt3-175b", "megatron-core", "a100-sxm4-80gb", 1024, 1536),
        pytest.param("llama3-70b", "torchtitan", "h100-sxm5-80gb", 256, 512, marks=pytest.mark.slow),
        pytest.param("mixtral-8x7b", "megatron-core", "h100-sxm5-80gb", 64, 256, marks=pytest.mark.slow),
        pytest.param("llama3-8b", "megatron-core", "b200-sxm-180gb", 64, 256, marks=pytest.mark.slow),
    ],
)
def test_bounds_of_large_models_are_near(model, engine, gpu, gpus, batch):
    """What the certificate of a plan is worth: no bound above the step, and half of them within a quarter of it."""
    work = WORK | {"engine": engine, "global_batch_size": batch}
    space = Drawn(load_scenario({"model": model, "workload": work, "hardware": {"gpu": gpu}}, {}), (gpus,))
    draw, shares = np.random.default_rng(3), []
    for family in draw.permutation(len(space.families))[:10].tolist():
        some, fits_beyond = space.bounded(family, np.random.default_rng(family).integers(0, 10**6, 40))
        shares += some.tolist()
        assert not any(fits_beyond)
    assert len(shares) >= 5
    assert max(shares) <= 1.0
    assert np.median(shares) > 0.75


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "gpu", "gpus", "near"),
    [("gpt3-175b", "a100-sxm4-80gb", 1024, 0.85), ("mixtral-8x7b", "h100-sxm5-80gb", 64, 0.7)],
)
def test_bounds_of_memory_are_near(model, gpu, gpus, near):
    """Stages of pipelines are known with what they save beside their layers, and with their fullest moment."""
    space = Drawn(
        load_scenario({"model": model, "workload": WORK | {"global_batch_size": 1536}, "hardware": {"gpu": gpu}}, {}),
        (gpus,),
        None,
        "memory",
    )
    draw, shares = np.random.default_rng(5), []
    for family in draw.permutation(len(space.families))[:12].tolist():
        some, fits_beyond = space.bounded(family, np.random.default_rng(family).integers(0, 10**6, 40))
        shares += some.tolist()
        assert not any(fits_beyond)
    assert len(shares) >= 5
    assert max(shares) <= 1.0
    assert np.median(shares) > near


def test_more_is_tried_where_it_is_asked_for():
    few: dict[str, list[Any]] = {
        "parallel.sharding": ["optimizer"],
        "workload.micro_batch_size": [4],
        "parallel.sequence": [True],
        "parallel.pipeline": [1],
        "parallel.context": [1],
        "parallel.account_for_embedding": [False],
        "parallel.account_for_loss": [False],
    }
    counted = roofsim.plan(scenario(), gpus=2, axes=few, also=["recompute-counts", "offload"], cut=False, top=3)
    assert counted.axes["workload.recompute"][-2:] == [{"policy": "full", "layers": layers} for layers in (1, 2)]
    assert counted.axes["parallel.offload"] == [{"optimizer_state": "none"}, {"optimizer_state": "host"}]
    shown = " ".join(map(one_layout, counted.front))
    assert "full of the first 2 layers" in shown
    assert "optimizer state on the host" in shown
    switched = roofsim.plan(
        scenario(), gpus=2, axes=few | {"workload.recompute": ["none"]}, also=["options"], cut=False, top=3
    )
    assert switched.axes["workload.engine"][-1] == "megatron-core+fused-loss+tp-overlap+cuda-graphs"
    assert "cuda-graphs" in one_layout(switched.top[0])
    for one in (*counted.to_dict()["front"][-3:], *switched.to_dict()["top"]):
        assert roofsim.run(merged(scenario(), one)).step_time == pytest.approx(one["step_time"], rel=1e-9)
    with pytest.raises(SpecError, match="offload"):
        roofsim.plan(scenario(), gpus=4, also=["ofload"])
    with pytest.raises(SpecError, match="--ttft or --tpot"):
        roofsim.plan(scenario(), gpus=4, also=["disaggregation"])
    with pytest.raises(SpecError, match="in training"):
        roofsim.plan("llama3-8b", gpus=4, also=["options"], phase="decode", context_length=512)


def test_numbers_of_gpus_and_cards_are_searched_together():
    plan = roofsim.plan(
        scenario(), gpus="2..4", gpu=["a100", "h100"], objective="cost", axes=FEW, fixed=["workload.recompute"], top=4
    )
    assert {one.gpus for one in plan.front} <= {2, 4}
    assert plan.best is not None
    assert plan.best.cost is not None
    assert plan.best.cost == pytest.approx(plan.lower_bound)
    assert plan.best.cost <= min(one.cost for one in plan.front if one.cost is not None)
    assert all(one.changes["hardware"]["gpu"] in ("a100", "h100") for one in plan.top)


def test_the_front_has_the_fastest_of_each_number_of_gpus_and_card():
    """Those with fewer GPUs are slower than the best of all, and yet are not left out."""
    few = FEW | {"parallel.pipeline": [1, 2], "parallel.context": [1], "workload.recompute": ["none"]}
    cards = ["a100", "h100"]
    plan = roofsim.plan(scenario(), gpus="1..8", gpu=cards, axes=few, top=1)
    assert plan.cut > 0
    for gpus in (1, 2, 4, 8):
        alone = [roofsim.plan(scenario(gpu=card), gpus=gpus, axes=few, top=1).least for card in cards]
        own = [one.step_time for one in plan.front if one.gpus == gpus]
        assert min(own) == pytest.approx(min(alone), rel=1e-9)


def test_constraints_hold_on_any_figure():
    few = FEW | {"parallel.pipeline": [1, 2], "workload.recompute": ["none", "full"]}
    plan = roofsim.plan(scenario(), gpus=4, axes=few, constraints=["memory < 3 GiB", "mfu > 0.05"], cut=False)
    assert plan.constrained > 0
    assert all(one.memory < 3 * 2**30 for one in plan.front)
    for one in plan.to_dict()["top"][:3]:
        assert roofsim.run(merged(scenario(), one)).mfu > 0.05


def test_memory_is_an_objective():
    plan = roofsim.plan(scenario(), gpus=4, axes=FEW | {"parallel.pipeline": [1, 2]}, objective="memory", top=3)
    assert plan.best is not None
    assert plan.best.memory == pytest.approx(plan.lower_bound)
    assert plan.best.memory <= min(one.memory for one in plan.front)


def test_replicas_of_inference_share_the_batch():
    base = {
        "model": DECODER,
        "workload": {"phase": "decode", "context_length": 512, "batch_size": 8, "engine": "vllm"},
        "hardware": {"gpu": "h100"},
    }
    plan = roofsim.plan(base, gpus=4, cut=False)
    assert plan.best is not None
    for one in plan.to_dict()["top"]:
        replicas = 4 // (one["parallel"]["tensor"] * one["parallel"].get("pipeline", 1))
        assert one["workload"]["micro_batch_size"] * replicas == 8
        assert roofsim.run(merged(base, one)).step_time == pytest.approx(one["step_time"], rel=1e-9)


def test_where_nothing_fits_the_plan_says_why():
    plan = roofsim.plan("llama3-70b", gpu="h100", gpus=1, workload__global_batch_size=1, engine="megatron-core")
    assert plan.best is None
    assert plan.does_not_fit > 0
    assert plan.lower_bound is None
    assert "No layout is possible" in str(plan)


def test_rows_multiply_to_the_gpus_and_divide_the_batch():
    axes = {"gpus": [8, 16], "tensor": [1, 2, 4], "pipeline": [1, 2, 3, 4], "micro_batch_size": [1, 2, 3]}
    rows = joined_layouts(axes, batch=48, depth=6, trains=True)
    value = rows.values
    data = value["gpus"] / (value["tensor"] * value["pipeline"])
    assert (data == np.floor(data)).all()
    assert (48 % (data * value["micro_batch_size"]) == 0).all()
    every = {
        (n, t, p, b)
        for n in axes["gpus"] for t in axes["tensor"] for p in axes["pipeline"] for b in axes["micro_batch_size"]
        if n % (t * p) == 0 and 48 % (b * (n // (t * p))) == 0
    }  # fmt: skip
    known = set(zip(*(value[name].tolist() for name in axes), strict=True))
    assert known == every


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=30), st.randoms())
def test_merging_does_not_depend_on_order_and_takes_the_same_twice(figures, random):
    columns = best.none() | {
        "id": np.arange(len(figures)),
        **{
            name: np.array([row[at] for row in figures], dtype=float)
            for at, name in enumerate(("step_time", "memory", "cost"))
        },
        "value": np.array([row[0] for row in figures], dtype=float),
        "energy": np.zeros(len(figures)),
        "gpus": np.ones(len(figures)),
    }
    places = list(range(len(figures)))
    random.shuffle(places)
    top, front = best.none(), best.none()
    for place in [*places, *places[:3]]:
        one = best.taken(columns, [place])
        top, front = best.first(best.joined(top, one), 5), best.front(best.joined(front, one))
    assert top["id"].tolist() == best.first(columns, 5)["id"].tolist()
    assert sorted(front["id"].tolist()) == sorted(best.front(columns)["id"].tolist())
    for at in front["id"].tolist():
        worse = [
            all(a <= b for a, b in zip(other, figures[at], strict=True)) and other != figures[at] for other in figures
        ]
        assert not any(worse)


def test_gpus_are_read_as_people_write_them():
    assert read_gpus("64..512", Place("x")) == (64, 128, 256, 512)
    assert read_gpus("64..256:+64", Place("x")) == (64, 128, 192, 256)
    assert read_gpus([16, 8], Place("x")) == (8, 16)
    unfit: list[Any] = ["0", "x", "8.5", "10000000", math.nan, math.inf, -8, True]
    for wrong in unfit:
        with pytest.raises(SpecError):
            read_gpus(wrong, Place("x"))


def test_constraints_are_read_with_their_units():
    one, two = read_constraints(["memory < 70 GiB", "mfu>=0.4"])
    assert (one.figure, one.bound) == ("memory", 70 * 2**30)
    assert (two.figure, two.compare, two.bound) == ("mfu", ">=", 0.4)
    for wrong in ("memory", "memory < 70", "mfu < high"):
        with pytest.raises(SpecError):
            read_constraints([wrong])


def test_infinity_is_no_bound():
    assert best.limit_of(best.none(), 3) == math.inf
