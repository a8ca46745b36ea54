"""Importance by gradients: of the log-odds of the predicted class, by the vectors of the tokens.

Log-odds, log p / (1 - p), have the same order as p itself, without its zeros where a model is sure.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.recording.interventions.interventions import Replace

from ..adapters.adapter import Adapter, Changes
from ..adapters.inputs import Inputs

STEPS = 20  # points of the path from the baseline to the text


def gradient(adapter: Adapter, inputs: Inputs) -> Tensor:
    """(B, n): |gradient . vector| of each token, the judged weights held fast; of an edge, the gradient of its mask.

    Jain & Wallace 2019.
    """
    if not adapter.selector.tokens:  # what has no vector: the selector knows what stands for it
        return adapter.selector.gradient(adapter, inputs)
    fast = Replace(lambda weights, here: weights.detach())
    return _pulled(adapter, inputs, dict.fromkeys(adapter.judged, fast)).abs()


def gradient_times_input(adapter: Adapter, inputs: Inputs) -> Tensor:
    """(B, n): gradient . vector of each token: above 0 speaks for the predicted class, below 0 against it."""
    return _pulled(adapter, inputs)


def integrated_gradients(adapter: Adapter, inputs: Inputs, steps: int = STEPS) -> Tensor:
    """(B, n): the gradient on the way from a text whose units have the vector 0 to the text itself.

        x_i . integral over a from 0 to 1 of dF/dx_i (a x)      for units; special tokens stay as they are, and have 0

    `steps` points of Gauss and Legendre; F is the log-odds. Over the units it sums to F(text) - F(units at 0), up to
    the error of the steps. Sundararajan et al. 2017.
    """
    said = adapter.predict(inputs).argmax(-1, keepdim=True)
    points, shares = np.polynomial.legendre.leggauss(steps)
    made = torch.zeros(inputs.real.shape, dtype=torch.float64, device=inputs.real.device)
    for point, share in zip(points.tolist(), shares.tolist(), strict=True):
        at = torch.where(inputs.units, (point + 1) / 2, 1.0)
        made += _pulled(adapter, inputs, at=at, said=said) * share / 2
    return made.masked_fill(~inputs.units, 0.0)


def log_odds(logits: Tensor, towards: "int | Tensor | None" = None) -> Tensor:
    """(B,): log p / (1 - p) from logits (B, classes): of the predicted class, of one, or of one an item, (B, 1)."""
    said = logits.detach().argmax(-1, keepdim=True)
    said = said if towards is None else torch.as_tensor(towards, device=said.device).expand_as(said)
    return logits.gather(-1, said)[:, 0] - logits.scatter(-1, said, -torch.inf).logsumexp(-1)


@contextmanager
def vectors_held(
    adapter: Adapter, change: Callable[[Tensor], Tensor] = lambda x: x
) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
    """In this block gradients end at the vectors of tokens: what they were, and change(vector) that took their place.

    A model whose parameters are all fixed has gradients too.
    """
    own, used = list[Tensor](), list[Tensor]()

    def hold(module: nn.Module, given: Any, out: Tensor) -> Tensor:
        own.append(out.detach())
        used.append(change(out.detach()).requires_grad_())
        return used[-1]

    hooks = [module.register_forward_hook(hold) for module in adapter.vectors]
    try:
        # cuDNN's recurrent layers have no gradient in evaluation mode
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            yield own, used
    finally:
        for hook in hooks:
            hook.remove()


def _pulled(
    adapter: Adapter,
    inputs: Inputs,
    changes: Changes | None = None,
    at: Tensor | None = None,
    said: Tensor | None = None,
) -> Tensor:
    """(B, n): gradient . vector, the gradient taken where each vector is at (B, n) times what it is; 0 in padding."""

    def scaled(x: Tensor) -> Tensor:
        return x if at is None else (x.reshape(*at.shape, -1) * at[..., None]).to(x.dtype).reshape(x.shape)

    with vectors_held(adapter, scaled) as (own, used):
        odds = log_odds(adapter.logits(inputs, changes), said)
        pulls = torch.autograd.grad(odds.sum(), used, allow_unused=True)
    made = torch.zeros(inputs.real.shape, dtype=torch.float64, device=inputs.real.device)
    for pull, vector in zip(pulls, own, strict=True):
        if pull is not None:
            made += (pull.double() * vector.double()).sum(-1).reshape(made.shape)
    return made.masked_fill(~inputs.real, 0.0)
