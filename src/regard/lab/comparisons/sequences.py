"""The study task `sequences`: one language model with any token mixer, equally tuned."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.models.causal_lm import MIXERS, CausalLanguageModel, Mixer
from regard.models.training.experiment import Measure
from regard.studies.tasks import StudyTask
from regard.studies.trial import Setting, find

from ..data.planted.sequences import LENGTHS, TASKS, UNASKED, PlantedSequences
from ..data.wikitext import wikitext

DEFAULTS: dict[str, Any] = {"rate": 3e-3, "width": 64, "heads": 4, "layers": 2, "conv": 4, "decay": 0.01}
STEPS, BATCH, TRAIN, TEST = 400, 32, 8192, 512
BYTES = 128  # of a stretch of text
WARMUP = 0.1  # share of the steps; then cosine decay to 0


class SequenceBenchmark(StudyTask):
    """A small language model with a mechanism as its token mixer.

    options    data: recall, induction, copying or needle (`lab.data.planted.sequences`), tested at the training
               length and at twice that; or wikitext, bytes of WikiText-2's validation part, the last tenth held out;
               length
    variants   the names of `MIXERS`, or "module:Mixer", your own causal class, built as Mixer(width, heads) and called
               as layer(x)

    Every seed has new data; wikitext has one text for all.
    """

    call = "regard.lab.comparisons.sequences:run_sequences"
    hyperparameters = tuple(DEFAULTS)
    trivial = False

    def __init__(self, part: Mapping[str, Any]):
        super().__init__(part)
        self.options = {"data": "recall"} | self.options
        data = self.options["data"]
        if data not in TASKS and data != "wikitext":
            raise ValueError(f"the task sequences has no data {data!r}: expected {', '.join(TASKS)} or wikitext.")
        strange = [name for name in self.options if name not in ("data", "length")]
        if strange:
            raise ValueError(f"the task sequences has no option {strange[0]!r}; it has data and length.")
        self.measures = {"accuracy": Measure("accuracy, %"), "longer": Measure("accuracy at twice the length, %")}
        if data == "wikitext":
            self.drawn = False
            self.measures = {"bits": Measure("bits a byte", 1.0, 3, higher=False)}

    def canonical(self, variant: str) -> str:
        if variant in MIXERS or ":" in variant:
            return variant
        raise ValueError(
            f"the task sequences has no variant {variant!r}; it has {', '.join(MIXERS)}, and a mixer of your own, "
            '"module:Mixer".'
        )


def run_sequences(variant: str, seed: int, setting: Setting) -> dict[str, Any]:
    """One model from one seed."""
    torch.set_num_threads(setting.threads)
    data, length = setting.options["data"], setting.options.get("length")
    hyper = DEFAULTS | dict(setting.hyper)
    steps = int(setting.budget.get("steps") or STEPS)
    train, val, test, longer = _text(length or BYTES) if data == "wikitext" else _planted(data, length, seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = CausalLanguageModel(
            train.vocabulary, _mixer(variant), hyper["width"], hyper["heads"], hyper["layers"], hyper["conv"]
        ).to(setting.device)
        curve = _fit(model, train, val, hyper, steps, seed, setting)
    parameters = sum(p.numel() for p in model.parameters())
    sign = -1.0 if data == "wikitext" else 1.0
    outcome: dict[str, Any] = {
        "validation": sign * max(sign * value for value in curve),
        "curve": curve,
        "parameters": parameters,
        "numbers": {},
    }
    if setting.tunes:
        return outcome
    right = _measured(model, test, setting.device)
    if data == "wikitext":
        return outcome | {"numbers": {"bits": float(right.mean())}, "scores": {"bits": right.tolist()}}
    assert longer is not None
    numbers = {"accuracy": float(right.mean()), "longer": float(_measured(model, longer, setting.device).mean())}
    return outcome | {"numbers": numbers, "scores": {"accuracy": right.tolist()}}


def _fit(
    model: CausalLanguageModel,
    train: PlantedSequences,
    val: PlantedSequences,
    hyper: Mapping[str, Any],
    steps: int,
    seed: int,
    setting: Setting,
) -> list[float]:
    """AdamW with warm-up and cosine decay, gradients clipped to norm 1; ten validations."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=hyper["rate"], weight_decay=hyper["decay"])
    draw, curve = np.random.default_rng(seed), []
    for step in range(1, steps + 1):
        share = step / steps
        factor = min(1.0, share / WARMUP) * 0.5 * (1 + np.cos(np.pi * max(0.0, share - WARMUP) / (1 - WARMUP)))
        for group in optimiser.param_groups:
            group["lr"] = hyper["rate"] * max(factor, 1e-3)
        rows = torch.from_numpy(draw.integers(len(train.tokens), size=BATCH))
        tokens, targets = train.tokens[rows].to(setting.device), train.targets[rows].to(setting.device)
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), ignore_index=UNASKED)
        if not bool(loss.isfinite()):
            raise ValueError(f"training diverged in step {step}: {dict(hyper)}")
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if step % max(1, steps // 10) == 0:
            curve.append(round(float(_measured(model, val, setting.device).mean()), 4))
            setting.report(share, f"step {step} of {steps}")
    return curve


@torch.no_grad()
def _measured(model: CausalLanguageModel, data: PlantedSequences, device: str) -> Tensor:
    """(N,) of each sequence: accuracy; for text, bits per byte."""
    model.eval()
    found = []
    for tokens, targets in zip(data.tokens.split(64), data.targets.split(64), strict=True):
        logits, targets = model(tokens.to(device)), targets.to(device)
        asked = targets != UNASKED
        if data.chance:
            each = (logits.argmax(-1) == targets).double()
        else:
            each = F.cross_entropy(logits.mT, targets, ignore_index=UNASKED, reduction="none").double() / np.log(2)
        found.append((each * asked).sum(-1) / asked.sum(-1))
    model.train()
    return torch.cat(found).cpu()


def _mixer(variant: str) -> "str | Mixer":
    if ":" not in variant:
        return variant
    own = find(variant)
    return lambda width, heads, depth: own(width, heads)


@lru_cache(maxsize=4)
def _planted(data: str, length: int | None, seed: int) -> tuple[PlantedSequences, ...]:
    """Training, validation and test part, and a test of twice the length, each from its own random stream."""
    length = length or LENGTHS[data]
    seeds = [int(child.generate_state(1)[0]) for child in np.random.SeedSequence(seed).spawn(4)]
    make = TASKS[data]
    return (
        make(TRAIN, length, seeds[0]),
        make(TEST // 2, length, seeds[1]),
        make(TEST, length, seeds[2]),
        make(TEST // 2, 2 * length, seeds[3]),
    )


@lru_cache(maxsize=1)
def _text(length: int) -> tuple[PlantedSequences, PlantedSequences, PlantedSequences, None]:
    """Byte sequences of WikiText-2's validation part: 80 % train, 10 % val, the last 10 % test."""
    data = np.frombuffer(wikitext("valid").encode(), np.uint8).astype(np.int64)
    ends = [0, int(0.8 * len(data)), int(0.9 * len(data)), len(data)]

    def part(begin: int, end: int, stride: int) -> PlantedSequences:
        starts = np.arange(begin, end - length - 1, stride)
        rows = torch.from_numpy(np.stack([data[at : at + length + 1] for at in starts]))
        return PlantedSequences(rows[:, :-1], rows[:, 1:], 256, 0.0)

    train = part(ends[0], ends[1], length // 2)
    val, test = (part(ends[at], ends[at + 1], length) for at in (1, 2))
    return train, val, PlantedSequences(test.tokens, test.targets, 256, 0.0), None
