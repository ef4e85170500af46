"""Take StableHLO text apart: functions, statements with operands, types and regions. One statement stands on a line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from roofsim.importers.exported.tape import fail
from roofsim.records import dataclass, field

if TYPE_CHECKING:
    from typing import NoReturn

#: Lines of a text, and characters of one; long constants are hidden by the longest that is looked at.
MOST_LINES: Final = 500_000
_LONGEST_LINE: Final = 20_000
#: What each rank of a mesh runs of a program, with the collectives among them (jax.shard_map).
MANUAL: Final = "sdy.manual_computation"
#: Regions in regions.
_DEEPEST: Final = 50
_NAME: Final = r"%[\w$.-]+(?:#\d+)?"
_RESULT: Final = re.compile(r"^(%[\w$.-]+)(?::(\d+))? = (.*)$")
_TENSOR: Final = re.compile(r"tensor<([^<>]*(?:<[^<>]*>)?[^<>]*)>")
_FUNCTION: Final = re.compile(r"^func\.func (?:public |private )?@(?P<name>[\w$.-]+|\"[^\"]*\")\((?P<rest>.*)\{$")
_ARGUMENT: Final = re.compile(r"(%[\w$.-]+): tensor<([^<>]*(?:<[^<>]*>)?[^<>]*)>(?:[^%]*?loc\(\"([^\"]*)\"\))?")
_OP: Final = re.compile(r"^\"?(?P<op>[A-Za-z_][\w.]*)\"?(?: |\(|$)")
_LOCATION: Final = re.compile(r" loc\((?:#loc\d*|\"[^\"]*\"(?:\([^()]*\))?|unknown|callsite\(.*\))\)")


@dataclass(frozen=True)
class TensorType:
    """Sizes and element type of a tensor."""

    shape: tuple[int, ...]
    element: str


@dataclass
class Statement:
    """One op: the name of its result and how many it has, operands, the types of its results, its text and regions."""

    result: str
    count: int
    op: str
    operands: list[str]
    types: list[TensorType]
    inputs: list[TensorType]
    text: str
    line: int
    regions: list[list[Statement]] = field(default_factory=list)
    arguments: list[tuple[str, str]] = field(default_factory=list)
    shares: list[TensorType] = field(default_factory=list)


@dataclass
class Function:
    """A function: its arguments (name, type, and where it was said, the name in the program), and its statements."""

    name: str
    arguments: list[tuple[str, TensorType, str]]
    body: list[Statement]


class HloText:
    """A text while it is read."""

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self.lines = text.split("\n")
        self.at = 0
        if len(self.lines) > MOST_LINES:
            fail(source, f"has {len(self.lines):,} lines; at most {MOST_LINES:,} are read")
        self.named = dict(re.findall(r"^(#loc\d+) = loc\(\"([^\"]*)\"\)", text[: 2**22], re.MULTILINE))

    def functions(self) -> dict[str, Function]:
        """Return all functions by name; raises `SpecError` for a text that is none, or that was cut off."""
        functions: dict[str, Function] = {}
        while self.at < len(self.lines):
            raw = self.lines[self.at]
            line = raw.strip()
            if line.startswith("func.func"):
                function = self._function(line)
                functions[function.name] = function
            else:
                self.at += 1
        if "main" not in functions:
            fail(self.source, "is no StableHLO text, or was cut off: it has no function @main", AGAIN)
        return functions

    def _function(self, line: str) -> Function:
        for name, path in self.named.items():
            line = line.replace(f"loc({name})", f'loc("{path}")')
        match = _FUNCTION.match(re.sub(r"\s*(attributes \{.*\} )?\{$", " {", line))
        if match is None:
            self._fail("is no function that is read")
        header = match["rest"].partition(") ->")[0]
        arguments = [(name, self._type(text), said or "") for name, text, said in _ARGUMENT.findall(header)]
        self.at += 1
        return Function(match["name"].strip('"'), arguments, self._block(0))

    def _block(self, depth: int) -> list[Statement]:
        """Return the statements up to the brace that closes them, which is passed."""
        if depth > _DEEPEST:
            self._fail(f"regions are nested more than {_DEEPEST} deep")
        body: list[Statement] = []
        while self.at < len(self.lines):
            line = _LOCATION.sub("", self.lines[self.at][:_LONGEST_LINE]).strip()
            if line.startswith("}"):
                break
            self.at += 1
            if line and not line.startswith(("^", "//", "#")):
                body.append(self._statement(line, depth))
        else:
            fail(self.source, "was cut off: a function has no end", AGAIN)
        return body

    def _statement(self, line: str, depth: int) -> Statement:
        number, match = self.at, _RESULT.match(line)
        result, count, rest = (match[1], int(match[2] or 1), match[3]) if match else ("", 0, line)
        named = _OP.match(rest)
        if named is None:
            self._fail(f"{line[:80]!r} is no statement")
        regions: list[list[Statement]] = []
        arguments: list[tuple[str, str]] = []
        shares: list[TensorType] = []
        if rest.endswith("({"):
            rest = rest[:-2] + self._regions(regions, depth)
        elif named["op"] == MANUAL and rest.endswith("{"):
            rest, arguments, shares = self._manual(rest, regions, depth)
        elif named["op"] == "stablehlo.while":
            arguments = re.findall(rf"(%[\w$.-]+) = ({_NAME})", rest)
            self._loop(regions, depth)
        elif self.at < len(self.lines) and self.lines[self.at].lstrip().startswith("reducer("):
            self.at += 1
            regions.append(self._block(depth + 1))
            self.at += 1
        head, signature = _parted(rest)
        given, made = self._types(signature)
        operands = re.findall(_NAME, re.sub(r"\{[^{}]*\}|\"[^\"]*\"", "", head))
        operands = [value for _, value in arguments] if arguments else operands
        return Statement(result, count, named["op"], operands, made, given, rest, number, regions, arguments, shares)

    def _regions(self, regions: list[list[Statement]], depth: int) -> str:
        """Read regions in braces; return what stands behind them."""
        while True:
            regions.append(self._block(depth + 1))
            self._more()
            line = _LOCATION.sub("", self.lines[self.at]).strip()
            self.at += 1
            if not line.endswith("{"):
                return line.removeprefix("})")

    def _manual(
        self, rest: str, regions: list[list[Statement]], depth: int
    ) -> tuple[str, list[tuple[str, str]], list[TensorType]]:
        """Read what each rank runs of a computation over a mesh; return the statement, its operands by name, and their shares."""
        head, _, inner = rest.removesuffix("{").rpartition("} (")
        operands = re.findall(_NAME, head.partition(")")[0])
        given = _ARGUMENT.findall(inner)
        if len(given) != len(operands):
            self._fail(f"{MANUAL} has {len(operands)} operands, and names {len(given)} shares of them")
        regions.append(self._block(depth + 1))
        self._more()
        closing = _LOCATION.sub("", self.lines[self.at]).strip().removeprefix("}")
        self.at += 1
        arguments = [(name, operand) for (name, _, _), operand in zip(given, operands, strict=True)]
        return f"{head}}}{closing}", arguments, [self._type(text) for _, text, _ in given]

    def _loop(self, regions: list[list[Statement]], depth: int) -> None:
        """Read the condition and the body of a loop."""
        self._more()
        if not self.lines[self.at].strip().startswith("cond"):
            self._fail("a loop has no condition")
        self.at += 1
        regions.append(self._block(depth + 1))
        self.at += 1
        regions.append(self._block(depth + 1))
        self.at += 1

    def _more(self) -> None:
        if self.at >= len(self.lines):
            fail(self.source, "was cut off: a function has no end", AGAIN)

    def _types(self, signature: str) -> tuple[list[TensorType], list[TensorType]]:
        """Return the types that a statement reads and makes; where one list stands for both, it is that of results."""
        before, arrow, after = signature.rpartition("->")
        made = [self._type(text) for text in _TENSOR.findall(after)]
        return ([self._type(text) for text in _TENSOR.findall(before)] if arrow else made), made

    def _type(self, text: str) -> TensorType:
        parts = text.partition(",")[0].strip().split("x")
        sizes: list[int] = []
        while parts and (parts[0].isdecimal() or parts[0] == "?"):
            if parts[0] == "?" or len(parts[0]) > 15:
                self._fail("has sizes that are open: lower it for one shape (jax.jit(f).lower(*arrays))")
            sizes.append(int(parts.pop(0)))
        return TensorType(tuple(sizes), "x".join(parts))

    def _fail(self, message: str) -> NoReturn:
        fail(self.source, f"line {self.at}: {message}", AGAIN)


def _parted(text: str) -> tuple[str, str]:
    """Return what stands before the types of a statement, and the types."""
    head, colon, signature = text.rpartition(" : ")
    if not colon:
        return text, ""
    depth = signature.count(")") - signature.count("(")
    while depth > 0 and " : " in head:
        head, _, more = head.rpartition(" : ")
        signature = f"{more} : {signature}"
        depth = signature.count(")") - signature.count("(")
    return head, signature


#: The way out of a damaged text.
AGAIN: Final = "Write it again: jax.jit(f).lower(...).as_text()."
