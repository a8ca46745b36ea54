"""DictionaryLookup: the truth is known, and only a score that depends on who asks can find it."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data import Lookup, dictionary_lookup
from regard.nn.graph import GATConv, GATv2Conv


def test_the_answer_edge_leads_to_the_one_neighbour_with_the_same_key_and_the_value_asked_for() -> None:
    task, other = dictionary_lookup(5, graphs=4, held_out=2, seed=1)
    for part, graphs in ((task, 4), (other, 2)):
        source, target = part.edge_index[:, part.answer]
        assert part.asks.sum() == part.y.shape[0] == 5 * graphs
        assert torch.equal(target, part.asks.nonzero()[:, 0])
        assert torch.equal(part.key[source], part.key[target])
        assert torch.equal(part.value[source], part.y)
        assert (part.value[target] == 5).all()
        assert (part.edge_index[1].bincount()[target] == 5).all()
    tables = torch.cat([task.y, other.y]).view(6, 5)
    assert tables.unique(dim=0).shape[0] == 6


def test_more_dictionaries_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match="there are 6 dictionaries of 3 words, not 7"):
        dictionary_lookup(3, graphs=5, held_out=2)
    with pytest.raises(ValueError, match="expected k >= 2"):
        dictionary_lookup(1, graphs=1)


class Reader(nn.Module):
    """One layer of graph attention between embedded keys and values and a linear read-out."""

    def __init__(self, layer: type, k: int, width: int = 32):
        super().__init__()
        self.key, self.value = nn.Embedding(k, width), nn.Embedding(k + 1, width)
        self.conv, self.out = layer(width, width, add_self_loops=False), nn.Linear(width, k)

    def forward(self, task: Lookup) -> tuple[Tensor, Tensor]:
        x = self.key(task.key) + self.value(task.value)
        x, amap = self.conv(x, task.edge_index, return_map=True)
        return self.out(x[task.asks]), amap.edges()[0]


def fitted(layer: type, task: Lookup, steps: int) -> Reader:
    model = Reader(layer, task.k)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimiser.zero_grad()
        F.cross_entropy(model(task)[0], task.y).backward()
        optimiser.step()
    return model


def test_gatv2_fits_the_dictionaries_and_gat_does_not() -> None:
    """GAT ranks the neighbours alike for all who ask, and 30 dictionaries cannot be learned by heart from that."""
    task, _ = dictionary_lookup(5, graphs=30)
    right = {}
    for layer in (GATConv, GATv2Conv):
        out, _ = fitted(layer, task, steps=150)(task)
        right[layer] = (out.argmax(-1) == task.y).float().mean().item()
    assert right[GATv2Conv] > 0.99
    assert right[GATConv] < 0.5
