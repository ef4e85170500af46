"""Define what every model schema shares: strict fields, a family, and conversion of sizes to floats."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from roofsim.numeric import real
from roofsim.schema.base import BaseModel, BeforeValidator, ConfigDict, Field
from roofsim.spec.precision.stored_weights import StoredWeights
from roofsim.spec.reading.spoken import whole

#: A whole number of things, at least one; the upper end keeps float64 exact and catches slips of the finger.
Size = Annotated[int, BeforeValidator(whole), Field(gt=0, le=10**12)]
#: A whole number of things that may be absent.
Count = Annotated[int, BeforeValidator(whole), Field(ge=0, le=10**12)]
#: A small whole number that shapes the graph: it decides structure and cannot be swept.
Depth = Annotated[int, BeforeValidator(whole), Field(gt=0, le=100_000)]
#: A probability of dropping.
Rate = Annotated[float, Field(ge=0.0, lt=1.0)]


class ModelSpec(BaseModel):
    """A model as its family describes it. Fields that are sizes may be replaced by arrays with `with_sizes`."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        protected_namespaces=(),
        arbitrary_types_allowed=True,
        allow_inf_nan=False,
    )

    #: Fields that decide the structure of the graph although they are numbers.
    structural: ClassVar[frozenset[str]] = frozenset()
    #: What a sample is counted in: ``tokens`` or ``images``.
    sample_unit: ClassVar[str] = "tokens"
    #: Whether it generates token by token and keeps a cache: what prefill, decode and generate are for.
    generates: ClassVar[bool] = False

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

    def completed(self) -> Self:
        """Return a copy with every default that depends on other fields written out."""
        return self

    def caveats(self) -> tuple[str, ...]:
        """Return what a reader must know of this model's price: parts that are not priced, or that nobody measured."""
        return ()

    def as_reals(self) -> Self:
        """Return a copy whose integer sizes are floats, the only numbers that lowering works with."""
        update = {
            name: real(value)
            for name, value in self.__dict__.items()
            if type(value) is int and name not in self.structural
        }
        return self.model_copy(update=update)
