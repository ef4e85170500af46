"""Run the capture where roofsim is installed beside PyTorch: ``python -m roofsim.capture my_model.py``."""

from __future__ import annotations

import sys

from roofsim.capture.main import main

sys.exit(main())
