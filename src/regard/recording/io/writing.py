"""Writing a record file: a table of tensors and a description, on the disk whole or not at all."""

import hashlib
import itertools
import json
import os
import secrets
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .reading import HEADER_LIMIT, TENSOR_LIMIT, VALUE_LIMIT, count_values

NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
ALIGNED = 64  # bytes: where the tensors begin


class Table:
    """Tensors that will stand in the file. They are referred to, not copied; those of a GPU come one at a time."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._names_by_digest: dict[bytes, str] = {}

    def add(self, name: str, x: "Tensor | np.ndarray", shared: bool = False) -> str:
        """The name under which it stands; shared=True: one that is there already with the same content."""
        x = torch.from_numpy(np.ascontiguousarray(x)) if isinstance(x, np.ndarray) else x.detach()
        if x.dtype not in NAMES:
            x = x.float() if x.is_floating_point() else x.long()
        if shared:
            digest = hashlib.blake2b(f"{x.dtype}{tuple(x.shape)}".encode())
            digest.update(bytes_of(x).data)
            found = self._names_by_digest.setdefault(digest.digest(), name)
            if found != name:
                return found
        self.tensors[name] = x
        return name

    def write(self, path: "str | os.PathLike[str]", about: dict[str, Any]) -> Path:
        """Whole or not at all."""
        target = Path(path)
        order = sorted(self.tensors, key=lambda name: -self.tensors[name].element_size())  # each is aligned to its type
        description = json.dumps(about, separators=(",", ":"), allow_nan=False)
        header: dict[str, Any] = {"__metadata__": {"regard": description}}
        at = 0
        for name in order:
            x = self.tensors[name]
            size = x.numel() * x.element_size()
            header[name] = {"dtype": NAMES[x.dtype], "shape": list(x.shape), "data_offsets": [at, at + size]}
            at += size
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-(8 + len(text)) % ALIGNED)
        values = count_values(description)[0]
        if len(text) > HEADER_LIMIT or len(order) > TENSOR_LIMIT or values > VALUE_LIMIT:
            raise ValueError(
                f"This record's description takes {len(text)} bytes for {len(order)} tensors and {values} "
                f"values, and no reader takes more than {HEADER_LIMIT}, {TENSOR_LIMIT} and {VALUE_LIMIT}. "
                "Record fewer sites: record(model, sites=...)."
            )
        if target.is_dir():
            raise IsADirectoryError(f"save({str(target)!r}): this is a folder; name a file, such as run.regard.")
        if not target.parent.is_dir():
            raise FileNotFoundError(f"save({str(target)!r}): there is no folder {str(target.parent)!r}.")
        head = struct.pack("<Q", len(text)) + text
        return write_whole(target, itertools.chain([head], (bytes_of(self.tensors[name]).data for name in order)))


def write_whole(target: Path, parts: "Iterable[bytes | memoryview]") -> Path:
    """Into a new file beside the old one, onto the disk, and only then in its place: whole or not at all.

    Who may read it: whoever may read the file that was there; of a new one, whoever the umask lets.
    """
    old = target.stat().st_mode & 0o777 if target.exists() else None
    draft = target.parent / f".{target.name[:200]}-{secrets.token_hex(8)}.part"
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
    handle = os.open(draft, flags, 0o666 if old is None else old & 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        if old is not None:
            os.chmod(draft, old)
        os.replace(draft, target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    _settle(target.parent)
    return target


def bytes_of(x: Tensor) -> np.ndarray:
    """Its bytes in order, on the host."""
    flat = x.cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy() if flat.numel() else np.zeros(0, np.uint8)


def _settle(folder: Path) -> None:
    """The folder's entry onto the disk, where the system knows how."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
