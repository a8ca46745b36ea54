"""Graph layers with edge features on a CUDA device: the numbers and gradients of the reference in fp64 on a CPU."""

from copy import deepcopy

import pytest
import torch

from regard.nn import EdgeGATConv, GATConv, GATv2Conv, HGTConv, RGATConv, SimpleHGNConv, TransformerConv

DEVICE = "cuda"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="This machine has no CUDA device."),
]
N, E, F, D, R = 30, 200, 6, 3, 4
METADATA = (
    ["author", "paper"],
    [("author", "writes", "paper"), ("paper", "cites", "paper"), ("paper", "by", "author")],
)
MULTIPLICATIVE = {"attention_mode": "multiplicative-self-attention", "dim": 2}

LAYERS = {
    "GATConv": lambda: GATConv(F, 8, heads=4, edge_dim=D),
    "GATConv, sparsemax": lambda: GATConv(F, 8, heads=4, edge_dim=D, align="sparsemax"),
    "GATConv, mean": lambda: GATConv(F, 5, heads=3, edge_dim=D, concat=False, residual=True),
    "GATv2Conv": lambda: GATv2Conv(F, 8, heads=4, edge_dim=D),
    "GATv2Conv, one matrix": lambda: GATv2Conv(F, 8, heads=2, edge_dim=D, share_weights=True, add_self_loops=False),
    "GATv2Conv, entmax": lambda: GATv2Conv(F, 8, heads=2, edge_dim=D, align="entmax15"),
    "TransformerConv": lambda: TransformerConv(F, 8, heads=4, edge_dim=D, beta=True),
    "TransformerConv, sigmoid": lambda: TransformerConv(F, 7, heads=3, edge_dim=D, align="sigmoid"),
    "RGATConv": lambda: RGATConv(F, 8, R, heads=2, edge_dim=D),
    "RGATConv, products": lambda: RGATConv(F, 8, R, heads=2, edge_dim=D, **MULTIPLICATIVE),
    "RGATConv, within": lambda: RGATConv(F, 8, R, heads=2, attention_mechanism="within-relation", mod="additive"),
    "SimpleHGNConv": lambda: SimpleHGNConv(F, 8, R, heads=4, residual=True),
    "EdgeGATConv": lambda: EdgeGATConv(F, D, 8, 5, heads=4),
    "HGTConv": lambda: HGTConv(F, 8, METADATA, heads=2),
}


def inputs(name):
    """Leaves in fp64 and how a layer is called with them."""
    torch.manual_seed(0)
    x, y = (torch.randn(N, F, dtype=torch.float64) for _ in range(2))
    attr = torch.randn(E, D, dtype=torch.float64)
    index, kind = torch.randint(0, N - 2, (2, E)), torch.randint(0, R, (E,))
    if name.startswith("HGT"):
        edges = {key: torch.randint(0, N, (2, 90 - 20 * i)) for i, key in enumerate(METADATA[1])}

        def call(layer, x, y):
            device = {key: value.to(x.device) for key, value in edges.items()}
            return list(layer({"author": x, "paper": y}, device).values())

        return (x, y), call
    if name.startswith("RGAT") and "within" not in name:
        return (x, attr), lambda layer, x, attr: [layer(x, index.to(x.device), kind.to(x.device), attr)]
    if name.startswith(("RGAT", "Simple")):
        return (x,), lambda layer, x: [layer(x, index.to(x.device), kind.to(x.device))]

    def along(layer, x, attr):
        made = layer(x, index.to(x.device), attr)
        return list(made) if isinstance(made, tuple) else [made]

    return (x, attr), along


def outcome(layer, name, device, dtype, backend):
    leaves, call = inputs(name)
    layer = deepcopy(layer).to(device, dtype)
    layer.backend = backend
    leaves = [leaf.to(device, dtype).requires_grad_() for leaf in leaves]
    out = call(layer, *leaves)
    loss = sum(
        (part * torch.linspace(-1, 1, part.numel(), device=device, dtype=dtype).view_as(part)).sum() for part in out
    )
    parameters = list(layer.parameters())
    grads = torch.autograd.grad(loss, [*leaves, *parameters], allow_unused=True)
    grads = [torch.zeros(1) if grad is None else grad for grad in grads]
    return [*(part.detach() for part in out), *grads]


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_on_the_device_gives_the_references_numbers_and_gradients(name):
    torch.manual_seed(1)
    layer = LAYERS[name]()
    truth = outcome(layer, name, "cpu", torch.float64, "reference")
    ours = outcome(layer, name, DEVICE, torch.float32, "triton-edges")
    for mine, true in zip(ours, truth, strict=True):
        scale = 1 + float(true.abs().max()) if true.numel() else 1.0
        torch.testing.assert_close(mine.cpu().double(), true.double(), rtol=0, atol=2e-5 * scale)
