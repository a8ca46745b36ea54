"""What is typed wrong about a score, an alignment or a map, and what is answered."""

import pytest
import torch
from tests.core.answers import Answer, answers, assert_answered
from tests.core.mechanisms import inputs
from torch import Tensor

import regard

TYPED = r"""
# mechanisms
attend(Q, K, V, General(6, 4))
    ValueError: General was built for q of width 6
attend(Q, K, V, General(4, 6))
    ValueError: built for k of width 6 … has width 4
attend(Q, K, V, Additive(6, 4))
    ValueError: Additive was built for q of width 6
attend(Q, K, V, Additive(4, heads=3))
    ValueError: Additive was built with heads=3 … q has 2 heads … heads=1 to share
attend(Q, K, V, Location(3, 9))
    ValueError: built for q of width 3
attend(Q, K, V, Location(4, 4))
    ValueError: length=4 … m=5 keys … longer
attend(Q, K, V, QueryFree(3))
    ValueError: built for k of width 3
attend(Q, K, V, LearnedQuery(4, heads=5))
    ValueError: heads=5
attend(Q, K, V, GAT(3))
    ValueError: GAT was built for q of width 3
attend(Q, K, V, GATv2(3))
    ValueError: GATv2 was built for q of width 3
attend(Q, K, V, Content(3))
    ValueError: Content was built for q of width 3
attend(Q, K, V, Trilinear(3))
    ValueError: built for q of width 3
attend(Q, K, V, Gaussian(learned=True, heads=3))
    ValueError: heads=3
attend(Q, K, V, LocationAware(3))
    ValueError: built for q of width 3
attend(*SQUARE, Dot() | ALiBi(8))
    ValueError: ALiBi was built with heads=8 … 2 heads
attend(*SQUARE, Dot() | RelativeBias(8, 2))
    ValueError: RelativeBias … heads=8
attend(*SQUARE, Dot() | Sink(8))
    ValueError: Sink was built with heads=8
attend(*SQUARE, Dot() | Activation("tanh", 8))
    ValueError: Activation … heads=8
attend(Q, K, V, align=Entmax(1.5, True, 8))
    ValueError: Entmax … heads=8
attend(Q, K, V, align=Reinforced(3))
    ValueError: Reinforced was built for k of
attend(Q, K, V, align=LocalPredictive(2, 3))
    ValueError: built for q of width 3
attend(Q, K, V[..., :3], Dot(features=True))
    ValueError: Dot … 4 features and v has width 3
attend(Q, K, V, Additive(4, features=1))
    ValueError: 1 features … width 4
attend(Q, K, V, Flat())
    ValueError: Flat.forward(q, k) returned (2, 2, 5) … (2, 2, 3, 5) = (..., heads, n, m)
attend(Q, K, V, Flat(), backend="reference")
    ValueError: Flat.forward
attend(Q, K, V, Flat() | SoftCap(2.0), backend="reference")
    ValueError: Flat.forward
attend(Q, K, V, Flat(), over=Edges(torch.zeros(2, 1).long()))
    ValueError: Flat.forward
attend(Q, K, V, Nothing())
    TypeError: Nothing has no forward(q, k)
Additive(features=3)
    ValueError: Additive(features=3) … give d_q … features=True
General(features=3)
    ValueError: General(features=3) … give d_q
QueryFree(features=3)
    ValueError: QueryFree(features=3) … give d_k
Additive(4, activation="gelu")
    ValueError: activation='gelu' is an unknown activation … tanh … own score
Gaussian(0.0)
    ValueError: Gaussian(width=0.0) … positive
Cosine(sharpness=1e308)
    ValueError: Cosine(sharpness=1e+308): expected a number, from -1e+18 to 1e+18
Cosine(sharpness="sharp")
    ValueError: Cosine(sharpness='sharp'): expected a number
Gaussian(1e-30)
    ValueError: Gaussian(width=1e-30): expected a positive number, from 1e-09
Gaussian(True)
    ValueError: Gaussian(width=True): expected a positive number
ScaledDot(scale=float("nan"))
    ValueError: ScaledDot(scale=nan): expected a number
ScaledDot(scale=torch.ones(()))
    ValueError: ScaledDot(scale=a torch.float32 tensor ()) … multiplies q before the call
Dot(features="yes")
    TypeError: Dot(features='yes'): expected True or False
Additive(4, heads=2.5)
    ValueError: Additive(heads=2.5): expected a whole number, 1 or more
Additive(4, heads=2**70)
    ValueError: Additive(heads=1180591620717411303424): expected a whole number, 1 to 2147483647
Additive(4, slope=float("inf"))
    ValueError: Additive(slope=inf): expected a number
Sink(2, float("inf"))
    ValueError: Sink(start=inf): expected a number
ALiBi(slopes=[0.5, 0.25])
    ValueError: ALiBi(slopes=[0.5, 0.25]): expected a floating-point tensor (heads,)
attend(*SQUARE, Dot() | EdgeBias(torch.ones(1)), over=Edges(torch.zeros(2, 3).long()))
    ValueError: EdgeBias(bias) has shape (1, 1), but an edge has the id 2
Laplace(-1.0)
    ValueError: Laplace(width=-1.0) … positive
Content(sharpness=-1.0)
    ValueError: Content(sharpness=-1.0) … 0 or more
LocationAware(4, kernel=4)
    ValueError: kernel=4 … odd
SoftCap(0.0)
    ValueError: SoftCap(cap=0.0) … positive
ALiBi()
    ValueError: heads= … slopes=
Dot() | Sink(2) | Sink(2)
    ValueError: one Sink
LocationAware(4) | SoftCap(2.0)
    ValueError: LocationAware runs step by step
Dot() | ScaledDot()
    TypeError: score | ScaledDot … a modifier … SoftCap(50.0)
Rotary(5)
    ValueError: Rotary(d=5) … even
Rotary(6)(Q)
    ValueError: built for width 6 … x has width 4
Entmax(1.0)
    ValueError: Entmax(alpha=1.0) … Softmax()
Entmax(2.0, learned=True)
    ValueError: between 1 and 2
Entmax(1 + 1e-6)
    ValueError: Entmax(alpha=1.000001): expected a positive number, from 1.0001 to 4; alpha = 1 is Softmax()
Entmax(10)
    ValueError: from 1.0001 to 4
Sigmoid(float("nan"))
    ValueError: Sigmoid(bias=nan): expected a number
Monotonic(noise="loud")
    ValueError: Monotonic(noise='loud'): expected a number
TopK(True)
    ValueError: TopK(k=True): expected a whole number
TopK(0)
    ValueError: TopK(k=0) … 1 or more
TopK(1.5)
    ValueError: TopK(k=1.5) … whole
Gumbel(0.0)
    ValueError: Gumbel(temperature=0.0) … positive
Local(-1)
    ValueError: Local(window=-1) … 0 or more
LocalPredictive(0)
    ValueError: LocalPredictive(window=0) … 1 or more

# maps
attend(Q, K, V).map.row(3)
    IndexError: row(3): there are 3 rows … -3 to 2
attend(Q, K, V).map.column(-6)
    IndexError: column(-6): there are 5 columns … -5 to 4
attend(Q, K, V).map.tile([0, 3], [0])
    IndexError: tile(rows=[0, 3]) … -3 to 2
attend(Q, K, V).map.tile([True, False, True], [0])
    IndexError: tile(rows= … mask.nonzero()[:, 0]
attend(Q, K, V).map[0, 0, 0]
    IndexError: up to 2 integers … tile(rows, cols)
attend(Q, K, V).map[:1]
    IndexError: up to 2 integers
attend(Q, K, V).map[2]
    IndexError: amap[2]: there are 2 … -2 to 1
attend(Q, K, V).map.find(-0.1)
    ValueError: find(threshold=-0.1) … not negative
attend(Q, K, V).map.pyramid(0)
    ValueError: pyramid(cell=0) … 1 or more
attend(Q, K, V).map.group([(0, 4)])
    ValueError: group(rows) … (0, 4) … <= 3
attend(Q, K, V).map.group([(0, 1)], [(2, 2)])
    ValueError: group(cols) … (2, 2) … <= 5
attend(Q, K, V).map.edges()
    Refused: not over edges … over=Edges(...) … weights()
attend(Q, K, V).map.loops
    Refused: self_loops=True
attend(Q, K, V, dropout=0.5, backend="sdpa").map.weights(dropout=True)
    Refused: torch's own dropout … Pass seed=
"""


class Flat(regard.Score):
    """A user's mistake: it forgets the queries."""

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return k.sum(-1)


class Nothing(regard.Score):
    """A user's mistake: no definition."""


def names() -> dict[str, object]:
    """Everything public, q (2, 2, 3, 4), k and v (2, 2, 5, 4), and five queries beside five keys."""
    q, k, v = (x.detach() for x in inputs(n=3, m=5))
    square = [x.detach() for x in inputs(n=5, m=5)]
    return {
        **vars(regard),
        "regard": regard,
        "torch": torch,
        "Flat": Flat,
        "Nothing": Nothing,
        "Q": q,
        "K": k,
        "V": v,
        "SQUARE": square,
    }


@pytest.mark.parametrize("answer", answers(TYPED), ids=lambda answer: answer.code)
def test_an_error_says_what_was_given_and_what_to_type(answer: Answer) -> None:
    assert_answered(answer, names())
