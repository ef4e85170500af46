"""Make constants of measurements: ``roofsim calibrate measure --output mycard.py``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from roofsim.cli.flags import ScenarioOrNone
from roofsim.cli.options import scenario_options, setting
from roofsim.cli.request import Overrides, checked_path, document_of, write_text
from roofsim.cli.verbs import Verb
from roofsim.cli.whatif import Base, Settings
from roofsim.cli.words import Argument, Option
from roofsim.output import save_text

if TYPE_CHECKING:
    from roofsim.decide.timed_kernels import TimedKernels

Output = Annotated[
    Path | None,
    Option("--output", metavar="FILE.py", help="Write the script to a new file instead of printing it."),
]
Force = Annotated[bool, Option("--force", help="Replace the file if it exists.")]


For = Annotated[
    str | None,
    Option(
        "--for",
        metavar="CLASS",
        help="Time only the kernels of SCENARIO of a class of ops, at its sizes: matmul, attention, convolution, normalization, "
        "softmax, elementwise, optimizer; launch: what the host takes to issue kernels.",
    ),
]


@scenario_options(settings=False, prices=False)
def measure(
    *,
    scenario: ScenarioOrNone = None,
    only: For = None,
    changes: Settings = None,
    base: Base = None,
    output: Output = None,
    force: Force = False,
    overrides: Overrides,
) -> None:
    """Write a script that measures the GPU of the machine it runs on; it needs PyTorch only."""
    from roofsim.calibrate.script import script_text, write_script

    stated = [*overrides, *(setting(text, "--base") for text in base or ())]
    asked = _asked(scenario, only, changes, stated)
    if output is None:
        write_text(script_text(asked))
        return
    checked_path(output, ".py")
    write_script(output, force=force, asked=asked)
    table = output.with_suffix(".csv").name
    print(f"wrote {output}; run it on the machine with the GPU: python {output.name} --output {table}")
    if asked is not None:
        for line in asked.notes(table):
            print(line)


def _asked(scenario: str | None, only: str | None, changes: list[str] | None, stated: Overrides) -> TimedKernels | None:
    """Return the kernels that are asked for; None: those of the card at large."""
    from roofsim.errors import Problem, SpecError

    if scenario is None and only is None and not changes and not stated:
        return None
    if scenario is None:
        raise SpecError(Problem("expected a scenario, whose kernels to time; got none", path="--for"))
    if only is None:
        hint = "For example --for matmul. Without SCENARIO the script measures the card at large."
        raise SpecError(Problem("expected --for with the class of ops to time", path=scenario, hint=hint))
    from roofsim.decide.timed_kernels import asked_of_document

    return asked_of_document(document_of(scenario, stated), only, changes)


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
            "roofsim calibrate measure llama3-8b --gpu h100 --seq-len 2k --for matmul --output h100-matmul.py",
            "roofsim calibrate measure resnet50 --gpu a100 --set memory_format=channels_last --for normalization --output a100.py",
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
