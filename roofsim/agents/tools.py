"""Name the tools: what each answers, the function behind it, and which of its options an agent may use."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any, Final

from roofsim.agents.forms import option_forms, scenario_form
from roofsim.errors import Place, Problem, UnknownNameError, did_you_mean
from roofsim.records import dataclass

#: What every tool takes beside its own: how to read the rest of a long answer.
READING: Final[dict[str, Any]] = {
    "keys": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Return these parts of the answer alone, by dotted key: ['memory.components'].",
    },
    "start": {
        "type": "integer",
        "minimum": 0,
        "default": 0,
        "description": "With `keys` that name a list: the first element to return, where an answer left some out.",
    },
}
_OVERRIDES: Final[dict[str, Any]] = {
    "type": "object",
    "description": "Values put into the scenario, by key: {'gpu': 'h100', 'sequence_length': '4k', 'memory.bandwidth': '2x'}.",
}


@dataclass(frozen=True, kw_only=True)
class AgentTool:
    """A tool of the server.

    Attributes
    ----------
    title
        A few words for people.
    about
        What it answers and when to use it, for agents.
    home
        Module and function behind it: ``roofsim.api:run``.
    options
        Options of that function which agents may use.
    described
        How the scenario is described: by the ``meanings`` of its keys (of one tool, as they are the same in all), its ``keys``,
        or ``short``.
    scenario
        Whether it takes a scenario.
    words
        Option -> module and name of the words that it takes.
    changes
        Names of what this tool takes that its function does not, with their schemas.
    required
        Options that must be given.
    """

    title: str
    about: str
    home: str
    options: tuple[str, ...] = ()
    described: str = "short"
    scenario: bool = True
    words: dict[str, str] | None = None
    changes: dict[str, Any] | None = None
    required: tuple[str, ...] = ()

    @property
    def function(self) -> Any:
        """The function behind the tool."""
        return _named(self.home)

    @property
    def form(self) -> dict[str, Any]:
        """The JSON Schema of what it takes."""
        properties: dict[str, Any] = {}
        if self.scenario:
            properties = {"scenario": scenario_form(self.described), "overrides": _OVERRIDES}
        properties |= option_forms(self.function, self.options)
        for option, home in (self.words or {}).items():
            properties[option]["enum"] = [str(word) for word in _named(home)]
        properties |= self.changes or {}
        required = [*(("scenario",) if self.scenario else ()), *self.required]
        return {
            "type": "object",
            "properties": properties | READING,
            "required": required,
            "additionalProperties": False,
        }


def _named(home: str) -> Any:
    module, _, name = home.partition(":")
    return getattr(importlib.import_module(module), name)


_LATENCIES: Final = ("ttft", "tpot", "percentile")
_TEXT: Final[dict[str, Any]] = {"type": "string"}
_CHANGES: Final[dict[str, Any]] = {"type": ["array", "string"], "items": _TEXT}
_VERSION: Final[dict[str, Any]] = {"type": ["string", "object"]}
#: What a whole job is made of, for days, dollars and energy of all of it.
_JOB: Final[dict[str, Any]] = {
    name: {"type": ["number", "string"], "description": meaning}
    for name, meaning in {
        "tokens": "Work of a whole job, priced under `job`: '15T'.",
        "samples": "The same in samples (images, sequences): '1.2M'.",
        "epochs": "How often `samples` are gone through.",
        "eval_samples": "Samples of an evaluation.",
        "eval_every": "Steps between two evaluations.",
        "pue": "Power of the data centre over that of its machines.",
        "carbon": "Grams of CO2 of a kWh.",
    }.items()
}

TOOLS: Final[dict[str, AgentTool]] = {
    "run": AgentTool(
        title="Predict a scenario",
        about="Predict step time, throughput, memory, cost and what limits a model on given hardware, for training or inference, "
        "with an 80 % interval; with `tokens` or `samples` also days, dollars and energy of a whole job. Answers also when it does "
        "not fit in memory.",
        home="roofsim.api:run",
        described="meanings",
        changes=_JOB,
    ),
    "compare": AgentTool(
        title="Compare cards",
        about="Predict one scenario on several cards, nodes or changed cards, side by side, and say which wins.",
        home="roofsim.api:compare",
        described="keys",
        options=("gpus", "sort", "prices"),
        words={"sort": "roofsim.compare.winners:SORTS"},
    ),
    "fit": AgentTool(
        title="What fits in memory",
        about="Say whether a scenario fits in memory and what would make it fit; or find the largest batch, sequence or model that "
        "fits, or the fewest GPUs.",
        home="roofsim.api:fit",
        described="keys",
        options=("largest", "fewest", "family"),
        words={"largest": "roofsim.search.fitting.sizes:WORDS", "fewest": "roofsim.search.fitting.answer:FEWEST"},
    ),
    "plan": AgentTool(
        title="Find the best layout",
        about="Search parallel layouts, batch sizes and recomputation for the best on some GPUs, or the cheapest servers that keep "
        "bounds on latencies (ttft, tpot).",
        home="roofsim.plans:plan",
        options=("gpus", "gpu", "objective", "constraints", "axes", "fixed", "also", "top", "robust", *_LATENCIES),
        words={"objective": "roofsim.search.planning.objectives:OBJECTIVES"},
    ),
    "explain": AgentTool(
        title="Explain a figure",
        about="Trace a figure of a run back to operations, formulas, constants and their sources.",
        home="roofsim.views:explain",
        options=("figure",),
    ),
    "sweep": AgentTool(
        title="Sweep over values",
        about="Predict every combination of the values of some keys of a scenario: one row per point.",
        home="roofsim.api:sweep",
        options=("axes", "figures"),
        required=("axes",),
    ),
    "advise": AgentTool(
        title="Advise on a job",
        about="Say whether more bandwidth or more compute would help, what to change for free, what to buy, and what not to.",
        home="roofsim.decide.advise:advise",
    ),
    "serve": AgentTool(
        title="Predict a server",
        about="Predict a server under load: latencies, throughput, how many requests fit, cost per token; or size it to bounds on "
        "latencies (ttft, tpot).",
        home="roofsim.api:serve",
        options=(*_LATENCIES, "axes", "top"),
    ),
    "memory": AgentTool(
        title="What takes memory",
        about="List what takes memory at the peak of the fullest GPU, by component, op, layer, role or pipeline stage.",
        home="roofsim.views:memory",
        options=("by", "tensor", "curve", "top"),
        words={"by": "roofsim.analyze.alive:VIEWS"},
    ),
    "whatif": AgentTool(
        title="Change something",
        about="Predict a scenario before and after changes of anything in it or in its hardware, and say where the difference "
        "comes from: by kind of time, limit, op and change.",
        home="roofsim.decide.whatif:whatif",
        options=("each", "by"),
        words={"by": "roofsim.analyze.ops:GROUPS"},
        changes={
            "changes": {
                **_CHANGES,
                "description": "Changes made together: ['memory.bandwidth=2x', 'gpu=h200']. A factor (2x, +10%) is one on what the "
                "scenario has.",
            },
            "also": {**_CHANGES, "description": "Other what-ifs beside it, several changes of one in commas."},
        },
        required=("changes",),
    ),
    "need": AgentTool(
        title="What a target takes",
        about="Say what reaches a target (exactly one of step_time, tokens_per_second, time_to_first_token, cost, days with "
        "tokens): how much of each resource alone, which mix, how many GPUs, which cards.",
        home="roofsim.decide.need:need",
        options=("step_time", "tokens_per_second", "time_to_first_token", "cost", "days", "tokens"),
    ),
    "timeline": AgentTool(
        title="When things happen",
        about="Say what each lane of a step does and waits for, and how much of each collective is hidden behind work.",
        home="roofsim.views:timeline",
    ),
    "diff": AgentTool(
        title="Compare two versions",
        about="Hold two versions of a scenario against each other: step, memory, cost and traffic, op by op, with a verdict: "
        "better, worse, undecided or none.",
        home="roofsim.decide.diff:diff",
        options=("gpu", "fail_over", "by"),
        scenario=False,
        words={"by": "roofsim.analyze.ops:GROUPS"},
        changes={
            "old": {**_VERSION, "description": "The older version, as `run` takes a scenario."},
            "new": {**_VERSION, "description": "The newer version."},
            "overrides": _OVERRIDES,
        },
        required=("old", "new"),
    ),
    "list": AgentTool(
        title="List the catalog",
        about="List models, GPUs, systems, engines or architectures of the catalog, those whose name holds a text, or in order of "
        "price or size. Call it where a name is not known.",
        home="roofsim.agents.catalog:listed",
        scenario=False,
        changes={
            "catalog": {**_TEXT, "enum": ["models", "gpus", "systems", "engines", "architectures"]},
            "search": {**_TEXT, "description": "What a name or an alias holds: llama, h100."},
            "sort": {**_TEXT, "description": "A column to order by: price, memory, bandwidth, parameters, year, name."},
            "filters": {
                "type": "object",
                "description": "Of gpus: vendor, architecture, min-memory, min-bandwidth, since, max-price; of systems: gpu, "
                "since; of models: family, min-parameters, max-parameters. {'vendor': 'amd', 'min-memory': '24GiB'}.",
                "additionalProperties": {"type": ["string", "boolean", "number"]},
            },
        },
        required=("catalog",),
    ),
    "show": AgentTool(
        title="Show a catalog entry",
        about="Show every figure of one model, GPU, system, engine or architecture, with its source.",
        home="roofsim.agents.catalog:shown",
        scenario=False,
        changes={
            "name": {**_TEXT, "description": "Its name or alias: h100, llama3-8b, vllm."},
            "kind": {**_TEXT, "enum": ["model", "gpu", "system", "engine", "architecture"]},
        },
        required=("name",),
    ),
}


@cache
def tool_form(name: str) -> dict[str, Any]:
    """Return the JSON Schema of what a tool takes."""
    return TOOLS[name].form


def tool_named(name: str) -> AgentTool:
    """Return a tool.

    Raises
    ------
    UnknownNameError
        For a name that no tool has.
    """
    if name not in TOOLS:
        raise UnknownNameError(Problem(f"no tool {name[:60]!r}", hint=did_you_mean(name, TOOLS)))
    return TOOLS[name]


def check_names(name: str, arguments: dict[str, Any]) -> None:
    """Refuse arguments that a tool does not take, and say which are missing; what they hold is checked where it is used.

    Raises
    ------
    UnknownNameError
        For such an argument, or one that is missing.
    """
    form = tool_form(name)
    for given in arguments:
        if given not in form["properties"]:
            problem = Problem(f"takes no {given[:60]!r}", Place(name), hint=did_you_mean(given, form["properties"]))
            raise UnknownNameError(problem)
    for needed in form["required"]:
        if needed not in arguments:
            raise UnknownNameError(Problem(f"expected {needed!r}", Place(name)))
