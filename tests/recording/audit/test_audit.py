"""The audit sees every spelling of attention, says what it is, and changes nothing."""

import warnings

import pytest
import torch
from tests.recording.spellings import adversaries, published_forms
from tests.recording.spellings.outcome import outcome
from tests.recording.test_spellings import ALL
from torch import nn

from regard import record
from regard.recording.audit.audit import Audit

UNSEEN_BELOW = adversaries.UNSEEN_BELOW | published_forms.UNSEEN_BELOW
KINDS = {"exact": "attention", "missed": "attention", "other": "other", "nothing": "nothing"}


@pytest.mark.parametrize("spelling", [s for s in ALL if s.name not in UNSEEN_BELOW], ids=lambda spelling: spelling.name)
def test_the_audit_alone_knows_attention_from_the_rest(spelling):
    model, x = spelling.build()
    with torch.set_grad_enabled(spelling.grad), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(1)
        bare = model(x)
        torch.manual_seed(1)
        with torch.compiler.set_stance("force_eager"), Audit(model) as audit:
            out = model(x)
    assert torch.equal(bare, out)
    assert not audit.failures
    found = "attention" if any(event.attention for event in audit.events) else "other" if audit.events else "nothing"
    assert found == KINDS[spelling.expected], [str(event.entry()) for event in audit.events]


@pytest.mark.parametrize("spelling", ALL, ids=lambda spelling: spelling.name)
def test_an_audited_record_is_never_silent(spelling):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = outcome(spelling, audit=True)
    assert found.kind not in ("output", "raised", "wrong", "incomplete"), found
    assert found.kind != "nothing" or spelling.expected == "nothing", found


class Cut(nn.Module):
    """Weights go through NumPy on the way, where nobody in Python can follow."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        weights = torch.softmax(q @ k.mT, -1)
        return torch.linalg.solve(torch.eye(5), weights) @ v


def test_an_entry_names_the_line_of_the_product_and_of_the_softmax():
    q, k, v = (torch.randn(2, 3, 5, 4) for _ in range(3))
    with record(Cut(), audit=True) as rec:
        pass
    assert rec.audit.events == []
    model = Cut()
    with record(model, audit=True) as rec:
        model(q, k, v)
    assert not rec.audit.failures
    (event,) = [event for event in rec.audit.events if not event.captured]
    assert event.attention and event.site == "Cut" and event.operator == "bmm"
    (entry,) = [entry for entry in rec.missed if event.is_in(entry)]
    assert "test_audit.py" in entry


def test_what_a_map_is_made_of_is_not_missed():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True), 2).eval()
    x = torch.randn(2, 6, 16)
    with torch.no_grad():
        bare = model(x)
        with record(model, audit=True, keep="weights") as rec:
            out = model(x)
    assert torch.equal(bare, out) and len(rec.maps) == 2 and not rec.missed and not rec.other
    assert all(event.captured for event in rec.audit.events) and rec.audit.events


def test_without_the_word_there_is_no_audit():
    with record(nn.Linear(2, 2)) as rec:
        pass
    assert rec.audit is None


class Plain(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.softmax(q @ k.mT, -1) @ v


def test_a_training_step_under_the_audit_has_the_same_gradients():
    given = [torch.randn(2, 3, 5, 4, requires_grad=True) for _ in range(3)]
    expected = torch.autograd.grad(Plain()(*given).square().sum(), given)
    model = Plain()
    with record(model, audit=True) as rec:
        found = torch.autograd.grad(model(*given).square().sum(), given)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert not rec.missed and not rec.audit.failures


@pytest.mark.parametrize("transform", ["meta", "vmap", "grad", "complex"])
def test_the_run_goes_on_where_tensors_are_not_plain(transform):
    model = Plain()
    q, k, v = (torch.randn(2, 3, 5, 4, device="meta" if transform == "meta" else "cpu") for _ in range(3))
    with warnings.catch_warnings(), record(model, audit=True):
        warnings.simplefilter("ignore")
        if transform == "vmap":
            out = torch.vmap(model)(q, k, v)
        elif transform == "grad":
            out = torch.func.grad(lambda x: model(x, k, v).sum())(q)
        elif transform == "complex":
            out = model(q, k, v) + torch.fft.fft(v).real
        else:
            out = model(q, k, v)
    assert out.shape == (2, 3, 5, 4)


def test_a_linear_layer_by_keyword_is_no_attention():
    model = Keyword()
    with warnings.catch_warnings(), record(model, audit=True) as rec:
        warnings.simplefilter("ignore")
        model(torch.randn(2, 4))
    assert not rec.maps and not rec.missed and not rec.other


class Keyword(nn.Linear):
    def __init__(self) -> None:
        super().__init__(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, weight=self.weight, bias=self.bias)
