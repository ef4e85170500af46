"""What several settings of a launch command say together: batches, shards, stages; `notes` is the other way round.

Tables set notes, keys that begin with a period, where one flag alone is no key of a scenario:

====================== ================================================================================================
``.per_node .nodes``   processes of a node, and nodes
``.machines``          nodes, where the number of processes is that of all
``.local_batch``       samples of a rank for each accumulation step; with a pipeline, all micro batches of one of its runs
``.accumulation``      accumulation steps
``.rank_batch``        samples of a rank for each step, over all its micro batches
``.piece``             samples of a micro batch of a pipeline
``.replicate .shard``  ranks that hold copies, ranks that share one; ``.shard`` -1: all others
``.keeps_parameters``  whether ranks that share gradients and state keep whole parameters after the forward pass
``.schedule_stages``   chunks of layers per rank that a pipeline schedule has where nothing else says it
``.layers_per_stage``  layers of each chunk, with what the next two count
``.first_less``        layers that the embedding counts as; ``.last_less``: the head
``.instances``         groups of data-parallel ranks that share the optimizer's state
``.gpu_layers``        last layers that are kept on the card, the head counted as one; ``all``, ``auto``
``.expert_layers``     first layers whose experts stay on the host
``.split .proportions .devices``
                       ``layer``: every card is a stage; shares of the layers of each; names of the cards
``.sixteen``           type that matrices are multiplied in whose weights are stored in fewer bits
``.cache_type``        type of the key-value cache, where it is not that of the activations
``.mixed_precision``   type of matrix multiplications beside parameters in fp32
``.sharded_recipe``    whether parameters are gathered in that type, not cast by each operation
``.load_type``         type that parameters are loaded in
``.attention_data``    whether ranks of tensor parallelism split attention by requests
``.checkpointing``     none, full or selective; ``.checkpointing_every``: op, or each which layer
``.variant.NAME``      whether a variant of the engine runs
====================== ================================================================================================
"""

from __future__ import annotations

import re
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Problem, SpecError
from roofsim.spec import catalog
from roofsim.spec.precision.roles import PrecisionRoles

if TYPE_CHECKING:
    from roofsim.errors import Place
    from roofsim.importers.launch.table import FlagTable

#: Keys that count something, which every program must state above zero.
_COUNTS: Final = ("parallel.tensor", "parallel.pipeline", "parallel.context", "parallel.expert", "parallel.data")


def complete(keys: dict[str, Any], table: FlagTable, place: Place) -> dict[str, Any]:
    """Return the keys of a scenario, with what the notes among them say.

    Raises
    ------
    SpecError
        Where notes contradict one another, or need the number of GPUs and nobody says it.
    """
    reading = _Reading(dict(keys), table, place)
    for key in _COUNTS:
        reading.whole(key)
    reading.gpus()
    reading.attention()
    reading.precision()
    reading.recompute()
    reading.cards()
    reading.shards()
    reading.instances()
    reading.stages()
    reading.batches()
    reading.engine()
    return {key: value for key, value in reading.keys.items() if not key.startswith(".")}


class _Reading:
    """Turns the notes of one command into keys."""

    def __init__(self, keys: dict[str, Any], table: FlagTable, place: Place) -> None:
        self.keys, self.table, self.place = keys, table, place

    def refuse(self, message: str, hint: str = "") -> SpecError:
        return SpecError(Problem(message, self.place, hint=hint))

    def whole(self, key: str, usual: int = 1) -> int:
        """Return a count; what is no count is refused."""
        value = self.keys.get(key, usual)
        if isinstance(value, bool) or not isinstance(value, int) or (value < 1 and (key, value) != (".shard", -1)):
            name = next((name for name, flag in self.table.flags.items() if flag.key == key), key)
            raise self.refuse(f"expected a whole number above zero at {name}; got {value!r}")
        return value

    def replicas(self) -> int | None:
        """Return the data-parallel ranks, None where nobody says how many GPUs there are."""
        inner = self.whole("parallel.tensor") * self.whole("parallel.pipeline") * self.whole("parallel.context")
        if "hardware.gpus" not in self.keys:
            return self.keys.get("parallel.data")
        gpus = self.whole("hardware.gpus")
        if gpus % inner:
            raise self.refuse(f"{gpus} GPUs are no multiple of tensor x pipeline x context = {inner}")
        return gpus // inner

    def needed_replicas(self, what: str) -> int:
        replicas = self.replicas()
        if replicas is None:
            hint = "Give the command with its launcher (torchrun --nproc-per-node 8 ...), or add --gpus."
            raise self.refuse(f"{what} needs the number of GPUs, and nobody says it", hint)
        return replicas

    def gpus(self) -> None:
        keys = self.keys
        if ".per_node" in keys and "hardware.gpus" not in keys:
            keys["hardware.gpus"] = self.whole(".per_node") * self.whole(".nodes")
        if ".hosts" in keys and "hardware.gpus" not in keys:
            raise self.refuse(
                "a file of hosts says the number of GPUs", "Say it with --num_nodes and --num_gpus, or add --gpus."
            )

    def attention(self) -> None:
        keys = self.keys
        if not keys.get(".attention_data"):
            return
        ranks = self.whole("parallel.tensor")
        data = self.whole("parallel.data", ranks)
        if ranks % data:
            raise self.refuse(f"{ranks} tensor ranks cannot form {data} groups of attention")
        keys["parallel.tensor"], keys["parallel.data"] = ranks // data, data
        expert = self.whole("parallel.expert")
        if 1 < expert < ranks:
            hint = "Give as many expert ranks as tensor ranks."
            raise self.refuse(f"experts over {expert} of {ranks} ranks that split attention have no counterpart", hint)

    def precision(self) -> None:
        keys = self.keys
        if keys.get(".cache_type") is not None:
            self._cache_type(keys[".cache_type"])
            return
        mixed, loaded = keys.get(".mixed_precision"), keys.get(".load_type")
        if "workload.precision" in keys and mixed is None:
            return
        if mixed is not None:
            plain = keys.get(".sharded_recipe") or mixed not in ("bf16", "fp16")
            keys["workload.precision"] = mixed if plain else f"{mixed}-amp"
        elif loaded is not None and not keys.get(".sharded_recipe"):
            keys["workload.precision"] = loaded
        elif self.table.phase == "train":
            keys["workload.precision"] = "fp32"

    def cards(self) -> None:
        """Deal the layers out to cards, and to the host."""
        keys = self.keys
        names = [name for name in str(keys.get(".devices", "")).split(",") if name]
        shares = [float(share) for share in re.split(r"[,/]", str(keys.get(".proportions", ""))) if share]
        cards = len(names) or len(shares)
        if cards:
            keys.setdefault("hardware.gpus", cards)
        if shares and len(set(shares)) > 1:
            raise self.refuse(
                "cards with unequal parts of the layers", "State them with --set parallel.stage_layers=[...]."
            )
        if keys.get(".split") == "layer" and keys.get("hardware.gpus", 1) != 1:
            keys.setdefault("parallel.pipeline", self.whole("hardware.gpus"))
        self._experts_on_host()
        held = keys.get(".gpu_layers", "all")
        if held in ("all", "auto"):
            return
        if isinstance(held, bool) or not isinstance(held, int):
            raise self.refuse(f"expected a number of layers, all or auto behind -ngl; got {held!r}")
        layers = self._layers()
        off = min(max(layers + 1 - held, 0), layers) if held >= 0 else 0
        if off:
            keys |= {"parallel.offload.parameters": "host", "parallel.offload.layers": off}

    def _experts_on_host(self) -> None:
        """State of how many layers the experts stay on the host."""
        first = self.keys.get(".expert_layers", 0)
        if isinstance(first, bool) or not isinstance(first, int) or first < 0:
            raise self.refuse(f"expected a number of layers behind --n-cpu-moe; got {first!r}")
        if first:
            layers = {"parallel.offload.layers": min(first, self._layers())}
            self.keys |= {"parallel.offload.experts": "host"} | layers

    def _cache_type(self, stored: str) -> None:
        """State the type of the cache beside that of the weights, which the command must say then."""
        compute = self.keys.get("workload.precision")
        if compute is None:
            hint = f"Say it with the flag for it, or with --set workload.precision='{{compute: bf16, key_value_cache: {stored}}}'."
            raise self.refuse(f"a cache in {stored} is stated, and not the precision of the weights", hint)
        if self.keys.get(".values_type", stored) != stored:
            raise self.refuse("keys and values of different types have no counterpart", "Give both the same type.")
        if not _computes(compute):
            wide = self.keys.get(".sixteen", "bf16")
            self.keys["workload.precision"] = {"compute": wide, "parameters": compute, "key_value_cache": stored}
        elif compute != stored:
            self.keys["workload.precision"] = {"compute": compute, "key_value_cache": stored}

    def recompute(self) -> None:
        keys, mode = self.keys, self.keys.get(".checkpointing")
        if mode in ("none", "full"):
            keys["workload.recompute"] = mode
        elif mode == "selective":
            every = keys.get(".checkpointing_every")
            if every != "op" and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
                raise self.refuse(f"expected op, or each which layer is checkpointed; got {every!r}")
            keys["workload.recompute"] = "selective" if every == "op" else {"policy": "full", "every": every}

    def shards(self) -> None:
        keys = self.keys
        if ".shard" not in keys and ".replicate" not in keys:
            if keys.get(".sharded_recipe"):
                keys.setdefault("parallel.sharding", "full")
            if keys.get(".keeps_parameters") and keys.get("parallel.sharding") == "full":
                keys["parallel.sharding"] = "gradients"
            return
        copies, shares, context = self.whole(".replicate"), self.whole(".shard", -1), self.whole("parallel.context")
        if shares > 0:
            keys["parallel.data"] = copies * shares
        elif copies > 1:
            replicas = self.needed_replicas("a number of copies beside shards")
            if replicas % copies:
                raise self.refuse(f"{replicas} data-parallel ranks cannot hold {copies} copies")
            shares = replicas // copies
        if shares * context == 1:
            keys["parallel.sharding"] = "none"
        elif copies > 1:
            keys["parallel.sharding"] = {"full": shares * context}
        else:
            keys["parallel.sharding"] = "gradients" if keys.get(".keeps_parameters") else "full"
        if keys.get(".keeps_parameters") and copies > 1 and shares * context > 1:
            raise self.refuse("shards inside groups that keep whole parameters have no counterpart")

    def instances(self) -> None:
        """Divide the ranks that share the optimizer's state into groups."""
        groups = self.whole(".instances")
        if groups == 1:
            return
        ranks = self.needed_replicas("a number of groups that share the optimizer's state") * self.whole(
            "parallel.context"
        )
        if ranks % groups:
            raise self.refuse(f"{ranks} ranks cannot form {groups} groups that share the optimizer's state")
        if self.keys.get("parallel.sharding") == "optimizer":
            self.keys["parallel.sharding"] = {"optimizer": ranks // groups}

    def stages(self) -> None:
        keys, stages = self.keys, self.whole("parallel.pipeline")
        chunks = self.keys.get(".schedule_stages", 1)
        if stages == 1:
            for key in ("parallel.schedule", "parallel.virtual_stages", "parallel.stage_layers"):
                keys.pop(key, None)
            return
        if ".first_less" not in keys:
            return
        first, last = int(keys[".first_less"]), int(keys[".last_less"])
        layers = self._layers()
        if ".layers_per_stage" in keys:
            chunks = self._chunks(ceil((layers + first + last) / self.whole(".layers_per_stage")), stages, chunks)
        if chunks > 1:
            keys["parallel.virtual_stages"] = chunks
        keys |= self._split(layers, stages * chunks, first, last, chunks)

    def _layers(self) -> int:
        layers = self.keys.get("model.num_layers")
        if layers is None:
            name = self.keys.get("model", "")
            layers = layers_of(name) if isinstance(name, str) else None
        if layers is None:
            raise self.refuse(
                "layers are dealt out to cards, which needs the layers of the model, and the command names none that is known"
            )
        return int(layers)

    def _chunks(self, wanted: int, stages: int, usual: int) -> int:
        if wanted % stages or (usual == 1) != (wanted == stages):
            hint = "The schedule decides whether a rank has one chunk or several."
            raise self.refuse(f"{wanted} chunks of layers do not go over {stages} ranks with this schedule", hint)
        return wanted // stages

    def _split(self, layers: int, parts: int, first: int, last: int, chunks: int) -> dict[str, Any]:
        sizes = dealt(layers, parts, first, last)
        if sizes is None:
            raise self.refuse(
                f"{layers} layers cannot be dealt out to {parts} stages, {first} and {last} less at the ends"
            )
        even = (layers + first + last) % parts == 0
        if even and first <= 1 and last <= 1:
            counted = {"parallel.account_for_embedding": bool(first), "parallel.account_for_loss": bool(last)}
            return {key: True for key, value in counted.items() if value}
        if chunks > 1:
            hint = "Stages of several chunks need chunks of the same size."
            raise self.refuse(f"chunks of {', '.join(map(str, sizes))} layers have no counterpart", hint)
        return {"parallel.stage_layers": sizes}

    def batches(self) -> None:
        keys = self.keys
        local, steps = self.keys.get(".local_batch"), self.whole(".accumulation")
        if keys.get("workload.global_batch_size") == -1:
            del keys["workload.global_batch_size"]  # one micro batch per rank
        piped = ".piece" in keys and self.whole("parallel.pipeline") > 1
        micro = self.whole(".piece") if piped else local
        if local is not None:
            if self.whole(".local_batch") % int(micro or 1):
                raise self.refuse(f"a batch of {local} is no multiple of micro batches of {micro}")
            keys["workload.micro_batch_size"] = micro
            steps *= self.whole(".local_batch") // int(micro or 1)
        if ".rank_batch" in keys:
            replicas = self.needed_replicas("a batch for each rank")
            keys["workload.global_batch_size"] = self.whole(".rank_batch") * replicas
        stated = keys.get("workload.global_batch_size")
        if stated is None:
            self._global_of(steps)
        else:
            self._check_global(steps, local if piped else None)

    def _global_of(self, steps: int) -> None:
        """Set the global batch; one micro batch per rank needs none."""
        if "workload.micro_batch_size" in self.keys and steps > 1:
            replicas = self.needed_replicas("gradient accumulation")
            self.keys["workload.global_batch_size"] = self.whole("workload.micro_batch_size") * steps * replicas

    def _check_global(self, steps: int, run: int | None) -> None:
        """Refuse a global batch that micro batch, accumulation and ranks contradict; fill in a micro batch that is not said."""
        keys, stated, replicas = self.keys, self.whole("workload.global_batch_size"), self.replicas()
        if run is not None:
            if replicas is not None and stated != run * replicas:
                hint = "Set the local batch so that one run of the pipeline takes all micro batches of a step."
                raise self.refuse(
                    f"a step of {stated} runs the pipeline several times, {run} samples per rank each", hint
                )
            return
        if "workload.micro_batch_size" not in keys:
            replicas = self.needed_replicas("the micro batch")
            if stated % (steps * replicas):
                raise self.refuse(f"{stated} samples are no multiple of {steps} accumulation steps x {replicas} ranks")
            keys["workload.micro_batch_size"] = stated // (steps * replicas)
        micro = self.whole("workload.micro_batch_size")
        if ".accumulation" in keys and replicas is not None and stated != micro * steps * replicas:
            raise self.refuse(
                f"a global batch of {stated} is not micro batch {micro} x {steps} accumulation steps x {replicas} ranks"
            )

    def engine(self) -> None:
        variants = [name for name in self.table.engine_variants if self.keys.get(f".variant.{name}")]
        self.keys["workload.engine"] = "+".join([self.keys.get("workload.engine", self.table.engine), *variants])


def _computes(precision: str) -> bool:
    """Tell whether matrices are multiplied in a precision, or only stored."""
    roles: Any = PrecisionRoles
    try:
        roles(compute=precision)
    except ValueError:
        return False
    return True


def layers_of(name: str) -> int | None:
    """Return the layers of a model of the catalog."""
    name = catalog.aliases("model").get(name, name)
    if not catalog.has("model", name):
        return None
    data = catalog.load("model", name).data
    layers = data.get("num_layers")
    return layers if layers is not None or "inherits" not in data else layers_of(data["inherits"])


def dealt(layers: int, parts: int, first: int, last: int) -> list[int] | None:
    """Return the layers of each stage as torchtitan deals them out (`generate_llm_fqn_per_model_part`); None: it refuses.

    >>> dealt(32, 4, 1, 1), dealt(32, 4, 0, 0)
    ([8, 9, 8, 7], [8, 8, 8, 8])
    """
    each, more = divmod(layers + first + last, parts)
    if each < 1 or max(first, last) > each:
        return None
    sizes = [each + (at < more) for at in range(parts)]
    sizes[0] -= first
    sizes[-1] -= last
    return sizes
