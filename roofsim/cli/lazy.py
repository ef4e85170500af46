"""The two shapes of command: the group, which imports a verb when it is called, and a verb, whose help has sections."""

from __future__ import annotations

import importlib
import shlex
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from roofsim.cli.verbs import VERBS

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Sections of the help of a verb, in this order.
PANELS: Final = ("Model", "Workload", "Precision", "Parallelism", "Hardware", "Reliability", "Output", "Other")
#: Columns below which an option stands on a line of its own, above its description.
_NARROW: Final = 80
_FIRST_COLUMN: Final = 28


class VerbCommand(TyperCommand):
    """A verb: its options stand in sections, its examples under them, and near matches of an unknown option are named."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, one section for each kind."""
        sections: dict[str, list[tuple[str, str]]] = {name: [] for name in ("Arguments", *PANELS)}
        params: list[Any] = list(self.get_params(ctx))
        for param in params:
            argument = param.param_type_name == "argument"
            record = (_shown(param), param.help or "") if argument else param.get_help_record(ctx)
            if record is not None:
                sections[_panel(param)].append(record)
        for name, records in sections.items():
            if records:
                with formatter.section(name):
                    _write(formatter, records)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the arguments in capitals, those that may be left out in brackets."""
        arguments = [param for param in self.get_params(ctx) if param.param_type_name == "argument"]
        shown = [_shown(param) if param.required else f"[{_shown(param)}]" for param in arguments]
        return [*shown, self.options_metavar or ""]

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples as they are typed."""
        del ctx
        if self.epilog:
            _write_examples(formatter, self.epilog.splitlines())

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments.

        Raises
        ------
        UnknownNameError
            For an option that there is not.
        SpecError
            For two forms of one answer.
        """
        try:
            rest = super().parse_args(ctx, args)
        except Exception as error:
            if not hasattr(error, "possibilities"):
                if hasattr(error, "message"):
                    error.message = _plainly(error.message)
                raise
            raise _unknown_option(str(error.option_name), self, ctx) from None  # type: ignore[attr-defined]
        if ctx.params.get("json") and ctx.params.get("csv"):
            from roofsim.errors import Problem, SpecError

            raise SpecError(Problem("--json and --csv are two forms of one answer. Give one of them"))
        return rest


class PlainGroup(TyperGroup):
    """A group whose help shows the line of each command whole."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write what each command does."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self.commands[name].get_short_help_str(200)) for name in self.list_commands(ctx)]
            )


class VerbGroup(TyperGroup):
    """The verbs; each is imported when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the verbs in the order of the help."""
        return list(dict.fromkeys((*VERBS, *super().list_commands(ctx))))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a verb, imported; None where there is none."""
        if cmd_name not in self.commands and cmd_name in VERBS:
            self.commands[cmd_name] = command_of(cmd_name)
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the verb of a command line.

        Raises
        ------
        UnknownNameError
            With near matches, or with `run` where a scenario was given instead of a verb.
        """
        known = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in known:
            raise _unknown_verb(args[0], known)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a line for each verb, without importing it, and whole."""
        others = {name: self.commands[name].get_short_help_str(200) for name in super().list_commands(ctx)}
        lines = others | {name: verb.line for name, verb in VERBS.items()}
        with formatter.section("Commands"):
            formatter.write_dl([(name, lines[name]) for name in self.list_commands(ctx)])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples of the first verbs."""
        del ctx
        names = ("run", "fit", "serve")
        _write_examples(formatter, [VERBS[name].examples[0] for name in names if name in VERBS])
        with formatter.indentation():
            formatter.write_paragraph()
            formatter.write_text("`roofsim VERB --help` shows the options of a verb, with examples.")


def command_of(name: str) -> Any:
    """Import a verb and return its command."""
    verb = VERBS[name]
    module, _, function = verb.home.partition(":")
    found = getattr(importlib.import_module(module), function)
    if isinstance(found, typer.Typer):
        group: Any = typer.main.get_command(found)
        group.name = name
        return group
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    alone.command(name, cls=VerbCommand, help=verb.line, epilog="\n".join(verb.examples))(found)
    return typer.main.get_command(alone)


def _shown(param: Any) -> str:
    """Return the name of an argument in the help."""
    return f"{param.metavar or param.name.upper()}{'...' if param.nargs != 1 else ''}"


def _panel(param: Any) -> str:
    """Return the section of a parameter; options without one say what to print, all but --help."""
    if param.param_type_name == "argument":
        return "Arguments"
    return getattr(param, "rich_help_panel", None) or ("Other" if param.name == "help" else "Output")


def _write(formatter: Any, records: Sequence[tuple[str, str]]) -> None:
    if formatter.width >= _NARROW - 2:
        formatter.write_dl(records, col_max=_FIRST_COLUMN)
        return
    for option, text in records:
        formatter.write_text(option)
        with formatter.indentation(), formatter.indentation():
            formatter.write_text(text)


def _write_examples(formatter: Any, examples: Sequence[str]) -> None:
    with formatter.section("Examples"):
        for example in examples:
            for line in folded(example, formatter.width - formatter.current_indent):
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


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


def _unknown_option(name: str, command: Any, ctx: Any) -> Exception:
    """Return the refusal of an option, with those that look like it and the verbs that have it."""
    from roofsim.cli.options import WITHOUT_FLAG
    from roofsim.errors import Problem, UnknownNameError, near_matches, one_of

    flags = {flag.lstrip("-"): flag for param in command.params for flag in (*param.opts, *param.secondary_opts)}
    bare = name.lstrip("-").replace("_", "-")
    close = near_matches(bare, flags) or [flag for flag in flags if len(flag) > 2 and bare.startswith(f"{flag}-")]
    path = ctx.command_path
    elsewhere = [verb for verb in VERBS if _has(verb, f"--{bare}")]
    if elsewhere:
        hint = f"`roofsim {elsewhere[0]}` has it" + (f", as have {', '.join(elsewhere[1:])}." if elsewhere[1:] else ".")
    elif bare.replace("-", "_") in WITHOUT_FLAG:
        hint = f"A scenario has it: --set {bare.replace('-', '_')}=VALUE."
    elif close:
        hint = f"Did you mean {one_of(flags[flag] for flag in close[:3])}?"
    else:
        hint = f"`{path} --help` lists the options."
    return UnknownNameError(Problem(f"{path.removeprefix('roofsim ')} has no option {name[:80]!r}", hint=hint))


def _plainly(message: str) -> str:
    """Return what the parser says of a number in the words of other refusals.

    >>> _plainly("Input should be greater than or equal to 1")
    'expected a number at least 1'
    """
    if "valid integer" in message:
        return "expected a whole number"
    return message.replace("Input should be greater than or equal to", "expected a number at least")


def _has(verb: str, flag: str) -> bool:
    command = command_of(verb)
    return any(flag in param.opts and not param.hidden for param in getattr(command, "params", ()))


def _unknown_verb(name: str, known: Sequence[str]) -> Exception:
    from pathlib import Path

    from roofsim.errors import Problem, UnknownNameError, did_you_mean, near_matches
    from roofsim.spec import catalog
    from roofsim.spec.reading.source import is_file, is_folder

    hint = did_you_mean(name, known)
    models = {*catalog.names("model"), *catalog.aliases("model")}
    if not near_matches(name, known) and (
        is_file(Path(name)) or is_folder(Path(name)) or catalog.normal(name) in models
    ):
        hint = f"To predict it: `roofsim run {name}`."
    return UnknownNameError(Problem(f"unknown verb {name[:80]!r}", hint=hint))
