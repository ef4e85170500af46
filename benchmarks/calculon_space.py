"""The options of Calculon's search for GPT-3 175B on 1,024 GPUs, and what each of them is in a scenario.

    python benchmarks/calculon_space.py

prints how many executions Calculon tries, and how many of them differ in what a scenario can say. Its search
(github.com/calculon-ai/calculon, calculon/llm/optimal_execution.py, with systems/a100_80g.json, two networks and a second memory)
of at most 4,096 sequences a step has 9,259,840.

| Calculon | roofsim |
| --- | --- |
| tensor_par: divisors of GPUs, width and heads, 1 to 32 | `parallel.tensor`; `plan` itself stays inside a node, here up to 8 |
| pipeline_par, data_par: what divides layers and GPUs | `parallel.pipeline`, `parallel.data` |
| pipeline_interleaving: divisors of the layers of a stage | `parallel.virtual_stages` |
| batch_size: the largest multiple of data_par, 4,096 for all | `workload.global_batch_size` 4096 |
| microbatch_size: all divisors of the sequences of a replica | `workload.micro_batch_size`; `plan` itself tries up to 64 |
| activation_recompute full, attn_only, none | `workload.recompute` full, selective, none |
| optimizer_sharding | `parallel.sharding` optimizer, none |
| tensor_par_comm_type ar, rs_ag | `parallel.sequence` off, on |
| tensor_par_comm_type p2p_rs_ag | `workload.engine_facts.pipeline_message` split: each tensor rank sends its share of a message |
| seq_par_ag_redo | `workload.engine_facts.sequence_gather` again, saved |
| data_par_overlap | `workload.engine_facts.overlap.data` |
| tensor_par_overlap none; ring, pipe | `workload.engine_facts.overlap.tensor` off; on: one way to hide them, not two |
| weight_offload, activations_offload, optimizer_offload | `parallel.offload` of parameters, activations, optimizer_state |
| tensor_par_net, pipeline_par_net, data_par_net | not there: ranks of a group are neighbors, which decides |
| datatype, fused_activation, attention_type: one value each | precision, facts of the engine, the model |

What ours has and Calculon lacks: context and expert parallelism, schedules without bubbles, sharding of gradients and parameters
(of a node only, too), counts of recomputed layers, ends that count as layers, engines, cards, prices.
"""

from __future__ import annotations

from typing import Any, Final

#: The numbers of the search.
GPUS: Final = 1024
BATCH: Final = 4096
LAYERS: Final = 96
HEADS: Final = 96
WIDTH: Final = 12288
LENGTH: Final = 2048
#: Networks that each group may be on.
NETWORKS: Final = 2

#: The options that `plan` has as axes of its own, with the values that it tries, and places for parts of the state.
AXES: Final[dict[str, list[Any]]] = {
    "parallel.context": [1],
    "parallel.sharding": ["none", "optimizer"],
    "parallel.schedule": ["1f1b"],
    "parallel.account_for_embedding": [False],
    "parallel.account_for_loss": [False],
    "parallel.offload": [
        {
            name: "host"
            for place, name in enumerate(("parameters", "activations", "optimizer_state"))
            if bits >> place & 1
        }
        for bits in range(8)
    ],
}
#: All options that a scenario can say, with all of Calculon's values.
ALL_AXES: Final[dict[str, list[Any]]] = AXES | {
    "parallel.tensor": [1, 2, 4, 8, 16, 32],
    "parallel.pipeline": [1, 2, 4, 8, 16, 32],
    "parallel.virtual_stages": [each for each in range(1, LAYERS + 1) if LAYERS % each == 0],
    "workload.micro_batch_size": [2**power for power in range(13)],
    "workload.recompute": ["none", "selective", "full"],
    "workload.engine_facts.overlap.tensor": [False, True],
    "workload.engine_facts.overlap.data": [False, True],
    "workload.engine_facts.overlap.pipeline": [True],  # what is stated of a mapping stands for all of it
    "workload.engine_facts.sequence_gather": ["again", "saved"],
    "workload.engine_facts.pipeline_message": ["whole", "split"],
}


def executions() -> tuple[int, int]:
    """Return how many executions Calculon tries, and how many of them differ in what a scenario can say."""
    tried = said = 0
    for tensor, pipeline, data in _degrees():
        micro_batches = [each for each in _divisors(BATCH // data) if each * LENGTH % tensor == 0]
        chunks = _divisors(LAYERS // pipeline) if pipeline > 1 else [1]
        networks = NETWORKS ** ((tensor > 1) + (pipeline > 1) + (data > 1))
        for full in (True, False, False):  # recomputation: full, of attention, none
            places = 4 if full else 8
            replicas = 4 if data > 1 else 1  # sharding and overlap
            same = len(micro_batches) * len(chunks) * places * replicas
            kinds = 3 if full else 4  # of tensor communication: ar, p2p_rs_ag, rs_ag with and without a gather redone
            own = kinds - (pipeline == 1) if tensor > 1 else 1
            tried += same * kinds * (3 if tensor > 1 else 1) * networks
            said += same * own * (2 if tensor > 1 else 1)
    return tried, said


def _degrees() -> list[tuple[int, int, int]]:
    """Return the degrees of tensor, pipeline and data parallelism."""
    return [
        (tensor, pipeline, GPUS // (tensor * pipeline))
        for tensor in _divisors(GPUS)
        if WIDTH % tensor == 0 and HEADS % tensor == 0
        for pipeline in _divisors(min(GPUS // tensor, LAYERS))
        if LAYERS % pipeline == 0 and GPUS % (tensor * pipeline) == 0
    ]


def _divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]


if __name__ == "__main__":
    tried, said = executions()
    print(f"Calculon tries {tried:,} executions; {said:,} of them differ in what a scenario can say")
