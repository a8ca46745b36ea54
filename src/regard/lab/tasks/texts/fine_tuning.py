"""Fine-tuning of a pretrained transformer for text classification."""

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data.batch import Batch, Example
from regard.models.model_output import Answer
from regard.models.training.experiment import answers
from regard.models.training.objectives import Classification
from regard.models.training.trainer import Trained, Trainer, Training
from regard.recording.pretrained import quiet

Texts = Sequence[tuple[str, int]]
LONGEST = 128  # maximum tokens of a text
TRAINING = Training(epochs=2, batch=32, rate=5e-5, decay=0.01, clip=1.0, warmup=40, schedule="cosine")


@dataclass
class Tuned:
    """A fine-tuned network, its tokenizer, training history and test accuracy."""

    network: Any
    tokenizer: Any
    trained: Trained
    accuracy: float


class TransformerClassifier(nn.Module):
    """A transformers classifier as a task model: token ids (B, n) -> Answer with logits (B, classes)."""

    def __init__(self, network: Any):
        super().__init__()
        self.network = network

    def forward(self, batch: Batch) -> Answer:
        return Answer(self.network(input_ids=batch.inputs, attention_mask=batch.real.long()).logits)


def fine_tune(
    place: str,
    train: Texts,
    val: Texts,
    test: Texts,
    *,
    names: Sequence[str] = ("negative", "positive"),
    training: Training = TRAINING,
    freeze: int = 0,
    seed: int = 0,
    device: str = "cpu",
    on_step: Callable[[int, int, int, dict[str, float]], None] | None = None,
) -> Tuned:
    """Fine-tune a transformer classifier; the best epoch is selected by validation accuracy.

    place    a folder of a transformers model; the classification head is new unless it has one of that size
    names    of the classes 0, 1, ...
    freeze   number of first layers to freeze, with the embeddings

    The same seed gives the same network (same device, versions and threads).
    """
    import transformers

    quiet()
    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    labels = {"id2label": dict(enumerate(names)), "label2id": {name: number for number, name in enumerate(names)}}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = transformers.AutoModelForSequenceClassification.from_pretrained(
            place, num_labels=len(names), **labels
        )
    freeze_layers(network, freeze)
    parts = [pieces(tokenizer, texts) for texts in (train, val, test)]
    model = TransformerClassifier(network)
    found = Trainer(training, device, on_step=on_step).fit(model, Classification(), parts[0], parts[1], seed)
    right = sum(
        float((answer.out.argmax(-1) == batch.target).sum())
        for _, batch, answer in answers(model.to(device), parts[2], device)
    )
    return Tuned(network.eval().cpu(), tokenizer, found, right / len(test))


def pieces(tokenizer: Any, texts: Texts) -> list[Example]:
    """Tokenised texts with special tokens, truncated."""
    read = tokenizer([text for text, _ in texts], truncation=True, max_length=LONGEST)["input_ids"]
    return [
        Example(torch.tensor(ids), torch.tensor(label), id=place)
        for place, (ids, (_, label)) in enumerate(zip(read, texts, strict=True))
    ]


def freeze_layers(network: Any, layers: int) -> None:
    """Freeze the embeddings and the first layers; with 0 nothing."""
    if layers == 0:
        return
    body = getattr(network, network.base_model_prefix, network)
    stack = getattr(getattr(body, "encoder", None), "layer", None)
    if stack is None or not 0 < layers <= len(stack):
        known = "none found" if stack is None else f"{len(stack)}"
        raise ValueError(f"fine_tune(freeze={layers}): {type(network).__name__} has layers: {known}.")
    for part in (body.embeddings, *stack[:layers]):
        part.requires_grad_(False)


def save(tuned: Tuned, folder: Path) -> Path:
    """Save weights (safetensors), configuration and tokenizer into a new folder, atomically."""
    if folder.exists():
        raise FileExistsError(f"{folder} exists: name a new folder.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        tuned.network.save_pretrained(draft)
        tuned.tokenizer.save_pretrained(draft)
        os.chmod(draft, 0o755)
        for file in draft.iterdir():
            os.chmod(file, 0o644)  # safetensors writes files readable by the owner alone
        os.replace(draft, folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return folder
