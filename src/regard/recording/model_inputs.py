"""What a model was given, read off the stack where its first attention runs: enough to run it once more."""

from typing import Any

import torch
from torch import Tensor, nn

from regard.core.torch_private import tree_map

from .capture.module_stack import arguments_of


class ModelInputs:
    """The arguments of a model's first run in a record, tensors copied; `regard.why` runs the model on them again."""

    def __init__(self) -> None:
        self.args: tuple[Any, ...] | None = None
        self.kwargs: dict[str, Any] = {}

    def see(self, model: nn.Module | None) -> None:
        if self.args is not None or model is None or torch.compiler.is_compiling():
            return
        found = arguments_of(model)
        if found is not None:
            self.args, self.kwargs = tree_map(_copied, tuple(found[0])), tree_map(_copied, dict(found[1]))

    def __bool__(self) -> bool:
        return self.args is not None


def _copied(x: Any) -> Any:
    return x.detach().clone() if isinstance(x, Tensor) else x
