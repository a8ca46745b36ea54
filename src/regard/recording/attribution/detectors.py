"""Head detectors: what does a head look at? Each answer is a number with its chance level beside it.

A detector names keys for each query: the token before, the same token elsewhere, the first token. Its score is the
weight that a head puts on them, its chance level what uniform weights over the keys that it may see would put there,
both averaged over the rows where there is such a key. Rows are streamed: no n x m matrix is held.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.core.maps.attention_map import AttentionMap

from ..labels import CROSS
from .head_scores import HeadScore, HeadScores
from .layers import DECODER
from .row_bands import Rows, TextMaps, texts_of

DETECTORS = {
    "previous": "the token before",
    "next": "the token after",
    "duplicate": "the same token elsewhere",
    "induction": "the token after the same token elsewhere",
    "first": "the first token (a sink)",
    "separator": "separators",
    "position": "predicted by position alone",
}
OF_TOKENS = ("duplicate", "induction", "separator")
SEPARATORS = ("[SEP]", "</s>", "<|im_end|>", ".", ",")


def heads(
    rec: Any,
    tokens: Any = None,
    *,
    target_tokens: Any = None,
    separators: "Sequence[Any] | None" = None,
    detectors: "Sequence[str] | None" = None,
    sites: str = "*",
) -> HeadScores:
    """What every head of a record looks at: a score and a chance level for each detector, layer and head.

    tokens         ids (items, n) that the model read; the labels of the record unless told
    target_tokens  of an encoder-decoder: ids that its decoder read
    separators     ids or names of separators; unless told, by name: [SEP], </s>, <|im_end|>, full stop and comma
    detectors      some of previous, next, duplicate, induction, first, separator, position; all that can be had

    previous, next   the token before, after
    duplicate        another place with the same token
    induction        the token after another place with the same token; `repeated` makes texts that show it
    first            the first token that may be seen: a sink, where the text does not give a reason
    separator        tokens that separate, the first one left out
    position         how much of each row is foretold by its distances alone: sum_j min(w_ij, p_ij), where p_ij is the
                     weight that a distance j - i has in the other items (with one item: in the other rows), relative
                     to uniform weights there. 1: distance is all there is (a little less at the edges of a text). Its
                     chance level is what uniform weights foretell.

    In cross-attention, where places do not correspond, first and separator alone are defined; others are NaN, as is a
    detector with no row to look at. Rows of padding do not count. Steps of a generation count as one text.
    """
    wanted = list(DETECTORS) if detectors is None else list(detectors)
    for name in wanted:
        if name not in DETECTORS:
            raise ValueError(f"heads(detectors=[..., {name!r}, ...]): expected some of {', '.join(DETECTORS)}.")
    by_site = getattr(rec, "maps", rec)
    named = by_site.items() if hasattr(by_site, "items") else ((x.site or f"layer {i}", x) for i, x in enumerate(rec))
    named = [(name, amap) for name, amap in named if fnmatchcase(name, sites)]
    if not named:
        raise ValueError(f"There is no map to look at (sites={sites!r}): record with keep='qk' or 'weights'.")
    crossing = {name for name, _ in named if CROSS.search(name)}
    crossing = set() if len(crossing) == len(named) else crossing
    found: dict[str, dict[str, HeadScore]] = {}
    for name, maps in texts_of(named):
        side = "target" if crossing and DECODER.search(name) and name not in crossing else "source"
        ids = _ids_of(rec, target_tokens if side == "target" else tokens, side, separators)
        if detectors is not None and ids is None and any(x in OF_TOKENS for x in wanted):
            raise ValueError(
                "duplicate, induction and separator need the tokens: heads(rec, tokens=input_ids), or "
                "record(model, tokenizer=...)."
            )
        found[name] = _look(maps, ids, name in crossing, wanted)
    return HeadScores(found, wanted)


def repeated(
    vocabulary: "int | Sequence[int]", length: int = 50, items: int = 4, first: int | None = None, seed: int = 0
) -> Tensor:
    """Random tokens said twice, (items, 2 length), or one more with a `first` token: shows induction heads.

    vocabulary: how many ids there are, or those to draw from. No token stands twice in a half if there are enough.
    Nothing but a repetition foretells the second half. Olsson et al. 2022.
    """
    pool = torch.arange(vocabulary) if isinstance(vocabulary, int) else torch.as_tensor(list(vocabulary))
    pool = pool if first is None else pool[pool != first]
    if length < 1 or not len(pool):
        raise ValueError(f"repeated(length={length}, vocabulary of {len(pool)}): expected at least one of both.")
    draw = torch.Generator().manual_seed(seed)
    each = [
        pool[torch.randperm(len(pool), generator=draw)[:length]]
        if len(pool) >= length
        else pool[torch.randint(len(pool), (length,), generator=draw)]
        for _ in range(items)
    ]
    half = torch.stack(each)
    start = half.new_full((items, 0 if first is None else 1), first or 0)
    return torch.cat([start, half, half], -1)


class Ids(NamedTuple):
    """Tokens as numbers, (items, length), and which of them separate; None where nobody said."""

    ids: Tensor
    separates: Tensor | None


def _ids_of(rec: Any, given: Any, side: str, separators: "Sequence[Any] | None") -> Ids | None:
    if given is not None:
        ids = torch.as_tensor(given)
        if ids.is_floating_point() or ids.ndim not in (1, 2):
            raise ValueError(
                f"heads(tokens) has shape {tuple(ids.shape)} and type {ids.dtype}, expected ids (items, length)."
            )
        ids = ids[None] if ids.ndim == 1 else ids
        chosen = [x for x in separators or () if isinstance(x, int)]
        return Ids(ids, torch.isin(ids, torch.tensor(chosen)) if chosen else None)
    runs = rec.labels.runs if hasattr(rec, "labels") else []
    axes = runs[0].get(side) if runs else None
    if not axes:
        return None
    known: dict[str, int] = {}
    longest = max(len(axis.names) for axis in axes)
    ids = torch.full((len(axes), longest), -1)
    for item, axis in enumerate(axes):
        ids[item, : len(axis.names)] = torch.tensor([known.setdefault(x, len(known)) for x in axis.names]).long()
    names = {x for x in (SEPARATORS if separators is None else separators) if isinstance(x, str)}
    chosen = [number for name, number in known.items() if name.strip() in names]
    return Ids(ids, torch.isin(ids, torch.tensor(chosen)) if chosen else None)


def _look(maps: "list[AttentionMap]", ids: Ids | None, cross: bool, wanted: Sequence[str]) -> dict[str, HeadScore]:
    text = TextMaps(maps, cross)
    shape = (text.items, text.heads)
    sums = {name: torch.zeros((3, text.heads), dtype=torch.float64) for name in wanted}  # score, chance, rows
    distances = torch.zeros((2, *shape, 2 * text.m), dtype=torch.float64)
    if ids is not None:
        ids = Ids(*(_fitted(x, text) for x in ids))
    for band in text:
        for name in wanted:
            hit = _keys(name, band, text, ids)
            if hit is not None:
                _add(sums[name], band, hit)
        if "position" in wanted and not cross:
            at = _distance(band, text)
            real = band.open & band.real[..., None]
            for total, part in zip(distances, (band.w * real, _uniform(band) * real), strict=True):
                total.scatter_add_(-1, at.expand(*shape, -1), part.double().flatten(2).to(total.device))
    if "position" in wanted and not cross:
        _foretold(sums["position"], text, distances)
    return {name: _score(total) for name, total in sums.items()}


def _score(total: Tensor) -> HeadScore:
    score, chance, rows = total
    empty = rows == 0
    score, chance = ((x / rows.clamp_min(1)).masked_fill(empty, torch.nan).float() for x in (score, chance))
    return HeadScore(score, chance, rows.long())


def _fitted(x: Any, text: TextMaps) -> Any:
    if x is None:
        return None
    if x.shape[0] not in (1, text.items) or x.shape[1] < text.m:
        raise ValueError(
            f"heads(tokens) is {tuple(x.shape)}, but the maps have {text.items} items of {text.m} keys: "
            "pass the ids that the model read, (items, length)."
        )
    return x.expand(text.items, -1)


def _keys(name: str, band: Rows, text: TextMaps, ids: Ids | None) -> Tensor | None:
    """The keys that a detector names for each row, (B or 1, 1, r, m); None where it has no meaning."""
    device, m = band.w.device, band.w.shape[-1]
    key, place = torch.arange(m, device=device), band.place[:, None]
    first = text.first.to(device)[:, None, None, None]
    if name == "first":
        return (key == first) & ((place > first) if not text.cross else torch.ones_like(place > first))
    if name == "separator":
        if ids is None or ids.separates is None:
            return None
        return ids.separates.to(device)[:, None, None, :m] & (key != first)
    if text.cross:
        return None
    if name == "previous":
        return (key == place - 1)[None, None]
    if name == "next":
        return None if text.causal else (key == place + 1)[None, None]
    if ids is None or name == "position":
        return None
    token = ids.ids.to(device)
    own = token[:, band.place][:, None, :, None]
    if name == "duplicate":
        return (token[:, None, None, :m] == own) & (key != place)
    before = torch.cat([torch.full_like(token[:, :1], -2), token[:, : m - 1]], -1)
    return (before[:, None, None] == own) & (key != place) & (key - 1 != place)


def _add(total: Tensor, band: Rows, hit: Tensor) -> None:
    hit = hit & band.open
    named = hit.sum(-1)
    rows = (named > 0) & band.real
    given = (band.w * hit).sum(-1)
    by_chance = named / band.open.sum(-1).clamp_min(1)
    for place, part in enumerate((given, by_chance, torch.ones_like(given))):
        total[place] += (part.double() * rows).sum((0, 2)).to(total.device)


def _distance(band: Rows, text: TextMaps) -> Tensor:
    """Where each pair stands in a line of distances j - i, (r m,)."""
    key = torch.arange(band.w.shape[-1], device=band.w.device)
    return (key - band.place[:, None] + text.m - 1).flatten().cpu()


def _uniform(band: Rows) -> Tensor:
    return band.open / band.open.sum(-1, keepdim=True).clamp_min(1).double()


def _foretold(total: Tensor, text: TextMaps, distances: Tensor) -> None:
    """Rows against what other rows say: how many times more than uniform weights a distance has, on the row's keys."""
    given, by_chance = distances
    alone = text.items == 1
    if not alone:
        given, by_chance = (x.sum(0, keepdim=True) - x for x in (given, by_chance))
    for band in text:
        at, uniform = _distance(band, text), _uniform(band)
        size = (*band.w.shape[:2], -1, band.w.shape[-1])
        above, below = (x[..., at].reshape(size).to(band.w.device) for x in (given, by_chance))
        if alone:  # the row itself is no evidence
            above, below = above - band.w, below - uniform
        known = below > 1e-9
        guess = uniform * (above.clamp_min(0.0) / below.where(known, 1.0)).where(known, 1.0)
        weight = guess.sum(-1, keepdim=True)
        guess = (guess / weight.where(weight > 0, 1.0)).where(weight > 0, uniform)
        rows = band.real & (band.open.sum(-1) > 1)
        for place, part in enumerate(
            (
                torch.minimum(band.w, guess).sum(-1),
                torch.minimum(band.w, uniform).sum(-1),
                torch.ones_like(weight[..., 0]),
            )
        ):
            total[place] += (part * rows).sum((0, 2)).to(total.device)
