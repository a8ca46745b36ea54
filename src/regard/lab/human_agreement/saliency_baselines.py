"""Saliency baselines without learning: contrast channels (Itti et al.) and spectral residual (Hou & Zhang)."""

from functools import partial

import numpy as np

CELL = 8  # pixels a side of a patch
SCALES = ((2, 8), (4, 16), (8, 32))  # standard deviations of centre and surround, in pixels
Picture = np.ndarray


def channels(picture: Picture) -> np.ndarray:
    """A photograph (rows, columns, 3) -> (20, rows / 8, columns / 8): hand-crafted saliency features of each patch.

    Brightness, red against green and blue against yellow: each as it is, and centre against surround at three scales
    (Itti, Koch and Niebur 1998); slopes along rows and columns at two scales; contrast at two scales; colourfulness and
    darkness.
    """
    from scipy.ndimage import gaussian_filter

    blur = partial(gaussian_filter, truncate=3)
    red, green, blue = np.moveaxis(np.asarray(picture, dtype=np.float64), -1, 0)
    bright = (red + green + blue) / 3
    found = []
    for one in (bright, red - green, blue - (red + green) / 2):
        found.append(blur(one, 4))
        found += [np.abs(blur(one, near) - blur(one, far)) for near, far in SCALES]
    for sigma in (1, 3):
        for order in ((0, 1), (1, 0)):
            found.append(blur(np.abs(blur(bright, sigma, order=order)), 4))
    for sigma in (4, 12):
        found.append(np.sqrt(np.maximum(blur(bright**2, sigma) - blur(bright, sigma) ** 2, 0)))
    found.append(blur(picture.max(-1).astype(np.float64) - picture.min(-1), 4))
    found.append(blur((bright < 0.15).astype(np.float64), 4))
    return np.stack([patches(one) for one in found])


def patches(pixels: np.ndarray, cell: int = CELL) -> np.ndarray:
    """The mean of each square of `cell` pixels: (rows, columns) -> (rows / cell, columns / cell)."""
    rows, columns = pixels.shape
    if rows % cell or columns % cell:
        raise ValueError(f"patches(cell={cell}): the squares do not fill {rows} x {columns} pixels.")
    return pixels.reshape(rows // cell, cell, columns // cell, cell).mean((1, 3))


def contrast(seen: np.ndarray) -> np.ndarray:
    """Of the channels of a photograph: centre against surround, each scale and colour divided by its largest value,
    added up: (rows / 8, columns / 8)."""
    found = seen[[1, 2, 3, 5, 6, 7, 9, 10, 11]]
    most = found.max((1, 2), keepdims=True)
    return (found / np.where(most > 1e-6, most, 1)).sum(0)  # less is rounding, not contrast


def spectral_residual(picture: Picture) -> np.ndarray:
    """Spectral residual saliency: (rows / 8, columns / 8).

        S = |F^-1 exp(R + i P)|^2,   R = log |F| - its mean over 3 x 3,   P the phases

    of the brightness of 4 x 4 squares. Hou & Zhang 2007. A constant image gives 0 everywhere.
    """
    from scipy.ndimage import gaussian_filter, uniform_filter

    small = patches(np.asarray(picture, dtype=np.float64).mean(-1), CELL // 2)
    waves = np.fft.fft2(small - small.mean())
    size = np.abs(waves)
    if not size.max() > 1e-9:
        return np.zeros([side // 2 for side in small.shape])
    logs = np.log(size + 1e-9 * size.max())
    rest = logs - uniform_filter(logs, 3, mode="wrap")
    found = np.abs(np.fft.ifft2(np.exp(rest + 1j * np.angle(waves)))) ** 2
    return patches(gaussian_filter(found, 2.5), 2)
