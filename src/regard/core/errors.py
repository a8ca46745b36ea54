"""The errors Regard raises: each names the argument, what was given, what was expected and the next step."""

import os

import torch
from torch import Tensor


class Refused(RuntimeError):
    """A backend was asked for something that it does not do. The message lists every reason as a sentence."""


def values_are_checked(tensor: Tensor) -> bool:
    """Whether values (not only shapes) are checked: always in eager mode on a CPU, elsewhere with REGARD_CHECK=1.

    Reading a value on a GPU would wait for it; reading one while compiling would break the graph.
    """
    if torch.compiler.is_compiling() or isinstance(tensor, torch._subclasses.FakeTensor):
        return False
    return tensor.device.type == "cpu" or os.environ.get("REGARD_CHECK") == "1"
