"""Turn the arguments of a verb into a resolved scenario, and its answer into what was asked for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofsim.output import visible

if TYPE_CHECKING:
    from rich.console import Console

    from roofsim.evaluate import Evaluation
    from roofsim.spec.reading.source import Document
    from roofsim.spec.resolve import Resolved

Overrides = list[tuple[str, str, str]]


def asked_for(scenario: str | None, launch: str | None, overrides: Overrides) -> str | Document:
    """Return what is asked for: a scenario by name or file, or what a launch command says beside these flags.

    Raises
    ------
    SpecError
        Where both or none are given, and for a command that cannot be read.
    """
    from roofsim.errors import Place, Problem, SpecError

    if (scenario is None) == (launch is None):
        said = "neither is given" if scenario is None else f"both are given: {scenario} and a launch command"
        raise SpecError(Problem(f"expected a scenario, or --from-launch with a command; {said}", hint="Give one."))
    if launch is None:
        assert scenario is not None
        return scenario
    from roofsim.importers.launch.read import read_launch

    stated = [text for key, text, _ in overrides if key in ("gpus", "hardware.gpus") and text.isdecimal()]
    read = read_launch(launch, gpus=int(stated[-1]) if stated else None)
    notes = {
        "passed over, as they change neither time nor memory": read.passed_over,
        "flags of the script itself, which are not read (state what matters with --set)": read.unread,
        "note": read.notes,
    }
    for about, words in notes.items():
        if words:
            sys.stderr.write(visible(f"Note: {read.program}: {about}: {', '.join(words)}.") + "\n")
    if "model" not in read.scenario and not any(key.partition(".")[0] == "model" for key, _, _ in overrides):
        hint = "Add --set model=NAME."
        raise SpecError(Problem("the launch command names no model", Place("--from-launch"), hint=hint))
    return read.document


def document_of(scenario: str | dict[str, Any] | Document, overrides: Overrides) -> Document:
    """Return the scenario's document with the flags put in, each as YAML would read it."""
    from roofsim.errors import Place, Problem, SpecError
    from roofsim.spec.reading.source import parse_value
    from roofsim.spec.scenario.document import load_scenario, with_override

    document = load_scenario(scenario, {})
    for key, text, origin in overrides:
        shown = f"--{key.replace('_', '-')}" if origin == "flag" else f"{origin} {key}"
        if not text.strip():
            raise SpecError(Problem("expected a value; got nothing", Place(shown)))
        document = with_override(document, key, parse_value(text, shown), shown)
    return document


def resolved_of(scenario: str | dict[str, Any] | Document, overrides: Overrides) -> Resolved:
    """Resolve a scenario with flags."""
    from roofsim.api import resolve_document

    return resolve_document(document_of(scenario, overrides))


def evaluated(
    scenario: str | dict[str, Any] | Document, overrides: Overrides, *, with_curve: bool = False
) -> Evaluation:
    """Resolve and price a scenario with flags."""
    from roofsim.evaluate import evaluate

    return evaluate(resolved_of(scenario, overrides), with_curve=with_curve)


def written(scenario: str, overrides: Overrides) -> str:
    """Return a scenario and its options as the command line of ``whatif`` takes them."""
    import shlex

    flags = [
        f"--{key.replace('_', '-')} {shlex.quote(text)}"
        if origin == "flag"
        else f"--base {shlex.quote(f'{key}={text}')}"
        for key, text, origin in overrides
    ]
    return " ".join((shlex.quote(scenario), *flags))


def console() -> Console:
    """Return the console for answers."""
    from roofsim.report.console import AnswerConsole

    return AnswerConsole()


def write_text(text: str) -> None:
    """Print plain text (JSON, CSV, a listing) as it is, with what a terminal would obey written out."""
    sys.stdout.write(visible(text if text.endswith("\n") else text + "\n"))


def checked_path(path: Path | None, *suffixes: str) -> Path | None:
    """Return an output path whose folder exists and whose ending is known, before anything is computed.

    Raises
    ------
    SpecError
        Otherwise.
    """
    if path is None:
        return None
    from roofsim.errors import Problem, SpecError
    from roofsim.spec.reading.source import is_folder

    if path.suffix.lower() not in suffixes:
        raise SpecError(Problem(f"cannot write {path}: expected a file ending in {' or '.join(suffixes)}"))
    if not is_folder(path.parent):
        raise SpecError(Problem(f"cannot write {path}: no such folder {path.parent}"))
    return path


def as_rows(data: list[dict[str, Any]], *, json: bool, csv: bool) -> bool:
    """Print rows as JSON or CSV if either was asked for; tells whether it did."""
    from roofsim.report.tabular import flat, rows_to_csv, to_json

    if json:
        write_text(to_json(data))
    elif csv:
        write_text(rows_to_csv([flat(row) for row in data]))
    return json or csv
