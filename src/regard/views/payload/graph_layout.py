"""Force-directed layout of a graph, deterministic.

Fruchterman and Reingold 1991: neighbours attract by d^2 / k (on large graphs by d^1.5 / k^0.5, which spreads a dense
core), all nodes repel by k^2 / d, with decreasing step size.
"""

import numpy as np
from numpy.typing import NDArray

MAX_SPRING_NODES = 400  # up to so many nodes networkx is used, which computes all pairs
STEPS = 220
MIN_ASPECT = 0.8  # height over width; flatter layouts are stretched
Array = NDArray[np.float64]


def layout_nodes(source: NDArray[np.int64], target: NDArray[np.int64], count: int) -> NDArray[np.float32]:
    """(count, 2) within [-1, 1], deterministic and independent of weights, so that heads can be compared."""
    if count <= 1:
        return np.zeros((count, 2), np.float32)
    apart = source != target
    low, high = np.minimum(source, target)[apart], np.maximum(source, target)[apart]
    pairs = np.unique(low * count + high)
    low, high = pairs // count, pairs % count
    found = _springs(low, high, count) if count <= MAX_SPRING_NODES else _particle_mesh(low, high, count)
    found = found - found.mean(0)
    found = found @ np.linalg.eigh(found.T @ found)[1][:, ::-1]  # the longest axis is horizontal
    found = found - (found.max(0) + found.min(0)) / 2
    wide, high = np.abs(found).max(0)
    found[:, 1] *= max(1.0, MIN_ASPECT * wide / max(high, 1e-9))
    return (found / max(1e-9, float(np.abs(found).max()))).astype(np.float32)


def _springs(low: NDArray[np.int64], high: NDArray[np.int64], count: int) -> Array:
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from(zip(low.tolist(), high.tolist(), strict=True))
    found = networkx.spring_layout(graph, seed=0, iterations=STEPS)
    return np.array([found[node] for node in range(count)])


def _particle_mesh(low: NDArray[np.int64], high: NDArray[np.int64], count: int) -> Array:
    """Particle-mesh repulsion: nodes as masses on a grid, forces by a convolution."""
    at = _initial_positions(low, high, count)
    k = 1.0 / np.sqrt(count)
    size = int(np.clip(2 ** np.ceil(np.log2(1.5 * np.sqrt(count))), 64, 512))
    kernels = _kernels(size)
    for step in range(STEPS):
        force = k**2 * _repulsion(at, size, kernels)
        offset = at[high] - at[low]
        pull = offset * np.sqrt(np.linalg.norm(offset, axis=1, keepdims=True) / k)
        for axis in (0, 1):
            force[:, axis] += np.bincount(low, pull[:, axis], count) - np.bincount(high, pull[:, axis], count)
        force -= 0.8 * at  # gravity keeps components together
        long = np.linalg.norm(force, axis=1, keepdims=True)
        at += force / np.maximum(long, 1e-12) * np.minimum(long, 0.12 * (1 - step / STEPS) ** 1.5 + 1e-4)
    return at


def _initial_positions(low: NDArray[np.int64], high: NDArray[np.int64], count: int) -> Array:
    """Random positions, smoothed along the edges by power iteration."""
    at = np.random.default_rng(0).standard_normal((count, 2))
    degree = np.bincount(low, minlength=count) + np.bincount(high, minlength=count)
    for _ in range(30):
        around = np.stack(
            [np.bincount(low, at[high, c], count) + np.bincount(high, at[low, c], count) for c in (0, 1)], 1
        )
        at = 0.5 * at + 0.5 * around / np.maximum(degree, 1)[:, None]
        at -= at.mean(0)
    at = np.linalg.qr(at)[0] * np.sqrt(count)
    return 0.4 * np.clip(at, -3, 3)


def _kernels(size: int) -> list[NDArray[np.complex128]]:
    """Fourier transforms of the force between grid points, along each axis, on a grid of twice the size."""
    line = ((np.arange(2 * size) + size) % (2 * size) - size).astype(np.float64)
    square = line[:, None] ** 2 + line[None] ** 2 + 1.0  # softer than a step
    return [np.fft.rfft2(x / square) for x in (line[:, None], line[None])]


def _repulsion(at: Array, size: int, kernels: list[NDArray[np.complex128]]) -> Array:
    """sum over all others of (x - y) / |x - y|^2, masses interpolated to the four nearest grid points."""
    low = at.min(0)
    step = max(float((at.max(0) - low).max()), 1e-9) / (size - 2)
    place = (at - low) / step
    cell = np.floor(place).astype(np.int64)
    part = place - cell
    corners = []
    for dx in (0, 1):
        for dy in (0, 1):
            share = np.abs(1 - dx - part[:, 0]) * np.abs(1 - dy - part[:, 1])
            corners.append(((cell[:, 0] + dx) * size + cell[:, 1] + dy, share))
    mass = np.zeros(size * size)
    for where, share in corners:
        mass += np.bincount(where, share, size * size)
    spread = np.fft.rfft2(mass.reshape(size, size), (2 * size, 2 * size))
    force = np.empty_like(at)
    for axis, kernel in enumerate(kernels):
        field = np.fft.irfft2(spread * kernel, (2 * size, 2 * size))[:size, :size].ravel() / step
        force[:, axis] = sum(field[where] * share for where, share in corners)
    return force
