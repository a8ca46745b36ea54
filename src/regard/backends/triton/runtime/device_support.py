"""Whether a device runs the kernels that are written in Triton."""

from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import torch

from regard.core import fast_path

HAS_TRITON = find_spec("triton") is not None
A100_TILES_KIB, H100_TILES_KIB = 160, 200  # shared memory that tiles take, of the 163 and 227 KiB that there are
TESTED_TRITON = ((3, 6), (3, 7))  # with their private parts (triton_private)
LEAST = (8, 0)  # compute capability: older ones have no bfloat16, and Triton has no code for them


def device_refusal(device: torch.device) -> str | None:
    """Why a device does not run them; None where it does."""
    if device.type != "cuda":
        return "It runs on a CUDA device."
    if not HAS_TRITON:
        return "Triton is not installed."
    if torch.compiler.is_compiling():  # what is traced cannot ask the driver
        return None
    if torch.version.cuda is None:
        return "It is written for GPUs of NVIDIA."
    found = capability(torch.cuda.current_device() if device.index is None else device.index)
    if found < LEAST:
        least, has = (".".join(map(str, number)) for number in (LEAST, found))
        return f"It needs a GPU of compute capability {least} or above; this one has {has}."
    return None


def shared_memory_kib(device: torch.device) -> int:
    """KiB of shared memory that a block may have: 227 on an H200, 163 on an A100, 99 on most others."""
    return H100_TILES_KIB if device.type != "cuda" else _shared_memory_kib(device.index)


@cache
def _shared_memory_kib(index: int | None) -> int:
    if not torch.cuda.is_available():  # traced here for a device elsewhere
        return H100_TILES_KIB
    properties: Any = torch.cuda.get_device_properties(index)  # its stub does not name all of them
    return int(properties.shared_memory_per_block_optin) >> 10


@cache
def untested_triton() -> str | None:
    """Why kernels are launched the plain way, by Triton itself; None where its private parts are those tested."""
    found = version("triton") if HAS_TRITON else ""
    if not HAS_TRITON or fast_path.release(found) in TESTED_TRITON:
        return None
    return f"Launches were tested with triton {fast_path.listed(TESTED_TRITON)}; this is {found}."


@cache
def capability(index: int) -> tuple[int, int]:
    return torch.cuda.get_device_capability(index)
