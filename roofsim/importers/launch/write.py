"""Write a scenario as the launch command of another program."""

from __future__ import annotations

import shlex
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError
from roofsim.importers.launch.table import table_of
from roofsim.spec import catalog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roofsim.importers.launch.table import Flag, FlagTable

#: Flags on a line.
_ON_A_LINE: Final = 4


def launch_command(scenario: Mapping[str, Any], program: str, *, per_node: int, shown: str = "--emit") -> str:
    """Return the command that runs a scenario in another program.

    Parameters
    ----------
    scenario
        The resolved scenario of a result (``result.scenario``).
    program
        ``megatron-lm``, ``vllm``, ...
    per_node
        GPUs of a node.

    Raises
    ------
    SpecError
        When the program has no flag for what the scenario states.
    UnknownNameError
        For a program whose flags are not known.
    """
    table = table_of(program)
    _check(scenario, table, shown)
    written: dict[str, list[str]] = {}
    keys: set[str] = set()
    for name, flag in table.flags.items():
        same = flag.unless is not None and _at(scenario, flag.key or "") == _at(scenario, flag.unless)
        if same or flag.key in keys or (flag.beside is not None and flag.beside not in written):
            continue
        words = [name] if flag.key is None and flag.beside is not None else _words(scenario, table, name, flag)
        if words:
            written[name] = words
            keys |= {flag.key} if flag.key is not None else set()
    flags = list(written.values())
    lines = [" ".join(chain(*flags[at : at + _ON_A_LINE])) for at in range(0, len(flags), _ON_A_LINE)]
    return " \\\n  ".join(
        [" ".join([*_launcher(scenario, table, per_node), *table.command, *_model(scenario, table)]), *lines]
    )


def _check(scenario: Mapping[str, Any], table: FlagTable, shown: str) -> None:
    """Refuse a scenario of another phase, and sizes that the program has no flag for."""
    phase = scenario["workload"]["phase"]
    if table.phase is not None and phase != table.phase:
        raise SpecError(
            Problem(f"{table.name} runs phase {table.phase}; the scenario is of phase {phase}", Place(shown))
        )
    for key, usual in _STATED.items():
        value = _at(scenario, key)
        if value not in (usual, None) and not any(flag.key == key for flag in table.flags.values()):
            raise SpecError(Problem(f"{table.name} has no flag for {key} {value}", Place(shown)))
    for key, value in table.defaults.items():
        if key == "model.family" and _at(scenario, key) != value:
            raise SpecError(
                Problem(f"{table.name} runs models of family {value}; this one is {_at(scenario, key)}", Place(shown))
            )


#: Degrees and choices that must not be lost, with the value that needs no flag.
_STATED: Final[dict[str, Any]] = {
    "parallel.tensor": 1,
    "parallel.pipeline": 1,
    "parallel.virtual_stages": 1,
    "parallel.context": 1,
    "parallel.expert": 1,
    "parallel.sharding": "none",
    "workload.recompute": "none",
    "workload.adapter": None,
}


def _launcher(scenario: Mapping[str, Any], table: FlagTable, per_node: int) -> list[str]:
    if table.phase != "train":
        return []
    gpus = int(scenario["hardware"]["gpus"])
    return ["torchrun", "--nproc-per-node", str(min(gpus, per_node)), "--nnodes", str(max(gpus // per_node, 1))]


def _model(scenario: Mapping[str, Any], table: FlagTable) -> list[str]:
    if not table.model:
        return []
    name = str(scenario["model"]["name"])
    aliases = catalog.load("model", name).data.get("aliases", ()) if name in catalog.names("model") else ()
    return [next((alias for alias in aliases if "/" in alias), name)]


def _words(scenario: Mapping[str, Any], table: FlagTable, name: str, flag: Flag) -> list[str]:
    """Return a flag with its argument where the scenario states what it says; nothing where it does not, or needs not."""
    keys = flag.sets or ({flag.key: flag.value} if flag.key is not None and flag.value is not None else {})
    if keys:
        said = all(_at(scenario, key) in (flag.said_by or (value,)) for key, value in keys.items())
        needed = any(table.defaults.get(key, _USUAL.get(key)) != value for key, value in keys.items())
        return [name] if said and needed else []
    if flag.key is None or flag.quotient or flag.product:
        return []
    value, usual = _at(scenario, flag.key), table.defaults.get(flag.key, _USUAL.get(flag.key))
    if value is None or value == usual:
        return []
    if flag.values:
        argument = next((word for word, meant in flag.values.items() if meant == value), None)
        return [] if argument is None else [name, shlex.quote(argument), *shlex.split(flag.writes.get(str(value), ""))]
    more = [str(flag.multiple_of[0]), "1"] if flag.multiple_of else []
    return [name, shlex.quote(f"{value:g}" if isinstance(value, float) else str(value)), *more]


#: Values that need no flag of any program.
_USUAL: Final[dict[str, Any]] = {
    "parallel.data": 1,
    "parallel.pipeline": 1,
    "parallel.virtual_stages": 1,
    "parallel.context": 1,
    "parallel.expert": 1,
    "parallel.expert_tensor": 1,
    "parallel.sequence": False,
    "workload.optimizer": "adamw",
    "parallel.account_for_embedding": False,
    "parallel.account_for_loss": False,
    "model.num_experts": 0,
    "model.rotary_fraction": 1.0,
}


def _at(scenario: Mapping[str, Any], key: str) -> Any:
    """Return what a scenario has at a dotted key; the name of a precision for the whole of it, None where there is nothing."""
    at: Any = scenario
    for part in key.split("."):
        at = at.get(part) if isinstance(at, dict) else None
    return at["name"] if isinstance(at, dict) and "name" in at else at
