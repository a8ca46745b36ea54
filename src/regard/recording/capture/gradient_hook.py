"""Tensor hooks that keep gradients in the user's backward pass; an error in one never reaches the user."""

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
