"""`roofsim mcp` as agents use it: the protocol's own client, talking to a process over its standard streams."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError

from roofsim.agents.cut import LEFT_OUT
from roofsim.agents.tools import TOOLS
from roofsim.spec import catalog
from roofsim.spec.scenario.document import SECTIONS
from tests.spec.test_bad_input import run_cli

MODEL = "gpt2-124m"
SERVED = {"prompt_length": 64, "output_length": 8, "request_rate": 2}
#: Tool -> arguments, and the command that says the same.
CALLS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "run": (
        {"scenario": {"model": MODEL, "workload": {"micro_batch_size": 4}, "hardware": {"gpu": "h100"}}},
        ["run", MODEL, "--gpu", "h100", "--micro-batch-size", "4"],
    ),
    "compare": (
        {"scenario": MODEL, "gpus": ["a100", "h100"], "sort": "speed"},
        ["compare", MODEL, "a100", "h100", "--sort", "speed"],
    ),
    "fit": (
        {"scenario": MODEL, "overrides": {"gpu": "t4", "precision": "fp16"}},
        ["fit", MODEL, "--gpu", "t4", "--precision", "fp16"],
    ),
    "plan": (
        {"scenario": MODEL, "gpus": 2, "gpu": "a100", "top": 2},
        ["plan", MODEL, "--gpus", "2", "--gpu", "a100", "--top", "2"],
    ),
    "explain": ({"scenario": MODEL, "figure": "mfu"}, ["explain", MODEL, "mfu"]),
    "sweep": (
        {"scenario": MODEL, "axes": {"gpu": ["a100", "h100"]}, "figures": ["step_time"]},
        ["sweep", MODEL, "--axis", "gpu=a100,h100", "--figure", "step_time"],
    ),
    "advise": ({"scenario": MODEL, "overrides": {"gpu": "a100"}}, ["advise", MODEL, "--gpu", "a100"]),
    "serve": (
        {"scenario": {"model": MODEL, "workload": SERVED, "hardware": {"gpu": "a100"}}},
        ["serve", MODEL, "--gpu", "a100", "--prompt-length", "64", "--output-length", "8", "--request-rate", "2"],
    ),
    "memory": ({"scenario": MODEL}, ["memory", MODEL]),
    "whatif": (
        {"scenario": MODEL, "changes": ["gpu=h100", "micro_batch_size=2x"], "each": True, "also": ["memory.bandwidth=2x"]},
        ["whatif", MODEL, "--set", "gpu=h100", "--set", "micro_batch_size=2x", "--each", "--also", "memory.bandwidth=2x"],
    ),
    "need": (
        {"scenario": MODEL, "overrides": {"gpu": "a100"}, "step_time": "10ms"},
        ["need", MODEL, "--gpu", "a100", "--step-time", "10ms"],
    ),
    "timeline": (
        {"scenario": MODEL, "overrides": {"gpu": "a100", "gpus": 4, "pipeline": 2, "global_batch_size": 16}},
        ["timeline", MODEL, "--gpu", "a100", "--gpus", "4", "--pipeline", "2", "--global-batch-size", "16"],
    ),
    "diff": (
        {"old": MODEL, "new": "gpt2-355m", "gpu": ["a100", "h100"], "by": "class", "fail_over": "3%"},
        ["diff", MODEL, "gpt2-355m", "--gpu", "a100,h100", "--by", "class", "--fail-over", "3%"],
    ),
    "list": ({"catalog": "gpus", "filters": {"vendor": "amd"}}, ["list", "gpus", "--vendor", "amd"]),
    "show": ({"name": "h100", "kind": "gpu"}, ["show", "gpu", "h100"]),
}  # fmt: skip
#: What differs between two runs of one request: how long they took.
TIMES = ("seconds",)
#: A search of some seconds.
LONG = {
    "scenario": "gpt3-175b",
    "gpus": "512..2048",
    "overrides": {"gpu": "h100", "engine": "megatron", "sequence_length": 2048, "global_batch_size": 2048},
}


def asked(talk, *options, mode="auto"):
    """Start a server, let `talk` use it, and return what that returns."""
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "roofsim", "mcp", *map(str, options)], env=dict(os.environ)
    )

    async def session():
        with Path(os.devnull).open("w") as nowhere:
            async with Client(stdio_client(server, errlog=nowhere), mode=mode) as client:
                return await talk(client)

    answer = anyio.run(session)
    with warnings.catch_warnings():
        # The client does not wait for a server that a busy machine is slow to end; its pipes say so when they are collected.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    return answer


def texts(answer):
    return [part.text for part in answer.content]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_tools_are_listed_with_what_they_take_and_return(mode):
    async def talk(client):
        listed = await client.list_tools()
        return {tool.name: tool for tool in listed.tools}, client.server_info.name

    tools, name = asked(talk, mode=mode)
    assert name == "roofsim"
    assert set(tools) == set(TOOLS) == set(CALLS)
    whole = 0
    for tool in tools.values():
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        jsonschema.Draft202012Validator.check_schema(tool.output_schema)
        assert tool.description
        assert tool.annotations.read_only_hint
        jsonschema.validate(CALLS[tool.name][0], tool.input_schema)
        whole += len(tool.model_dump_json(by_alias=True, exclude_unset=True))
    assert whole < 58_000  # agents hold it all at once: some 3,800 characters a tool
    scenario = tools["run"].input_schema["properties"]["scenario"]
    for section, schema in SECTIONS.items():
        keys = scenario["properties"][section]["properties"]
        assert set(keys) == set(schema.model_fields)
        assert all(key["type"] and key["description"] for key in keys.values())
    assert "enum" in tools["plan"].input_schema["properties"]["objective"]
    broken = {"scenario": {"model": MODEL, "workload": {"micro_batchsize": 4}}}
    for tool in ("run", "fit"):
        assert not jsonschema.Draft202012Validator(tools[tool].input_schema).is_valid(broken)


def test_each_tool_answers_what_the_command_prints(monkeypatch, capsys):
    async def talk(client):
        await client.list_tools()  # so that the client holds answers against their schemas
        return {name: await client.call_tool(name, arguments) for name, (arguments, _) in CALLS.items()}

    answers = asked(talk, "--characters", 1_000_000)
    for name, (_, words) in CALLS.items():
        code, out, said = run_cli(monkeypatch, capsys, *words, "--json")
        assert code == (3 if name == "diff" else 0), said  # a gate that fails says so
        printed = json.loads(out)
        printed = {"catalog": "gpus", "rows": printed} if name == "list" else printed
        printed = printed[0] if isinstance(printed, list) else printed
        answer = answers[name]
        assert not answer.is_error, texts(answer)
        data = dict(answer.structured_content)
        for key in TIMES:
            if name == "plan":
                data.pop(key)
                printed.pop(key)
        if name == "advise":  # its commands name what was asked for, which stands in other words here
            data, printed = (
                {key: one[key] for key in ("limits", "elasticity", "tried", "bound")} for one in (data, printed)
            )
        assert data == printed, name
        assert texts(answer)[0]


def test_a_whole_job_is_what_the_command_says_of_it(monkeypatch, capsys):
    jobs: list[tuple[dict[str, Any], list[str]]] = [
        (
            {"tokens": "10B", "pue": 1.2, "overrides": {"gpu": "a100"}},
            ["--tokens", "10B", "--pue", "1.2", "--gpu", "a100"],
        ),
        (
            {"samples": 1.2e6, "epochs": 3, "eval_samples": 5000, "eval_every": "1000", "carbon": 300},
            [
                "--samples",
                "1.2e6",
                "--epochs",
                "3",
                "--eval-samples",
                "5000",
                "--eval-every",
                "1000",
                "--carbon",
                "300",
            ],
        ),
    ]
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"tokens": "many"}, "--tokens: "),
        ({"epochs": 3}, "--epochs: expected --tokens, or --samples with --epochs, beside it"),
        ({"tokens": 0}, "--tokens: "),
        ({"tokens": [1e9]}, "tokens: expected a number or a text; got [1000000000.0]"),
    ]

    async def talk(client):
        await client.list_tools()
        given = [arguments for arguments, _ in (*jobs, *wrong)]
        return [await client.call_tool("run", {"scenario": MODEL, **arguments}) for arguments in given]

    answers = asked(talk, "--characters", 1_000_000)
    for (_, words), answer in zip(jobs, answers, strict=False):
        code, out, said = run_cli(monkeypatch, capsys, "run", MODEL, *words, "--json")
        assert code == 0, said
        assert answer.structured_content == json.loads(out)
        assert answer.structured_content["job"]["days"][1] > 0.0
        assert any("days" in text for text in texts(answer))
    for (_, message), answer in zip(wrong, answers[len(jobs) :], strict=True):
        assert answer.is_error
        assert message in texts(answer)[0]


def test_what_is_wrong_is_said_as_the_command_says_it(monkeypatch, capsys):
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("run", {"scenario": MODEL, "overrides": {"gpu": "h1000"}}, "--gpu: hardware.gpu: unknown gpu 'h1000'. Did you"),
        ("run", {"scenario": "gpt2-124n"}, "Did you mean 'gpt2-124m'"),
        ("run", {"scenario": {"model": MODEL, "workload": {"micro_batchsize": 4}}}, "Did you mean 'micro_batch_size'"),
        ("run", {"scenario": {"model": MODEL, "workload": {"micro_batch_size": 0}}}, "--micro-batch-size"),
        ("run", {"scenario": {"model": MODEL, "workload": {"micro_batch_size": 10**30}}}, "--micro-batch-size"),
        ("run", {"scenario": MODEL, "overrides": {"nonsense": 1}}, "unknown key 'nonsense'"),
        ("run", {"scenaro": MODEL}, "run: takes no 'scenaro'. Did you mean 'scenario'"),
        ("run", {}, "run: expected 'scenario'"),
        ("run", {"scenario": ["gpt"]}, 'scenario: expected a text or a mapping; got ["gpt"]'),
        ("run", {"scenario": ""}, "expected a scenario; got nothing"),
        ("run", {"scenario": "-"}, "'-'"),
        ("run", {"scenario": "x" * 2_000_000}, "a call has at most 1,000,000"),
        ("run", {"scenario": MODEL, "keys": ["memroy"]}, "the answer has no 'memroy'. Did you mean 'memory'?"),
        ("run", {"scenario": MODEL, "start": 3}, "expected `keys` that name the list to start in"),
        ("sweep", {"scenario": MODEL, "axes": {"parallel.tensr": [1]}}, "Did you mean"),
        ("sweep", {"scenario": MODEL, "axes": {"micro_batch_size": list(range(1, 30_000))}}, "at most 20,000"),
        ("plan", {"scenario": MODEL, "top": 0}, "expected a whole number from 1 to 1,000,000; got '0'"),
        ("plan", {"scenario": MODEL, "gpus": 2, "objective": "speed"}, "objective"),
        ("compare", {"scenario": MODEL, "gpus": ["a1001"]}, "Did you mean 'a100"),
        ("list", {"catalog": "cards"}, "no catalog 'cards'"),
        ("list", {"catalog": "gpus", "search": "h10o"}, "nothing is called 'h10o'. Near: "),
        ("list", {"catalog": "gpus", "filters": {"vendr": "amd"}}, "Did you mean 'vendor'"),
        ("show", {"name": "h1000"}, "Did you mean"),
        ("whatif", {"scenario": MODEL}, "whatif: expected 'changes'"),
        ("whatif", {"scenario": MODEL, "changes": ["memory.bandwith=2x"]}, "Did you mean"),
        ("whatif", {"scenario": MODEL, "changes": []}, "expected at least one change"),
        ("need", {"scenario": MODEL}, "--step-time"),
        ("need", {"scenario": MODEL, "step_time": "0ms"}, "step-time"),
        ("diff", {"old": MODEL}, "diff: expected 'new'"),
        ("diff", {"old": MODEL, "new": "HEAD~1:gpt.yaml"}, "new: no revision is read here; got 'HEAD~1:gpt.yaml'"),
        ("diff", {"old": MODEL, "new": "gpt2-124n"}, "Did you mean 'gpt2-124m'"),
        ("diff", {"old": MODEL, "new": "/etc/passwd"}, "none is read here by its name"),
        ("rnu", {"scenario": MODEL}, "no tool 'rnu'. Did you mean 'run'?"),
        ("run", {"scenario": "/etc/passwd"}, "none is read here by its name. Give what the file holds"),
        ("run", {"scenario": {"model": "../gpt.yaml"}}, "none is read here by its name"),
        ("run", {"scenario": {"model": {"inherits": "/etc/passwd"}}}, "none is read here by its name"),
        ("run", {"scenario": {"model": MODEL, "hardware": {"calibration": "/etc/passwd"}}}, "none is read here by its name"),
    ]  # fmt: skip

    async def talk(client):
        return [await client.call_tool(name, arguments) for name, arguments, _ in wrong]

    for (name, arguments, message), answer in zip(wrong, asked(talk, mode="legacy"), strict=True):
        assert answer.is_error, (name, arguments)
        assert answer.structured_content is None
        (said,) = texts(answer)
        assert message in said, (name, str(arguments)[:80], said)
        assert "defect" not in said
        assert "Traceback" not in said
    _, _, printed = run_cli(monkeypatch, capsys, "run", MODEL, "--gpu", "h1000")
    assert printed.removeprefix("roofsim: ").strip().startswith(wrong[0][2])


def test_a_long_answer_is_cut_and_the_rest_can_be_asked_for():
    asking = {"scenario": MODEL, "axes": {"micro_batch_size": list(range(1, 101))}, "figures": ["step_time"]}

    async def talk(client):
        await client.list_tools()
        first = await client.call_tool("sweep", asking)
        rows, notes = list(first.structured_content["rows"]), first.structured_content[LEFT_OUT]
        while notes:
            (note,) = notes
            more = await client.call_tool("sweep", {**asking, "keys": [note["key"]], "start": note["next"]})
            rows += more.structured_content["rows"]
            notes = more.structured_content.get(LEFT_OUT)
        part = await client.call_tool("run", {"scenario": MODEL, "keys": ["memory.components", "step_time"]})
        run = await client.call_tool("run", {"scenario": MODEL})
        return first, rows, part, run

    first, rows, part, run = asked(talk, "--characters", 3000)
    assert len(json.dumps(first.structured_content)) < 4000
    assert 'call again with keys: ["rows"], start: ' in texts(first)[-1]
    assert [row["micro_batch_size"] for row in rows] == list(range(1, 101))
    assert set(part.structured_content) == {"memory.components", "step_time"}
    assert any(note["key"] == "provenance" for note in run.structured_content[LEFT_OUT])


def test_progress_two_calls_at_once_and_a_call_that_is_cancelled():
    async def talk(client):
        told, answers = [], {}

        async def progress(done, of, _):
            told.append((done, of))

        async def call(name):
            answers[name] = await client.call_tool(name, CALLS[name][0])

        async with anyio.create_task_group() as group:
            group.start_soon(call, "run")
            group.start_soon(call, "memory")
        with anyio.move_on_after(60.0) as scope:

            async def stop(done, of, _):
                told.append((done, of))
                scope.cancel()

            await client.call_tool("plan", LONG, progress_callback=stop)
        start = time.monotonic()
        again = await client.call_tool("run", CALLS["run"][0])
        return told, answers, scope.cancelled_caught, again, time.monotonic() - start

    told, answers, cancelled, again, seconds = asked(talk, mode="legacy")
    assert cancelled
    assert told
    assert all(0 <= done <= of for done, of in told)
    assert answers["run"].structured_content == again.structured_content
    assert answers["memory"].structured_content["fits"] is True
    assert seconds < 30.0


def test_a_call_that_takes_too_long_is_stopped():
    async def talk(client):
        late = await client.call_tool("plan", LONG)
        return late, await client.call_tool("list", {"catalog": "engines"})

    late, after = asked(talk, "--time-limit", 3)
    assert late.is_error
    assert "stopped after 3 s. Ask for less" in texts(late)[0]
    assert "vllm" in texts(after)[1]


def test_what_there_is_to_read():
    async def talk(client):
        listed = await client.list_resources()
        read = {each.uri: (await client.read_resource(each.uri)).contents[0] for each in listed.resources}
        with pytest.raises(MCPError, match=r"no such resource\. Did you mean 'roofsim://glossary'"):
            await client.read_resource("roofsim://glosary")
        return read

    read = asked(talk)
    assert len(read) == 13
    for kind in ("gpu", "system", "engine", "architecture", "model"):
        lines = read[f"roofsim://catalog/{kind}s"].text.splitlines()
        assert [line.split(" ")[0] for line in lines] == list(catalog.known(kind))
    assert "| arithmetic intensity |" in read["roofsim://glossary"].text
    assert json.loads(read["roofsim://schema/scenario"].text)["$id"] == "urn:roofsim:schema:scenario"


def test_files_are_read_inside_the_folders_that_are_given(tmp_path):
    inside, secret = tmp_path / "models", tmp_path / "secret.yaml"
    inside.mkdir()
    secret.write_text(f"model: {MODEL}\n", encoding="utf-8")
    (inside / "mine.yaml").write_text(f"model: {MODEL}\nhardware: {{gpu: h100}}\n", encoding="utf-8")
    (inside / "link.yaml").symlink_to(secret)
    names = ["mine.yaml", str(inside / "mine.yaml"), "link.yaml", "../secret.yaml", str(secret), "gone.yaml"]

    async def talk(client):
        return [await client.call_tool("run", {"scenario": name, "keys": ["step_time"]}) for name in names]

    *read, link, above, whole, gone = asked(talk, "--folder", inside)
    assert [one.is_error for one in read] == [False, False]
    assert read[0].structured_content == read[1].structured_content
    for refused in (link, above, whole):
        assert refused.is_error
        assert f"Files are read inside {inside.resolve()} alone" in texts(refused)[0]
    assert "no such file" in texts(gone)[0]


# -- without the client ---------------------------------------------------------------------------------------------


@pytest.fixture
def server():
    started = subprocess.Popen(
        [sys.executable, "-m", "roofsim", "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    yield started
    started.kill()
    started.wait()
    for stream in (started.stdin, started.stdout):
        assert stream is not None
        with contextlib.suppress(OSError):
            stream.close()


def put(server, *lines):
    for line in lines:
        server.stdin.write((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n")
    server.stdin.flush()


def request(number, method, **params):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


HELLO = request(
    0, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "test", "version": "1"}
)
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def test_malformed_messages_are_refused_and_the_next_is_answered(server):
    put(server, b"not json", b"[]", b'{"jsonrpc": "2.0"}', b"\xff\xfe{", b"{" * 5000, HELLO, READY)
    put(
        server,
        request(1, "no/such"),
        request(2, "tools/call", name=5),
        request(3, "tools/call", name="run", arguments="x"),
    )
    put(server, request(4, "tools/call", name="list", arguments={"catalog": "engines"}))
    seen: dict[Any, Any] = {}
    while 4 not in seen:
        message = json.loads(server.stdout.readline())  # every line is of the protocol
        seen[message.get("id")] = message
    assert seen[0]["result"]["serverInfo"]["name"] == "roofsim"
    for number in (1, 2, 3):
        assert seen[number]["error"]["code"] < 0
    assert seen[4]["result"]["structuredContent"]["catalog"] == "engines"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks at processes as Linux shows them")
def test_a_client_that_goes_away_leaves_nothing_behind(server):
    put(server, HELLO, READY, request(1, "tools/call", name="plan", arguments=LONG))
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children")
    until = time.monotonic() + 60.0
    while not (workers := children.read_text().split()) and time.monotonic() < until:
        time.sleep(0.1)
    assert workers
    server.stdin.close()
    assert server.wait(timeout=60) == 0
    assert [pid for pid in workers if Path(f"/proc/{pid}").exists()] == []


def test_without_the_library_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "mcp.server.stdio", None)
    code, out, said = run_cli(monkeypatch, capsys, "mcp")
    assert (code, out) == (2, "")
    assert "pip install 'roofsim[mcp]'" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--folder", "nowhere"], "no such folder: nowhere"),
        (["--time-limit", "0"], "--time-limit"),
        (["--characters", "5"], "--characters"),
    ],
)  # fmt: skip
def test_wrong_options_are_refused_before_anything_is_served(words, message, monkeypatch, capsys):
    code, out, said = run_cli(monkeypatch, capsys, "mcp", *words)
    assert (code, out) == (2, "")
    assert message in said
