"""Say what was asked and what was found in words; amounts look as `roofsim.units` decides.

Lists of catalogs use these words: what only results need is imported where it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.limit_words import BOUND_WORDS
from roofsim.units import binary_bytes as gibibytes
from roofsim.units import count, dollars, duration, humanize, parameters, percent
from roofsim.units import duration as seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roofsim.analyze.ratio import PricedStep
    from roofsim.analyze.result import Result

__all__ = [
    "BOUND_WORDS",
    "RESOURCE_WORDS",
    "batch_line",
    "bound_sentence",
    "chance",
    "count",
    "default_lengths",
    "dollars",
    "duration",
    "gibibytes",
    "headline",
    "layout_line",
    "off_device",
    "on_replicas",
    "parameters",
    "percent",
    "plural",
    "price_range",
    "room_cell",
    "seconds",
    "short_bound",
    "sizes",
    "unit_of",
    "utilization",
]

#: Verdict on memory -> the words of a column named "fits".
_ROOM: Final = {"fits": "yes", "tight": "tight", "does_not_fit": "no"}
#: The same in narrow columns, where shorter.
_SHORT: Final = {
    "memory_bandwidth": "bandwidth",
    "launch": "launches",
    "intra_node_link": "node links",
    "inter_node_link": "network",
    "bubble": "bubble",
}

#: The same in a sentence, where it needs an article.
_NOUNS: Final = {
    "intra_node_link": "the links inside the node",
    "inter_node_link": "the network between nodes",
    "bubble": "the pipeline bubble",
    "host_link": "the link to the host",
    "host_compute": "the CPU of the host",
}

#: What must change of that which binds for something else to bind, by so large a factor.
_ONCE: Final = {
    "compute": "compute is {} times as fast",
    "memory_bandwidth": "memory is {} times as fast",
    "launch": "kernel launches are {} times as fast",
    "power": "the power limit is {} times as high",
    "intra_node_link": "these links are {} times as fast",
    "inter_node_link": "the network is {} times as fast",
    "host_link": "this link is {} times as fast",
    "host_memory": "host memory is {} times as fast",
    "host_compute": "the CPU is {} times as fast",
    "storage": "storage is {} times as fast",
}

#: Resources with several rates: in whose hands each is.
_MEMBERS: Final = {
    "compute": {"tensor_flops": "matrix units", "vector_flops": "vector units", "unit_rate": "loads in flight"},
    "launch": {"launch_rate": "on the device", "host_issue_rate": "issued by the host"},
}
#: Links on the way to where state lies that is not on the device.
LINK_WORDS: Final = {
    "host_link": "link to the host",
    "host_memory": "host memory",
    "cxl": "memory behind CXL",
    "storage_network": "network to the storage",
    "storage": "storage",
}
#: Those that bind under the name of another.
_BINDS_AS: Final = {"cxl": "host_memory"}
#: Share of a resource's elasticity from which one of its rates stands for it.
MOST: Final = 0.7

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
    "unit_rate": "compute units beside their peaks",
    "memory_bandwidth": "memory bandwidth",
    "launch_rate": "kernel launch rate (device)",
    "host_issue_rate": "kernel issue rate (host)",
    "power": "power limit",
    "host_link": "host link bandwidth",
    "host_memory": "host memory bandwidth",
    "host_compute": "host CPU speed",
    "storage": "storage bandwidth",
    "intra_node_link": "links inside the node",
    "inter_node_link": "network between nodes",
    "latency": "latencies",
}


#: Factor below which two figures count as the same.
ABOVE: Final = 1.0 + 1e-9


def plural(shown: str, noun: str) -> str:
    """Return a number, as it is shown, with what it counts.

    >>> plural("1", "day"), plural("0.5", "day"), plural("2", "GPU")
    ('1 day', '0.5 days', '2 GPUs')
    """
    return f"{shown} {noun}" if shown == "1" else f"{shown} {noun}s"


def short_bound(bound: str) -> str:
    """Return what binds in a word or two, for narrow columns."""
    return _SHORT.get(bound, BOUND_WORDS[bound])


def utilization(result: Result) -> str:
    """Return MFU and HFU with the peak that they are shares of, and what the first does not count."""
    used = result.utilization
    peak, stated = float(used.peak), float(used.stated)
    name = used.math.replace("_fp16", " (sums in fp16)")
    text = f"MFU {percent(float(result.mfu))}, HFU {percent(float(result.hfu))}"
    text += f" of the dense {name} peak, {humanize(peak, 'FLOP/s', 3)}"
    if peak > stated * ABOVE:
        text += f" at the clock that boards hold (datasheet: {humanize(stated, 'FLOP/s', 3)})"
    return f"{text}; without masked scores" if float(used.usual) > float(used.model) * ABOVE else text


def card_name(gpu: str | Mapping[str, Any]) -> str:
    """Return what a card is called in a sentence: its name, or what is known of one that a scenario describes without a name.

    >>> card_name({"architecture": "ada", "compute_units": 128})
    'a card described in the scenario (ada)'
    """
    if isinstance(gpu, str):
        return gpu
    own = gpu.get("name", gpu.get("inherits"))
    kind = f" ({gpu['architecture']})" if "architecture" in gpu else ""
    return f"a card described in the scenario{kind}" if own is None else str(own)


def headline(result: PricedStep) -> str:
    """Return what was asked, in one line."""
    scenario = result.scenario
    hardware, workload = scenario["hardware"], scenario["workload"]
    return (
        f"{scenario['model']['name']} · {workload['phase']} · {count(hardware['gpus'])} x {card_name(hardware['gpu'])} · "
        f"{workload['precision']['name']} · {workload['engine']}"
    )


def unit_of(result: Result) -> str:
    """Return what throughput and cost of a result are counted in: tokens, images, samples, or steps towards images."""
    scenario = result.scenario
    prefix = "usd_per_million_"
    unit = next((key for key in result.cost if key.startswith(prefix)), f"{prefix}tokens").removeprefix(prefix)
    from roofsim.analyze.throughput import counted_in

    return counted_in(unit, scenario["model"]["family"], scenario["workload"]["phase"])


def batch_line(result: Result) -> str:
    """Return the sizes of the batch and what is done with it, in one line."""
    workload = result.scenario["workload"]
    parts = [sizes(workload, result.scenario["model"]["family"], result.assumed, result.scenario["parallel"]["data"])]
    if workload["phase"] == "train":
        micro = workload["global_batch_size"] // (workload["micro_batch_size"] * result.scenario["parallel"]["data"])
        parts.append(f"{count(micro)} micro batch{'es' if micro != 1 else ''} per step")
        parts.append(f"optimizer {workload['optimizer']}")
        if workload["adapter"] is not None:
            parts.append(_adapter_words(workload["adapter"]))
        parts.append(f"recompute {_recompute_words(workload['recompute'])}")
    parts.append(f"attention {workload['attention']}")
    return ", ".join(parts)


def sizes(workload: dict[str, Any], family: str, assumed: tuple[str, ...], replicas: int = 1) -> str:
    """Return the batch and its lengths, and which of these are defaults."""
    return _batch_words(workload, family, replicas) + default_lengths(workload, assumed)


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
    parts = [f"{name.replace('_', ' ')} {count(parallel[name])}" for name in names if parallel[name] not in (1, None)]
    if parallel["context"] > 1:
        parts[parts.index(f"context {count(parallel['context'])}")] += f" by {parallel['context_communication']}"
    if parallel["stage_layers"] is not None:
        parts.append(f"stages of {', '.join(map(str, parallel['stage_layers']))} layers")
    if parallel["expert_imbalance"] != 1:
        parts.append(f"busiest expert rank at {parallel['expert_imbalance']:g} times the mean")
    if parallel["redundant_experts"]:
        parts.append(f"{parallel['redundant_experts']} redundant experts")
    if parallel["tables"] != "copied":
        parts.append(f"tables by {parallel['tables']}")
    if parallel["sequence"]:
        parts.append("sequence")
    if parallel["pipeline"] > 1 and result.scenario["workload"]["phase"] == "train":
        parts.append(f"schedule {parallel['schedule']}")
    if parallel["sharding"] != "none":
        parts.append(f"sharding {_sharding_words(parallel['sharding'])}")
    return f"{', '.join(parts)} on {hardware['system']}"


def _sharding_words(sharding: Any) -> str:
    return sharding if isinstance(sharding, str) else f"full over {sharding['full']}"


def on_replicas(batch: int, replicas: int) -> str:
    """Return a batch of inference, which each data replica has for itself, with what all of them have.

    >>> on_replicas(256, 32), on_replicas(2048, 1)
    ('256 on each of 32 replicas, 8,192 in all', '2,048')
    """
    whole = f" on each of {count(replicas)} replicas, {count(batch * replicas)} in all"
    return count(batch) if replicas == 1 else f"{count(batch)}{whole}"


def _batch_words(workload: dict[str, Any], family: str, replicas: int) -> str:
    """Return the sizes of a batch; of training those of a micro batch."""
    batch, phase = workload["micro_batch_size"], workload["phase"]
    dealt = phase != "train" and replicas > 1
    times, each = _sample_words(workload, family, one=batch == 1 and not dealt)
    return f"{on_replicas(batch, replicas)}: {each}" if dealt else f"{count(batch)}{times}{each}"


def _sample_words(workload: dict[str, Any], family: str, *, one: bool) -> tuple[str, str]:
    """Return what stands between a number of samples and what each of them is, and that."""
    from roofsim.spec.model.registry import family_schema

    length, phase, plural = workload["sequence_length"], workload["phase"], "" if one else "s"
    encoded = f"{count(length)} encoder positions, " if length and family_schema(family).encodes else ""
    if phase in ("prefill", "generate"):
        return " x ", f"{encoded}{_prompt_words(workload, decodes=bool(encoded))}"
    if phase == "decode":
        of_encoder = f" of {encoded}" if encoded else ", "
        return " ", f"sequence{plural}{of_encoder}one token each, after {_cached_words(workload)}"
    if workload["image_size"]:
        return " ", f"image{plural} of {workload['image_size']} pixels"
    if encoded:
        return " x ", f"{encoded}{count(workload['target_length'])} decoder tokens"
    packed = workload.get("packed_length")
    inside = f" in samples of {packed:g}" if packed else ""
    return (" x ", f"{count(length)} tokens{inside}") if length else (" ", f"sample{plural}")


def _prompt_words(workload: dict[str, Any], *, decodes: bool) -> str:
    what = "tokens that the decoder starts from" if decodes else "prompt tokens"
    words = f"{count(workload['prompt_length'])} {what}"
    if workload["phase"] == "prefill":
        return words
    cached = f" after {count(workload['context_length'])} cached" if workload["context_length"] else ""
    return f"{words}{cached} + {count(workload['output_length'])} output"


def _cached_words(workload: dict[str, Any]) -> str:
    context, prompt = workload["context_length"], workload["prompt_length"]
    parts = f" ({count(context)} of the context and {count(prompt)} of the prompt)" if prompt else ""
    return f"{count(context + prompt)} cached tokens{parts}, output {count(workload['output_length'])}"


def _adapter_words(adapter: dict[str, Any]) -> str:
    base = adapter["base"] or ("nf4" if adapter["kind"] == "qlora" else "none")
    stored = "" if base == "none" else f" on {base}"
    return f"{adapter['kind']} rank {adapter['rank']}{stored}"


def _recompute_words(recompute: Any) -> str:
    if isinstance(recompute, str):
        return recompute
    chosen = [f"{name} {value}" for name, value in recompute.items() if value is not None and name != "policy"]
    return " ".join([recompute["policy"], *chosen])


def off_device(bytes_by_place: dict[str, dict[str, Any]]) -> str:
    """Return what one GPU has on its host and in storage, in one line."""
    from roofsim.spec.scenario.offload import TIERS  # lists of catalogs need none

    return "; ".join(
        f"{TIERS[place].words} "
        + ", ".join(f"{part.replace('_', ' ')} {gibibytes(float(amount))}" for part, amount in parts.items())
        for place, parts in bytes_by_place.items()
    )


def _slow_link(result: Result) -> str:
    """Say which link it is, where what binds stands for several of those on the way to where state lies."""
    if result.bound not in _BINDS_AS.values():
        return ""
    slowest = {min(way["from_host"], key=lambda name: way["from_host"][name]) for way in result.memory.ways.values()}
    named = [LINK_WORDS[name] for name in slowest if _BINDS_AS.get(name) == result.bound]
    return f" ({named[0]})" if len(named) == 1 else ""


def bound_sentence(result: Result) -> str:
    """Return what binds, and what would bind next."""
    if result.bound is None or result.runner_up is None:
        return "varies over the array"
    second, headroom = _bound_noun(result.runner_up["bound"], result), result.runner_up["headroom"]
    first = _bound_noun(result.bound, result) + (_member(result) or _slow_link(result))
    if headroom is None:
        return f"{first} alone: nothing else takes over, however much more of it there is"
    if count(headroom) == "1":
        return f"{first} and {second}, about equally"
    if result.bound == "bubble":
        waits = "they are" if first.startswith("waits") else "it is"
        return f"{first}; {second} would be next, once {waits} {percent(1.0 - 1.0 / headroom)} shorter"
    return f"{first}; {second} would be next, once {_ONCE[result.bound].format(count(headroom))}"


def _bound_noun(bound: str, result: Result) -> str:
    """Return a resource as it stands in a sentence; ranks that do not wait for other stages wait for slower ranks."""
    if bound == "bubble" and result.scenario["parallel"]["pipeline"] == 1:
        return "waits for slower ranks"
    return _NOUNS.get(bound, BOUND_WORDS[bound])


def _member(result: Result) -> str:
    """Say which of the rates of what binds it is, where one of them has most of it; or what shortens a bubble."""
    if result.bound == "bubble":
        staged = result.scenario["parallel"]["pipeline"] > 1
        return " (fewer stages or more micro batches shorten it)" if staged else ""
    rates = {name: (result.elasticity or {}).get(name, 0.0) for name in _MEMBERS.get(str(result.bound), {})}
    leading = min(rates, key=lambda name: rates[name], default="")
    if not leading or rates[leading] >= MOST * sum(rates.values()):
        return ""
    return f" ({_MEMBERS[str(result.bound)][leading]})"


def chance(verdict: str, probability: float | None) -> str:
    """Say how likely bytes fit, where the interval does not decide."""
    if verdict != "tight" or probability is None:
        return ""
    return f", fits with a probability of {100.0 * probability:.0f} %"


def room_cell(verdict: str, peak: float = 0.0, capacity: float = 0.0) -> str:
    """Return a verdict on memory for a cell of a table, with what is missing."""
    missing = peak - capacity
    return _ROOM[verdict] + (f", -{gibibytes(missing)}" if missing > 0.0 else "")


def price_range(cost: Mapping[str, Any]) -> str:
    """Return the range of the published prices behind a cost, as the end of a sentence; nothing of a single price."""
    low, high = cost.get("usd_per_hour_low"), cost.get("usd_per_hour_high")
    if low is None or high is None or cost.get("prices_known", 0) == 1:
        return ""
    return f"; {cost['prices_known']} prices known, {dollars(low)} to {dollars(high)} USD/h"
