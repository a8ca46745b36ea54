"""Where axes go: what is said of a function is what it does to the elements."""

import pytest
import torch
from torch import Tensor

from regard.recording.capture.tracing.axis_flow import flows, followed
from regard.recording.capture.tracing.function_names import torch_name

CALLS = {
    "transpose": (torch.transpose, (1, 3)),
    "permute": (torch.permute, ((0, 2, 3, 1),)),
    "movedim": (torch.movedim, (1, -1)),
    "mT": (Tensor.mT.__get__, ()),
    "view, merged": (Tensor.view, (6, 4, 5)),
    "view, split": (Tensor.view, (2, 3, 2, 2, 5)),
    "view, an axis of one": (Tensor.view, (2, 3, 1, 4, 5)),
    "reshape, all": (torch.reshape, ((-1,),)),
    "flatten": (torch.flatten, (0, 1)),
    "unflatten": (Tensor.unflatten, (-2, (2, 2))),
    "unsqueeze, last": (torch.unsqueeze, (-1,)),
    "unsqueeze, first": (torch.unsqueeze, (0,)),
    "select": (Tensor.select, (1, 2)),  # torch_geometric puts a function of its own in torch.select
    "narrow": (torch.narrow, (3, 1, 3)),
    "narrow to one": (torch.narrow, (3, 1, 1)),
    "chunk": (torch.chunk, (2, 2)),
    "unbind": (torch.unbind, (1,)),
    "x[:, 0]": (Tensor.__getitem__, ((slice(None), 0),)),
    "x[..., None, 1:]": (Tensor.__getitem__, ((..., None, slice(1, None)),)),
    "x[..., [0, 2]]": (Tensor.__getitem__, ((..., [0, 2]),)),
    "x[:, index]": (Tensor.__getitem__, ((slice(None), torch.tensor([2, 0])),)),
    "expand": (Tensor.expand, (7, 2, 3, 4, 5)),
    "flip": (torch.flip, ((-1,),)),
    "roll": (torch.roll, (1, -1)),
    "mean": (torch.mean, (1,)),
    "sum, kept": (torch.sum, (1, True)),
    "repeat_interleave": (torch.repeat_interleave, (2, 1)),
    "aten.permute": (torch.ops.aten.permute.default, ([0, 2, 3, 1],)),
}


def drawn(func, args, x: Tensor) -> list[list[set[int]]]:
    """For each axis of each output, the axes of x whose coordinate changes along it, from where x has a pulse."""
    outs = func(x, *args)
    made = []
    for at, _ in enumerate(outs if isinstance(outs, (tuple, list)) else [outs]):
        found: list[set[int]] = []
        for axis in range(x.ndim):
            coordinate = torch.arange(x.shape[axis]).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
            out = func(coordinate.expand(x.shape).clone().double(), *args)
            y = out[at] if isinstance(out, (tuple, list)) else out
            found = found or [set() for _ in range(y.ndim)]
            for i in range(y.ndim):
                if y.shape[i] > 1 and not torch.equal(y, y.narrow(i, 0, 1).expand_as(y)):
                    found[i].add(axis)
        made.append(found)
    return made


@pytest.mark.parametrize("name", CALLS)
def test_an_axis_is_made_of_those_whose_coordinates_change_along_it(name):
    func, args = CALLS[name]
    x = torch.randn(2, 3, 4, 5)
    out = func(x, *args)
    said = flows(torch_name(func), func, (x, *args), {}, (0,), x, out)
    assert said is not None
    outs = out if isinstance(out, (tuple, list)) else [out]
    for flow, y, truth in zip(said, outs, drawn(func, args, x), strict=True):
        assert [{*part} if size > 1 else set() for part, size in zip(flow, y.shape, strict=True)] == truth


@pytest.mark.parametrize(
    ("func", "args", "where"),
    [
        (Tensor.view, (2, 3, 20), None),  # merged with another axis
        (Tensor.view, (6, 4, 5), 2),
        (torch.transpose, (1, 3), 1),
        (Tensor.__getitem__, ((..., 0),), None),
        (torch.unsqueeze, (-1,), 3),
        (torch.flatten, (), None),
    ],
)
def test_the_keys_are_followed_until_they_are_merged_or_gone(func, args, where):
    x = torch.randn(2, 3, 4, 5)
    y = func(x, *args)
    (flow,) = flows(torch_name(func), func, (x, *args), {}, (0,), x, y)
    assert followed(flow, 3, x, y) == where


@pytest.mark.parametrize("shape", [(2, 1, 4, 1), (1, 1, 1, 1), (2, 3, 1, 1)])
def test_an_axis_of_one_key_is_not_lost(shape):
    """The first token of a text that is generated has one key."""
    x = torch.randn(shape)
    for func, args, where in (
        (torch.transpose, (1, 3), 1),
        (torch.permute, ((0, 2, 3, 1),), 2),
        (Tensor.view, (shape[0] * shape[1], *shape[2:]), 2),
        (Tensor.reshape, shape, 3),
        (torch.unsqueeze, (1,), 4),
    ):
        y = func(x, *args)
        (flow,) = flows(torch_name(func), func, (x, *args), {}, (0,), x, y)
        assert followed(flow, 3, x, y) == where, (func, flow)


@pytest.mark.parametrize(
    ("func", "name"),
    [
        (torch.mul, "mul"),
        (Tensor.mul_, "mul"),
        (Tensor.__imul__, "mul"),
        (Tensor.__rmul__, "mul"),
        (torch.ops.aten.mul.Tensor, "mul"),
        (torch.special.softmax, "softmax"),
        (torch.ops.aten._softmax, "softmax"),
        (torch._safe_softmax, "softmax"),
        (Tensor.mT.__get__, "mT"),
        (torch.linalg.matmul, "matmul"),
        (pytest.approx, ""),
    ],
)
def test_one_name_for_all_spellings_of_a_function(func, name):
    assert torch_name(func) == name
