"""Effect: what a head does with what it sees, on the logits or on any number of the model's output."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import Refused, within

from ..attribution.targets import pull, score_of
from ..record import Record
from .evaluation import Evaluation
from .run import unembedding
from .weighed import TOKENS
from .writers import Writer, writer_of


@dataclass(frozen=True)
class HeadEffect:
    """What one row of a head adds to a target, by key.

        effect_j = w_ij v_j . d target / d out_i          (the path through later layers, by gradients)
        value_a  = w_ij v_j^a . d target / d out_i          (what writer a put into the value that is seen)
        direct_a = the part of the target's logit that writer a wrote itself, later normalisation frozen

    by_key   (m,): to first order; their sum is what the head's output at i adds
    value    of the key j that was asked for
    values   by writer of the values that are seen, the largest first: they sum to the effect of the keys asked for
             (None where the model wrote its weights out)
    direct   by writer, the largest first: the logit is the sum of them (None where the logits are no affine function)
    own      what this head wrote into the logit directly, of `direct`
    """

    target: str
    by_key: Tensor
    value: float | None
    direct: list[tuple[Writer, float]] | None
    own: float | None
    values: list[tuple[Writer, float]] | None = None

    def __str__(self) -> str:
        own = "" if self.own is None else f", {self.own:+.3f} of it straight into the logit"
        one = "" if self.value is None else f"{self.value:+.3f} through this key, "
        return f"The head adds {one}{float(self.by_key.sum()):+.3f} to {self.target}{own}."


def effect_of(why: Any, target: Any = None, position: int = -1) -> HeadEffect:
    """Of a Why of one cell or one row."""
    rows = {i for i, *_ in why.cells}
    if len(rows) != 1:
        raise ValueError("effect() is of one cell or one row: ask why() with i.")
    i = rows.pop()
    rec = why.record
    model = rec._names.model
    chosen = target
    if target is None and why.run.logit_values is not None:
        logits = why.run.logit_values[why.item]
        chosen = int((logits if logits.ndim == 1 else logits[position]).argmax())
    with torch.enable_grad(), Record(model, sites=why.site, grad=True) as again, _hidden(model) as hidden:
        out = model(*rec.inputs.args, **rec.inputs.kwargs)
        if isinstance(chosen, Tensor):
            score = _along(out, hidden, chosen, why.item, position)
        else:
            score = score_of(out, chosen if callable(chosen) else lambda out: _logit(out, why.item, position, chosen))
    if not score.requires_grad:
        raise Refused("effect() takes gradients, and no parameter of this model has any: model.requires_grad_(True).")
    pull(again, score)
    gradient, amap = again.gradients[why.site], again.maps[why.site]
    rows_of = [(x[why.item] if len(x.lead) > 1 else x)[why.head].row(i).reshape(-1).double() for x in (amap, gradient)]
    by_key = rows_of[0] * rows_of[1]
    value = float(by_key[why.cells[0][1]]) if len(why.cells) == 1 else None
    slope = getattr(gradient, "pull", None)
    values = None if slope is None else _values(why, rows_of[0], slope[why.item, why.head, i].double())
    direct = None if callable(target) else _direct(why, position, chosen)
    own = None
    if direct is not None:
        own = sum((x for w, x in direct if w.path == why.site and w.head == why.head), 0.0)
    name = (
        "the target"
        if callable(target)
        else "the direction"
        if isinstance(target, Tensor)
        else f"the logit of {chosen}"
    )
    return HeadEffect(name, by_key.detach(), value, direct, own, values)


@torch.no_grad()
def _values(why: Any, weights: Tensor, slope: Tensor) -> list[tuple[Writer, float]] | None:
    """By writer of the values at the keys that were asked for, in blocks of keys."""
    call = why.run.call(why.site)
    if call.v is None or len(call.v.shape) != 4:
        return None
    keys, sums = [j for _, j, _ in why.cells], dict[Writer, float]()
    for at in range(0, len(keys), TOKENS):
        block = keys[at : at + TOKENS]
        side = why.run.value_parts(call, why.item, why.head, block)
        added = torch.einsum("atd,t,d->a", side.x, weights[block].detach(), slope.to(side.x.device))
        for writer, x in zip(side.writers, added.tolist(), strict=True):
            sums[writer] = sums.get(writer, 0.0) + x
    return sorted(sums.items(), key=lambda one: -abs(one[1]))


@contextmanager
def _hidden(model: Any) -> Iterator[list[Tensor]]:
    """What the logits are made of, where the model names the module that makes them."""
    found: list[Tensor] = []
    head = unembedding(model)
    hook = None if head is None else head.register_forward_pre_hook(lambda module, args: found.append(args[0]))
    try:
        yield found
    finally:
        if hook is not None:
            hook.remove()


def _along(out: Any, hidden: list[Tensor], direction: Tensor, item: int, position: int) -> Tensor:
    """The last hidden state of a token along a direction."""
    state = getattr(out, "last_hidden_state", None)
    state = state if state is not None else hidden[-1] if hidden else out if isinstance(out, Tensor) else None
    if state is None or state.shape[-1:] != direction.shape:
        has = "none" if state is None else f"width {state.shape[-1]}"
        raise ValueError(
            f"effect(target) is a direction {tuple(direction.shape)}, and the model's last hidden state has {has}: "
            "pass a function of the model's output instead."
        )
    return (state[item, position] @ direction.to(state.dtype)).sum()


def _logit(out: Any, item: int, position: int, chosen: int) -> Tensor:
    logits = getattr(out, "logits", out)
    return logits[item, chosen] if logits.ndim == 2 else logits[item, position, chosen]


@torch.no_grad()
def _direct(why: Any, position: int, chosen: Any) -> list[tuple[Writer, float]] | None:
    along = isinstance(chosen, Tensor)
    node = why.run.hidden if along else why.run.logits
    if node is None or not (along or isinstance(chosen, int)):
        return None
    last = None if along else (chosen,)
    if len(node.shape) == 3:
        at: Any = ((why.item,), (within(position, node.shape[1], f"position={position}", "tokens"),), last)
    else:
        at = ((why.item,), last)
    run = Evaluation(why.run.tape)
    parts = run.parts(node, at)
    x = parts.x.double().flatten(1)
    sums = (x @ chosen.double() if along else x.sum(1)).tolist()
    made = [(writer_of(key, run.leaves, why.run.tape), x) for key, x in zip(parts.keys, sums, strict=True)]
    return sorted(made, key=lambda one: -abs(one[1]))
