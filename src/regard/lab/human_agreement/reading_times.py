"""Correlation of attention with human reading times."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.readers.reading_times import Reading
from regard.judging.finding import Finding
from regard.judging.plausibility.fixations import partial_rank_correlation, rank_correlation
from regard.judging.statistics.comparison import compare
from regard.judging.statistics.intervals import known, stream
from regard.judging.wording import amount
from regard.recording import record
from regard.recording.attribution.rollout import rollout
from regard.recording.pretrained import longest

from .subwords import Cut, cut

TEST = "reading times"
PUBLISHED = {"BERT, published": 0.183}  # on GECO, Hollenstein & Beinborn 2021
MEAN = ", mean of pieces"
Weights = dict[str, list[np.ndarray]]


def judge_reading(
    model: Any,
    tokenizer: Any,
    readings: Sequence[Reading],
    *,
    seed: int = 0,
    resamples: int = 1000,
    size: int = 64,
    published: "dict[str, float] | None" = None,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[Finding]:
    """Spearman's rho of received attention and reading time, by sentence, averaged over sentences.

    For each layer, their mean, rollout and two saliencies (`received`): subwords summed into words or averaged; for the
    sum also the partial correlation given word length. Baselines: word length, rarity, position, chance, and figures
    published for the same sentences.
    Hollenstein & Beinborn 2021.
    """
    if not readings:
        raise ValueError("judge_reading(readings) is empty: expected sentences with reading times, as geco() has them.")
    human = [one.share for one in readings]
    trivial = trivial_weights([one.words for one in readings], seed)
    tested = {
        name: [rank_correlation(w, h) for w, h in zip(some, human, strict=True)] for name, some in trivial.items()
    }
    beside = {name: known(values) for name, values in tested.items()}
    length = trivial["word length"]
    made = []
    for name, some in received(model, tokenizer, readings, size, on_progress).items():
        values = [rank_correlation(w, h) for w, h in zip(some, human, strict=True)]
        found = compare(values, tested, scale=(-1.0, 1.0), seed=seed, resamples=resamples)
        says = (
            f"undefined: in no sentence do reading times and what words receive ({name}) both vary."
            if found.value is None
            else f"What words receive ({name}) and how long they are read correlate by rho {amount(found.value, 2)}; "
            f"longer words: {_say(beside)}."
        )
        made.append(
            Finding.of(
                found,
                name=name,
                says=says,
                better="higher",
                test=TEST,
                unit="Spearman rho",
                baselines=published or {},
            )
        )
        if name.endswith(MEAN):
            continue
        left = [partial_rank_correlation(w, h, z) for w, h, z in zip(some, human, length, strict=True)]
        found = compare(left, {"chance": 0.0}, scale=(-1.0, 1.0), seed=seed, resamples=resamples)
        made.append(
            Finding.of(
                found,
                name=f"{name}, word length known",
                better="higher",
                test=TEST,
                says="undefined: no sentence has four words that all three rank."
                if found.value is None
                else f"Among words of one length that is {amount(found.value, 2)}.",
                unit="partial Spearman rho",
            )
        )
    return made


def trivial_weights(texts: Sequence[Sequence[str]], seed: int = 0) -> Weights:
    """Baselines without a model: word length, rarity in these texts, position, and chance."""
    plain = [[bare(word) for word in text] for text in texts]
    often = Counter(word for text in plain for word in text)
    draw = stream(seed, "random weights")
    return {
        "word length": [np.array([float(len(word)) for word in text]) for text in texts],
        "word rarity": [np.array([-float(often[word]) for word in text]) for text in plain],
        "later words": [np.arange(len(text), dtype=np.float64) for text in texts],
        "random": [draw.random(len(text)) for text in texts],
    }


def bare(word: str) -> str:
    """Lower case, without surrounding punctuation; punctuation alone is kept."""
    return word.lower().strip(".,;:!?\"'()-‘’“”") or word


def received(
    model: Any,
    tokenizer: Any,
    readings: Sequence[Reading],
    size: int = 64,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
) -> Weights:
    """By name, one value for each word of each sentence.

    layer l          the weight that a word receives from the words of the sentence, mean over heads, excluding
                     [CLS] and [SEP]
    mean of layers   of these
    rollout          the same through all layers
    as published     of the last layer: the softmax of what each piece receives, before pieces are added up
    gradient norm    |d e| of the vector of a word, where e = |mean of the last states|^2 / 2: how much the sentence's
                     own vector changes with it; gradient x input is the inner product with that vector

    Each by the sum over the pieces of a word, and "..., mean of pieces".
    """
    texts = [one.words for one in readings]
    found: Weights = {}
    device = next(model.parameters()).device
    done = 0
    for part in cut(tokenizer, texts, size, longest(model, tokenizer)):
        for name, values in _of(model, part, device).items():
            for mean in (False, True):
                held = found.setdefault(name + MEAN if mean else name, [np.zeros(0)] * len(texts))
                for place, one in zip(part.places, part.gathered(values, mean), strict=True):
                    held[place] = one
        done += len(part.places)
        on_progress(done, len(texts))
    return found


def _of(model: Any, part: Cut, device: torch.device) -> dict[str, Tensor]:
    """(B, n) by name, a number for each piece."""
    words = (part.word >= 0).to(device)
    with torch.no_grad(), record(model) as rec:
        model(**part.inputs(device))
    layers = [_columns(amap.weights().mean(1), words) for amap in rec.maps.values()]
    if not layers:
        raise ValueError(f"{type(model).__name__} attended nowhere that could be recorded: expected a transformer.")
    made = {f"layer {place}": one for place, one in enumerate(layers, 1)}
    made["mean of layers"] = torch.stack(layers).mean(0)
    last = list(rec.maps.values())[-1].weights().mean(1)
    made["as published"] = (last * words[:, :, None]).sum(1).exp()  # ranks need no division by the sum
    made["rollout"] = _columns(rollout(rec).weights()[:, 0], words)
    return made | _saliencies(model, part, device)


def _columns(weights: Tensor, words: Tensor) -> Tensor:
    """Weights (B, n, n) -> (B, n): what each piece receives from pieces of words."""
    return (weights * words[:, :, None]).sum(1) * words


def _saliencies(model: Any, part: Cut, device: torch.device) -> dict[str, Tensor]:
    inputs = part.inputs(device)
    vectors = model.get_input_embeddings()(inputs.pop("input_ids")).detach().requires_grad_()
    with torch.enable_grad():
        states = model(inputs_embeds=vectors, **inputs).last_hidden_state
        real = part.real.to(device)[..., None]
        whole = (states * real).sum(1) / real.sum(1)
        (pull,) = torch.autograd.grad(whole.square().sum() / 2, vectors)
    return {"gradient norm": pull.norm(dim=-1), "gradient x input": (pull * vectors.detach()).sum(-1).abs()}


def _say(beside: dict[str, float | None]) -> str:
    value = beside["word length"]
    return "undefined" if value is None else f"{value:.2f}"
