"""Keep the memory of a Python that has answered: a visit of the page goes on from there, where else it would start and import."""

from __future__ import annotations

import json
import subprocess
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import RoofsimError
from roofsim.output import save_bytes
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Seconds that Node may take.
_PATIENCE: Final = 600


@dataclass(frozen=True, kw_only=True)
class KeptMemory:
    """The memory of a Python.

    Attributes
    ----------
    content
        Pyodide's form of it, gzipped.
    libraries
        Paths of the compiled packages that were loaded, in that order; they have to be loaded so before it is used.
    table
        Functions in the table behind them; where a browser has another number, the memory is of no use there.
    """

    content: bytes
    libraries: Sequence[str]
    table: int


def kept_memory(node: str, held: Mapping[str, bytes]) -> KeptMemory:
    """Return the memory of a Python of the page, once it has been asked what `roofsim.web.in_browser.warm` asks.

    Parameters
    ----------
    node
        The program that runs Pyodide.
    held
        Files of the page: ``bundle.json``, what it names, and ``static/python.js``.

    Raises
    ------
    RoofsimError
        When Node fails.
    """
    with tempfile.TemporaryDirectory() as made:
        site, out = Path(made) / "site", Path(made) / "memory.gz"
        for name, content in held.items():
            (site / name).parent.mkdir(parents=True, exist_ok=True)
            save_bytes(site / name, content)
        save_bytes(site / "static" / "package.json", b'{"type": "module"}')
        libraries = _said(node, [str(site)])["libraries"]
        table = _said(node, [str(site), str(out), *libraries])["table"]
        return KeptMemory(content=out.read_bytes(), libraries=tuple(libraries), table=table)


def _said(node: str, words: list[str]) -> dict[str, Any]:
    script = str(files("roofsim.web.bundle") / "snapshot.mjs")
    try:
        done = subprocess.run(
            [node, script, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RoofsimError(f"{node} cannot keep the memory of Python: {error}") from None
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise RoofsimError(f"{node} cannot keep the memory of Python: {done.stderr.strip()[-300:]}")
    said: dict[str, Any] = json.loads(lines[-1])
    return said
