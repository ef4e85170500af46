"""Fit the constants of steps, and write them: hardware/constants/steps.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import yaml

from roofsim.output import save_text
from roofsim.schema.base import BaseModel
from roofsim.spec.constants.kernels import Constants, Deviation, shipped
from roofsim.units import humanize
from roofsim_evidence.places import constants as constants_folder
from roofsim_evidence.steps.cases import load_cases
from roofsim_evidence.steps.fit import fit_steps, usable
from roofsim_evidence.steps.table import predict, step_table

if TYPE_CHECKING:
    from roofsim.numeric import Array

DIGITS: Final = 4
FILE: Final = "steps.yaml"
COMMAND: Final = "evidence fit steps --write"
HEAD: Final = f"""\
# What the kernels of a step achieve of the datasheet; `{COMMAND}` wrote it from
# evidence/measurements/steps.jsonl. The meaning of each number is in roofsim/spec/constants/kernels.py.
"""


def fitted() -> Constants:
    """Fit the constants to all steps that they may be fitted to."""
    cases, start = load_cases(), shipped()
    table = step_table(cases, list(start.classes))
    use = usable(cases, table)
    constants = rounded(fit_steps(table.only(use), start).constants)
    logs = np.log(predict(table, constants) / table.measured)[use]
    notes = {
        "command": COMMAND,
        "fitted": f"all {int(use.sum())} of {len(cases)} steps in evidence/measurements/steps.jsonl that may be, and whose host is "
        "no limit",
        "residual": f"{_median(logs):.1%} median error on these; docs/accuracy.md has those with a source, card or family left out",
    }
    return constants.model_copy(update={"fitted": notes})


def _median(logs: Array) -> float:
    return float(np.median(np.abs(np.expm1(logs))))


def rounded(constants: Constants) -> Constants:
    """Round what is written, so that the file holds exactly what was scored."""
    written: Constants = _rounded(constants)
    return written


def _rounded(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_copy(update={name: _rounded(getattr(value, name)) for name in type(value).model_fields})
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return _short(value) if isinstance(value, float) else value


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return _short(value) if isinstance(value, float) else value


def to_yaml(constants: Constants) -> str:
    """Return the file: quantities with units, one line a table."""
    data = _plain(constants.model_dump(exclude={"schema_version", "architectures", "gpus", "physics"}))
    data["unit_bandwidth"] = humanize(constants.unit_bandwidth, "B/s", DIGITS)
    data["energy"] = {name: humanize(value, "J", DIGITS) for name, value in constants.energy.model_dump().items()}
    lines = ["schema: 1"]
    for key, value in data.items():
        if isinstance(value, dict) and key in ("sources", "fitted"):
            lines.append(f"{key}:")
            lines += [f"  {name}: {_flow(text)}" for name, text in value.items()]
        else:
            lines.append(f"{key}: {_flow(value)}")
    for key, table in (("architectures", constants.architectures), ("gpus", constants.gpus)):
        lines.append(f"{key}:")
        lines += [f"  {name}: {_flow(_deviation(deviation))}" for name, deviation in sorted(table.items())]
    return HEAD + "\n".join(lines) + "\n"


def _deviation(deviation: Deviation) -> dict[str, Any]:
    compute = {name: value for name, value in deviation.compute.items() if abs(value - 1.0) > 10.0**-DIGITS}
    plain: dict[str, Any] = _plain({"compute": compute, "stream": deviation.stream, "source": deviation.source})
    return plain


def _flow(value: Any) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...").strip()


def fit_and_write(*, write: bool) -> list[str]:
    """Fit, report, and on demand replace the file of the repository."""
    constants = fitted()
    if write:
        save_text(constants_folder() / FILE, to_yaml(constants))
    return [f"{name}: {text}" for name, text in constants.fitted.items()]
