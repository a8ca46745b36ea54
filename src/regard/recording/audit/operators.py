"""Operators of the dispatcher, by what they do to weights."""

NORMALISE = frozenset({"_softmax", "_safe_softmax", "_sparse_softmax", "softmax", "_masked_softmax"})
LOG_NORMALISE = frozenset({"_log_softmax", "log_softmax", "_sparse_log_softmax", "logsumexp"})
EXPONENTIAL = frozenset({"exp", "exp2", "exp_", "exp2_", "pow"})
POSITIVE = EXPONENTIAL | {"sigmoid", "sigmoid_", "relu", "relu_", "softplus", "elu", "clamp_min", "clamp_min_", "clamp"}
GATES = frozenset({"sigmoid", "sigmoid_", "relu", "relu_", "clamp_min", "clamp_min_", "clamp", "threshold"})
BENDS = frozenset(
    {"pow", "acos", "asin", "tanh", "tanh_", "square", "abs", "silu", "gelu", "erf", "cos", "sin", "softplus", "sqrt"}
)
CONTRACTIONS = {  # where the two factors stand
    "mm": (0, 1),
    "bmm": (0, 1),
    "mv": (0, 1),
    "dot": (0, 1),
    "vdot": (0, 1),
    "matmul": (0, 1),
    "linear": (0, 1),
    "addmm": (1, 2),
    "addmm_": (1, 2),
    "baddbmm": (1, 2),
    "baddbmm_": (1, 2),
    "addbmm": (1, 2),
    "addbmm_": (1, 2),
    "addmv": (1, 2),
    "addmv_": (1, 2),
    "convolution": (0, 1),
    "_sparse_mm": (0, 1),
    "_sparse_addmm": (1, 2),
    "mkldnn_linear": (0, 1),
    "linalg_vecdot": (0, 1),
    "_cdist_forward": (0, 1),
    "_euclidean_dist": (0, 1),
}
DISTANCES = frozenset({"_cdist_forward", "_euclidean_dist"})
MULTIPLICATIONS = frozenset({"mul", "mul_", "multiply"})
DIVISIONS = frozenset({"div", "div_", "true_divide"})
ADDITIONS = frozenset({"add", "add_", "sub", "sub_", "rsub", "addcmul", "addcmul_", "addcdiv", "addcdiv_", "lerp"})
SUMS = frozenset({"sum", "mean", "cumsum", "cumsum_", "nansum"})
NORMS = frozenset({"linalg_vector_norm", "norm"})
SCATTERS = frozenset(
    {
        "scatter_add",
        "scatter_add_",
        "index_add",
        "index_add_",
        "scatter_reduce",
        "scatter_reduce_",
        "index_put_",
        "index_put",
        "_index_put_impl_",
        "segment_reduce",
        "index_reduce",
        "index_reduce_",
    }
)
RENORMALISE = frozenset({"native_layer_norm", "native_group_norm", "_fused_rms_norm", "rms_norm"})
CUTS = frozenset({"topk", "gather", "sort", "index", "index_select"})
COPIES = frozenset(
    {
        "clone",
        "_to_copy",
        "copy_",
        "contiguous",
        "expand_copy",
        "constant_pad_nd",
        "repeat",
        "cat",
        "stack",
        "index",
        "index_select",
        "gather",
        "permute_copy",
        "view_copy",
        "_reshape_copy",
        "lift_fresh_copy",
        "_unsafe_view",
    }
)
FILLS = frozenset(
    {
        "zeros_like",
        "ones_like",
        "full_like",
        "empty_like",
        "new_zeros",
        "new_ones",
        "new_full",
        "new_empty",
        "rand_like",
        "randn_like",
        "zero_",
        "fill_",
        "new_empty_strided",
        "lift_fresh",
        "lift",
    }
)
OVERWRITES = frozenset({"copy_", "zero_", "fill_", "normal_", "uniform_", "random_"})


def fuses_attention(name: str) -> bool:
    """Operators that hold the softmax and the product: by their names, as there are many."""
    if "backward" in name:
        return False
    words = (
        "dot_product",
        "flash_attention",
        "efficient_attention",
        "cudnn_attention",
        "encoder_layer_fwd",
        "mha_fwd",
        "flex_attention",
    )
    return any(word in name for word in words) or name in ("_native_multi_head_attention", "flash_attn_fwd", "fmha")
