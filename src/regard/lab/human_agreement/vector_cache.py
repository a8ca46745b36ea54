"""Word embeddings cached in files."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.recording.io.writing import write_whole

from .word_encoder import Encoder

CHUNK = 50  # texts a file


def vectors_of(
    encoder: Encoder,
    texts: Sequence[Sequence[str]],
    name: str,
    folder: "Path | None" = None,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[Tensor]:
    """Word embeddings of each text in half precision, one (n, d) a text, on the CPU.

    folder: the cache, fifty texts a file; existing files are read, so that interrupted runs resume. A file of other
    sizes is refused.
    """
    found: list[Tensor] = []
    for start in range(0, len(texts), CHUNK):
        some = texts[start : start + CHUNK]
        file = None if folder is None else folder / f"{name}-{start // CHUNK}.npy"
        counts = [len(text) for text in some]
        if file is not None and file.is_file():
            whole = np.load(file, allow_pickle=False)
            if whole.shape != (sum(counts), encoder.dim):
                raise ValueError(
                    f"{file} holds vectors {whole.shape}, expected {(sum(counts), encoder.dim)}: it was "
                    "computed from other texts or by another model. Use another folder."
                )
        else:
            whole = torch.cat(encoder(some)).half().cpu().numpy()
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
                held = io.BytesIO()
                np.save(held, whole, allow_pickle=False)
                write_whole(file, [held.getvalue()])
        found += torch.from_numpy(whole).split(counts)
        on_progress(len(found), len(texts))
    return found
