"""Make constants of measurements: ``roofsim calibrate measure --output mycard.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roofsim.cli.request import checked_path, write_text

app = typer.Typer(
    help="Measure a card, and make constants of measurements.", no_args_is_help=True, rich_markup_mode=None
)

Output = Annotated[
    Path | None, typer.Option("--output", metavar="FILE.py", help="Write the script to a new file instead of printing.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if there is one.")]


@app.callback()
def _group() -> None:
    """Keep the verbs below this one named, however few they are."""


@app.command("measure")
def measure(*, output: Output = None, force: Force = False) -> None:
    """Write a script, in need of PyTorch only, that measures the card of the machine it runs on."""
    from roofsim.calibrate.script import script_text, write_script

    if output is None:
        write_text(script_text())
        return
    checked_path(output, ".py")
    write_script(output, force=force)
    table = output.with_suffix(".csv").name
    typer.echo(f"wrote {output}; on the machine with the card: python {output.name} --output {table}")


Data = Annotated[Path, typer.Argument(metavar="DATA.csv", help="Measured kernels; also gzipped (.csv.gz).")]
Constants = Annotated[
    Path | None, typer.Option("--output", metavar="FILE.yaml", help="Write the constants, with their errors.")
]
HoldOut = Annotated[bool, typer.Option("--hold-out", help="Also fit half of the rows and print errors on the others.")]
Groups = Annotated[bool, typer.Option("--groups", help="Print every card, operation, format and engine.")]


Card = Annotated[str | None, typer.Option("--gpu", metavar="NAME", help="Catalog name of the card, for --overlay.")]
OverlayFile = Annotated[
    Path | None,
    typer.Option("--overlay", metavar="CARD.yaml", help="Write what the rows say of one card, for --calibration."),
]


@app.command("fit")
def fit(
    data: Data, *, output: Constants = None, hold_out: HoldOut = False, groups: Groups = False,
    overlay: OverlayFile = None, gpu: Card = None,
) -> None:  # fmt: skip
    """Fit the constants of the kernel models to a table of measured kernels, or make an overlay for one card of it."""
    if overlay is not None:
        _write_overlay(data, overlay, gpu)
        return
    from roofsim.calibrate.kernel_files import write_fit
    from roofsim.calibrate.kernel_fit import fit_kernels
    from roofsim.calibrate.kernels import fit_scores, held_out, load_kernels, report

    checked_path(output, ".yaml")
    table, skipped = load_kernels(data)
    found = fit_kernels(table)
    scores = held_out(table)[1] if hold_out else fit_scores(table, found)
    title = "Errors on rows that were not fitted" if hold_out else "Errors on the rows that were fitted"
    lines = [f"{len(table)} rows, {skipped} without a model left out", title, *report(scores, groups=groups)]
    write_text("\n".join(lines) + "\n")
    if output is not None:
        write_fit(output, found, scores)


def _write_overlay(data: Path, target: Path, gpu: str | None) -> None:
    from roofsim.calibrate.kernel_table import read_rows
    from roofsim.calibrate.overlay import overlay as overlay_of
    from roofsim.calibrate.overlay import to_yaml
    from roofsim.errors import Place, Problem, SpecError

    checked_path(target, ".yaml")
    rows = read_rows(data)
    if not rows:
        raise SpecError(Problem("has no rows", Place(str(data))))
    found = overlay_of(rows, gpu or rows[0]["gpu"])
    target.write_text(to_yaml(found), encoding="utf-8")
    typer.echo(f"wrote {target}; use it with --gpu {found['gpu']} --calibration {target}")
