"""Describe engines: the facts of a software stack that decide what is fused, kept and launched."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from roofsim.errors import did_you_mean
from roofsim.schema.base import Field, model_validator
from roofsim.spec import catalog
from roofsim.spec.engine.attention import AttentionFacts
from roofsim.spec.engine.facts import Stated, in_groups, leaves, path_of, paths
from roofsim.spec.engine.kernels import ConvolutionFacts, ExpertFacts, FusionFacts, KernelFacts
from roofsim.spec.engine.matmul import MatmulFacts
from roofsim.spec.engine.ranks import CommunicationFacts, DataParallelFacts, LayoutChoices
from roofsim.spec.engine.running import CacheFacts, LaunchFacts, MemoryFacts, OffloadFacts, ScheduleFacts
from roofsim.spec.engine.server import ServerFacts
from roofsim.spec.engine.state import PrecisionFacts, TrainingFacts
from roofsim.spec.engine.versions import NO_FACTS, Releases
from roofsim.spec.precision.formats import FORMATS, FormatFamily, format_family, weight_format
from roofsim.spec.precision.roles import NAMES, known_precision, unknown_precision
from roofsim.spec.strict import Strict

if TYPE_CHECKING:
    from roofsim.spec.reading.source import Document

Phase = Literal["train", "forward", "prefill", "decode", "generate"]

ALL_PHASES: Final = ("train", "forward", "prefill", "decode", "generate")


class HandsOver(Strict):
    """Engines of the same stack that run what this one does not."""

    generating: str | None = Field(default=None, description="The one for models that generate token by token.")
    others: str | None = Field(
        default=None, description="The one for models that do not; asked for one, this engine stands for that."
    )


class Engine(Releases):
    """Facts of a software stack, in groups. A wrong one costs more than all constants together, so each has a source.

    A file may state a fact in its group (``fusion: {cross_entropy: fused}``) or by its flat name (``cross_entropy: fused``);
    `roofsim.spec.engine.facts` finds both.
    """

    schema_version: Literal[1] = Field(default=1, alias="schema")
    name: str
    description: str = ""
    aliases: tuple[str, ...] = ()
    phases: tuple[Phase, ...] = Field(
        default=ALL_PHASES, description="What the engine can run; asking for another phase is an error."
    )

    families: tuple[str, ...] = Field(
        default=(),
        description="Families of models that its users run on it; `roofsim advise` proposes it for no others. Empty: any.",
    )

    usual_formats: tuple[FormatFamily, ...] = Field(
        default=(),
        description="Those of `precision.formats` that its users serve models in; `roofsim advise` proposes others only where "
        "none of these is faster. Empty: all.",
    )

    attention: AttentionFacts = Field(default=AttentionFacts(), description="How attention runs.")
    matmul: MatmulFacts = Field(default=MatmulFacts(), description="How GEMMs run.")
    fusion: FusionFacts = Field(default=FusionFacts(), description="What is one kernel, and what a chain of them.")
    experts: ExpertFacts = Field(default=ExpertFacts(), description="How mixtures of experts run.")
    convolution: ConvolutionFacts = Field(default=ConvolutionFacts(), description="How convolutions run.")
    kernels: KernelFacts = Field(default=KernelFacts(), description="What holds for all kernels.")
    launch: LaunchFacts = Field(default=LaunchFacts(), description="How kernels are launched, and what the host takes.")
    precision: PrecisionFacts = Field(default=PrecisionFacts(), description="Types, and weights that it loads.")
    training: TrainingFacts = Field(
        default=TrainingFacts(), description="How a step keeps gradients, updates parameters and recomputes."
    )
    cache: CacheFacts = Field(default=CacheFacts(), description="How keys and values are kept and written.")
    memory: MemoryFacts = Field(
        default=MemoryFacts(), description="What it takes of the device's memory beside the tensors of a step."
    )
    offload: OffloadFacts = Field(default=OffloadFacts(), description="What it does with what is on the host.")
    communication: CommunicationFacts = Field(
        default=CommunicationFacts(), description="How ranks of one replica exchange what they compute."
    )
    data_parallel: DataParallelFacts = Field(
        default=DataParallelFacts(), description="How replicas reduce gradients and share state."
    )
    schedule: ScheduleFacts = Field(
        default=ScheduleFacts(), description="How inference cuts prompts and batches into passes."
    )
    server: ServerFacts | None = Field(
        default=None, description="How it serves; null: static batches. Outside of `serve` not yet priced."
    )

    layouts: LayoutChoices = Field(
        default=LayoutChoices(), description="What its users may choose of a layout; `roofsim plan` tries no more."
    )

    hands_over: HandsOver = Field(
        default=HandsOver(), description="Engines of the same stack that run what this one does not."
    )

    sources: dict[str, str] = Field(default_factory=dict, description="Fact -> where it is known from.")
    notes: str = ""

    @model_validator(mode="after")
    def _known_names(self) -> Self:
        for architecture in (
            *self.attention.generation_on,
            *self.launch.decode_mode_on,
            *self.experts.products_on,
            *self.matmul.never_expands_on,
            *(name for names in self.precision.formats_not_on.values() for name in names),
            *self.kernels.not_on,
        ):
            _check(architecture, tuple(catalog.names("architecture")), "GPU architecture")
        precision = self.precision.default
        if precision is not None and not known_precision(precision):
            raise ValueError(f"unknown precision {precision!r}. {unknown_precision(precision)}")
        for name, meant in self.precision.weight_formats.items():
            _check(name, NAMES, "precision")
            _check(meant, tuple(FORMATS), "weight format")
        if self.cache.block_size is not None and self.cache.storage != "paged":
            raise ValueError(f"cache_block_size goes with key_value_cache: paged, not {self.cache.storage}")
        return self

    @model_validator(mode="after")
    def _known_facts(self) -> Self:
        known = (*paths(Engine), *Engine.model_fields)
        for fact in self.sources:
            if path_of(Engine, fact) is None:
                _check(fact, known, "engine fact")
        for fact in (".".join(keys) for facts in self.changed_facts() for keys, _ in leaves(Engine, facts)):
            path = path_of(Engine, fact)
            if path is None or path[0] in NO_FACTS:
                _check(fact, tuple(name for name in known if name not in NO_FACTS), "engine fact")
        return self

    def takes(self, family: str) -> bool:
        """Tell whether its users run models of a family on it."""
        return not self.families or family in self.families

    def usually_loads(self, precision: str) -> bool:
        """Tell whether its users serve models in a precision; of one without a weight format they do."""
        if not self.usual_formats or weight_format(precision) is None:
            return True
        return format_family(precision) in self.usual_formats

    def facts(self) -> dict[str, Any]:
        """Return all facts as plain data by their flat names, as `engine_facts` of a scenario takes them."""
        data = self.model_dump(exclude=set(NO_FACTS))
        alone = {
            name: value for name, value in data.items() if name not in {path[0] for path in paths(Engine).values()}
        }
        return alone | {name: data[group][leaf] for name, (group, leaf) in paths(Engine).items()}

    def fact(self, name: str) -> Any:
        """Return the fact of a flat or dotted name.

        Raises
        ------
        KeyError
            When there is none.
        """
        path = path_of(Engine, name)
        if path is None:
            raise KeyError(name)
        value: Any = self
        for key in path:
            value = getattr(value, key)
        return value

    def source(self, name: str) -> str:
        """Return where the fact of a flat or dotted name is known from; nothing where nobody says."""
        path = path_of(Engine, name) or (name,)
        ways = (".".join(path[:length]) for length in range(len(path), 0, -1))
        return next((self.sources[way] for way in ways if way in self.sources), "")

    def changed(self, **facts: Any) -> Engine:
        """Return the engine with other facts, by flat name and without any check.

        Raises
        ------
        KeyError
            For a fact that there is not.
        """
        updates: dict[str, dict[str, Any]] = {}
        alone: dict[str, Any] = {}
        for name, value in facts.items():
            path = path_of(Engine, name)
            if path is None or len(path) > 2:
                raise KeyError(name)
            if len(path) == 1:
                alone[name] = value
            else:
                updates.setdefault(path[0], {})[path[1]] = value
        groups = {group: getattr(self, group).model_copy(update=update) for group, update in updates.items()}
        return self.model_copy(update=alone | groups)

    def attention_on(self, architecture: str, *, decodes: bool = False) -> str | None:
        """Return the attention kernel's generation on a GPU architecture, or None where it is not stated."""
        facts = self.attention
        if decodes and facts.decode_generation is not None:
            return facts.decode_generation
        return facts.generation_on.get(architecture, facts.generation)

    def separates_experts(self, architecture: str) -> bool:
        """Tell whether each expert's rows are a product of their own on a GPU architecture."""
        facts = self.experts
        return facts.products_on.get(architecture, facts.products) == "separate"

    def launch_on(self, architecture: str, *, decodes: bool) -> str:
        """Return how kernels are launched on a GPU architecture, in a decode step or another pass."""
        facts = self.launch
        return facts.decode_mode_on.get(architecture, facts.decode_mode or facts.mode) if decodes else facts.mode


def read_engine(document: Document, *, prefix: str = "", si: bool = False) -> Engine:
    """Return the engine that a document describes, its facts in their groups or flat.

    Raises
    ------
    SpecError
        With all problems of the document.
    """
    return stated_engine(document).read(Engine, prefix=prefix, si=si)


def stated_engine(document: Document) -> Stated:
    """Return an engine's document with its facts in their groups.

    Raises
    ------
    SpecError
        For a fact that is stated twice.
    """
    stated = document.once(Stated, lambda: in_groups(Engine, document))
    if document.made is not None and stated.document.made is None:
        stated.document.made = {}  # as long-lived as the file's own
    return stated


@cache
def unnamed() -> Engine:
    """Return an engine of default facts."""
    return Engine(name="unnamed")


@cache
def catalog_engine(name: str) -> Engine:
    """Return an engine of the catalog, as its file says.

    Raises
    ------
    UnknownNameError
        When there is none.
    """
    return read_engine(catalog.load("engine", name))


def _check(name: str, known: tuple[str, ...], what: str) -> None:
    if name not in known:
        raise ValueError(f"unknown {what} {name!r}. {did_you_mean(name, known)}")
