"""How much each unit matters, by other measures than attention: gradients, leaving it out, chance."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..recording.intervening.interventions import Replace
from .adapter import Adapter
from .divergence import tvd
from .inputs import Inputs

Importance = Callable[[Adapter, Inputs], Tensor]


def attention(adapter: Adapter, inputs: Inputs) -> Tensor:
    """(B, n): the weights that are judged."""
    return adapter.attention(inputs)


def gradient(adapter: Adapter, inputs: Inputs) -> Tensor:
    """(B, n): |gradient . vector| of each token, the judged weights held fast; of an edge, the gradient of its mask.

    Of the log-odds of the predicted class, log p / (1 - p): the same ranks as of p itself, without its zeros where the
    model is sure.
    """
    if not adapter.look.tokens:  # what has no vector: the look knows what stands for it
        return adapter.look.gradient(adapter, inputs)
    found: list[Tensor] = []

    def hold(module: nn.Module, given: Any, out: Tensor) -> Tensor:
        found.append(out.detach().requires_grad_())
        return found[-1]

    hooks = [module.register_forward_hook(hold) for module in adapter.vectors]
    fast = Replace(lambda weights, here: weights.detach())
    try:
        # cuDNN's recurrent layers have no gradient in evaluation mode
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            logits = adapter.logits(inputs, dict.fromkeys(adapter.judged, fast))
            pulls = torch.autograd.grad(log_odds(logits).sum(), found, allow_unused=True)
    finally:
        for hook in hooks:
            hook.remove()
    made = torch.zeros(inputs.real.shape, dtype=torch.float64, device=inputs.real.device)
    for pull, vector in zip(pulls, found, strict=True):
        if pull is not None:
            made += (pull.double() * vector.detach().double()).sum(-1).reshape(made.shape)
    return made.abs().masked_fill(~inputs.real, 0.0)


def log_odds(logits: Tensor, towards: int | None = None) -> Tensor:
    """(B,): log p / (1 - p) of the predicted class, or of the class `towards`, from logits (B, classes)."""
    said = logits.detach().argmax(-1, keepdim=True)
    said = said if towards is None else torch.full_like(said, towards)
    others = logits.scatter(-1, said, -torch.inf).logsumexp(-1)
    return logits.gather(-1, said)[:, 0] - others


def leave_one_out(adapter: Adapter, inputs: Inputs) -> Tensor:
    """(B, n): total variation between the prediction and that without the unit; NaN where nothing would be left."""
    item, place = inputs.units.nonzero(as_tuple=True)
    made = torch.zeros(inputs.real.shape, dtype=torch.float64, device=inputs.real.device)
    if len(item) == 0:
        return made
    gone = torch.zeros((len(item), inputs.real.shape[1]), dtype=torch.bool, device=inputs.real.device)
    gone[torch.arange(len(item), device=gone.device), place] = True
    without = adapter.predict_without(inputs.chosen(item), gone)
    made[item, place] = tvd(without, adapter.predict(inputs)[item])
    return made


def position(adapter: Adapter, inputs: Inputs) -> Tensor:
    """(B, n): the earlier the more. What a measure that knows nothing but the place would say."""
    return -torch.arange(inputs.real.shape[1], dtype=torch.float64, device=inputs.real.device).expand(inputs.real.shape)


def chance(seed: int = 0) -> Importance:
    """Numbers that are drawn: (adapter, inputs) -> (B, n)."""
    draw = torch.Generator().manual_seed(seed)

    def random(adapter: Adapter, inputs: Inputs) -> Tensor:
        return torch.rand(inputs.real.shape, generator=draw, dtype=torch.float64).to(inputs.real.device)

    return random


MEASURES: dict[str, Importance] = {
    "attention": attention, "gradient": gradient, "leave one out": leave_one_out, "position": position,
}  # fmt: skip
