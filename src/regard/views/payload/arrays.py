"""Encoding of arrays for a page: byte planes, gzip, base64; decoded by the page on first use."""

import base64
import gzip
import zlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

OCTAVES = 48.0  # range of the 16-bit logarithmic code: 2^-48 to 1
TYPES = {"float32": "f32", "float16": "f16", "uint8": "u8", "uint16": "u16", "uint32": "u32"}


class Blobs:
    """The arrays of a page, compressed and numbered. quick: gzip without compression, for the local server."""

    def __init__(self, quick: bool = False) -> None:
        self.packed: list[bytes] = []
        self._numbers: dict[bytes, int] = {}
        self.quick = quick

    @property
    def texts(self) -> list[str]:
        return [base64.b64encode(each).decode("ascii") for each in self.packed]

    def add(self, x: "Tensor | np.ndarray") -> dict[str, Any]:
        kind = None
        if isinstance(x, Tensor):
            x = x.detach().cpu().contiguous()
            if x.dtype == torch.bfloat16:
                kind, x = "bf16", x.view(torch.int16)
            x = x.numpy()
        x = np.ascontiguousarray(x)
        kind = kind or TYPES[x.dtype.name]
        planes = (
            x.reshape(-1).view(np.uint8).reshape(-1, x.dtype.itemsize).T
        )  # bytes of equal significance compress well together
        raw = np.ascontiguousarray(planes).tobytes()
        number = self.put(gzip.compress(raw, 0, mtime=0) if self.quick else packed(raw))
        return {"blob": number, "type": kind, "shape": list(x.shape)}

    def put(self, raw: bytes) -> int:
        """Add raw bytes, deduplicated: every layer of a graph has the same edges."""
        if raw not in self._numbers:
            self._numbers[raw] = len(self.packed)
            self.packed.append(raw)
        return self._numbers[raw]

    def whole(self, x: "Tensor | np.ndarray", below: int) -> dict[str, Any]:
        """Integers from 0 to `below`, in the smallest unsigned type."""
        kind = np.uint8 if below <= 1 << 8 else np.uint16 if below <= 1 << 16 else np.uint32
        return self.add(np.asarray(x.cpu() if isinstance(x, Tensor) else x).astype(kind))


def packed(raw: bytes) -> bytes:
    """gzip, with string matching or with Huffman coding alone (mantissas do not repeat), whichever is smaller."""
    made = []
    for strategy in (zlib.Z_DEFAULT_STRATEGY, zlib.Z_HUFFMAN_ONLY):
        press = zlib.compressobj(6, zlib.DEFLATED, 31, 9, strategy)
        made.append(press.compress(raw) + press.flush())
    return min(made, key=len)


def logarithmic(x: Tensor) -> np.ndarray:
    """16 bits: 0 is 0, otherwise 65535 (1 + log2(x) / 48), error at most 0.03 %; values below 2^-48 are clamped."""
    code = 65535 * (1 + x.double().clamp_min(1e-300).log2() / OCTAVES)
    return code.round().clamp(1, 65535).where(x > 0, 0.0).to(torch.int32).numpy().astype(np.uint16)


def signed_logarithmic(x: Tensor) -> np.ndarray:
    """16 bits with a sign: 32768 is 0, otherwise the sign and 32767 (1 + log2|x| / 48), error at most 0.06 %."""
    code = (32767 * (1 + x.double().abs().clamp_min(1e-300).log2() / OCTAVES)).round().clamp(1, 32767)
    return (32768 + code.where(x != 0, 0.0) * x.sign()).to(torch.int32).numpy().astype(np.uint16)
