"""A softmax that may give nothing."""

import torch
from torch.testing import assert_close

from regard import Causal, ScaledDot, Sigmoid, Sink, SoftmaxOne, attend


def test_it_is_softmax_with_a_sink_of_zero():
    q, k, v = torch.randn(3, 2, 3, 7, 4, dtype=torch.float64)
    ones = attend(q, k, v, align="softmax1", over=Causal())
    sink = attend(q, k, v, ScaledDot() | Sink(torch.zeros(3).double()), over=Causal())
    assert_close(ones.out, sink.out)
    assert_close(ones.map.weights(), sink.map.weights())


def test_scores_far_below_zero_weigh_nothing_and_far_above_as_softmax():
    s = torch.randn(4, 5, dtype=torch.float64)
    assert SoftmaxOne()(s - 100).sum() < 1e-30
    assert_close(SoftmaxOne()(s + 100), torch.softmax(s, -1))


def test_the_sum_of_a_sigmoid_follows_the_schedule_of_its_bias():
    s = torch.zeros(1, 400, dtype=torch.float64)
    for rate, mass in ((1.0, 400 / 401), (0.5, 400 / 21), (0.0, 200.0)):
        assert_close(Sigmoid(rate=rate)(s).sum().item(), mass)
        q = torch.zeros(1, 400, 2)
        assert_close(attend(q[:, :1], q, q, align=Sigmoid(rate=rate)).map.weights().sum().item(), mass)
