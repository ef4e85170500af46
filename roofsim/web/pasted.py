"""Read what is pasted or dropped: a scenario, a model, a configuration, a captured program, a launch command."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError

if TYPE_CHECKING:
    from roofsim.spec.reading.source import Document

#: How the text of a launch command, or of a script of one, begins or goes on: a program, and flags behind it.
_COMMAND: Final = re.compile(r"(?:^|\s)--?[A-Za-z][\w.-]*(?:[ =]|\\?$)", re.MULTILINE)
_SHEBANG: Final = "#!"
#: What a pasted text is called where its name is unknown.
_PASTED: Final = "pasted"
#: Characters of a name that are shown.
_LONGEST: Final = 80


def read_pasted(request: dict[str, Any]) -> dict[str, Any]:
    """Return the scenario that a text describes, as data and as YAML, with the kind of the text and notes on it.

    Parameters
    ----------
    request
        ``text``, and the ``name`` of the file that it was in, which is shown and never opened.

    Raises
    ------
    SpecError
        For a text that is none of what roofsim reads, with the line.
    """
    text, name = request.get("text"), request.get("name") or _PASTED
    if not isinstance(text, str):
        raise SpecError(Problem(f"expected a text; got {type(text).__name__}", Place("text")))
    if not isinstance(name, str):
        raise SpecError(Problem(f"expected the name of a file; got {type(name).__name__}", Place("name")))
    name = re.split(r"[\\/]", name)[-1][:_LONGEST] or _PASTED
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise SpecError(
            Problem("is empty; expected a scenario, a config.json, a captured program or a command", Place(name))
        )
    if is_command(text):
        return _launch(text, name)
    return _described(text, name)


def is_command(text: str) -> bool:
    """Tell whether a text is a launch command or a script rather than a mapping.

    >>> is_command("vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 4"), is_command("model: gpt2-124m")
    (True, False)
    """
    start = text.lstrip()
    if start.startswith(("{", "[")):
        return False
    if start.startswith(_SHEBANG):
        return True
    first = next((line for line in start.splitlines() if line.strip() and not line.lstrip().startswith("#")), "")
    return re.match(r"\s*[\w.\"'-]+\s*:(?:\s|$)", first) is None and _COMMAND.search(start) is not None


def _launch(text: str, name: str) -> dict[str, Any]:
    from roofsim.importers.launch.read import read_launch

    read = read_launch(text, name)
    notes = [
        *read.notes,
        *(f"{flag}: changes neither time nor memory" for flag in read.passed_over),
        *(f"{flag}: a flag of the script itself, which is not read" for flag in read.unread),
    ]
    return _of(read.scenario, "launch", notes, program=read.program, serves=_serves(read.scenario))


def _serves(scenario: dict[str, Any]) -> bool:
    """Tell whether a command starts a server: its engine does, and does not train."""
    from roofsim.spec.engine.schema import catalog_engine

    engine = (scenario.get("workload") or {}).get("engine")
    return isinstance(engine, str) and catalog_engine(re.split("[@+]", engine)[0]).server is not None


def _described(text: str, name: str) -> dict[str, Any]:
    from roofsim.spec.reading.foreign import is_capture
    from roofsim.spec.reading.told_apart import is_configuration, read_text_request
    from roofsim.spec.scenario.document import load_scenario

    document = read_text_request(text, name)
    if not isinstance(document.data, dict):
        message = f"expected a mapping of keys to values; got {type(document.data).__name__}"
        raise SpecError(Problem(message, document.place(())))
    captured, foreign = is_capture(document.data), is_configuration(document.data)
    if foreign and "model_type" not in document.data:
        hint = "A scenario has a key model, a model of roofsim's own a key family, a Hugging Face configuration model_type."
        raise SpecError(Problem("describes no model", document.place(()), "", hint))
    document = load_scenario(document, {})
    if captured or foreign:
        from roofsim.importers.any_model import import_model

        import_model(document.data["model"], name)  # says at once what is wrong with it
    kind = "capture" if captured else "huggingface" if foreign else "scenario"
    return _of(document.data, kind, [])


def with_files(document: Document) -> dict[str, Any]:
    """Return a scenario with what its model names by a file in the place of the name; for the user's own command alone.

    Raises
    ------
    SpecError
        For a file that cannot be read.
    """
    from roofsim.spec.naming import named_file
    from roofsim.spec.reading.json_text import read_json
    from roofsim.spec.reading.source import is_folder, read_yaml

    data: dict[str, Any] = document.data
    model = data.get("model")
    file = named_file(model, (Path(), Path(document.source).parent)) if isinstance(model, str) else None
    if file is None:
        return data
    file = file / "config.json" if is_folder(file) else file
    if file.suffix.lower() not in (".json", ".yaml", ".yml"):
        raise SpecError(
            Problem("cannot be opened on the page", Place(str(file)), hint=f"Ask for it here: roofsim run {file}")
        )
    return data | {"model": read_json(file) if file.suffix.lower() == ".json" else read_yaml(file).data}


def _of(scenario: dict[str, Any], kind: str, notes: list[str], **more: Any) -> dict[str, Any]:
    from roofsim.report.html.asked import yaml_of
    from roofsim.web.command import stated

    return {"scenario": scenario, "yaml": yaml_of(stated(scenario)), "kind": kind, "notes": notes, **more}
