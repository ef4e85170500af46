"""Define what every model schema shares: strict fields, a family, and conversion of sizes to floats."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from roofsim.numeric import real
from roofsim.records import dataclass
from roofsim.schema.base import BeforeValidator, Field
from roofsim.spec.model.traits import Traits
from roofsim.spec.precision.stored_weights import StoredWeights
from roofsim.spec.reading.spoken import whole
from roofsim.spec.strict import Strict
from roofsim.symbols import kind_of, settled

#: A whole number of things, at least one; the upper end keeps float64 exact and catches slips of the finger.
Size = Annotated[int, BeforeValidator(whole), Field(gt=0, le=10**12)]
#: A whole number of things that may be absent.
Count = Annotated[int, BeforeValidator(whole), Field(ge=0, le=10**12)]
#: A small whole number that shapes the graph: it decides structure and cannot be swept.
Depth = Annotated[int, BeforeValidator(whole), Field(gt=0, le=100_000)]
#: A probability of dropping.
Rate = Annotated[float, Field(ge=0.0, lt=1.0)]


@dataclass(frozen=True)
class Wrong:
    """One thing that is wrong with a model: the path of keys to it, what, and the way out."""

    path: tuple[str | int, ...]
    message: str
    hint: str = ""


class ModelSpec(Strict):
    """A model as its family describes it. Fields that are sizes may be replaced by arrays with `with_sizes`.

    What general code asks of a model stands here, with what holds for a family that says nothing: class variables say what a
    family does, `traits` gives the numbers of one model. Nobody asks for a family by its name, or whether a model has a field.
    """

    #: Fields that decide the structure of the graph although they are numbers.
    structural: ClassVar[frozenset[str]] = frozenset()
    #: What a sample is counted in: ``tokens`` or ``images``.
    sample_unit: ClassVar[str] = "tokens"
    #: Whether it generates token by token and keeps a cache: what prefill, decode and generate are for.
    generates: ClassVar[bool] = False
    #: Whether an encoder reads a sequence of its own, beside what a decoder generates.
    encodes: ClassVar[bool] = False
    #: Whether a pass is one denoising step towards an image.
    denoises: ClassVar[bool] = False
    #: Whether it consists of several networks, each with a graph of its own, which run one after another.
    networks: ClassVar[bool] = False
    #: Whether its lowering splits layers over the ranks of a tensor group.
    splits_tensor: ClassVar[bool] = False
    #: Whether its lowering splits the tokens of a sequence over ranks (context, sequence: true).
    splits_sequence: ClassVar[bool] = False
    #: Whether its lowering deals embedding tables out over ranks (parallel.tables).
    deals_tables: ClassVar[bool] = False
    #: Whether its attention may stay inside samples that are packed into one sequence.
    packs_samples: ClassVar[bool] = False
    #: Whether its layers are one stack, each handing one tensor to the next: what a pipeline can cut.
    stacked: ClassVar[bool] = False

    schema_version: Literal[1] = Field(default=1, alias="schema")
    family: str
    name: str = Field(default="inline", description="Shown in the output.")
    aliases: tuple[str, ...] = Field(default=(), description="Other spellings under which the catalog finds it.")
    source: str = Field(default="", description="Where the shape was published.")
    published_parameters: Annotated[int, Field(gt=0, le=10**15)] | None = Field(
        default=None, description="Parameters as published or counted in the reference code; a test holds us to it."
    )
    published_parameters_source: str = ""
    stored: StoredWeights | None = Field(
        default=None,
        description="How the checkpoint stores its weights: the precision of inference, where none is stated.",
    )

    def with_sizes(self, **sizes: Any) -> Self:
        """Return a copy with some sizes replaced, by arrays if wanted, without validating again."""
        return self.model_copy(update=sizes)

    def problems(self) -> list[Wrong]:
        """Return what is wrong with the model as a whole, which no field can tell by itself."""
        return []

    def unsplit(self, degree: str) -> str:
        """Say what of this model a degree of a layout (tensor, context, pipeline) does not split; empty: its family."""
        del degree
        return ""

    def usual_engine(self) -> str | None:
        """Return the engine that runs the model where nobody states one; None: the usual one."""
        return None

    def stage_layers(self) -> tuple[int, ...] | None:
        """Return the layers of each pipeline stage, where the model itself says where it is cut."""
        return None

    def layers_alike(self) -> Any:
        """Return how many of its layers are as that of `one_layer`; None where a model of one layer does not stand for it."""
        return None

    def completed(self) -> Self:
        """Return a copy with every default that depends on other fields written out."""
        return self

    @classmethod
    def decoder_only(cls) -> bool:
        """Tell whether one stack reads the prompt and generates: what servers run, in pieces of a prompt if need be."""
        return cls.generates and not cls.encodes

    def traits(self) -> Traits:
        """Return the numbers that general code asks for."""
        return Traits()

    def one_layer(self) -> Self | None:
        """Return this model with a single layer, as multi-token prediction has it; None where that has no meaning."""
        return None

    def attended(self, sequence_length: Any, image_size: Any) -> tuple[int, int] | None:
        """Return the tokens and the head size of layers in which every token sees all others; None without such layers."""
        del sequence_length, image_size
        return None

    def biases_scores(self) -> bool:
        """Tell whether layers add to the scores of their attention what no fused kernel of an engine is handed."""
        return False

    def training_defaults(self) -> dict[str, str]:
        """Return what training assumes of this model where nobody states the field: field -> what it means."""
        return {}

    def no_training(self) -> Wrong | None:
        """Say why the model cannot be trained, and the way out; None: it can."""
        return None

    def caveats(self) -> tuple[str, ...]:
        """Return what a reader must know of this model's price: parts that are not priced, or that nobody measured."""
        return ()

    def as_reals(self) -> Self:
        """Return a copy whose integer sizes are floats, the only numbers that lowering works with."""
        update = {
            name: real(value)
            for name, value in self.__dict__.items()
            if kind_of(value) is int and name not in self.structural
        }
        fixed = {name: settled(self.__dict__[name]) for name in self.structural if name in self.__dict__}
        update |= {name: value for name, value in fixed.items() if value is not self.__dict__[name]}
        return self.model_copy(update=update)
