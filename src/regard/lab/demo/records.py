"""Demo: records of the models that it ran, and the command that opens them."""

import shlex
import sys
from pathlib import Path
from typing import Any

import torch

import regard
from regard.recording.pretrained import record_run

from . import karate, paragraph


def save_karate_record(club: karate.Club, out: Path) -> Path:
    """The first GAT as it looks at the club, both layers."""
    model = karate.fitted(club, "attention", seed=0)
    with torch.no_grad(), regard.record(model) as rec:
        model(torch.eye(len(club.sides)), club.edge_index)
    rec.about["name"] = "karate club"
    return rec.label(nodes=[str(member) for member in club.graph]).save(out / "karate.regard")


def save_paragraph_record(model: Any, tokenizer: Any, out: Path) -> Path:
    """Save a record of MiniLM on the paragraph and its first question."""
    text = " ".join([*paragraph.SEGMENTS, next(iter(paragraph.QUESTIONS))])
    return record_run(model, tokenizer, text, "minilm")[0].save(out / "paragraph.regard")


def command(out: Path) -> str:
    """The command that opens the records of a folder, with the model if it is installed."""
    own = sys.argv[0] if Path(sys.argv[0]).name == "regard" else "regard"
    shown = (
        [str(out / "karate.regard")] if paragraph.missing() else [str(out / "paragraph.regard"), "--model", "minilm"]
    )
    return shlex.join([own, "serve", *shown, "--folder", str(out)])
