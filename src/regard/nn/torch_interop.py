"""Loading the weights of a torch.nn.MultiheadAttention."""

from typing import Any

from torch import nn


def check_torch(mha: Any) -> None:
    """Refuses options without a counterpart here; the error says what to do instead."""
    if not isinstance(mha, nn.MultiheadAttention):
        raise TypeError(f"from_torch() got {type(mha).__name__}, expected an nn.MultiheadAttention.")
    if mha.bias_k is not None or mha.bias_v is not None:
        raise ValueError(
            "from_torch() refuses add_bias_kv=True: it adds one learned key and value to every sequence. "
            "Append that row to key and value yourself."
        )
    if mha.add_zero_attn:
        raise ValueError(
            "from_torch() refuses add_zero_attn=True: its zero key is a sink, "
            "Attention(..., score=ScaledDot() | Sink(heads)) with logits 0."
        )


def from_torch_names(
    module: nn.Module,
    state: dict[str, Any],
    prefix: str,
    metadata: Any,
    strict: bool,
    missing: list[str],
    unexpected: list[str],
    errors: list[str],
) -> None:
    """load_state_dict hook: splits in_proj_weight (3 dim, dim) and its bias into q_proj, k_proj and v_proj."""
    for kind in ("weight", "bias"):
        whole = state.pop(f"{prefix}in_proj_{kind}", None)
        if whole is not None:
            for name, part in zip("qkv", whole.chunk(3), strict=True):
                state[f"{prefix}{name}_proj.{kind}"] = part
    for name in "qkv":
        apart = state.pop(f"{prefix}{name}_proj_weight", None)
        if apart is not None:
            state[f"{prefix}{name}_proj.weight"] = apart
    if f"{prefix}bias_k" in state:
        errors.append(
            "bias_k and bias_v come from add_bias_kv=True, which Attention does not have: append that row to "
            "key and value yourself."
        )
