"""Write a model's file from its Hugging Face configuration: ``roofsim init models/decoder/NAME.yaml --from config.json``."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

#: What every checkpoint of today is stored as, and no file of the catalog says.
_USUAL: Final = {"dtype": "bf16"}
_WIDTH: Final = 100


def model_file(config: Path, file: Path) -> str:
    """Return the text of a model's file, named after the file, with the number of parameters that its fields make.

    Raises
    ------
    SpecError
        When the configuration cannot be read or describes something that roofsim does not build.
    """
    import yaml

    from roofsim.importers.huggingface import import_model

    imported = import_model(config)
    mapping = {**imported.mapping, "name": file.stem.lower()}
    counted = _parameters(mapping)
    if mapping.get("stored") == _USUAL:
        del mapping["stored"]
    first = {"schema": 1, "family": mapping.pop("family"), "name": mapping.pop("name"), "aliases": []}
    text: str = yaml.safe_dump({**first, **mapping}, sort_keys=False, allow_unicode=True, width=_WIDTH)
    said = [*imported.assumed, *imported.warnings]
    notes = [line for each in said for line in textwrap.wrap(f"Assumed: {each}", _WIDTH)]
    notes += [
        f"The fields make {counted:,} parameters. Compare that with the published number, then state it:",
        f"published_parameters: {counted}",
        "published_parameters_source: the page of the checkpoint, or the library's class",
    ]
    return text + "".join(f"# {line}\n" for line in notes)


def _parameters(model: dict[str, Any]) -> int:
    """Return how many parameters a model has; any card serves to count them."""
    from roofsim.api import run

    answer = run({"model": model, "workload": {"phase": "forward"}, "hardware": {"gpu": "h100"}})
    return round(float(answer.to_dict()["parameters"]["total"]))
