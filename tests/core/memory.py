"""How large the largest tensor is that a piece of code makes."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from regard.backends.chunked import backend as chunked


class Largest(TorchDispatchMode):
    """`with Largest() as largest:` leaves the elements of the largest tensor made inside, views left out."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "regard":  # our own operators run as the Python that they are, so that we see inside
            inside = {"chunked": chunked.forward_op, "chunked_backward": chunked.backward_op}[func._opname]
            with self:
                return inside.function(*args, **(kwargs or {}))
        out = func(*args, **(kwargs or {}))
        for made in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(made, torch.Tensor) and made.untyped_storage().nbytes() >= made.numel() * made.element_size():
                self.elements = max(self.elements, made.numel())
        return out
