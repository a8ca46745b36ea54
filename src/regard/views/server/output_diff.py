"""What a model gave, put so that two runs can be set beside each other.

chances   of a class, of the next token, of what stands at a mask: p = softmax(logits)
states    of an encoder: the mean over tokens is the sentence, its cosine and norm tell how far it moved
wrote     the text that was generated
tokens    how far each token moved: half of sum |p - p'| over its chances, or 1 - cosine of its states
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.recording.pretrained import ModelRun

WIDE = 1 << 24  # chances of all tokens that are kept; of longer texts, those of the last alone
TOP = 8  # chances that are told


@dataclass(frozen=True)
class Said:
    """title; chances (p,) and their names; vectors (n, d), whole rows of chances or states; wrote."""

    title: str
    chances: list[Tensor] = field(default_factory=list)
    names: Any = None  # index -> name
    places: list[str] = field(default_factory=list)  # what each of the chances stands at
    rows: Tensor | None = None
    are_chances: bool = False
    wrote: str | None = None


@torch.no_grad()
def said(model: Any, tokenizer: Any, ran: ModelRun) -> Said:
    """What kind of output this is, and its numbers on the CPU."""
    if ran.out is None:
        return Said("What it writes", wrote=ran.wrote)
    logits, states = (getattr(ran.out, name, None) for name in ("logits", "last_hidden_state"))
    labels = getattr(model.config, "id2label", None) or {}
    if logits is None:
        if states is None:
            return Said(f"{type(model).__name__} gives nothing that is compared here")
        return Said("The sentence as a vector: the mean of its tokens", rows=states[0].float().cpu())
    logits = logits[0].float().cpu()
    if logits.ndim == 1:
        several = getattr(model.config, "problem_type", None) == "multi_label_classification" or len(logits) == 1
        chances = logits.sigmoid() if several else logits.softmax(-1)
        return Said("Class", [chances], lambda i: str(labels.get(i, i)))
    rows = logits.softmax(-1) if logits.numel() <= WIDE else None
    if logits.shape[-1] == len(labels) and logits.shape[-1] < 1000:
        title = "How far the label of each token moves"
        return Said(title, rows=rows, are_chances=True)
    names = _Words(tokenizer)
    if "MaskedLM" in type(model).__name__:
        at = (ran.ids[0] == tokenizer.mask_token_id).nonzero()[:, 0].tolist()[:6]
        title = "What stands at the mask" if at else f"Write {tokenizer.mask_token} where the model is to guess"
        return Said(title, [logits[i].softmax(-1) for i in at], names, [f"at {i}" for i in at], rows, True)
    return Said("Next token", [logits[-1].softmax(-1)], names, rows=rows, are_chances=True)


class _Words:
    def __init__(self, tokenizer: Any):
        self.tokenizer = tokenizer

    def __call__(self, i: int) -> str:
        return str(self.tokenizer.decode([i]))


def told(before: Said, after: Said | None) -> dict[str, Any]:
    """Both, for a page: bars side by side, numbers, how far each token moved, and a sentence."""
    made: dict[str, Any] = {"title": before.title, "bars": [], "numbers": [], "tokens": None, "wrote": None, "says": ""}
    for place, first in enumerate(before.chances):
        second = after.chances[place] if after is not None else None
        made["bars"].append({"at": before.places[place] if before.places else "", "bars": _bars(before, first, second)})
    if before.wrote is not None:
        made["wrote"] = [before.wrote, None if after is None else after.wrote]
    if before.rows is not None and not before.are_chances:
        made["numbers"].append(_number("norm of the mean", before.rows.mean(0).norm(), after and _mean(after).norm()))
    if after is None:
        return made
    if before.rows is not None and after.rows is not None and before.rows.shape == after.rows.shape:
        made["tokens"] = moved(before, after).tolist()
        if not before.are_chances:
            near = F.cosine_similarity(_mean(before), _mean(after), dim=0)
            made["numbers"].insert(0, _number("cosine to the sentence before", 1.0, near))
    made["says"] = _sentence(before, after, made)
    return made


def moved(before: Said, after: Said) -> Tensor:
    """(n,) how far each token moved, 0 to 1 for chances, 0 to 2 for states."""
    assert before.rows is not None and after.rows is not None
    if before.are_chances:
        return (before.rows - after.rows).abs().sum(-1) / 2
    return (1 - F.cosine_similarity(before.rows, after.rows, dim=-1)).clamp_min(0)


def _mean(one: Said) -> Tensor:
    assert one.rows is not None
    return one.rows.mean(0)


def _bars(before: Said, first: Tensor, second: Tensor | None) -> list[dict[str, Any]]:
    """The largest of both, in the order of the first; the order after is that of their numbers."""
    best = first.topk(min(TOP, len(first))).indices.tolist()
    if second is not None:
        best += [i for i in second.topk(min(TOP // 2, len(second))).indices.tolist() if i not in best]
    return [
        {"name": before.names(i), "before": float(first[i]), "after": None if second is None else float(second[i])}
        for i in best
    ]


def _number(name: str, before: Any, after: Any) -> dict[str, Any]:
    return {"name": name, "before": float(before), "after": None if after is None else float(after)}


def _sentence(before: Said, after: Said, made: dict[str, Any]) -> str:
    if before.chances:
        first, second = before.chances[0], after.chances[0]
        a, b = int(first.argmax()), int(second.argmax())
        if a == b:
            return (
                f"The first choice stays “{before.names(a).strip()}”: {float(first[a]):.3f} before, "
                f"{float(second[a]):.3f} now."
            )
        return (
            f"The first choice was “{before.names(a).strip()}” ({float(first[a]):.3f}, now {float(second[a]):.3f}) "
            f"and is “{before.names(b).strip()}” ({float(second[b]):.3f})."
        )
    if before.wrote is not None:
        return "It writes the same." if before.wrote == after.wrote else "It writes something else."
    if made["tokens"] and not before.are_chances:
        near = made["numbers"][0]["after"]
        return f"The sentence moved: its cosine to the one before is {near:.4f}."
    return ""
