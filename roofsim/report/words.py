"""Say amounts in the words that people use: one place for digits, units and the sentences around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.throughput import DENOISERS
from roofsim.units import humanize

if TYPE_CHECKING:
    from roofsim.analyze.result import Result

#: How results are called in sentences.
BOUND_WORDS: Final = {
    "compute": "compute",
    "memory_bandwidth": "memory bandwidth",
    "launch": "kernel launches",
    "power": "power",
    "intra_node_link": "links inside the node",
    "inter_node_link": "network between nodes",
    "exposed_communication": "exposed communication",
    "bubble": "pipeline bubble",
    "optimizer": "optimizer",
    "host_transfer": "host transfers",
    "input": "input pipeline",
    "host_link": "link to the host",
    "host_memory": "host memory",
    "host_compute": "CPU of the host",
    "storage": "storage",
}

#: The same in narrow columns, where shorter.
_SHORT: Final = {
    "memory_bandwidth": "bandwidth", "launch": "launches", "intra_node_link": "node links", "inter_node_link": "network",
    "bubble": "bubble",
}  # fmt: skip

#: The lengths that a phase has.
_LENGTHS: Final = {
    "train": ("sequence_length", "target_length"),
    "forward": ("sequence_length", "target_length"),
    "prefill": ("sequence_length", "prompt_length"),
    "generate": ("sequence_length", "prompt_length", "output_length"),
    "decode": ("sequence_length", "context_length"),
}

RESOURCE_WORDS: Final = {
    "tensor_flops": "tensor FLOP/s",
    "vector_flops": "vector FLOP/s",
    "memory_bandwidth": "memory bandwidth",
    "launch_rate": "kernel launch rate (device)",
    "host_issue_rate": "kernel issue rate (host)",
    "power": "power limit",
    "host_link": "bandwidth of the link to the host",
    "host_memory": "bandwidth of host memory",
    "host_compute": "speed of the host's cores",
    "storage": "bandwidth of storage",
    "intra_node_link": "links inside the node",
    "inter_node_link": "network between nodes",
}


def short_bound(bound: str) -> str:
    """Return what binds in a word or two, for narrow columns."""
    return _SHORT.get(bound, BOUND_WORDS[bound])


def seconds(value: float) -> str:
    """Return a duration with three digits."""
    return humanize(float(value), "s", 3)


def duration(value: float) -> str:
    """Return a duration of a run: minutes and hours from two minutes up.

    >>> duration(5400.0), duration(7.0), duration(36000000.0)
    ('90.0 min', '7.0 s', '10,000 h')
    """
    if value < 120.0:
        return seconds(value)
    if value < 3.0 * 3600.0:
        return f"{value / 60.0:.1f} min"
    return f"{count(value / 3600.0)} h"


def gibibytes(value: float) -> str:
    """Return bytes with three digits and a binary prefix."""
    return humanize(float(value), "B", 3)


def percent(value: float) -> str:
    """Return a share.

    >>> percent(0.428)
    '42.8 %'
    """
    return f"{100.0 * float(value):.1f} %"


def count(value: float) -> str:
    """Return a number with separators, three digits below a thousand.

    >>> count(2769.8)
    '2,770'
    """
    number = float(value)
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"


def parameters(value: float) -> str:
    """Return a number of parameters as people say it.

    >>> parameters(8030261248.0)
    '8.03 B'
    """
    number = float(value)
    for size, letter in ((12, "T"), (9, "B"), (6, "M"), (3, "k")):
        if number >= 10.0**size:
            return f"{number / 10.0**size:.4g} {letter}"
    return f"{number:.0f}"


def headline(result: Result) -> str:
    """Return what was asked, in one line."""
    scenario = result.scenario
    hardware, workload = scenario["hardware"], scenario["workload"]
    return (
        f"{scenario['model']['name']} · {workload['phase']} · {hardware['gpus']} x {hardware['gpu']} · "
        f"{workload['precision']['name']} · {workload['engine']}"
    )


def unit_of(result: Result) -> str:
    """Return what throughput and cost of a result are counted in: tokens, images, or steps towards images."""
    scenario = result.scenario
    unit = "images" if "usd_per_million_images" in result.cost else "tokens"
    steps = scenario["model"]["family"] in DENOISERS and scenario["workload"]["phase"] == "forward"
    return "denoising steps" if unit == "images" and steps else unit


def batch_line(result: Result) -> str:
    """Return the sizes of the batch and what is done with it, in one line."""
    workload = result.scenario["workload"]
    parts = [sizes(workload, result.scenario["model"]["family"], result.assumed)]
    if workload["phase"] == "train":
        micro = workload["global_batch_size"] // (workload["micro_batch_size"] * result.scenario["parallel"]["data"])
        parts.append(f"{micro} micro batch{'es' if micro != 1 else ''} a step")
        parts.append(f"optimizer {workload['optimizer']}")
        if workload["adapter"] is not None:
            parts.append(_adapter_words(workload["adapter"]))
        parts.append(f"recompute {_recompute_words(workload['recompute'])}")
    parts.append(f"attention {workload['attention']}")
    return ", ".join(parts)


def sizes(workload: dict[str, Any], family: str, assumed: tuple[str, ...]) -> str:
    """Return the batch and its lengths, and which of these are defaults."""
    return _batch_words(workload, family) + default_lengths(workload, assumed)


def default_lengths(workload: dict[str, Any], assumed: tuple[str, ...]) -> str:
    """Return, in brackets, which lengths are defaults that nobody stated; nothing where all are stated.

    >>> default_lengths({"phase": "train", "sequence_length": 4096}, ("sequence_length: 4096, the default length",))
    ' (default length)'
    """
    used = [key for key in _LENGTHS[workload["phase"]] if workload.get(key)]
    unstated = {note.partition(":")[0] for note in assumed if not note.endswith("the model's own")}
    defaults = [key for key in used if key in unstated]
    if not defaults:
        return ""
    if defaults == used:
        return f" (default length{'s' if len(used) > 1 else ''})"
    return f" (default {' and '.join(key.replace('_', ' ') for key in defaults)})"


def layout_line(result: Result) -> str:
    """Return how the work is spread over GPUs, in one line; nothing on one."""
    parallel, hardware = result.scenario["parallel"], result.scenario["hardware"]
    if hardware["gpus"] == 1:
        return ""
    names = ("tensor", "context", "expert", "expert_tensor", "pipeline", "virtual_stages", "data")
    parts = [f"{name.replace('_', ' ')} {parallel[name]}" for name in names if parallel[name] not in (1, None)]
    if parallel["context"] > 1:
        parts[parts.index(f"context {parallel['context']}")] += f" by {parallel['context_communication']}"
    if parallel["stage_layers"] is not None:
        parts.append(f"stages of {', '.join(map(str, parallel['stage_layers']))} layers")
    if parallel["expert_imbalance"] != 1:
        parts.append(f"busiest expert rank {parallel['expert_imbalance']:g} x the mean")
    if parallel["sequence"]:
        parts.append("sequence")
    if parallel["pipeline"] > 1 and result.scenario["workload"]["phase"] == "train":
        parts.append(f"schedule {parallel['schedule']}")
    if parallel["sharding"] != "none":
        parts.append(f"sharding {_sharding_words(parallel['sharding'])}")
    return f"{', '.join(parts)} on {hardware['system']}"


def _sharding_words(sharding: Any) -> str:
    return sharding if isinstance(sharding, str) else f"full over {sharding['full']}"


def _batch_words(workload: dict[str, Any], family: str) -> str:
    batch, length, phase = workload["micro_batch_size"], workload["sequence_length"], workload["phase"]
    encoded = f"{length} encoder positions, " if family == "encoder-decoder" and length else ""
    if phase in ("prefill", "generate"):
        return f"{batch} x {encoded}{_prompt_words(workload, decodes=bool(encoded))}"
    if phase == "decode":
        of_encoder = f" of {encoded}" if encoded else ", "
        return f"{batch} sequences{of_encoder}one token each after {_cached_words(workload)}"
    if workload["image_size"]:
        return f"{batch} images of {workload['image_size']} pixels"
    if encoded:
        return f"{batch} x {encoded}{workload['target_length']} decoder tokens"
    if length:
        return f"{batch} x {length} tokens"
    return f"{batch} samples"


def _prompt_words(workload: dict[str, Any], *, decodes: bool) -> str:
    what = "tokens at the decoder's start" if decodes else "prompt tokens"
    words = f"{workload['prompt_length']} {what}"
    if workload["phase"] == "prefill":
        return words
    cached = f" after {workload['context_length']} cached" if workload["context_length"] else ""
    return f"{words}{cached} + {workload['output_length']} output"


def _cached_words(workload: dict[str, Any]) -> str:
    context, prompt = workload["context_length"], workload["prompt_length"]
    parts = f" ({context} of the context and {prompt} of the prompt)" if prompt else ""
    return f"{context + prompt}{parts} (output {workload['output_length']})"


def _adapter_words(adapter: dict[str, Any]) -> str:
    base = adapter["base"] or ("nf4" if adapter["kind"] == "qlora" else "none")
    stored = "" if base == "none" else f" on {base}"
    return f"{adapter['kind']} rank {adapter['rank']}{stored}"


def _recompute_words(recompute: Any) -> str:
    if isinstance(recompute, str):
        return recompute
    chosen = [f"{name} {value}" for name, value in recompute.items() if value is not None and name != "policy"]
    return " ".join([recompute["policy"], *chosen])


def elsewhere(away: dict[str, dict[str, Any]]) -> str:
    """Return what one GPU has on its host and in storage, in one line."""
    names = {"host": "on the host", "nvme": "in storage"}
    return "; ".join(
        f"{names[place]} "
        + ", ".join(f"{part.replace('_', ' ')} {gibibytes(float(amount))}" for part, amount in parts.items())
        for place, parts in away.items()
    )


def bound_sentence(result: Result) -> str:
    """Return what binds, and what would bind next."""
    if result.bound is None or result.runner_up is None:
        return "varies over the array"
    second, headroom = BOUND_WORDS[result.runner_up["bound"]], result.runner_up["headroom"]
    first = BOUND_WORDS[result.bound]
    if headroom is None and result.bound == "bubble":  # no rate shortens it: fewer stages or more micro batches do
        return f"{first}: fewer stages or more micro batches would shorten it; {second} would be next"
    if headroom is None:
        return f"{first}; {second} would come next, but not before {first} is 1000 times as fast"
    factor = f"{headroom:.3g}"
    if factor == "1":
        return f"{first}; {second} limits as much"
    return f"{first}; {second} would be next, once {first} is {factor} times as fast"
