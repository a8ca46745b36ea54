"""Functions of torch by what they do to weights, by name."""


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


ELEMENTWISE = names(
    """
    add sub mul div neg abs pow square sqrt rsqrt reciprocal exp exp2 expm1 log log2 log1p log10 sigmoid tanh relu gelu
    silu elu leaky_relu softplus hardtanh hardsigmoid relu6 selu mish threshold clamp clamp_min clamp_max where
    masked_fill nan_to_num lerp addcmul addcdiv maximum minimum fmax fmin floor ceil round trunc frac fmod remainder
    sign to type float half bfloat16 double type_as contiguous clone detach alias data real dropout alpha_dropout
    zero fill bernoulli rsub rdiv rtruediv rpow floor_divide floordiv xlogy sin cos tan acos asin atan sinh cosh erf
    cpu cuda pin_memory conj resolve_conj resolve_neg positive logit masked_scatter expand expand_as broadcast_to
    triu tril requires_grad log_sigmoid logsigmoid hardswish celu prelu rrelu softsign softshrink hardshrink
    tanhshrink ldexp
    """
)
SAME_AXES = names(
    """
    flip fliplr flipud index_select gather scatter scatter_add scatter_reduce index_fill index_copy index_add index_put
    cat pad constant_pad_nd take_along_dim topk sort softmax log_softmax softmin normalize layer_norm batch_norm
    group_norm instance_norm rms_norm feature_dropout dropout1d dropout2d dropout3d feature_alpha_dropout cumsum renorm
    native_layer_norm gumbel_softmax narrow_copy slice_scatter select_scatter
    """
)
VIEWS = names(
    """
    view reshape flatten unflatten transpose t permute movedim squeeze unsqueeze select narrow view_as reshape_as ravel
    T mT H mH adjoint split chunk unbind tensor_split hsplit vsplit dsplit slice diagonal split_with_sizes
    atleast_1d atleast_2d atleast_3d _reshape_alias unsafe_split_with_sizes
    """
)
CUTS = names("split chunk unbind tensor_split hsplit vsplit dsplit split_with_sizes unsafe_split_with_sizes")
REDUCTIONS = names("sum mean amax amin max min logsumexp prod norm var std nansum nanmean any all median")
SUMS = names("sum nansum norm")
RUNNING_SUMS = names("cumsum logcumsumexp")
GROUPED_SUMS = names("index_add scatter_add scatter_reduce segment_reduce index_reduce")
DROPOUT = names("dropout feature_dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout")
CASTS = names("to type type_as float half bfloat16 double contiguous clone detach alias")
CONVOLUTIONS = names("conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d")
BENDS = names(  # no line
    """
    pow square acos asin atan cos sin tan sinh cosh tanh erf softplus elu celu selu gelu silu mish leaky_relu prelu
    rrelu hardswish hardtanh softsign softshrink hardshrink tanhshrink log_sigmoid logsigmoid abs log log1p log2 sqrt
    rsqrt reciprocal threshold maximum fmax where normalize layer_norm
    """
)
# Their memory leaves torch's sight, and may come back under another tensor.
LEAVES = names("numpy array dlpack untyped_storage storage data_ptr")
# What is made of weights here is no weights: indices, samples, losses.
ENDS = names(
    """
    argmax argmin multinomial histc cross_entropy nll_loss kl_div mse_loss l1_loss smooth_l1_loss huber_loss ctc_loss
    binary_cross_entropy binary_cross_entropy_with_logits allclose equal isclose item tolist numpy backward one_hot
    register_hook bincount searchsorted bucketize
    """
)
