"""Describe a model of any family as a list of layers."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from roofsim.kept import remembered
from roofsim.numeric import real
from roofsim.records import replace
from roofsim.schema.base import Field
from roofsim.spec.model.base import Count, ModelSpec, Size, Wrong
from roofsim.spec.model.layers.amounts import Amount, SizeError, all_sizes, names_in, worked_out
from roofsim.spec.model.layers.forms import Form, Sizes, WrongBlockError
from roofsim.spec.model.layers.graphs import Sampling
from roofsim.spec.model.layers.inputs import MoreInput
from roofsim.spec.model.layers.steps import Step, Word, as_step
from roofsim.spec.model.layers.walk import MOST_STEPS, StopWalkError, Walk, every_block, every_step, written_out
from roofsim.spec.model.said import Said
from roofsim.spec.model.traits import Traits

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.numeric import Real


class LayersModel(ModelSpec):
    """A model of any family, written as a list of layers: blocks, what repeats, residuals, branches, results that are kept."""

    structural: ClassVar[frozenset[str]] = frozenset({"layers"})
    sample_unit: ClassVar[Any] = Said("tokens", lambda model: model.counted_in)
    generates: ClassVar[Any] = Said(True, lambda model: model.hinders("generates") is None)
    splits_tensor: ClassVar[Any] = Said(True, lambda model: model.hinders("tensor") is None)
    splits_sequence: ClassVar[Any] = Said(True, lambda model: model.hinders("sequence") is None)
    stacked: ClassVar[Any] = Said(True, lambda model: model.hinders("pipeline") is None)

    family: Literal["layers"] = "layers"
    inputs: Literal["tokens", "images", "volumes", "features", "nodes"] = Field(
        default="tokens",
        description="What enters: token ids, images, images of three dimensions, a sequence of vectors (of sound, of patches), or "
        "the rows of the nodes of a graph.",
    )
    sizes: dict[str, Amount] = Field(
        default={}, description="Named sizes, which layers and other sizes may work with: `inner: 4 * hidden`."
    )
    layers: list[Step | Word] = Field(min_length=1, description="The layers, in the order in which they run.")
    max_sequence_length: Size = Field(
        default=2048, description="Tokens or vectors of a sample, where a scenario states none."
    )
    image_size: Size = Field(default=224, description="Side of images, where a scenario states none.")
    in_channels: Amount = Field(default=3, description="Channels of images.")
    in_features: Amount = Field(default=80, description="Width of the vectors of `features` or `nodes`.")
    sides: tuple[Amount, ...] | None = Field(
        default=None,
        description="Extents of images or volumes (frames, height, width) that no single side says, of named sizes: image_size "
        "then says nothing.",
    )
    more_inputs: dict[str, MoreInput] = Field(
        default={}, description="What else enters, by the name that a step starts from it with (from)."
    )
    idle_parameters: Count = Field(default=0, description="Parameters that are loaded and never run.")
    num_nodes: Size = Field(default=1, description="Nodes of a graph, with inputs: nodes.")
    num_edges: Size = Field(default=1, description="Edges of a graph, with inputs: nodes.")
    sampling: Sampling | None = Field(
        default=None,
        description="With inputs: nodes, mini-batches of nodes with sampled neighbours; left out: each sample is a whole graph.",
    )

    @cached_property
    def named(self) -> dict[str, Real]:
        """The named sizes, worked out."""
        return all_sizes(self.sizes)

    @property
    def counted_in(self) -> str:
        """What a sample is counted in."""
        return {"images": "images", "volumes": "images", "nodes": "samples"}.get(self.inputs, "tokens")

    def entering(self, sizes: Sizes) -> Form:
        """Return what enters the first layer."""
        if self.inputs == "tokens":
            return Form("ids")
        if self.inputs in ("images", "volumes"):
            dimensions = 2 if self.inputs == "images" else 3
            if self.sides is not None and len(self.sides) != dimensions:
                raise WrongBlockError(f"{len(self.sides)} sides of {self.inputs}, which have {dimensions}", "sides")
            for side in self.sides or ():
                sizes.of(side, "sides")
            return Form("maps", sizes.of(self.in_channels, "in_channels"), dimensions)
        return Form("rows" if self.inputs == "nodes" else "tokens", sizes.of(self.in_features, "in_features"))

    def more_forms(self, sizes: Sizes) -> dict[str, Form]:
        """Return what all inputs hand on, by their names; the first is called as `inputs` says."""
        more = {name: given.form(sizes) for name, given in self.more_inputs.items()}
        return {self.inputs: self.entering(sizes)} | more

    def problems(self) -> list[Wrong]:
        """Return what is wrong with sizes and layers, each with its path: what no field can tell by itself."""
        if self.sampling is not None and self.inputs != "nodes":
            return [Wrong(("sampling",), f"it draws neighbours of nodes; inputs are {self.inputs}", "Leave it out.")]
        return self._wrong_layers()

    def _wrong_layers(self) -> list[Wrong]:
        """Return what is wrong with sizes and layers."""
        try:
            sizes = Sizes(self.named)
        except SizeError as error:
            return [Wrong(("sizes", error.name), error.why)]
        walk = Walk(sizes)
        try:
            form = self.entering(sizes)
        except WrongBlockError as error:
            return [Wrong((error.key,), error.message)]
        for name, given in self.more_inputs.items():
            try:
                given.form(sizes)
            except WrongBlockError as error:
                return [Wrong(("more_inputs", name, error.key), error.message)]
        try:
            out = walk.whole(self.layers, form, self.more_forms(sizes))
        except StopWalkError:
            return walk.wrong
        if out.layout != "loss":
            hint = "Training needs one; `logits`, `classifier` and `loss` are ends."
            return [Wrong(("layers",), f"the model ends in {out}, not in a head", hint)]
        total = written_out(self.layers, sizes)
        return [] if total <= MOST_STEPS else [Wrong(("layers",), f"{total:,.0f} layers with all repeats written out")]

    # -- what it can do -----------------------------------------------------------------------------------------

    @property
    def causal(self) -> bool:
        """Whether attention that does not say is causal: in models of token ids."""
        return self.inputs == "tokens"

    @remembered
    def hinders(self, what: str) -> str | None:
        """Return what keeps it from being split by a group, or from generating tokens; None: nothing."""
        return _HINDERS[what](self)

    def unsplit(self, degree: str) -> str:
        """Say what of the model a degree does not split."""
        return self.hinders({"context": "sequence"}.get(degree, degree)) or ""

    @remembered
    def traits(self) -> Traits:
        """Return the numbers that general code asks for."""
        sizes, blocks = Sizes(self.named), [block for _, block in every_block(self.layers)]
        heads = [block for block in blocks if hasattr(block, "num_attention_heads")]
        queries = [sizes.of(block.num_attention_heads, "") for block in heads]
        shared = [
            sizes.of(getattr(block, "num_key_value_heads", None) or block.num_attention_heads, "") for block in heads
        ]
        mixtures = [block for kind, block in every_block(self.layers) if kind == "experts"]
        traits = Traits(
            layers=self._depth(),
            hidden_size=self._width(),
            attention_heads=max(queries, default=None),
            key_value_heads=min(shared, default=None),
            tensor_splits=self._splits(sizes),
            longest_sequence=self.max_sequence_length if self.counted_in == "tokens" else None,
            usual_sequence=self.max_sequence_length if self.inputs == "features" else None,
            image_size=self.image_size if self.counted_in == "images" and self.sides is None else None,
            image_extents=self._stated(self.sides or ()),
            windowed=any(getattr(block, "sliding_window", None) is not None for block in blocks),
            recurrent=any(block.recurrent for block in blocks),
        )
        if not mixtures:
            return traits
        first: Any = mixtures[0]
        return replace(
            traits,
            experts=sizes.of(first.num_experts, ""),
            experts_per_token=sizes.of(first.experts_per_token, "") * first.working_share(sizes),
            expert_width=sizes.of(first.expert_intermediate_size, ""),
        )

    def _splits(self, sizes: Sizes) -> tuple[tuple[str, int], ...]:
        """Return what a tensor group must divide: heads of every block that has some."""
        keys = ("num_attention_heads", "num_heads", "key_heads")
        return tuple(
            (f"{kind}.{key}", sizes.of(getattr(block, key), key))
            for kind, block in every_block(self.layers)
            for key in keys
            if block.splits_tensor and hasattr(block, key)
        )

    def _stated(self, amounts: tuple[Any, ...]) -> tuple[str, ...]:
        """Return the sizes that amounts are made of in the end: those that are numbers."""
        names = dict.fromkeys(name for amount in amounts for name in names_in(amount))
        ends = [
            self._stated((self.sizes[name],)) if isinstance(self.sizes.get(name), str) else (name,) for name in names
        ]
        return tuple(dict.fromkeys(name for end in ends for name in end))

    def _depth(self) -> int:
        """Return how often the outermost repeats run, all together; 1 without one."""
        steps = [as_step(item) for item in self.layers]
        repeats = [step.repeat for step in steps if step.repeat is not None]
        return int(sum(worked_out(times, self.named) for times in repeats)) or 1

    def _width(self) -> int:
        """Return the width of what its first repeat takes; 0 without one."""
        walk = Walk(Sizes(self.named))
        try:
            walk.whole(self.layers, self.entering(walk.sizes), self.more_forms(walk.sizes))
        except (StopWalkError, ValueError):
            return 0
        return walk.entering[0].width if walk.entering else 0

    def caveats(self) -> tuple[str, ...]:
        """Return what a reader must know of its price."""
        kinds = dict.fromkeys(kind for kind, _ in every_block(self.layers))
        said = () if self.sampling is None else (_UNSAMPLED,)
        return (*said, *dict.fromkeys(_UNMEASURED[kind] for kind in kinds if kind in _UNMEASURED))

    def as_reals(self) -> LayersModel:
        """Return a copy whose own integer sizes are floats; the sizes of blocks are worked out when they are built."""
        made = super().as_reals()
        return made.with_sizes(sizes={name: _real(amount) for name, amount in self.sizes.items()})


def _real(amount: Any) -> Any:
    return amount if isinstance(amount, str) else real(amount)


def _of_blocks(model: LayersModel, can: Callable[[Any], bool]) -> str | None:
    """Return the first kind of block that cannot."""
    return next((f"its {kind} block" for kind, block in every_block(model.layers) if not can(block)), None)


def _keeps_from_generating(model: LayersModel) -> str | None:
    if model.inputs != "tokens":
        return f"its inputs, {model.inputs}"
    if as_step(model.layers[-1]).kind != "logits":
        return "its last layer, which is no logits"
    later = [item for item in model.layers if as_step(item).when != "prompt"]
    return next((f"its {kind} block" for kind, block in every_block(later) if not block.generates_here()), None)


def _keeps_from_tensor(model: LayersModel) -> str | None:
    return _of_blocks(model, lambda block: block.splits_tensor_here())


def _keeps_from_sequence(model: LayersModel) -> str | None:
    if model.inputs != "tokens":
        return f"its inputs, {model.inputs}"
    return _of_blocks(model, lambda block: block.splits_sequence and block.splits_tensor_here())


def _beside_tokens(repeats: list[Any]) -> str | None:
    """Return what repeats have in common beside the tokens that they hand on."""
    carried = next((name for step in repeats for name in step.carries or ()), None)
    if carried is not None:
        return f"its {carried}, which repeats hand on beside their tokens"
    seen: set[str] = set()
    for step in repeats:
        names = {one.weights for one in every_step([step]) if one.weights is not None}
        if not seen.isdisjoint(names):
            return f"its {min(seen & names)}, whose weights several repeats share"
        seen |= names
    return None


def _keeps_from_pipeline(model: LayersModel) -> str | None:
    # A pipeline cuts outermost repeats that follow one another and hand on what they take.
    steps = [as_step(item) for item in model.layers]
    places = [place for place, step in enumerate(steps) if step.repeat is not None]
    if not places:
        return "its layers, none of which repeat"
    beside = _beside_tokens([steps[place] for place in places])
    if beside is not None:
        return beside
    between = [step for step in steps[places[0] : places[-1] + 1] if step.repeat is None]
    if between:
        return f"its {between[0].kind} between two repeats"
    apart = next(
        (step for step in steps if step.repeat is None and any(one.repeat for one in every_step([step]))), None
    )
    if apart is not None:
        return f"its {apart.name or apart.kind}, which repeats apart from the rest"
    walk = Walk(Sizes(model.named))
    try:
        walk.whole(model.layers, model.entering(walk.sizes), model.more_forms(walk.sizes))
    except (StopWalkError, ValueError):
        return "its layers"
    return None if walk.chain else "its repeats, which hand on other widths than they take"


_HINDERS: dict[str, Callable[[LayersModel], str | None]] = {
    "generates": _keeps_from_generating,
    "tensor": _keeps_from_tensor,
    "sequence": _keeps_from_sequence,
    "pipeline": _keeps_from_pipeline,
}
_CELLS = (
    "no recurrent kernel was measured: priced as one product and one pass over the gates per token, one after the other"
)
_UNSAMPLED = (
    "what draws neighbours is not priced; all nodes are drawn alike, though graphs with hubs reach fewer of them"
)
_UNMEASURED = {
    "rwkv_time_mix": (
        "no kernel of RWKV was measured: priced as a scan of two states per channel, and from version 5 on as products of chunks "
        "of 64 tokens and, of one token, as one pass over the state"
    ),
    "mamba2": "no kernel of Mamba-2 was measured: priced as products of chunks and, of one token, as one pass over the state",
    "delta_net": (
        "no kernel of gated delta rules was measured: priced as products of chunks of 64 tokens and, of one token, as one pass "
        "over the state"
    ),
    "kimi_delta": (
        "no kernel of Kimi Delta Attention was measured: priced as products of chunks of 64 tokens and, of one token, as one pass "
        "over the state"
    ),
    "lightning_attention": (
        "no kernel of lightning attention was measured: priced as products of blocks and, of one token, as one pass over the state"
    ),
    "predict_streams": (
        "no product of streams was measured: priced as a batched product of small matrices, without the limits of its weights"
    ),
    "lstm": _CELLS,
    "gru": _CELLS,
    "rnn": _CELLS,
    "outer_sum": "no kernel of the transducer loss was measured: priced by the bytes that it moves",
    "roi_align": "no kernel of RoIAlign was measured: priced as a gather of rows",
    "aggregate": (
        "no sparse product was measured: priced as PyTorch Geometric's rows gathered per edge and added up at random places"
    ),
    "graph_attention": (
        "no kernel of graph attention was measured: priced as PyTorch Geometric's rows gathered per edge and added up at random "
        "places"
    ),
}


def names_used(model: LayersModel) -> set[str]:
    """Return the names of sizes that layers and other sizes use."""
    used: set[str] = set()
    for _, block in every_block(model.layers):
        for _, value in block:
            used |= {name for one in (value if isinstance(value, tuple) else (value,)) for name in names_in(one)}
    return used
