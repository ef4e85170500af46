"""Run every benchmark and print its figures."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import startup, sweep, warm


def main() -> None:
    """Print a block of figures for each benchmark."""
    for module in (startup, warm, sweep):
        print(module.__doc__)
        for name, value in module.measure().items():
            print(f"  {name:40} {value:14,.6g}")
        print()


if __name__ == "__main__":
    main()
