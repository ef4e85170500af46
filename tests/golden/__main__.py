"""Store the predictions of today: ``python -m tests.golden --write``; read the difference before you commit it."""

from __future__ import annotations

import sys

from tests.golden.predictions import FILES, write

if sys.argv[1:] != ["--write"]:
    sys.exit("usage: python -m tests.golden --write")
for file in FILES:
    write(file)
    sys.stdout.write(f"tests/golden/{file}\n")
