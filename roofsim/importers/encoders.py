"""Map the configurations of encoders and encoder-decoders: BERT, RoBERTa, DistilBERT, T5, Whisper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.importers.fields import Fields

if TYPE_CHECKING:
    from collections.abc import Callable

Mapping = dict[str, Any]

#: How the class of a checkpoint ends -> the head that it has.
HEADS: Final[dict[str, Mapping]] = {
    "ForMaskedLM": {"head": "masked_lm"},
    "ForPreTraining": {"head": "masked_lm", "pooler": True},
    "ForQuestionAnswering": {"head": "span"},
    "ForSequenceClassification": {"head": "classification"},
    "Model": {"head": "none", "pooler": True},
}


def _head(c: Fields, *, pools: bool) -> Mapping:
    """Return the head that ``architectures`` names, a masked language model where it names none."""
    names = c.words("architectures") or ["ForMaskedLM"]
    ending = next((ending for ending in HEADS if names[0].endswith(ending)), None)
    if ending is None or (ending == "ForPreTraining" and not pools):
        c.fail("architectures", f"the head of {names[0]} is not supported", f"Supported: {', '.join(HEADS)}.")
    head = dict(HEADS[ending])
    if head["head"] == "none":
        head["pooler"] = pools
    if head["head"] == "classification":
        head["num_classes"] = labels(c)
    return head


def labels(c: Fields, default: int = 2) -> int:
    """Return the number of classes: the size of ``id2label``, or ``num_labels``."""
    names = c.part("id2label").data
    return len(names) if names else int(c.whole("num_labels", default=default))


def _bert(c: Fields) -> Mapping:
    c.only("position_embedding_type", "absolute")
    c.only("is_decoder", False)
    c.only("add_cross_attention", False)
    c.only("tie_word_embeddings", True)
    return {
        "family": "encoder",
        "num_layers": c.whole("num_hidden_layers"),
        "hidden_size": c.whole("hidden_size"),
        "num_attention_heads": c.whole("num_attention_heads"),
        "vocab_size": c.whole("vocab_size"),
        "intermediate_size": c.whole("intermediate_size", default=3072),
        "max_sequence_length": c.whole("max_position_embeddings", default=512),
        "token_types": c.whole("type_vocab_size", default=2, least=0),
        "activation": c.activation("hidden_act", default="gelu"),
        "dropout": c.rate("hidden_dropout_prob", 0.1),
        "attention_dropout": c.rate("attention_probs_dropout_prob", 0.1),
        **_head(c, pools=True),
    }


def _roberta(c: Fields) -> Mapping:
    # Two rows of the position table stand for padding.
    mapping = _bert(c)
    if mapping["max_sequence_length"] <= 2:
        c.fail("max_position_embeddings", "expected more than 2, which stand for padding")
    return {**mapping, "max_sequence_length": mapping["max_sequence_length"] - 2, "position_offset": 2}


def _mpnet(c: Fields) -> Mapping:
    # Padding has two rows of its position table, as in RoBERTa, and there are no segments.
    c.only("tie_word_embeddings", True)
    mapping = _roberta(type(c)({"max_position_embeddings": 512, "vocab_size": 30527, **c.data}, c.where, c.path))
    return {**mapping, "token_types": 0, "relative_buckets": c.whole("relative_attention_num_buckets", default=32)}


def _deberta(c: Fields) -> Mapping:
    """Read DeBERTa of the second and third version, whose positions are in disentangled attention alone."""
    for key, only in (("relative_attention", True), ("share_att_key", True), ("position_biased_input", False)):
        if c.data.get(key) is not only:
            c.only(key, only)
            c.fail(
                key,
                f"is {'null' if key in c.data else 'missing'}, which the class takes otherwise; expected {str(only).lower()}",
            )
    ways = c.data.get("pos_att_type")
    ways = ways.lower().split("|") if isinstance(ways, str) else c.words("pos_att_type") or []
    if sorted(ways) != ["c2p", "p2c"]:
        c.fail("pos_att_type", "supported is attention both ways, c2p|p2c")
    c.only("norm_rel_ebd", "layer_norm")
    c.only("conv_kernel_size", 0)
    c.only("embedding_size", c.whole("hidden_size"))
    buckets, positions = c.whole("position_buckets"), c.whole("max_position_embeddings", default=512)
    mapping = _bert(type(c)({"type_vocab_size": 0, **c.data}, c.where, c.path))
    mapping |= _head(c, pools=False)
    return {**mapping, "max_sequence_length": positions, "position_embedding": "none", "disentangled_buckets": buckets}


def _distilbert(c: Fields) -> Mapping:
    c.only("sinusoidal_pos_embds", False)
    c.only("tie_word_embeddings", True)
    return {
        "family": "encoder",
        "num_layers": c.whole("n_layers", "num_hidden_layers"),
        "hidden_size": c.whole("dim", "hidden_size"),
        "num_attention_heads": c.whole("n_heads", "num_attention_heads"),
        "vocab_size": c.whole("vocab_size"),
        "intermediate_size": c.whole("hidden_dim", default=3072),
        "max_sequence_length": c.whole("max_position_embeddings", default=512),
        "token_types": 0,
        "activation": c.activation("activation", default="gelu"),
        "dropout": c.rate("dropout", 0.1),
        "attention_dropout": c.rate("attention_dropout", 0.1),
        "attention_output_dropout": 0.0,
        **_head(c, pools=False),
    }


def _generates(c: Fields, *endings: str) -> None:
    for name in c.words("architectures") or []:
        if not name.endswith(endings):
            c.fail("architectures", f"{name} is not supported; expected a class that ends in {endings[0]}")


def _t5(c: Fields) -> Mapping:
    _generates(c, "ForConditionalGeneration", "WithLMHeadModel")
    kind = c.word("feed_forward_proj", "relu")
    gated, dropout, tied = kind.startswith("gated-"), c.rate("dropout_rate", 0.1), c.flag("tie_word_embeddings", True)
    inner = {"gated-gelu": "gelu_new"}.get(kind, kind.removeprefix("gated-"))
    return {
        "family": "encoder-decoder",
        "num_layers": c.whole("num_layers", "num_hidden_layers"),
        "num_decoder_layers": c.whole("num_decoder_layers", default=None),
        "hidden_size": c.whole("d_model", "hidden_size"),
        "num_attention_heads": c.whole("num_heads", "num_attention_heads"),
        "head_size": c.whole("d_kv", default=64),
        "intermediate_size": c.whole("d_ff", default=2048),
        "vocab_size": c.whole("vocab_size"),
        "max_sequence_length": c.whole("n_positions", default=512),
        "gated_mlp": gated,
        "activation": Fields({"feed_forward_proj": inner}, c.where).activation("feed_forward_proj", default="relu"),
        "normalization": "rmsnorm",
        "position_embedding": "relative",
        "relative_buckets": c.whole("relative_attention_num_buckets", default=32),
        "biases": False,
        "tie_embeddings": tied,
        "scaled_output": tied,
        "dropout": dropout,
        "activation_dropout": dropout,
        "final_dropout": dropout,
    }


def _mt5(c: Fields) -> Mapping:
    defaults = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
    return _t5(Fields({**defaults, **c.data}, c.where, c.path))


#: Tokens of Whisper's vocabulary from which it knows languages (openai/whisper, model.py, is_multilingual).
_MULTILINGUAL: Final = 51865


def _whisper(c: Fields) -> Mapping:
    _generates(c, "ForConditionalGeneration")
    c.only("scale_embedding", False)
    for key in ("encoder_layerdrop", "decoder_layerdrop"):
        if c.number(key, 0.0) != 0.0:
            c.fail(key, "dropping whole layers is not supported; expected 0")
    heads, width = c.whole("encoder_attention_heads"), c.whole("encoder_ffn_dim")
    c.only("decoder_attention_heads", heads)
    c.only("decoder_ffn_dim", width)
    return {
        "family": "encoder-decoder",
        "frontend": "audio",
        "num_layers": c.whole("encoder_layers"),
        "num_decoder_layers": c.whole("decoder_layers"),
        "hidden_size": c.whole("d_model"),
        "num_attention_heads": heads,
        "intermediate_size": width,
        "vocab_size": c.whole("vocab_size"),
        "mel_bands": c.whole("num_mel_bins", default=80),
        "max_sequence_length": c.whole("max_source_positions", default=1500),
        "max_target_length": c.whole("max_target_positions", default=448),
        # Start of transcript and no timestamps; language and task beside them (openai/whisper, tokenizer.py).
        "decoder_prompt_length": 4 if c.whole("vocab_size") >= _MULTILINGUAL else 2,
        "activation": c.activation("activation_function", default="gelu"),
        "key_bias": False,
        "dropout": c.rate("dropout"),
        "attention_dropout": c.rate("attention_dropout"),
        "activation_dropout": c.rate("activation_dropout"),
    }


#: model_type -> the function that reads it.
ENCODERS: Final[dict[str, Callable[[Fields], Mapping]]] = {
    "bert": _bert,
    "roberta": _roberta,
    "xlm-roberta": _roberta,
    "camembert": _roberta,
    "mpnet": _mpnet,
    "deberta-v2": _deberta,
    "distilbert": _distilbert,
    "t5": _t5,
    "mt5": _mt5,
    "whisper": _whisper,
}
