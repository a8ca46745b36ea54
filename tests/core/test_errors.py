"""What is typed wrong about tensors, names, masks and structures, and what is answered."""

import warnings

import pytest
import torch
from tests.core.answers import Answer, answers, assert_answered
from tests.core.mechanisms import inputs
from torch import Tensor

import regard
from regard import attend
from regard.core.errors import lacking, values_are_checked, within

TYPED = r"""
# tensors
attend([1.0], K, V)
    TypeError: q is a list … expected a tensor
attend(Q[0, 0, 0], K[0, 0, 0], V[0, 0, 0])
    ValueError: 1, 1 and 1 axes … 2 or more
attend(Q, K[0], V)
    ValueError: q, k and v have 4, 3 and 4 axes … same number
attend(Q.long(), K.long(), V.long())
    TypeError: torch.int64 … .float()
attend(Q, K.float(), V)
    TypeError: float64, torch.float32 … .to(q.dtype)
attend(*(x.cfloat() for x in (Q, K, V)))
    TypeError: torch.complex64 … expected one
attend(*(x.to(torch.float8_e4m3fn) for x in (Q, K, V)))
    TypeError: float8 … bfloat16
attend(Q, K.to("meta"), V)
    ValueError: cpu, meta and cpu … one device
attend(Q, K, V[:, :, :4])
    ValueError: k has 5 rows and v has 4 … one value
attend(Q, K[:1], V[:1])
    ValueError: (2, 2, 3, 4) … batch axes
attend(Q, *(x.repeat(1, 2, 1, 1)[:, :3] for x in (K, V)))
    ValueError: q has 2 heads, k 3 and v 3 … divides … grouped
attend(Q, K, V[:, :1])
    ValueError: k 2 and v 1 … k and v alike
attend(Q, K[..., :3], V)
    ValueError: q has width 4 and k 3 … General(d_q=4, d_k=3)
attend(Q, K, V, dropout=1.0)
    ValueError: dropout=1.0 … 0 <= dropout < 1
attend(Q, K, V, dropout=-0.1)
    ValueError: dropout=-0.1 … probability
attend(Q, K, V, dropout="some")
    ValueError: dropout='some' … probability
attend(Q, K, V, dropout=0.5, seed=1.5)
    TypeError: seed= got 1.5 … an int
attend(Q, K, V, dropout=0.5, seed=torch.zeros(2))
    TypeError: seed= … 0-d
attend(Q, K, V, seed="x")
    TypeError: seed= got 'x' … an int or a 0-d integer tensor
attend(Q, K, V, seed=True)
    TypeError: seed= got True
attend(Q, K, V, dropout=0.5, seed=torch.tensor(True))
    TypeError: seed= got a torch.bool tensor
attend(Q, K, V, dropout=0.5, seed=2**70)
    ValueError: -2**63 <= seed < 2**63
attend(Q, K, V, dropout=True)
    ValueError: attend(dropout=True) … probability
attend(Q, K, V, sample="no")
    TypeError: attend(sample='no'): expected True or False
attend(Q, K, V, sample=0)
    TypeError: attend(sample=0): expected True or False
attend(Q, K, V, backend=["auto"])
    TypeError: backend= got ['auto'] … "auto" or the name
attend(Q, K, V, over="")
    ValueError: over='' is unknown
attend(Q, K, V, state=torch.zeros(1))
    ValueError: state= … stepwise … ScaledDot with Softmax has none
attend(Q, K, V, align="monotonic", state=torch.zeros(2, 2, 4))
    ValueError: state= is (2, 2, 4) … (2, 2, 5) … Attended.state

# names
attend(Q, K, V, "dott")
    ValueError: score='dott' is unknown … scaled_dot … additive
attend(Q, K, V, align="max")
    ValueError: align='max' is unknown … sparsemax
attend(Q, K, V, backend="flash")
    ValueError: backend='flash' … "auto" … 'chunked'
attend(Q, K, V, "location")
    ValueError: no parameter-free form … Location(d_q, length)
attend(Q, K, V, "location_aware")
    ValueError: LocationAware(d_q)
attend(Q, K, V, "learned_query")
    ValueError: LearnedQuery(d_k)
attend(Q, K, V, align="topk")
    ValueError: needs an argument … TopK(k)
attend(Q, K, V, align="entmax")
    ValueError: Entmax(alpha)
attend(Q, K, V, align="reinforced")
    ValueError: Reinforced(d)
attend(Q, K, V, Additive)
    TypeError: the class Additive … Additive(...)
attend(Q, K, V, align=TopK)
    TypeError: align= … the class TopK … TopK(...)
attend(Q, K, V, over=Causal)
    TypeError: over= … the class Causal
attend(Q, K, V, 3)
    TypeError: score= got int … regard.Score … forward(q, k)
attend(Q, K, V, align=3)
    TypeError: align= got int … Entmax(1.5)
attend(Q, K, V, over="causal")
    ValueError: Causal() needs align= when queries and keys differ in number

# which way a mask points
attend(Q, K, V, over=torch.ones(3, 5).bool())
    TypeError: over= got a torch.bool tensor … Mask(keep=tensor) … Mask(keep=~tensor) if True meant *drop*
attend(Q, K, V, over=Mask(keep=torch.zeros(3, 5)))
    TypeError: Mask(keep=torch.float32 tensor) … True = may be attended … Mask(keep=mask == 0) … Mask(keep=~mask)
attend(Q, K, V, over=Mask(keep=torch.ones(3, 5).long()))
    TypeError: Mask(keep=torch.int64 tensor) … expected a bool tensor
attend(Q, K, V, over=Mask(keep=[True]))
    TypeError: Mask(keep=list)
attend(Q, K, V, over=Mask(keep=torch.ones(2, 5).bool()))
    ValueError: Mask(keep) has shape (2, 5) … (2, 2, 3, 5) … keep[:, None, None, :]
attend(Q, K, V, over=Mask(keep=torch.ones(1, 2, 2, 3, 5).bool()))
    ValueError: (1, 2, 2, 3, 5) … does not broadcast
attend(Q, K, V, over=Padding(torch.ones(2, 5).bool()))
    TypeError: Padding(lengths=torch.bool tensor) … Mask(keep=mask[:, None, None, :])
Causal() & torch.ones(3, 5).bool()
    TypeError: & joins … Mask(keep=...)

# structures
attend(Q, K, V, over=Causal())
    ValueError: Causal() needs align= … n=3, m=5 … Causal(align="end") … Causal(align="start")
attend(Q, K, V, over=Window(1, 1))
    ValueError: Window() needs align= … n=3, m=5 … align="end"
attend(Q, K, V, Dot() | ALiBi(2))
    ValueError: ALiBi() needs align= … n=3, m=5
attend(Q, K, V, Dot() | RelativeBias(2, 3))
    ValueError: RelativeBias() needs align=
Window(True, 1)
    ValueError: Window(left=True … whole numbers
Window(1, 1, grid=(2, 2.5))
    ValueError: Window(grid=2.5): expected a whole number
attend(Q, K, V, over=Segments(torch.zeros(5).long(), count=2.5))
    ValueError: Segments(count=2.5): expected a whole number
Edges(torch.zeros(2, 1).long(), size=3)
    ValueError: Edges(size=3): expected (targets, sources)
Edges(torch.zeros(2, 1).long(), self_loops="yes")
    TypeError: Edges(self_loops='yes'): expected True or False
Edges(torch.zeros(2, 1).long(), key="key")
    TypeError: Edges(key='key'): expected a floating-point tensor
Edges.from_dense(torch.eye(3).to_sparse())
    TypeError: Edges.from_sparse(adjacency)
Edges.from_sparse(torch.eye(3))
    TypeError: Edges.from_dense(adjacency)
Causal("left")
    ValueError: Causal(align='left') … "start", "end" or None
Window(-1, 0)
    ValueError: Window(left=-1 … one may be negative where the other is as large
Window(-1, 2, grid=(2, 2))
    ValueError: Window(left=-1 … not on a grid
Window(1.5, 0)
    ValueError: left=1.5 … whole numbers
Window(1, 1, dilation=0)
    ValueError: dilation=0 … 1 or more
attend(*SQUARE, over=Window(1, 1, grid=(2, 2)))
    ValueError: Window(grid=(2, 2)) has 4 pixels … n=5 … height x width
attend(Q, K, V, over=Padding(torch.tensor([-1, 2])))
    ValueError: Padding(lengths) holds -1 … 0 to 5
attend(Q, K, V, over=Padding(torch.tensor([3, 6])))
    ValueError: Padding(lengths) holds 6 … 0 to 5 (the number of keys)
attend(Q, K, V, over=Padding(torch.tensor([1, 2, 3])))
    ValueError: Padding(lengths) has shape (3,) … one length for each item … (2,)
attend(Q, K, V, over=Padding(torch.tensor([1.0, 2.0])))
    TypeError: Padding(lengths=torch.float32 tensor) … integer
attend(Q, K, V, over=Padding([1, 2]))
    TypeError: Padding(lengths=list) … integer tensor
attend(*SQUARE, over=Segments(torch.zeros(4).long()))
    ValueError: Segments(ids) has shape (4,) … 5 ids … key_ids= … count=
attend(Q, K, V, over=Segments(torch.zeros(3).long()))
    ValueError: expected 5 ids … Cross-attention needs key_ids=
attend(*SQUARE, over=Segments(torch.tensor([0, -1, 0, 0, 0])))
    ValueError: Segments(ids) holds -1 … & Padding(lengths)
attend(Q, K, V, over=Segments(torch.tensor([0, 1, 2, 3, 0]), count=3))
    ValueError: Segments(ids) holds 3 … 0 to 2 … count=3
attend(Q, K, V, over=Segments(torch.zeros(5).long(), count=4))
    ValueError: Segments(count=4) … n=3 … one query a segment
attend(Q, K, V, over=Segments(torch.zeros(3).long(), torch.zeros(5).long(), 3))
    ValueError: key_ids (cross-attention) or count (pooling)
attend(*SQUARE, over=Segments(torch.zeros(5)))
    TypeError: Segments(ids=torch.float32 tensor) … integer
attend(*SQUARE, over=Segments(torch.zeros(3, 5).long()))
    ValueError: Segments(ids) has shape (3, 5) … (2,)
attend(*SQUARE, over=Edges(torch.zeros(7, 2).long()))
    ValueError: Edges(edge_index) is torch.int64 (7, 2) … (2, E) … edge_index.T
attend(*SQUARE, over=Edges(torch.ones(5, 5)))
    ValueError: torch.float32 (5, 5) … Edges.from_dense
attend(*SQUARE, over=Edges(torch.ones(2, 5).bool()))
    ValueError: torch.bool
attend(*SQUARE, over=Edges([[0], [1]]))
    TypeError: Edges(edge_index) is a list … torch.tensor(edge_index)
attend(Q, K, V, over=Edges(torch.tensor([[5], [0]])))
    ValueError: Edges(edge_index) names source 5 (edge 0) … there are 5 sources, 0 to 4 … row 0 … row 1
attend(Q, K, V, over=Edges(torch.tensor([[4], [3]])))
    ValueError: names target 3 … there are 3 targets, 0 to 2
attend(Q, K, V, over=Edges(torch.tensor([[0, -1], [0, 1]])))
    ValueError: names source -1 (edge 1)
attend(Q, K, V, over=Edges(torch.zeros(2, 1).long(), size=(5, 3)))
    ValueError: Edges(size=(5, 3)) says (targets, sources) … n=3 queries and m=5 keys
attend(*SQUARE, over=Edges(torch.zeros(2, 1).long()) & Edges(torch.ones(2, 1).long()))
    ValueError: Edges(...) & Edges(...) … Mask(keep=adjacency)
attend(Q, K, V, over=Padding(meta(2)))
    ValueError: Padding(lengths) is on meta … q is on cpu … .to('cpu')
attend(Q, K, V, over=Causal("end") & Mask(keep=meta(3, 5, dtype=torch.bool)))
    ValueError: Mask(keep) is on meta … q is on cpu
attend(Q, K, V, over=Segments(meta(3), key_ids=meta(5)))
    ValueError: Segments(ids) is on meta
attend(Q, K, V, over=Edges(meta(2, 4)))
    ValueError: Edges(edge_index) is on meta
"""


def meta(*shape: int, dtype: torch.dtype = torch.long) -> Tensor:
    return torch.zeros(shape, dtype=dtype, device="meta")


def names() -> dict[str, object]:
    """Everything public, q (2, 2, 3, 4), k and v (2, 2, 5, 4), and five queries beside five keys."""
    q, k, v = (x.detach() for x in inputs(n=3, m=5))
    square = [x.detach() for x in inputs(n=5, m=5)]
    return {**vars(regard), "torch": torch, "meta": meta, "Q": q, "K": k, "V": v, "SQUARE": square}


@pytest.mark.parametrize("answer", answers(TYPED), ids=lambda answer: answer.code)
def test_an_error_says_what_was_given_and_what_to_type(answer: Answer) -> None:
    assert_answered(answer, names())


def test_values_are_checked_where_reading_them_costs_nothing_and_where_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert values_are_checked(torch.zeros(1))
    assert not values_are_checked(torch.zeros(1, device="meta"))
    monkeypatch.setenv("REGARD_CHECK", "1")
    assert values_are_checked(torch.zeros(1, device="meta"))


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e4])
@pytest.mark.parametrize("align", ["softmax", "sparsemax", "entmax15", "sigmoid", "relu", "gumbel", "local_predictive"])
@pytest.mark.parametrize("score", ["dot", "additive", "cosine", "gaussian", "laplace", "trilinear", "linear_kernel"])
def test_finite_input_of_any_size_never_gives_nan(score: str, align: str, scale: float) -> None:
    tensors = [(scale * x.detach().float()).requires_grad_() for x in inputs()]
    for backend in ("auto", "reference"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            out = attend(*tensors, score, align, backend=backend).out
        found = torch.autograd.grad(out.sum(), tensors, allow_unused=True)
        assert not any(x.isnan().any() for x in (out, *found) if x is not None)


@pytest.mark.parametrize(("i", "size"), [(3, 3), (-4, 3), (0, 0)])
def test_a_place_that_is_not_there_is_told_with_those_that_are(i, size):
    with pytest.raises(IndexError, match=rf"row\({i}\): there are {size} rows, (expected -3 to 2|there is none)"):
        within(i, size, f"row({i})", "rows")


def test_a_place_is_counted_from_the_start_or_from_the_end():
    assert [within(i, 3, "row", "rows") for i in (0, 2, -1, -3)] == [0, 2, 2, 0]


def test_a_missing_package_is_told_with_the_extra_that_brings_it():
    missing = lacking("flow()", "scipy", "judge")
    assert missing.name == "scipy" and "flow() needs scipy" in str(missing) and "'regard[judge]'" in str(missing)
