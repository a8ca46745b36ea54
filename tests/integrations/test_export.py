"""Exported programs compute what the model computes: ONNX by its own runtimes, packages by AOTInductor."""

import pytest
import torch

import regard
from regard import ALiBi, Causal, Cosine, Mask, Padding, Refused, ScaledDot, Sink, SoftCap, Window
from regard.integrations.export import load_package, onnx_refusals, to_onnx, to_package


class Model(torch.nn.Module):
    """One attention with everything that a case asks for."""

    def __init__(self, over=None, backend="auto", **options):
        super().__init__()
        self.over, self.backend = over, backend
        self.attention = regard.nn.Attention(16, 4, **options)

    def forward(self, x):
        over = self.over(x) if callable(self.over) and not isinstance(self.over, type(Causal())) else self.over
        return self.attention(x, over=over, backend=self.backend).out


def keep(x):
    pairs = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril(2)
    return Mask(pairs)


CASES = {
    "softmax": {},
    "causal": {"over": Causal()},
    "soft cap": {"score": ScaledDot() | SoftCap(1.5)},
    "soft cap, causal": {"score": ScaledDot() | SoftCap(1.5), "over": Causal()},
    "soft cap, window and mask": {"score": ScaledDot() | SoftCap(1.5), "over": lambda x: Window(2, 1) & keep(x)},
    "grouped queries": {"kv_heads": 2, "over": Causal()},
    "ALiBi": {"score": ScaledDot() | ALiBi(4), "over": Causal()},
    "soft cap, then a bias": {"score": ScaledDot() | SoftCap(1.5) | ALiBi(4)},
    "cosine": {"score": Cosine()},
    "Gaussian": {"score": "gaussian"},
    "rotary": {"rotary": True, "over": Causal()},
    "padding": {"over": Padding(torch.tensor([6, 3]))},
}
EXACT = {"rtol": 1e-4, "atol": 1e-5}


def made(name):
    torch.manual_seed(0)
    model = Model(**CASES[name]).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(2)
    return model, torch.randn(2, 6, 16)


@pytest.mark.parametrize(
    ("name", "opset"),
    [
        pytest.param(name, opset, marks=() if (name, opset) == ("soft cap, causal", 23) else pytest.mark.integrations)
        for name in CASES
        for opset in (23, 24)
    ],
)
def test_an_onnx_program_gives_the_models_numbers_in_both_runtimes(name, opset):
    pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install 'regard[export]'")
    evaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator
    model, x = made(name)
    program = to_onnx(model, (x,), opset=opset)
    proto = program.model_proto
    assert [node.op_type for node in proto.graph.node].count("Attention") == 1
    assert {each.domain: each.version for each in proto.opset_import}[""] == opset
    feed = {proto.graph.input[0].name: x.numpy()}
    with torch.no_grad():
        expected = model(x)
    torch.testing.assert_close(torch.tensor(evaluator(proto).run(None, feed)[0]), expected, **EXACT)
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'regard[export]'")
    session = runtime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    torch.testing.assert_close(torch.tensor(session.run(None, feed)[0]), expected, **EXACT)


def test_an_onnx_file_takes_other_lengths(tmp_path):
    pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install 'regard[export]'")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'regard[export]'")
    model = Model(score=ScaledDot() | SoftCap(1.5), over=Causal() & Window(3, 0)).eval()
    to_onnx(model, (torch.randn(2, 6, 16),), tmp_path / "model.onnx", dynamic_shapes=({0: "batch", 1: "length"},))
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    for shape in ((2, 6), (3, 11)):
        x = torch.randn(*shape, 16)
        with torch.no_grad():
            expected = model(x)
        found = session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]
        torch.testing.assert_close(torch.tensor(found), expected, **EXACT)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"align": "entmax15"}, "normalises by softmax, not by Entmax"),
        ({"score": "additive"}, "scores by a dot product"),
        ({"score": ScaledDot() | Sink(4)}, "no sink"),
        ({"score": ScaledDot() | ALiBi(4) | SoftCap(2.0)}, "one soft cap, before the bias"),
    ],
)
def test_other_plans_are_refused_with_the_reason(options, message):
    q, k, v = torch.randn(3, 1, 4, 6, 4)
    score = options.get("score", "scaled_dot")
    plan = regard.plan(q, k, v, score, options.get("align", "softmax"))
    assert any(message in why for why in onnx_refusals(plan))
    pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install 'regard[export]'")
    with pytest.raises(Refused, match=message):
        to_onnx(Model(**options).eval(), (torch.randn(2, 6, 16),))


def test_what_cannot_be_exported_is_said_at_once():
    with pytest.raises(ValueError, match="opsets 23, 24"):
        to_onnx(Model().eval(), (torch.randn(2, 6, 16),), opset=17)
    with pytest.raises(ValueError, match=r"model\.eval\(\)"):
        to_onnx(Model(), (torch.randn(2, 6, 16),))
    with pytest.raises(ValueError, match=r"ends in \.pt2"):
        to_package(Model().eval(), (torch.randn(2, 6, 16),), "model.so")


@pytest.mark.integrations
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"score": ScaledDot() | SoftCap(1.5), "over": Causal()},
        {"align": "entmax15"},
        {"align": "entmax15", "backend": "reference"},
    ],
    ids=str,
)
def test_a_compiled_package_gives_the_models_numbers_at_other_lengths(options, tmp_path):
    model = Model(**options).eval()
    length = torch.export.Dim("length", min=2, max=64)
    path = to_package(model, (torch.randn(2, 6, 16),), tmp_path / "model.pt2", dynamic_shapes=({1: length},))
    run = load_package(path)
    for n in (6, 11):
        x = torch.randn(2, n, 16)
        with torch.no_grad():
            torch.testing.assert_close(run(x), model(x), **EXACT)
