"""Long range and over-smoothing, often claimed together, measured separately."""

from functools import partial

import numpy as np
import torch
from torch import Tensor

from regard.data import NodeTask
from regard.judging.progress import ProgressCallback, no_progress
from regard.judging.tests.oversmoothing import dirichlet, influence, mad, spread
from regard.models.deep_gnn import DeepGNN
from regard.models.training.node_training import Recipe

from ..data.planted import csbm, far
from .claim import Claim, Curve, Panel, apart, over_seeds
from .networks import SAYS, trained

TEST = "claims: long range and over-smoothing"
CLAIM = "Attention sees far, and so suffers less from over-smoothing."
KINDS = ("gat", "gatv2", "mean", "gcn")
DISTANCES = (1, 2, 3, 4, 6, 8)
DEPTHS = (1, 2, 4, 8, 16, 32)
FIXED = 3
CHAINS = 200
RECIPE = Recipe(dropout=0.0, rate=0.005, decay=0.0, patience=40, epochs=150)
DEEP = Recipe(dropout=0.0, rate=0.005, decay=5e-4, patience=30, epochs=100)


def reach(small: bool = False, seeds: int = 5, on_progress: ProgressCallback = no_progress) -> Claim:
    """A planted distance for range; influence by distance; spread, Dirichlet energy, MAD and accuracy by depth."""
    distances = (2, 4, 6) if small else DISTANCES
    right: dict[str, list[list[float]]] = {}
    depths = (2, 8) if small else DEPTHS[1:]
    stages = len(distances) + 1 + len(depths)
    for done, distance in enumerate(distances):
        on_progress(f"an answer {distance} edges away", done, stages)
        for kind in KINDS:
            right.setdefault(f"{SAYS[kind]}, as many layers", []).append(
                [_far(kind, distance, distance, seed) for seed in range(seeds)]
            )
        right.setdefault(f"GAT, {FIXED} layers", []).append(
            [_far("gat", distance, FIXED, seed) for seed in range(seeds)]
        )
        right.setdefault("GAT, 1 layer over all pairs", []).append(
            [_far("gat", distance, 1, seed, pairs=True) for seed in range(seeds)]
        )
    on_progress("influence by distance, smoothing of fresh networks", len(distances), stages)
    panels = [_ranges(right, distances), _influences(seeds)]
    panels += _fresh(seeds, DEPTHS)
    deep: dict[str, list[list[tuple[float, float]]]] = {}
    for done, depth in enumerate(depths, len(distances) + 1):
        on_progress(f"trained networks of {depth} layers", done, stages)
        for kind in KINDS:
            deep.setdefault(SAYS[kind], []).append([_deep(kind, depth, seed) for seed in range(seeds)])
        for name, kind in (("GAT, residual", "gat"), ("mean, residual", "mean")):
            deep.setdefault(name, []).append([_deep(kind, depth, seed, residual=True) for seed in range(seeds)])
    panels += _trained(deep, depths)
    return Claim(
        "range",
        CLAIM,
        tuple(_answer(right, distances, panels, deep, depths)),
        tuple(panels),
        seeds,
        {
            "range": f"{CHAINS} chains, 4 colours, width 16",
            "smoothing": "CSBM, 400 nodes, signal 3, same 0.8, degree 10, width 16",
        },
    )


def _far(kind: str, distance: int, layers: int, seed: int, pairs: bool = False) -> float:
    task = far(distance, CHAINS, seed=seed)
    if pairs:
        size = task.nodes // CHAINS
        one = torch.cartesian_prod(torch.arange(size), torch.arange(size)).T
        one = one[:, one[0] != one[1]]
        edges = (one[:, None] + size * torch.arange(CHAINS)[None, :, None]).flatten(1)
        task = NodeTask(task.name, task.x, task.y, edges, task.train, task.val, task.test)
    return trained(kind, task, seed, RECIPE, width=16, layers=layers)[1].test


def _deep(kind: str, depth: int, seed: int, residual: bool = False) -> tuple[float, float]:
    """Test accuracy, and the spread of the last layer."""
    task = csbm(signal=3.0, same=0.8, seed=seed)
    model, found = trained(kind, task, seed, DEEP, width=16, layers=depth, residual=residual)
    with torch.no_grad():
        return found.test, spread(model.eval().hidden(task.x, task.edge_index)[-1])


def _ranges(right: dict[str, list[list[float]]], distances: tuple[int, ...]) -> Panel:
    curves = tuple(
        Curve(
            name,
            tuple(
                over_seeds(f"accuracy of {name} at distance {distance}", runs, test=TEST, baselines={"chance": 0.25})
                for distance, runs in zip(distances, each, strict=True)
            ),
        )
        for name, each in right.items()
    )
    return Panel(
        "Range: can the colour of a distant node be predicted?",
        "distance in edges",
        "test accuracy",
        distances,
        curves,
        limit=("chance", 0.25),
    )


def _influences(seeds: int) -> Panel:
    """Influence of the node at each distance on the first one, in untrained networks of four layers on a chain."""
    size, layers = 9, 4
    one_way = torch.stack([torch.arange(size - 1), torch.arange(1, size)])
    edges = torch.cat([one_way, one_way.flip(0)], 1)
    pairs = torch.cartesian_prod(torch.arange(size), torch.arange(size)).T
    networks = {SAYS[kind]: (kind, edges) for kind in KINDS} | {
        "GAT over all pairs": ("gat", pairs[:, pairs[0] != pairs[1]])
    }
    curves = []
    for name, (kind, over) in networks.items():
        runs = []
        for seed in range(seeds):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                model, x = DeepGNN(6, 16, 4, kind, layers), torch.randn(size, 6)
            runs.append(influence(partial(_last, model, over), x, 0).numpy())
        found = np.stack(runs)
        shares = found / found.sum(1, keepdims=True)
        curves.append(
            Curve(
                name,
                tuple(
                    over_seeds(
                        f"influence on {name} from {distance} edges away",
                        shares[:, distance],
                        test=TEST,
                        better="neither",
                        unit="share of |d out / d x|",
                    )
                    for distance in range(size)
                ),
            )
        )
    return Panel(
        f"Influence of a node by distance, fresh networks of {layers} layers",
        "distance in edges",
        "share of |d out / d x|",
        tuple(range(size)),
        tuple(curves),
        limit=("no influence", 0.0),
    )


def _last(model: DeepGNN, edges: Tensor, x: Tensor) -> Tensor:
    return model.hidden(x, edges)[-1]


def _fresh(seeds: int, depths: tuple[int, ...]) -> list[Panel]:
    """Spread, Dirichlet energy and MAD by depth, of untrained networks."""
    networks = [(SAYS[kind], kind, False) for kind in KINDS] + [("GAT, residual", "gat", True)]
    table: dict[str, np.ndarray] = {}
    for name, kind, residual in networks:
        runs = []
        for seed in range(seeds):
            task = csbm(signal=3.0, same=0.8, seed=seed)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                model = DeepGNN(8, 16, 2, kind, depths[-1], residual=residual).eval()
            with torch.no_grad():
                made = model.hidden(task.x, task.edge_index)
            runs.append(
                [(spread(made[d]), dirichlet(made[d], task.edge_index), mad(made[d], task.edge_index)) for d in depths]
            )
        table[name] = np.asarray(runs)
    panels = []
    for column, y in enumerate(("|H - mean| / |H|", "Dirichlet energy / mean |h|^2", "mean average distance")):
        curves = tuple(
            Curve(
                name,
                tuple(
                    over_seeds(
                        f"{y} of {name} after {depth} layers",
                        found[:, place, column],
                        test=TEST,
                        better="neither",
                        unit=y,
                    )
                    for place, depth in enumerate(depths)
                ),
            )
            for name, found in table.items()
        )
        panels.append(Panel(f"Smoothing, fresh networks: {y}", "layers", y, depths, curves, log="xy"))
    return panels


def _trained(deep: dict[str, list[list[tuple[float, float]]]], depths: tuple[int, ...]) -> list[Panel]:
    panels = []
    for column, title, y in (
        (0, "Trained networks: accuracy by depth", "test accuracy"),
        (1, "Trained networks: spread of the last layer", "|H - mean| / |H|"),
    ):
        curves = tuple(
            Curve(
                name,
                tuple(
                    over_seeds(
                        f"{y} of {name} with {depth} layers",
                        [run[column] for run in runs],
                        test=TEST,
                        better="neither" if column else "higher",
                        unit="share" if column == 0 else y,
                    )
                    for depth, runs in zip(depths, each, strict=True)
                ),
            )
            for name, each in deep.items()
        )
        panels.append(Panel(title, "layers", y, depths, curves, log="x", limit=None if column else ("chance", 0.5)))
    return panels


def _answer(
    right: dict[str, list[list[float]]],
    distances: tuple[int, ...],
    panels: list[Panel],
    deep: dict[str, list[list[tuple[float, float]]]],
    depths: tuple[int, ...],
) -> list[str]:
    share = {name: float(np.mean(each[-1])) for name, each in right.items()}
    said = [
        f"Range, {distances[-1]} edges away (chance 0.25): " + ", ".join(f"{a} {b:.2f}" for a, b in share.items()) + "."
    ]
    gat, mean = right["GAT, as many layers"], right["mean of neighbours, as many layers"]
    stands = [f"{apart(a, b)} it at {distance}" for distance, a, b in zip(distances, gat, mean, strict=True)]
    said.append(f"GAT beside the mean of neighbours, both with as many layers as edges: {', '.join(stands)}.")
    beyond = [one for curve in panels[1].curves if curve.name != "GAT over all pairs" for one in curve.findings[5:]]
    heard = all(one is not None and one.value == 0 for one in beyond)
    said.append(
        f"Influence from beyond the four layers is {'exactly 0' if heard else 'not 0'}, with attention and without."
    )
    fresh = {curve.name: [one.value for one in curve.findings if one is not None] for curve in panels[2].curves}
    listed = ", ".join(f"{name} {x[0]:.2g} to {x[-1]:.2g}" for name, x in fresh.items())
    said.append(f"Over-smoothing, spread after {panels[2].x[0]} to {panels[2].x[-1]} fresh layers: {listed}.")
    ends = {name: [run[0] for run in each[-1]] for name, each in deep.items()}
    listed = ", ".join(f"{name} {np.mean(x):.2f}" for name, x in ends.items())
    how = apart(ends["GAT"], ends["mean of neighbours"]), apart(ends["GAT, residual"], ends["GAT"])
    said.append(
        f"Trained with {depths[-1]} layers: {listed}. GAT is {how[0]} the mean of neighbours; GAT with "
        f"residuals is {how[1]} GAT without."
    )
    return said
