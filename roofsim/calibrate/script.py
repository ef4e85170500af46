"""Join the parts of a script that stands alone, such as the microbenchmark, into the one file that a user takes along."""

from __future__ import annotations

import ast
import importlib.resources
import re
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Problem, SpecError
from roofsim.output import save_text

if TYPE_CHECKING:
    from pathlib import Path

    from roofsim.decide.changes import Changes
    from roofsim.decide.timed_kernels import TimedKernels

#: Scripts by their package: the modules that they are made of, in the order in which one needs the other. The last one's docstring
#: is the script's, its last lines run it.
PARTS: Final = {
    "roofsim.calibrate.microbenchmark": (
        "roofsim.calibrate.microbenchmark.timing",
        "roofsim.calibrate.microbenchmark.kernels",
        "roofsim.calibrate.microbenchmark.main",
    ),
    "roofsim.capture": (
        "roofsim.importers.captured.sizes",
        "roofsim.capture.values",
        "roofsim.capture.record",
        "roofsim.capture.main",
    ),
}
#: The script that measures a card.
MICROBENCHMARK: Final = "roofsim.calibrate.microbenchmark"
#: The script that captures a model.
CAPTURE: Final = "roofsim.capture"


def script_text(asked: TimedKernels | None = None, package: str = MICROBENCHMARK) -> str:
    """Return a script: the imports of all parts but those of one another, then each part's code unchanged.

    With kernels that are `asked` for, it measures these and no others.
    """
    parts = [_text_of(module) for module in PARTS[package]]
    docstring = ast.get_docstring(ast.parse(parts[-1]), clean=False)
    imports: list[ast.stmt] = []
    bodies = []
    for text in parts:
        head = [node for node in ast.parse(text).body if isinstance(node, ast.Import | ast.ImportFrom)]
        imports += head
        bodies.append("\n".join(text.splitlines()[head[-1].end_lineno :]).strip("\n"))
    top = [f'"""{docstring}"""', "", "from __future__ import annotations", "", *_import_lines(imports), ""]
    code = "\n\n\n".join(bodies) if asked is None else _with_kernels("\n\n\n".join(bodies), asked)
    return "\n".join(top) + "\n" + code + "\n"


def _text_of(module: str) -> str:
    """Return the source of a module."""
    folder, _, name = module.rpartition(".")
    return importlib.resources.files(folder).joinpath(f"{name}.py").read_text(encoding="utf-8")


def measurement_script(
    scenario: str | Path | dict[str, Any] | None = None,
    what: str | None = None,
    changes: Changes | None = None,
    **overrides: Any,
) -> str:
    """Return the text of a script that measures the GPU of the machine it runs on; it needs PyTorch only.

    Parameters
    ----------
    scenario
        Whose kernels to time, at their sizes; if left out, the script measures the card at large.
    what
        The class of ops to time: ``matmul``, ``attention``, ``convolution``, ``normalization``, ``softmax``, ``elementwise``,
        ``optimizer``; ``launch``: what the host takes to issue kernels.
    changes
        As for `roofsim.whatif`. On the same card the kernels before and after are timed, on another card those after.
    overrides
        As for `roofsim.run`.

    Raises
    ------
    SpecError
        For a wrong scenario, an unknown class, and one of which the scenario has no kernel that PyTorch calls alone.
    """
    if scenario is None:
        return script_text()
    if what is None:
        raise SpecError(Problem("expected the class of ops to time", path="what", hint="For example 'matmul'."))
    from roofsim.decide.timed_kernels import asked_of

    return script_text(asked_of(scenario, what, changes, **overrides))


def _with_kernels(code: str, asked: TimedKernels) -> str:
    """Put the kernels that are asked for, and the name of the card, into the script."""
    kernels = "".join(f"        {kernel!r},\n" for kernel in asked.kernels)
    table = f"{{\n    {asked.group!r}: [\n{kernels}    ],\n}}"
    for name, value in (("ASKED", table), ("CARD", repr(asked.gpu))):
        (line,) = re.findall(rf"^{name}: .* = .*$", code, flags=re.MULTILINE)
        code = code.replace(line, f"{line.partition(' = ')[0]} = {value}", 1)
    return code


def _import_lines(imports: list[ast.stmt]) -> list[str]:
    """Return the lines that import what `imports` do from the standard library, sorted, one for each module."""
    plain: set[str] = set()
    names: dict[str, set[str]] = {}
    for node in imports:
        if isinstance(node, ast.Import):
            plain |= {f"import {alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith(("roofsim", "__future__")):
            names.setdefault(node.module or "", set()).update(alias.name for alias in node.names)
    return sorted(plain) + [f"from {module} import {', '.join(sorted(names[module]))}" for module in sorted(names)]


def write_script(
    path: Path, *, force: bool = False, asked: TimedKernels | None = None, package: str = MICROBENCHMARK
) -> None:
    """Write a script, of all that it can do or of the kernels that are `asked` for.

    Raises
    ------
    SpecError
        If there is a file already and `force` is not set.
    OutputError
        If it cannot be written.
    """
    if path.exists() and not force:
        raise SpecError(Problem(f"cannot write {path}: it exists already", hint="--force replaces it."))
    save_text(path, script_text(asked, package))
