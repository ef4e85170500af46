"""Give verbs the options of a scenario. Names, help, choices and defaults are those of the schema, which is read once here."""

from __future__ import annotations

import functools
import sys
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, overload

from roofsim.cli import complete
from roofsim.cli.program_options import PROGRAM, is_number, program_options, program_settings
from roofsim.cli.words import Declared, Option, VerbParameter
from roofsim.schema.fields import alternatives, choices_of
from roofsim.spec.reading.quantity import Duration
from roofsim.spec.reading.spoken import SHORT
from roofsim.spec.scenario.document import SECTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from roofsim.schema.base import FieldInfo

    Verb = Callable[..., int | None]

#: Keys that only ``--set`` reaches: mappings of many keys, and what only plug-ins have.
WITHOUT_FLAG: Final = ("engine_facts", "override", "passes")

#: Keys of a server, which `serve` alone takes; other verbs say so.
SERVING: Final = ("concurrency", "request_rate", "serving")
#: Keys of what surrounds the steps of a long run.
LONG_RUNS: Final = ("checkpoint", "mtbf", "mtbf_per_gpu", "restart")
#: Keys that a server has no use for.
NOT_SERVED: Final = (
    *LONG_RUNS, "global_batch_size", "packed_length", "target_length", "optimizer",
    "adapter", "recompute", "dropout", "input", "virtual_stages", "schedule", "account_for_embedding",
    "account_for_loss", "context", "context_communication", "context_heads", "expert_capacity", "sequence", "sharding", "jitter",
)  # fmt: skip

#: Keys that a server refuses with a word on what it takes instead.
REFUSED_BY_SERVERS: Final = ("phase", "micro_batch_size", "batch_size", "context_length")

#: Sections of the help, where they are not those of the schema.
_PANELS: Final = {
    "Model": ("adapter", "dropout"),
    "Precision": ("precision",),
    "Reliability": (*LONG_RUNS, "jitter"),
}
_PANEL_OF_SECTION: Final = {"workload": "Workload", "parallel": "Parallelism", "hardware": "Hardware"}

_METAVARS: Final[tuple[tuple[type, str], ...]] = ((bool, "true|false"), (int, "N"), (float, "X"), (str, "NAME"))


def scenario_fields() -> Iterator[tuple[str, str, FieldInfo]]:
    """Yield section, key and field of everything that a flag sets."""
    for section, schema in SECTIONS.items():
        for key, field in schema.model_fields.items():
            if key not in WITHOUT_FLAG:
                yield section, key, field


def flags_of(key: str) -> list[str]:
    """Return the flags of a key: its name, and its short names.

    >>> flags_of("sequence_length")
    ['--sequence-length', '--seq-len']
    """
    names = [key, *(short for short, long in SHORT.items() if long == key)]
    return [f"--{name.replace('_', '-')}" for name in names]


def help_of(field: FieldInfo, default: str | None = None) -> str:
    """Return the help of a field: its description, its choices, its default (or that of a verb)."""
    described, _, own = (field.description or "").partition("Default:")
    words = choices_of(field)
    if isinstance(field.default, str | int | float):
        own = str(field.default).lower() if isinstance(field.default, bool) else str(field.default).removesuffix(".0")
    own = default or own.strip().rstrip(".")
    parts = [described.rstrip()]
    parts += [f"One of: {', '.join(words)}."] if words else []
    parts += [f"[default: {own}]"] if own else []
    return " ".join(parts)


def _metavar(field: FieldInfo) -> str:
    if choices_of(field):
        return "NAME"
    kinds = alternatives(field.annotation)
    if Duration in typing.get_args(field.annotation):
        return "TIME"
    return next((shown for kind, shown in _METAVARS if kind in kinds), "{...}")


@overload
def scenario_options(verb: Verb) -> Verb: ...


@overload
def scenario_options(
    *,
    leave_out: tuple[str, ...] = ...,
    refused: tuple[str, ...] = ...,
    defaults: dict[str, str] | None = ...,
    settings: bool = ...,
    prices: bool = ...,
    job: bool = ...,
) -> Callable[[Verb], Verb]: ...


def scenario_options(
    verb: Verb | None = None,
    *,
    leave_out: tuple[str, ...] = (),
    refused: tuple[str, ...] = SERVING,
    defaults: dict[str, str] | None = None,
    settings: bool = True,
    prices: bool = True,
    job: bool = False,
) -> Any:
    """Add the scenario options to a verb, but those left out; it receives them as `overrides`, in the order of the schema.

    Those `refused` are not in the help; the verb says why it has no use for them. `defaults` are those that a verb has of
    its own. Without `settings`, ``--set`` is the verb's own; without `prices`, the verb shows no cost. With `job` it is also told
    how much work there is (``--tokens``, ``--samples``), as `job`.
    """
    if verb is None:
        own_words: dict[str, Any] = {"leave_out": leave_out, "refused": refused, "defaults": defaults}
        own_words |= {"settings": settings, "prices": prices, "job": job}
        return functools.partial(scenario_options, **own_words)
    own = {name for name in verb.__annotations__ if name != "overrides"}
    taken = {*leave_out, *own}

    def more_parameters() -> list[VerbParameter]:
        shared: list[VerbParameter] = [
            _KeyParameter(section, key, field, hidden=key in refused, stated=(defaults or {}).get(key))
            for section, key, field in scenario_fields()
            if key not in taken
        ]
        if prices:
            shared += [each for each in _prices() if each.name not in own]
        shared += job_options() if job else []
        shared += program_options(own)
        return [*shared, _settings()] if settings else shared

    def own_arguments(given: dict[str, Any]) -> tuple[dict[str, Any], list[str], Path | None]:
        """Return what the verb itself takes of what was given, the prices that were named, and the file of prices."""
        stated = [] if "price" in own else given.pop("price", None) or []
        file = given.pop("price_file", None)
        if job:
            given["job"] = {name: given.pop(name, None) for name in JOB}
        names = [name for name in given if name not in own and name not in ("settings", "job", *PROGRAM)]
        values = {name: given.pop(name) for name in names}
        chosen = [(name, value, "flag") for name, value in values.items() if value is not None]
        chosen += [setting(text) for text in given.pop("settings", None) or []]
        chosen += program_settings(given, own)
        chosen += [("price.hourly", f"{text} USD/h", "--price") for text in stated if is_number(text)]
        return {**given, "overrides": chosen}, [text for text in stated if not is_number(text)], file

    @functools.wraps(verb)
    def wrapped(**given: Any) -> Any:
        arguments, named, file = own_arguments(given)
        if not named and file is None:
            return verb(**arguments)
        return _with_prices(named, file, lambda: verb(**arguments))

    wrapped.own_arguments = own_arguments  # type: ignore[attr-defined]
    wrapped.more_parameters = more_parameters  # type: ignore[attr-defined]
    return wrapped


class _KeyParameter(VerbParameter):
    """An option that sets a key of the scenario; what the help says of it is worked out when somebody asks."""

    def __init__(self, section: str, key: str, field: FieldInfo, *, hidden: bool, stated: str | None) -> None:
        self.name, self.section, self.field, self.hidden, self.stated = key, section, field, hidden, stated
        self.type, self.kind, self.many, self.required, self.default = str | None, "text", False, False, None

    @property
    def flags(self) -> tuple[str, ...]:
        """Its names on the command line."""
        return tuple(flags_of(self.name))

    @functools.cached_property
    def declared(self) -> Declared:  # type: ignore[override]
        """What the schema says of the key, in the words of an option."""
        panel = next((panel for panel, keys in _PANELS.items() if self.name in keys), _PANEL_OF_SECTION[self.section])
        return Declared(
            self.flags,
            help_of(self.field, self.stated),
            _metavar(self.field),
            panel=panel,
            complete=_completer(self.name, self.field),
            hidden=self.hidden,
        )


def _completer(key: str, field: FieldInfo) -> Callable[[str], list[str]] | None:
    if key in complete.CATALOGS:
        return complete.catalog_names(complete.CATALOGS[key])
    words = choices_of(field)
    return complete.choices(words) if words else None


def _settings() -> VerbParameter:
    declared = Option(
        "--set",
        metavar="KEY=VALUE",
        panel="Other",
        help="Set any key of the scenario, for example hardware.override.gpu.memory.bandwidth='3 TB/s'. May be repeated.",
    )
    return VerbParameter("settings", list[str], declared, None, required=False)


#: What says how much work there is, and what it costs to run it.
JOB: Final = {
    "tokens": ("N", "Say what so many tokens take: days, dollars, kWh, CO2: 15T."),
    "samples": ("N", "The same for samples (images, sequences): 1.2M; of one epoch where --epochs says how many."),
    "epochs": ("N", "How often --samples are gone through."),
    "eval_samples": ("N", "Samples of an evaluation."),
    "eval_every": ("STEPS", "Steps between two evaluations."),
    "pue": ("X", "Power of the data centre over that of its machines."),
    "carbon": ("G", "Grams of CO2 of a kWh."),
}


def job_options() -> list[VerbParameter]:
    """Return the options that say how much work there is."""
    return [
        VerbParameter(
            name,
            str | None,
            Option(f"--{name.replace('_', '-')}", metavar=metavar, panel="Money", help=about),
            None,
            required=False,
        )
        for name, (metavar, about) in JOB.items()
    ]


def _prices() -> list[VerbParameter]:
    price = Option(
        "--price",
        metavar="[CARD=]USD",
        panel="Money",
        help="What you pay per hour for one card: 2.50, or of any card or system: h100=2.50. May be repeated.",
    )
    file = Option(
        "--price-file",
        metavar="FILE.yaml",
        panel="Money",
        help="Prices of a file: lines 'h100: 2.50' in dollars per hour, or pages as in hardware/prices.yaml.",
    )
    return [
        VerbParameter("price", list[str], price, None, required=False),
        VerbParameter("price_file", Path | None, file, None, required=False),
    ]


def _with_prices(named: list[str], file: Path | None, answered: Callable[[], Any]) -> Any:
    """Answer with the user's prices, and say which of ``--price`` concern no card of the answer."""
    from roofsim.spec.own_prices import stated_prices
    from roofsim.spec.prices import put_first

    stated, own = stated_prices(named), stated_prices(named, file)
    with put_first(own) as asked:
        answer = answered()
    unused = [name for name in stated if name not in asked]
    if unused:
        sys.stderr.write(f"Note: --price {', '.join(unused)}: not in this answer.\n")
    return answer


def setting(text: str, flag: str = "--set") -> tuple[str, str, str]:
    """Return the key, the text of the value and the flag of a setting ``KEY=VALUE``.

    Raises
    ------
    BadParameter
        For a text without a key or a value.
    """
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        import typer

        raise typer.BadParameter(
            f"expected SECTION.KEY=VALUE, for example workload.micro_batch_size=8; got {text!r}", param_hint=flag
        )
    return key.strip(), value, flag
