"""Private parts of torch, all of them: no other file of the package uses any (tests/test_house.py).

Public enough elsewhere: TorchDispatchMode, and attributes of tensors and modules (_version, _parameters).
Tested with torch 2.11 and 2.13. What needs which, and why there is no public way:

    interpreter_stack        transforms of torch.func stand above autograd; torch says nowhere else whether one runs
    is_transformed           whether a tensor is one of theirs, which has no memory that a kernel could read
    unobserved               dispatch modes, the profiler and subclasses see calls that pass the dispatcher alone
    below_autograd           what torch.library.custom_op enters around an operator's function
    apply_function           Function.apply without its search for transforms
    without_modes            to read a value while a dispatch mode is on
    FakeTensor, OPERATORS    types of torch's own that stand in for tensors and operators
    encoder_layer, ...       operators of torch's own modules that a recording reads
    reparametrized           a module with other tensors while a block runs; functional_call runs its forward alone
    register_*               pytrees of our results with a serialized name; torch.export gives one to dataclasses alone
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.utils._python_dispatch import _disable_current_modes as without_modes
from torch.utils._pytree import _register_namedtuple as register_namedtuple
from torch.utils._pytree import register_dataclass, register_pytree_node, tree_leaves, tree_map

from . import fast_path

PLAIN = {torch.Tensor, torch.nn.Parameter}  # types of tensors without __torch_dispatch__ or __torch_function__
FakeTensor = torch._subclasses.FakeTensor
OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
interpreter_stack = torch._C._functorch.peek_interpreter_stack
is_transformed = torch._C._functorch.is_functorch_wrapped_tensor
below_autograd = torch._C._AutoDispatchBelowAutograd
disabled_torch_function = torch._C._disabled_torch_function_impl
encoder_layer = torch._transformer_encoder_layer_fwd
reparametrized = torch.nn.utils.stateless._reparametrize_module
native_multi_head_attention = torch._native_multi_head_attention


def any_transformed(tensors: Iterable[Tensor]) -> bool:
    """Whether a transform of torch.func holds one of these, in eager mode."""
    return not torch.compiler.is_compiling() and any(map(is_transformed, tensors))


def unobserved(tensors: Iterable[Tensor]) -> bool:
    """Whether no dispatch mode, profiler or tensor subclass would see an operator called on these."""
    observed = torch._C._len_torch_dispatch_stack() or torch._C._autograd._profiler_enabled()
    return not observed and PLAIN.issuperset(map(type, tensors))


def flex_operator() -> Any:
    """What flex_attention calls in the end; imported when asked for, because it brings the compiler along."""
    from torch._higher_order_ops.flex_attention import flex_attention

    return flex_attention


def apply_function(function: type[Function], *arguments: Any) -> Any:
    """function.apply(*arguments).

    apply searches every argument for transforms and inspects the signature of a forward without a context: some fifty
    microseconds, longer than a small problem takes. Outside transforms and tracing there is nothing to find.
    """
    if not fast_path.enabled or interpreter_stack() is not None or torch.compiler.is_compiling():
        return function.apply(*arguments)
    return super(Function, function).apply(*arguments)  # type: ignore[misc]


__all__ = [
    "OPERATORS",
    "PLAIN",
    "FakeTensor",
    "any_transformed",
    "apply_function",
    "below_autograd",
    "disabled_torch_function",
    "encoder_layer",
    "flex_operator",
    "interpreter_stack",
    "is_transformed",
    "native_multi_head_attention",
    "register_dataclass",
    "register_namedtuple",
    "register_pytree_node",
    "reparametrized",
    "tree_leaves",
    "tree_map",
    "unobserved",
    "without_modes",
]
