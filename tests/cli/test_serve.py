"""``roofsim serve``: its tables, formats and refusals."""

from __future__ import annotations

import csv
import io
import json
import sys

import pytest

BASE = ("llama3-8b", "--gpu", "h100", "--prompt-length", 300, "--output-length", 64)


def test_latencies_limits_memory_and_cost(cli):
    out = cli("serve", *BASE, "--concurrency", 16)
    for words in (
        "16 requests in flight", "first token", "80 % range", "tokens/s per user", "output tokens/s", "prefill", "decode",
        "limited by", "saturation", "for the cache", "requests at once", "USD per million output tokens", "Assumed: engine: vllm",
        "length_variation: 0.1",
    ):  # fmt: skip
        assert words in out, words


def test_what_cannot_be_sustained_and_what_does_not_fit(cli):
    out = cli("serve", *BASE, "--request-rate", 100_000)
    assert "NOT sustainable: 100,000 requests/s arrive" in out
    assert "per output token" not in out
    assert "85 %" not in out


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (("--concurrency", 16), "16 requests in flight at all times, 4 on each of 4 replicas"),
        (("--request-rate", 6), "6 requests/s, 1.5 on each of 4 replicas, Poisson arrivals"),
        ((), "on each of 4 replicas"),
    ],
)
def test_a_load_is_dealt_out_to_replicas(cli, load, words):
    assert words in " ".join(cli("serve", *BASE, *load, "--gpus", 4).split())
    assert "on each of" not in cli("serve", *BASE, *load)


@pytest.mark.parametrize(
    ("serving", "words"),
    [
        ("{arrival_variation: 3.0}", "6 requests/s, arrivals of variation 3 (open loop)"),
        ("{arrival_variation: 3.0, arrivals: constant}", "6 requests/s, arrivals of variation 3 (open loop)"),
        ("{arrival_variation: 0}", "6 requests/s, evenly spaced arrivals (open loop)"),
        ("{arrivals: constant}", "6 requests/s, evenly spaced arrivals (open loop)"),
        ("{arrivals: poisson}", "6 requests/s, Poisson arrivals (open loop)"),
    ],
)
def test_the_head_names_the_arrivals_that_are_stated(cli, serving, words):
    out = " ".join(cli("serve", *BASE, "--request-rate", 6, "--serving", serving).split())
    assert words in out
    assert ("Poisson" in out) is ("Poisson" in words)


NO_ROOM = ("serve", "llama-3.1-405b", "--gpu", "h200", "--prompt-length", 512, "--output-length", 128)


@pytest.mark.parametrize(
    "load", [(), ("--concurrency", 4), ("--request-rate", 2), ("--engine", "llama.cpp"), ("--gpus", 4)]
)
def test_what_does_not_fit_says_so_first_and_has_no_rate(cli, load):
    lines = cli(*NO_ROOM, *load).splitlines()
    assert lines[2].startswith("verdict")
    assert "does NOT fit: " in lines[2]
    assert "GiB missing" in lines[2]
    text = "\n".join(lines)
    for rate in ("tokens/s", "requests/s, ", "ms", "saturation", "per million", "first token"):
        assert rate not in text.replace("2 requests/s, Poisson arrivals", ""), rate


def test_data_of_what_does_not_fit_have_a_reason_and_no_rate(cli, tmp_path):
    data = json.loads(cli(*NO_ROOM, "--json", "--simulate", "--plot", tmp_path / "none.png"))
    assert not data["fits"]
    assert not data["sustainable"]
    assert data["reason"].startswith("does not fit: ")
    assert data["latency"] is data["throughput"] is data["running"] is data["simulated"] is None
    assert data["saturation"] == {
        "requests_per_second": None, "requests_per_second_range": None, "output_tokens_per_second_per_gpu": None,
        "max_requests": 0,
    }  # fmt: skip
    assert data["curve"] == []
    assert data["bounds"] == {}
    assert data["cost"]["usd_per_hour"] > 0
    assert data["cost"]["usd_per_million_output_tokens"] is None
    assert data["memory"]["shortfall"] > 0
    assert (tmp_path / "none.png").stat().st_size > 1000
    rows = list(csv.DictReader(io.StringIO(cli(*NO_ROOM, "--csv"))))
    assert [row["reason"] for row in rows] == [data["reason"]]


def test_reason_of_answers_with_and_without_a_steady_state(cli):
    assert json.loads(cli("serve", *BASE, "--json"))["reason"] is None
    data = json.loads(cli("serve", *BASE, "--request-rate", 100_000, "--json"))
    assert data["fits"]
    assert data["reason"].startswith("not sustainable: 1e+05 requests/s arrive")
    assert data["saturation"]["requests_per_second"] > 0


def test_load_near_saturation_is_marked(cli):
    most = json.loads(cli("serve", *BASE, "--json"))["saturation"]["requests_per_second"]
    assert "of the highest rate: latencies are ill conditioned there" in cli(
        "serve", *BASE, "--request-rate", 0.95 * most
    )


def test_json_csv_and_picture(cli, tmp_path):
    data = json.loads(cli("serve", *BASE, "--request-rate", 4, "--json"))
    assert data["schema"] == "roofsim/serve/1"
    assert data["load"] == {"kind": "open", "concurrency": None, "request_rate": 4.0}
    low, high = data["latency"]["time_to_first_token_range"]
    assert low < data["latency"]["time_to_first_token"] < high
    rows = list(csv.DictReader(io.StringIO(cli("serve", *BASE, "--csv"))))
    assert float(rows[0]["concurrency"]) == 1.0
    assert float(rows[-1]["output_tokens_per_second"]) > float(rows[0]["output_tokens_per_second"])
    cli("serve", *BASE, "--plot", tmp_path / "served.png")
    assert (tmp_path / "served.png").stat().st_size > 10_000


def test_scenario_file_says_all(cli, tmp_path):
    path = tmp_path / "server.yaml"
    path.write_text(
        "model: llama3-8b\n"
        "workload:\n"
        "  engine: sglang\n"
        "  prompt_length: 300\n"
        "  output_length: 64\n"
        "  concurrency: 32\n"
        "  serving: {max_num_seqs: 16, prefix_cache_hit_rate: 0.5}\n"
        "hardware: {gpu: h100, gpus: 2}\n"
    )
    out = cli("serve", path)
    assert "2 replicas" in out
    assert "150 of them cached" in out
    assert "sglang on 2 x h100-sxm5-80gb" in out
    path.write_text(path.read_text().replace("max_num_seqs", "max_seqs"))
    error = cli("serve", path, code=2)
    assert "server.yaml:7:" in error
    assert "Did you mean 'max_num_seqs'" in error


def test_simulation_beside_the_estimate(cli):
    pytest.importorskip("simpy")
    assert "simulated" in cli("serve", *BASE, "--concurrency", 16, "--simulate")


def test_simulation_without_simpy(cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "simpy", None)
    error = cli("serve", *BASE, "--concurrency", 4, "--simulate", code=2)
    assert "needs simpy, which is not installed: pip install 'roofsim[serve]'" in error


APART = "disaggregated: {prefill_workers: 1, decode_workers: 1"
WRONG = {
    "two loads": (("--concurrency", 4, "--request-rate", 2), "are different loads. Give one"),
    "no requests": (("--concurrency", 0), "workload.concurrency: expected a number more than 0"),
    "negative rate": (("--request-rate", -1), "workload.request_rate: expected a number more than 0"),
    "endless rate": (("--request-rate", ".inf"), "workload.request_rate: expected"),
    "a batch": (("--batch-size", 8), "a server's batch follows from its load"),
    "one phase": (("--phase", "decode"), "a server runs whole requests (generate), not phase decode"),
    "context": (("--context-length", 8), "a request has a prompt_length and an output_length"),
    "engine without a server": (("--engine", "exllamav2"), "runs static batches and has no server. Engines that serve"),
    "unknown key": (("--serving", "{max_num_seq: 4}"), "unknown key 'max_num_seq'. Did you mean 'max_num_seqs'"),
    "zero sequences": (("--serving", "{max_num_seqs: 0}"), "max_num_seqs: expected a number more than 0"),
    "arrivals of nobody": (("--serving", "{arrivals: poisson}"), "workload.serving.arrivals: goes with request_rate"),
    "unknown arrivals": (("--serving", "{arrivals: bursty}", "--request-rate", 1), "expected one of"),
    "more requests than tokens": (
        ("--serving", "{max_num_batched_tokens: 256, max_num_seqs: 400}"),
        "400 requests at once need one token each, but a step takes 256 tokens: vllm refuses that. At most 256",
    ),
    "more requests than the usual tokens": (("--serving", "{max_num_seqs: 100000}"), "a max_num_batched_tokens of at least 100000"),
    "more than all": (("--serving", "{prefix_cache_hit_rate: 1.5}"), "expected a number at most 1; got 1.5"),
    "more tokens than there are": (("--serving", "{prefix_cache_tokens: 301}"), "301 cached tokens of a prompt of 300"),
    "two words for a prefix": (("--serving", "{prefix_cache_tokens: 3, prefix_cache_hit_rate: 0.5}"), "say the same; give one"),
    "shared nothing": (("--serving", "{prefix_shared: true}"), "prefix_shared goes with"),
    "prompt beyond a step": (
        ("--serving", "{max_num_batched_tokens: 100, enable_chunked_prefill: false}"),
        "a prompt of 300 tokens does not fit in max_num_batched_tokens 100, and is not split",
    ),
    "nobody guesses": (
        ("--serving", "{speculative: {num_speculative_tokens: 3, acceptance_rate: 0.5}}"),
        "method draft_model needs draft_model",
    ),
    "acceptance of all and more": (
        ("--serving", "{speculative: {method: ngram, num_speculative_tokens: 3, acceptance_rate: 1.2}}"),
        "acceptance_rate: expected a number at most 1",
    ),
    "draft of another family": (
        ("--serving", "{speculative: {draft_model: whisper-small, num_speculative_tokens: 3, acceptance_rate: 0.5}}"),
        "whisper-small is an encoder-decoder",
    ),
    "unknown draft": (
        ("--serving", "{speculative: {draft_model: lama3-8b, num_speculative_tokens: 3, acceptance_rate: 0.5}}"),
        "unknown model 'lama3-8b'",
    ),
    "adapters of nothing": (("--serving", "{lora: {targets: [querry]}}"), "unknown target 'querry'"),
    "workers and GPUs": (("--serving", f"{{{APART}}}}}", "--gpus", 3), "3 GPUs, but 1 + 1 workers of 1 are 2"),
    "workers and replicas": (("--serving", f"{{{APART}}}}}", "--data", 2), "the numbers of workers are the numbers of replicas"),
    "no link between nodes": (
        ("--serving", f"{{{APART}, transfer: network}}}}", "--gpu", "rtx4090"), "states no network between nodes",
    ),
    "workers beyond a node": (
        ("--serving", "{disaggregated: {prefill_workers: 8, decode_workers: 8, transfer: node}}"),
        "do not fit in one dgx-h100 of 8",
    ),
    "fewer requests than replicas": (("--concurrency", 2, "--gpus", 4), "2 requests for 4 replicas"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_refusals(cli, name):
    arguments, message = WRONG[name]
    error = cli("serve", *BASE, *arguments, code=2)
    assert message in error
    assert "Traceback" not in error


def test_models_that_do_not_generate(cli):
    assert "this one answers in one pass" in cli("serve", "resnet50", *BASE[1:], code=2)
    assert "requests/s" in cli("serve", "resnet50", "--gpu", "h100", "--request-rate", 1000)
    refused = cli("serve", "whisper-small", *BASE[1:], code=2)
    assert "token by token without an encoder (decoder, mamba, layers), and of those that answer in one pass" in refused
    assert "`roofsim run whisper-small --phase generate" in refused


@pytest.mark.parametrize(
    ("model", "option", "hint"),
    [
        ("bge-m3", "--prompt-length", "--sequence-length"),
        ("bge-m3", "--output-length", "Leave it out."),
        ("resnet50", "--prompt-length", "Leave it out."),
    ],
)
def test_lengths_of_models_that_answer_in_one_pass(cli, model, option, hint):
    assert hint in cli("serve", model, "--gpu", "h100", option, 256, code=2)


def test_other_verbs_send_servers_here(cli):
    error = cli("run", *BASE, "--phase", "generate", "--concurrency", 4, code=2)
    assert "describes a running server. `roofsim serve` answers it" in error


def test_huge_and_tiny_requests(cli):
    for prompt, output in ((1, 1), (1, 10**6), (10**6, 1), (10**6, 10**6)):
        json.loads(
            cli("serve", "llama3-8b", "--gpu", "h100", "--prompt-length", prompt, "--output-length", output, "--json")
        )


def test_layout_stands_in_the_headline(cli):
    out = cli("serve", "mixtral-8x7b", *BASE[1:], "--tensor", 2, "--pipeline", 2, "--expert", 2, "--gpus", 8)
    assert "tensor 2 · pipeline 2 · expert 2 · 2 replicas" in out
    assert "one of 2 in flight" in out
    scenario = json.loads(cli("serve", *BASE, "--pipeline", 2, "--json"))["scenario"]
    assert (scenario["pipeline"], scenario["expert"], scenario["replicas"]) == (2, 1, 1)


def test_cards_given_as_their_number_are_pointed_to_the_right_option(cli):
    assert "--gpu rtx3060,rtx4090" in cli("compare", "gpt2", "--gpus", "rtx3060,rtx4090", code=2)


def test_a_server_is_sized_to_bounds_on_its_latencies(cli):
    words = ("llama3-8b", "--gpu", "h100", "--prompt-length", 1000, "--output-length", 256)
    out = " ".join(cli("serve", *words, "--ttft", "500ms", "--tpot", "50ms", "--request-rate", 100).split())
    for said in (
        "target first token within 500 ms and per output token within 50 ms for 90 % of the requests", "sustains",
        "limited by the time per token", "10 % more of each brings", "replicas 6 for 100 requests/s", "USD per month",
        "p50 / p90 / p99", "of it queueing",
    ):  # fmt: skip
        assert said in out, said
    refused = cli("serve", *words, "--ttft", "soon", code=2)
    assert "--ttft" in refused


CHOICES = (
    "llama3-8b", "--prompt-length", 1000, "--output-length", 256, "--request-rate", 150, "--ttft", "500ms", "--tpot", "50ms",
    "--gpu", "h100,h200", "--tensor", "1,2",
)  # fmt: skip


def test_the_cheapest_server_of_several_is_searched(cli):
    out = " ".join(cli("serve", *CHOICES, "--top", 2).split())
    for said in (
        "h100-sxm5-80gb, tensor 1 on 8 GPUs (8 replicas)",
        "USD per month",
        "No server of this space has less",
        "4 servers",
    ):
        assert said in out, said
    data = json.loads(cli("serve", *CHOICES, "--json"))
    rows = list(csv.DictReader(io.StringIO(cli("plan", *CHOICES[:-2], "--axis", "parallel.tensor=1,2", "--csv"))))
    assert [float(row["value"]) for row in rows] == pytest.approx([one["value"] for one in data["top"]])
    assert "--ttft" in cli("serve", *CHOICES[:7], "--axis", "gpu=h100,h200", code=2)
    assert "unknown gpu 'h1000'" in cli("serve", *CHOICES[:-3], "h100,h1000", code=2)
