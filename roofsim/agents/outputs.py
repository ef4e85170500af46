"""Say in JSON Schema what tools return: the documents that ``--json`` prints, part by part, in SI units."""

from __future__ import annotations

from typing import Any, Final

from roofsim.agents.cut import LEFT_OUT

_TEXT: Final = ("string", "null")
_NUMBER: Final = ("number", "null")
_PART: Final = ("object", "null")
_LIST: Final = ("array", "null")
_YES_NO: Final = ("boolean", "null")

#: Part of a document -> its types and what it is, for every tool whose document has it.
_PARTS: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "schema": (("string", "integer"), "Kind and version of the document."),
    "scenario": (("object",), "The scenario as it was resolved, defaults included."),
    "verdict": (_TEXT, "The answer in words; of memory: fits, tight or does_not_fit."),
    "step_time": (("number",), "Seconds of one optimizer step, pass, token or request, by the phase."),
    "step_time_interval": (_LIST, "Ends of the 80 % interval, in seconds."),
    "throughput": (("object",), "Tokens, samples or requests per second."),
    "latency": (("object",), "Seconds to the first token, per output token and to the end."),
    "model_flops": (("number",), "FLOPs that the model needs in a step."),
    "hardware_flops": (("number",), "FLOPs that are executed in a step."),
    "mfu": (("number",), "Model FLOPs per second over the dense peak."),
    "hfu": (("number",), "Executed FLOPs per second over the dense peak."),
    "utilization": (("object",), "Share of what the hardware could do."),
    "bound": (_TEXT, "The resource that limits the step."),
    "runner_up": (_PART, "What limits next, and the factor until it does."),
    "bandwidth_bound": (_YES_NO, "Whether memory bandwidth is the limit."),
    "time": (("object",), "Seconds of the step by resource; they sum to it."),
    "waits": (("object",), "Seconds in which no kernel runs."),
    "parameters": (("object",), "Number of parameters."),
    "work": (("object",), "FLOPs, bytes and seconds by phase and class of op."),
    "memory": (("object",), "Bytes on the fullest GPU, by component, and whether they fit."),
    "elasticity": (_PART, "d ln(step time) / d ln(resource)."),
    "cost": (_PART, "Dollars and kWh, where prices are known."),
    "warnings": (("array",), "What to know before the figures are used."),
    "provenance": (("array",), "Where the figures come from."),
    "networks": (("array",), "Of a pipeline of several networks: each of them."),
    "goodput": (("object",), "What checkpoints and failures make of a long run."),
    "notes": (("array",), "What was taken without being stated."),
    "assumed": (("array",), "What was taken without being stated."),
    "rows": (("array",), "One element per row."),
    "title": (("string",), "What it is of."),
    "top": (("array",), "The best, in order; merged into the scenario each runs as it is."),
    "front": (("array",), "Those that none beats in both time and memory."),
    "refused": (("object",), "How many points were refused, by reason."),
    "reasons": (("object",), "What the reasons mean."),
    "space": (("object",), "What was searched."),
    "considered": (("integer",), "Points of the space."),
    "evaluated": (("integer",), "Points that were priced."),
    "cut": (("integer",), "Points that a bound left out."),
    "lower_bound": (_NUMBER, "None in the space is below it."),
    "seconds": (_NUMBER, "Seconds that the search took; of an explanation, the figure."),
    "objective": (("string",), "What the best has least or most of."),
    "constraints": (("array",), "Conditions that were given."),
    "robustness": (_PART, "How far the best may be behind another at the ends of the intervals."),
    "fits": (_YES_NO, "Whether it fits in memory."),
    "fit_probability": (_NUMBER, "The probability that it fits."),
}

#: Tool -> parts of its documents, those above by name, and its own.
_OF_TOOLS: Final[dict[str, tuple[str, ...]]] = {
    "run": (
        "schema",
        "scenario",
        "step_time",
        "step_time_interval",
        "throughput",
        "latency",
        "model_flops",
        "hardware_flops",
        "mfu",
        "hfu",
        "utilization",
        "bound",
        "runner_up",
        "bandwidth_bound",
        "time",
        "waits",
        "parameters",
        "work",
        "memory",
        "elasticity",
        "cost",
        "warnings",
        "provenance",
        "networks",
        "goodput",
    ),
    "compare": ("schema", "notes", "rows"),
    "fit": ("schema", "scenario", "fits", "verdict", "fit_probability", "assumed", "notes"),
    "plan": (
        "schema",
        "scenario",
        "objective",
        "constraints",
        "space",
        "considered",
        "evaluated",
        "cut",
        "refused",
        "reasons",
        "seconds",
        "lower_bound",
        "assumed",
        "top",
        "front",
        "robustness",
    ),
    "explain": ("title", "seconds"),
    "sweep": ("schema", "refused", "rows"),
    "advise": ("schema", "verdict", "bound", "elasticity"),
    "serve": (
        "schema",
        "scenario",
        "fits",
        "verdict",
        "latency",
        "throughput",
        "memory",
        "cost",
        "assumed",
        "warnings",
        # of servers that were searched
        "objective",
        "constraints",
        "space",
        "considered",
        "evaluated",
        "cut",
        "refused",
        "reasons",
        "seconds",
        "lower_bound",
        "top",
        "front",
        "robustness",
    ),
    "memory": ("title", "rows", "fits", "verdict", "fit_probability"),
    "list": ("rows",),
    "show": ("schema",),
}

#: Tool -> its own parts.
_OWN: Final[dict[str, dict[str, tuple[tuple[str, ...], str]]]] = {
    "compare": {
        "unit": (("string",), "Unit of the throughput."),
        "sort": (("string",), "Order of the rows."),
        "base": (_TEXT, "The row that the others are held against."),
        "fastest": (_PART, "The fastest that fits, and by how much."),
        "cheapest": (_LIST, "The cheapest, by market."),
        "sentence": (_TEXT, "Who wins, in a sentence."),
    },
    "fit": {
        "largest": (_PART, "The largest value that fits, and the next, which does not."),
        "largest_model": (_PART, "The largest model that fits."),
        "fewest_gpus": (_PART, "The fewest GPUs that it fits on."),
        "state": (_PART, "Bytes that do not depend on the batch."),
        "changes": (_PART, "What would make it fit."),
    },
    "plan": {
        "does_not_fit": (("integer",), "Points that do not fit."),
        "constrained": (("integer",), "Points that break a condition."),
        "structures": (("integer",), "Programs that were built."),
        "complete": (("boolean",), "Whether every point was decided."),
        "slo": (_PART, "Bounds on latencies."),
        "request_rate": (_NUMBER, "Requests per second that were asked for."),
        "max_request_rate": (_NUMBER, "Requests per second that one replica of the best keeps."),
        "replicas": (_NUMBER, "Replicas of the best."),
    },
    "explain": {
        "value": (("string",), "The figure with its unit."),
        "formula": (_TEXT, "How it is worked out."),
        "source": (_TEXT, "Where it comes from."),
        "parts": (("array",), "What it consists of, each explained in the same way."),
        "bytes": (_NUMBER, "The figure, where it is of bytes."),
    },
    "sweep": {
        "axes": (("object",), "Key of the scenario -> its values."),
        "points": (("integer",), "Points in all."),
        "possible": (("integer",), "Points that are possible."),
    },
    "advise": {
        "limits": (("object",), "Resource -> share of the time that waits for it."),
        "market": (_PART, "What more of a resource costs."),
        "one_percent": (("array",), "What one percent more speed costs, by resource."),
        "free": (("array",), "Changes that cost nothing."),
        "buy": (("array",), "What to buy."),
        "not_worth": (("array",), "What not to buy."),
        "undecided": (("array",), "What lies inside the error bar."),
        "tried": (("integer",), "Changes that were tried."),
        "jobs": (("array",), "Each job with its result."),
    },
}


def output_form(tool: str) -> dict[str, Any]:
    """Return the JSON Schema of what a tool returns; parts that were too long to return are named in ``left_out``."""
    own = _OWN.get(tool, {})
    parts = {name: _PARTS[name] for name in _OF_TOOLS[tool]} | own
    properties: dict[str, Any] = {
        name: {"type": types[0] if len(types) == 1 else list(types), "description": meaning}
        for name, (types, meaning) in parts.items()
    }
    properties[LEFT_OUT] = {
        "type": "array",
        "description": "What was too long: key, how much of it is shown, and where to go on (`keys`, `start`).",
        "items": {"type": "object"},
    }
    return {"type": "object", "properties": properties}
