"""``python -m roofsim_evidence``."""

from __future__ import annotations

from roofsim_evidence.cli import main

if __name__ == "__main__":
    main()
