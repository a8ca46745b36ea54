"""Mini-batches of torch_geometric's NeighborLoader train unchanged: same outputs, same gradients as its own layers.

NeighborLoader draws with pyg_lib or torch_sparse, compiled packages that are often absent. It also takes a sampler that
it is given: one written here in Python draws the same kind of batches, and everything after the draw is the loader's.
"""

import os
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

pyg = pytest.importorskip("torch_geometric")

import torch_geometric.nn as peers  # noqa: E402
from torch_geometric.data import Data  # noqa: E402
from torch_geometric.loader import NeighborLoader  # noqa: E402
from torch_geometric.sampler import BaseSampler, NodeSamplerInput, SamplerOutput  # noqa: E402
from torch_geometric.utils import trim_to_layer  # noqa: E402

import regard.nn as ours  # noqa: E402
from regard.data import planetoid  # noqa: E402

COMPILED = pyg.typing.WITH_PYG_LIB or pyg.typing.WITH_TORCH_SPARSE
real = pytest.mark.skipif(
    not os.environ.get("REGARD_DATA"), reason="REGARD_DATA is not set: it names the folder of real data sets"
)
compiled = pytest.mark.skipif(
    not COMPILED, reason="neither pyg_lib nor torch_sparse is installed: NeighborLoader's own sampler needs one of them"
)
SAMPLERS = [pytest.param("python", id="python"), pytest.param("compiled", marks=compiled, id="compiled")]
FANOUT = [6, 4]


class InPython(BaseSampler):
    """At most k in-neighbours of each node of the hop before, without replacement; nodes in the order of discovery."""

    edge_permutation = None

    def __init__(self, data: Data, fanout: list[int]):
        self.fanout = fanout
        self.sources = [data.edge_index[0][data.edge_index[1] == node] for node in range(data.num_nodes)]
        self.edges = [(data.edge_index[1] == node).nonzero()[:, 0] for node in range(data.num_nodes)]

    def sample_from_edges(self, index: object, **_: object) -> SamplerOutput:
        raise NotImplementedError("These tests draw around nodes.")

    def sample_from_nodes(self, index: NodeSamplerInput, **_: object) -> SamplerOutput:
        place = {node: i for i, node in enumerate(index.node.tolist())}
        hop, row, col, edge, nodes, edges = list(place), [], [], [], [len(place)], []
        for k in self.fanout:
            found: list[int] = []
            before = len(row)
            for target in hop:
                for chosen in torch.randperm(len(self.sources[target]))[:k].tolist():
                    source = int(self.sources[target][chosen])
                    if source not in place:
                        place[source] = len(place)
                        found.append(source)
                    row.append(place[source]), col.append(place[target]), edge.append(int(self.edges[target][chosen]))
            hop = found
            nodes.append(len(found)), edges.append(len(row) - before)
        return SamplerOutput(
            torch.tensor(list(place)),
            torch.tensor(row),
            torch.tensor(col),
            torch.tensor(edge),
            num_sampled_nodes=nodes,
            num_sampled_edges=edges,
            metadata=(index.input_id, index.time),
        )


def made(n: int = 240) -> Data:
    """Noisy features, edges that mostly stay within a class, features on the edges."""
    draw = torch.Generator().manual_seed(5)
    y = torch.arange(n) % 3
    x = 0.8 * F.one_hot(y, 8) + torch.randn(n, 8, generator=draw)
    edge_index = (
        (torch.rand(n, n, generator=draw) < torch.where(y[:, None] == y, 0.08, 0.01)).nonzero().t().contiguous()
    )
    return Data(x=x, y=y, edge_index=edge_index, edge_attr=torch.randn(edge_index.shape[1], 2, generator=draw))


def cora() -> Data:
    task = planetoid("cora")
    return Data(x=task.x.to_dense(), y=task.y, edge_index=task.edge_index, train_mask=task.train)


def loader(
    data: Data, sampler: str, size: int = 40, nodes: Tensor | None = None, shuffle: bool = False
) -> NeighborLoader:
    given = InPython(data, FANOUT) if sampler == "python" else None
    return NeighborLoader(
        data,
        FANOUT,
        input_nodes=nodes,
        neighbor_sampler=given,
        batch_size=size,
        shuffle=shuffle,
        filter_per_worker=True,
    )


def some(batches: NeighborLoader, count: int = 3) -> Iterator[Data]:
    for _, batch in zip(range(count), batches, strict=False):
        yield batch


def twins(name: str, *arguments: int, **options: object) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    peer = getattr(peers, name)(*arguments, **options)
    mine = getattr(ours, name)(*arguments, **options)
    mine.load_state_dict(peer.state_dict())
    return mine, peer


def assert_same(mine: nn.Module, peer: nn.Module, one: Tensor, two: Tensor) -> None:
    assert_close(one, two, atol=1e-5, rtol=1e-5)
    gradients = [torch.autograd.grad(out.sin().sum(), list(m.parameters())) for m, out in ((mine, one), (peer, two))]
    for (name, _), a, b in zip(mine.named_parameters(), *gradients, strict=True):
        assert_close(a, b, atol=1e-5, rtol=1e-4, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("layer", ["GATConv", "GATv2Conv", "TransformerConv"])
def test_a_batch_gives_the_peers_outputs_and_gradients(layer: str, sampler: str) -> None:
    data = made()
    mine, peer = twins(layer, 8, 5, heads=2, edge_dim=2)
    for batch in some(loader(data, sampler)):
        assert torch.equal(batch.n_id[: batch.batch_size], batch.input_id) and batch.batch_size == 40
        assert torch.equal(data.edge_index[:, batch.e_id], batch.n_id[batch.edge_index])
        out = [conv(batch.x, batch.edge_index, batch.edge_attr) for conv in (mine, peer)]
        assert_same(mine, peer, *out)


class TwoLayers(nn.Module):
    def __init__(self, kind: type, width: int, classes: int):
        super().__init__()
        self.first, self.second = kind(width, 8, heads=2), kind(16, classes, heads=1)

    def forward(self, batch: Data, trim: bool = False) -> Tensor:
        x, edge_index = batch.x, batch.edge_index
        for number, conv in enumerate((self.first, self.second)):
            if trim:
                x, edge_index, _ = trim_to_layer(
                    number, batch.num_sampled_nodes, batch.num_sampled_edges, x, edge_index
                )
            x = conv(x if number == 0 else F.elu(x), edge_index)
        return x[: batch.batch_size]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_layers_trimmed_to_what_the_seeds_need_agree_with_the_peer_and_with_the_whole_batch(sampler: str) -> None:
    torch.manual_seed(0)
    peer = TwoLayers(peers.GATConv, 8, 3)
    mine = TwoLayers(ours.GATConv, 8, 3)
    mine.load_state_dict(peer.state_dict())
    for batch in some(loader(made(), sampler)):
        trimmed = mine(batch, trim=True)
        assert_same(mine, peer, trimmed, peer(batch, trim=True))
        assert_close(trimmed, mine(batch), atol=1e-5, rtol=1e-5)


def test_sources_and_targets_of_a_hop_may_be_given_apart() -> None:
    """The older form: x of all nodes, x of the first ones, edges into these."""
    mine, peer = twins("GATConv", (8, 8), 5, heads=2, add_self_loops=False)
    for batch in some(loader(made(), "python")):
        targets, edges = batch.num_sampled_nodes[0], batch.edge_index[:, : batch.num_sampled_edges[0]]
        out = [conv((batch.x, batch.x[:targets]), edges, size=(len(batch.x), targets)) for conv in (mine, peer)]
        assert out[0].shape[0] == targets
        assert_same(mine, peer, *out)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_training_by_mini_batches_learns(sampler: str) -> None:
    torch.manual_seed(0)
    data = made()
    model = TwoLayers(ours.GATConv, 8, 3)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(6):
        total = 0.0
        for batch in loader(data, sampler, size=60, shuffle=True):
            loss = F.cross_entropy(model(batch), batch.y[: batch.batch_size])
            optimiser.zero_grad(), loss.backward(), optimiser.step()
            total += loss.item()
        losses.append(total)
    right = (model(_whole(data)).argmax(-1) == data.y).float().mean()
    assert losses[-1] < 0.7 * losses[0] and right > 0.8


def _whole(data: Data) -> Data:
    return Data(x=data.x, edge_index=data.edge_index, batch_size=data.num_nodes)


@real
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_batches_of_cora_give_the_peers_outputs_and_gradients_and_train(sampler: str) -> None:
    torch.manual_seed(0)
    data = cora()
    peer = TwoLayers(peers.GATConv, data.num_features, 7)
    mine = TwoLayers(ours.GATConv, data.num_features, 7)
    mine.load_state_dict(peer.state_dict())
    batches = loader(data, sampler, size=70, nodes=data.train_mask, shuffle=True)
    for batch in batches:
        assert_same(mine, peer, mine(batch), peer(batch))
    optimiser = torch.optim.Adam(mine.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(12):
        for batch in batches:
            loss = F.cross_entropy(mine(batch), batch.y[: batch.batch_size])
            optimiser.zero_grad(), loss.backward(), optimiser.step()
    with torch.no_grad():
        right = (mine(_whole(data)).argmax(-1) == data.y)[~data.train_mask].float().mean()
    assert right > 0.65  # an MLP without edges has about 0.55
