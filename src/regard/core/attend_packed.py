"""attend_packed(): attention over packed sequences in the layout of flash attention's varlen kernels."""

from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from .alignments import Alignment, Softmax, alignment_of
from .arguments.torch_arguments import translated
from .attend import Attended, attend
from .errors import Refused
from .maps.lazy import LazyMap
from .plan import make_plan
from .scores import Score, score_of
from .structures import Causal, Full, Structure, Window, structure_of
from .structures.packed import within_sequences
from .structures.packing import Packing

HALF = (torch.float16, torch.bfloat16)
_OWN = (
    "q", "k", "v", "cu_seqlens", "key_cu_seqlens", "score", "align", "over", "dropout", "sample", "seed", "backend",
)  # fmt: skip
_LONGEST = ("max_seqlen", "max_seqlen_q", "max_seqlen_k")  # implied by cu_seqlens
_ANSWERS = {"cu_seqlens_q": "write cu_seqlens=.", "cu_seqlens_k": "write key_cu_seqlens=."}


def attend_packed(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens: Tensor,
    key_cu_seqlens: Tensor | None = None,
    score: "str | Score" = "scaled_dot",
    align: "str | Alignment" = "softmax",
    over: "Structure | str | None" = None,
    *,
    dropout: float = 0.0,
    sample: bool = False,
    seed: "int | Tensor | None" = None,
    backend: str = "auto",
    **by_torch: Any,
) -> Attended:
    """Attention within each of several packed (concatenated) sequences, without padding.

        y_i = sum over j of the same sequence of w_ij v_j

    q (T, H, d), k (M, H_k, d), v (M, H_k, d_v), cu_seqlens (s + 1,)  ->  out (T, H, d_v): the layout of varlen kernels

    key_cu_seqlens   cu_seqlens of the keys, if their lengths differ from those of the queries
    over             Full(), Causal(), Window(left, right) or what & joins of them, in each sequence; with
                     key_cu_seqlens they need align=, which applies to each sequence
    backend          as in attend; or "varlen": torch.nn.attention.varlen, CUDA, 16 bits, softmax of scaled dots
    by_torch         causal, softmax_scale, dropout_p as in varlen kernels; max_seqlen_q and max_seqlen_k are
                     ignored; for other names the error says what to write

    The map has the packed rows, (H, T, M), with Segments. Jagged NestedTensors go to attend(q, k, v) itself.
    """
    if by_torch:
        named: dict[str, Any] = {"score": score, "over": over, "dropout": dropout}
        translated("attend_packed", {k: x for k, x in by_torch.items() if k not in _LONGEST}, named, _OWN, _ANSWERS)
        score, over, dropout = named["score"], named["over"], named["dropout"]
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, Tensor) or x.ndim != 3 or x.is_nested:
            given = f"{tuple(x.shape)}" if isinstance(x, Tensor) and not x.is_nested else type(x).__name__
            raise ValueError(f"attend_packed: {name} is {given}, expected (rows of all sequences, heads, width).")
    queries = Packing.of(cu_seqlens, q.shape[0])
    same = key_cu_seqlens is None or key_cu_seqlens is cu_seqlens
    keys = queries if same else Packing.of(cast(Tensor, key_cu_seqlens), k.shape[0], "key_cu_seqlens")
    if keys.total != k.shape[0] or keys.starts.shape != queries.starts.shape:
        raise ValueError(
            f"attend_packed: k has {k.shape[0]} rows and {keys.starts.shape[0] - 1} sequences, q has {q.shape[0]} rows "
            f"and {queries.starts.shape[0] - 1}: give key_cu_seqlens= of as many sequences."
        )
    if backend == "varlen":
        return _varlen(q, k, v, queries, keys, score, align, over, dropout)
    inside = within_sequences(over, queries, keys)
    q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    found = attend(q, k, v, score, align, inside, dropout=dropout, sample=sample, seed=seed, backend=backend)
    return replace(found, out=found.out.transpose(0, 1))


def _varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    queries: Packing,
    keys: Packing,
    score: "str | Score",
    align: "str | Alignment",
    over: "Structure | str | None",
    dropout: float,
) -> Attended:
    """torch's varlen kernel; the map is that of attend, computed when it is read."""
    scale = score_of(score).dot_scale(q.transpose(0, 1)[None])
    window = _window(over, queries is keys)
    why = _varlen_refusals(q, v, scale, alignment_of(align), window, dropout)
    if why:
        raise Refused('backend="varlen" cannot run this: ' + " ".join(why) + ' backend="auto" can.')
    from torch.nn.attention.varlen import varlen_attn

    ends = (queries.starts.int(), keys.starts.int())
    longest = (q.shape[0], k.shape[0])  # upper bounds: the true maxima would need a synchronisation
    assert window is not None
    out = varlen_attn(q, k, v, *ends, *longest, scale=scale, window_size=window, enable_gqa=k.shape[1] != q.shape[1])
    q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    planned = make_plan(q, k, v, score, align, within_sequences(over, queries, keys), 0.0, False, None)
    planned.backend = "varlen"
    return Attended(cast(Tensor, out), LazyMap.of_plan(planned, None, None))


def _window(over: "Structure | str | None", alike: bool) -> tuple[int, int] | None:
    """(left, right) in the convention of varlen kernels, aligned at the end."""
    parts = structure_of(over).parts()
    if len(parts) != 1:
        return None
    part = parts[0]
    if type(part) is Full:
        return -1, -1
    if not alike and getattr(part, "align", None) != "end":
        return None
    if type(part) is Causal:
        return -1, 0
    if isinstance(part, Window) and part.grid is None and part.dilation == 1 and min(part.left, part.right) >= 0:
        return part.left, part.right
    return None


def _varlen_refusals(
    q: Tensor, v: Tensor, scale: float | None, align: Alignment, window: tuple[int, int] | None, dropout: float
) -> list[str]:
    why = []
    if q.device.type not in ("cuda", "meta"):  # meta: shapes alone
        why.append(f"torch.nn.attention.varlen runs on CUDA, q is on {q.device}.")
    if q.dtype not in HALF:
        why.append(f"It takes float16 and bfloat16, q is {str(q.dtype).removeprefix('torch.')}.")
    if scale is None or type(align) is not Softmax:
        why.append("It computes softmax of (scaled) dot products.")
    if window is None:
        why.append("It supports Full, Causal and Window, aligned at the end.")
    if dropout:
        why.append("It has no dropout.")
    if q.shape[-1] != v.shape[-1]:
        why.append(f"It takes one width, q has {q.shape[-1]} and v {v.shape[-1]}.")
    return why
