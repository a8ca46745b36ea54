"""Demo: two small networks classify handwritten digits, with attention and with uniform weights.

Each 8 x 8 image of scikit-learn's digits becomes 16 patches of 2 x 2 pixels. Both networks have one self-attention
layer over the patches, and pool them with a learned query; `align="uniform"` is the ablation.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor, nn
from torch.nn import functional as F

from regard import AttentionMap, Mask
from regard.nn import Attention

from .spread import Spread

GRID, SIDE, PATCHES = 4, 2, 16
HIDDEN = 4  # patches masked in the deletion test
NETWORKS = ("attention only", "with a perceptron")
ALIGNMENTS = ("softmax", "uniform")


class PatchReader(nn.Module):
    """Patch and position embeddings, one self-attention layer, pooling by a learned query, a linear classifier.

    patches (B, 16, 4) -> logits (B, 10) and the map (B, heads, 1, 16) of the learned query.
    Without the perceptron, attention is the only non-linearity.
    """

    def __init__(self, align: str, perceptron: bool, dim: int = 64):
        super().__init__()
        self.embed = nn.Linear(SIDE * SIDE, dim)
        self.position = nn.Parameter(torch.randn(PATCHES, dim))
        wide = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.perceptron = wide if perceptron else nn.Identity()
        self.meet = Attention(dim, heads=8, align=align)
        self.query = nn.Parameter(torch.randn(1, 1, dim) / 2)
        self.read = Attention(dim, heads=4, align=align)
        self.answer = nn.Linear(dim, 10)

    def forward(self, patches: Tensor, over: Mask | None = None) -> tuple[Tensor, AttentionMap]:
        x = self.perceptron(self.embed(2 * patches) + self.position)
        x = x + self.meet(x, over=over).out
        summary, amap = self.read(self.query.expand(len(x), -1, -1), x, over=over)
        return self.answer(summary[:, 0]), amap


@dataclass(frozen=True)
class Digits:
    """images (N, 8, 8) in [0, 1], patches (N, 16, 4), labels (N,)."""

    images: Tensor
    patches: Tensor
    labels: Tensor

    @classmethod
    def load(cls) -> "Digits":
        pixels, labels = load_digits(return_X_y=True)
        images = torch.tensor(pixels / 16, dtype=torch.float32).reshape(-1, 8, 8)
        patches = F.unfold(images[:, None], SIDE, stride=SIDE).transpose(1, 2)
        return cls(images, patches.contiguous(), torch.tensor(labels))

    def split(self, seed: int) -> tuple[Tensor, Tensor]:
        """Training and test indices, 70 to 30, stratified; another split for each seed."""
        train, test = train_test_split(
            torch.arange(len(self.labels)).numpy(), test_size=0.3, random_state=seed, stratify=self.labels.numpy()
        )
        return torch.from_numpy(train), torch.from_numpy(test)


@dataclass
class DigitResults:
    """accuracy by (network, alignment); the trivial baselines; accuracy with masked patches; one trained network."""

    seeds: int
    runs: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    baselines: dict[str, list[float]] = field(default_factory=dict)
    hidden: dict[str, list[float]] = field(default_factory=dict)
    reader: PatchReader | None = None

    def spread(self, network: str, align: str) -> Spread:
        return Spread(tuple(self.runs[network, align]))


def study(data: Digits, results: DigitResults, epochs: int) -> Iterator[tuple[int, str, str, float]]:
    """Train every network with every alignment and seed into `results`; yields each run as it ends.

    Within a seed both alignments have the same split, initialisation and order of images: a paired design.
    """
    for seed in range(results.seeds):
        train, test = data.split(seed)
        for name, model in (
            ("logistic regression", LogisticRegression(max_iter=1000)),
            ("nearest neighbour", KNeighborsClassifier(1)),
        ):
            flat = data.images.flatten(1).numpy()
            model.fit(flat[train], data.labels.numpy()[train])
            results.baselines.setdefault(name, []).append(float(model.score(flat[test], data.labels.numpy()[test])))
        for network in NETWORKS:
            for align in ALIGNMENTS:
                reader = trained(data, train, seed, align, network == "with a perceptron", epochs)
                accuracy = _accuracy(reader, data, test)
                results.runs.setdefault((network, align), []).append(accuracy)
                if (network, align) == ("attention only", "softmax"):
                    results.reader = results.reader or reader
                    for way, value in _hide(reader, data, test, seed).items():
                        results.hidden.setdefault(way, []).append(value)
                yield seed, network, align, accuracy


def trained(data: Digits, train: Tensor, seed: int, align: str, perceptron: bool, epochs: int) -> PatchReader:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        reader = PatchReader(align, perceptron)
        order = [torch.randperm(len(train)) for _ in range(epochs)]
    batch = 64
    steps = epochs * (len(train) // batch)
    optimizer = torch.optim.AdamW(reader.parameters(), lr=5e-3, weight_decay=1e-2, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=steps + 1)
    for shuffled in order:
        for chosen in train[shuffled].split(batch)[: len(train) // batch]:
            logits, _ = reader(data.patches[chosen])
            optimizer.zero_grad()
            F.cross_entropy(logits, data.labels[chosen]).backward()
            optimizer.step()
            schedule.step()
    return reader.eval()


@torch.no_grad()
def _accuracy(reader: PatchReader, data: Digits, rows: Tensor, over: Mask | None = None) -> float:
    logits, _ = reader(data.patches[rows], over)
    return float((logits.argmax(-1) == data.labels[rows]).float().mean())


@torch.no_grad()
def query_weights(reader: PatchReader, data: Digits, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Weights of the learned query (rows, 16), averaged over heads; and the predicted digits."""
    logits, amap = reader(data.patches[rows])
    return amap.weights().mean(dim=1)[:, 0], logits.argmax(-1)


def _hide(reader: PatchReader, data: Digits, test: Tensor, seed: int) -> dict[str, float]:
    """Accuracy with a quarter of the patches masked: those of largest weight, those with most ink, random ones."""
    weights, _ = query_weights(reader, data, test)
    ink = data.patches[test].sum(-1)
    chance = torch.rand(ink.shape, generator=torch.Generator().manual_seed(seed))
    outcome = {"none": _accuracy(reader, data, test)}
    for way, order in (("four at random", chance), ("four with most ink", ink), ("four of largest weight", weights)):
        keep = torch.ones_like(order, dtype=torch.bool).scatter(1, order.topk(HIDDEN, dim=1).indices, False)
        outcome[way] = _accuracy(reader, data, test, Mask(keep=keep[:, None, None, :]))
    return outcome
