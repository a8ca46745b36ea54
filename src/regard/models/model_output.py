"""The output of a task model: predictions and attention maps."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.attend import Attended, Sample
from ..core.maps.attention_map import AttentionMap


@dataclass(eq=False)
class Answer:
    """out: logits (B, classes), (B, t, words), numbers (B,), pixels (B, 1, h, w), or (N, classes) for nodes.

    maps      of the attention part; one a step for a stepwise decoder
    inner     maps of the feature model, if it has attention
    samples   samples (hard, reinforced), for score-function losses
    fed       a sample at one step may affect later steps
    """

    out: Tensor
    maps: tuple[AttentionMap, ...] = ()
    inner: tuple[AttentionMap, ...] = ()
    samples: tuple[Sample, ...] = ()
    fed: bool = True

    def weights(self, grad: bool = False) -> Tensor:
        """(B, H, rows, n): the rows of all steps, one below the other."""
        if not self.maps:
            raise ValueError("This answer has no map: the model was built with attention 'none'.")
        found = [amap.weights(grad=True) if grad else amap.weights() for amap in self.maps]
        return found[0] if len(found) == 1 else torch.cat(found, -2)

    def mean_weights(self) -> Tensor:
        """(B, rows, n): the weights, averaged over heads and, if feature-wise, over features."""
        found = self.weights().mean(1)
        return found.mean(1) if found.ndim == 4 else found


def maps_and_samples(*calls: Attended) -> tuple[tuple[AttentionMap, ...], tuple[Sample, ...]]:
    """The maps and samples of some calls; calls without them are skipped."""
    maps = tuple(one.map for one in calls if one.map is not None)
    return maps, tuple(one.sample for one in calls if one.sample is not None)
