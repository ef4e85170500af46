"""Find a change with which a scenario runs that a card, an engine or a layout refuses: by trying."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import NoDataError, SpecError
from roofsim.records import dataclass
from roofsim.search.fitting.changes import flags_of
from roofsim.spec import catalog
from roofsim.spec.engine.schema import catalog_engine
from roofsim.spec.precision.formats import weight_format
from roofsim.spec.scenario.document import with_override

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from roofsim.analyze.result import Result
    from roofsim.spec.reading.source import Document

    Answer = Callable[[Document], Result]
    Changes = dict[str, Any]

#: Precisions of training from narrow to wide: what is asked is replaced by the next wider one that runs.
_TRAIN_IN: Final = ("nvfp4", "mxfp8", "fp8", "bf16", "bf16-amp", "fp16-amp", "tf32", "fp32")
#: Precisions that stand elsewhere on this ladder than their names do: fp16 alone has bf16's bytes.
_AS: Final = {"fp16": "bf16"}
_SERVE_IN: Final = ("bf16", "fp16", "fp32")
#: Beside them where narrow weights are asked for.
_NARROW: Final = ("fp8", "int8")
_DEGREES: Final = ("tensor", "pipeline", "context", "expert")
#: Card counts that are tried where so many cannot be joined: those of usual hosts.
_FEWER: Final = (8, 4, 2, 1)
#: Scenarios that are tried for one row, and changes that are made together.
_MOST_TRIED: Final = 24
_DEEPEST: Final = 2


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """What would run, and how fast."""

    changes: Changes
    name: str
    result: Result

    @property
    def fits(self) -> bool:
        """Whether it also fits in memory."""
        return bool(self.result.memory.fits)

    @property
    def only_leaves_out(self) -> bool:
        """Whether it sets nothing, but leaves out what the scenario states."""
        return all(value is None for value in self.changes.values())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "name": self.name,
            "changes": {path: value for path, value in self.changes.items() if value is not None},
            "flags": flags_of(self.changes),
            "step_time": float(self.result.step_time),
            "fits": self.fits,
        }


def instead(document: Document, error: SpecError | NoDataError, answer: Answer) -> Alternative | None:
    """Return the nearest change with which a refused scenario runs, one that fits if there is any; None: none found."""
    search = _AlternativeSearch(answer)
    search.descend(document, {}, error, _DEEPEST)
    return search.best


class _AlternativeSearch:
    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.best: Alternative | None = None
        self.tried: set[str] = set()

    def descend(self, document: Document, made: Changes, error: SpecError | NoDataError, left: int) -> None:
        """Try each change; where another complaint takes the place of the first, go on from there."""
        further: list[tuple[Document, Changes, SpecError | NoDataError]] = []
        for changes in _candidates(document, error):
            whole = made | changes
            if self._done(whole):
                continue
            changed = _changed(document, changes)
            try:
                result = self.answer(changed)
            except (SpecError, NoDataError) as complaint:
                if str(complaint) != str(error):
                    further.append((changed, whole, complaint))
                continue
            self._keep(Alternative(changes=whole, name=_name(whole), result=result))
            if self.best is not None and self.best.fits:
                return
        for changed, whole, other in further if left > 1 and self.best is None else ():
            self.descend(changed, whole, other, left - 1)

    def _done(self, changes: Changes) -> bool:
        key = repr(sorted(changes.items(), key=lambda item: item[0]))
        if key in self.tried or len(self.tried) >= _MOST_TRIED:
            return True
        self.tried.add(key)
        return False

    def _keep(self, alternative: Alternative) -> None:
        if self.best is None or (alternative.fits and not self.best.fits):
            self.best = alternative


def _changed(document: Document, changes: Changes) -> Document:
    for path, value in changes.items():
        document = with_override(document, path, value, "compare")
    return document


def _name(changes: Changes) -> str:
    """Return changes in words: ``fp16-amp``, ``tensor 4``."""
    return ", ".join(filter(None, (_words(path, value) for path, value in changes.items()))) or "defaults"


def _words(path: str, value: Any) -> str:
    key = path.rpartition(".")[2].replace("_", " ")
    if path == "hardware.gpus":
        return f"{value} GPU{'s' if value != 1 else ''}"
    if value is None:
        return "" if path == "parallel.data" else f"without {key}"
    if path == "workload.precision":
        return ", ".join(f"{role} {name}" for role, name in value.items()) if isinstance(value, dict) else str(value)
    return f"{key} {value}"


# -- what could be changed ----------------------------------------------------------------------------------------------


def _candidates(document: Document, error: SpecError | NoDataError) -> Iterator[Changes]:
    """Yield changes, those of what the complaint is about first."""
    about = {problem.path for problem in getattr(error, "problems", ())}
    groups = {
        ("workload.precision",): _precisions,
        ("hardware.gpus", "parallel", "workload.global_batch_size", "workload.micro_batch_size"): _layouts,
        ("hardware.system", "hardware.calibration", "workload.attention"): _left_out,
    }
    concerned = sorted(groups, key=lambda paths: not any(path.startswith(paths) for path in about))
    for paths in concerned:
        yield from groups[paths](document)


def _get(document: Document, path: str) -> Any:
    at: Any = document.data
    for part in path.split("."):
        at = at.get(part) if isinstance(at, dict) else None
    return at


def _precisions(document: Document) -> Iterator[Changes]:
    asked = _get(document, "workload.precision")
    roles = asked if isinstance(asked, dict) else {}
    name = roles.get("compute") if roles else asked
    if not isinstance(name, str):
        return
    trains = _get(document, "workload.phase") in (None, "train")
    for other in _training(document, name) if trains else _serving(name, _emulated(document)):
        if roles and isinstance(other, str):
            yield {"workload.precision": {**roles, "compute": other}}
        else:
            yield {"workload.precision": other}


def _emulated(document: Document) -> frozenset[str]:
    """Return the types that a named card has no units for, whose operands libraries convert; engines that serve refuse them."""
    gpu = _get(document, "hardware.gpu")
    if not isinstance(gpu, str):
        return frozenset()
    try:
        architecture = catalog.load("gpu", catalog.resolve_name("gpu", gpu)).data["architecture"]
    except SpecError:
        return frozenset()
    return frozenset(catalog.load("architecture", architecture).data.get("converted", ()))


def _training(document: Document, name: str) -> list[str]:
    """Return wider precisions; first the other type of the same width, where the engine keeps fp32 parameters beside it."""
    at = _AS.get(name, name)
    wider = list(_TRAIN_IN[_TRAIN_IN.index(at) + 1 :]) if at in _TRAIN_IN else list(_TRAIN_IN)
    others = [other for other, same in _AS.items() if same == name] if _keeps_master(document) else []
    return others + wider


def _keeps_master(document: Document) -> bool:
    engine = _get(document, "workload.engine")
    if not isinstance(engine, str):
        return False
    try:
        return bool(catalog_engine(catalog.resolve_name("engine", engine)).precision.recipe != "pure")
    except SpecError:
        return False


def _serving(name: str, emulated: frozenset[str]) -> list[Any]:
    """Return what serves instead: the same stored weights with wider arithmetic, else wider weights; emulated types last."""
    served = sorted(_SERVE_IN, key=lambda other: other in emulated)
    if weight_format(name) is None:
        return [other for other in served if other != name]
    stored: list[Any] = [{"compute": wide, "parameters": name} for wide in served[:2]]
    return stored + [other for other in (*_NARROW, *served) if other != name]


def _layouts(document: Document) -> Iterator[Changes]:
    """Yield layouts of the same cards, fewer cards, and batches that divide."""
    gpus = _get(document, "hardware.gpus")
    degrees = {name: _get(document, f"parallel.{name}") for name in _DEGREES}
    stated = {name: degree for name, degree in degrees.items() if isinstance(degree, int) and degree > 1}
    data = {"parallel.data": None} if _get(document, "parallel.data") is not None else {}
    if data:
        yield dict(data)
    if isinstance(gpus, int) and stated:
        for tensor in _halved(stated.get("tensor", 1)):
            yield _clipped(stated, gpus, tensor) | data
        yield {f"parallel.{name}": 1 for name in stated} | data
    if _get(document, "workload.global_batch_size") is not None:
        micro = _get(document, "workload.micro_batch_size")
        for smaller in (size for size in (16, 8, 4, 2, 1) if isinstance(micro, int) and size < micro):
            yield {"workload.micro_batch_size": smaller}
        yield {"workload.global_batch_size": None}
    for fewer in _FEWER if isinstance(gpus, int) else ():
        if fewer < gpus:
            yield _clipped(stated, fewer) | data | {"hardware.gpus": fewer}


def _halved(degree: int) -> list[int]:
    """Return a degree, its half and so on: heads may divide by the half where they do not by the whole."""
    degrees = [degree]
    while degrees[-1] > 1 and degrees[-1] % 2 == 0:
        degrees.append(degrees[-1] // 2)
    return degrees


def _clipped(stated: dict[str, int], gpus: int, tensor: int | None = None) -> Changes:
    """Return the largest degrees that divide those stated and, all together, the cards; only those that change."""
    left, degrees = gpus, {}
    for name, degree in stated.items():
        wanted = tensor if name == "tensor" and tensor is not None else degree
        degrees[name] = gcd(wanted, gpus if name == "expert" else left)
        left = left if name == "expert" else left // degrees[name]
    return {f"parallel.{name}": degree for name, degree in degrees.items() if degree != stated[name]}


def _left_out(document: Document) -> Iterator[Changes]:
    for path in ("hardware.system", "hardware.calibration", "workload.attention"):
        if _get(document, path) is not None:
            yield {path: None}
