"""Images as positions: what every recipe of vision does first and last."""

from torch import Tensor


def tokens(image: Tensor, channels: int) -> Tensor:
    """(batch, channels, *grid) -> (batch, positions, channels), row by row."""
    if image.ndim < 3 or image.shape[1] != channels:
        raise ValueError(f"image has shape {tuple(image.shape)}, expected (batch, {channels}, height, width).")
    return image.flatten(2).transpose(1, 2)


def image(tokens: Tensor, like: Tensor) -> Tensor:
    """(batch, positions, channels) -> (batch, channels, *grid), the grid of `like`."""
    return tokens.transpose(1, 2).reshape(like.shape[0], tokens.shape[-1], *like.shape[2:])
