"""The parser behind the command line: the group, which imports a verb when it is called, and the verbs, as `typer` knows them."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from roofsim.cli.page import ABOUT, VERSION_HELP, WIDEST, group_page, root_page, verb_page
from roofsim.cli.verbs import VERBS, Verb
from roofsim.cli.words import VerbParameter, parameters_of, target_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class VerbCommand(TyperCommand):
    """A verb: its help is a page of ours, and near matches of an unknown option are named."""

    verb: Verb
    parameters: Sequence[VerbParameter] = ()

    def get_help(self, ctx: Any) -> str:
        """Return the page of help."""
        return verb_page(ctx.command_path, self.verb.line, self.parameters, self.verb.examples)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the arguments in capitals, those that may be left out in brackets."""
        arguments = [param for param in self.get_params(ctx) if param.param_type_name == "argument"]
        shown = [_shown(param) if param.required else f"[{_shown(param)}]" for param in arguments]
        return [*shown, self.options_metavar or ""]

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
    """A group of verbs below a verb."""

    def get_help(self, ctx: Any) -> str:
        """Return the page of help."""
        lines = [(name, command.get_short_help_str(200)) for name, command in self.commands.items()]
        return group_page(ctx.command_path, self.help or "", lines)


class VerbGroup(TyperGroup):
    """The verbs; each is imported when it is called."""

    def get_help(self, ctx: Any) -> str:
        """Return the page of help."""
        del ctx
        return root_page()

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


app = typer.Typer(
    name="roofsim",
    cls=VerbGroup,
    help=ABOUT,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST},
    options_metavar="[OPTIONS]",
    subcommand_metavar="COMMAND ...",
)


def _version(wanted: bool) -> None:
    if wanted:
        from roofsim import __version__

        typer.echo(f"roofsim {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help=VERSION_HELP)] = False,
) -> None:
    del version


def command_of(name: str) -> Any:
    """Import a verb and return its command, or its group of commands."""
    verb = VERBS[name]
    target = target_of(verb)
    if not isinstance(target, dict):
        return _command(name, verb, target)
    group = typer.Typer(
        cls=PlainGroup, help=verb.line, no_args_is_help=True, rich_markup_mode=None, add_completion=False
    )
    group.callback()(_nothing)
    made: Any = typer.main.get_command(group)
    made.name = name
    made.commands.update({sub: _command(sub, each, target_of(each)) for sub, each in target.items()})
    return made


def _nothing() -> None:
    pass


def _command(name: str, verb: Verb, function: Callable[..., Any]) -> Any:
    parameters = parameters_of(function)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    alone.command(name, cls=VerbCommand, help=verb.line)(_for_typer(function, parameters))
    command: Any = typer.main.get_command(alone)
    command.verb, command.parameters = verb, parameters
    return command


def _for_typer(function: Callable[..., Any], parameters: Sequence[VerbParameter]) -> Callable[..., Any]:
    """Return a function whose signature says to `typer` what the parameters declare."""

    def called(**given: Any) -> Any:
        return function(**given)

    shown = [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if each.required else each.default,
            annotation=Annotated[list[str] | None if each.many else each.type, _word(each)],
        )
        for each in parameters
    ]
    called.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in shown}
    called.__wrapped__ = function  # type: ignore[attr-defined]
    return called


def _word(parameter: VerbParameter) -> Any:
    declared = parameter.declared
    shared: dict[str, Any] = {
        "metavar": declared.metavar,
        "help": declared.help,
        "autocompletion": declared.complete,
        "hidden": declared.hidden,
        "min": declared.minimum,
        "show_default": False,
    }
    if not declared.flags:
        return typer.Argument(**shared)
    return typer.Option(*declared.flags, **shared)


def _shown(param: Any) -> str:
    """Return the name of an argument in a usage line."""
    return f"{param.metavar or param.name.upper()}{'...' if param.nargs != 1 else ''}"


def _unknown_option(name: str, command: Any, ctx: Any) -> Exception:
    """Return the refusal of an option, with those that look like it and the verbs that have it."""
    from roofsim.cli.options import WITHOUT_FLAG
    from roofsim.errors import Problem, UnknownNameError, near_matches, one_of

    flags = {flag.lstrip("-"): flag for param in command.params for flag in (*param.opts, *param.secondary_opts)}
    bare = name.lstrip("-").replace("_", "-")
    begins = [flag for flag in flags if len(flag) > 2 and bare.startswith(f"{flag}-")]
    near = near_matches(bare, flags)
    close = begins if begins and not any(flag.startswith(f"{begins[0]}-") for flag in near) else near
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
    """Return what the parser, of whatever version, says of a number in the words of other refusals.

    >>> _plainly("Input should be greater than or equal to 1")
    'expected a number at least 1'
    >>> _plainly("0 is not in the range x>=1.")
    'expected a number at least 1'
    >>> _plainly("'x' is not a valid int range.")
    'expected a whole number'
    """
    if "valid int" in message:
        return "expected a whole number"
    least = re.search(r"(?:greater than or equal to |is not in the range x>=)(-?\d+)", message)
    return f"expected a number at least {least[1]}" if least else message


def _has(verb: str, flag: str) -> bool:
    target = target_of(VERBS[verb])
    if isinstance(target, dict):
        return False
    return any(flag in each.flags and not each.declared.hidden for each in parameters_of(target))


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
