"""Name the verbs: where each lives, what it answers in a line, and three examples. A verb is imported when it is called."""

from __future__ import annotations

from typing import Final, NamedTuple


class Verb(NamedTuple):
    """A verb of the command line.

    Attributes
    ----------
    home
        Module and function, ``roofsim.cli.run:run``; or a table of verbs, for a group of them.
    line
        What it answers: the first line of its help, and its line in the list of verbs.
    examples
        Commands that work as they stand, in a folder with the repository's gpt.yaml.
    """

    home: str
    line: str
    examples: tuple[str, ...]


VERBS: Final = {
    "run": Verb(
        "roofsim.cli.run:run",
        "Predict step time, throughput, memory and what limits a scenario.",
        (
            "roofsim run gpt.yaml --gpu a100",
            "roofsim run llama3-8b --gpu h100 --gpus 8 --sharding fsdp --seq-len 4k",
            "roofsim run llama3-8b --gpu rtx4090 --phase generate --prompt-length 1k --output-length 256 --precision int4",
        ),
    ),
    "compare": Verb(
        "roofsim.cli.compare:compare",
        "Compare cards on one scenario: time, limits, memory, price, and which wins by how much.",
        (
            "roofsim compare llama3-8b a100 8xa100 dgx-h100 --seq-len 2k --sort speed",
            "roofsim compare resnet50 v100 rtx4090 'rtx4090{memory.bandwidth=2x,peak.bf16=+10%}' --batch 64",
            "roofsim compare gpt.yaml a100 h100 --sort cost --price h100=2.50 --price a100=1.20",
        ),
    ),
    "whatif": Verb(
        "roofsim.cli.whatif:whatif",
        "Show a scenario before and after changes: what each gains, how sure that is, and where the difference comes from.",
        (
            "roofsim whatif llama3-8b --gpu h100 --seq-len 2k --set memory.bandwidth=2x",
            "roofsim whatif resnet50 --gpu v100 --batch 64 --precision fp16-amp --set memory.bandwidth='300 GB/s'",
            "roofsim whatif gpt.yaml --gpu a100 --set gpu=h100 --set micro_batch_size=2x --each --also tdp=-20%",
        ),
    ),
    "diff": Verb(
        "roofsim.cli.diff:diff",
        "Hold two versions of a scenario against each other: step, memory, cost and bytes, op by op, with a verdict for CI.",
        (
            "roofsim diff HEAD~1:gpt.yaml gpt.yaml --gpu h100,l4 --fail-over 3%",
            "roofsim diff --against main gpt.yaml serve.yaml --gpu h100 --fail-over time=3%,memory=10% --markdown report.md",
            "roofsim diff llama2-7b llama3-8b --gpu a100 --seq-len 2k --by class",
        ),
    ),
    "need": Verb(
        "roofsim.cli.need:need",
        "Say what reaches a target: how much of each resource alone, which mix, how many GPUs, and which cards.",
        (
            "roofsim need llama3-8b --gpu h100 --phase decode --context-length 1k --engine vllm --step-time 6ms",
            "roofsim need resnet50 --gpu v100 --batch 64 --precision fp16-amp --tokens-per-second 2000",
            "roofsim need llama3-8b --gpu h100 --gpus 64 --sharding fsdp --seq-len 4k --days 30 --tokens 1.2e12",
        ),
    ),
    "advise": Verb(
        "roofsim.cli.advise:advise",
        "Advise on a job or a mix of jobs: what limits it, what to change for free, what to buy, and what not to.",
        (
            "roofsim advise llama3-8b --gpu h100 --seq-len 2k",
            "roofsim advise resnet50 --gpu a100 --batch 64 --precision fp16-amp",
            "roofsim advise gpt.yaml bert-large --gpu a100 --weights 3,1",
        ),
    ),
    "budget": Verb(
        "roofsim.cli.budget:budget",
        "Say what a budget buys: the most tokens, the best card and number of GPUs, and the largest model of the family.",
        (
            "roofsim budget llama3-8b --usd 50k --days 14 --seq-len 8k",
            "roofsim budget resnet50 --usd 200 --days 1 --gpu a100,h100,rtx4090 --batch 256",
            "roofsim budget gpt3-1.3b --usd 2k --days 3 --gpu h100 --most 16 --price h100=2.10 --json",
        ),
    ),
    "rent-or-buy": Verb(
        "roofsim.cli.owning:rent_or_buy",
        "Say whether to rent or to buy GPUs for a scenario: what an hour of either costs, and where both cost the same.",
        (
            "roofsim rent-or-buy llama3-8b --gpu h100 --gpus 8 --sharding full --seq-len 8k --utilisation 60% --years 3",
            "roofsim rent-or-buy llama3-8b --gpu a100 --phase decode --purchase 20k --rent 1.50 --against h100",
            "roofsim rent-or-buy resnet50 --gpu rtx4090 --batch 64 --power-price 0.30 --hosting 0 --years 2",
        ),
    ),
    "power": Verb(
        "roofsim.cli.power:power",
        "Say what power limits cost and save: speed and work per joule, and the limit that does the most.",
        (
            "roofsim power llama3-8b --gpu h100 --gpus 8 --sharding full --seq-len 8k",
            "roofsim power resnet50 --gpu a100 --batch 256 --limits 250W,300W,400W --plot power.png",
            "roofsim power llama3-8b --gpu rtx4090 --phase decode --engine vllm --precision fp8 --json",
        ),
    ),
    "check": Verb(
        "roofsim.cli.check:check",
        "Hold a measured run beside its prediction: inside the interval or not, where they differ, and what would explain it.",
        (
            "roofsim check llama3-8b --gpu h100 --seq-len 2k --measured step_time=350ms",
            "roofsim check resnet50 --gpu a100 --batch 64 --precision fp16-amp --measured step_time=56ms",
            "roofsim check gpt.yaml --gpu a100 --measured step_time=212ms --measured memory.peak=30GiB --json",
        ),
    ),
    "transplant": Verb(
        "roofsim.cli.transplant:transplant",
        "Carry a recorded step over to other hardware: each kernel as far from its prediction there as it was here.",
        (
            "roofsim transplant t.json gpt.yaml --from a100 --to h100",
            "roofsim transplant t.json llama3-8b --seq-len 2k --from a100 --to h100 --trace both.json",
            "roofsim transplant t.json gpt.yaml --from a100 --set memory.bandwidth=2x --json",
        ),
    ),
    "sweep": Verb(
        "roofsim.cli.sweep:sweep",
        "Predict every combination of the values of some keys of a scenario.",
        (
            "roofsim sweep llama3-8b --gpu h100 --seq-len 2k --axis parallel.tensor=1,2,4,8 --sort step_time",
            "roofsim sweep resnet50 --axis gpu=a100,h100 --axis batch=1..256:x2 --figure throughput.samples_per_second",
            "roofsim sweep gpt.yaml --gpu h100 --axis hardware.override.gpu.memory.bandwidth=1..8TB/s:15 --plot sweep.png",
        ),
    ),
    "plan": Verb(
        "roofsim.cli.plan:plan",
        "Find the best layout on some GPUs: the first ten, how they differ, and a bound that none can beat.",
        (
            "roofsim plan llama3-8b --gpu h100 --gpus 8 --engine torchtitan --seq-len 4k --global-batch-size 64",
            "roofsim plan gpt.yaml --gpu a100,h100 --gpus 4..16 --objective cost --constraint 'memory < 70 GiB'",
            "roofsim plan llama3-70b --gpu h200 --gpus 8 --phase decode --context-length 4k --batch-size 64 --engine vllm",
        ),
    ),
    "fit": Verb(
        "roofsim.cli.fit:fit",
        "Check that a scenario fits in memory, or find the largest one or the fewest GPUs that do.",
        (
            "roofsim fit llama3-8b --gpu rtx4090 --adapter qlora --seq-len 2k",
            "roofsim fit llama3-8b --gpu h100 --phase decode --context-length 4k --largest batch-size",
            "roofsim fit llama3-70b --gpu h100 --fewest gpus --seq-len 4k",
        ),
    ),
    "serve": Verb(
        "roofsim.cli.serve:serve",
        "Predict what a server does under load: latencies, throughput, room for requests, cost per token or request.",
        (
            "roofsim serve llama3-8b --gpu h100 --prompt-length 1k --output-length 256 --request-rate 5",
            "roofsim serve llama3-8b --gpu rtx4090 --precision int4 --prompt-length 512 --output-length 128 --concurrency 8",
            "roofsim serve llama3-70b --gpu h100 --tp 4 --engine sglang --prompt-length 2k --output-length 512",
        ),
    ),
    "ops": Verb(
        "roofsim.cli.ops:ops",
        "List the operations and waits of a step: FLOPs, bytes, time and bound of each, or of each group.",
        (
            "roofsim ops resnet50 --gpu a100 --by class",
            "roofsim ops llama3-8b --gpu h100 --seq-len 2k --sort bytes --top 10",
            "roofsim ops gpt.yaml --csv",
        ),
    ),
    "graph": Verb(
        "roofsim.cli.graph:graph",
        "Draw the operations of a step and what passes between them, or write them as a graph for other programs.",
        (
            "roofsim graph gpt.yaml --output gpt.graphml",
            "roofsim graph llama3-8b --gpu h100 --seq-len 4k --phase forward --block layers --output layer.png",
            "roofsim graph resnet50 --gpu a100 --only backward --top 10",
        ),
    ),
    "memory": Verb(
        "roofsim.cli.memory:memory",
        "Show what takes memory at the peak, when the peak occurs, and memory over the step.",
        (
            "roofsim memory gpt.yaml --gpu a100",
            "roofsim memory llama3-8b --seq-len 2k --by layer --top 5",
            "roofsim memory resnet50 --batch 32 --plot curve.png",
        ),
    ),
    "timeline": Verb(
        "roofsim.cli.timeline:timeline",
        "Show when each part of a step runs, and how much communication is hidden.",
        (
            "roofsim timeline llama3-8b --gpu h100 --gpus 8 --pp 4 --global-batch-size 16 --seq-len 2k",
            "roofsim timeline gpt.yaml --trace trace.json",
            "roofsim timeline llama3-8b --gpu h100 --gpus 8 --sharding fsdp --seq-len 2k --csv",
        ),
    ),
    "collectives": Verb(
        "roofsim.cli.collectives:collectives",
        "Show time and bandwidth of collectives on a system, by message size and number of ranks.",
        (
            "roofsim collectives --system dgx-h100",
            "roofsim collectives --system dgx-a100 --op all_gather --ranks 8,16 --sizes '1 MiB, 64 MiB, 1 GiB'",
            "roofsim collectives --system workstation-2x-rtx4090 --csv",
        ),
    ),
    "explain": Verb(
        "roofsim.cli.explain:explain",
        "Trace a figure back to operations, formulas, constants and their sources.",
        (
            "roofsim explain gpt.yaml step_time",
            "roofsim explain llama3-8b memory.peak --seq-len 2k",
            "roofsim explain resnet50 stem.conv.conv --json",
        ),
    ),
    "capture": Verb(
        "roofsim.cli.capture:capture",
        "Write a script that captures any PyTorch model as a file that every verb takes in a model's place.",
        ("roofsim capture --write capture.py", "roofsim capture --write capture.py --force", "roofsim capture"),
    ),
    "mcp": Verb(
        "roofsim.cli.mcp:mcp",
        "Answer agents: tools of the Model Context Protocol on standard input and output.",
        ("roofsim mcp --help", "roofsim mcp --folder models", "roofsim mcp --time-limit 30 --characters 20000"),
    ),
    "init": Verb(
        "roofsim.cli.init:init",
        "Write a commented scenario that runs as it is, or a model: a start for a file of your own.",
        ("roofsim init", "roofsim init net.yaml --layers", "roofsim init gpt.yaml --force"),
    ),
    "list": Verb(
        "roofsim.cli.listing:list_names",
        "List the models, GPUs, systems, engines and architectures of the catalog, or families, schedules, constants and plug-ins.",
        (
            "roofsim list gpus --vendor amd --min-memory 24GiB --sort price",
            "roofsim list systems --gpu h100",
            "roofsim list models --family mamba --max-parameters 8B --json",
        ),
    ),
    "show": Verb(
        "roofsim.cli.show:show",
        "Show one entry of the catalog: every figure, with its source.",
        ("roofsim show h100", "roofsim show engine vllm", "roofsim show model llama3-8b --json"),
    ),
    "schema": Verb(
        "roofsim.cli.schema:schema",
        "Print the JSON Schema of a file, for editors to complete and check it, or write those of all kinds of files.",
        ("roofsim schema scenario", "roofsim schema gpu", "roofsim schema --write schemas"),
    ),
    "validate": Verb(
        "roofsim.cli.validate:validate",
        "Score predictions against measurements: your own, or those that were published.",
        ("roofsim validate", "roofsim validate --source timm-train --csv", "roofsim validate --json"),
    ),
    "web": Verb(
        "roofsim.cli.web:web",
        "Open a page in the browser that asks, answers and shows, served from this machine to itself.",
        ("roofsim web --open", "roofsim web gpt.yaml --port 0", "roofsim web --folder . --limit 120 --workers 4"),
    ),
    "calibrate": Verb(
        "roofsim.cli.calibrate:VERBS",
        "Measure a GPU, and turn measurements into constants.",
        (
            "roofsim calibrate measure --output mycard.py",
            "roofsim calibrate fit mycard.csv --hold-out",
            "roofsim calibrate fit mycard.csv --gpu rtx4090 --overlay mycard.yaml",
        ),
    ),
}
