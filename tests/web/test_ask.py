"""What the page is answered: what the command line prints for the same question, and its words where something is wrong."""

from __future__ import annotations

import json
import shlex

import pytest

import roofsim
from roofsim.web.ask import VERBS, ask
from roofsim.web.scenario import read_scenario
from roofsim.web.verbs import ANSWERED

GPT = {
    "model": "gpt2-124m",
    "workload": {"micro_batch_size": 2, "sequence_length": 256, "precision": "bf16"},
    "hardware": {"gpu": "a100"},
}
SERVED = {
    "model": "llama3-8b",
    "workload": {"prompt_length": 512, "output_length": 64, "request_rate": 4, "precision": "bf16"},
    "hardware": {"gpu": "h100"},
}
#: Verb, scenario, options.
QUESTIONS = [
    ("run", GPT, {}),
    ("run", {"model": "gpt2-124m", "hardware": {"override": {"gpu.memory.bandwidth": "2x"}}}, {}),
    ("run", GPT, {"tokens": "1e9", "pue": 1.2}),
    ("run", {"model": "resnet50", "hardware": {"gpu": "a100"}}, {"samples": "1.2M", "epochs": 90}),
    ("run", {"model": {"inherits": "gpt2-124m", "num_layers": 3}, "hardware": {"gpu": "h100"}}, {}),
    (
        "compare",
        GPT,
        {"gpus": ["a100", "8xh100", "a100{memory.bandwidth=2x}"], "sort": "speed", "prices": {"h100": 2.5}},
    ),
    ("compare", {"model": "gpt2-124m"}, {}),
    ("fit", GPT, {}),
    ("fit", GPT, {"largest": "sequence-length"}),
    ("fit", {"model": "llama3-70b", "hardware": {"gpu": "h100"}}, {"fewest": "gpus"}),
    ("memory", GPT, {}),
    ("memory", GPT, {"by": "role", "top": 3}),
    ("memory", GPT | {"parallel": {"tensor": 2}, "hardware": {"gpus": 2}}, {"curve": True}),
    ("serve", SERVED, {}),
    ("serve", SERVED, {"ttft": "500ms", "tpot": "50ms", "percentile": 95}),
    ("serve", SERVED, {"ttft": "500ms", "axes": {"gpu": ["h100", "h200"]}, "top": 2}),
    ("sweep", GPT, {"axes": {"micro_batch_size": [1, 2, 4], "gpu": ["a100", "h100"]}}),
    ("sweep", GPT, {"axes": {"memory.bandwidth": ["1x", "2 TB/s"]}, "figures": ["step_time", "mfu"]}),
    (
        "plan",
        {"model": "gpt2-124m", "workload": {"sequence_length": 512}, "hardware": {"gpu": "a100"}},
        {"gpus": "2..4", "top": 3},
    ),
    ("plan", GPT, {"gpus": [2], "gpu": ["a100", "h100"], "constraints": ["memory < 70 GiB"], "objective": "cost"}),
    ("advise", GPT, {}),
    ("whatif", GPT, {"changes": ["memory.bandwidth=2x", "gpu=h100"], "also": ["tdp=-20%"], "each": True, "by": "op"}),
    ("need", GPT, {"step_time": "5ms"}),
    ("need", GPT, {"days": 1, "tokens": "1e9"}),
    ("timeline", GPT, {}),
    ("explain", GPT, {"figure": "mfu"}),
    ("explain", GPT, {}),
]


def named(question):
    verb, _, options = question
    return f"{verb}-{'-'.join(options)}"


def timeless(data):
    """Leave out how long a search took, and whether the scenario was a file."""
    if not isinstance(data, dict):
        return data
    sources = [row for row in data.get("provenance", ()) if row["what"] != "scenario"]
    return {key: value for key, value in data.items() if key != "seconds"} | {"provenance": sources}


@pytest.mark.parametrize("question", QUESTIONS, ids=named)
def test_an_answer_is_what_its_command_prints(question, cli, tmp_path, monkeypatch):
    verb, scenario, options = question
    answer = ask(verb, {"scenario": scenario, "options": options})
    assert answer["ok"], answer["error"]["message"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenario.yaml").write_text(answer["yaml"], encoding="utf-8")
    words = shlex.split(answer["command"])
    assert words[:2] == ["roofsim", verb]
    assert timeless(json.loads(cli(*words[1:], "--json"))) == timeless(json.loads(json.dumps(answer["data"])))


#: Verbs that search, whose Python is asked in the long suite.
SEARCHING = ("advise", "need", "serve-ttft-axes-top", "fit-fewest")
AGAIN = [pytest.param(each, marks=pytest.mark.slow if named(each).startswith(SEARCHING) else ()) for each in QUESTIONS]


@pytest.mark.parametrize("question", AGAIN, ids=named)
def test_the_python_of_an_answer_gives_it_again(question, tmp_path, monkeypatch):
    verb, scenario, options = question
    answer = ask(verb, {"scenario": scenario, "options": options, "html": False})
    space: dict = {"print": lambda *_: None}
    exec(answer["python"], space)
    given = space["answer"]
    data = given.rows if verb == "memory" and hasattr(given, "view") else given.to_dict()
    stated = answer["data"][0] if verb == "memory" and not hasattr(given, "view") else answer["data"]
    if "job" in space:
        data |= {"job": space["job"].to_dict()}
    if verb == "advise":  # names its jobs by how they were given
        data, stated = (
            {key: value for key, value in each.items() if key in ("verdict", "limits")} for each in (data, stated)
        )
    assert timeless(json.loads(json.dumps(data))) == timeless(json.loads(json.dumps(stated)))


def test_every_verb_is_asked_above():
    assert {verb for verb, _, _ in QUESTIONS} | {"read", "catalog"} == set(VERBS)


def test_an_answer_has_what_the_page_shows():
    answer = ask("run", {"scenario": GPT})
    assert answer["headline"].startswith("gpt2-124m")
    assert answer["html"].lstrip().startswith('<article class="roofsim">')
    assert "style=" not in answer["html"]  # a policy without unsafe-inline would drop it
    assert "<script" not in answer["html"]
    assert answer["data"]["elasticity"].keys() >= {"memory_bandwidth", "tensor_flops"}
    memory = answer["charts"]["memory"]
    assert len(memory["op"]) == len(memory["allocated"]) == len(memory["index"])
    parts = [sum(values) for values in zip(*memory["parts"].values(), strict=True)]
    assert parts == pytest.approx(memory["allocated"])
    assert max(memory["allocated"]) == pytest.approx(answer["data"]["memory"]["allocated_peak"])
    assert answer["seconds"] > 0.0


def test_a_scenario_is_a_mapping_a_name_or_a_text():
    mapping = ask("run", {"scenario": {"model": "gpt2-124m"}, "html": False})
    name = ask("run", {"scenario": "gpt2-124m", "html": False})
    text = ask("run", {"scenario": "model: gpt2-124m\n", "html": False})
    assert mapping["data"] == name["data"]
    assert mapping["command"] == name["command"] == "roofsim run gpt2-124m"
    assert text["data"]["step_time"] == name["data"]["step_time"]
    assert "html" not in name


# -- what is wrong ------------------------------------------------------------------------------------------------------

WRONG = [
    ("run", {"model": "gpt2-124n"}, {}, "model"),
    ("run", {"model": "gpt2-124m", "hardware": {"gpu": "a10O"}}, {}, "hardware.gpu"),
    ("run", {"model": "gpt2-124m", "workload": {"phase": "trian"}}, {}, "workload.phase"),
    ("run", {"model": "gpt2-124m", "workload": {"micro_batch_size": "abc"}}, {}, "workload.micro_batch_size"),
    ("run", {"model": "gpt2-124m", "workload": {"micro_batch_size": 0}}, {}, "workload.micro_batch_size"),
    ("run", {"model": "gpt2-124m", "workload": {"precision": "bf17"}}, {}, "workload.precision"),
    ("whatif", GPT, {"changes": ["memory.bandwith=2x"]}, None),
    ("compare", GPT, {"gpus": ["a10O"]}, None),
    ("explain", GPT, {"figure": "step_tim"}, None),
    ("run", GPT, {"tokens": "many"}, None),
    ("run", GPT, {"tokens": "1T", "samples": 3}, None),
    ("run", GPT, {"epochs": 3}, None),
    ("run", GPT, {"samples": "1e30", "epochs": "1e300"}, None),
    ("need", GPT, {}, None),
    ("fit", GPT, {"largest": "colour"}, None),
    ("memory", GPT, {"by": "colour"}, None),
]


@pytest.mark.parametrize(("verb", "scenario", "options", "key"), WRONG)
def test_what_is_wrong_is_said_as_the_command_line_says_it(verb, scenario, options, key, cli):
    from roofsim.web.command import command_of

    answer = ask(verb, {"scenario": scenario, "options": options})
    assert not answer["ok"]
    said = cli(*shlex.split(command_of(verb, scenario, options))[1:], code=2)
    assert [line.removeprefix("roofsim: ") for line in said.splitlines()] == answer["error"]["message"].splitlines()
    if key is not None:
        assert answer["error"]["key"] == key


@pytest.mark.parametrize(
    ("verb", "options", "option"),
    [
        ("compare", {"gpus": ["a100", "h101"]}, "gpus"),
        ("compare", {"gpus": ["a100{memory.bandwith=2x}"]}, "gpus"),
        ("compare", {"gpus": ["a100"], "sort": "colour"}, "sort"),
        ("plan", {"gpus": "some"}, "gpus"),
        ("plan", {"gpus": 2, "objective": "speed"}, "objective"),
        ("need", {"step_time": "soon"}, "step_time"),
        ("whatif", {"changes": ["memory.bandwith=2x"]}, "changes"),
        ("sweep", {"axes": ["gpx=1,2"]}, "axes"),
        ("sweep", {"axes": ["micro_batch_size"]}, "axes"),
        ("memory", {"by": "colour"}, "by"),
        ("run", {"tokens": "many"}, "tokens"),
    ],
)
def test_what_is_wrong_with_an_option_names_it(verb, options, option):
    error = ask(verb, {"scenario": GPT, "options": options})["error"]
    assert error["option"] == option
    assert error["problems"][0]["option"] == option


def test_the_whole_job_stands_beside_the_step_and_its_price_is_ones_own():
    hardware: dict[str, object] = {"gpu": "h100", "gpus": 64}
    scenario = {"model": "llama3-8b", "hardware": hardware, "parallel": {"sharding": "full"}}
    options = {"tokens": "15T"}
    usual = ask("run", {"scenario": scenario, "options": options})
    assert "The whole job" in usual["html"]
    assert "Work(amount=15000000000000.0, counted='tokens')" in usual["python"]
    hardware["override"] = {"gpu.price.hourly": "2 USD/h"}
    own = ask("run", {"scenario": scenario, "options": options})["data"]["job"]
    hardware["override"] = {"gpu.price.hourly": "4 USD/h"}
    double = ask("run", {"scenario": scenario, "options": options})["data"]["job"]
    assert own["usd"] == pytest.approx([hours * 2.0 for hours in own["gpu_hours"]])
    assert double["usd"] == pytest.approx([2.0 * usd for usd in own["usd"]])
    assert double["days"] == own["days"] == usual["data"]["job"]["days"]
    assert "job" not in ask("run", {"scenario": scenario})["data"]


@pytest.mark.parametrize("options", [{}, {"by": "layer"}, {"curve": True}, {"by": "stage"}])
def test_memory_shows_what_is_alive_over_the_step(options):
    scenario = GPT | {"parallel": {"pipeline": 2}, "hardware": {"gpu": "a100", "gpus": 2}}
    answer = ask("memory", {"scenario": scenario, "options": options})
    assert "Memory over the step" in answer["html"]
    whole = ask("run", {"scenario": scenario})
    assert answer["charts"]["memory"] == whole["charts"]["memory"]


def test_an_error_names_what_is_near_and_what_was_expected():
    error = ask("run", {"scenario": {"model": "gpt2-124m", "hardware": {"gpu": "a10O"}}})["error"]
    assert "a100" in error["near"]
    error = ask("run", {"scenario": {"model": "gpt2-124m", "workload": {"phase": "trian"}}})["error"]
    assert (error["near"], error["found"]) == (["train"], "'trian'")
    assert "'decode'" in error["expected"]


def test_an_error_in_a_text_names_its_line():
    error = ask("run", {"scenario": "model: gpt2-124m\nworkload:\n  phase: trian\n"})["error"]
    assert (error["line"], error["key"]) == (3, "workload.phase")
    assert error["message"].startswith("scenario.yaml:3:")


def test_every_problem_of_a_scenario_is_told():
    wrong = {"model": "gpt2-124m", "workload": {"phase": "trian"}, "hardware": {"gpu": "a10O"}}
    keys = {problem["key"] for problem in ask("run", {"scenario": wrong})["error"]["problems"]}
    assert keys == {"workload.phase", "hardware.gpu"}


@pytest.mark.parametrize(
    ("verb", "request_"),
    [
        ("rum", {}),
        ("run", []),
        ("run", {"scenario": 3}),
        ("run", {"scenario": ""}),
        ("run", {"scenario": None}),
        ("run", {"scenario": {"model": None}}),
        ("run", {"scenario": {"model": 3}}),
        ("run", {"scenario": {"model": "gpt2-124m", "workload": []}}),
        ("run", {"scenario": {"model": "gpt2-124m", "workload": 4, "hardware": "a100"}}),
        ("run", {"scenario": GPT, "options": 3}),
        ("run", {"scenario": GPT, "options": {"gpus": 3}}),
        ("compare", {"scenario": GPT, "options": {"gpus": [["a100"]]}}),
        ("compare", {"scenario": GPT, "options": {"prices": ["a100"]}}),
        ("sweep", {"scenario": GPT, "options": {}}),
        ("sweep", {"scenario": GPT, "options": {"axes": {"micro_batch_size": 3}}}),
        ("sweep", {"scenario": GPT, "options": {"axes": {"no_such": [1]}}}),
        ("sweep", {"scenario": GPT, "options": {"axes": {"micro_batch_size": [{"a": 1}]}}}),
        ("memory", {"scenario": GPT, "options": {"top": -1}}),
        ("memory", {"scenario": GPT, "options": {"curve": "yes"}}),
        ("serve", {"scenario": SERVED, "options": {"percentile": "most"}}),
        ("serve", {"scenario": SERVED, "options": {"requests": "/etc/passwd"}}),
        ("plan", {"scenario": GPT, "options": {"resume": "/tmp"}}),
        ("plan", {"scenario": GPT, "options": {"scheduler": "tcp://127.0.0.1:1"}}),
        ("read", {}),
        ("read", {"text": 3}),
        ("read", {"text": "x", "name": 3}),
    ],
)
def test_a_request_of_another_form_is_refused_in_words(verb, request_):
    answer = ask(verb, request_)
    assert not answer["ok"]
    assert "defect" not in answer["error"]["message"]
    json.dumps(answer, allow_nan=False)


# -- no file of this machine ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["scenario.yaml", "./net", "/etc/passwd", "../secret.yaml", "~/net.yaml", "config.json", "a/b/../../secret.json"],
)
@pytest.mark.parametrize("form", ["{}", "model: {}", "model: {{inherits: {}}}"])
def test_no_scenario_names_a_file(name, form, tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    for place in (tmp_path / "in" / "scenario.yaml", tmp_path / "secret.yaml", tmp_path / "in" / "config.json"):
        place.write_text("model: gpt2-124m  # 31337\n", encoding="utf-8")
    (tmp_path / "in" / "net").mkdir()
    (tmp_path / "in" / "net" / "config.json").write_text('{"model_type": "gpt2", "n_embd": 31337}', encoding="utf-8")
    answer = ask("run", {"scenario": form.format(name)})
    assert not answer["ok"]
    assert "31337" not in json.dumps(answer)
    assert "names a file" in answer["error"]["message"] or "unknown model" in answer["error"]["message"]


def test_a_folder_of_a_name_with_an_organisation_is_not_looked_at(tmp_path, monkeypatch):
    (tmp_path / "meta" / "llama").mkdir(parents=True)
    (tmp_path / "meta" / "llama" / "config.json").write_text('{"model_type": "gpt2", "n_embd": 768}', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert "unknown model" in ask("run", {"scenario": {"model": "meta/llama"}})["error"]["message"]


@pytest.mark.parametrize(
    "scenario",
    [
        {"model": "gpt2-124m", "hardware": {"calibration": "/etc/passwd"}},
        {
            "model": {
                "family": "captured",
                "name": "x",
                "file": "/etc/passwd",
                "digest": "0",
                "trains": True,
                "batches": [1],
            }
        },
        {
            "model": {
                "family": "captured",
                "name": "x",
                "file": "/etc/passwd",
                "digest": "0",
                "trains": False,
                "batches": [1],
                "form": "onnx",
            },
            "workload": {"phase": "forward"},
        },
        {"model": "net.onnx"},
        {"model": "gpt2-124m", "hardware": {"gpu": "/etc/passwd"}},
        {"model": "gpt2-124m", "hardware": {"system": "../../etc/passwd"}},
        {"model": "gpt2-124m", "workload": {"engine": "/etc/passwd"}},
        {"model": "-"},
    ],
)
def test_no_other_key_names_a_file(scenario):
    answer = ask("run", {"scenario": scenario})
    assert not answer["ok"]
    assert "defect" not in answer["error"]["message"]
    assert "root:" not in json.dumps(answer)


def test_changes_and_axes_name_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.yaml").write_text("model: gpt2-124m\n", encoding="utf-8")
    swept = ask("sweep", {"scenario": GPT, "options": {"axes": {"model": ["./net.yaml"]}}})
    changed = ask("whatif", {"scenario": GPT, "options": {"changes": ["model=net.yaml"]}})
    said = json.dumps([swept, changed])
    assert "names a file" in said
    assert not swept["ok"]
    assert changed.get("data", {"after": None})["after"] is None


def test_files_are_named_again_behind_an_answer(tmp_path):
    path = tmp_path / "net.yaml"
    path.write_text("model: gpt2-124m\n", encoding="utf-8")
    assert not ask("run", {"scenario": str(path)})["ok"]
    assert roofsim.run(path).step_time == roofsim.run("gpt2-124m").step_time


def test_bombs_are_refused():
    deep = "model: " + "[" * 5000 + "]" * 5000
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]\n" for n in range(1, 20))
    nested: dict = {}
    for _ in range(200):
        nested = {"model": nested}
    wide = {"model": {f"k{n}": n for n in range(60_000)}}
    for scenario in (
        deep,
        bomb,
        nested,
        wide,
        "model: !!python/object/apply:os.system [ls]\n",
        "model: !include /etc/passwd\n",
    ):
        answer = ask("run", {"scenario": scenario})
        assert not answer["ok"]
        assert "defect" not in answer["error"]["message"], answer["error"]["message"]


# -- sliders -------------------------------------------------------------------------------------------------------------


def test_what_sliders_move_over_is_one_evaluation():
    axes = {
        "micro_batch_size": [1, 2, 4, 8, 16],
        "sequence_length": [256, 512, 1024],
        "memory.bandwidth": ["0.5x", "1x", "2x", "4x"],
        "hardware.override.gpu.peak.bf16": ["0.5x", "1x", "2x", "4x"],
        "price.hourly": ["1 USD/h", "4 USD/h"],
    }
    figures = "step_time,memory.peak,cost.usd_per_hour,mfu"
    table = ANSWERED["sweep"](read_scenario("sweep", GPT), {"axes": axes, "figures": figures}).answer
    assert (table.evaluated.together, table.evaluated.alone) == (5 * 3 * 4 * 4 * 2, 0)
    answer = ask("sweep", {"scenario": GPT, "options": {"axes": axes, "figures": figures.split(",")}, "html": False})
    assert len(answer["data"]["rows"]) == len(table)
