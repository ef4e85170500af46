"""Map the configurations of the GPT-2 generation: GPT-2, GPT-J, GPT-NeoX, OPT, MPT, BLOOM, Falcon, Phi."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.importers.decoders import Mapping, decoder, rotary_fraction, sizes, tied

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.importers.fields import Fields


def _gpt2(c: Fields) -> Mapping:
    c.only("reorder_and_upcast_attn", False)
    return decoder(
        c,
        num_layers=c.whole("n_layer", "num_hidden_layers"),
        hidden_size=c.whole("n_embd", "hidden_size"),
        num_attention_heads=c.whole("n_head", "num_attention_heads"),
        vocab_size=c.whole("vocab_size"),
        max_sequence_length=c.whole("n_positions", "max_position_embeddings", default=1024),
        intermediate_size=c.whole("n_inner", default=None),
        activation=c.activation("activation_function", default="gelu_new"),
        fused_query_key_value=True,
        tie_embeddings=tied(c, True),
        dropout=c.rate("resid_pdrop", 0.1),
        embedding_dropout=c.rate("embd_pdrop", 0.1),
        attention_dropout=c.rate("attn_pdrop", 0.1),
    )


def _gpt_neox(c: Fields) -> Mapping:
    biases, turned = c.flag("attention_bias", True), rotary_fraction(c, "rotary_pct", 0.25)
    return decoder(
        c,
        **sizes(c),
        max_sequence_length=c.whole("max_position_embeddings", default=2048),
        intermediate_size=c.whole("intermediate_size", default=None),
        activation=c.activation("hidden_act", default="gelu"),
        position_embedding="rotary",
        rotary_fraction=turned,
        rotary_form="joined" if turned == 1.0 else "rotate_half",
        fused_query_key_value=True,
        parallel_block=c.flag("use_parallel_residual", True),
        query_key_value_bias=biases,
        attention_output_bias=biases,
        tie_embeddings=tied(c, False),
        dropout=c.rate("hidden_dropout"),
        attention_dropout=c.rate("attention_dropout"),
    )


def _gptj(c: Fields) -> Mapping:
    hidden, heads = c.whole("n_embd", "hidden_size"), c.whole("n_head", "num_attention_heads")
    turned = c.whole("rotary_dim", default=64) if c.data.get("rotary_dim", 64) is not None else hidden // heads
    return decoder(
        c,
        num_layers=c.whole("n_layer", "num_hidden_layers"),
        hidden_size=hidden,
        num_attention_heads=heads,
        vocab_size=c.whole("vocab_size"),
        max_sequence_length=c.whole("n_positions", "max_position_embeddings", default=2048),
        intermediate_size=c.whole("n_inner", default=None),
        activation=c.activation("activation_function", default="gelu_new"),
        position_embedding="rotary",
        rotary_fraction=turned * heads / hidden,
        scores_in_fp32=True,
        parallel_block=True,
        shared_norm=True,
        query_key_value_bias=False,
        attention_output_bias=False,
        head_bias=True,
        tie_embeddings=tied(c, False),
        dropout=c.rate("resid_pdrop"),
        embedding_dropout=c.rate("embd_pdrop"),
        attention_dropout=c.rate("attn_pdrop"),
    )


def _opt(c: Fields) -> Mapping:
    c.only("layer_norm_elementwise_affine", True)
    first, hidden = c.flag("do_layer_norm_before", True), c.whole("hidden_size")
    projected = c.whole("word_embed_proj_dim", default=hidden)
    return decoder(
        c,
        **sizes(c),
        max_sequence_length=c.whole("max_position_embeddings", default=2048),
        intermediate_size=c.whole("ffn_dim", default=4 * hidden),
        activation=c.activation("activation_function", default="relu"),
        position_offset=2,
        softmax_in_fp32=True,
        embedding_size=None if projected == hidden else projected,
        normalization_first=first,
        final_normalization=first and not c.flag("_remove_final_layer_norm", False),
        biases=c.flag("enable_bias", True),
        normalization_bias=True,
        tie_embeddings=tied(c, True),
        dropout=c.rate("dropout", 0.1),
        embedding_dropout=0.0,
        attention_dropout=c.rate("attention_dropout"),
    )


def _mpt(c: Fields) -> Mapping:
    attention = c.part("attn_config")
    for key, plain in (("qk_ln", False), ("prefix_lm", False), ("qk_gn", False), ("rope", False)):
        attention.only(key, plain)
    c.only("norm_type", "low_precision_layernorm", "layernorm")
    c.part("ffn_config").only("ffn_type", "mptmlp")
    heads, positions = c.whole("n_heads"), "learned" if c.flag("learned_pos_emb", True) else "none"
    return decoder(
        c,
        num_layers=c.whole("n_layers"),
        hidden_size=c.whole("d_model"),
        num_attention_heads=heads,
        num_key_value_heads=_mpt_shared_heads(attention, heads),
        vocab_size=c.whole("vocab_size"),
        max_sequence_length=c.whole("max_seq_len", default=2048),
        intermediate_size=c.whole("expansion_ratio", default=4) * c.whole("d_model"),
        position_embedding="alibi" if attention.flag("alibi", True) else positions,
        fused_query_key_value=True,
        clipped_query_key_value=attention.number("clip_qkv", 0.0) != 0.0,
        biases=not c.flag("no_bias", True),
        tie_embeddings=tied(c, True),
        dropout=c.rate("resid_pdrop"),
        embedding_dropout=c.rate("emb_pdrop"),
        attention_dropout=attention.rate("attn_pdrop"),
    )


def _mpt_shared_heads(attention: Fields, heads: int) -> int | None:
    kind = attention.word("attn_type", "multihead_attention")
    attention.only("attn_type", "multihead_attention", "multiquery_attention", "grouped_query_attention")
    if kind == "grouped_query_attention":
        return int(attention.whole("kv_n_heads", default=heads))
    return 1 if kind == "multiquery_attention" else None


def _bloom(c: Fields) -> Mapping:
    c.only("apply_residual_connection_post_layernorm", False)
    return decoder(
        c,
        num_layers=c.whole("n_layer", "num_hidden_layers"),
        hidden_size=c.whole("hidden_size", "n_embed"),
        num_attention_heads=c.whole("n_head", "num_attention_heads"),
        vocab_size=c.whole("vocab_size"),
        max_sequence_length=c.whole("seq_length", default=2048),
        activation="gelu_tanh",
        position_embedding="alibi",
        embedding_normalization=True,
        fused_query_key_value=True,
        tie_embeddings=tied(c, True),
        dropout=c.rate("hidden_dropout"),
        embedding_dropout=0.0,
        attention_dropout=c.rate("attention_dropout"),
    )


def _falcon(c: Fields) -> Mapping:
    newer = c.flag("new_decoder_architecture", False)
    parallel = newer or c.flag("parallel_attn", True)
    heads, hidden = c.whole("num_attention_heads", "n_head"), c.whole("hidden_size")
    shared = c.whole("num_kv_heads", "n_head_kv", default=heads) if newer else heads
    biases, single = c.flag("bias", False), c.flag("multi_query", True) and not newer
    return decoder(
        c,
        num_layers=c.whole("num_hidden_layers", "n_layer"),
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=1 if single else shared,
        key_value_parts="copies" if single else "expanded" if newer else "views",
        vocab_size=c.whole("vocab_size"),
        max_sequence_length=c.whole("max_position_embeddings", default=2048),
        intermediate_size=c.whole("ffn_hidden_size", default=4 * hidden),
        activation=c.activation("activation", default="gelu"),
        position_embedding="alibi" if c.flag("alibi", False) else "rotary",
        fused_query_key_value=True,
        softmax_in_fp32=False,
        parallel_block=parallel,
        shared_norm=parallel and not (newer and c.whole("num_ln_in_parallel_attn", default=2) == 2),
        biases=biases,
        normalization_bias=True,
        tie_embeddings=tied(c, True),
        dropout=c.rate("hidden_dropout"),
        embedding_dropout=0.0,
        attention_dropout=c.rate("attention_dropout"),
    )


def _phi(c: Fields) -> Mapping:
    c.only("qk_layernorm", False)
    return decoder(
        c,
        **sizes(c),
        num_key_value_heads=c.whole("num_key_value_heads", default=None),
        max_sequence_length=c.whole("max_position_embeddings", default=2048),
        intermediate_size=c.whole("intermediate_size", default=None),
        activation=c.activation("hidden_act", default="gelu_new"),
        position_embedding="rotary",
        rotary_fraction=rotary_fraction(c, "partial_rotary_factor", 0.5),
        parallel_block=True,
        shared_norm=True,
        head_bias=True,
        tie_embeddings=tied(c, False),
        dropout=c.rate("resid_pdrop"),
        embedding_dropout=c.rate("embd_pdrop"),
        attention_dropout=c.rate("attention_dropout"),
    )


#: model_type -> the function that reads it.
GPT_DECODERS: Final[dict[str, Callable[[Fields], Mapping]]] = {
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "gptj": _gptj,
    "opt": _opt,
    "mpt": _mpt,
    "bloom": _bloom,
    "falcon": _falcon,
    "RefinedWeb": _falcon,
    "RefinedWebModel": _falcon,
    "phi": _phi,
}
