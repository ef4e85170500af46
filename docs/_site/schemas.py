"""Publish the JSON Schemas of files beside the pages: ``schemas/scenario.schema.json`` and the others (a hook of mkdocs)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from roofsim.report.schema_files import write_schemas


def on_post_build(config: Any) -> None:
    """Write the schemas into the site that was built."""
    write_schemas(Path(config.site_dir) / "schemas")
