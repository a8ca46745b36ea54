"""A torchvision whose compiled operators do not load (a wheel for CUDA beside a torch without) ends its own import.

It describes two of its operators to torch.compile without asking whether they are there, and whoever looks for
torchvision (timm, transformers) ends with it. Declaring them lets the rest of torchvision be imported.
"""

from importlib.util import find_spec
from pathlib import Path

import torch

_DECLARED: list[torch.library.Library] = []


def declare_missing_operators() -> None:
    """Does nothing where torchvision is absent, whole, or has been imported already."""
    found = find_spec("torchvision")
    if _DECLARED or found is None or found.origin is None or hasattr(torch.ops.torchvision, "nms"):
        return
    compiled = next(Path(found.origin).parent.glob("_C*.so"), None)
    try:
        if compiled is not None:
            torch.ops.load_library(str(compiled))
    except OSError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _DECLARED.append(library)
