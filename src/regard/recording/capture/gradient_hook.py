"""Gradients that a record takes while the user's backward pass runs: what fails there is the record's alone."""

from collections.abc import Callable

from torch import Tensor

OnError = Callable[[Exception], None]


def on_gradient(x: Tensor, take: Callable[[Tensor], None], failed: OnError) -> None:
    """take(gradient of x) in each backward pass; failed(error) where that raises."""

    def hook(grad: Tensor) -> None:
        try:
            take(grad)
        except Exception as error:
            failed(error)

    x.register_hook(hook)
