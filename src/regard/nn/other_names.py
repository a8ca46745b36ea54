"""Argument names of other libraries: synonyms of nn.Attention's arguments, and what to write instead of the others."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

from ..core.arguments.synonyms import unknown_argument

F = TypeVar("F", bound=Callable[..., None])

_AT_THE_CALL = 'say it at the call: attention(x, over="causal").'
_WINDOW = "say it at the call: attention(x, over=Causal(window=1024))."
_ANY_LENGTH = "leave it out: a layer takes any length."
_BACKEND = 'say it at the call: attention(x, backend="sdpa"). By default the fastest backend runs.'
_GROUPS = "write kv_heads=, the number of heads of the keys."
_SINK = "write score=Sink(heads)."
_CAP = "write score=SoftCap(50.0)."
_ROTARY = "write rotary=10000.0."
_OUTPUT = "dropout= is on the weights; put an nn.Dropout behind the layer for its output."
CONSTRUCTOR_ANSWERS = {
    "batch_first": "inputs are (..., length, dim), as with batch_first=True; transpose others.",
    "add_zero_attn": "write score=ScaledDot() | Sink(heads).",
    "add_bias_kv": "a learned key and value are not built in: append them to key and value.",
    "num_memory_kv": "a learned key and value are not built in: append them to key and value.",
    "qkv_bias": "write bias=.",
    "is_causal": _AT_THE_CALL,
    "causal": _AT_THE_CALL,
    "over": "say it at the call: attention(x, over=...).",
    "window": _WINDOW,
    "window_size": _WINDOW,
    "sliding_window": _WINDOW,
    "backend": _BACKEND,
    "flash": _BACKEND,
    "use_flash": _BACKEND,
    "fused_attn": _BACKEND,
    "attn_implementation": _BACKEND,
    "rope": "write rotary=True, or rotary=10000.0.",
    "rope_theta": _ROTARY,
    "rope_base": _ROTARY,
    "rotary_dim": "write rotary=Rotary(width of a head, turned=rotary_dim).",
    "alibi": "write score=ALiBi(heads).",
    "scale": "write score=ScaledDot(scale=...).",
    "qk_scale": "write score=ScaledDot(scale=...).",
    "qk_norm": 'write score="cosine".',
    "softcap": _CAP,
    "attn_logit_softcapping": _CAP,
    "sinks": _SINK,
    "attention_sink": _SINK,
    "num_groups": _GROUPS,
    "groups": _GROUPS,
    "num_query_groups": _GROUPS,
    "proj_drop": _OUTPUT,
    "resid_dropout": _OUTPUT,
    "max_seq_len": _ANY_LENGTH,
    "max_position_embeddings": _ANY_LENGTH,
    "block_size": _ANY_LENGTH,
    "context_length": _ANY_LENGTH,
    "layer_idx": "leave it out: a Cache() belongs to one layer.",
    "need_weights": "leave it out: every call returns its map: out, amap = attention(x); amap.weights().",
}
# Arguments of other libraries whose value here is fixed: accepted with exactly this value.
ALREADY_SO: "dict[str, object]" = {
    "batch_first": True,
    "add_zero_attn": False,
    "add_bias_kv": False,
    "alibi": False,
    "causal": False,
    "is_causal": False,
    "qk_norm": False,
    "rope": False,
}
_OF_THE_LAYER = "it belongs to the layer: Attention(dim, heads, {})."
_MAP = "every call returns its map: out, amap = attention(x); amap.weights()."
_CACHE = "write cache=Cache() before the first step, then cache=cache at every step."
_KEYS = "write attention(query, memory): keys, and values unless they are given."
_POSITIONS = (
    "write positions=; by default they continue from the cache. Attention(dim, heads, rotary=True) applies RoPE."
)
_QUERY = "write attention(x): queries first, then keys and values unless they are the same."
CALL_ANSWERS = {
    "scale": _OF_THE_LAYER.format("score=ScaledDot(scale=...)"),
    "scaling": _OF_THE_LAYER.format("score=ScaledDot(scale=...)"),
    "softmax_scale": _OF_THE_LAYER.format("score=ScaledDot(scale=...)"),
    "dropout": _OF_THE_LAYER.format("dropout=...") + " It drops in training mode.",
    "dropout_p": _OF_THE_LAYER.format("dropout=...") + " It drops in training mode.",
    "training": "write layer.train() or layer.eval().",
    "enable_gqa": _OF_THE_LAYER.format("kv_heads=..."),
    "score": _OF_THE_LAYER.format("score=..."),
    "align": _OF_THE_LAYER.format("align=..."),
    "attn_bias": _OF_THE_LAYER.format("score=ScaledDot() | PairBias(bias)"),
    "bias": _OF_THE_LAYER.format("score=ScaledDot() | PairBias(bias)"),
    "position_bias": _OF_THE_LAYER.format("score=RelativeBias(heads, reach)"),
    "alibi_slopes": _OF_THE_LAYER.format("score=ALiBi(slopes=alibi_slopes)"),
    "softcap": _OF_THE_LAYER.format("score=SoftCap(50.0)"),
    "sinks": _OF_THE_LAYER.format("score=Sink(heads)"),
    "s_aux": _OF_THE_LAYER.format("score=Sink(heads)"),
    "return_weights": _MAP,
    "return_map": _MAP,
    "need_weights": _MAP,
    "output_attentions": _MAP,
    "return_attention_scores": _MAP,
    "num_heads": _OF_THE_LAYER.format("kv_heads=..."),
    "embed_dim": "it belongs to the layer: Attention(dim, heads).",
    "past_key_values": _CACHE,
    "past_key_value": _CACHE,
    "kv_cache": _CACHE,
    "layer_past": _CACHE,
    "use_cache": _CACHE,
    "position_ids": _POSITIONS,
    "input_pos": _POSITIONS,
    "start_pos": _POSITIONS,
    "cache_position": _POSITIONS,
    "rotary_pos_emb": _POSITIONS,
    "position_embeddings": _POSITIONS,
    "freqs_cis": _POSITIONS,
    "hidden_states": _QUERY,
    "inputs": _QUERY,
    "context": _KEYS,
    "memory": _KEYS,
    "kv": _KEYS,
    "encoder_hidden_states": _KEYS,
    "key_value_states": _KEYS,
    "cu_seqlens": "write over=Segments.packed(cu_seqlens), or hand over a jagged NestedTensor.",
}


def also_named(who: str, answers: dict[str, str], **names: "str | tuple[str, ...]") -> Callable[[F], F]:
    """Decorator: a constructor that accepts synonyms; names[synonym] is our name, or several of ours at once.

    Arguments given twice and unknown arguments are errors that say what to write.
    """

    def decorate(init: F) -> F:
        own = list(signature(init).parameters)[1:]

        @wraps(init)
        def called(self: Any, *args: Any, **options: Any) -> None:
            if options and not options.keys() <= taken:
                made = {name: value for name, value in options.items() if name in taken}
                for name in [one for one in options if one not in taken]:
                    if name in ALREADY_SO and options[name] is ALREADY_SO[name]:
                        continue
                    if name not in names:
                        raise unknown_argument(who, name, own, answers)
                    ours = names[name]
                    for one in (ours,) if isinstance(ours, str) else ours:
                        if one in made or one in own[: len(args)]:
                            raise TypeError(f"{who}({name}=, {one}=): these are one argument; leave one out.")
                        made[one] = options[name]
                options = made
            init(self, *args, **options)

        taken = set(own)
        return called  # type: ignore[return-value]

    return decorate
