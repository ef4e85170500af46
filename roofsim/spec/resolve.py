"""Resolve a scenario: find what it names, apply overrides, write out every default, and say what was assumed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from roofsim.errors import Problem, SpecError, did_you_mean
from roofsim.spec import catalog
from roofsim.spec.context import complete_context
from roofsim.spec.encoder_attention import with_encoder_attention
from roofsim.spec.engine import Engine
from roofsim.spec.families.registry import family_schema
from roofsim.spec.find_hardware import find_hardware, joined, places
from roofsim.spec.layout import check_layout, complete_parallel
from roofsim.spec.loads import check_loads
from roofsim.spec.offload import check_offload, host_memory
from roofsim.spec.precision import Precision, Stack, resolve_precision
from roofsim.spec.running import Reliability, check_running, reliability_of
from roofsim.spec.sized import sized
from roofsim.spec.source import Document, from_mapping, is_file, is_folder, read_yaml
from roofsim.spec.validate import validate
from roofsim.spec.workload import Parallel, Scenario, Workload

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.spec.architecture import Architecture
    from roofsim.spec.constants import Constants
    from roofsim.spec.families.base import ModelSpec
    from roofsim.spec.hardware import Gpu, System

T = TypeVar("T")


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
    constants: Constants
    assumed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    override: dict[str, Any] = field(default_factory=dict)
    reliability: Reliability = field(default_factory=Reliability)
    places: int = 1
    """Cards that one node has room for; where nobody states a host, what hosts of inference have."""


class Resolver:
    """Resolve one document; collects what it had to assume on the way."""

    def __init__(self, document: Document, importer: Callable[[Path], dict[str, Any]] | None = None) -> None:
        self.document = document
        self.importer = importer
        path = Path(document.source)
        self.assumed: list[str] = [f"scenario: file {path}"] if path.suffix in (".yaml", ".yml") else []
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
            scenario = self._of_pipeline(scenario, model)
            engine = problems.of(lambda: self.engine(scenario.workload))
            hardware = problems.of(lambda: find_hardware(scenario.hardware, self.document))
            parallel = problems.of(lambda: self.parallel(scenario.parallel, scenario.hardware.gpus))
        assert model is not None
        assert engine is not None
        assert hardware is not None
        assert parallel is not None
        most = hardware.system.gpus_per_node
        if scenario.workload.phase != "train":
            most = places(hardware, scenario.hardware)
            hardware = joined(hardware, scenario.hardware, parallel.gpus)
        self.assumed += hardware.assumed
        precision = self.precision(scenario.workload, engine, hardware.gpu)
        workload = self.workload(scenario.workload, parallel, model)
        engine = with_encoder_attention(engine, model, workload, hardware.architecture.name, precision)
        check_layout(parallel, model, workload, self.document)
        parallel = self.sharding(parallel, engine, workload.phase)
        self.serving(parallel, engine, workload.phase)
        parallel, notes = complete_context(parallel, engine, model, workload, self.document)
        self.assumed += notes
        check_offload(parallel, workload, hardware.system, hardware.gpu, model, engine, self.document)
        system, notes = host_memory(hardware.system, parallel, engine, workload.phase)
        self.assumed += notes
        reliability = reliability_of(scenario.hardware, parallel.gpus, self.document, self.assumed)
        check_running(workload, reliability, hardware.system, self.document)
        return Resolved(
            model=model,
            workload=workload,
            parallel=parallel,
            gpu=hardware.gpu,
            gpus=parallel.gpus,
            system=system,
            engine=engine,
            architecture=hardware.architecture,
            precision=precision,
            constants=hardware.constants,
            assumed=tuple(self.assumed),
            warnings=tuple(self.warnings),
            override=scenario.hardware.override,
            reliability=reliability,
            places=most,
        )

    def _of_pipeline(self, scenario: Scenario, model: ModelSpec | None) -> Scenario:
        """Take generate for what makes images of a diffusion pipeline: one pass of all its steps, its forward."""
        if model is None or not hasattr(model, "num_inference_steps") or scenario.workload.phase != "generate":
            return scenario
        self.assumed.append("phase: forward, which of a diffusion pipeline is all that makes its images")
        workload = scenario.workload.model_copy(update={"phase": "forward"})
        return scenario.model_copy(update={"workload": workload})

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
        shape = None if path is not None else sized(given)
        if shape is not None:
            self.assumed.append(f"model {given}: {shape.sentence()}")
            return self._model_of(from_mapping(shape.mapping(given.strip()), "<size>"), "", given)
        if path is None:
            name = catalog.resolve_name("model", given, self.document.place(("model",)), "model")
            self.assumed.append(f"model {given}: catalog entry {name}")
            return self._model_of(catalog.load("model", name), "", name)
        if is_folder(path) or path.suffix == ".json":
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
                if is_file(path / "config.json") or (is_file(path) and path.suffix == ".json"):
                    return path
                yaml_file = path.suffix in (".yaml", ".yml") and is_file(path)
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
            document = document.with_value((key,), value, at)
        engine = validate(Engine, document, prefix="workload.engine_facts" if facts else "")
        if workload.phase not in engine.phases:
            able = [name for name in catalog.names("engine") if workload.phase in _phases(name)]
            message = f"engine {engine.name} does not run phase {workload.phase}; it runs {', '.join(engine.phases)}"
            hint = f"Choose one of these phases, or an engine that runs {workload.phase}: {', '.join(able)}."
            raise SpecError(Problem(message, place, "workload.engine", hint))
        return engine

    def precision(self, workload: Workload, engine: Engine, gpu: Gpu) -> Precision:
        """Resolve the precision; left out, it is the widest-used 16-bit type that the card has."""
        wanted = workload.precision
        if wanted is None:
            wanted = next((name for name in ("bf16", "fp16") if name in gpu.peak), "fp32")
            self.assumed.append(f"precision: {wanted}")
        try:
            found = resolve_precision(
                wanted,
                recipe=engine.precision_recipe,
                gradient_type=engine.gradient_type,
                stack=_stack(workload.phase, engine, gpu),
            )
        except SpecError as error:
            problem = error.problems[0]
            place = self.document.place(tuple(problem.path.split(".")))
            raise SpecError(Problem(problem.message, place, problem.path, problem.hint)) from None
        self.assumed += found.notes
        if found.weights is not None and workload.phase != "train":
            place = self.document.place(("workload", "precision"))
            self.warnings += check_loads(engine, found.weights, gpu.architecture, place)
        return found

    # -- sizes --------------------------------------------------------------------------------------------------

    def workload(self, given: Workload, parallel: Parallel, model: ModelSpec) -> Workload:
        """Write out batch and lengths, and check what must divide what."""
        from roofsim.spec.sizes import complete_workload

        completed, notes, warnings = complete_workload(given, parallel, model, self.document)
        self.assumed += notes
        self.warnings += warnings
        return completed

    def parallel(self, given: Parallel, gpus: int | None) -> Parallel:
        """Write out the data-parallel degree and check that the degrees multiply to the GPUs."""
        completed = complete_parallel(given, gpus, self.document)
        if gpus is None and completed.gpus > 1:
            self.assumed.append(f"gpus: {completed.gpus}, what the layout needs")
        return completed

    def sharding(self, given: Parallel, engine: Engine, phase: str) -> Parallel:
        """Write out what is sharded: left out, it is what the engine is for."""
        if given.sharding is not None:
            return given
        own = "full" if engine.precision_recipe == "sharded" and phase == "train" and (given.data or 1) > 1 else "none"
        if own != "none":
            self.assumed.append(f"sharding: {own}, as {engine.name} does")
        return given.model_copy(update={"sharding": own})

    def serving(self, parallel: Parallel, engine: Engine, phase: str) -> None:
        """Say what is taken of pipelines and experts of inference where nobody states it; refuse what the engine has not."""
        if phase == "train":
            return
        if parallel.tensor > 1 and not engine.tensor_parallel:
            message = f"engine {engine.name} does not split layers over tensor ranks"
            hint = f"Deal layers out to cards: pipeline: {parallel.tensor}."
            path = ("parallel", "tensor")
            raise SpecError(Problem(message, self.document.place(path), ".".join(path), hint))
        if parallel.pipeline > 1 and "serving_pipeline" not in engine.model_fields_set:
            self.assumed.append(f"pipeline: {engine.name} does not say how batches go through stages; as one")
        if parallel.expert > 1 and parallel.expert_imbalance == 1.0:
            self.assumed.append("expert_imbalance: 1, every expert gets as many tokens")


def _stack(phase: str, engine: Engine, gpu: Gpu) -> Stack:
    """Return what a card and an engine make of a precision name."""
    return Stack(
        phase=phase,
        gpu=gpu.name,
        arithmetic=tuple(dict.fromkeys((*gpu.peak, *gpu.vector_peak))),
        engine=engine.name,
        sixteen="bf16" if engine.default_precision == "bf16" else "fp16",
        meanings=engine.weight_formats,
        expands=engine.expands_foreign_formats,
    )


def _phases(engine: str) -> tuple[str, ...]:
    return validate(Engine, catalog.load("engine", engine)).phases


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
