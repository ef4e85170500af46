"""Say what general code may ask of a model, whatever its family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.numeric import Real

#: A whole number as the model states it, or what a sweep puts in its place.
Number = Any


@dataclass(frozen=True, kw_only=True)
class Traits:
    """Numbers of one model. What its family does not have keeps its default, which is None where zero would be a number.

    Attributes
    ----------
    layers
        Depth of its stack, or of the first of two.
    hidden_size
        Width of what layers hand on.
    attention_heads, key_value_heads
        Heads of a layer; as many of both where queries share no keys.
    tensor_splits
        What the ranks of a tensor group must divide: (name of the field, number).
    longest_sequence, longest_target
        Tokens that it has positions for; `longest_target` of the decoder behind an encoder.
    usual_sequence
        Vectors of a sample where nobody says how many, of what is no text; None: what is usual of text.
    target_start
        Tokens that such a decoder starts from.
    image_size
        Side of its usual image, in pixels.
    image_extents
        Names of the sizes of the model that say how large its images are, where no single side does.
    position_grid, position_pixels
        Stored positions along one side of an image, and the pixels along one side of each.
    windowed
        Whether some layers see a window of the sequence only.
    recurrent
        Whether states pass through a sequence from its first token on, so that ranks cannot share it.
    experts, experts_per_token, expert_width
        Experts of a layer (0: none), those that a token visits, and the intermediate size of one.
    table_width
        Columns of an embedding table that may be dealt out.
    sparse_tables
        Whether rows of such tables are updated where they are looked up.
    denoising_steps
        Passes of the denoiser that make an image.
    whole_pipeline
        Catalog name of the pipeline of networks whose part it is.
    parameters_beside
        Parameters that are loaded with it and whose work is not priced.
    idle_parameters
        Parameters that are loaded and never run, outside of its graphs.
    program_ranks
        Ranks of a tensor group that its program, which is that of one of them, exchanges tensors with; 1: none.
    decodes_images_wide
        Whether its decoder of images needs fp32 where the rest runs in fp16.
    """

    layers: Number | None = None
    hidden_size: Number = 0
    attention_heads: Number | None = None
    key_value_heads: Number | None = None
    tensor_splits: tuple[tuple[str, Number], ...] = ()
    longest_sequence: Number | None = None
    usual_sequence: Number | None = None
    longest_target: Number | None = None
    target_start: int = 1
    image_size: Number | None = None
    image_extents: tuple[str, ...] = ()
    position_grid: int | None = None
    position_pixels: int = 1
    windowed: bool = False
    recurrent: bool = False
    experts: Number = 0
    experts_per_token: Number = 1
    expert_width: Number | None = None
    table_width: Number | None = None
    sparse_tables: bool = False
    denoising_steps: Number | None = None
    whole_pipeline: str | None = None
    parameters_beside: Real = 0.0
    idle_parameters: Number = 0
    program_ranks: Number = 1
    decodes_images_wide: bool = False

    @property
    def depth(self) -> Number:
        """Layers, or 1 of what has no stack of them."""
        return 1 if self.layers is None else self.layers
