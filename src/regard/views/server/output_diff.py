"""Output of a model, and its difference between two runs.

probabilities  of a class, of the next token, of the token at a mask: p = softmax(logits)
states         of an encoder: the mean over tokens is the sentence embedding, compared by cosine and norm
wrote          the generated text
tokens         change of each token: total variation sum |p - p'| / 2 of its probabilities, or 1 - cosine of its states
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.recording.pretrained import ModelRun

MAX_TOKEN_PROBABILITIES = 1 << 24  # of longer texts, only the last token keeps its probabilities
TOP_K = 8  # probabilities shown


@dataclass(frozen=True)
class ModelOutput:
    """title; chances (p,) and their names; vectors (n, d), whole rows of chances or states; wrote."""

    title: str
    probabilities: list[Tensor] = field(default_factory=list)
    names: Any = None  # index -> name
    places: list[str] = field(default_factory=list)  # what each of the chances stands at
    rows: Tensor | None = None
    are_probabilities: bool = False
    wrote: str | None = None


@torch.no_grad()
def model_output(model: Any, tokenizer: Any, ran: ModelRun) -> ModelOutput:
    """The output by kind of model, on the CPU."""
    if ran.out is None:
        return ModelOutput("Generated text", wrote=ran.wrote)
    logits, states = (getattr(ran.out, name, None) for name in ("logits", "last_hidden_state"))
    labels = getattr(model.config, "id2label", None) or {}
    if logits is None:
        if states is None:
            return ModelOutput(f"{type(model).__name__} has no output that can be compared here")
        return ModelOutput("Sentence embedding: mean over tokens", rows=states[0].float().cpu())
    logits = logits[0].float().cpu()
    if logits.ndim == 1:
        several = getattr(model.config, "problem_type", None) == "multi_label_classification" or len(logits) == 1
        probabilities = logits.sigmoid() if several else logits.softmax(-1)
        return ModelOutput("Class", [probabilities], lambda i: str(labels.get(i, i)))
    rows = logits.softmax(-1) if logits.numel() <= MAX_TOKEN_PROBABILITIES else None
    if logits.shape[-1] == len(labels) and logits.shape[-1] < 1000:
        title = "Token labels: change of each distribution"
        return ModelOutput(title, rows=rows, are_probabilities=True)
    names = _TokenNames(tokenizer)
    if "MaskedLM" in type(model).__name__:
        at = (ran.ids[0] == tokenizer.mask_token_id).nonzero()[:, 0].tolist()[:6]
        title = (
            "Predictions at the mask" if at else f"Write {tokenizer.mask_token} where the model should predict a token"
        )
        return ModelOutput(title, [logits[i].softmax(-1) for i in at], names, [f"at {i}" for i in at], rows, True)
    return ModelOutput("Next token", [logits[-1].softmax(-1)], names, rows=rows, are_probabilities=True)


class _TokenNames:
    def __init__(self, tokenizer: Any):
        self.tokenizer = tokenizer

    def __call__(self, i: int) -> str:
        return str(self.tokenizer.decode([i]))


def output_diff(before: ModelOutput, after: ModelOutput | None) -> dict[str, Any]:
    """Both outputs as JSON for the page: bars, numbers, change of each token, and a summary sentence."""
    made: dict[str, Any] = {"title": before.title, "bars": [], "numbers": [], "tokens": None, "wrote": None, "says": ""}
    for place, first in enumerate(before.probabilities):
        second = after.probabilities[place] if after is not None else None
        made["bars"].append({"at": before.places[place] if before.places else "", "bars": _bars(before, first, second)})
    if before.wrote is not None:
        made["wrote"] = [before.wrote, None if after is None else after.wrote]
    if before.rows is not None and not before.are_probabilities:
        made["numbers"].append(_number("norm of the mean", before.rows.mean(0).norm(), after and _mean(after).norm()))
    if after is None:
        return made
    if before.rows is not None and after.rows is not None and before.rows.shape == after.rows.shape:
        made["tokens"] = token_changes(before, after).tolist()
        if not before.are_probabilities:
            near = F.cosine_similarity(_mean(before), _mean(after), dim=0)
            made["numbers"].insert(0, _number("cosine to the embedding before", 1.0, near))
    made["says"] = _sentence(before, after, made)
    return made


def token_changes(before: ModelOutput, after: ModelOutput) -> Tensor:
    """(n,) change of each token: 0 to 1 for probabilities, 0 to 2 for states."""
    assert before.rows is not None and after.rows is not None
    if before.are_probabilities:
        return (before.rows - after.rows).abs().sum(-1) / 2
    return (1 - F.cosine_similarity(before.rows, after.rows, dim=-1)).clamp_min(0)


def _mean(one: ModelOutput) -> Tensor:
    assert one.rows is not None
    return one.rows.mean(0)


def _bars(before: ModelOutput, first: Tensor, second: Tensor | None) -> list[dict[str, Any]]:
    """Top probabilities of both runs, in the order of the first."""
    best = first.topk(min(TOP_K, len(first))).indices.tolist()
    if second is not None:
        best += [i for i in second.topk(min(TOP_K // 2, len(second))).indices.tolist() if i not in best]
    return [
        {"name": before.names(i), "before": float(first[i]), "after": None if second is None else float(second[i])}
        for i in best
    ]


def _number(name: str, before: Any, after: Any) -> dict[str, Any]:
    return {"name": name, "before": float(before), "after": None if after is None else float(after)}


def _sentence(before: ModelOutput, after: ModelOutput, made: dict[str, Any]) -> str:
    if before.probabilities:
        first, second = before.probabilities[0], after.probabilities[0]
        a, b = int(first.argmax()), int(second.argmax())
        if a == b:
            return (
                f"The top prediction stays “{before.names(a).strip()}”: {float(first[a]):.3f} before, "
                f"{float(second[a]):.3f} after."
            )
        return (
            f"The top prediction changed from “{before.names(a).strip()}” ({float(first[a]):.3f}, after: "
            f"{float(second[a]):.3f}) to “{before.names(b).strip()}” ({float(second[b]):.3f})."
        )
    if before.wrote is not None:
        return "The generated text is unchanged." if before.wrote == after.wrote else "The generated text changed."
    if made["tokens"] and not before.are_probabilities:
        near = made["numbers"][0]["after"]
        return f"The sentence embedding moved: cosine {near:.4f} to the embedding before."
    return ""
