"""Which score is explained: of a class, of a token, or any function of a model's output; and its gradients."""

from typing import Any

import torch
from torch import Tensor

from regard.core.maps.attention_map import AttentionMap

from ..capture.edges.edge_maps import EdgeGradient
from .weight_gradients import LazyGradient, StoredGradient

Target = Any  # a class or token id, one for each item, or a function of the output


def score_of(output: Any, target: Target = None, contrast: Target = None, position: Any = -1) -> Tensor:
    """One number to take gradients of: the score of the target, less that of what it is contrasted with.

    output    what the model returned: logits (B, classes) or (B, n, vocabulary), or an object that has them
    target    a class or token id for all items, or one for each; a function of the output; None: the largest score
    contrast  another one of these, whose score is subtracted: why this and not that?
    position  of logits (B, n, vocabulary): the token whose prediction is explained, or one for each item

    Items do not see one another, so the sum over them has each item's own gradients.
    """
    made = _one(output, target, position, "target")
    return made if contrast is None else made - _one(output, contrast, position, "contrast")


def _one(output: Any, want: Target, position: Any, name: str) -> Tensor:
    if callable(want):
        found = want(output)
        if not isinstance(found, Tensor) or not found.is_floating_point():
            raise TypeError(f"{name}= is a function and returned {type(found).__name__}, expected a tensor of scores.")
        return found.sum()
    logits = _logits(output, name)
    if logits.ndim == 3:
        place = _ids(position, logits.shape[0], logits.shape[1], "position", logits.device)
        logits = logits[torch.arange(logits.shape[0], device=logits.device), place]
    if want is None:
        return logits.amax(-1).sum()
    ids = _ids(want, logits.shape[0], logits.shape[1], name, logits.device)
    return logits.gather(-1, ids[:, None]).sum()


def _logits(output: Any, name: str) -> Tensor:
    found = getattr(output, "logits", None)
    if found is None and isinstance(output, Tensor):
        found = output
    if found is None and type(output) in (tuple, list) and output and isinstance(output[0], Tensor):
        found = output[0]
    if not isinstance(found, Tensor) or found.ndim not in (1, 2, 3):
        given = f"a tensor of {tuple(found.shape)}" if isinstance(found, Tensor) else type(output).__name__
        raise TypeError(
            f"The output is {given}, which has no logits of classes or tokens: pass {name}= as a function "
            "of it that returns a score, such as lambda out: out.last_hidden_state[:, 0, 3]."
        )
    return found[None] if found.ndim == 1 else found


def _ids(given: Any, items: int, size: int, name: str, device: Any) -> Tensor:
    ids = torch.as_tensor(given, device=device)
    if ids.is_floating_point() or ids.dtype == torch.bool or ids.ndim > 1 or (ids.ndim and ids.shape[0] != items):
        raise ValueError(
            f"{name}={given!r}: expected a whole number, {items} of them (one for each item), or a "
            "function of the output."
        )
    if not -size <= int(ids.min()) <= int(ids.max()) < size:
        raise ValueError(f"{name}={given!r}: there are {size} classes or tokens, expected {-size} to {size - 1}.")
    return (ids % size).expand(items)


def pull(rec: Any, score: Tensor) -> None:
    """Fill a record's gradients with those of a score alone. No parameter's .grad is touched; the graph stays."""
    if not rec.gradients:
        raise ValueError(
            "This record has no gradients: use record(model, grad=True), with torch's gradients on and "
            "parameters or inputs that require them."
        )
    for found in rec.gradients.values():
        if isinstance(found, LazyGradient):
            found.pull = None
        elif isinstance(found, StoredGradient):
            found.given = None
        elif isinstance(found, EdgeGradient):
            found.filled = False
    leaves = _leaves(score)
    if not leaves:
        raise ValueError(
            "The target does not lead back to the model: keep the output as the model returned it, "
            "without detach() or no_grad()."
        )
    torch.autograd.grad(score, leaves, retain_graph=True, allow_unused=True)
    if not any(_reached(found) for found in rec.gradients.values()):
        raise ValueError(
            "The target does not depend on any attention in this record: pass the output of the recorded run."
        )
    for found in rec.gradients.values():
        if not _reached(found):
            _clear(found)


def held(found: AttentionMap) -> AttentionMap:
    """A gradient as it is now: the next target that is asked for does not change it."""
    if not _reached(found):
        raise RuntimeError("There is no gradient yet: pass the output of the recorded run, or call backward() first.")
    return found.narrowed(found.lead, found.slab)


def _reached(found: Any) -> bool:
    if isinstance(found, EdgeGradient):
        return found.filled
    return (found.pull if isinstance(found, LazyGradient) else found.given) is not None


def _clear(found: Any) -> None:
    """A site that the score does not depend on has gradient 0."""
    if isinstance(found, LazyGradient):
        found.pull = found.v.new_zeros((*found.lead, found.n, found.v.shape[-1]))
    elif isinstance(found, StoredGradient):
        found.given = torch.zeros((found.slab.stop, found.n, found.m))
    else:
        found.weight, found.filled = torch.zeros_like(found.weight), True


def _leaves(score: Tensor) -> list[Tensor]:
    """The parameters and inputs that a score was computed from."""
    found: dict[int, Tensor] = {}
    seen: set[Any] = set()
    waiting: list[Any] = [score.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if isinstance(variable, Tensor):
            found[id(variable)] = variable
        waiting.extend(following for following, _ in node.next_functions)
    return list(found.values())
