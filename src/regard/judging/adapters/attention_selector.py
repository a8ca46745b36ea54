"""Which weights are judged: the sites, the layer and the row that are read as attention over the units."""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor

from regard.core.maps.attention_map import AttentionMap
from regard.recording.attribution.rollout import rollout
from regard.recording.interventions.edits import EditedCall
from regard.recording.interventions.interventions import Here, Intervention

from .inputs import Inputs


@dataclass(frozen=True)
class AttentionSelector:
    """How maps become one weight for each token: the mean of heads, of a layer, in a row.

    sites   a pattern of module paths
    layer   which of the sites that fit, in the order in which they ran (-1, the last, unless told);
            "mean" of all of them, or "rollout" through all of them
    row     0: the first token ([CLS]), or the only row where attention pools; -1: the last real token;
            "mean": the mean of the rows of all real tokens
    """

    sites: str = "*"
    layer: int | str = -1
    row: int | str = 0

    tokens = True  # keys are tokens, so that their values can be silenced one by one

    def __post_init__(self) -> None:
        if not isinstance(self.layer, int) and self.layer not in ("mean", "rollout"):
            raise ValueError(f"AttentionSelector(layer={self.layer!r}): expected a whole number, 'mean' or 'rollout'.")
        if self.row not in (0, -1, "mean"):
            raise ValueError(
                f"AttentionSelector(row={self.row!r}): expected 0 (the first token), -1 (the last) or 'mean'."
            )

    def judged(self, sites: "list[str]") -> list[str]:
        """The sites whose weights are read, of those that ran."""
        fits = [name for name in sites if fnmatchcase(name, self.sites)]
        if not fits:
            known = ", ".join(sites[:6]) or "none"
            raise ValueError(f"AttentionSelector(sites={self.sites!r}) fits no site that attended; recorded: {known}.")
        if not isinstance(self.layer, int):
            return fits
        if not -len(fits) <= self.layer < len(fits):
            raise ValueError(
                f"AttentionSelector(layer={self.layer}): {len(fits)} sites fit {self.sites!r}, expected {-len(fits)} "
                f"to {len(fits) - 1}."
            )
        return [fits[self.layer]]

    def rows(self, inputs: Inputs, n: int) -> Tensor:
        """(B, n) bool: the rows that are read. A map of one row has no other."""
        real = inputs.real
        if n == 1:
            return torch.ones((len(inputs), 1), dtype=torch.bool, device=real.device)
        if n != real.shape[1]:
            raise ValueError(
                f"The judged attention has {n} rows and {real.shape[1]} tokens: expected one row, or one "
                "for each token; choose the site by AttentionSelector(sites=...)."
            )
        if self.row == "mean":
            return real
        place = torch.arange(n, device=real.device)
        at = (place * real).amax(-1, keepdim=True) if self.row == -1 else (~real).long().argmin(-1, keepdim=True)
        return place == at

    def read(self, maps: Mapping[str, AttentionMap], inputs: Inputs) -> Tensor:
        """(B, n): the weight of each token, 0 where there is none."""
        names = self.judged(list(maps))
        if self.layer == "rollout":
            found = [rollout([maps[name] for name in names])]
        else:
            found = [maps[name] for name in names]
        return torch.stack([self.read_weights(amap.weights(), inputs) for amap in found]).mean(0)

    def read_heads(self, maps: Mapping[str, AttentionMap], inputs: Inputs) -> dict[tuple[str, int], Tensor]:
        """(B, n) of each head of the judged sites, by (site, head): what `read` takes the mean of."""
        found = {}
        for name in self.judged(list(maps)):
            weights = maps[name].weights()
            for head in range(weights.shape[1]):
                found[name, head] = self.read_weights(weights[:, head : head + 1], inputs)
        return found

    def rows_of(self, amap: AttentionMap, inputs: Inputs) -> Tensor:
        """(B, H, rows, n): all weights of one layer, keys being tokens."""
        return amap.weights()

    def open_rows(self, now: EditedCall, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """The weights of a call, (B, H, rows, n), and which of them may move: those of units in the rows read."""
        open_pairs = self.rows(inputs, now.sizes[0])[:, None, :, None] & inputs.units[:, None, None, :]
        allowed = now.allowed()
        open_pairs = (open_pairs if allowed is None else open_pairs & allowed).expand(now.shape)
        return now.weights().detach(), open_pairs

    def put_back(self, now: EditedCall, weights: Tensor, inputs: Inputs) -> EditedCall:
        """The call with other weights, laid as open_rows() gave them."""
        return now.given(weights)

    def gradient(self, adapter: Any, inputs: Inputs) -> Tensor:
        raise TypeError(f"{type(self).__name__} has no gradient(): units that are no tokens need one of their own.")

    def read_weights(self, weights: Tensor, inputs: Inputs) -> Tensor:
        """The same of one layer's weights, (B, H, rows, n)."""
        if weights.ndim != 4 or weights.shape[0] != len(inputs) or weights.shape[-1] != inputs.real.shape[1]:
            raise ValueError(
                f"The judged attention is {tuple(weights.shape)}, expected ({len(inputs)}, heads, rows, "
                f"{inputs.real.shape[1]}): keys that are the tokens. Choose the site by AttentionSelector(sites=...)."
            )
        rows = self.rows(inputs, weights.shape[-2])[:, :, None].to(weights.dtype)
        mean = (weights.mean(1) * rows).sum(1) / rows.sum(1).clamp_min(1)
        return mean.masked_fill(~inputs.real, 0.0)


class AmongUnits(Intervention):
    """Weights that change in the rows that are read, and there among the units alone: special tokens keep theirs.

    kept   weights by site that are known already, where many runs begin from the same ones
    """

    def __init__(self, selector: AttentionSelector, inputs: Inputs, kept: dict[str, Tensor] | None = None):
        self.selector, self.inputs, self.kept = selector, inputs, {} if kept is None else kept

    def apply(self, now: EditedCall, here: Here) -> EditedCall:
        weights, open_pairs = self.selector.open_rows(now, self.inputs)
        weights = self.kept.get(str(here.site), weights)
        moved = self.moved(weights, open_pairs, here).to(weights.dtype)
        return self.selector.put_back(now, torch.where(open_pairs, moved, weights), self.inputs)

    def moved(self, weights: Tensor, open_pairs: Tensor, here: Here) -> Tensor:
        """Other weights, (B, H, n, m), of the open pairs."""
        raise TypeError(
            f"{type(self).__name__} has no moved(weights, open_pairs, here): an intervention of your own defines it."
        )
