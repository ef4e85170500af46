"""Build the static page: ``python -m roofsim.web.bundle OUT``."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from roofsim.errors import RoofsimError
from roofsim.web.bundle.pins import core_in, core_of_npm, pins, wheels_in
from roofsim.web.bundle.site import Laid, laid_out, write_site


def main(arguments: list[str] | None = None) -> int:
    """Build, say what was built, and return the exit code."""
    asked = _parser().parse_args(arguments)
    try:
        core = core_in(asked.pyodide) if asked.pyodide is not None else core_of_npm() if asked.npm else None
        laid = laid_out(
            core=core,
            wheels=wheels_in(asked.wheels),
            url=asked.pyodide_url,
            interpreter=asked.interpreter,
            node=None if asked.no_memory else shutil.which("node"),
            docs=asked.docs,
        )
        write_site(laid, asked.out)
    except RoofsimError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 2
    for line in _said(laid, asked.out):
        print(line)  # noqa: T201
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m roofsim.web.bundle", description="Build the page as static files.")
    parser.add_argument("out", type=Path, help="the folder to write into")
    parser.add_argument("--npm", action="store_true", help="take Pyodide from the npm registry, if npm is there")
    parser.add_argument(
        "--pyodide", type=Path, metavar="DIR", help="serve the Pyodide that a folder holds beside the page"
    )
    parser.add_argument(
        "--wheels", type=Path, metavar="DIR", help="serve the compiled packages of a folder beside the page"
    )
    parser.add_argument("--pyodide-url", metavar="URL", help=f"fetch Pyodide from here [default: {pins().url}]")
    parser.add_argument(
        "--interpreter", metavar="PATH", help=f"a Python {pins().python}, to compile [default: one on the path]"
    )
    parser.add_argument(
        "--no-memory",
        action="store_true",
        help="let each visit start Python; else Node keeps the memory of one that has answered",
    )
    parser.add_argument("--docs", metavar="HREF", help="link to the documentation, seen from the page")
    return parser


def _said(laid: Laid, out: Path) -> list[str]:
    size = sum(map(len, laid.files.values()))
    lines = [f"{out}: {len(laid.files)} files, {size / 10**6:.1f} MB, version {laid.version}"]
    if not laid.compiled:
        lines.append(f"No Python {pins().python} to compile with: each visit compiles the package first.")
    if not laid.kept:
        lines.append("No memory of a Python that has answered is kept: each visit starts one, which takes seconds.")
    hosts = sorted({url.split("/")[2] for url in laid.elsewhere})
    if hosts:
        lines.append(f"Visitors fetch {len(laid.elsewhere)} files from {' and '.join(hosts)}, checked by their hashes.")
    return lines


if __name__ == "__main__":
    sys.exit(main())
