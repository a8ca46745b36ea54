"""Does a pretrained language model survive another alignment? Perplexity before and after a short tune."""

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.judging.statistics.intervals import estimate
from regard.recording.pretrained import load_model
from regard.views.page import write_file

from ..data.wikitext import wikitext

ALIGNMENTS = ("softmax", "softmax,window=128", "top_k=32", "top_k=8", "entmax15", "sigmoid")
CLIP = 1.0  # norm of a step's gradient
Ends = tuple[float, float]
ProgressCallback = Callable[[str, float, int | None], None]


@dataclass(frozen=True)
class TuneSetting:
    """What is run.

    steps, tokens   optimiser steps, and tokens in the one sequence of each, from WikiText-2's valid part
    sequences       of `tokens` tokens, evenly spread over the test part: perplexity is measured on them
    tuned           "attention": the projections of queries, keys, values and outputs; "all": every weight
    rate            AdamW's learning rate: linear warm-up over a tenth of the steps, then linearly to zero
    """

    model: str = "smollm2"
    steps: int = 200
    tokens: int = 512
    sequences: int = 32
    tuned: str = "attention"
    rate: float = 3e-4
    seed: int = 0

    def __post_init__(self) -> None:
        if self.tuned not in ("attention", "all"):
            raise ValueError(f"tuned={self.tuned!r}: expected 'attention' or 'all'.")
        for name in ("tokens", "sequences"):
            if getattr(self, name) < 2:
                raise ValueError(f"{name}={getattr(self, name)}: expected 2 or more.")
        if self.steps < 0:
            raise ValueError(f"steps={self.steps}: expected 0 or more.")


@dataclass(frozen=True)
class Survival:
    """One alignment: nats per token of each test sequence, before and after the tune.

    before, after   (sequences,); after is empty where nothing was tuned
    losses          of the training steps
    seconds         of the processor, for everything
    """

    align: str
    before: tuple[float, ...]
    after: tuple[float, ...] = ()
    losses: tuple[float, ...] = ()
    seconds: float = 0.0
    versions: dict[str, str] = field(default_factory=dict)

    def perplexity(self, after: bool) -> "tuple[float, Ends | None] | None":
        """exp of the mean of the sequences' nats per token, with its 95 % interval over sequences."""
        found = estimate(self.after if after else self.before)
        if found.value is None:
            return None
        ends = found.interval
        return _exp(found.value), None if ends is None else (_exp(ends[0]), _exp(ends[1]))

    def ratio(self, peer: "Survival", after: bool) -> "tuple[float, Ends | None] | None":
        """The perplexity over that of a peer, sequence by sequence, with its 95 % interval."""
        ours, theirs = (one.after if after else one.before for one in (self, peer))
        if not ours or len(ours) != len(theirs):
            return None
        found = estimate(np.subtract(ours, theirs))
        if found.value is None:
            return None
        ends = found.interval
        return _exp(found.value), None if ends is None else (_exp(ends[0]), _exp(ends[1]))


def _exp(nats: float) -> float:
    return math.exp(min(nats, 700.0))


def survive(
    setting: TuneSetting,
    alignments: Sequence[str] = ALIGNMENTS,
    out: Path | None = None,
    *,
    folder: "str | Path | None" = None,
    on_progress: ProgressCallback = lambda *_: None,
) -> "tuple[list[Survival], float]":
    """Each alignment in place of softmax, untouched and tuned; and the perplexity of the unigram model beside them.

    alignments   names as after "regard:" in attn_implementation: "entmax15", "top_k=32", "softmax,window=128"
    out          folder: each alignment is written when it is done, and one that is there is not run again

    Every alignment starts from the same weights and sees the same sequences in the same order. The unigram model has
    the token frequencies of the valid part (add one): a model above it has lost more than all that context tells.
    """
    from ...integrations.transformers import register

    names = [register(f"regard:{align}") for align in alignments]
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    on_progress("loading", 0, None)
    model, tokenizer = load_model(setting.model)
    valid, test = (_tokens(tokenizer, part, folder) for part in ("valid", "test"))
    evaluated = _spread(test, setting)
    start = {name: p.detach().clone() for name, p in model.named_parameters() if _is_tuned(name, setting)}
    if not start:
        raise ValueError(f"{setting.model} has no parameters under the name of an attention: use tuned='all'.")
    found = []
    for align, name in zip(alignments, names, strict=True):
        path = None if out is None else out / f"{_file_of(align, setting)}.json"
        if path is not None and path.is_file():
            found.append(_read(path))
            continue
        model.set_attn_implementation(name)
        with torch.no_grad():
            for each, p in model.named_parameters():
                if each in start:
                    p.copy_(start[each])
        found.append(_one(model, align, valid, evaluated, setting, on_progress))
        if path is not None:
            write_file(json.dumps({"setting": asdict(setting), **asdict(found[-1])}, indent=1), path)
    return found, _unigram(valid, evaluated, model.config.vocab_size)


def _one(
    model: nn.Module, align: str, valid: Tensor, test: Tensor, setting: TuneSetting, on_progress: ProgressCallback
) -> Survival:
    began = time.process_time()
    before = _nats(model, test, lambda done: on_progress(f"{align}: before", done, len(test)))
    losses: tuple[float, ...] = ()
    after: tuple[float, ...] = ()
    if setting.steps:
        losses = _tune(model, valid, setting, lambda done: on_progress(f"{align}: tune", done, setting.steps))
        after = _nats(model, test, lambda done: on_progress(f"{align}: after", done, len(test)))
    return Survival(align, before, after, losses, time.process_time() - began, _versions())


def _nats(model: nn.Module, sequences: Tensor, told: Callable[[int], None]) -> tuple[float, ...]:
    """Mean negative log-likelihood of the tokens of each sequence, given those before them in it."""
    found = []
    model.eval()
    with torch.no_grad():
        for number, ids in enumerate(sequences, 1):
            found.append(float(model(ids[None], labels=ids[None], use_cache=False).loss))
            told(number)
    return tuple(found)


def _tune(model: nn.Module, text: Tensor, setting: TuneSetting, told: Callable[[int], None]) -> tuple[float, ...]:
    tuned = [p for name, p in model.named_parameters() if _is_tuned(name, setting)]
    order = torch.randperm(len(text) // setting.tokens, generator=torch.Generator().manual_seed(setting.seed))
    optimiser = torch.optim.AdamW(tuned, setting.rate, weight_decay=0.0)
    warm = max(1, setting.steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / warm, (setting.steps - step) / max(1, setting.steps - warm))
    )
    losses = []
    model.train()
    with _only(model, tuned):
        for step in range(setting.steps):
            at = int(order[step % len(order)]) * setting.tokens
            ids = text[None, at : at + setting.tokens]
            loss = model(ids, labels=ids, use_cache=False).loss
            loss.backward()
            nn.utils.clip_grad_norm_(tuned, CLIP)
            optimiser.step()
            optimiser.zero_grad()
            schedule.step()
            losses.append(float(loss.detach()))
            told(step + 1)
    return tuple(losses)


@contextmanager
def _only(model: nn.Module, tuned: Sequence[Tensor]) -> Iterator[None]:
    """Gradients of these parameters alone."""
    chosen, before = set(map(id, tuned)), {p: p.requires_grad for p in model.parameters()}
    try:
        for p in before:
            p.requires_grad_(id(p) in chosen)
        yield
    finally:
        for p, wanted in before.items():
            p.requires_grad_(wanted)


def _is_tuned(name: str, setting: TuneSetting) -> bool:
    return setting.tuned == "all" or "attn." in name or "attention." in name


def _tokens(tokenizer: Any, part: str, folder: "str | Path | None") -> Tensor:
    return torch.tensor(tokenizer(wikitext(part, folder), verbose=False)["input_ids"])


def _spread(tokens: Tensor, setting: TuneSetting) -> Tensor:
    """(sequences, tokens), which begin at even distances in the text."""
    last = len(tokens) - setting.tokens
    if last < (setting.sequences - 1) * setting.tokens:
        raise ValueError(
            f"{setting.sequences} sequences of {setting.tokens} tokens would overlap in a text of {len(tokens)}: "
            f"at most {len(tokens) // setting.tokens}."
        )
    starts = torch.linspace(0, last, setting.sequences).long()
    return torch.stack([tokens[at : at + setting.tokens] for at in starts.tolist()])


def _unigram(valid: Tensor, test: Tensor, size: int) -> float:
    """Perplexity of the test sequences by the frequencies of tokens, add one."""
    counts = torch.bincount(valid, minlength=size).double() + 1
    return _exp(float(-(counts / counts.sum()).log()[test[:, 1:]].mean()))


def _file_of(align: str, setting: TuneSetting) -> str:
    """A name that holds the alignment, and the setting by its digest."""
    plain = "".join(x if x.isalnum() else "_" for x in align)
    return f"{plain}-{hashlib.sha256(json.dumps(asdict(setting), sort_keys=True).encode()).hexdigest()[:8]}"


def _read(path: Path) -> Survival:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        lists = {name: tuple(map(float, stored[name])) for name in ("before", "after", "losses")}
        return Survival(stored["align"], **lists, seconds=stored["seconds"], versions=stored["versions"])
    except (ValueError, KeyError, TypeError) as problem:
        raise ValueError(f"{path} does not hold a result of this command ({problem!r}): delete it.") from problem


def _versions() -> dict[str, str]:
    import transformers

    return {"torch": torch.__version__.partition("+")[0], "transformers": transformers.__version__}
