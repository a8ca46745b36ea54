"""Tables of pairs, made by Triton's interpreter: what kernels would add up from them is the score."""

import pytest
import torch

pytest.importorskip("triton")

from regard.backends.triton.common.pair_tables import LEAKY, TANH, PairTables, in_parts
from regard.backends.triton.dense.arguments import DenseArguments
from regard.core.lowering.kernel_forms import EXPONENTIAL, NO_BOUND, POSITIVE_PART

BLOCK = 128


def call(core, n, m, d, size=1.0, group=1, align=EXPONENTIAL, biased=False, readout=None):
    torch.manual_seed(n + m + d)
    a, b, r = size * torch.randn(2 * group, n, d), size * torch.randn(2, m, d), torch.randn(2 * group, d)
    biases = (torch.randn(2, m), torch.randn(2 * group, n)) if biased else (None, None)
    linear, bent = (0.0, 0.0) if core == TANH else (0.6, 0.4)
    held = ("sink", "held_1", "held_2", "held_3")
    nothing = dict.fromkeys(("centre", "lengths", "keep", "low", "high", "seed", "bias", *held))
    return DenseArguments(
        a=a,
        b=b,
        v=torch.randn(2, m, 4),
        readout=r if readout is None else readout,
        key_bias=biases[0],
        row_bias=biases[1],
        left=NO_BOUND,
        right=NO_BOUND,
        heads=group,
        core=core,
        scale=1.0,
        linear=linear,
        bent=bent,
        align=align,
        alpha=1.0,
        narrow=0.0,
        dropout=0.0,
        trains=True,
        modifiers="",
        bound_1=0.0,
        bound_2=0.0,
        bound_3=0.0,
        **nothing,
    )


def vectors(table, places, width):
    """(heads, places, width) of a table whose blocks hold features by lines."""
    return table.view(table.shape[0], -1, width, BLOCK).transpose(2, 3).reshape(table.shape[0], -1, width)[:, :places]


def scores(asked, tables):
    """What kernels compute of tables, in fp64."""
    n, m, width = asked.a.shape[1], asked.b.shape[1], tables.width
    x, y = vectors(tables.across[0], n, width), vectors(tables.across[1], m, width).repeat_interleave(asked.group, 0)
    x, y, r = x.double()[:, :, None], y.double()[:, None], tables.readout.double()[:, None, None]
    share, factor = r[..., :width], r[..., width]
    if asked.core == TANH:
        mode = tables.modes.repeat_interleave(asked.group)[:, None, None, None]
        grown = torch.where(mode == 2, torch.exp2((x + y).clamp_max(40)), (x * y).clamp_max(2.0**40))
        s = (1 / torch.where(mode == 0, x * y + share, (grown + 1) * share)).sum(-1)
    else:
        s = (share * (x + y).abs()).sum(-1)
    s = s * factor
    s = s if tables.own is None else s + tables.own.double()[:, :, None]
    return s if tables.keys is None else s + tables.keys.double()[:, None]


def truth(asked):
    z = asked.a.double()[:, :, None] + asked.b.double().repeat_interleave(asked.group, 0)[:, None]
    bent = z.tanh() if asked.core == TANH else asked.linear * z + asked.bent * z.abs()
    s = (bent * asked.readout.double()[:, None, None]).sum(-1)
    if asked.row_bias is not None:
        s = s + asked.row_bias.double()[:, :, None] + asked.key_bias.double().repeat_interleave(asked.group, 0)[:, None]
    return s * asked.unit


@pytest.mark.covered
@pytest.mark.parametrize(("size", "mode"), [(1.0, 0), (8.0, 1), (30.0, 2)])
@pytest.mark.parametrize(("n", "m", "d", "group"), [(1, 130, 5, 1), (7, 3, 64, 3)])
def test_fractions_add_up_to_tanh_in_every_range(size, mode, n, m, d, group):
    asked = call(TANH, n, m, d, size, group, biased=group > 1)
    tables = PairTables(asked, False)
    assert (tables.modes == mode).all()
    torch.testing.assert_close(scores(asked, tables), truth(asked), rtol=0, atol=2e-5)


@pytest.mark.parametrize("align", [EXPONENTIAL, POSITIVE_PART])
def test_bent_and_linear_halves_add_up_to_leaky_relu(align):
    asked = call(LEAKY, 6, 9, 7, group=2, align=align, biased=True)
    torch.testing.assert_close(scores(asked, PairTables(asked, False)), truth(asked), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [1.0, 8.0, 30.0])
def test_a_readout_of_zero_counts_for_nothing(size):
    readout = torch.zeros(2, 9)
    readout[0, 4] = -3.0
    asked = call(TANH, 4, 5, 9, size, readout=readout)
    found = scores(asked, PairTables(asked, False))
    torch.testing.assert_close(found, truth(asked), rtol=0, atol=1e-5)
    assert (found[1] == 0).all()


def test_gradients_read_exponentials_beside_zeros():
    asked = call(TANH, 5, 3, 6)
    tables = PairTables(asked, True)
    for table, x in zip(tables.along, (asked.a, asked.b), strict=True):
        torch.testing.assert_close(table[:, : x.shape[1], :6], (2 * x).exp())
        assert table.shape[1:] == (BLOCK, 16)
        assert (table[:, :, 6:] == 0).all() and (table[:, x.shape[1] :] == 0).all()


@pytest.mark.parametrize(("n", "m", "d"), [(3, 0, 4), (0, 3, 4), (2, 3, 0)])
def test_what_is_empty_leaves_a_constant(n, m, d):
    asked = call(TANH, n, m, d)
    tables = PairTables(asked, True)
    assert (tables.modes == 0).all()
    torch.testing.assert_close(scores(asked, tables), truth(asked), rtol=0, atol=1e-6)


def test_three_parts_are_the_whole_number():
    v = torch.randn(2, 5, 3) * torch.tensor([1e-6, 1.0, 1e6])
    assert torch.equal(in_parts(v).double().sum(0), v.double())
