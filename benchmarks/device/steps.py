"""Measure whole steps on a card: training, forward passes and decoding of well-known models, eager and compiled.

``python benchmarks/device/steps.py --output steps.jsonl [--only llm vision compile decode] [--seconds 500]``

Needs PyTorch, transformers, torchvision and nvidia-ml-py, not roofsim. One JSON object per case: the scenario as roofsim takes
it, the median step in seconds (device events and wall clock), peak memory allocated and reserved, bytes kept between forward
and backward, mean power and clock while it ran, versions. Weights are random; inputs are random tokens and images.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import gc
import itertools
import json
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: How long one case is timed, in seconds, after its warm-up.
TIMED = 2.0
DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
GPT2 = {
    "gpt2-124m": (12, 768, 12),
    "gpt2-355m": (24, 1024, 16),
    "gpt2-774m": (36, 1280, 20),
    "gpt2-1558m": (48, 1600, 25),
}
LLAMA = {
    "llama3.2-1b": (16, 2048, 32, 8, 8192, 128256, True),
    "llama3.2-3b": (28, 3072, 24, 8, 8192, 128256, True),
    "llama3-8b": (32, 4096, 32, 8, 14336, 128256, False),
    "tinyllama-1.1b": (22, 2048, 32, 4, 5632, 32000, False),
}
BERT = {"bert-base": (12, 768, 12, 3072), "bert-large": (24, 1024, 16, 4096)}
VISION = {
    "resnet50": "resnet50", "resnet18": "resnet18", "resnet152": "resnet152", "vgg16": "vgg16", "vit-b16": "vit_b_16",
    "efficientnet-b0": "efficientnet_b0", "efficientnet-b4": "efficientnet_b4", "convnext-tiny": "convnext_tiny",
    "convnext-base": "convnext_base", "swin-tiny": "swin_t", "densenet121": "densenet121",
    "mobilenet-v3-large": "mobilenet_v3_large", "regnet-y-16gf": "regnet_y_16gf", "vit-l16": "vit_l_16",
}  # fmt: skip


def language_model(name: str) -> Any:
    """Return a model of transformers with random weights on the current default device and type."""
    import transformers as t

    if name in GPT2:
        layers, width, heads = GPT2[name]
        # Dropout off, as the catalog's entry has it by default in roofsim's inline form; stated in the scenario.
        config = t.GPT2Config(
            n_layer=layers, n_embd=width, n_head=heads, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False
        )
        return t.GPT2LMHeadModel(config)
    if name in BERT:
        layers, width, heads, inner = BERT[name]
        config = t.BertConfig(
            num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads, intermediate_size=inner,
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        )  # fmt: skip
        return t.BertForMaskedLM(config)
    layers, width, heads, kv_heads, inner, vocabulary, tied = LLAMA[name]
    config = t.LlamaConfig(
        num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads, num_key_value_heads=kv_heads,
        intermediate_size=inner, vocab_size=vocabulary, tie_word_embeddings=tied, max_position_embeddings=8192,
        use_cache=False,
    )  # fmt: skip
    return t.LlamaForCausalLM(config)


def vision_model(name: str) -> Any:
    """Return a model of torchvision with random weights."""
    import torchvision

    return torchvision.models.get_model(VISION[name], weights=None)


class Meter:
    """Read power and clock of the card every 50 ms while a case runs."""

    def __init__(self) -> None:
        import pynvml

        pynvml.nvmlInit()
        self._nvml, self._handle = pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)
        self.power_limit = pynvml.nvmlDeviceGetEnforcedPowerLimit(self._handle) / 1e3
        self.driver = str(pynvml.nvmlSystemGetDriverVersion())

    @contextlib.contextmanager
    def reading(self) -> Iterator[dict[str, float]]:
        """Yield a mapping that holds the means once the block ends."""
        power: list[float] = []
        clock: list[float] = []
        stop, means = threading.Event(), {}

        def read() -> None:
            while not stop.wait(0.05):
                power.append(self._nvml.nvmlDeviceGetPowerUsage(self._handle) / 1e3)
                clock.append(self._nvml.nvmlDeviceGetClockInfo(self._handle, self._nvml.NVML_CLOCK_SM))

        thread = threading.Thread(target=read)
        thread.start()
        try:
            yield means
        finally:
            stop.set()
            thread.join()
            half = len(power) // 2  # the sensor averages over a second: the later half is the steady part
            if power[half:]:
                means |= {"power_w": statistics.mean(power[half:]), "sm_mhz": statistics.median(clock[half:])}


def precision_of(name: str) -> tuple[torch.dtype, torch.dtype | None]:
    """Return the type of parameters and autocast's type, None without autocast."""
    if name.endswith("-amp"):
        return torch.float32, DTYPES[name.removesuffix("-amp")]
    return DTYPES[name], None


def built(name: str, parameters: torch.dtype, *, training: bool) -> Any:
    """Return a model on the card."""
    torch.set_default_dtype(parameters)
    with torch.device("cuda"):
        model = vision_model(name) if name in VISION else language_model(name)
    torch.set_default_dtype(torch.float32)
    return model.train(training)


def fed(name: str, work: dict[str, Any], model: Any, run: Any, parameters: torch.dtype) -> tuple[Any, Any]:
    """Return a function that computes the loss of random inputs, and one that only runs the model on them."""
    batch = work["micro_batch_size"] if work["phase"] == "train" else work["batch_size"]
    if name not in VISION:
        tokens = torch.randint(0, 30000, (batch, work["sequence_length"]), device="cuda")
        return lambda: run(input_ids=tokens, labels=tokens).loss, lambda: run(input_ids=tokens).logits
    images = torch.randn(batch, 3, 224, 224, device="cuda", dtype=parameters)
    if work.get("memory_format") == "channels_last":
        model.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    targets = torch.randint(0, 1000, (batch,), device="cuda")
    return lambda: torch.nn.functional.cross_entropy(run(images), targets), lambda: run(images)


def prepared(case: dict[str, Any]) -> Callable[[], Any]:
    """Return a function that runs one step of a case."""
    name, work = case["scenario"]["model"], case["scenario"]["workload"]
    parameters, autocast = precision_of(work["precision"])
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = work["precision"] == "tf32"
    training = work["phase"] == "train"
    model = built(name, parameters, training=training)
    run = model
    if case.get("compile"):
        torch._dynamo.reset()
        run = torch.compile(model, mode=None if case["compile"] == "default" else case["compile"])
    loss, forward = fed(name, work, model, run, parameters)

    def cast() -> Any:
        return torch.autocast("cuda", autocast) if autocast else contextlib.nullcontext()

    if not training:

        def infer() -> None:
            with torch.inference_mode(), cast():
                forward()

        return infer
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler("cuda", enabled=work["precision"] == "fp16-amp")
    kept = case.setdefault("_kept", [])

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        before = torch.cuda.memory_allocated()
        with cast():
            value = loss()
        kept.append(torch.cuda.memory_allocated() - before)
        scaler.scale(value).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


def decoding(case: dict[str, Any]) -> Callable[[], Any]:
    """Return a function that generates tokens with transformers' generate."""
    scenario = case["scenario"]
    work = scenario["workload"]
    torch.set_default_dtype(DTYPES[work["precision"]])
    with torch.device("cuda"):
        model = language_model(scenario["model"])
    torch.set_default_dtype(torch.float32)
    model.eval()
    model.config.use_cache = True
    tokens = torch.randint(0, 30000, (work["batch_size"], work["prompt_length"]), device="cuda")
    count = work["output_length"]

    def generate() -> None:
        model.generate(
            tokens, max_new_tokens=count, min_new_tokens=count, do_sample=False, use_cache=True, pad_token_id=0,
            attention_mask=torch.ones_like(tokens),
        )  # fmt: skip

    return generate


def timed(step: Callable[[], Any], case: dict[str, Any], meter: Meter) -> dict[str, Any]:
    """Warm a step up, time it, and return what was measured."""
    warm = 3 if case.get("decode") else 6
    began = time.perf_counter()
    for _ in range(warm):
        step()
    torch.cuda.synchronize()
    warm_up = time.perf_counter() - began
    torch.cuda.reset_peak_memory_stats()
    marks = [torch.cuda.Event(enable_timing=True)]
    walls, began = [], time.perf_counter()
    with meter.reading() as means:
        marks[0].record()
        while len(marks) < 400 and (time.perf_counter() - began < TIMED or len(marks) < 4):
            start = time.perf_counter()
            step()
            mark = torch.cuda.Event(enable_timing=True)
            mark.record()
            marks.append(mark)
            walls.append(time.perf_counter() - start)
        torch.cuda.synchronize()
        wall = (time.perf_counter() - began) / len(walls)
    times = sorted(a.elapsed_time(b) / 1e3 for a, b in itertools.pairwise(marks))
    quarter = len(times) // 4
    kept = case.get("_kept") or [None]
    return {
        "step_time_s": statistics.median(times), "step_time_iqr_s": times[-1 - quarter] - times[quarter],
        "wall_s": wall, "host_s": statistics.median(walls), "steps": len(times), "warm_up_s": warm_up,
        "allocated_peak": torch.cuda.max_memory_allocated(), "reserved_peak": torch.cuda.max_memory_reserved(),
        "kept_after_forward": kept[-1], **means,
    }  # fmt: skip


def train(
    model: str, micro_batch_size: int, length: int, precision: str, compiled: str = "", **words: Any
) -> dict[str, Any]:
    """Return a case of one training step."""
    work = {
        "phase": "train",
        "micro_batch_size": micro_batch_size,
        "precision": precision,
        "optimizer": "adamw",
        **words,
    }
    return _case(model, work, length, compiled)


def forward(
    model: str, batch_size: int, length: int, precision: str, compiled: str = "", **words: Any
) -> dict[str, Any]:
    """Return a case of one forward pass."""
    work = {"phase": "forward", "batch_size": batch_size, "precision": precision, **words}
    return _case(model, work, length, compiled)


def _case(model: str, work: dict[str, Any], length: int, compiled: str) -> dict[str, Any]:
    if length:
        work["sequence_length"] = length
    else:
        work["image_size"] = 224
    if model in GPT2 or model in BERT:
        work["dropout"] = 0.0
    eager = "pytorch-eager" if model in VISION else "huggingface"
    work["engine"] = "pytorch-compile" if compiled else eager
    case: dict[str, Any] = {"scenario": {"model": model, "workload": work}}
    if compiled:
        case["compile"] = compiled
    return case


def decode(model: str, batch: int, prompt: int, output: int) -> dict[str, Any]:
    """Return a case of whole generation."""
    work = {
        "phase": "generate", "batch_size": batch, "prompt_length": prompt, "output_length": output, "precision": "bf16",
        "engine": "huggingface",
    }  # fmt: skip
    return {"scenario": {"model": model, "workload": work}, "decode": True}


CASES: dict[str, list[dict[str, Any]]] = {
    "llm": [
        train("gpt2-124m", 8, 1024, "bf16"), forward("gpt2-124m", 8, 1024, "bf16"), train("gpt2-124m", 8, 1024, "bf16-amp"),
        train("gpt2-124m", 8, 1024, "fp32"), train("gpt2-124m", 8, 1024, "tf32"), train("gpt2-355m", 8, 1024, "bf16-amp"),
        train("gpt2-774m", 4, 1024, "fp16-amp"), train("gpt2-1558m", 4, 1024, "bf16"),
        train("bert-base", 32, 512, "fp16-amp"), train("bert-large", 16, 512, "bf16-amp"), train("bert-large", 8, 512, "fp32"),
        train("llama3.2-1b", 4, 2048, "bf16"), train("llama3.2-1b", 2, 4096, "bf16-amp"), train("llama3.2-3b", 2, 2048, "bf16"),
        train("tinyllama-1.1b", 4, 2048, "bf16"), forward("tinyllama-1.1b", 4, 2048, "bf16"),
        forward("llama3-8b", 1, 4096, "bf16"), forward("llama3-8b", 4, 4096, "bf16"), forward("llama3-8b", 1, 512, "bf16"),
        forward("bert-large", 32, 512, "fp16"), forward("bert-base", 1, 128, "fp16"),
    ],
    "vision": [
        train("resnet50", 128, 0, "fp16-amp", memory_format="channels_last"),
        train("resnet50", 128, 0, "fp16-amp", memory_format="channels_first"),
        train("resnet50", 64, 0, "fp32", memory_format="channels_first"),
        train("resnet50", 128, 0, "tf32", memory_format="channels_last"),
        train("resnet18", 256, 0, "fp16-amp", memory_format="channels_last"),
        train("resnet152", 64, 0, "bf16-amp", memory_format="channels_last"),
        train("vgg16", 64, 0, "fp16-amp", memory_format="channels_last"),
        train("vgg16", 64, 0, "fp32", memory_format="channels_first"),
        train("vit-b16", 64, 0, "bf16-amp"), train("vit-l16", 32, 0, "bf16-amp"), train("vit-b16", 64, 0, "fp32"),
        train("efficientnet-b0", 128, 0, "fp16-amp", memory_format="channels_last"),
        train("efficientnet-b4", 32, 0, "fp16-amp", memory_format="channels_last"),
        train("convnext-tiny", 64, 0, "fp16-amp", memory_format="channels_last"),
        train("convnext-base", 64, 0, "bf16-amp"), train("swin-tiny", 64, 0, "fp16-amp"),
        train("densenet121", 64, 0, "fp16-amp", memory_format="channels_last"),
        train("mobilenet-v3-large", 128, 0, "fp16-amp", memory_format="channels_last"),
        train("regnet-y-16gf", 32, 0, "bf16-amp", memory_format="channels_last"),
        forward("resnet50", 128, 0, "fp16", memory_format="channels_last"),
        forward("resnet50", 1, 0, "fp16", memory_format="channels_last"), forward("vit-b16", 128, 0, "fp16"),
        forward("swin-tiny", 128, 0, "fp16"), forward("convnext-base", 128, 0, "fp16"),
        forward("efficientnet-b0", 256, 0, "fp16", memory_format="channels_last"),
    ],
    "compile": [
        train("gpt2-124m", 8, 1024, "bf16-amp", "default"), train("gpt2-355m", 8, 1024, "bf16-amp", "default"),
        train("bert-large", 16, 512, "bf16-amp", "default"), train("llama3.2-1b", 4, 2048, "bf16", "default"),
        train("tinyllama-1.1b", 4, 2048, "bf16", "default"), forward("llama3-8b", 1, 512, "bf16", "default"),
        train("resnet50", 128, 0, "fp16-amp", "default", memory_format="channels_last"),
        train("vit-b16", 64, 0, "bf16-amp", "default"),
        forward("resnet50", 1, 0, "fp16", "reduce-overhead", memory_format="channels_last"),
        forward("bert-base", 1, 128, "fp16", "reduce-overhead"), forward("vit-b16", 128, 0, "fp16", "default"),
        train("convnext-tiny", 64, 0, "fp16-amp", "default", memory_format="channels_last"),
        train("gpt2-124m", 8, 1024, "bf16", "default"), train("swin-tiny", 64, 0, "fp16-amp", "default"),
    ],
    "decode": [
        decode("gpt2-124m", 1, 32, 128), decode("tinyllama-1.1b", 1, 128, 128), decode("llama3-8b", 1, 512, 64),
        decode("llama3-8b", 16, 512, 64), decode("llama3.2-3b", 8, 1024, 64),
    ],
}  # fmt: skip


def main() -> None:
    """Measure the chosen cases and append a line for each to the output."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--only", nargs="*", choices=list(CASES), default=list(CASES))
    parser.add_argument(
        "--skip", type=int, default=0, help="leave out the first cases, which an earlier run has measured"
    )
    parser.add_argument("--seconds", type=float, default=520.0, help="stop starting cases after so many seconds")
    options = parser.parse_args()
    import torchvision
    import transformers

    meter, began = Meter(), time.perf_counter()
    facts = {
        "date": datetime.date.today().isoformat(), "card": torch.cuda.get_device_name(), "driver": meter.driver,
        "power_limit_w": meter.power_limit, "torch": str(torch.__version__), "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(), "transformers": transformers.__version__, "torchvision": torchvision.__version__,
    }  # fmt: skip
    for case in [case for group in options.only for case in CASES[group]][options.skip :]:
        if time.perf_counter() - began > options.seconds:
            break
        step = None
        gc.collect()
        torch.cuda.empty_cache()
        try:
            step = decoding(case) if case.get("decode") else prepared(case)
            measured = timed(step, case, meter)
        except Exception as error:  # one case that fails must not lose the others
            measured = {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"}
        shown = {name: value for name, value in case.items() if not name.startswith("_")}
        case.pop("_kept", None)
        with options.output.open("a") as file:
            file.write(json.dumps({**shown, "measured": measured, **facts}) + "\n")
        sys.stderr.write(f"{case['scenario']['model']} {case['scenario']['workload']} {measured}\n")


if __name__ == "__main__":
    main()
