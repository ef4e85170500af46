"""Measure the static page: the sizes of what a visit fetches, and seconds to the first answer by part, in Node.

Of a folder that ``python -m roofsim.web.bundle SITE --npm --wheels DIR`` wrote: ``python benchmarks/static_page.py SITE``.
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
QUESTION = {"scenario": {"model": "llama3-8b", "hardware": {"gpu": "h100"}}}


def main() -> int:
    """Print sizes, and seconds where Node and all of the site are there."""
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "bundle.json").is_file():
        print("usage: python benchmarks/static_page.py SITE, a folder that `python -m roofsim.web.bundle` wrote")
        return 2
    site = Path(sys.argv[1])
    print(f"{'file':60} {'MB':>6} {'gzip':>6}")
    for path in sorted(site.rglob("*")):
        if path.is_file() and path.stat().st_size > 100_000:
            content = path.read_bytes()
            print(
                f"{path.relative_to(site).as_posix():60} {len(content) / 1e6:6.2f} {len(gzip.compress(content)) / 1e6:6.2f}"
            )
    node = shutil.which("node")
    manifest = json.loads((site / "bundle.json").read_text())
    if node is None or any(each["pinned"] for each in (manifest["pyodide"]["mjs"], *manifest["wheels"][:2])):
        print("No Node, or a site that fetches Python from elsewhere: nothing to time.")
        return 0
    asked = json.dumps({"questions": [["run", QUESTION], ["run", QUESTION]], "offline": True})
    web = ROOT / "tests" / "web"
    words = [node, str(web / "node_worker.mjs"), str(site), str(web / "node_pyodide.mjs")]
    said = subprocess.run(words, input=asked, capture_output=True, text=True, check=True).stdout.splitlines()
    posted = [json.loads(line.removeprefix("POSTED ")) for line in said if line.startswith("POSTED ")]
    ready = next(each for each in posted if "ready" in each)
    print(f"\n{'part':20} {'s':>7}")
    for name, seconds in ready["ready"].items():
        print(f"{name:20} {seconds:7.2f}")
    first, again = (each for each in posted if "id" in each)
    print(f"{'first question':20} {first['seconds']:7.2f}")
    print(f"{'first answer after':20} {first['since']:7.2f}   ({first['cpu']:.1f} s of processor time)")
    print(f"{'the same again':20} {again['seconds']:7.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
