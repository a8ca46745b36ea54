"""What a page carries, read as the page reads it."""

import base64
import gzip

import numpy as np
import torch

KINDS = {"f32": "<f4", "f16": "<f2", "u8": "u1", "u16": "<u2", "u32": "<u4"}


def array(texts: list[str], about: dict) -> torch.Tensor:
    """An array as the page decodes it."""
    raw = np.frombuffer(gzip.decompress(base64.b64decode(texts[about["blob"]])), np.uint8)
    if about["type"] == "bf16":
        words = np.ascontiguousarray(raw.reshape(2, -1).T).view("<i2")
        return torch.from_numpy(words.reshape(about["shape"]).copy()).view(torch.bfloat16)
    kind = np.dtype(KINDS[about["type"]])
    made = np.ascontiguousarray(raw.reshape(kind.itemsize, -1).T).view(kind).reshape(about["shape"])
    return torch.from_numpy(made.astype(np.int64) if kind.kind == "u" else made.copy())
