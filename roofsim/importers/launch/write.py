"""Write a scenario as the launch command of another program, with the configuration files that it reads."""

from __future__ import annotations

import json
import shlex
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError
from roofsim.importers.launch.check import differences
from roofsim.importers.launch.notes import notes_of
from roofsim.importers.launch.table import table_of
from roofsim.records import dataclass, field
from roofsim.spec import catalog
from roofsim.units import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roofsim.importers.launch.table import Flag, FlagTable

#: Flags on a line.
_ON_A_LINE: Final = 4
#: Values that need no flag of any program.
_USUAL: Final[dict[str, Any]] = {
    "parallel.data": 1,
    "parallel.tensor": 1,
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


@dataclass(frozen=True)
class LaunchFiles:
    """What starts a run in another program.

    Attributes
    ----------
    program
        Whose command it is.
    command
        The command, on several lines.
    files
        Names of the configuration files that it reads -> their text.
    notes
        What no flag of the program says.
    """

    program: str
    command: str
    files: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """One shell script, which writes its files itself."""
        files = [f"cat > {shlex.quote(name)} <<'EOF'\n{text}EOF\n" for name, text in self.files.items()]
        return "".join([*(f"# {note}\n" for note in self.notes), *files, self.command])


def launch_command(scenario: Mapping[str, Any], program: str, *, per_node: int, shown: str = "--emit") -> str:
    """Return the text of `launch_files`: a command, after the files that it reads."""
    return launch_files(scenario, program, per_node=per_node, shown=shown).text


def launch_files(scenario: Mapping[str, Any], program: str, *, per_node: int, shown: str = "--emit") -> LaunchFiles:
    """Return the command, with its configuration files, that runs a scenario in another program.

    What is written is read again and compared: it is the same scenario, or it is refused.

    Parameters
    ----------
    scenario
        The resolved scenario of a result (``result.scenario``).
    program
        ``megatron-lm``, ``nemo``, ``torchtitan``, ``deepspeed``, ``accelerate``, ``vllm``, ``sglang``, ``tensorrt-llm``,
        ``llama.cpp``.
    per_node
        GPUs of a node.

    Raises
    ------
    SpecError
        When the program cannot say what the scenario states.
    UnknownNameError
        For a program whose flags are not known.
    """
    table = table_of(program)
    _check(scenario, table, shown)
    view = _View(scenario, table)
    each, nodes = _machines(scenario, per_node)
    view.notes[".machines"] = nodes
    if "{nodes}" not in table.command:  # no launcher says it
        view.notes |= {".per_node": each, ".nodes": nodes}
    words, entries = view.written()
    files = {}
    if table.file is not None and entries:
        files[table.file.name] = FORMATS[table.file.format](_nested(entries, table))
    start = _start(scenario, table, per_node, with_file=bool(files))
    lines = [" ".join(chain(*words[at : at + _ON_A_LINE])) for at in range(0, len(words), _ON_A_LINE)]
    made = LaunchFiles(table.name, " \\\n  ".join([" ".join(start), *lines]) + "\n", files)
    wrong, notes = differences(scenario, made.text, table)
    if wrong:
        raise SpecError(
            Problem(
                f"{table.name} cannot say {', '.join(wrong)}", Place(shown), hint="Change it, or emit another program."
            )
        )
    return LaunchFiles(made.program, made.command, made.files, notes)


def _check(scenario: Mapping[str, Any], table: FlagTable, shown: str) -> None:
    """Refuse a scenario of another phase or family, and a model that the program does not know."""
    phase = scenario["workload"]["phase"]
    if table.phase is not None and phase != table.phase:
        raise SpecError(
            Problem(f"{table.name} runs phase {table.phase}; the scenario is of phase {phase}", Place(shown))
        )
    if table.phase is None and phase == "train":
        raise SpecError(Problem(f"{table.name} serves; the scenario is of phase train", Place(shown)))
    family, runs = scenario["model"].get("family"), table.defaults.get("model.family")
    if runs is not None and family != runs:
        raise SpecError(Problem(f"{table.name} runs models of family {runs}; this one is {family}", Place(shown)))
    name = scenario["model"].get("name")
    if table.models and not any(name in known for known in table.models.values()):
        known = ", ".join(dict.fromkeys(chain(*table.models.values())))
        raise SpecError(Problem(f"{table.name} has no model {name}", Place(shown), hint=f"It has {known}."))


class _View:
    """A scenario, as the flags of a program see it."""

    def __init__(self, scenario: Mapping[str, Any], table: FlagTable) -> None:
        self.scenario, self.table = scenario, table
        self.notes = notes_of(scenario, table)
        self.flavor = _flavor(scenario, table)

    def at(self, key: str | None) -> Any:
        """Return what the scenario has at a key; the name of a precision for the whole of it, None where there is nothing."""
        if key is None:
            return None
        if key in self.notes:
            return self.notes[key]
        at: Any = self.scenario
        for part in key.split("."):
            at = at.get(part) if isinstance(at, dict) else None
        return at["name"] if isinstance(at, dict) and "name" in at else at

    def usual(self, key: str) -> Any:
        return self.table.usual("/".join(self.flavor.values())).get(key, _USUAL.get(key))

    def written(self) -> tuple[list[list[str]], dict[str, Any]]:
        """Return the flags of the command, each with its arguments, and the entries of the configuration file."""
        in_words = self.table.overrides and self.table.file is None
        words: dict[str, list[str]] = {name: [name, value] for name, value in self.flavor.items() if in_words}
        entries: dict[str, Any] = {} if in_words else dict(self.flavor)
        keys: set[str] = set()
        for name, flag in self.table.flags.items():
            same = flag.unless is not None and self.at(flag.key) == self.at(flag.unless)
            waits = flag.beside is not None and flag.beside not in words and flag.beside not in entries
            if same or flag.key in keys or waits:
                continue
            said = self._said(flag)
            if said is None:
                continue
            if name.startswith("-"):
                words[name] = [name, *map(shlex.quote, said), *shlex.split(flag.writes.get(str(self.at(flag.key)), ""))]
                words[name] += [str(flag.multiple_of[0]), "1"] if flag.multiple_of else []
            elif in_words:
                words[name] = [f"{name}={shlex.quote(' '.join(said))}"]
            else:
                entries[name] = _typed(said, flag)
            keys |= {flag.key} if flag.key is not None else set()
        return list(words.values()), entries

    def _said(self, flag: Flag) -> list[str] | None:  # noqa: PLR0911 -- one form of flag each
        """Return the arguments with which a flag says what the scenario states; None where it does not, or needs not."""
        if flag.is_switch and flag.key is None and not flag.sets:
            return []
        keys = flag.sets or ({flag.key: flag.value} if flag.key is not None and flag.value is not None else {})
        if keys:
            said = all(self.at(key) in (flag.said_by or (value,)) for key, value in keys.items())
            needed = any(self.usual(key) != value for key, value in keys.items())
            return [] if said and needed else None
        if flag.cases:
            return self._case(flag)
        if flag.key is None or flag.quotient or flag.product:
            return None
        value = self.at(flag.key)
        usual = self.usual(flag.key)
        if value is None or value == usual or (value is False and usual is None):
            return None
        if flag.values:
            argument = next((word for word, meant in flag.values.items() if meant == value and meant is not None), None)
            return None if argument is None else [argument]
        value = value / parse(f"1 {flag.unit}", "B") if flag.unit else value
        return [f"{value:g}" if isinstance(value, float) else str(value)]

    def _case(self, flag: Flag) -> list[str] | None:
        for argument, keys in flag.cases.items():
            if keys and all(self.at(key) == value for key, value in keys.items()):
                needed = any(self.usual(key) != value for key, value in keys.items())
                return [argument] if needed else None
        return None


def _typed(said: list[str], flag: Flag) -> Any:  # noqa: PLR0911 -- one type each
    """Return an argument as a configuration file has it: true, a number, or text."""
    if not said:
        return True
    word = said[0]
    if word in ("true", "false"):
        return word == "true"
    if flag.list:
        return word.split(",")
    if flag.text:
        return word
    try:
        return int(word)
    except ValueError:
        try:
            return float(word)
        except ValueError:
            return word


def _flavor(scenario: Mapping[str, Any], table: FlagTable) -> dict[str, Any]:
    """Return the entries that name a model as the program does."""
    name = scenario["model"].get("name")
    named = next((word for word, known in table.models.items() if name in known), None)
    return {} if named is None else dict(zip(table.model, named.split("/"), strict=False))


def _start(scenario: Mapping[str, Any], table: FlagTable, per_node: int, *, with_file: bool) -> list[str]:
    """Return the words that start the program: its launcher, with GPUs and nodes, its model, its file."""
    each, nodes = _machines(scenario, per_node)
    file = [] if table.file is None or not with_file else [table.file.flag, table.file.name]
    filled = {"{per_node}": [str(each)], "{nodes}": [str(nodes)], "{file}": file}
    words = chain.from_iterable(filled.get(word, [word]) for word in table.command)
    own = {"{model}": _model, "{weights}": _weights}
    return [own[word](scenario) if word in own else shlex.quote(word) for word in words]


def _machines(scenario: Mapping[str, Any], per_node: int) -> tuple[int, int]:
    """Return the GPUs of each node, and the nodes."""
    gpus = int(scenario["hardware"]["gpus"])
    each = next(number for number in range(min(gpus, per_node), 0, -1) if gpus % number == 0)
    return each, gpus // each


def _model(scenario: Mapping[str, Any]) -> str:
    name = str(scenario["model"].get("name", "MODEL"))
    aliases = catalog.load("model", name).data.get("aliases", ()) if name in catalog.names("model") else ()
    return shlex.quote(next((alias for alias in aliases if "/" in alias), name))


def _weights(scenario: Mapping[str, Any]) -> str:
    """Return the file of a model, named as its publishers do, with the format of its weights."""
    precision = scenario["workload"]["precision"]
    stored = precision["weights"] if precision["name"] == "custom" else precision["name"]
    stored = {"fp16": "f16", "fp32": "f32"}.get(stored, stored)
    return shlex.quote(f"{scenario['model'].get('name', 'MODEL')}-{str(stored).upper()}.gguf")


def _nested(entries: dict[str, Any], table: FlagTable) -> dict[str, Any]:
    assert table.file is not None
    data: dict[str, Any] = {}
    for name, value in {**table.file.always, **entries}.items():
        *path, last = name.removeprefix(table.file.prefix).split(".")
        at = data
        for part in path:
            at = at.setdefault(part, {})
        at[last] = value
    return data


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=2) + "\n"


def _yaml(data: dict[str, Any], indent: str = "") -> str:
    lines = []
    for key, value in data.items():
        if isinstance(value, dict):
            lines.append(f"{indent}{key}:\n{_yaml(value, indent + '  ')}")
        else:
            lines.append(f"{indent}{key}: {_yaml_value(value)}\n")
    return "".join(lines)


def _yaml_value(value: Any) -> str:
    plain = isinstance(value, str) and value.replace("_", "a").replace("-", "a").isalnum() and not value[0].isdigit()
    return value if plain and value.lower() not in ("no", "yes", "on", "off", "null") else json.dumps(value)


def _toml(data: dict[str, Any], path: str = "") -> str:
    own = "".join(f"{key} = {json.dumps(value)}\n" for key, value in data.items() if not isinstance(value, dict))
    head = f"[{path}]\n" if path and own else ""
    below = [_toml(value, f"{path}.{key}" if path else key) for key, value in data.items() if isinstance(value, dict)]
    return "\n".join(part for part in (head + own, *below) if part)


#: Formats of configuration files -> what writes them.
FORMATS: Final = {"json": _json, "yaml": _yaml, "toml": _toml}
