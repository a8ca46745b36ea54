"""How much each unit matters: by attention, maps made of it, gradients, leaving units out, and chance."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from regard.core.errors import Refused

from ..adapters.adapter import Adapter
from ..adapters.inputs import Inputs, NotApplicable
from ..statistics.divergence import tvd
from .attention_attribution import flow, gradient_times_attention, norms, relevance, rollout
from .gradients import gradient, gradient_times_input, integrated_gradients

Importance = Callable[[Adapter, Inputs], Tensor]


def attention(adapter: Adapter, inputs: Inputs) -> Tensor:
    """(B, n): the weights that are judged."""
    return adapter.attention(inputs)


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
    """(B, n): the mean weight that units at this place have in the other instances (`PlaceProfile`): what the weights
    would say if they depended on the place alone."""
    if not adapter.selector.tokens:
        raise NotApplicable(
            "Edges have no position in a text: their baselines are random edges and the degree of a node."
        )
    return adapter.place_profile.expected(adapter.attention(inputs), inputs)


def position_baseline(adapter: Adapter) -> dict[str, Importance]:
    """`position` by its name, where units have places; nothing for edges, and for a single text."""
    return {"position": position} if adapter.selector.tokens and len(adapter) > 1 else {}


def uniform(adapter: Adapter, inputs: Inputs) -> Tensor:
    """(B, n): the same for each."""
    return inputs.real.double()


def chance(seed: int = 0) -> Importance:
    """Numbers that are drawn: (adapter, inputs) -> (B, n)."""
    draw = torch.Generator().manual_seed(seed)

    def random(adapter: Adapter, inputs: Inputs) -> Tensor:
        return torch.rand(inputs.real.shape, generator=draw, dtype=torch.float64).to(inputs.real.device)

    return random


IMPORTANCES: dict[str, Importance] = {
    "attention": attention,
    "rollout": rollout,
    "flow": flow,
    "norms": norms,
    "gradient x attention": gradient_times_attention,
    "relevance": relevance,
    "gradient": gradient,
    "gradient x input": gradient_times_input,
    "integrated gradients": integrated_gradients,
    "leave one out": leave_one_out,
    "position": position,
}


def importances(adapter: Adapter, names: Sequence[str] | None = None) -> tuple[dict[str, Importance], dict[str, str]]:
    """The importances that this model has, by name; and of the others why it has not.

    names   some of them; all unless told. One that was asked for by name and cannot be had is an error

    Each is tried on the longest instance: a model whose attention pools has no rollout, long texts have no flow.
    """
    for name in names or ():
        if name not in IMPORTANCES:
            raise ValueError(f"importances(names=[..., {name!r}, ...]): expected some of {', '.join(IMPORTANCES)}.")
    longest = max(range(len(adapter)), key=lambda place: len(adapter.instances[place].tokens))
    inputs, had, missing = adapter.inputs([longest]), dict[str, Importance](), dict[str, str]()
    for name in IMPORTANCES if names is None else names:
        try:
            IMPORTANCES[name](adapter, inputs)
            had[name] = IMPORTANCES[name]
        except (ValueError, Refused, ImportError) as problem:
            if names is not None:
                raise
            missing[name] = str(problem)
    return had, missing
