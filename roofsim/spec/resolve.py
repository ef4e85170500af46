"""Resolve a scenario: find what it names, apply overrides, write out every default, and say what was assumed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofsim.errors import Problem, SpecError, UnknownNameError
from roofsim.records import dataclass, field, replace
from roofsim.spec import catalog
from roofsim.spec.engine.facts import for_all_cards
from roofsim.spec.engine.find import check_card, check_phase, choose, handed_over, said_of
from roofsim.spec.engine.schema import Engine
from roofsim.spec.mechanisms import ALL, Mechanisms
from roofsim.spec.model.read import read_model
from roofsim.spec.model.registry import family_schema
from roofsim.spec.model.sized import sized
from roofsim.spec.naming import SUFFIXES, file_hint, named_file
from roofsim.spec.precision.roles import Precision
from roofsim.spec.reading.collector import Collector
from roofsim.spec.reading.foreign import check_named, is_capture, is_program
from roofsim.spec.reading.source import Document, from_mapping, is_folder
from roofsim.spec.reading.spoken import INFERENCE
from roofsim.spec.reading.told_apart import read_request
from roofsim.spec.reading.validate import validate
from roofsim.spec.rules.degrees import complete_degrees
from roofsim.spec.rules.layouts import check_layout
from roofsim.spec.rules.rule import Checks, ScenarioCase
from roofsim.spec.rules.served import SERVED
from roofsim.spec.rules.tables import copies_part
from roofsim.spec.scenario.point import Point
from roofsim.spec.scenario.running import Reliability
from roofsim.spec.scenario.workload import HardwareChoice, Parallel, Scenario, Workload
from roofsim.spec.settle.context import complete_context
from roofsim.spec.settle.encoder_attention import with_encoder_attention
from roofsim.spec.settle.hardware import find_hardware, flat_override, overlay_path
from roofsim.spec.settle.inherited import parent_of, with_changes
from roofsim.spec.settle.offload import check_offload, host_memory
from roofsim.spec.settle.plugged import plugged_parts
from roofsim.spec.settle.precision import choose_precision
from roofsim.spec.settle.running import check_running, reliability_of
from roofsim.spec.settle.sizes import complete_workload
from roofsim.spec.settle.stated import as_model_says, chosen, unstated

if TYPE_CHECKING:
    from roofsim.spec.constants.kernels import Constants
    from roofsim.spec.engine.facts import Stated
    from roofsim.spec.hardware.architecture import Architecture
    from roofsim.spec.hardware.schema import Gpu, System
    from roofsim.spec.model.base import ModelSpec
    from roofsim.spec.precision.stored_weights import StoredWeights
    from roofsim.spec.reading.told_apart import Importer
    from roofsim.spec.settle.hardware import Hardware


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A scenario with everything found and every default written out, or several that differ in numbers alone."""

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
    reliability: Reliability
    assumed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    override: dict[str, Any] = field(default_factory=dict)
    origins: tuple[tuple[str, str], ...] = ()
    """What was read, and from where: the scenario, the model, constants of the card."""
    places: int = 1
    """Cards that one node has room for; where nobody states one, those of the card's usual box."""
    choice: HardwareChoice = field(default_factory=HardwareChoice)  # the hardware as the scenario states it
    mechanisms: Mechanisms = ALL  # what pricing takes into account: everything, but in an ablation
    points: int = 1
    """Scenarios that it stands for: numbers in which they differ are `Points`, one element for each."""

    @property
    def hardware_changed(self) -> bool:
        """Whether a what-if changes a number that time depends on: any but a price."""
        return any(path.split(".")[1:2] != ["price"] for path, _ in flat_override(self.override))


class Resolver:
    """Resolve one document; collects what it had to assume on the way."""

    def __init__(self, document: Document, importer: Importer | None = None) -> None:
        self.document = document
        self.checks = Checks(document)
        self.importer = importer
        path = Path(document.source)
        named = isinstance(document.data, dict) and document.data.get("model") == document.source  # a config.json alone
        self.assumed: list[str] = []
        self.origins = [("scenario", f"file {path}")] if path.suffix.lower() in SUFFIXES and not named else []
        self.warnings: list[str] = []
        self.engine_label = ""
        self.si = isinstance(document.data, dict) and document.data.get("units") == "SI"

    def run(self) -> Resolved:
        """Return the resolved scenario.

        Raises
        ------
        SpecError
            With every problem of a section that is wrong.
        """
        scenario = self._scenario()
        return self.settled(scenario, Point.of(scenario.parallel, scenario.workload, scenario.hardware.gpus))

    def settled(self, scenario: Scenario, point: Point) -> Resolved:
        """Return the scenario with these numbers, resolved; they may be those of several points.

        Raises
        ------
        SpecError
            With every problem of a section that is wrong.
        """
        with Collector() as problems:
            model = problems.of(lambda: self.model(scenario.model))
            scenario = as_model_says(scenario, model, self.document)
            self.note_unstated(scenario)
            scenario = self._of_pipeline(scenario, model)
            scenario = self._of_stack(scenario, model)
            engine = problems.of(lambda: self.engine(scenario.workload))
            degrees = problems.of(lambda: self.degrees(point, scenario))
            hardware = problems.of(lambda: self.hardware(scenario.hardware, 1 if degrees is None else degrees.gpus))
        assert model is not None
        assert engine is not None
        assert hardware is not None
        assert degrees is not None
        self.assumed += hardware.assumed
        check_card(engine, hardware.gpu, model.family, scenario.workload, self.document.place(("workload", "engine")))
        precision = self.precision(scenario.workload, engine, hardware, model.stored)
        words = scenario.workload.model_copy(update={"engine": self.engine_label})
        case = self.workload(
            ScenarioCase(
                point=degrees,
                parallel=scenario.parallel,
                workload=words,
                model=model,
                traits=model.traits(),
                engine=engine,
            )
        )
        workload = case.point.batch(case.workload)
        engine = with_encoder_attention(engine, model, workload, hardware.architecture.name, precision)
        check_layout(case, self.checks)
        case = self.sharding(replace(case, engine=engine))
        self.serving(case)
        self.warnings += [] if self.checks.quiet else copies_part(case)
        case, notes = complete_context(case, self.checks)
        self.assumed += notes
        parallel = case.point.layout(case.parallel)
        check_offload(parallel, workload, hardware.system, hardware.gpu, model, engine, self.document)
        system, notes = host_memory(
            hardware.system, parallel, engine, workload.phase, hardware.constants.physics["desktop_memory"]
        )
        self.assumed += notes
        reliability = reliability_of(
            scenario.hardware, degrees.gpus, self.document, self.assumed, hardware.constants.physics["usual_restart"]
        )
        check_running(workload, reliability, hardware.system, self.document)
        return Resolved(
            model=model,
            workload=workload,
            parallel=parallel,
            gpu=hardware.gpu,
            gpus=degrees.gpus,
            system=system,
            engine=engine,
            architecture=hardware.architecture,
            precision=precision,
            constants=hardware.constants,
            assumed=tuple(self.assumed),
            warnings=tuple(self.warnings),
            origins=(*self.origins, *hardware.origins, *plugged_parts(scenario, model, hardware.gpu, system, engine)),
            override=scenario.hardware.override,
            reliability=reliability,
            places=hardware.places,
            choice=self._choice(scenario.hardware),
        )

    def _choice(self, given: HardwareChoice) -> HardwareChoice:
        """Return the hardware as stated, its overlay as it is found from the working directory."""
        path = None if given.calibration is None else overlay_path(given.calibration, self.document)
        return given if path is None else given.model_copy(update={"calibration": str(path)})

    def _of_pipeline(self, scenario: Scenario, model: ModelSpec | None) -> Scenario:
        """Take inference for what it is of this model, and generate of a diffusion pipeline for its forward pass."""
        if scenario.workload.phase == INFERENCE:
            phase = "generate" if model is not None and model.generates else "forward"
            self.assumed.append(f"phase: {phase}, the inference of this model")
            scenario = scenario.model_copy(update={"workload": scenario.workload.model_copy(update={"phase": phase})})
        if model is None or not model.networks or scenario.workload.phase != "generate":
            return scenario
        self.assumed.append("phase generate: forward, which of a diffusion pipeline is all that makes its images")
        return scenario.model_copy(update={"workload": scenario.workload.model_copy(update={"phase": "forward"})})

    def _of_stack(self, scenario: Scenario, model: ModelSpec | None) -> Scenario:
        """Take an engine that runs models which generate for its sibling that runs the others, where this is one of those."""
        asked = scenario.workload.engine
        if model is None or model.generates or (name := handed_over(asked, self.document.place(()))) is None:
            return scenario
        self.warnings.append(said_of(asked, name))
        return scenario.model_copy(update={"workload": scenario.workload.model_copy(update={"engine": name})})

    def _scenario(self) -> Scenario:
        """Check the scenario; where keys are wrong, look up the names as well, so that all problems come at once."""
        try:
            return validate(Scenario, self.document, si=self.si)
        except SpecError as error:
            raise SpecError([*error.problems, *self.wrong_names()]) from None

    def wrong_names(self) -> list[Problem]:
        """Return what is wrong with the names of engine, card and system, whatever else is wrong."""
        places: dict[catalog.Kind, tuple[str, ...]] = {
            "engine": ("workload", "engine"), "gpu": ("hardware", "gpu"), "system": ("hardware", "system"),
        }  # fmt: skip
        problems: list[Problem] = []
        for kind, path in places.items():
            at: Any = self.document.data
            for part in path:
                at = at.get(part) if isinstance(at, dict) else None
            if isinstance(at, str):
                try:
                    name = at.partition("@")[0].partition("+")[0] if kind == "engine" else at
                    catalog.resolve_name(kind, name, self.document.place(path), ".".join(path))
                except SpecError as error:
                    problems += error.problems
        return problems

    # -- model --------------------------------------------------------------------------------------------------

    def model(self, given: str | dict[str, Any]) -> ModelSpec:
        """Find the model: an inline mapping, a file, a Hugging Face config, or a catalog name."""
        return self._inline(given) if isinstance(given, dict) else self._model_of(*self._named_model(given))

    def _named_model(self, given: str) -> tuple[Document, str, str]:
        """Return what describes a model that is named, what stands before its keys in messages, and its name."""
        path = self._file(given)
        shape = None if path is not None else sized(given)
        if shape is not None:
            self.assumed.append(f"model {given}: {shape.sentence()}")
            self.origins.append(("model", f"a shape of {given}"))
            return from_mapping(shape.mapping(given.strip()), "<size>"), "", given
        if path is None:
            name = self._model_name(given)
            self.assumed += chosen("model", given, name)
            self.origins.append(("model", catalog.origin("model", name)))
            return catalog.load("model", name), "", name
        ours = None if is_folder(path) else read_request(path)
        if ours is None or ours.data == {"model": str(path)}:
            self.origins.append(("model", f"{'program' if is_program(path) else 'Hugging Face config'} {path}"))
            return self._imported(path, str(path)), "", path.stem
        self.origins.append(("model", f"file {path}"))
        return ours, "", path.stem

    def _inline(self, given: dict[str, Any]) -> ModelSpec:
        if "inherits" in given:
            return self._inherited(given)
        self.origins.append(("model", "stated in the scenario"))
        if "family" not in given and ("model_type" in given or is_capture(given)):
            return self._model_of(self._imported(given, self.document.source), "", "inline")
        return self._model_of(self.document.part(("model",), given), "model", "inline")

    def _inherited(self, given: dict[str, Any]) -> ModelSpec:
        """Return a named model with some of its fields changed."""
        document, _, name = self._named_model(parent_of(given, self.document))
        return self._model_of(with_changes(document, name, given, self.document), "model", name)

    def _imported(self, given: Path | dict[str, Any], where: str) -> Document:
        """Return the model of a Hugging Face configuration, and note what its reader took and left out."""
        if self.importer is None:
            message = f"{where} is not a model that roofsim builds"
            raise SpecError(Problem(message, self.document.place(("model",)), "model"))
        imported = self.importer(given, where)
        self.assumed += imported.assumed
        self.warnings += imported.warnings
        return from_mapping(imported.mapping, where)

    def _model_name(self, given: str) -> str:
        """Return the catalog name of a model; where there is none, but a file of that name, say how it is named."""
        place = self.document.place(("model",))
        try:
            return catalog.resolve_name("model", given, place, "model")
        except UnknownNameError as error:
            hint = file_hint(given, (Path(), Path(self.document.source).parent))
            if not hint:
                raise
            raise UnknownNameError(Problem(error.problems[0].message, place, "model", hint)) from None

    def _file(self, given: str) -> Path | None:
        """Return the file that a model names, in the working directory or beside the scenario; None for a catalog name."""
        folders = tuple(dict.fromkeys((Path(), Path(self.document.source).parent)))
        check_named(given, folders)
        return named_file(given, folders, place=self.document.place(("model",)), path="model")

    def _model_of(self, document: Document, prefix: str, name: str) -> ModelSpec:
        data = document.data
        if not isinstance(data, dict) or "family" not in data:
            got = "no 'family' key" if isinstance(data, dict) else f"a {type(data).__name__}"
            from roofsim.spec.model.registry import FAMILIES

            raise SpecError(
                Problem(
                    f"expected a model with a family; found {got}",
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
        model = read_model(schema, document.named(name), prefix)
        self.warnings += model.caveats()
        return model

    def hardware(self, choice: HardwareChoice, gpus: int) -> Hardware:
        """Find the card and the node for so many GPUs."""
        return find_hardware(choice, self.document, gpus)

    def engine(self, workload: Workload) -> Engine:
        """Find the engine and apply the scenario's facts to it."""
        place = self.document.place(("workload", "engine"))
        precision = (
            workload.precision if isinstance(workload.precision, str) else None
        )  # a mapping states every type itself
        chosen = choose(workload.engine, place, precision)
        self.assumed += chosen.notes
        self.engine_label = chosen.label
        stated = self._with_facts(chosen.stated, workload)
        overridden = workload.engine_facts or workload.attention or workload.memory_format
        engine = stated.read(Engine, prefix="workload.engine_facts" if overridden else "", si=self.si)
        check_phase(engine, workload.phase, place)
        return engine

    def _with_facts(self, stated: Stated, workload: Workload) -> Stated:
        """Return the engine with the facts of the scenario; those with a key of their own in the workload come last."""
        place = self.document.place
        stated = stated.with_facts(
            Engine,
            for_all_cards(Engine, workload.engine_facts),
            lambda keys: place(("workload", "engine_facts", *keys)),
            "workload.engine_facts",
        )
        own = {key: getattr(workload, key) for key in ("attention", "memory_format")}
        own = {key: value for key, value in own.items() if value is not None}
        return stated.with_facts(Engine, own, lambda keys: place(("workload", *keys)))

    def precision(self, workload: Workload, engine: Engine, card: Hardware, stored: StoredWeights | None) -> Precision:
        """Resolve the precision; left out, it is the checkpoint's own, or the widest-used 16-bit type that the card has."""
        precision, assumed, warnings = choose_precision(workload, engine, card, stored, self.document)
        self.assumed += assumed
        self.warnings += warnings
        return precision

    def note_unstated(self, scenario: Scenario) -> None:
        """Note the defaults that decide what is run."""
        self.assumed += unstated(scenario, self.document)

    def workload(self, case: ScenarioCase) -> ScenarioCase:
        """Write out batch and lengths, and check what must divide what."""
        point, words, notes, warnings = complete_workload(case, self.checks)
        self.assumed += notes
        self.warnings += warnings
        return replace(case, point=point, workload=words)

    def degrees(self, stated: Point, scenario: Scenario) -> Point:
        """Write out the data-parallel degree and check that the degrees multiply to the GPUs."""
        completed = complete_degrees(stated, scenario.parallel, self.checks)
        if not self.checks.quiet and stated.gpus is None and completed.gpus > 1:
            self.assumed.append(f"gpus: {completed.gpus}, what the layout needs")
        return completed

    def sharding(self, case: ScenarioCase) -> ScenarioCase:
        """Write out what is sharded: left out, it is what the engine is for."""
        given, engine = case.parallel, case.engine
        if given.sharding is not None:
            return case
        shards = engine.precision.recipe == "sharded" and case.workload.phase == "train" and case.point.data > 1
        if shards:
            self.assumed.append(f"sharding: full, as {engine.name} does")
        return replace(case, parallel=given.model_copy(update={"sharding": "full" if shards else "none"}))

    def serving(self, case: ScenarioCase) -> None:
        """Say what is taken of pipelines of inference where nobody states it; refuse what the engine has not."""
        self.checks.hold(SERVED, case)
        if case.workload.phase == "train" or self.checks.quiet:
            return
        if case.point.pipeline > 1 and "pipeline" not in case.engine.schedule.model_fields_set:
            name = case.engine.name
            self.assumed.append(f"serving_pipeline: {name} does not say how batches go through stages; as one")
