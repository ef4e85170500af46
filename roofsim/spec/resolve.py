"""Resolve a scenario: find what it names, apply overrides, write out every default, and say what was assumed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from roofsim.errors import Place, Problem, SpecError, did_you_mean
from roofsim.spec import catalog
from roofsim.spec.architecture import Architecture
from roofsim.spec.engine import Engine
from roofsim.spec.families.registry import family_schema
from roofsim.spec.hardware import Gpu, System
from roofsim.spec.precision import Precision, resolve_precision
from roofsim.spec.source import Document, from_mapping, read_yaml
from roofsim.spec.validate import validate
from roofsim.spec.workload import Parallel, Scenario, Workload
from roofsim.units import humanize

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.spec.families.base import ModelSpec

T = TypeVar("T")

#: A dense peak may lie a little above units x clock x FLOP per clock (other clocks); a sparse one lies at twice it.
SPARSE_SUSPICION: Final = 1.5


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A scenario with everything found and every default written out. Sizes may later be replaced by arrays."""

    model: ModelSpec
    workload: Workload
    parallel: Parallel
    gpu: Gpu
    gpus: int
    system: System
    engine: Engine
    architecture: Architecture
    precision: Precision
    assumed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    override: dict[str, Any] = field(default_factory=dict)


class Resolver:
    """Resolve one document; collects what it had to assume on the way."""

    def __init__(self, document: Document, importer: Callable[[Path], dict[str, Any]] | None = None) -> None:
        self.document = document
        self.importer = importer
        self.assumed: list[str] = []
        self.warnings: list[str] = []

    def run(self) -> Resolved:
        """Return the resolved scenario.

        Raises
        ------
        SpecError
            With every problem of a section that is wrong.
        """
        scenario = self._scenario()
        with _Collector() as problems:
            model = problems.of(lambda: self.model(scenario.model))
            engine = problems.of(lambda: self.engine(scenario.workload))
            gpu, system = problems.of(lambda: self.hardware(scenario)) or (None, None)
            parallel = problems.of(lambda: self.parallel(scenario.parallel, scenario.hardware.gpus))
        assert model is not None
        assert engine is not None
        assert gpu is not None
        assert system is not None
        assert parallel is not None
        architecture = self.architecture(gpu)
        self.refuse_sparse_peaks(scenario.hardware.gpu, gpu, architecture)
        precision = self.precision(scenario.workload, engine, gpu)
        workload = self.workload(scenario.workload, scenario.parallel, model, scenario.hardware.gpus)
        return Resolved(
            model=model,
            workload=workload,
            parallel=parallel,
            gpu=gpu,
            gpus=scenario.hardware.gpus,
            system=system,
            engine=engine,
            architecture=architecture,
            precision=precision,
            assumed=tuple(self.assumed),
            warnings=tuple(self.warnings),
            override=scenario.hardware.override,
        )

    def _scenario(self) -> Scenario:
        """Check the scenario; where keys are wrong, look up the names as well, so that all problems come at once."""
        try:
            return validate(Scenario, self.document)
        except SpecError as error:
            raise SpecError([*error.problems, *self._wrong_names()]) from None

    def _wrong_names(self) -> list[Problem]:
        places: dict[catalog.Kind, tuple[str, ...]] = {
            "engine": ("workload", "engine"), "gpu": ("hardware", "gpu"), "system": ("hardware", "system"),
        }  # fmt: skip
        found: list[Problem] = []
        for kind, path in places.items():
            at: Any = self.document.data
            for part in path:
                at = at.get(part) if isinstance(at, dict) else None
            if isinstance(at, str):
                try:
                    catalog.resolve_name(kind, at, self.document.place(path), ".".join(path))
                except SpecError as error:
                    found += error.problems
        return found

    # -- model --------------------------------------------------------------------------------------------------

    def model(self, given: str | dict[str, Any]) -> ModelSpec:
        """Find the model: an inline mapping, a file, a Hugging Face config, or a catalog name."""
        if isinstance(given, dict):
            return self._model_of(self.document.part(("model",), given), "model", "inline")
        path = self._file(given)
        if path is None:
            name = catalog.resolve_name("model", given, self.document.place(("model",)), "model")
            self.assumed.append(f"model {given}: catalog entry {name}")
            return self._model_of(catalog.load("model", name), "", name)
        if path.is_dir() or path.suffix == ".json":
            if self.importer is None:
                raise SpecError(Problem(f"{path} is no YAML file", self.document.place(("model",)), "model"))
            self.assumed.append(f"model {given}: Hugging Face config {path}")
            return self._model_of(from_mapping(self.importer(path), str(path)), "", path.stem)
        self.assumed.append(f"model {given}: file {path}")
        return self._model_of(read_yaml(path), "", path.stem)

    def _file(self, given: str) -> Path | None:
        """Return the file that a name means: as it stands, beside the scenario, or with .yaml behind it.

        A scenario is no model: ``model: gpt`` in gpt.yaml means the catalog's gpt, not the file itself.
        """
        for folder in dict.fromkeys((Path(), Path(self.document.source).parent)):
            for name in (given, f"{given}.yaml"):
                path = folder / name
                if (path / "config.json").is_file() or (path.is_file() and path.suffix == ".json"):
                    return path
                yaml_file = path.suffix in (".yaml", ".yml") and path.is_file()
                if yaml_file and (name == given or self._is_model(path)):
                    return path
        if given.endswith((".yaml", ".yml", ".json")) or given.startswith((".", "/")):
            raise SpecError(Problem(f"no such file: {given}", self.document.place(("model",)), "model"))
        return None

    def _is_model(self, path: Path) -> bool:
        if path.resolve() == Path(self.document.source).resolve():
            return False
        data = read_yaml(path).data
        return isinstance(data, dict) and "family" in data

    def _model_of(self, document: Document, prefix: str, name: str) -> ModelSpec:
        data = document.data
        if not isinstance(data, dict) or "family" not in data:
            found = "no 'family' key" if isinstance(data, dict) else f"a {type(data).__name__}"
            from roofsim.spec.families.registry import FAMILIES

            raise SpecError(
                Problem(
                    f"expected a model with a family; found {found}",
                    document.place(()),
                    prefix,
                    f"Families: {', '.join(FAMILIES)}.",
                )
            )
        try:
            schema = family_schema(str(data["family"]))
        except SpecError as error:
            problem = error.problems[0]
            raise type(error)(Problem(problem.message, document.place(("family",)), "family", problem.hint)) from None
        return validate(schema, Document({"name": name, **data}, document.source, document.places), prefix=prefix)

    # -- engine and precision -----------------------------------------------------------------------------------

    def engine(self, workload: Workload) -> Engine:
        """Find the engine and apply the scenario's facts to it."""
        place = self.document.place(("workload", "engine"))
        document = catalog.load("engine", workload.engine, place, "workload.engine")
        facts = dict(workload.engine_facts)
        if workload.attention is not None:
            facts["attention"] = workload.attention
        if workload.memory_format is not None:
            facts["memory_format"] = workload.memory_format
        for key, value in facts.items():
            at = self.document.place(("workload", "engine_facts", key))
            if key not in Engine.model_fields or key in ("name", "schema_version", "sources", "aliases"):
                raise SpecError(
                    Problem(
                        f"unknown engine fact {key!r}",
                        at,
                        "workload.engine_facts",
                        did_you_mean(key, Engine.model_fields),
                    )
                )
            document = _with(document, (key,), value, at)
        return validate(Engine, document, prefix="workload.engine_facts" if facts else "")

    def precision(self, workload: Workload, engine: Engine, gpu: Gpu) -> Precision:
        """Resolve the precision; left out, it is the widest-used 16-bit type that the card has."""
        wanted = workload.precision
        if wanted is None:
            wanted = next((name for name in ("bf16", "fp16") if name in gpu.peak), "fp32")
            self.assumed.append(f"precision: {wanted}")
        try:
            return resolve_precision(wanted, recipe=engine.precision_recipe, gradient_type=engine.gradient_type)
        except SpecError as error:
            problem = error.problems[0]
            place = self.document.place(("workload", "precision"))
            raise SpecError(Problem(problem.message, place, problem.path, problem.hint)) from None

    # -- hardware -----------------------------------------------------------------------------------------------

    def hardware(self, scenario: Scenario) -> tuple[Gpu, System]:
        """Find the card and its node, with what-if values put in."""
        override = self._overrides(scenario.hardware.override)
        document = self._gpu_document(scenario.hardware.gpu)
        for path, value, place in override["gpu"]:
            document = _with(document, path, value, place)
        gpu = validate(Gpu, document, prefix="gpu")
        system = self._system_document(scenario.hardware.system, gpu)
        for path, value, place in override["system"]:
            system = _with(system, path, value, place)
        return gpu, validate(System, system, prefix="system")

    def _overrides(self, override: dict[str, Any]) -> dict[str, list[tuple[tuple[str, ...], Any, Place]]]:
        found: dict[str, list[tuple[tuple[str, ...], Any, Place]]] = {"gpu": [], "system": []}
        for key, value in _flat(override):
            head, *rest = key.split(".")
            place = self.document.place(("hardware", "override", key))
            if head not in found or not rest:
                raise SpecError(
                    Problem(
                        f"cannot override {key!r}",
                        place,
                        "hardware.override",
                        "Paths begin with gpu. or system., for example gpu.memory.bandwidth: 3 TB/s.",
                    )  # fmt: skip
                )
            if rest[0] in ("name", "schema", "sources", "aliases", "architecture", "vendor", "gpu", "topology"):
                raise SpecError(Problem(f"{key} is no quantity that can be overridden", place, "hardware.override"))
            found[head].append((tuple(rest), value, place))
        return found

    def _gpu_document(self, given: str | dict[str, Any]) -> Document:
        place = self.document.place(("hardware", "gpu"))
        if isinstance(given, str):
            name = catalog.resolve_name("gpu", given, place, "hardware.gpu")
            if catalog.normal(given) != name:
                self.assumed.append(f"gpu {given}: {name}")
            return catalog.load("gpu", name)
        inline = self.document.part(("hardware", "gpu"), dict(given))
        inherits = inline.data.pop("inherits", "none")
        if inherits in ("none", None):
            defaults = {"name": "inline", "vendor": "unknown", "architecture": "generic"}
            return Document({**defaults, **inline.data}, inline.source, inline.places)
        document = catalog.load("gpu", str(inherits), place, "hardware.gpu.inherits")
        for path, value in _leaves(inline.data):
            document = _with(document, path, value, inline.place(path))
        return _with(document, ("name",), given.get("name", f"{inherits} (changed)"), place)

    def _system_document(self, given: str | dict[str, Any] | None, gpu: Gpu) -> Document:
        place = self.document.place(("hardware", "system"))
        if isinstance(given, dict):
            inline = self.document.part(("hardware", "system"), given)
            return Document(
                {"name": "inline", "gpus_per_node": 1, "topology": "single", **given}, inline.source, inline.places
            )
        name = given or gpu.usual_system
        if name is None:
            self.assumed.append("system: a single-GPU host without stated links")
            return from_mapping({"name": "unstated", "gpus_per_node": 1, "topology": "single"}, "system")
        if given is None:
            self.assumed.append(f"system: {name}, the usual one of {gpu.name}")
        return catalog.load("system", name, place, "hardware.system")

    def architecture(self, gpu: Gpu) -> Architecture:
        """Load what the card's generation achieves of its datasheet."""
        place = self.document.place(("hardware", "gpu"))
        document = catalog.load("architecture", gpu.architecture, place, "gpu.architecture")
        return validate(Architecture, document)

    def refuse_sparse_peaks(self, given: str | dict[str, Any], gpu: Gpu, architecture: Architecture) -> None:
        """Refuse an inline card whose 16-bit peak is more than its units can do per clock: a sparse figure."""
        if isinstance(given, str) or architecture.flops_per_clock is None:
            return
        for dtype in ("fp16", "bf16"):
            rate = gpu.flops_per_clock(dtype)
            if rate is not None and rate > SPARSE_SUSPICION * architecture.flops_per_clock:
                dense = gpu.peak[dtype] * architecture.flops_per_clock / rate
                raise SpecError(
                    Problem(
                        f"{humanize(gpu.peak[dtype], 'FLOP/s', 4)} is {rate / architecture.flops_per_clock:.1f} times what "
                        f"{gpu.compute_units} {architecture.name} units do at {humanize(gpu.clock.boost if gpu.clock else 0.0, 'Hz', 4)}",
                        self.document.place(("hardware", "gpu", "peak", dtype)), f"hardware.gpu.peak.{dtype}",
                        f"That looks like a figure with sparsity; state the dense one, {humanize(dense, 'FLOP/s', 3)}.",
                    )  # fmt: skip
                )

    # -- sizes --------------------------------------------------------------------------------------------------

    def workload(self, given: Workload, parallel: Parallel, model: ModelSpec, gpus: int) -> Workload:
        """Write out batch and lengths, and check what must divide what."""
        from roofsim.spec.sizes import complete_workload

        completed, notes, warnings = complete_workload(given, parallel, model, gpus, self.document)
        self.assumed += notes
        self.warnings += warnings
        return completed

    def parallel(self, given: Parallel, gpus: int) -> Parallel:
        """Check that the layout is one that this version prices: one GPU."""
        degrees = {name: getattr(given, name) for name in ("tensor", "pipeline", "context", "expert", "virtual_stages")}
        degrees["data"] = given.data or 1
        for name, degree in degrees.items():
            if degree > 1:
                raise SpecError(
                    Problem(
                        f"{name} {degree} needs more than one GPU, which this version does not price",
                        self.document.place(("parallel", name)),
                        f"parallel.{name}",
                        "Leave it out, or 1.",
                    )  # fmt: skip
                )
        if gpus > 1:
            raise SpecError(
                Problem(
                    f"{gpus} GPUs: this version prices one",
                    self.document.place(("hardware", "gpus")),
                    "hardware.gpus",
                    "Leave it out, or 1.",
                )  # fmt: skip
            )
        moved = [name for name, where in given.offload.model_dump().items() if where != "none"]
        if moved:
            place = self.document.place(("parallel", "offload", moved[0]))
            raise SpecError(Problem("offload is not priced by this version", place, f"parallel.offload.{moved[0]}"))
        return given.model_copy(update={"data": 1})


class _Collector:
    """Run several checks and raise all their problems together at the end."""

    def __init__(self) -> None:
        self.errors: list[SpecError] = []

    def __enter__(self) -> Self:
        return self

    def of(self, check: Callable[[], T]) -> T | None:
        """Return what a check gives, or note its problems."""
        try:
            return check()
        except SpecError as error:
            self.errors.append(error)
            return None

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            raise SpecError([problem for error in self.errors for problem in error.problems])


def _with(document: Document, path: tuple[Any, ...], value: Any, place: Place) -> Document:
    return document.with_value(path, value, place)


def _flat(mapping: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Write nested override mappings as dotted paths."""
    pairs: list[tuple[str, Any]] = []
    for key, value in mapping.items():
        if isinstance(value, dict):
            pairs += _flat(value, f"{prefix}{key}.")
        else:
            pairs.append((f"{prefix}{key}", value))
    return pairs


def _leaves(data: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    found: list[tuple[tuple[str, ...], Any]] = []
    for key, value in data.items():
        if isinstance(value, dict):
            found += _leaves(value, (*path, key))
        else:
            found.append(((*path, key), value))
    return found
