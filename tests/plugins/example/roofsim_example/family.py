"""A language model of MLPs alone: what is left of a transformer where attention costs nothing."""

from typing import ClassVar, Literal

from roofsim.graph.builder import Builder
from roofsim.graph.component import Purpose
from roofsim.graph.opgraph import OpGraph
from roofsim.graph.tensor import INT64
from roofsim.lower.blocks.convolutional import VisionLayers
from roofsim.lower.blocks.losses import cross_entropy
from roofsim.lower.call import Call
from roofsim.spec.model.base import ModelSpec, Size
from roofsim.spec.model.plugged import Family
from roofsim.spec.model.traits import Traits


class MlpLanguageModel(ModelSpec):
    """Embedding, layers of a norm and an MLP with residual sums, head."""

    stacked: ClassVar[bool] = True  # a pipeline can cut it

    family: Literal["mlp-lm"] = "mlp-lm"
    num_layers: Size
    hidden_size: Size
    vocab_size: Size = 50257
    max_sequence_length: Size = 1024

    def traits(self) -> Traits:
        return Traits(layers=self.num_layers, hidden_size=self.hidden_size, longest_sequence=self.max_sequence_length)


def lower_mlp_lm(model: MlpLanguageModel, call: Call) -> OpGraph:
    b = Builder()
    layers = VisionLayers(b, call.flavour)
    length = model.max_sequence_length if call.length is None else call.length
    tokens = b.input("input_ids", call.batch, length, dtype=INT64)
    with b.scope(Purpose.EMBEDDING):
        table = b.parameter("weight", model.vocab_size, model.hidden_size)
        x = layers.lookup(tokens, table)
    with b.repeat("layers", model.num_layers), b.scope(Purpose.MLP):
        hidden = layers.linear(layers.layer_norm(x, "norm"), 4.0 * model.hidden_size, Purpose.UP, bias=True)
        hidden = layers.activation(hidden, "gelu")
        x = b.carry(x, layers.add(x, layers.linear(hidden, model.hidden_size, Purpose.DOWN, bias=True)))
    with b.scope(Purpose.HEAD):
        logits = layers.linear(x, model.vocab_size, Purpose.LOGITS, weight=table)
        if call.trains:
            rows = call.batch * length
            labels = layers.labels(rows)
            cross_entropy(layers, layers.view(logits, "reshape", rows, model.vocab_size), labels, x)
    return b.graph()


MLP_LM = Family(schema=MlpLanguageModel, lower=lower_mlp_lm)
