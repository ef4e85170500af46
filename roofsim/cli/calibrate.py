"""Make constants of measurements: ``roofsim calibrate measure --output mycard.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from roofsim.cli.request import checked_path, write_text
from roofsim.cli.verbs import Verb
from roofsim.cli.words import Argument, Option
from roofsim.output import save_text

Output = Annotated[
    Path | None,
    Option("--output", metavar="FILE.py", help="Write the script to a new file instead of printing it."),
]
Force = Annotated[bool, Option("--force", help="Replace the file if it exists.")]


def measure(*, output: Output = None, force: Force = False) -> None:
    """Write a script that measures the GPU of the machine it runs on; it needs PyTorch only."""
    from roofsim.calibrate.script import script_text, write_script

    if output is None:
        write_text(script_text())
        return
    checked_path(output, ".py")
    write_script(output, force=force)
    table = output.with_suffix(".csv").name
    print(f"wrote {output}; run it on the machine with the GPU: python {output.name} --output {table}")


Data = Annotated[
    Path,
    Argument(metavar="DATA", show_default=False, help="Measured kernels as CSV, gzipped or not (.csv.gz)."),
]
Constants = Annotated[
    Path | None, Option("--output", metavar="FILE.yaml", help="Write the constants and their errors.")
]
HoldOut = Annotated[bool, Option("--hold-out", help="Fit half of the rows, and print the errors on the others.")]
Groups = Annotated[bool, Option("--groups", help="Print errors for every GPU, operation, format and engine.")]


Card = Annotated[str | None, Option("--gpu", metavar="NAME", help="Catalog name of the GPU, for --overlay.")]
OverlayFile = Annotated[
    Path | None,
    Option("--overlay", metavar="CARD.yaml", help="Write the constants of one GPU, for --calibration."),
]


def fit(
    data: Data,
    *,
    output: Constants = None,
    hold_out: HoldOut = False,
    groups: Groups = False,
    overlay: OverlayFile = None,
    gpu: Card = None,
) -> None:
    """Fit the constants of the kernel models to measured kernels, or write an overlay for one GPU."""
    if overlay is not None:
        _write_overlay(data, overlay, gpu)
        return
    from roofsim.calibrate.kernels.constants import write_fit
    from roofsim.calibrate.kernels.fit import fit_kernels
    from roofsim.calibrate.kernels.scores import fit_scores, held_out, load_kernels, report

    checked_path(output, ".yaml")
    table, skipped = load_kernels(data)
    fitted = fit_kernels(table)
    scores = held_out(table)[1] if hold_out else fit_scores(table, fitted)
    title = "Errors on rows that were not fitted" if hold_out else "Errors on the rows that were fitted"
    lines = [
        f"{len(table)} rows, {skipped} left out because no model covers them",
        title,
        *report(scores, groups=groups),
    ]
    write_text("\n".join(lines) + "\n")
    if output is not None:
        write_fit(output, fitted, scores)


#: The verbs of the group.
VERBS: Final = {
    "measure": Verb(
        "roofsim.cli.calibrate:measure",
        "Write a script that measures the GPU of the machine it runs on; it needs PyTorch only.",
        (
            "roofsim calibrate measure > mycard.py",
            "roofsim calibrate measure --output mycard.py",
            "roofsim calibrate measure --output mycard.py --force",
        ),
    ),
    "fit": Verb(
        "roofsim.cli.calibrate:fit",
        "Fit the constants of the kernel models to measured kernels, or write an overlay for one GPU.",
        (
            "roofsim calibrate fit mycard.csv --hold-out",
            "roofsim calibrate fit mycard.csv --output constants.yaml",
            "roofsim calibrate fit mycard.csv --gpu rtx4090 --overlay mycard.yaml",
        ),
    ),
}


def _write_overlay(data: Path, target: Path, gpu: str | None) -> None:
    from roofsim.calibrate.kernels.table import read_rows
    from roofsim.calibrate.overlay import overlay as overlay_of
    from roofsim.calibrate.overlay import to_yaml
    from roofsim.errors import Place, Problem, SpecError

    checked_path(target, ".yaml")
    rows = read_rows(data)
    if not rows:
        raise SpecError(Problem("has no rows", Place(str(data))))
    measured = overlay_of(rows, gpu or rows[0]["gpu"])
    save_text(target, to_yaml(measured))
    print(f"wrote {target}; use it with --gpu {measured['gpu']} --calibration {target}")
