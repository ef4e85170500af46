"""Join the parts of a script that stands alone, such as the microbenchmark, into the one file that a user takes along."""

from __future__ import annotations

import ast
import importlib.resources
from typing import TYPE_CHECKING, Final

from roofsim.errors import Problem, SpecError
from roofsim.output import save_text

if TYPE_CHECKING:
    from pathlib import Path

#: Scripts by their package: its parts, in the order in which one needs the other. The last one's docstring is the script's, its
#: last lines run it.
PARTS: Final = {
    "roofsim.calibrate.microbenchmark": ("timing.py", "kernels.py", "main.py"),
    "roofsim.capture": ("sizes.py", "record.py", "main.py"),
}
#: The script that measures a card.
MICROBENCHMARK: Final = "roofsim.calibrate.microbenchmark"
#: The script that captures a model.
CAPTURE: Final = "roofsim.capture"


def script_text(package: str = MICROBENCHMARK) -> str:
    """Return a script: the imports of all parts but those of one another, then each part's code unchanged."""
    folder = importlib.resources.files(package)
    parts = [folder.joinpath(name).read_text(encoding="utf-8") for name in PARTS[package]]
    docstring = ast.get_docstring(ast.parse(parts[-1]), clean=False)
    imports: list[ast.stmt] = []
    bodies = []
    for text in parts:
        head = [node for node in ast.parse(text).body if isinstance(node, ast.Import | ast.ImportFrom)]
        imports += head
        bodies.append("\n".join(text.splitlines()[head[-1].end_lineno :]).strip("\n"))
    top = [f'"""{docstring}"""', "", "from __future__ import annotations", "", *_import_lines(imports), ""]
    return "\n".join(top) + "\n" + "\n\n\n".join(bodies) + "\n"


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


def write_script(path: Path, *, force: bool = False, package: str = MICROBENCHMARK) -> None:
    """Write a script.

    Raises
    ------
    SpecError
        If there is a file already and `force` is not set.
    OutputError
        If it cannot be written.
    """
    if path.exists() and not force:
        raise SpecError(Problem(f"cannot write {path}: it exists already", hint="--force replaces it."))
    save_text(path, script_text(package))
