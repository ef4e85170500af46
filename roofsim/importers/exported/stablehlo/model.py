"""Read StableHLO text into the form of a captured program: calls are followed, loops of a known length written out."""

from __future__ import annotations

import re
from collections import Counter
from math import prod
from typing import TYPE_CHECKING, Any, Final

from roofsim.importers.captured.form import SCHEMA
from roofsim.importers.exported.dims import Dims
from roofsim.importers.exported.stablehlo.call import TYPES, HloCall, HloValue
from roofsim.importers.exported.stablehlo.rules import GROUPS, RULES
from roofsim.importers.exported.stablehlo.syntax import AGAIN, MANUAL, Function, HloText, Statement, TensorType
from roofsim.importers.exported.tape import MOST_ELEMENTS, OWN, ExportTape, fail, parameters_of, shown, together
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

#: The largest text that is read; constants are written out in it.
LARGEST: Final = 256 * 2**20
#: Ops of a program with its calls and loops written out.
MOST_OPS: Final = 100_000
#: Calls in calls.
_DEEPEST: Final = 100
_CONSTANT: Final = re.compile(r"dense<(-?[\d.]+(?:[eE][+-]?\d+)?|true|false|0x[0-9A-Fa-f]+)>")
_RETURNS: Final = ("return", "func.return", "stablehlo.return", "sdy.return")
_CALLS: Final = ("call", "func.call")


@dataclass(frozen=True)
class HloFile:
    """A StableHLO module."""

    source: str
    functions: dict[str, Function]
    dtype: str

    @property
    def ranks(self) -> int:
        """The ranks of the largest group of a collective; 1: there is none."""
        return max((_group(each) for function in self.functions.values() for each in _all(function.body)), default=1)

    def dims(self, fixed: Mapping[str, int]) -> Dims:
        """Return that nothing is open: a program is lowered for one shape, and one call of it is one sample."""
        del fixed
        return Dims("samples", None, (), (1,), (1,), ())

    def notes(self) -> tuple[str, ...]:
        """Return what a reader must know of the text."""
        return (
            "StableHLO text: one call at the shapes that it was lowered for is a batch of 1; gradients in it are priced as its ops",
            f"numbers of the text are {OWN[self.dtype]}, in whose place the precision is",
        )

    def capture(self, fixed: Mapping[str, int], stated: frozenset[str], name: str) -> dict[str, Any]:
        """Return the program in the form of a capture; raises `SpecError` for loops and ops that cannot be priced."""
        del fixed, stated
        tape = _HloWalk(self).run()
        program = together([tape], [(1, 1)], self.source)
        if not program["ops"]:
            fail(self.source, "has no ops that run")
        return program | {
            "schema": SCHEMA,
            "name": name,
            "counted_in": "samples",
            "dtype": OWN[self.dtype],
            "symbols": {"batch": (1,), "length": (1,)},
            "parameters": parameters_of(program["tensors"]),
            "made_by": {"producer": "StableHLO"},
        }


def parameter_names(arguments: Sequence[tuple[str, TensorType, str]]) -> set[str]:
    """Return the arguments that are parameters: the leaves of the tree that most of the named arguments belong to.

    Names are in the text where it was written with debug_info=True: ``params['dense']['kernel']``. Without them none is known.
    """
    trees: Counter[str] = Counter()
    for _, kind, said in arguments:
        root = re.match(r"[A-Za-z_]\w*(?=[\[.])", said)
        if root and kind.element in ("f32", "bf16", "f16"):
            trees[root[0]] += 1
    if not trees:
        return set()
    tree = trees.most_common(1)[0][0]
    return {name for name, _, said in arguments if re.match(rf"{tree}[\[.]", said)}


class _HloWalk:
    """A walk through a module."""

    def __init__(self, file: HloFile) -> None:
        self.file = file
        self.tape = ExportTape()
        self.loops = 0
        self.layers: dict[tuple[int, tuple[float, ...]], int] = {}

    def run(self) -> ExportTape:
        """Return the tape of the function @main."""
        main = self.file.functions["main"]
        parameters = parameter_names(main.arguments)
        env: dict[str, HloValue] = {}
        for name, kind, said in main.arguments:
            if prod(kind.shape) > MOST_ELEMENTS or kind.element not in TYPES:
                fail(self.file.source, f"has the impossible argument {shown(name)}: {kind.element}")
            role = "parameter" if name in parameters else "input"
            env[name] = HloValue(
                kind, self.tape.tensor(kind.shape, TYPES[kind.element], role=role, name=said or name[1:])
            )
        results = self._body(main.body, env, 0)
        self.tape.outputs = [value.number for value in results if value.number is not None]
        return self.tape

    def _body(self, body: Sequence[Statement], env: dict[str, HloValue], depth: int) -> list[HloValue]:
        """Write down statements; return what they give out."""
        if depth > _DEEPEST:
            fail(self.file.source, f"has calls in calls, more than {_DEEPEST} deep")
        for statement in body:
            inputs = [self._value(name, env, statement) for name in statement.operands]
            if statement.op in _RETURNS:
                return inputs
            self._statement(statement, inputs, env, depth)
            if len(self.tape.ops) > MOST_OPS:
                fail(self.file.source, f"has more than {MOST_OPS:,} ops with its calls and loops written out")
        return []

    def _value(self, name: str, env: dict[str, HloValue], statement: Statement) -> HloValue:
        value = env.get(name) or env.get(f"{name}#0")
        if value is None:
            fail(self.file.source, f"line {statement.line}: reads {shown(name)}, which nothing makes", AGAIN)
        return value

    def _statement(self, statement: Statement, inputs: list[HloValue], env: dict[str, HloValue], depth: int) -> None:
        if statement.op in _CALLS:
            self._bind(statement, self._called(statement, inputs, depth), env)
            return
        if statement.op == MANUAL:
            self._bind(statement, self._on_ranks(statement, env, depth), env)
            return
        if any(value.share for value in inputs):
            fail(
                self.file.source,
                f"line {statement.line}: {shown(statement.op)} runs on what the ranks of a mesh have each a share of",
                "Put it inside of jax.shard_map: what the partitioner would make of it is not in the text.",
            )
        if statement.op == "stablehlo.while":
            self._bind(statement, self._loop(statement, env, depth), env)
            return
        if not statement.types:
            fail(self.file.source, f"line {statement.line}: {shown(statement.op)} has no type that is read", AGAIN)
        types = statement.types if len(statement.types) >= statement.count else statement.types * statement.count
        outputs = [HloValue(kind) for kind in types[-statement.count :]]
        self._bind(statement, outputs, env)
        if not self._folded(statement, inputs, outputs[0]):
            self.tape.line = f"line {statement.line}"
            call = HloCall(self.file.source, self.tape, statement, inputs, outputs, self.layers)
            name = statement.op.rpartition(".")[2]
            rule = RULES.get(name) if statement.op.startswith(("stablehlo.", "chlo.")) else None
            if rule is None:
                call.own(statement.op)
            else:
                rule(call)

    def _bind(self, statement: Statement, values: Sequence[HloValue], env: dict[str, HloValue]) -> None:
        if len(values) != statement.count:
            fail(
                self.file.source,
                f"line {statement.line}: {shown(statement.op)} makes {len(values)} of {statement.count}",
                AGAIN,
            )
        for at, value in enumerate(values):
            env[f"{statement.result}#{at}"] = value
        if values:
            env[statement.result] = values[0]

    def _folded(self, statement: Statement, inputs: Sequence[HloValue], out: HloValue) -> bool:
        """Take note of a number that stands in every place of a result, or of a constant; tell whether nothing runs."""
        name = statement.op.rpartition(".")[2]
        if name == "constant":
            match = _CONSTANT.search(statement.text)
            if match:
                out.constant = _number(match[1])
            return True
        if name in ("broadcast_in_dim", "reshape", "convert") and inputs and inputs[0].constant is not None:
            out.constant = inputs[0].constant
            return True
        scalars = [value.constant for value in inputs]
        if name in ("add", "subtract", "multiply") and None not in scalars and len(scalars) == 2:
            left, right = (value or 0.0 for value in scalars)
            out.constant = {"add": left + right, "subtract": left - right, "multiply": left * right}[name]
            return True
        return False

    def _called(self, statement: Statement, inputs: Sequence[HloValue], depth: int) -> list[HloValue]:
        match = re.search(r"@([\w$.-]+|\"[^\"]*\")", statement.text)
        function = self.file.functions.get(match[1].strip('"')) if match else None
        if function is None or len(function.arguments) != len(inputs):
            fail(self.file.source, f"line {statement.line}: calls a function that is not there", AGAIN)
        env = {name: value for (name, _, _), value in zip(function.arguments, inputs, strict=True)}
        return self._body(function.body, env, depth + 1)

    def _on_ranks(self, statement: Statement, env: dict[str, HloValue], depth: int) -> list[HloValue]:
        """Write down what one rank runs; it holds its share of what the program is given."""
        inner = dict(env)
        for (name, operand), kind in zip(statement.arguments, statement.shares, strict=True):
            whole = self._value(operand, env, statement)
            inner[name] = HloValue(kind, whole.number, whole.constant)
            if whole.number is not None and kind.shape != whole.type.shape:
                if self.tape.tensors[whole.number].get("role") not in ("parameter", "input"):
                    fail(self.file.source, f"line {statement.line}: {shown(operand)} is split after it was made whole")
                self.tape.tensors[whole.number]["shape"] = kind.shape
        results = self._body(statement.regions[0], inner, depth + 1)
        whole_types = statement.types[-len(results) :]
        for value, kind in zip(results, whole_types, strict=False):
            value.share = value.type.shape != kind.shape
        return results

    def _loop(self, statement: Statement, env: dict[str, HloValue], depth: int) -> list[HloValue]:
        """Write a loop out, as often as it runs."""
        names = [name for name, _ in statement.arguments]
        state = [self._value(value, env, statement) for _, value in statement.arguments]
        times = self._times(statement, dict(zip(names, state, strict=True)))
        outer, self.loops = self.tape.module, self.loops + 1
        label = f"{outer}.loop{self.loops}" if outer else f"loop{self.loops}"
        for at in range(times):
            self.tape.module = f"{label}.{at}"
            inner = env | dict(zip(names, state, strict=True))
            state = self._body(statement.regions[1], inner, depth + 1)
            if len(state) != len(names):
                fail(
                    self.file.source,
                    f"line {statement.line}: a loop hands on {len(state)} of {len(names)} values",
                    AGAIN,
                )
        self.tape.module = outer
        return state

    def _times(self, statement: Statement, begin: Mapping[str, HloValue]) -> int:
        """Return how often a loop runs: from a constant to a constant, by a constant; others are refused."""
        counter, limit = _counter(statement), _limit(statement)
        step = _step(statement, counter)
        first = begin[counter].constant if counter in begin else None
        if first is None or limit is None or not step or step < 0 or limit - first > MOST_OPS * step:
            fail(
                self.file.source,
                f"line {statement.line}: how often a loop (stablehlo.while) runs is known only with data, or it is too often",
                "Lower it with a fixed number of steps, as jax.lax.scan has.",
                code="depends-on-values",
            )
        return max(int(-((first - limit) // step)), 0)


def _all(body: Sequence[Statement]) -> Iterator[Statement]:
    """Yield statements with those of their regions."""
    for statement in body:
        yield statement
        for region in statement.regions:
            yield from _all(region)


def _group(statement: Statement) -> int:
    """Return the ranks of the groups of a collective; 1 of any other statement."""
    match = GROUPS.search(statement.text)
    return int(match[1]) if match else 1


def _counter(statement: Statement) -> str:
    """Return the value that a loop's condition compares with a constant."""
    compare = next(
        (each for each in statement.regions[0] if each.op == "stablehlo.compare" and " LT," in each.text), None
    )
    return compare.operands[0] if compare is not None and compare.operands else ""


def _limit(statement: Statement) -> float | None:
    compare = next(
        (each for each in statement.regions[0] if each.op == "stablehlo.compare" and " LT," in each.text), None
    )
    if compare is None or len(compare.operands) < 2 or len(statement.regions[0]) > 3:
        return None
    return _constant(statement.regions[0], compare.operands[1])


def _step(statement: Statement, counter: str) -> float | None:
    """Return what a loop's body adds to its counter."""
    body = statement.regions[1]
    names = [name for name, _ in statement.arguments]
    if counter not in names or not body or body[-1].op not in _RETURNS or len(body[-1].operands) != len(names):
        return None
    handed = body[-1].operands[names.index(counter)]
    added = next((each for each in body if each.result == handed and each.op == "stablehlo.add"), None)
    if added is None or added.operands[0] != counter:
        return None
    return _constant(body, added.operands[1])


def _constant(body: Sequence[Statement], name: str) -> float | None:
    made = next((each for each in body if each.result == name and each.op == "stablehlo.constant"), None)
    match = _CONSTANT.search(made.text) if made is not None else None
    return _number(match[1]) if match else None


def _number(text: str) -> float:
    if text in ("true", "false"):
        return float(text == "true")
    return float(int(text, 16)) if text.startswith("0x") else float(text)


def read_stablehlo(path: Path) -> HloFile:
    """Return the module of a text; raises `SpecError` for a file that is none, is too large, or was cut off."""
    try:
        if path.stat().st_size > LARGEST:
            fail(
                str(path),
                f"has more than {LARGEST // 2**20} MiB",
                "Leave constants out: give them to the function as arguments.",
            )
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        fail(str(path), f"is not text (byte {error.start})", AGAIN)
    except OSError as error:
        fail(str(path), f"cannot be read: {error.strerror or error}")
    functions = HloText(text, str(path)).functions()
    file = HloFile(str(path), functions, "float32")
    amounts: Counter[str] = Counter()
    for _, kind, _ in functions["main"].arguments:
        if TYPES.get(kind.element) in OWN:
            amounts[TYPES[kind.element]] += prod(kind.shape)
    return replace(file, dtype=amounts.most_common(1)[0][0]) if amounts else file
