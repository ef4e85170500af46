r"""Write the pages of help: of the command line, of a group of verbs and of a verb, as wide as the terminal, at most 100 columns.

Pages are text and need no parser: they are made of the declarations in `roofsim.cli.words` and of the table of verbs.
"""

from __future__ import annotations

import shlex
from shutil import get_terminal_size
from textwrap import TextWrapper
from typing import TYPE_CHECKING, Final

from roofsim.cli.verbs import VERBS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from roofsim.cli.words import VerbParameter

#: Sections of the help of a verb, in this order.
PANELS: Final = (
    "Target",
    "Filters",
    "Measurement",
    "Changes",
    "Axes",
    "Work",
    "Model",
    "Workload",
    "Precision",
    "Parallelism",
    "Hardware",
    "Money",
    "Reliability",
    "Output",
    "Other",
)
ABOUT: Final = "Predict step time, memory and limits of a neural network on given hardware, without a GPU."
VERSION_HELP: Final = "Print the version and exit."
_HELP: Final = ("-h, --help", "Show this message and exit.")
_OPTIONS: Final = (
    ("--version", VERSION_HELP),
    ("--install-completion", "Install completion for the current shell."),
    ("--show-completion", "Show completion for the current shell, to copy it or customize the installation."),
    _HELP,
)
WIDEST: Final = 100
_NARROWEST: Final = 50
#: Columns below which an option stands on a line of its own, above its description.
_NARROW: Final = 80
_FIRST_COLUMN: Final = 28


class Page:
    """Lines of help, in sections."""

    def __init__(self) -> None:
        self.width = max(min(get_terminal_size().columns, WIDEST) - 2, _NARROWEST)
        self.lines: list[str] = []

    def usage(self, command: str, rest: str) -> None:
        """Write how a command is written."""
        start = f"Usage: {command} "
        self.lines += _wrapped(rest, self.width, start, " " * len(start))

    def text(self, text: str, indent: int = 2) -> None:
        """Write a paragraph."""
        self.lines += _wrapped(text, self.width, " " * indent, " " * indent)

    def section(self, name: str) -> None:
        """Begin a section."""
        self.lines += ["", f"{name}:"]

    def pairs(self, rows: Iterable[tuple[str, str]], widest: int = 30) -> None:
        """Write names and what they mean, in two columns."""
        rows = list(rows)
        column = min(max(len(name) for name, _ in rows), widest) + 2
        for name, meaning in rows:
            lines = _wrapped(meaning, max(self.width - column - 2, 10))
            first = f"  {name}"
            if len(name) <= column - 2 and lines:
                first += " " * (column - len(name)) + lines.pop(0)
            self.lines += [first, *(" " * (column + 2) + line for line in lines)]

    def options(self, rows: Sequence[tuple[str, str]]) -> None:
        """Write options and what they mean, in two columns where there is room."""
        if self.width >= _NARROW - 2:
            self.pairs(rows, _FIRST_COLUMN)
            return
        for option, meaning in rows:
            self.text(option)
            self.text(meaning, 6)

    def examples(self, commands: Iterable[str]) -> None:
        """Write commands as they are typed."""
        self.section("Examples")
        self.lines += [f"  {line}" for command in commands for line in folded(command, self.width - 2)]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def _wrapped(text: str, width: int, first: str = "", others: str = "") -> list[str]:
    return TextWrapper(width, initial_indent=first, subsequent_indent=others, replace_whitespace=False).wrap(text)


def root_page() -> str:
    """Return the help of the command line: its verbs."""
    page = Page()
    page.usage("roofsim", "[OPTIONS] COMMAND ...")
    page.lines.append("")
    page.text(ABOUT)
    page.section("Options")
    page.pairs(_OPTIONS)
    page.section("Commands")
    page.pairs((name, verb.line) for name, verb in VERBS.items())
    page.examples(VERBS[name].examples[0] for name in ("run", "fit", "serve"))
    page.lines.append("")
    page.text("`roofsim VERB --help` shows the options of a verb, with examples.")
    return str(page)


def group_page(path: str, about: str, lines: Iterable[tuple[str, str]]) -> str:
    """Return the help of a group of verbs."""
    page = Page()
    page.usage(path, "[OPTIONS] COMMAND [ARGS]...")
    page.lines.append("")
    page.text(about)
    page.section("Options")
    page.pairs([_HELP])
    page.section("Commands")
    page.pairs(lines)
    return str(page)


def verb_page(path: str, about: str, parameters: Sequence[VerbParameter], examples: Sequence[str]) -> str:
    """Return the help of a verb: its arguments, its options in sections, and examples."""
    page = Page()
    arguments = [parameter for parameter in parameters if not parameter.flags]
    shown = [_shown(each) if each.required else f"[{_shown(each)}]" for each in arguments]
    page.usage(path, " ".join((*shown, "[OPTIONS]")))
    page.lines.append("")
    page.text(about)
    sections: dict[str, list[tuple[str, str]]] = {name: [] for name in ("Arguments", *PANELS)}
    for parameter in parameters:
        if not parameter.flags:
            sections["Arguments"].append((_shown(parameter), parameter.declared.help))
        elif not parameter.declared.hidden:
            sections[parameter.declared.panel or "Output"].append(_record(parameter))
    sections["Other"].append(_HELP)
    for name, rows in sections.items():
        if rows:
            page.section(name)
            page.options(rows)
    if examples:
        page.examples(examples)
    return str(page)


def _shown(argument: VerbParameter) -> str:
    """Return the name of an argument in the help."""
    return f"{argument.declared.metavar or argument.name.upper()}{'...' if argument.many else ''}"


def _record(option: VerbParameter) -> tuple[str, str]:
    """Return the names of an option with what stands for its value, and what it means."""
    declared = option.declared
    names = ", ".join(option.flags)
    extra = []
    if declared.show_default and option.default is not None and option.default is not False:
        extra.append(f"default: {option.default}")
    if declared.minimum is not None:
        extra.append(f"x>={declared.minimum}")
    meaning = f"{declared.help}  [{'; '.join(extra)}]" if extra else declared.help
    return (names if option.kind == "flag" else f"{names} {declared.metavar}"), meaning


def folded(command: str, width: int) -> list[str]:
    r"""Return a command on as few lines as fit a width, each but the last ending in a backslash.

    >>> folded("roofsim run gpt.yaml --gpu a100 --gpus 8", 28)
    ['roofsim run gpt.yaml \\', '    --gpu a100 --gpus 8']
    """
    pieces: list[str] = []
    for word in shlex.split(command, posix=False):  # an option stays beside its value
        if pieces and not word.startswith("-") and pieces[-1].startswith("-") and " " not in pieces[-1]:
            pieces[-1] += f" {word}"
        else:
            pieces.append(word)
    lines = [pieces[0]]
    for piece in pieces[1:]:
        if len(lines[-1]) + len(piece) + 3 <= width:
            lines[-1] += f" {piece}"
        else:
            lines[-1] += " \\"
            lines.append(f"    {piece}")
    return lines
