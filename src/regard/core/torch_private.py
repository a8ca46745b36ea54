"""All uses of private parts of torch: no other file of the package has any (tests/test_house.py).

Public enough elsewhere: TorchDispatchMode, and attributes of tensors and modules (_version, _parameters).
Tested with torch 2.11 and 2.13. Which function uses which, and why there is no public API:

    interpreter_stack        transforms of torch.func stand above autograd; torch says nowhere else whether one runs
    is_transformed           whether a tensor is one of theirs, which has no memory that a kernel could read
    unobserved               dispatch modes, the profiler and subclasses see calls that pass the dispatcher alone
    forward_ad               whether forward-mode derivatives are taken at all, asked at each call
    below_autograd           what torch.library.custom_op enters around an operator's function
    apply_function           Function.apply without its search for transforms
    without_modes            to read a value while a dispatch mode is on
    script_method            what calls the forward of a module in TorchScript
    custom_operators         what torch.library.custom_op made, by name, with the Python that each runs
    tracing                  export, jit.trace and make_fx each have a state of their own
    dispatches_itself        the mark of classes of tensors that override nothing
    FakeTensor, OPERATORS    types of torch's own that stand in for tensors and operators
    compilations_up_to       how often one function may be compiled, for functions that take others
    aoti_compile, aoti_load  packages of AOTInductor, which torch documents under a private name
    encoder_layer, ...       operators of torch's own modules that a recording reads
    push_mode, pop_mode, ... the stack of torch function modes, from which a mode may take itself for a while
    SPARE_KEY, ...           a dispatch key that torch leaves unused, under which operators can be seen one by one
    reparametrized           a module with other tensors while a block runs; functional_call runs its forward alone
    register_*               pytrees of our results with a serialized name; torch.export gives one to dataclasses alone
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad
from torch.utils._python_dispatch import _disable_current_modes as without_modes
from torch.utils._pytree import _register_namedtuple as register_namedtuple
from torch.utils._pytree import register_dataclass, register_pytree_node, tree_leaves, tree_map

from . import fast_path

PLAIN = {torch.Tensor, torch.nn.Parameter}  # types of tensors without __torch_dispatch__ or __torch_function__
FakeTensor = torch._subclasses.FakeTensor
OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
interpreter_stack = torch._C._functorch.peek_interpreter_stack
is_transformed = torch._C._functorch.is_functorch_wrapped_tensor
unwrapped = torch._C._functorch.get_unwrapped
below_autograd = torch._C._AutoDispatchBelowAutograd
disabled_torch_function = torch._C._disabled_torch_function_impl
encoder_layer = torch._transformer_encoder_layer_fwd
reparametrized = torch.nn.utils.stateless._reparametrize_module
native_multi_head_attention = torch._native_multi_head_attention
script_method = torch._C.ScriptMethod
custom_operators = torch._library.custom_ops.OPDEFS
library_definitions = torch.library._defs
push_mode = torch._C._push_on_torch_function_stack
pop_mode = torch._C._pop_torch_function_stack
modes = torch._C._len_torch_function_stack
mode_at = torch._C._get_function_stack_at
SPARE_KEY = "TESTING_ONLY_GenericMode"
_spare_key = torch._C._dispatch_key_parse(SPARE_KEY)
_spare_keys = torch._C.DispatchKeySet(_spare_key)


def any_transformed(tensors: Iterable[Tensor]) -> bool:
    """Whether a transform of torch.func holds one of these, or a tangent is beside one, in eager mode."""
    if torch.compiler.is_compiling():
        return False
    return any(is_transformed(x) or _has_tangent(x) for x in tensors)


def any_tangent(tensors: Iterable[Tensor]) -> bool:
    """Whether a forward-mode derivative is asked for, of one of these: by torch.func.jvp or by forward_ad."""
    if torch.compiler.is_compiling() or forward_ad._current_level < 0:
        return False
    return any(is_transformed(x) or _has_tangent(x) for x in tensors)


def compilations_up_to(count: int) -> Any:
    """A block in which one function may be compiled so often. It imports torch._dynamo, which takes seconds."""
    return torch._dynamo.config.patch(recompile_limit=count)


def _has_tangent(x: Tensor) -> bool:
    return forward_ad._current_level >= 0 and forward_ad.unpack_dual(x).tangent is not None


def unobserved(tensors: Iterable[Tensor]) -> bool:
    """Whether no dispatch mode, profiler or tensor subclass would see an operator called on these."""
    observed = torch._C._len_torch_dispatch_stack() or torch._C._autograd._profiler_enabled()
    observed = observed or forward_ad._current_level >= 0  # tensors may have a tangent
    return not observed and PLAIN.issuperset(map(type, tensors))


def tracing() -> bool:
    """Whether torch writes what runs now into a graph: torch.export, torch.jit.trace, make_fx, torch.compile."""
    proxy = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.PROXY)
    return proxy is not None or torch._C._get_tracing_state() is not None or torch.compiler.is_compiling()


def dispatches_itself(kind: type[Tensor]) -> bool:
    """Whether a class of tensors has a __torch_dispatch__ of its own: DTensor, tensors of torchao, ..."""
    return kind.__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl


def use_spare_key(on: bool) -> None:
    """Whether this thread's operators are dispatched by the spare key first."""
    torch._C._dispatch_tls_set_dispatch_key_included(_spare_key, on)


def below_spare_key() -> Any:
    """A block in which they are not."""
    return torch._C._ExcludeDispatchKeyGuard(_spare_keys)


def operator_names() -> list[str]:
    """Of all that the dispatcher has: aten::softmax.int, ..."""
    return list(torch._C._dispatch_get_all_op_names())


def flex_operator() -> Any:
    """The operator behind flex_attention; imported on demand, because it imports the compiler."""
    from torch._higher_order_ops.flex_attention import flex_attention

    return flex_attention


def aoti_compile(exported: torch.export.ExportedProgram, path: str) -> str:
    """The package (.pt2) of an exported program, compiled ahead of time; imports the compiler."""
    from torch._inductor import aoti_compile_and_package

    return str(aoti_compile_and_package(exported, package_path=path))


def aoti_load(path: str) -> Any:
    """Loads a package of aoti_compile."""
    from torch._inductor import aoti_load_package

    return aoti_load_package(path)


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
    "SPARE_KEY",
    "FakeTensor",
    "any_tangent",
    "any_transformed",
    "aoti_compile",
    "aoti_load",
    "apply_function",
    "below_autograd",
    "below_spare_key",
    "compilations_up_to",
    "custom_operators",
    "disabled_torch_function",
    "dispatches_itself",
    "encoder_layer",
    "flex_operator",
    "interpreter_stack",
    "is_transformed",
    "library_definitions",
    "mode_at",
    "modes",
    "native_multi_head_attention",
    "operator_names",
    "pop_mode",
    "push_mode",
    "register_dataclass",
    "register_namedtuple",
    "register_pytree_node",
    "reparametrized",
    "script_method",
    "tracing",
    "tree_leaves",
    "tree_map",
    "unobserved",
    "unwrapped",
    "use_spare_key",
    "without_modes",
]
