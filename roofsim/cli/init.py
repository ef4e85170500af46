"""Write a scenario or a model to begin with: ``roofsim init gpt.yaml``, ``net.yaml --layers``, ``mine.yaml --from config.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from roofsim.cli.words import Argument, Option

File = Annotated[Path, Argument(metavar="FILE", help="File to write, ending in .yaml or .yml.")]
Force = Annotated[bool, Option("--force", help="Replace a file that exists.")]

Layers = Annotated[bool, Option("--layers", help="Write a model, layer by layer, instead of a scenario.")]
From = Annotated[
    Path | None,
    Option("--from", metavar="CONFIG", help="Write the model of a Hugging Face config.json, or of its folder."),
]

#: Folder beside the file with the schema that editors complete it from.
SCHEMAS = ".roofsim"


def init(*, file: File = Path("gpt.yaml"), layers: Layers = False, from_: From = None, force: Force = False) -> None:
    """Write a commented scenario that runs as it is, or a model: a start for a file of your own."""
    from roofsim.cli.model_file import model_file
    from roofsim.cli.request import checked_path, write_text
    from roofsim.errors import Problem, SpecError
    from roofsim.output import save_text
    from roofsim.report.schema_files import write_schemas

    path = checked_path(file, ".yaml", ".yml")
    assert path is not None
    if path.is_dir() or (path.exists() and not force):
        hint = "It is a folder; name a file." if path.is_dir() else "--force replaces it; or name another file."
        raise SpecError(Problem(f"cannot write {path}: it exists already", hint=hint))
    if layers and from_ is not None:
        raise SpecError(Problem("--layers writes another kind of model than --from", hint="Leave out one of them."))
    model = layers or from_ is not None
    save_text(path, template(str(path), layers=layers) if from_ is None else model_file(from_, path))
    (schema,) = write_schemas(path.parent / SCHEMAS, ("model" if model else "scenario",))
    write_text(f"Wrote {path}. `roofsim run {path}` answers it.\nEditors complete it from {schema}.")


def template(file: str, *, layers: bool = False) -> str:
    """Return the text of the file, which names itself in its examples, and its schema in the words of two kinds of editors."""
    from importlib.resources import files

    from roofsim.report.schema_files import schema_file

    text = (files("roofsim.cli") / "templates" / ("layers.yaml" if layers else "scenario.yaml")).read_text(
        encoding="utf-8"
    )
    return text.replace("FILE", file).replace("SCHEMA", f"{SCHEMAS}/{schema_file('model' if layers else 'scenario')}")
