"""What a function is called, whichever of its spellings runs: torch.mul, x.mul_, x *= y and aten::mul are `mul`."""

from functools import lru_cache
from typing import Any

from regard.core.torch_private import OPERATORS

ALIASES = {
    "multiply": "mul",
    "divide": "div",
    "true_divide": "div",
    "truediv": "div",
    "subtract": "sub",
    "negative": "neg",
    "concat": "cat",
    "concatenate": "cat",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "moveaxis": "movedim",
    "clip": "clamp",
    "absolute": "abs",
    "rmul": "mul",
    "radd": "add",
    "_softmax": "softmax",
    "_threshold": "threshold",
    "broadcast_in_dim": "expand",
    "convert_element_type": "to",
    "_safe_softmax": "softmax",
    "sparse_softmax": "softmax",
    "_sparse_softmax": "softmax",
    "_log_softmax": "log_softmax",
    "sparse_log_softmax": "log_softmax",
    "_sparse_log_softmax": "log_softmax",
    "special_softmax": "softmax",
    "special_log_softmax": "log_softmax",
    "special_logsumexp": "logsumexp",
    "special_expit": "sigmoid",
    "special_exp2": "exp2",
    "linalg_matmul": "matmul",
    "linalg_vecdot": "vecdot",
    "linalg_multi_dot": "multi_dot",
    "linalg_vector_norm": "norm",
    "_unsafe_view": "reshape",
    "unsafe_split": "split",
    "unsafe_chunk": "chunk",
    "_to_copy": "to",
    "copy": "clone",
    "sparse_mm": "mm",
    "_sparse_mm": "mm",
    "spmm": "mm",
    "dsmm": "mm",
    "native_dropout": "dropout",
    "float_power": "pow",
}
IN_PLACE = ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul", "iand", "ior", "ixor")


@lru_cache(maxsize=4096)
def torch_name(func: Any) -> str:
    """The name without dunders, in-place underscore and namespace; "" of a function that is not torch's own."""
    if isinstance(func, OPERATORS):
        name = str(getattr(func, "_qualified_op_name", None) or func.name())
        space, _, name = name.partition("::")
        return _plain(name.partition(".")[0]) if space in ("aten", "prims") else ""
    holder = getattr(func, "__self__", None)
    name = str(getattr(func, "__name__", ""))
    if name in ("__get__", "__set__") and holder is not None:  # a property of Tensor: x.mT
        return f"{'set_' * (name == '__set__')}{getattr(holder, '__name__', '')}"
    module = getattr(func, "__module__", None) or getattr(getattr(func, "__objclass__", None), "__module__", None) or ""
    return _plain(name) if not module or module.split(".")[0] == "torch" else ""


def _plain(name: str) -> str:
    if name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
        name = name[1:] if name in IN_PLACE else name
    elif name.endswith("_") and not name.endswith("__"):
        name = name[:-1]
    return ALIASES.get(name, name)


def readable(func: Any) -> str:
    """For people: torch.cumsum, Tensor.cumsum, aten::cumsum."""
    if isinstance(func, OPERATORS):
        return str(getattr(func, "_qualified_op_name", None) or func.name())
    name = str(getattr(func, "__name__", type(func).__name__))
    holder = getattr(func, "__self__", None)
    if name == "__get__" and holder is not None:
        return f"Tensor.{getattr(holder, '__name__', name)}"
    owner = getattr(func, "__objclass__", None)
    if owner is not None:
        return f"Tensor.{name}"
    module = str(getattr(func, "__module__", None) or "torch")
    module = "torch" if module.startswith("torch._") else module
    return f"{module.replace('torch.nn.functional', 'F')}.{name}"
