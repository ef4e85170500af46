"""The static page with all that a first answer takes: Pyodide, compiled packages, and the memory of a Python that has answered.

Pyodide comes from the folder that ROOFSIM_PYODIDE names or the npm registry, compiled packages from the folder that ROOFSIM_WHEELS
names (`make site` has the same folder as WHEELS).
"""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path

import pytest

from roofsim.web.bundle.archive import compiler_of
from roofsim.web.bundle.pins import core_in, core_of_npm, pins, wheels_in
from roofsim.web.bundle.site import Laid, laid_out


@cache
def whole_site() -> Laid:
    """Return the page, made once; where something that it takes is not here, the test is skipped, and says what."""
    folder = os.environ.get("ROOFSIM_WHEELS")
    wheels = wheels_in(Path(folder) if folder else None)
    missing = [wheel.file for wheel in pins().wheels if wheel.when == "start" and wheel.file not in wheels]
    if missing:
        pytest.skip(
            f"compiled packages for browsers are not here: set ROOFSIM_WHEELS to a folder with {', '.join(missing)}"
        )
    named = os.environ.get("ROOFSIM_PYODIDE")
    core = core_in(Path(named)) if named else core_of_npm()
    if core is None:
        pytest.skip("neither ROOFSIM_PYODIDE nor the npm registry has Pyodide here")
    return laid_out(
        core=core, wheels=wheels, interpreter=compiler_of(pins().python), node=shutil.which("node"), docs="../"
    )
