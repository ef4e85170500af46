"""The command line: ``evidence list | score | fit | page | record | measured | seal | ablate``."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import roofsim
from roofsim.errors import NoDataError, OutputError, SpecError
from roofsim.output import visible
from roofsim_evidence.subjects import ORDER, SUBJECTS, VERBS, call, subject

if TYPE_CHECKING:
    from roofsim_evidence.pages import DocsPage

app = typer.Typer(
    name="evidence",
    help="Published measurements, and what they say of roofsim: fits, scores, pages, ablations. `evidence list` shows subjects.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

Name = Annotated[str, typer.Argument(metavar="SUBJECT", show_default=False, help="One of `evidence list`.")]
Names = Annotated[
    list[str] | None, typer.Argument(metavar="SUBJECT", show_default=False, help="Some of `evidence list`.")
]
Groups = Annotated[bool, typer.Option("--groups", help="A line for every group (kernels, external-kernels).")]
Transfer = Annotated[
    bool,
    typer.Option(
        "--transfer",
        help="Leave each card (or system; of whole runs also each source and family) out of the fits in turn: takes minutes.",
    ),
]
Data = Annotated[
    Path | None, typer.Option("--data", metavar="PATH", help="Other measurements: a file, or a folder of tables.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON: one object per measurement.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV: one row per measurement.")]
Source = Annotated[list[str] | None, typer.Option("--source", metavar="NAME", help="One source only. May be repeated.")]
Plain = Annotated[
    bool,
    typer.Option("--plain", help="Score twice: as stated, and as an ordinary user would state it. Also of `servers`."),
]
Write = Annotated[bool, typer.Option("--write", help="Write what was fitted to hardware/constants.")]
WriteTable = Annotated[bool, typer.Option("--write", help="Write it to hardware/measured.yaml.")]
Sample = Annotated[
    bool,
    typer.Option("--sample", help="Fit nothing; print the rows of external tables that kernels.csv.gz is to hold."),
]
Output = Annotated[
    Path | None, typer.Option("--output", metavar="FILE", help="Write the result to a file of your own.")
]
MaybeName = Annotated[str | None, typer.Argument(metavar="SUBJECT", show_default=False, help="One of `evidence list`.")]
Refit = Annotated[
    bool,
    typer.Option(
        "--all", help="Every fit that writes constants, in its order: kernels, steps, power, folds, intervals."
    ),
]
All = Annotated[bool, typer.Option("--all", help="Every page that needs no other package.")]
Check = Annotated[
    bool, typer.Option("--check", help="Write nothing; say whether the committed pages are those of today.")
]
Day = Annotated[
    str | None, typer.Option("--date", metavar="YYYY-MM-DD", help="The date of the seal; today, if left out.")
]
CheckScores = Annotated[
    bool,
    typer.Option("--check", help="Score nothing; say what got worse since the last release, and is not explained."),
]
Release = Annotated[bool, typer.Option("--release", help="Also add the scores as the line of this version.")]
Mechanisms = Annotated[
    list[str] | None, typer.Argument(metavar="MECHANISM", show_default=False, help="Some mechanisms only.")
]


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"evidence {roofsim.__version__}")
        raise typer.Exit


@app.callback()
def start(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Take what stands before a verb."""
    del version  # printed by then


@app.command("list", epilog="evidence list")
def list_subjects() -> None:
    """List the subjects: what was measured, the verbs, measurements and page of each."""
    width = max(map(len, SUBJECTS))
    for name, one in SUBJECTS.items():
        typer.echo(f"{name:{width}}  {one.about}")
        files = [one.measurements and f"evidence/measurements/{one.measurements}", one.document, *one.constants]
        typer.echo(f"{'':{width}}  {', '.join(one.verbs)}: {', '.join(filter(None, files))}")


@app.command("score", epilog="evidence score kernels --transfer")
def score(
    name: Name,
    *,
    groups: Groups = False,
    transfer: Transfer = False,
    data: Data = None,
    source: Source = None,
    json: Json = False,
    csv: Csv = False,
    plain: Plain = False,
) -> None:
    """Say how far predictions by the shipped constants are off."""
    if json and csv:
        raise SpecError("--json and --csv are two forms of one answer. Give one of them")
    options = {"groups": groups, "transfer": transfer, "data": data, "source": source, "json": json, "csv": csv}
    if not plain:
        _print(call(name, "score", options))
        return
    if any(options.values()):
        raise SpecError("--plain scores all of a set, and takes no other option")
    from roofsim_evidence.record.verbs import plain as scored

    _print(scored(name))


@app.command("fit", epilog="evidence fit steps --write\nevidence fit --all --write")
def fit(
    name: MaybeName = None,
    *,
    everything: Refit = False,
    write: Write = False,
    transfer: Transfer = False,
    data: Data = None,
    output: Output = None,
    sample: Sample = False,
) -> None:
    """Fit the constants of a subject again, and say what they leave over."""
    if everything and name is not None:
        raise SpecError("--all fits every subject. Leave out the name, or --all")
    if not everything and name is None:
        raise SpecError("name a subject (`evidence list` has them), or give --all")
    options = {
        "write": write, "transfer": transfer, "data": data, "output": output, "sample": sample,
    }  # fmt: skip
    if name is not None:
        _print(call(name, "fit", options))
        return
    if not write or transfer or data is not None or output is not None or sample:
        raise SpecError("--all goes with --write, and with nothing else: every fit takes what the one before it wrote")
    for one in ORDER:  # in a process of its own each, since constants are read once
        typer.echo(f"evidence fit {one} --write")
        subprocess.run([sys.executable, "-m", "roofsim_evidence", "fit", one, "--write"], check=True)


@app.command("page", epilog="evidence page memory exactness\nevidence page --all --check")
def page(
    names: Names = None,
    *,
    everything: All = False,
    check: Check = False,
    data: Data = None,
    groups: Groups = False,
    output: Output = None,
) -> None:
    """Write the pages of docs that show the scores, or check them."""
    from roofsim_evidence.record.sections import with_plain_scores

    if not everything and not names:
        raise SpecError("name some subjects (`evidence list` has them), or give --all")
    if everything and names:
        raise SpecError("--all are all subjects that have a page. Leave out the names, or --all")
    if output is not None and (everything or check or len(names or ()) > 1):
        raise SpecError("--output takes one page, and neither --all nor --check")
    chosen = list(dict.fromkeys(names or ())) or [
        one for one, about in SUBJECTS.items() if "page" in about.verbs and not about.foreign
    ]
    chosen = sorted(chosen, key=lambda name: bool(subject(name, "page").repeats))
    old = False
    for name in chosen:
        built: DocsPage = with_plain_scores(call(name, "page", {"data": data, "groups": groups}))
        if check:
            difference = built.difference()
            old = old or bool(difference)
            typer.echo(difference or f"{built.path}: as committed")
        elif output is not None:
            built.save(output)
            typer.echo(f"wrote {output}")
        else:
            typer.echo(f"wrote {', '.join(map(str, built.write()))}")
    if old:
        raise typer.Exit(1)


@app.command("summary", epilog="evidence summary")
def summary() -> None:
    """Write the table of scores that travels with roofsim (`roofsim validate`), from stored predictions: takes a minute."""
    from roofsim_evidence.summary import write_all

    typer.echo(f"wrote {write_all()}")


@app.command("record", epilog="evidence record --check\nevidence record --release")
def record(*, check: CheckScores = False, release: Release = False) -> None:
    """Score every set, as stated and as an ordinary user would ask, and keep the scores of today: takes minutes."""
    if check and release:
        raise SpecError("--check scores nothing, and --release keeps scores. Give one of them")
    from roofsim_evidence.record import verbs

    if not check:
        typer.echo(f"wrote {', '.join(map(str, verbs.write(release=release)))}")
        return
    checked = verbs.check()
    typer.echo(checked.text())
    if not checked.good:
        raise typer.Exit(1)


@app.command("measured", epilog="evidence measured --write")
def measured(*, write: WriteTable = False) -> None:
    """Say of which cards and models runs were measured, in all sets: what `roofsim list` calls measured."""
    from roofsim_evidence import whose_runs

    typer.echo(f"wrote {whose_runs.rewrite()}" if write else whose_runs.text().rstrip("\n"))


@app.command("seal", epilog="evidence seal\nevidence score forecasts")
def seal(day: Day = None) -> None:
    """Predict what evidence/forecasts/asked.jsonl asks for, and seal it: dated, hashed, with intervals."""
    from roofsim_evidence.forecasts.sealed import seal as sealed
    from roofsim_evidence.record.verbs import today

    typer.echo(f"sealed {sealed(day or today())}")


@app.command("ablate", epilog="evidence ablate multi-gpu bubble hidden")
def ablate(name: Name, mechanisms: Mechanisms = None) -> None:
    """Predict without one mechanism at a time, and print what each is worth."""
    _print(call(name, "ablate", {"mechanisms": mechanisms}))


def _print(text: str) -> None:
    sys.stdout.write(visible(text if text.endswith("\n") else f"{text}\n"))


_UsageError: Any = typer.BadParameter.__base__


def main() -> None:
    """Run the command line. Exit code 0: done; 1: a page is out of date, or something could not be written; 2: a bad request."""
    try:
        code: Any = app(prog_name="evidence", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except _UsageError as error:
        error.show()
        code = error.exit_code
    except (SpecError, NoDataError, OutputError) as error:
        if os.environ.get("ROOFSIM_DEBUG"):
            raise
        with suppress(OSError, ValueError):
            sys.stderr.write(visible(f"evidence: {error}\n"))
        code = 1 if isinstance(error, OutputError) else 2
    sys.exit(code if isinstance(code, int) else 0)


__all__ = ["VERBS", "app", "main"]
