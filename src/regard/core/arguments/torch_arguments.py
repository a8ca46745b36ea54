"""torch's argument names: unambiguous ones are accepted, for the others the error says what to write.

A mask is never accepted: True means "may be attended" in scaled_dot_product_attention, "is ignored" in
nn.MultiheadAttention, and "real token" in transformers.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ..scores import ScaledDot, Score
from ..structures import Causal, Structure, structure_of
from .checks import flag, number, probability, shown
from .synonyms import unknown_argument

OWN = ("q", "k", "v", "score", "align", "over", "dropout", "sample", "seed", "backend", "state", "stats")
_MASK = (
    "write over=Mask(keep=MASK) where True means that a pair may attend (as in scaled_dot_product_attention), "
    "over=Mask(keep=~MASK) where it means masked out (as in nn.MultiheadAttention); an additive mask is "
    "score=ScaledDot() | PairBias(MASK)."
)
_PADDING = (
    "write over=Padding(lengths), or over=Mask(keep=~key_padding_mask[:, None, None]), since True means there that a "
    "key is ignored."
)
_LENGTHS = "write over=Padding(MASK)."
_WEIGHTS = "every call returns its map: out, amap = attend(q, k, v); amap.weights()."
_LSE = (
    "every call returns its map: out, amap = attend(q, k, v); with softmax amap.tau is the log-sum-exp of each row, "
    'and stats="log_sum_exp" returns it with a gradient.'
)
_HEADS = (
    "heads are an axis of q, k and v, (..., heads, length, width): q.unflatten(-1, (heads, -1)).mT is not "
    "it, q.unflatten(-1, (heads, -1)).transpose(-3, -2) is. nn.Attention(dim, heads) does that."
)
_BIAS = "write score=ScaledDot() | PairBias(MASK)."
_SINK = "write score=Sink(MASK), one number for each head."
_CAP = "write score=SoftCap(50.0)."
_DROPOUT = "write dropout=, which is on the weights."
_PACKED = "write attend_packed(q, k, v, cu_seqlens), or over=Segments.packed(cu_seqlens)."
_LONGEST = "leave it out: attend_packed(q, k, v, cu_seqlens) needs the starts of the sequences alone."
_CACHE = "attend has no state between calls: nn.Attention(dim, heads)(x, cache=Cache()) does."
_PAGES = "write nn.Attention(dim, heads)(x, cache=pool.of(sequences)) with a PagedCache of these pages."
_LAYOUT = "q, k and v are (..., heads, length, width): x.transpose(-3, -2) of (..., length, heads, width)."
_ROTARY = "turn queries and keys before the call: rotary = Rotary(width); attend(rotary(q), rotary(k), v)."
_SEGMENTS = "write over=Segments(MASK)."
_GRAPH = "write over=Edges(MASK)."
_ALIGN = 'that is the alignment, align="entmax15" or align=Entmax(1.3).'
_SCORE = 'that is the score, score="additive" or score=Gaussian(width).'
_BACKEND = 'write backend="sdpa" or another of those that print(regard.plan(q, k, v)) lists.'
MEANS = {
    "is_causal": "over",
    "causal": "over",
    "dropout_p": "dropout",
    "attn_dropout": "dropout",
    "attention_dropout": "dropout",
    "scale": "score",
    "scaling": "score",
    "softmax_scale": "score",
    "sm_scale": "score",
    "enable_gqa": "score",
}
ANSWERS = {
    "attn_mask": _MASK,
    "mask": _MASK,
    "src_mask": _MASK,
    "attn_bias": _BIAS,
    "bias": _BIAS,
    "position_bias": _BIAS,
    "rel_pos_bias": _BIAS,
    "attention_mask": "write over=Padding(attention_mask.sum(-1)) of right padding, or "
    "over=Mask(keep=attention_mask[:, None, None].bool()).",
    "key_padding_mask": _PADDING,
    "lengths": _LENGTHS,
    "seq_lens": _LENGTHS,
    "valid_lens": _LENGTHS,
    "return_weights": _WEIGHTS,
    "return_map": _WEIGHTS,
    "need_weights": _WEIGHTS,
    "output_attentions": _WEIGHTS,
    "return_attention_scores": _WEIGHTS,
    "return_lse": _LSE,
    "return_attn_probs": _LSE,
    "average_attn_weights": "the map has every head: amap.weights().mean(-3).",
    "head_mask": "a head is left out by regard.intervene(model, {site: regard.interventions.DropHeads([0, 3])}).",
    "embed_dim": "attend has no projections: nn.Attention(embed_dim, heads) has.",
    "heads": _HEADS,
    "n_heads": _HEADS,
    "num_heads": _HEADS,
    "num_kv_heads": "keys of fewer heads than queries are shared by themselves: k (..., kv_heads, m, d).",
    "layout": _LAYOUT,
    "qkv_format": _LAYOUT,
    "window": "write over=Window(8), or over=Causal(window=1024).",
    "window_size": "write over=Window(left, right); over=Causal(window=left + 1) of (left, 0).",
    "sliding_window": "write over=Causal(window=1024).",
    "alibi_slopes": "write score=ALiBi(slopes=alibi_slopes).",
    "softcap": _CAP,
    "soft_cap": _CAP,
    "logits_soft_cap": _CAP,
    "attn_logit_softcapping": _CAP,
    "sinks": _SINK,
    "s_aux": _SINK,
    "temperature": "write scale=1 / (temperature * width**0.5).",
    "qk_norm": 'normalise q and k before the call, or write score="cosine".',
    "rope": _ROTARY,
    "rotary": _ROTARY,
    "rotary_emb": _ROTARY,
    "freqs_cis": _ROTARY,
    "position_ids": _ROTARY,
    "p": _DROPOUT,
    "attn_drop": _DROPOUT,
    "dropout_rate": _DROPOUT,
    "training": "attend knows no training mode: write dropout=p if self.training else 0.0.",
    "deterministic": "leave it out: the same backend, device and versions give the same bits.",
    "generator": "write seed=, 64 bits or a 0-d integer tensor.",
    "score_mod": "write it as a modifier: a class of regard.Modifier with forward(s, tile).",
    "mask_mod": "write over=Mask(keep=...), Window(...), Segments(...), or a structure of your own.",
    "block_mask": "write over=Mask(keep=...), Window(...), Segments(...), or a structure of your own.",
    "cu_seqlens": _PACKED,
    "cu_seqlens_q": _PACKED,
    "cu_seqlens_k": _PACKED,
    "cu_seq_lens_q": _PACKED,
    "cu_seq_lens_k": _PACKED,
    "max_seqlen": _LONGEST,
    "max_seqlen_q": _LONGEST,
    "max_seqlen_k": _LONGEST,
    "segment_ids": _SEGMENTS,
    "document_ids": _SEGMENTS,
    "edge_index": _GRAPH,
    "adj": _GRAPH,
    "adjacency": _GRAPH,
    "cache": _CACHE,
    "kv_cache": _CACHE,
    "past_key_value": _CACHE,
    "past_key_values": _CACHE,
    "use_cache": _CACHE,
    "block_table": _PAGES,
    "block_tables": _PAGES,
    "alpha": "write align=Entmax(alpha).",
    "top_k": "write align=TopK(top_k).",
    "topk": "write align=TopK(topk).",
    "activation": _ALIGN,
    "normalization": _ALIGN,
    "softmax_fn": _ALIGN,
    "similarity": _SCORE,
    "score_fn": _SCORE,
    "attention_type": _SCORE,
    "out_dtype": "out has the type of q: attend(q, k, v).out.to(dtype).",
    "attn_implementation": _BACKEND,
    "implementation": _BACKEND,
    "kernel_options": _BACKEND,
}
# Options that have no effect when False.
SWITCHES = {
    "deterministic",
    "need_weights",
    "output_attentions",
    "return_attention_scores",
    "return_attn_probs",
    "return_lse",
    "return_map",
    "return_weights",
    "use_cache",
}


def translated(
    who: str,
    given: Mapping[str, Any],
    call: "dict[str, Any]",
    own: Sequence[str] = OWN,
    more: "dict[str, str] | None" = None,
) -> None:
    """Translates torch's argument names into ours, in `call`; for unsupported ones the error says what to write.

    Options without effect are accepted, so that calls written for another library run: attn_mask=None,
    need_weights=False.

    call   the arguments by our own names, some of score, over, dropout
    own    the function's own arguments
    more   further answers
    """
    answers = ANSWERS | (more or {})
    for name, value in given.items():
        if name in MEANS and MEANS[name] in call:
            continue
        if name in answers and (value is None or (value is False and name in SWITCHES)):
            continue
        raise unknown_argument(who, name, own, answers, [x for x, means in MEANS.items() if means in call])
    if "enable_gqa" in given and "score" in call:
        flag(given["enable_gqa"], who, "enable_gqa")  # key heads are broadcast in any case
    for name in ("is_causal", "causal"):
        if name in given and flag(given[name], who, name):
            call["over"] = _causal(who, name, call)
    for name in _once(who, given, call, "dropout"):
        if call["dropout"]:
            raise TypeError(f"{who}(dropout=, {name}=): these are one argument; leave one out.")
        call["dropout"] = probability(given[name], who, name)
    for name in _once(who, given, call, "score"):
        call["score"] = _scaled(who, name, given[name], call["score"])


def _once(who: str, given: Mapping[str, Any], call: "dict[str, Any]", meant: str) -> list[str]:
    """The synonym by which an argument was given, if any; two are an error."""
    if meant not in call:
        return []
    names = [one for one in given if MEANS.get(one) == meant and one != "enable_gqa" and given[one] is not None]
    if len(names) > 1:
        raise TypeError(f"{who}({names[0]}=, {names[1]}=): these are one argument; leave one out.")
    return names


def _causal(who: str, name: str, call: "dict[str, Any]") -> Structure:
    over = structure_of(call["over"])
    q, k = call.get("q"), call.get("k")
    if isinstance(q, Tensor) and isinstance(k, Tensor) and q.ndim > 1 and k.ndim > 1 and q.shape[-2] != k.shape[-2]:
        raise TypeError(
            f"{who}({name}=True) with {q.shape[-2]} queries and {k.shape[-2]} keys: write "
            'over=Causal(align="end") where the last query sees every key (decoding), over=Causal(align="start") as '
            "torch has it."
        )
    return Causal() & over


def _scaled(who: str, name: str, scale: Any, score: "str | Score") -> Score:
    if score not in ("scaled_dot", "dot"):
        raise TypeError(
            f"{who}({name}={shown(scale)}, score={shown(score)}): {name} belongs to the dot product; give another "
            "score its own constant, for example Gaussian(width)."
        )
    if isinstance(scale, Tensor):
        raise TypeError(
            f"{who}({name}=a tensor): expected a number. A scale that is learned multiplies the queries: "
            "attend(q * scale, k, v, scale=1.0)."
        )
    make = ScaledDot if torch.compiler.is_compiling() else _scaled_dot
    return make(scale=number(scale, who, name))


@lru_cache(maxsize=64)
def _scaled_dot(scale: float) -> ScaledDot:
    """One object for each scale, so that the plan cache hits."""
    return ScaledDot(scale=scale)
