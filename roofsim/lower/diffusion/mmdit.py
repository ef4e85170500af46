"""Lower diffusion transformers that attend to image and text tokens at once: Stable Diffusion 3, Flux."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.component import Purpose
from roofsim.graph.ops import Elementwise
from roofsim.graph.tensor import FP32, Tensor
from roofsim.lower.blocks.attention import attend, kernel_of, rotate
from roofsim.lower.blocks.exchange import enter, leave
from roofsim.lower.blocks.heads import Heads
from roofsim.lower.diffusion.parts import (
    TIME_WIDTH,
    Patches,
    condition,
    gelu_mlp,
    modulated_norm,
    modulation,
    sinusoids,
    strided_linear,
    timesteps,
)
from roofsim.numeric import exactly
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.builder import Builder
    from roofsim.lower.blocks.convolutional import VisionLayers
    from roofsim.lower.call import Call
    from roofsim.numeric import Real
    from roofsim.spec.model.diffusion import DitModel

#: The parts that modulate one stream of a block: shift, scale and gate of attention, then of the feed-forward layer.
BLOCK_PARTS = 6
#: What a second attention of the image adds to them: shift, scale and gate (diffusers, SD35AdaLayerNormZeroX).
SECOND_PARTS = 3


@dataclass(frozen=True)
class JointDit:
    """Blocks in which image and text have weights of their own and meet in attention; then, in Flux, shared ones."""

    model: DitModel
    call: Call
    b: Builder
    layers: VisionLayers

    @property
    def rotary(self) -> bool:
        """Whether positions enter as rotations (Flux) and not as a table that is added (SD3)."""
        return self.model.position_embedding == "rotary"

    @property
    def heads(self) -> Heads:
        """The shape of every attention layer."""
        model = self.model
        size = model.hidden_size / model.num_attention_heads
        heads = model.num_attention_heads / self.layers.shares.tensor
        return Heads(heads=heads, kv_heads=heads, head_size=size, value_head_size=size, causal=False, scale=False)

    def build(self) -> Tensor:
        """Build the network up to its prediction."""
        model, b, layers = self.model, self.b, self.layers
        patches = Patches.of(model, self.call, layers)
        image = patches.embed()
        if not self.rotary:
            image = layers.copy(image, "contiguous")
        vector = self._condition(image)
        words = b.input("text", self.call.batch, model.text_length, model.joint_attention_dim)
        text = layers.linear(words, model.hidden_size, "text", bias=True)
        tables = self.rotary_tables(patches.tokens + model.text_length) if self.rotary else None
        image, text = self._double_blocks(image, text, vector, tables)
        if model.num_single_layers:
            image = self._single_blocks(image, text, vector, tables)
        with b.scope(Purpose.HEAD):
            scale, shift = modulation(layers, vector, model.hidden_size, 2, "modulation")
            normed = modulated_norm(layers, image, scale, shift, "norm")
            layers.release(image)
            return patches.unpatch(normed)

    def _condition(self, image: Tensor) -> Tensor:
        """Embed noise level, pooled text and, in distilled models, the guidance scale as one vector per sample."""
        model, b, layers, batch = self.model, self.b, self.layers, self.call.batch
        width = model.hidden_size
        with b.scope("condition"):
            waves = sinusoids(layers, timesteps(layers, batch), TIME_WIDTH, image, "sinusoids")
            vector = condition(layers, waves, width, "time")
            if model.guidance_embedding:
                scale = layers.pointwise("mul_scalar", b.input("guidance", batch))
                waves = sinusoids(layers, scale, TIME_WIDTH, image, "guidance_sinusoids")
                vector = layers.add(vector, condition(layers, waves, width, "guidance"))
            pooled = b.input("pooled_text", batch, model.pooled_projection_dim)
            return layers.add(vector, condition(layers, pooled, width, "pooled"))

    def rotary_tables(self, tokens: Real) -> tuple[Tensor, Tensor]:
        """Return cosines and sines of the positions along text, height and width, in fp32."""
        b, layers = self.b, self.layers
        with b.scope("rotary"):
            angles = b.tensor("angles", tokens, 1.0, self.heads.head_size, dtype=FP32)
            b.emit(Elementwise, "angles", inputs=(), outputs=(angles,), function="angles")
            return layers.pointwise("cos", angles), layers.pointwise("sin", angles)

    # -- blocks with two streams --------------------------------------------------------------------------------

    def _double_blocks(
        self, image: Tensor, text: Tensor, vector: Tensor, tables: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor]:
        """Repeat the blocks; without blocks behind them the last one has no use for what becomes of the text."""
        b, ends = self.b, not self.model.num_single_layers
        times = self.model.num_layers - 1.0 if ends else self.model.num_layers
        if dual := self.model.num_dual_layers:
            times = times - float(dual)
            with b.repeat("dual_blocks", float(dual)):
                new_image, new_text = self._double_block(image, text, vector, tables, dual=True)
                image, text = b.carry(image, new_image), b.carry(text, new_text)
        if not exactly(times, 0.0):
            with b.repeat("blocks", times):
                new_image, new_text = self._double_block(image, text, vector, tables)
                image, text = b.carry(image, new_image), b.carry(text, new_text)
        if ends:
            with b.repeat("blocks.last", 1.0):
                image = self._last_block(image, text, vector, tables)
        return image, text

    def _double_block(
        self, image: Tensor, text: Tensor, vector: Tensor, tables: tuple[Tensor, Tensor] | None, *, dual: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Let both streams attend to both; `dual`: the image then to itself once more."""
        layers, width = self.layers, self.model.hidden_size
        parts = modulation(layers, vector, width, BLOCK_PARTS + SECOND_PARTS * dual, "modulation")
        normed, again = (
            self._dual_norms(image, parts)
            if dual
            else (modulated_norm(layers, image, parts[1], parts[0], "norm1"), None)
        )
        text_parts = modulation(layers, vector, width, BLOCK_PARTS, "text_modulation")
        text_normed = modulated_norm(layers, text, text_parts[1], text_parts[0], "text_norm1")
        attended, text_attended = self.joint_attention(normed, text_normed, tables)
        layers.release(normed, text_normed)
        new_image = self._rest_of_block(image, attended, parts, Purpose.MLP, again)
        new_text = self._rest_of_block(text, text_attended, text_parts, "text_mlp")
        layers.release(image, text)
        return new_image, new_text

    def _last_block(self, image: Tensor, text: Tensor, vector: Tensor, tables: tuple[Tensor, Tensor] | None) -> Tensor:
        """Let the image read the text a last time."""
        layers, width = self.layers, self.model.hidden_size
        parts = modulation(layers, vector, width, BLOCK_PARTS, "modulation")
        normed = modulated_norm(layers, image, parts[1], parts[0], "norm1")
        scale, shift = modulation(layers, vector, width, 2, "text_modulation")
        text_normed = modulated_norm(layers, text, scale, shift, "text_norm1")
        joined = self._attend(self._qkv(normed, "image"), self._qkv(text_normed, "text"), tables)
        with self.b.scope("joint_attention"):
            shape = (*normed.shape[:2], joined.shape[-1])
            kept = layers.view(joined, "slice", *shape)
            attended = leave(layers, strided_linear(layers, kept, shape, width, Purpose.OUTPUT))
        return self._rest_of_block(image, attended, parts, Purpose.MLP)

    def _dual_norms(self, image: Tensor, parts: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """Normalise the image once, and scale and shift it for the joint attention and for its own."""
        layers = self.layers
        with self.b.scope("norm1"):
            normed = layers.layer_norm(image, "norm", affine=False)
            first, second = (
                layers.add(layers.mul(normed, layers.pointwise("add_scalar", scale)), shift)
                for shift, scale in (parts[:2], parts[BLOCK_PARTS : BLOCK_PARTS + 2])
            )
            return first, second

    def _rest_of_block(
        self, x: Tensor, attended: Tensor, parts: tuple[Tensor, ...], leaf: str, again: Tensor | None = None
    ) -> Tensor:
        """Join the attention's result with its stream, then feed forward; all through gates.

        `again` is what a second attention reads, which follows the first.
        """
        layers = self.layers
        assert self.model.intermediate_size is not None
        gate, shift, scale, mlp_gate = parts[2:BLOCK_PARTS]
        gated = layers.mul(gate, attended)
        x = layers.add(x, gated)
        if again is not None:
            x = layers.add(x, layers.mul(parts[-1], self._second_attention(again)))
        with self.b.scope(leaf):
            normed = modulated_norm(layers, x, scale, shift, "norm2")
            fed = layers.mul(mlp_gate, gelu_mlp(layers, normed, self.model.intermediate_size, "layers"))
            x = layers.add(x, fed)
            layers.release(gated, normed, fed)
            return x

    # -- attention ----------------------------------------------------------------------------------------------

    def joint_attention(
        self, image: Tensor, text: Tensor, tables: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor]:
        """Attend over the tokens of both streams; each has its own projections."""
        layers, width = self.layers, self.model.hidden_size
        joined = self._attend(self._qkv(image, "image"), self._qkv(text, "text"), tables)
        with self.b.scope("joint_attention"):
            if self.rotary:
                text_part, image_part = layers.split(joined, text.shape[1], image.shape[1], axis=1)
                image_part = layers.copy(image_part, "contiguous")
                attended = leave(layers, layers.linear(image_part, width, Purpose.OUTPUT, bias=True))
                text_part = layers.copy(text_part, "contiguous")
                return attended, leave(layers, layers.linear(text_part, width, Purpose.TEXT_OUTPUT, bias=True))
            image_part, text_part = layers.split(joined, image.shape[1], text.shape[1], axis=1, function="slices")
            text_attended = leave(
                layers, strided_linear(layers, text_part, text_part.shape, width, Purpose.TEXT_OUTPUT)
            )
            return leave(
                layers, strided_linear(layers, image_part, image_part.shape, width, Purpose.OUTPUT)
            ), text_attended

    def _second_attention(self, x: Tensor) -> Tensor:
        """Attend to the image alone (the attn2 of diffusers' JointTransformerBlock)."""
        layers = self.layers
        q, k, v = self._qkv(x, "second")
        with self.b.scope("second_attention"):
            out = layers.cast(attend(layers, self.call, self.heads, q, k, v), q)
            return leave(layers, layers.linear(out, self.model.hidden_size, Purpose.OUTPUT, bias=True))

    def self_attention(self, x: Tensor, tables: tuple[Tensor, Tensor] | None) -> Tensor:
        """Attend over one stream ``[batch, tokens, width]``, without a projection behind it."""
        layers = self.layers
        q, k, v = self._qkv(x, "all")
        with self.b.scope("joint_attention"):
            if tables is not None:
                q, k = self._rotate(q, tables, Purpose.ROTATE_QUERY), self._rotate(k, tables, Purpose.ROTATE_KEY)
            return layers.cast(attend(layers, self.call, self.heads, q, k, v), q)

    def _qkv(self, x: Tensor, leaf: str) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values ``[batch, tokens, heads, size]`` of one stream."""
        layers, heads = self.layers, self.heads
        shape = (*x.shape[:2], heads.heads, heads.head_size)
        with self.b.scope(f"joint_attention.{leaf}"):
            x, own = enter(layers, x), heads.heads * heads.head_size
            flat = [layers.linear(x, own, name, bias=True) for name in (Purpose.QUERY, Purpose.KEY, Purpose.VALUE)]
            if not self.model.query_key_norm:
                q, k, v = (layers.view(part, "reshape", *shape, copies_gradient=True) for part in flat)
                return q, k, v
            form = self.model.query_key_norm_form
            q, k = (
                layers.rms_norm(layers.view(part, "reshape", *shape), f"{name}_norm", weight_form=form)
                for part, name in zip(flat, (Purpose.QUERY, Purpose.KEY), strict=False)
            )
            return q, k, layers.view(flat[2], "reshape", *shape, copies_gradient=True)

    def _attend(
        self,
        image: tuple[Tensor, Tensor, Tensor],
        text: tuple[Tensor, Tensor, Tensor],
        tables: tuple[Tensor, Tensor] | None,
    ) -> Tensor:
        """Return ``[batch, tokens, width]``, the text's tokens in front in models with rotations, else behind."""
        layers = self.layers
        with self.b.scope("joint_attention"):
            pairs = zip(text, image, strict=True) if self.rotary else zip(image, text, strict=True)
            q, k, v = (layers.concat(pair, 1) for pair in pairs)
            if tables is not None:
                q, k = self._rotate(q, tables, Purpose.ROTATE_QUERY), self._rotate(k, tables, Purpose.ROTATE_KEY)
            # Under autocast norms and rotations make wide queries, and the library casts the result to their type.
            out = layers.cast(attend(layers, self.call, self.heads, q, k, v), q)
            if not self.rotary and kernel_of(self.call, self.heads, masked=False) == "flash":
                # Concatenated head by head, so flash attention answers head by head, and tokens are put together again.
                out = layers.copy(out, "contiguous")
            return out

    def _rotate(self, x: Tensor, tables: tuple[Tensor, Tensor], leaf: str) -> Tensor:
        """Rotate neighbouring pairs of each head, in fp32: one kernel, or the library's chain."""
        layers = self.layers
        if layers.flavour.engine.fusion.rotary != "chain":
            cosine, sine = (layers.cast(table, x) for table in tables)
            return rotate(layers, x, (cosine, sine), leaf)
        cosine, sine = tables
        half = x.shape[-1] / 2.0
        with self.b.scope(leaf):
            real_part, imaginary_part = layers.split(x, half, half)
            turned = layers.concat((layers.pointwise("neg", imaginary_part), real_part), -1)
            straight = layers.mul(layers.cast(x, FP32), cosine)
            across = layers.mul(layers.cast(turned, FP32), sine)
            return layers.cast(layers.add(straight, across), x)

    # -- blocks with one stream ---------------------------------------------------------------------------------

    def _single_blocks(
        self, image: Tensor, text: Tensor, vector: Tensor, tables: tuple[Tensor, Tensor] | None
    ) -> Tensor:
        """Repeat blocks that treat all tokens alike; of the last one only the image's tokens are used."""
        b, layers, times = self.b, self.layers, float(self.model.num_single_layers - 1)
        if times > 0.0:
            with b.repeat("single_blocks", times):
                joined = self._single_block(image, text, vector, tables)
                new_text, new_image = layers.split(joined, text.shape[1], image.shape[1], axis=1, function="slices")
                layers.release(image, text)
                image, text = b.carry(image, new_image), b.carry(text, new_text)
        with b.repeat("single_blocks.last", 1.0):
            joined = self._single_block(image, text, vector, tables)
            layers.release(image, text)
            return layers.view(joined, "slice", *image.shape)

    def _single_block(
        self, image: Tensor, text: Tensor, vector: Tensor, tables: tuple[Tensor, Tensor] | None
    ) -> Tensor:
        """Attention and feed-forward side by side, one projection for both results."""
        layers, model, width = self.layers, self.model, self.model.hidden_size
        assert model.intermediate_size is not None
        x = layers.concat((text, image), 1)
        shift, scale, gate = modulation(layers, vector, width, 3, "modulation")
        normed = modulated_norm(layers, x, scale, shift, "norm")
        up = layers.linear(
            enter(layers, normed), layers.shares.of_tensor(model.intermediate_size), Purpose.UP, bias=True
        )
        hidden = layers.activation(up, "gelu_tanh")
        attended = self.self_attention(normed, tables)
        both = layers.concat((attended, hidden), -1)
        projected = layers.mul(gate, leave(layers, layers.linear(both, width, Purpose.OUTPUT, bias=True)))
        result = layers.add(x, projected)
        layers.release(normed, attended, hidden)
        return result
