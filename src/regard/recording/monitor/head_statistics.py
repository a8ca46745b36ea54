"""What is measured of each head while a model trains, from sampled rows of its weights, in one pass over them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from torch import Tensor

from .sampled_rows import SampledRows, merged

DEAD = 0.01  # of the widest head's output: below it a head writes nothing that others could read
SAME = 0.98  # mean correlation of the rows of two heads from which on they count as duplicates


@dataclass(eq=False)
class HeadStatistics:
    """Statistics of the heads of one site at one step, each a tensor (heads,); NaN where one has no meaning.

    entropy       mean of -sum_j w_ij log w_ij over the sampled rows, in nats
    relative      entropy of a row as a share of log(keys that it may see), the entropy of equal weights: 0 to 1
    effective     mean of exp(entropy): how many keys a row attends, as many equal weights would
    max_logit     the largest score of a sampled row, before the alignment
    sink          mean weight on the first token, over rows that may see it and another one
    distance      mean of sum_j w_ij |i - j|, in positions
    output        root mean square of the head's output, over all rows
    gradient      the head's share of the squared gradient that reaches the attention's output; the heads sum to 1
    alike, twin   the largest mean correlation between its rows and those of another head, and which head that is
    rows          (r, 2): the item and the place of each row that was read
    """

    entropy: Tensor
    relative: Tensor
    effective: Tensor
    max_logit: Tensor
    sink: Tensor
    distance: Tensor
    output: Tensor
    gradient: Tensor
    alike: Tensor
    twin: Tensor
    rows: Tensor

    @property
    def heads(self) -> int:
        return self.entropy.shape[0]

    @property
    def dead(self) -> list[int]:
        """Heads whose output is less than a hundredth of the largest head's."""
        most = float(self.output.nan_to_num(0.0).max()) if self.heads else 0.0
        return [h for h, x in enumerate(self.output.tolist()) if most > 0 and x < DEAD * most]

    @property
    def duplicates(self) -> list[tuple[int, int]]:
        """Pairs of heads that prefer the same keys alike: a mean correlation of their rows of .98 and more."""
        pairs = zip(range(self.heads), self.twin.long().tolist(), self.alike.tolist(), strict=True)
        return sorted({(min(h, other), max(h, other)) for h, other, alike in pairs if other >= 0 and alike >= SAME})

    @property
    def broken(self) -> list[int]:
        """Heads with a weight that is no number."""
        return [h for h, x in enumerate(self.entropy.tolist()) if math.isnan(x)]


COLUMNS = tuple(field.name for field in fields(HeadStatistics) if field.name != "rows")


class Sums(NamedTuple):
    """Sums over the rows of one part: numbers (k, H), the largest scores (H,), correlations and their counts (H, H)."""

    numbers: Tensor
    peak: Tensor
    alike: Tensor
    both: Tensor


def statistics_of(rows: Iterable[SampledRows], shift: "int | None") -> "tuple[Tensor, Tensor, Tensor] | None":
    """(k, H) the columns entropy to distance, (2, H) alike and twin, (r, 2) the rows; None where no row was there.

    shift   how far key positions run ahead of query positions; None where places do not correspond
    """
    total: Sums | None = None
    places = []
    for part in merged(rows):
        more = _sums(part, shift)
        places.append(torch.stack([part.item, part.place], -1))
        total = more if total is None else _joined(total, more)
    if total is None:
        return None
    count, entropy, choices, relative, effective, seeing, sink, distance = total.numbers
    means = [
        entropy / count.clamp_min(1),  # empty rows have none, as in a map
        relative / choices,
        effective / count,
        total.peak,
        sink / seeing,
        distance / count if shift is not None else torch.full_like(count, torch.nan),
    ]  # 0 / 0 is NaN: it has no meaning there
    return torch.stack(means), _twins(total), torch.cat(places)


def _joined(a: Sums, b: Sums) -> Sums:
    return Sums(a.numbers + b.numbers, torch.maximum(a.peak, b.peak), a.alike + b.alike, a.both + b.both)


def _sums(part: SampledRows, shift: "int | None") -> Sums:
    w, open_ = part.w.abs(), part.open.expand(part.w.shape)  # signed weights count by their size
    mass = w.sum(-1)
    p = w / mass.clamp_min(torch.finfo(w.dtype).tiny)[..., None]
    choices = open_.sum(-1)
    there, chooses = choices > 0, choices > 1
    entropy = -torch.xlogy(p, p).sum(-1)
    at_first = open_ & (part.key == part.first[:, None])
    seeing = at_first.any(-1) & chooses
    away = torch.zeros_like(entropy)
    if shift is not None:
        away = (p * (part.key - (part.place + shift)[:, None]).abs()).sum(-1)
    columns = [
        there,
        -torch.xlogy(w, w).sum(-1) * there,
        chooses,
        entropy / choices.clamp_min(2).log() * chooses,
        entropy.exp() * there,
        seeing,
        (w * at_first).sum(-1) * seeing,
        away * there,
    ]
    numbers = torch.stack([x.to(w.dtype).sum(-1) for x in columns])
    peak = torch.full_like(numbers[0], torch.nan) if part.peak is None else part.peak.amax(-1).to(w.dtype)
    apart = (w - (mass / choices.clamp_min(1))[..., None]) * open_
    varied = choices > 2  # of two keys every correlation is 1 or -1
    unit = apart * (varied / apart.norm(dim=-1).clamp_min(torch.finfo(w.dtype).tiny))[..., None]
    counted = varied.to(w.dtype)
    return Sums(numbers, peak, torch.einsum("hrc,grc->hg", unit, unit), counted @ counted.T)


def _twins(total: Sums) -> Tensor:
    """(2, H): the largest mean correlation with another head, and which it is; NaN and -1 of a head that is alone."""
    heads = total.alike.shape[0]
    alike = total.alike / total.both
    alike = alike.masked_fill(torch.eye(heads, dtype=torch.bool, device=alike.device), -2.0)
    best = alike.nan_to_num(-2.0).max(-1)
    none = best.values < -1.5
    return torch.stack([best.values.masked_fill(none, torch.nan), best.indices.to(alike.dtype).masked_fill(none, -1.0)])
