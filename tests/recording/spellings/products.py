"""Weights meet values: every product that torch has for it."""

import torch
from torch.nn import functional as F

from .spelling import Given, Spellings, one_head, softmax_weights

PRODUCTS = Spellings()

PRODUCTS.add(
    "exact",
    softmax_weights,
    {
        "w @ v": lambda g: g.w @ g.v,
        "torch.matmul": lambda g: torch.matmul(g.w, g.v),
        "torch.matmul by keyword": lambda g: torch.matmul(input=g.w, other=g.v),
        "torch.matmul, the weights last by keyword": lambda g: torch.matmul(other=g.v, input=g.w),
        "tensor.matmul": lambda g: g.w.matmul(g.v),
        "tensor.matmul by keyword": lambda g: g.w.matmul(other=g.v),
        "tensor.__matmul__": lambda g: g.w.__matmul__(g.v),
        "matmul with out=": lambda g: torch.matmul(g.w, g.v, out=torch.empty(2, 3, 6, 5)),
        "linalg.matmul": lambda g: torch.linalg.matmul(g.w, g.v),
        "linalg.matmul by keyword": lambda g: torch.linalg.matmul(input=g.w, other=g.v),
        "the aten operator matmul": lambda g: torch.ops.aten.matmul(g.w, g.v),
        "turned: v^T w^T": lambda g: (g.v.mT @ g.w.mT).mT,
        "bmm": lambda g: torch.bmm(g.w3, g.v3),
        "bmm by keyword": lambda g: torch.bmm(input=g.w3, mat2=g.v3),
        "bmm with its second argument by keyword": lambda g: torch.bmm(g.w3, mat2=g.v3),
        "tensor.bmm": lambda g: g.w3.bmm(g.v3),
        "the aten operator bmm": lambda g: torch.ops.aten.bmm(g.w3, g.v3),
        "the aten overload bmm.default": lambda g: torch.ops.aten.bmm.default(g.w3, g.v3),
        "baddbmm onto a residual": lambda g: torch.baddbmm(g.q.new_ones(6, 6, 5), g.w3, g.v3),
        "baddbmm with beta=0": lambda g: torch.baddbmm(g.q.new_empty(1, 1, 1), g.w3, g.v3, beta=0),
        "baddbmm by keyword": lambda g: torch.baddbmm(input=g.q.new_ones(6, 6, 5), batch1=g.w3, batch2=g.v3),
        "tensor.baddbmm": lambda g: g.q.new_ones(6, 6, 5).baddbmm(g.w3, g.v3),
        "tensor.baddbmm_ in place": lambda g: g.q.new_ones(6, 6, 5).baddbmm_(g.w3, g.v3),
        "einsum": lambda g: torch.einsum("bhnm,bhmd->bhnd", g.w, g.v),
        "einsum with spaces": lambda g: torch.einsum("b h n m, b h m d -> b h n d", g.w, g.v),
        "einsum with an ellipsis": lambda g: torch.einsum("...nm,...md->...nd", g.w, g.v),
        "einsum, ellipsis in the weights and the output": lambda g: torch.einsum("...nm,...md->...nd", g.w, g.v[:1]),
        "einsum, values first": lambda g: torch.einsum("bhmd,bhnm->bhnd", g.v, g.w),
        "einsum, heads after tokens": lambda g: torch.einsum("bhnm,bhmd->bnhd", g.w, g.v),
        "einsum, capital letters": lambda g: torch.einsum("BHTS,BHSd->BTHd", g.w, g.v),
        "einsum, values shared by heads": lambda g: torch.einsum("bhnm,bmd->bhnd", g.w, g.v[:, 0]),
        "einsum, values shared by items": lambda g: torch.einsum("bhnm,hmd->bhnd", g.w, g.v[0]),
        "einsum, heads summed in it": lambda g: torch.einsum("bhnm,bhmd->bnd", g.w, g.v),
        "einsum, three operands": lambda g: torch.einsum("bhnm,bhmd,de->bhne", g.w, g.v, g.model.table[:5]),
        "einsum of sublists": lambda g: torch.einsum(g.w, [0, 1, 2, 3], g.v, [0, 1, 3, 4], [0, 1, 2, 4]),
        "einsum of a list of operands": lambda g: torch.einsum("bhnm,bhmd->bhnd", [g.w, g.v]),
        "product and sum": lambda g: (g.w.unsqueeze(-1) * g.v.unsqueeze(-3)).sum(-2),
        "product and sum over a counted axis": lambda g: (g.w[..., None] * g.v[:, :, None]).sum(3),
        "product and sum, axis by keyword": lambda g: (g.w[..., None] * g.v[:, :, None]).sum(axis=-2),
        "product and sum over a list of axes": lambda g: (g.w[..., None] * g.v[:, :, None]).sum([-2]),
        "product and torch.sum": lambda g: torch.sum(g.w[..., None] * g.v[:, :, None], dim=3),
        "product and sum, keepdim": lambda g: (g.w[..., None] * g.v[:, :, None]).sum(-2, keepdim=True).squeeze(-2),
        "product and sum, values first": lambda g: (g.v[:, :, None] * g.w[..., None]).sum(-2),
        "torch.mul and sum": lambda g: torch.mul(g.w[..., None], g.v[:, :, None]).sum(-2),
        "torch.multiply and sum": lambda g: torch.multiply(g.w[..., None], g.v[:, :, None]).sum(-2),
        "torch.mul by keyword and sum": lambda g: torch.mul(input=g.w[..., None], other=g.v[:, :, None]).sum(-2),
        "features before keys, product and sum": lambda g: (g.w[:, :, :, None] * g.v.mT[:, :, None]).sum(-1),
        "linalg.vecdot": lambda g: torch.linalg.vecdot(g.w[:, :, :, None], g.v.mT[:, :, None]),
    },
)

PRODUCTS.add(
    "exact",
    one_head,
    {
        "mm": lambda g: torch.mm(g.w1, g.v1),
        "mm by keyword": lambda g: torch.mm(input=g.w1, mat2=g.v1),
        "addmm": lambda g: torch.addmm(g.q.new_ones(6, 5), g.w1, g.v1),
        "addmm by keyword": lambda g: torch.addmm(input=g.q.new_ones(6, 5), mat1=g.w1, mat2=g.v1),
        "tensor.addmm_": lambda g: g.q.new_ones(6, 5).addmm_(g.w1, g.v1),
        "F.linear with values for a weight": lambda g: F.linear(g.w1, g.v1.t()),
        "F.linear by keyword": lambda g: F.linear(input=g.w1, weight=g.v1.t()),
        "tensordot over one axis": lambda g: torch.tensordot(g.w1, g.v1, dims=1),
        "tensordot over named axes": lambda g: torch.tensordot(g.w1, g.v1, dims=([1], [0])),
        "tensordot, values first": lambda g: torch.tensordot(g.v1, g.w1, dims=([0], [1])),
        "torch.inner": lambda g: torch.inner(g.w1, g.v1.t()),
        "linalg.multi_dot": lambda g: torch.linalg.multi_dot([g.w1, g.v1, g.model.table[:5]]),
        "einsum with an implicit output": lambda g: torch.einsum("im,mj", g.w1, g.v1),
        "einsum with an implicit output that turns it": lambda g: torch.einsum("nm,md", g.w1, g.v1),
        "mv": lambda g: torch.mv(g.w1, g.v1[:, 0]),
        "addmv": lambda g: torch.addmv(g.q.new_ones(6), g.w1, g.v1[:, 0]),
        "matmul with a vector of values": lambda g: g.w1 @ g.v1[:, 0],
    },
)


def _pooled(g: Given) -> torch.Tensor:
    return F.softmax(g.x @ g.model.vector, -1)


PRODUCTS.add(
    "exact",
    _pooled,
    {
        "pooling by a learned query, product and sum": lambda g: (_pooled(g).unsqueeze(-1) * g.x).sum(1),
        "pooling by a learned query, bmm": lambda g: torch.bmm(_pooled(g).unsqueeze(1), g.x).squeeze(1),
        "pooling by a learned query, einsum": lambda g: torch.einsum("bm,bmd->bd", _pooled(g), g.x),
        "pooling by a learned query, turned": lambda g: (g.x.transpose(1, 2) @ _pooled(g).unsqueeze(-1)).squeeze(-1),
    },
)


@PRODUCTS("exact", lambda g: F.softmax(g.x[0] @ g.model.vector, -1))
def pooling_one_text_by_dot(g: Given) -> torch.Tensor:
    w = torch.softmax(g.x[0] @ g.model.vector, -1)
    return torch.dot(w, g.x[0, :, 0])


@PRODUCTS("exact", lambda g: F.softmax(g.x[0] @ g.model.vector, -1))
def pooling_one_text_by_a_product_from_the_left(g: Given) -> torch.Tensor:
    return torch.softmax(g.x[0] @ g.model.vector, -1) @ g.x[0]


@PRODUCTS("exact", softmax_weights)
def keys_first_softmax_over_the_last_axis_but_one(g: Given) -> torch.Tensor:
    w = torch.softmax(g.k @ g.q.mT * 0.5, dim=-2)
    return torch.einsum("bhmn,bhmd->bhnd", w, g.v)


@PRODUCTS("exact", softmax_weights)
def keys_first_and_a_turned_product(g: Given) -> torch.Tensor:
    return torch.softmax(g.k @ g.q.mT * 0.5, dim=-2).mT @ g.v


@PRODUCTS("exact", lambda g: F.softmax(torch.einsum("bhnd,bhmd->bnmh", g.q, g.k), 2).movedim(-1, 1))
def heads_last_product_and_sum(g: Given) -> torch.Tensor:
    w = F.softmax(torch.einsum("bhnd,bhmd->bnmh", g.q, g.k), dim=2)
    return (w.unsqueeze(-1) * g.v.transpose(1, 2).unsqueeze(1)).sum(2)


@PRODUCTS("exact", lambda g: F.softmax(g.q[..., None, :] - g.k[:, :, None], -2).movedim(-1, -3).flatten(1, 2))
def weights_of_each_feature(g: Given) -> torch.Tensor:
    """Vector attention: a softmax over keys in each feature."""
    w = torch.softmax(g.q[..., None, :] - g.k[:, :, None], -2)
    return (w * g.v[:, :, None, :, :4]).sum(-2)


@PRODUCTS("missed", softmax_weights)
def mean_times_the_number_of_keys(g: Given) -> torch.Tensor:
    return (g.w[..., None] * g.v[:, :, None]).mean(-2) * 8


@PRODUCTS("missed", softmax_weights)
def addbmm_that_sums_the_heads(g: Given) -> torch.Tensor:
    return torch.addbmm(g.q.new_ones(6, 5), g.w3, g.v3)


@PRODUCTS("missed", softmax_weights)
def products_added_key_by_key(g: Given) -> torch.Tensor:
    w, out = g.w, 0
    for j in range(8):
        out = out + w[..., j, None] * g.v[:, :, j, None]
    return out


@PRODUCTS("missed", softmax_weights)
def addcmul_key_by_key(g: Given) -> torch.Tensor:
    w, out = g.w, g.q.new_zeros(2, 3, 6, 5)
    for j in range(8):
        out = torch.addcmul(out, w[..., j, None], g.v[:, :, j, None])
    return out


@PRODUCTS("missed", softmax_weights)
def a_sparse_copy_of_the_weights(g: Given) -> torch.Tensor:
    return torch.stack([torch.sparse.mm(w.to_sparse(), v) for w, v in zip(g.w3, g.v3, strict=True)])


@PRODUCTS("missed", softmax_weights)
def convolution_with_the_weights(g: Given) -> torch.Tensor:
    return F.conv1d(g.v3.reshape(1, 6 * 8, 5), g.w3.reshape(36, 8, 1), groups=6)


@PRODUCTS("missed", softmax_weights)
def vmap_over_the_heads(g: Given) -> torch.Tensor:
    return torch.vmap(lambda w, v: w @ v)(g.w3, g.v3)


@PRODUCTS("missed", softmax_weights)
def scattered_onto_the_queries(g: Given) -> torch.Tensor:
    w = g.w1
    rows, columns = torch.meshgrid(torch.arange(6), torch.arange(8), indexing="ij")
    edges = w.flatten()[:, None] * g.v1[columns.flatten()]
    return g.q.new_zeros(6, 5).scatter_add(0, rows.reshape(-1, 1).expand(-1, 5), edges)


@PRODUCTS("missed", softmax_weights)
def index_added_onto_the_queries(g: Given) -> torch.Tensor:
    w = g.w1
    rows, columns = torch.meshgrid(torch.arange(6), torch.arange(8), indexing="ij")
    return g.q.new_zeros(6, 5).index_add_(0, rows.flatten(), w.flatten()[:, None] * g.v1[columns.flatten()])


@PRODUCTS("missed", softmax_weights)
def running_sum_along_the_keys(g: Given) -> torch.Tensor:
    return (g.w[..., None] * g.v[:, :, None]).cumsum(-2)[..., -1, :]
