"""Bad requests: each gets one clear message with place and way out, exit code 2, no traceback, nothing half-written."""

from __future__ import annotations

import os
import re
import sys

import pytest

from roofsim.cli.app import main

TINY = "model: {family: decoder, num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 100}\n"
RESNET = "model: resnet50\n"


def workload(text):
    return f"{TINY}workload: {{{text}}}\n"


def hardware(text):
    return f"{TINY}hardware: {{{text}}}\n"


def inline(text):
    return f"{TINY}hardware:\n  gpu: {{{text}}}\n"


CARD = "name: mine, vendor: me, peak: {bf16: 400 TFLOP/s}, vector_peak: {fp32: 30 TFLOP/s}"

#: name -> (scenario, what the message must say)
CASES = {
    # unknown names, with near matches
    "unknown gpu": (hardware("gpu: a10O"), r"hardware.gpu: unknown gpu 'a10O'. Did you mean .*'a100'"),
    "unknown gpu, far": (hardware("gpu: zzzzzz"), r"unknown gpu 'zzzzzz'. `roofsim list gpus` shows all"),
    "unknown system": (hardware("system: dgx-a1000"), r"hardware.system: unknown system 'dgx-a1000'. Did you mean 'dgx-a100'"),
    "unknown model": ("model: resnet5O\n", r"model: unknown model 'resnet5O'. Did you mean .*'resnet50'"),
    "unknown engine": (workload("engine: pytorch-egaer"), r"unknown engine 'pytorch-egaer'. Did you mean 'pytorch-eager'"),
    "unknown precision": (workload("precision: bf17"), r"workload.precision: unknown precision 'bf17'. Did you mean .*'bf16'"),
    "weights alone in training": (workload("precision: q4_k_m"), r"precision 'q4_k_m' is a format of stored weights, which training cannot update"),
    "unknown optimizer": (workload("optimizer: adam"), r"workload.optimizer: expected one of .*Did you mean 'adamw'"),
    "unknown phase": (workload("phase: trian"), r"workload.phase: expected one of .*got 'trian'. Did you mean 'train'"),
    "unknown recompute": (workload("recompute: ful"), r"workload.recompute: expected .*got 'ful'"),
    "unknown attention": (workload("attention: flsh"), r"workload.attention: expected one of .*Did you mean 'flash'"),
    "unknown fact": (workload("engine_facts: {rms_nrom: fused}"), r"unknown engine fact 'rms_nrom'. Did you mean 'rms_norm'"),
    "fact of a wrong kind": (workload("engine_facts: {rms_norm: sometimes}"), r"rms_norm: expected one of 'fused', 'chain'"),
    "fact without unit": (workload("engine_facts: {host_issue_time: 5}"), r"expected a quantity in s, for example '5 us' or '2 h'; got 5"),
    "unknown family": ("model: {family: decodr}\n", r"family: unknown model family 'decodr'. Did you mean 'decoder'"),
    "no family": ("model: {num_layers: 3}\n", r"expected a model with a family; found no 'family' key. Families: decoder"),
    "unknown section": (f"{TINY}worklod: {{}}\n", r"unknown key 'worklod'. Did you mean 'workload'"),
    "unknown key": (workload("micro_batchsize: 4"), r"unknown key 'micro_batchsize'. Did you mean 'micro_batch_size'"),
    "unknown model key": ("model: {family: resnet, deph: 50}\n", r"unknown key 'deph'. Did you mean 'depth'"),
    "unknown parallel key": (f"{TINY}parallel: {{tensr: 1}}\n", r"unknown key 'tensr'. Did you mean 'tensor'"),
    "unknown hardware key": (hardware("gppu: a100"), r"unknown key 'gppu'. Did you mean 'gpu'"),
    "bandwidth of nothing": (hardware("override: {gpu.memory.bandwidth: 1e-300 B/s}"), r"expected a plausible quantity, 1 MB/s to 100 PB/s; got '1e-300 B/s'"),
    "capacity of a planet": (hardware("override: {gpu.memory.capacity: 1e30 GiB}"), r"expected a plausible quantity, 1 kB to 100 PB"),
    "peak of a slip": (hardware("override: {gpu.peak.bf16: 1e30 TFLOP/s}"), r"expected a plausible quantity, 1 GFLOP/s to 100 EFLOP/s"),
    "sparse peak as an override": (hardware("gpu: h100, override: {gpu.peak.bf16: 1979 TFLOP/s}"), r"looks like a figure with sparsity"),
    "image too small": ("model: vgg16\nworkload: {image_size: 31}\n", r"workload.image_size: vgg16 does not take images of 31 pixels"),
    "calibration that is not there": (hardware("calibration: mine.yaml"), r"hardware.calibration: no such file: mine.yaml"),
    "phase of another engine": (workload("engine: vllm, phase: train"), r"vllm"),
    # wrong values
    "zero batch": (workload("micro_batch_size: 0"), r"workload.micro_batch_size: expected a number more than 0; got 0"),
    "negative batch": (workload("micro_batch_size: -3"), r"expected a number more than 0; got -3"),
    "fractional batch": (workload("micro_batch_size: 1.5"), r"expected a whole number; got 1.5"),
    "huge batch": (workload(f"micro_batch_size: {10**13}"), r"expected a number at most 1e\+12"),
    "astronomic batch": (workload(f"micro_batch_size: {10**40}"), r"workload.micro_batch_size: expected .*number"),
    "NaN batch": (workload("micro_batch_size: .nan"), r"workload.micro_batch_size: expected .*whole number|expected plain numbers"),
    "infinite batch": (workload("micro_batch_size: .inf"), r"workload.micro_batch_size: expected .*whole number|expected plain numbers"),
    "text batch": (workload("micro_batch_size: four"), r"expected a whole number; got 'four'"),
    "quoted batch": (workload("micro_batch_size: '4'"), r"expected a whole number; got '4'"),
    "boolean batch": (workload("micro_batch_size: yes"), r"expected a whole number; got True"),
    "list batch": (workload("micro_batch_size: [4]"), r"expected a whole number; got \[4\]"),
    "mapping batch": (workload("micro_batch_size: {a: 4}"), r"expected a whole number; got \{'a': 4\}"),
    "zero sequence": (workload("sequence_length: 0"), r"workload.sequence_length: expected a number more than 0"),
    "negative sequence": (workload("sequence_length: -1"), r"workload.sequence_length: expected a number more than 0"),
    "zero gpus": (hardware("gpus: 0"), r"hardware.gpus: expected a number more than 0"),
    "dropout of one": (workload("dropout: 1.0"), r"workload.dropout: expected a number less than 1"),
    "negative dropout": (workload("dropout: -0.1"), r"workload.dropout: expected a number at least 0"),
    "two batch words": (workload("micro_batch_size: 4, batch_size: 8"), r"mean the same; give one"),
    "global batch": (workload("micro_batch_size: 4, global_batch_size: 10"), r"10 is not a multiple of micro batch x data = 4 x 1 = 4. Nearest: 8 or 12"),
    "global batch too small": (workload("micro_batch_size: 4, global_batch_size: 2"), r"2 is not a multiple .* Nearest: 4"),
    "recompute every zero": (workload("recompute: {policy: full, every: 0}"), r"every: expected a number at least 1"),
    "recompute two ways": (workload("recompute: {policy: full, every: 2, layers: 3}"), r"give one of every, layers, segment"),
    "recompute selective with every": (workload("recompute: {policy: selective, every: 2}"), r"every goes with policy: full"),
    "more ranks than gpus": (f"{TINY}parallel: {{tensor: 2}}\nhardware: {{gpus: 1}}\n", r"1 GPUs are not a multiple of tensor 2 x pipeline 1"),
    "offload of gradients alone": (f"{TINY}parallel: {{offload: {{gradients: host}}}}\n", r"parallel.offload.gradients: gradients off the device are updated by the host"),
    "offload of whole parameters": (f"{TINY}parallel: {{sharding: optimizer, data: 2, offload: {{optimizer_state: host, parameters: host}}}}\n", r"parallel.offload.parameters: sharding optimizer keeps whole parameters"),
    "offload in decode": (f"{TINY}workload: {{phase: decode, context_length: 8}}\nparallel: {{offload: {{activations: host}}}}\n", r"parallel.offload.activations: activations cannot be offloaded in phase decode"),
    "offload without host bandwidth": (f"{TINY}hardware: {{gpu: a10, system: server-pcie4}}\nparallel: {{offload: {{optimizer_state: host}}}}\n", r"system server-pcie4 does not state host.memory_bandwidth.*system.host.memory_bandwidth"),
    "offload without storage": (f"{TINY}parallel: {{offload: {{activations: nvme}}}}\n", r"system dgx-a100 does not state storage.write"),
    "offload without a link": (f"{TINY}hardware: {{system: {{gpus_per_node: 1, topology: single}}, gpu: {{name: x, vendor: y, peak: {{bf16: 1 TFLOP/s}}, memory: {{capacity: 8 GB, bandwidth: 1 TB/s}}}}}}\nparallel: {{offload: {{activations: host}}}}\n", r"system inline does not state host_link.bandwidth"),
    # what phase or family has no use for
    "image size of a text model": (workload("image_size: 224"), r"workload.image_size: inline takes no images. Use sequence_length"),
    "sequence length of an image model": (f"{RESNET}workload: {{sequence_length: 10}}\n", r"resnet50 takes images. Use image_size"),
    "decode of an image model": (f"{RESNET}workload: {{phase: decode, context_length: 4}}\n", r"decode is for models that generate tokens"),
    "prompt in training": (workload("prompt_length: 8"), r"belongs to prefill, decode and generate, not to train"),
    "global batch in inference": (workload("phase: forward, global_batch_size: 8"), r"belongs to phase train, not forward"),
    "a server": (workload("phase: decode, context_length: 8, concurrency: 16"), r"describes a running server"),
    "target of a decoder": (workload("target_length: 8"), r"inline is no encoder-decoder"),
    # models whose numbers do not fit together
    "missing keys": ("model: {family: decoder, num_layers: 2}\n", r"hidden_size: required key is missing"),
    "heads do not divide": (TINY.replace("num_attention_heads: 4", "num_attention_heads: 5"), r"hidden_size 64 is not a multiple of num_attention_heads 5; give head_size, or 4 heads"),
    "key-value heads do not divide": (TINY.replace("vocab_size", "num_key_value_heads: 3, vocab_size"), r"num_attention_heads 4 is not a multiple of num_key_value_heads 3"),
    "more experts than there are": (TINY.replace("vocab_size", "num_experts: 2, experts_per_token: 4, vocab_size"), r"experts_per_token 4 exceeds num_experts 2"),
    "latent attention without ranks": (TINY.replace("vocab_size", "attention: mla, vocab_size"), r"attention: mla needs kv_lora_rank"),
    "zero layers": (TINY.replace("num_layers: 2", "num_layers: 0"), r"num_layers: expected a number more than 0"),
    "huge hidden size": (TINY.replace("hidden_size: 64", f"hidden_size: {10**15}"), r"hidden_size: expected a number at most 1e\+12"),
    "text depth": ("model: {family: resnet, depth: fifty}\n", r"depth: expected a whole number; got 'fifty'"),
    "impossible depth": ("model: {family: resnet, depth: 51}\n", r"depth 51 is none of 18, 34, 50, 101, 152"),
    "unknown activation": (TINY.replace("vocab_size", "activation: gelo, vocab_size"), r"activation: expected one of .*Did you mean 'gelu'"),
    "missing model file": ("model: nowhere/gpt.yaml\n", r"model: no such file: nowhere/gpt.yaml"),
    "no model": ("workload: {micro_batch_size: 1}\n", r"model: required key is missing"),
    "model is a number": ("model: 3\n", r"model: expected a text or a mapping; got 3"),
    "model is a list": ("model: [a]\n", r"model: expected a text or a mapping; got \['a'\]"),
    "model is empty": ("model: ''\n", r"unknown model ''"),
    # hardware
    "override without unit": (hardware("override: {gpu.memory.bandwidth: 3}"), r"gpu.memory.bandwidth: expected a quantity in B/s, for example '3.35 TB/s'; got 3"),
    "override of a wrong unit": (hardware("override: {gpu.memory.bandwidth: 3 TFLOP/s}"), r"'TFLOP/s' is not a unit of this kind"),
    "override of nothing": (hardware("override: {gpu.memory.bandwith: 3 TB/s}"), r"unknown key 'bandwith'. Did you mean 'bandwidth'"),
    "override elsewhere": (hardware("override: {model.hidden_size: 3}"), r"cannot override 'model.hidden_size'. Paths begin with gpu. or system."),
    "override of a name": (hardware("override: {gpu.name: x}"), r"gpu.name is not a quantity that can be overridden"),
    "override with zero": (hardware("override: {gpu.memory.bandwidth: 0 TB/s}"), r"expected a positive quantity; got '0 TB/s'"),
    "override with a negative": (hardware("override: {gpu.memory.capacity: -80 GiB}"), r"expected a positive quantity; got '-80 GiB'"),
    "override of an unknown type": (hardware("override: {gpu.peak.bf17: 3 TFLOP/s}"), r"unknown number format 'bf17'; known: fp64"),
    "card without memory": (inline("peak: {bf16: 400 TFLOP/s}"), r"gpu.memory: required key is missing"),
    "card without peaks": (inline("memory: {capacity: 80 GiB, bandwidth: 3 TB/s}"), r"gpu.peak: required key is missing"),
    "card with bare numbers": (inline("peak: {bf16: 400}, memory: {capacity: 80 GiB, bandwidth: 3 TB/s}"), r"gpu.peak.bf16: expected a quantity in FLOP/s"),
    "card of an unknown generation": (inline(f"{CARD}, architecture: fermi, memory: {{capacity: 8 GiB, bandwidth: 1 TB/s}}"), r"unknown architecture 'fermi'"),
    "card that inherits nothing known": (inline("inherits: a1001"), r"hardware.gpu.inherits: unknown gpu 'a1001'"),
    "sparse-looking peak": (inline("inherits: h100, peak: {bf16: 1979 TFLOP/s}"), r"1.979 PFLOP/s is 2.0 times what 132 hopper units do .*looks like a figure with sparsity; state the dense one, 989 TFLOP/s"),
    "gigabytes or gibibytes": (inline(f"{CARD}, memory: {{capacity: 80, bandwidth: 3 TB/s}}"), r"memory.capacity: expected a quantity in B, for example '80 GiB'; got 80"),
    "empty mapping in a card": (inline("inherits: a100, memory: {}"), r"hardware.gpu.memory: an empty mapping changes nothing"),
    "empty mapping in a model": ("model: {inherits: graphsage, sampling: {}}\n", r"model.sampling: an empty mapping changes nothing"),
    "override with an empty mapping": (hardware("override: {gpu.memory: {}}"), r"gpu.memory: an empty mapping changes nothing"),
    "no facts in a group": (workload("engine_facts: {fusion: {}}"), r"engine_facts.fusion: an empty mapping changes nothing"),
    "price without date": (inline(f"{CARD}, memory: {{capacity: 8 GiB, bandwidth: 1 TB/s}}, price: {{hourly: 2 USD/h}}"), r"price.hourly needs price.hourly_date"),
    "no such arithmetic": (f"{TINY}workload: {{precision: bf16}}\nhardware: {{gpu: rx6800}}\n", r"rx6800 has no peak for bf16 arithmetic; it has fp64"),
    "fp8 on an a100": (workload("precision: fp8"), r"a100-sxm4-80gb has no peak for fp8 arithmetic"),
    # YAML that is none
    "empty": ("", r"is empty; expected a mapping"),
    "only a comment": ("# nothing\n", r"is empty; expected a mapping"),
    "a list": ("- a\n- b\n", r"expected a mapping of keys to values; got list"),
    "a word": ("resnet50\n", r"expected a mapping of keys to values; got str"),
    "duplicate key": ("model: gpt\nmodel: resnet50\n", r":2:1: duplicate key 'model' \(first on line 1\)"),
    "python tag": ("model: !!python/object/apply:os.system ['ls']\n", r"has the tag .*; only plain YAML is read"),
    "foreign tag": ("model: !secret x\n", r"has the tag '!secret'"),
    "set": ("model: !!set {a, b}\n", r"only plain YAML is read"),
    "cycle": ("model: &a\n  family: *a\n", r"model.family: refers to itself"),
    "unclosed bracket": ("model: {family: resnet\n", r"is not valid YAML"),
    "tabs": ("model:\n\tfamily: resnet\n", r"is not valid YAML"),
    "two documents": ("model: a\n---\nmodel: b\n", r"is not valid YAML: .*document"),
    "key that is a list": ("? [a, b]\n: 3\n", r"has a key that is not a plain word"),
    "undefined alias": ("model: *nowhere\n", r"is not valid YAML: .*alias"),
    "deep nesting": ("model: " + "{a: " * 200 + "1" + "}" * 200 + "\n", r"is nested deeper than|is not valid YAML"),
    "alias bomb": ("a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(f"{c}: &{c} [{','.join(['*' + p] * 9)}]\n" for p, c in zip("abcdefg", "bcdefgh", strict=True)), r"aliases multiply too far"),
}  # fmt: skip


def run_cli(monkeypatch, capsys, *arguments) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["roofsim", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    captured = capsys.readouterr()
    return int(stop.value.code or 0), captured.out, captured.err


def assert_refused(code, out, err, message):
    assert code == 2, err
    assert out == ""
    assert "Traceback" not in err
    assert re.search(message, " ".join(err.split())), err


@pytest.mark.parametrize("name", CASES)
def test_bad_scenario(name, tmp_path, monkeypatch, capsys):
    text, message = CASES[name]
    path = tmp_path / "bad.yaml"
    path.write_text(text, encoding="utf-8")
    code, out, err = run_cli(monkeypatch, capsys, "run", str(path))
    assert_refused(code, out, err, message)
    assert len(err) < 3000


def test_there_are_enough_cases():
    assert len(CASES) >= 80


def test_binary_file(tmp_path, monkeypatch, capsys):
    path = tmp_path / "bad.yaml"
    path.write_bytes(bytes(range(256)) * 4)
    assert_refused(*run_cli(monkeypatch, capsys, "run", str(path)), r"bad.yaml.*is not")


def test_wrong_encoding(tmp_path, monkeypatch, capsys):
    path = tmp_path / "bad.yaml"
    path.write_bytes("model: gpt # Größe\n".encode("latin-1"))
    assert_refused(*run_cli(monkeypatch, capsys, "run", str(path)), r"bad.yaml:1: is not UTF-8 text \(byte 15\)")


def test_utf16(tmp_path, monkeypatch, capsys):
    path = tmp_path / "bad.yaml"
    path.write_bytes("model: gpt\n".encode("utf-16"))
    assert_refused(*run_cli(monkeypatch, capsys, "run", str(path)), r"is not UTF-8 text")


def test_hundred_megabytes(tmp_path, monkeypatch, capsys):
    path = tmp_path / "bad.yaml"
    with path.open("wb") as file:
        file.truncate(100 * 2**20)
    assert_refused(*run_cli(monkeypatch, capsys, "run", str(path)), r"has 100 MiB; a specification has at most 4")


def test_directory(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "bad.yaml"
    folder.mkdir()
    assert_refused(*run_cli(monkeypatch, capsys, "run", str(folder)), r"bad.yaml: is a directory without a config.json")


def test_device_file(monkeypatch, capsys):
    assert_refused(*run_cli(monkeypatch, capsys, "run", "/dev/zero"), r"is not a regular file")


def test_no_permission(tmp_path, monkeypatch, capsys):
    from pathlib import Path

    path = tmp_path / "bad.yaml"
    path.write_text("model: gpt\n")
    if os.geteuid() == 0:  # root reads everything; the system's refusal is put in its place

        def refuse(self):
            raise PermissionError(13, "Permission denied", str(self))

        monkeypatch.setattr(Path, "read_bytes", refuse)
    else:
        path.chmod(0)
    assert_refused(*run_cli(monkeypatch, capsys, "run", str(path)), r"bad.yaml: cannot be read: Permission denied")


def test_missing_file(monkeypatch, capsys):
    assert_refused(*run_cli(monkeypatch, capsys, "run", "nowhere.yaml"), r"nowhere.yaml: no such file")


def test_a_file_that_is_nearly_there(tmp_path, monkeypatch, capsys):
    (tmp_path / "gpt.yaml").write_text("model: gpt\n")
    message = r"gtp.yaml: no such file. Did you mean 'gpt.yaml'"
    assert_refused(*run_cli(monkeypatch, capsys, "run", str(tmp_path / "gtp.yaml")), message)


def test_all_problems_come_at_once(tmp_path, monkeypatch, capsys):
    path = tmp_path / "bad.yaml"
    path.write_text(
        "model: gpt\nworkload: {micro_batch_size: 0, precison: bf16, engine: pytorhc}\nhardware: {gpu: a10O}\n"
    )
    code, _, err = run_cli(monkeypatch, capsys, "run", str(path))
    assert code == 2
    for message in ("micro_batch_size", "precison", "pytorhc", "a10O"):
        assert message in err
    assert f"{path}:2:12" in err
    assert "               ^" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gpu", "a10O"], r"--gpu: hardware.gpu: unknown gpu 'a10O'"),
        (
            ["--micro-batch-size", "x"],
            r"--micro-batch-size: workload.micro_batch_size: expected a whole number; got 'x'",
        ),
        (["--micro-batch-size", "0"], r"expected a number more than 0"),
        (["--micro-batch-size", ""], r"--micro-batch-size: expected a value; got nothing"),
        (["--set", "workload.micro_batch_size"], r"expected SECTION.KEY=VALUE"),
        (["--set", "=3"], r"expected SECTION.KEY=VALUE"),
        (["--set", "workload.nothing=3"], r"unknown key 'nothing'"),
        (["--set", "nothing=3"], r"unknown key 'nothing'"),
        (["--set", "hardware.override.gpu.memory.bandwidth=3"], r"expected a quantity in B/s"),
        (["--set", "workload.precision={"], r"is not valid YAML"),
        (["--plot", "nowhere/x.png"], r"no such folder nowhere"),
        (["--plot", "x.doc"], r"expected a file ending in .png"),
        (["--no-such-flag"], r"has no option '--no-such-flag'"),
    ],
)
def test_bad_flags(arguments, message, monkeypatch, capsys):
    assert_refused(*run_cli(monkeypatch, capsys, "run", "resnet50", *arguments), message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], r"expected a scenario, or --from-launch"),
        (["rum"], r"unknown verb 'rum'. Did you mean 'run'"),
        (["show", "gpu", "a10O"], r"unknown gpu 'a10O'"),
        (["show", "gpu"], r"expected the name of a gpu to show"),
        (["show", "a10O"], r"no catalog has an entry 'a10O'. Did you mean"),
        (["list", "gpuss"], r"unknown catalog 'gpuss'. Did you mean 'gpus'"),
        (["schema", "secnario"], r"no schema for 'secnario'. Did you mean 'scenario'"),
        (["ops", "resnet50", "--by", "colour"], r"unknown value 'colour'"),
        (["ops", "resnet50", "--sort", "colour"], r"unknown value 'colour'"),
        (["ops", "resnet50", "--top", "0"], r"Invalid value"),
        (["explain", "resnet50", "step_tim"], r"there is no figure or op 'step_tim'. Did you mean 'step_time'"),
        (["compare", "resnet50", "a100,b1000"], r"unknown gpu 'b1000'"),
    ],
)
def test_bad_verbs(arguments, message, monkeypatch, capsys):
    assert_refused(*run_cli(monkeypatch, capsys, *arguments), message)
