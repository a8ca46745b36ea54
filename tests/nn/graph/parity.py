"""Our layer and torch_geometric's with the same parameters: the same values and the same gradients."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

GRAPHS = {
    "directed": torch.tensor([[2, 0, 1, 4, 2, 3, 0, 5, 1], [0, 1, 4, 1, 3, 1, 3, 4, 0]]),
    "with loops": torch.tensor([[2, 0, 1, 4, 2, 3, 0, 4, 1], [0, 1, 1, 1, 3, 3, 3, 4, 1]]),
    "isolated nodes": torch.tensor([[0, 1, 2], [1, 0, 0]]),
    "repeated edges": torch.tensor([[0, 0, 1, 1, 1, 5], [2, 2, 2, 3, 3, 5]]),
    "empty": torch.zeros(2, 0, dtype=torch.long),
}
NODES = 6
BIPARTITE = torch.tensor([[0, 1, 6, 2, 2, 5, 3], [0, 0, 1, 2, 3, 3, 1]])  # 7 sources, 4 targets


def features(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=torch.float64)


def tensors_in(value: Any) -> list[Tensor]:
    """Every floating-point tensor of an output: tensors, tuples, dictionaries."""
    if isinstance(value, Tensor):
        return [value.to_dense() if value.layout != torch.strided else value] if value.is_floating_point() else []
    if isinstance(value, dict):
        return [t for key in sorted(value, key=str) for t in tensors_in(value[key])]
    return [t for part in value for t in tensors_in(part)] if isinstance(value, (tuple, list)) else []


def assert_same(ours: nn.Module, theirs: nn.Module, call: Callable[..., Any], leaves: Iterable[Tensor]) -> None:
    """call(layer, *leaves) in fp64 to 1e-10 and in fp32 to 1e-5, and every gradient; parameters go over by name."""
    ours.load_state_dict(theirs.state_dict())
    assert list(ours.state_dict()) == list(theirs.state_dict()) or set(ours.state_dict()) == set(theirs.state_dict())
    for dtype, bound in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        found = [_run(layer.to(dtype), call, [x.to(dtype) for x in leaves]) for layer in (ours, theirs)]
        for name in found[1]:
            assert name in found[0], name
            a, b = found[0][name], found[1][name]
            assert a.shape == b.shape and a.dtype == b.dtype, (name, a.shape, b.shape, a.dtype, b.dtype)
            scale = max(1.0, float(b.abs().max())) if b.numel() else 1.0
            error = float((a - b).abs().max()) if b.numel() else 0.0
            assert error <= bound * scale, f"{name} in {dtype}: {error:.2e} of {scale:.2e}"


def _run(layer: nn.Module, call: Callable[..., Any], leaves: list[Tensor]) -> dict[str, Tensor]:
    layer.zero_grad()
    leaves = [x.clone().requires_grad_() for x in leaves]
    outputs = tensors_in(call(layer, *leaves))
    found = {f"out {i}": x.detach() for i, x in enumerate(outputs)}
    total = sum((x * torch.linspace(-1, 1, x.numel(), dtype=x.dtype).view_as(x)).sum() for x in outputs)
    if isinstance(total, Tensor) and total.requires_grad:
        total.backward()
    for name, parameter in layer.named_parameters():
        found[name] = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    for i, x in enumerate(leaves):
        found[f"leaf {i}"] = torch.zeros_like(x) if x.grad is None else x.grad
    return found
