"""Images to sequences of positions and back."""

from torch import Tensor


def tokens(image: Tensor, channels: int) -> Tensor:
    """(batch, channels, *grid) -> (batch, positions, channels), row by row."""
    if not isinstance(image, Tensor) or image.ndim < 3 or image.shape[1] != channels:
        given = f"has shape {tuple(image.shape)}" if isinstance(image, Tensor) else f"is a {type(image).__name__}"
        raise ValueError(f"x, an image, {given}, expected (batch, {channels}, height, width), for channels={channels}.")
    return image.flatten(2).transpose(1, 2)


def image(tokens: Tensor, like: Tensor) -> Tensor:
    """(batch, positions, channels) -> (batch, channels, *grid), the grid of `like`."""
    return tokens.transpose(1, 2).reshape(like.shape[0], tokens.shape[-1], *like.shape[2:])
