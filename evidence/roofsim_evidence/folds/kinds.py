"""Say what is left out of a fit together: everything of one publisher, of one card, or of one family of models."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from roofsim.records import dataclass
from roofsim.spec import catalog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from roofsim.calibrate.cases import Case

#: Sources of one publisher count as one: who ran them shares machines, software and habits.
PUBLISHERS: Final = {
    "dle-infer": "dle",
    "dle-many": "dle",
    "dle-ssd-many": "dle",
    "dle-tf": "dle",
    "dle-tf-many": "dle",
    "lambda-diffusers": "lambda",
    "lambda-many": "lambda",
    "litgpt-fsdp": "litgpt",
    "litgpt-thunder": "litgpt",
    "megatron-2020": "megatron",
    "megatron-2024": "megatron",
    "megatron-recompute": "megatron",
    "megatron-bridge-experts": "megatron-bridge",
    "megatron-weak": "megatron",
    "nemo-2024": "nemo",
    "nemo-long": "nemo",
    "neusight-odd": "neusight",
    "simumax-moe": "simumax",
    "timm-infer": "timm",
    "timm-train": "timm",
    "torchao-b200": "torchao",
    "torchao-h100": "torchao",
    "torchao-vit": "torchao",
}
#: Sets that nothing is fitted to.
UNFITTED: Final = ("mlperf-training", "mlperf-inference", "external-inference")
#: Those of them that are predicted once, with the shipped constants: their sources are left out as they are, and nobody asks what
#: other sources' rows of their cards are worth.
ONCE: Final = ("mlperf-inference", "external-inference")
#: Families whose many models go by the first word of their names, such as llama of llama3-8b.
_BY_NAME: Final = ("decoder",)
_FIRST_WORD: Final = re.compile(r"[a-z]+")


def publisher_of(case: Case) -> str:
    """Return who published a measurement.

    >>> from roofsim.calibrate.cases import Case
    >>> publisher_of(Case(name="a", measured=1.0, source="timm-train", scenario={"model": "resnet50"}))
    'timm'
    """
    return PUBLISHERS.get(case.source, case.source)


def family_of(case: Case) -> str:
    """Return the family of a measurement's model: that of its schema; of decoders the first word of its name.

    >>> from roofsim.calibrate.cases import Case
    >>> [family_of(Case(name="a", measured=1.0, scenario={"model": name})) for name in ("wide-resnet50-2", "llama3-8b")]
    ['resnet', 'llama']
    """
    model = case.scenario["model"]
    if isinstance(model, dict):
        schema, name = str(model.get("family", "")), str(model.get("name") or case.family)
        name = name if _is_text(name) else schema
    else:
        name = catalog.resolve_name("model", model)
        schema = catalog.names("model")[name].parent.name
    if schema not in _BY_NAME:
        return schema
    word = _FIRST_WORD.match(name.lower())
    return schema if word is None else word[0]


def _is_text(name: str) -> bool:
    return not name.startswith("{")


@dataclass(frozen=True, kw_only=True)
class Fold:
    """What is left out: `kind` is a key of `KINDS`, `name` that of the publisher, card or family."""

    kind: str
    name: str

    def holds(self, case: Case) -> bool:
        """Tell whether a row is left out."""
        return KINDS[self.kind](case) == self.name


#: What is left out -> how the rows are told apart.
KINDS: Final[dict[str, Callable[[Case], str]]] = {
    "source": publisher_of,
    "card": lambda case: case.gpu,
    "family": family_of,
}


def folds_of(cases: Iterable[Case], kind: str) -> list[Fold]:
    """Return the folds of some rows, in order of name."""
    return [Fold(kind=kind, name=name) for name in sorted({KINDS[kind](case) for case in cases})]
