"""Read a shell script as far as launch commands need it: continuation lines, variables that are set in it, here-documents."""

from __future__ import annotations

import ast
import re
import shlex
from itertools import pairwise
from operator import add, floordiv, mod, mul, sub
from typing import TYPE_CHECKING, Final

from roofsim.errors import Place, Problem, SpecError
from roofsim.records import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ASSIGNMENT: Final = re.compile(
    r"(?:(?:export|readonly|local|declare)\s+(?:-\w+\s+)*)?([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL
)
_ARRAY: Final = re.compile(r"\s*(?:declare\s+-a\s+)?[A-Za-z_]\w*\+?=\(")
_VARIABLE: Final = re.compile(
    r"\$\(\((?P<sum>[^()]*(?:\([^()]*\)[^()]*)*)\)\)|\$\{(?P<braced>\w+)(?:\[[@*]\])?(?::?-(?P<usual>[^{}]*))?\}|\$(?P<plain>\w+)|\$[@*]"
)
_ARRAY_WORDS: Final = re.compile(r'"\$\{(\w+)\[@\]\}"')
_HERE: Final = re.compile(r"<<-?\s*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)")
_TARGET: Final = re.compile(r"(?:>|\btee\s+)\s*(?P<quote>['\"]?)(?P<name>[^\s'\"<>]+)(?P=quote)")
_OPENS: Final = frozenset({"if", "for", "while", "until", "case"})
_CLOSES: Final = frozenset({"fi", "done", "esac"})
_LEADS: Final = frozenset({"then", "do", "else", "{", "exec", "time", "nohup", "sudo", "env", "!"})
#: Options of a batch system, and the variables that it sets from them.
_BATCH: Final = {
    "--nodes": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    "-N": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    "--ntasks": ("SLURM_NTASKS",),
    "-n": ("SLURM_NTASKS",),
    "--ntasks-per-node": ("SLURM_NTASKS_PER_NODE",),
    "--gpus-per-node": ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"),
    "--gres": ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"),
}
_SUMS: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: add,
    ast.Sub: sub,
    ast.Mult: mul,
    ast.Div: floordiv,
    ast.FloorDiv: floordiv,
    ast.Mod: mod,
}
_LONGEST_SUM: Final = 200
#: Variables of variables grow: beyond this, a script is no launch script.
_LONGEST_LINE: Final = 200_000


@dataclass(frozen=True)
class ShellCommand:
    """One command of a script.

    Attributes
    ----------
    line
        Where it starts, from 1.
    words
        Its words, with the variables that the script sets; others stay as ``$NAME``.
    variables
        What the script, or the command itself, sets before it.
    batch
        Options of the batch system's comments (``#SBATCH --nodes=4``).
    """

    line: int
    words: list[str]
    variables: dict[str, str]
    batch: tuple[str, ...] = ()


@dataclass
class Script:
    """What a script holds: its commands, the files that it writes with here-documents, and the variables that it sets."""

    commands: list[ShellCommand] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)


def read_script(text: str, shown: str) -> Script:
    """Take a script (or a single command) apart.

    Raises
    ------
    SpecError
        For quotes that do not close.
    """
    script = Script()
    variables: dict[str, str] = {}
    batch: list[str] = []
    depth = 0
    lines = text.splitlines()
    for line in filter(lambda each: each.startswith("#SBATCH"), lines):
        batch += _batch_words(line, variables)
    for number, raw, document in _logical_lines(lines):
        expanded = expand(raw, variables)
        if len(expanded) > _LONGEST_LINE:
            raise SpecError(Problem("is too long once its variables are filled in", Place(shown, number)))
        target = None if document is None else _TARGET.search(expanded)
        if target is not None and document is not None:
            script.files[target["name"]] = document if _HERE.search(raw)["quote"] else expand(document, variables)  # type: ignore[index]
        assignment = _ASSIGNMENT.fullmatch(raw.strip())
        if assignment is not None and _is_value(assignment[3]):
            _assign(variables, assignment, settled=depth == 0)
            continue
        for words in _split(expanded, Place(shown, number)):
            depth += (words[0] in _OPENS) - (words[0] in _CLOSES)
            own, words = _own_variables(words)  # noqa: PLW2901
            variables |= {} if words or depth else own
            if words and words[0] not in _OPENS | _CLOSES:
                script.commands.append(ShellCommand(number, words, variables | own, tuple(batch)))
    script.variables = variables
    return script


def expand(text: str, variables: dict[str, str]) -> str:
    """Fill in variables, but not inside single quotes; what is not set stays as it is.

    >>> expand("a $B '$B' ${C:-3} $D $((2 * B))", {"B": "4"})
    "a 4 '$B' 3 $D 8"
    """
    done: list[str] = []
    at, quote = 0, ""
    while at < len(text):
        sign = text[at]
        if sign == "\\" and quote != "'":
            done.append(text[at : at + 2])
            at += 2
            continue
        array = _ARRAY_WORDS.match(text, at) if sign == '"' and not quote else None
        if array is not None and array[1] in variables:
            done.append(variables[array[1]])
            at = array.end()
            continue
        if sign in "'\"" and quote in ("", sign):
            quote = "" if quote else sign
        match = _VARIABLE.match(text, at) if sign == "$" and quote != "'" else None
        done.append(sign if match is None else _filled(match, variables))
        at = at + 1 if match is None else match.end()
    return "".join(done)


def _filled(match: re.Match[str], variables: dict[str, str]) -> str:
    if match["sum"] is not None:
        value = _sum(expand(match["sum"], variables), variables)
        return match[0] if value is None else str(value)
    name = match["braced"] or match["plain"]
    if name is None:
        return ""  # the script's own arguments: it was given none
    if name in variables:
        return variables[name]
    return match[0] if match["usual"] is None else expand(match["usual"], variables)


def _sum(text: str, variables: dict[str, str]) -> int | None:
    """Return the value of a sum of whole numbers, None where it is anything else."""
    text = re.sub(r"[A-Za-z_]\w*", lambda match: variables.get(match[0], match[0]), text)
    if len(text) > _LONGEST_SUM or re.fullmatch(r"[\d\s()+*/%-]+", text) is None:
        return None
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError):
        return None


def _value(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _SUMS:
        return int(_SUMS[type(node.op)](_value(node.left), _value(node.right)))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    raise ValueError("no sum of whole numbers")


def _batch_words(line: str, variables: dict[str, str]) -> list[str]:
    words = [part for word in line.split()[1:] for part in (word.split("=", 1) if word.startswith("--") else [word])]
    for name, value in pairwise(words):
        number = re.search(r"(\d+)$", value)
        if name in _BATCH and number is not None:
            variables.update(dict.fromkeys(_BATCH[name], number[1]))
    return words


def _logical_lines(lines: list[str]) -> Iterator[tuple[int, str, str | None]]:
    """Yield lines with what continues them: number, text, and the here-document behind them."""
    at = 0
    while at < len(lines):
        number, text, state = at + 1, "", ""
        while at < len(lines):
            line, state = _without_comment(lines[at], state)
            at += 1
            text += line
            if not state and len(line) - len(line.rstrip("\\")) & 1:
                text = text[:-1] + " "
            elif state:
                text += "\n"
            elif _ARRAY.match(text) and not (text.rstrip().endswith(")") and text.count("(") == text.count(")")):
                text += " "
            else:
                break
        here = _HERE.search(text)
        if here is None:
            yield number, text, None
            continue
        body = []
        while at < len(lines) and lines[at].strip() != here["end"]:
            body.append(lines[at])
            at += 1
        at += 1
        yield number, text, "\n".join(body) + "\n"


def _without_comment(line: str, quote: str) -> tuple[str, str]:
    """Return a line without its comment, and the quote that is open at its end."""
    before = " "
    escaped = False
    for at, sign in enumerate(line):
        if escaped:
            escaped = False
        elif sign == "\\" and quote != "'":
            escaped = True
        elif sign in "'\"" and quote in ("", sign):
            quote = "" if quote else sign
        elif sign == "#" and not quote and before.isspace():
            return line[:at], quote
        before = sign
    return line, quote


def _is_value(text: str) -> bool:
    """Tell whether text is one value: a word, a quoted text, an array; and no command follows."""
    if text.startswith("("):
        return text.rstrip().endswith(")")
    try:
        return len(shlex.split(text)) <= 1 and not re.search(
            r"[;&|]", re.sub(r"'[^']*'|\"[^\"]*\"|\$\([^)]*\)", "", text)
        )
    except ValueError:
        return False


def _assign(variables: dict[str, str], assignment: re.Match[str], *, settled: bool) -> None:
    """Keep what a variable is set to; one that is set in a branch may be anything."""
    name, more, value = assignment.groups()
    if not settled:
        variables.pop(name, None)
        return
    value = expand(value, variables).strip()
    if value.startswith("("):
        value = value[1:-1].strip()
    elif "`" in value or "$(" in value:
        variables.pop(name, None)
        return
    elif len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    value = value.replace("\\\n", " ").replace("\n", " ")
    variables[name] = f"{variables.get(name, '')} {value}".strip() if more else value


def _split(text: str, place: Place) -> Iterator[list[str]]:
    """Yield the commands of a line, without what is redirected."""
    lexer = shlex.shlex(re.sub(r"(?<=\s)\d(?=>)", "", text), posix=True, punctuation_chars=";&|<>")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        tokens = list(lexer)
    except ValueError as error:
        raise SpecError(Problem(f"expected a command line: {error}", place)) from None
    words: list[str] = []
    redirected = False
    for token in tokens:
        if redirected:
            redirected = False
        elif token and not set(token) - set("<>&") and set(token) & set("<>"):
            redirected = True
        elif token and not set(token) - set(";&|"):
            if words:
                yield words
            words = []
        else:
            words.append(token)
    if words:
        yield words


def _own_variables(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return the variables that stand before a command, and the command."""
    own: dict[str, str] = {}
    for at, word in enumerate(words):
        match = re.fullmatch(r"([A-Za-z_]\w*)=(.*)", word, re.DOTALL)
        if match is not None:
            own[match[1]] = match[2]
        elif word not in _LEADS and word != "export":
            return own, words[at:]
    return own, []
