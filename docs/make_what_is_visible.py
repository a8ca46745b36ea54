"""The example of docs/recording/what_is_visible.md: python docs/make_what_is_visible.py"""

import warnings

import torch
from torch import nn

import regard


class Block(nn.Module):
    """Attention, a router of experts, and attention that adds up key by key."""

    def __init__(self, d: int = 16):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d, d) for _ in range(3))
        self.router = nn.Linear(d, 3)
        self.experts = nn.ModuleList(nn.Linear(d, d) for _ in range(3))

    def forward(self, x):
        e = (self.q(x) @ self.k(x).mT / 4).exp()
        x = x + (e @ self.v(x)) / e.sum(-1, keepdim=True)
        gate = self.router(x).softmax(-1)
        x = x + (gate[..., None] * torch.stack([expert(x) for expert in self.experts], -2)).sum(-2)
        w = (x @ x.mT).softmax(-1)
        return sum(w[..., j, None] * x[:, j, None] for j in range(x.shape[1]))


torch.manual_seed(0)
model = Block()
with torch.no_grad(), regard.record(model) as rec:
    model(torch.randn(1, 4, 16))
print(f"{len(rec.maps)} map:  ", *rec.maps)
for name in ("missed", "other"):
    for entry, count in getattr(rec, name).items():
        print(f"rec.{name}: {entry}, {count} times")
entry = next(iter(rec.missed))
print((entry.site, entry.operator, entry.file, entry.line))

mlp = nn.Sequential(nn.Linear(4, 4), nn.GELU())
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as said, regard.record(mlp):
    mlp(torch.randn(2, 4))
print("warning:", said[0].message)
