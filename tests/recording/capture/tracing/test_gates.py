"""Gates of products of two activations are no attention: location-variable convolutions, as in UnivNet."""

import torch
from torch import nn

from regard import record


class LocationVariable(nn.Module):
    """Two layers whose kernels are predicted from a condition, each followed by WaveNet's gate."""

    def __init__(self, gated=True):
        super().__init__()
        self.gated = gated
        self.before, self.kernels = nn.Conv1d(4, 4, 3, padding=1), nn.Linear(4, 4 * 8 * 3)

    def forward(self, x, condition):
        kernel = self.kernels(condition).unflatten(-1, (4, 8, 3))
        for _ in range(2):
            windows = nn.functional.pad(self.before(x), (1, 1)).unfold(2, 3, 1)
            made = torch.einsum("bilk,bliok->bol", windows, kernel)
            gate, value = made[:, :4].sigmoid(), made[:, 4:]
            x = x + gate * (value.tanh() if self.gated else value)
        return x


def test_a_gate_of_predicted_kernels_is_no_attention_and_no_alarm():
    model, given = LocationVariable(), (torch.randn(2, 4, 6), torch.randn(2, 6, 4))
    bare = model(*given)
    with record(model, audit=True) as rec:
        out = model(*given)
    assert torch.equal(bare, out) and not rec.maps and not rec.missed and not rec.other


def test_sigmoid_attention_over_bent_values_is_recorded():
    class Attention(nn.Module):
        def forward(self, x):
            return torch.sigmoid(x @ x.mT) @ (x @ x.mT).tanh()

    with record(model := Attention()) as rec:
        model(torch.randn(1, 2, 5, 4))
    assert len(rec.maps) == 1 and not rec.missed
