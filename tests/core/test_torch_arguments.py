"""What hands type from torch and from the field: taken where it means one thing, else answered by the line to write."""

import re
from pkgutil import resolve_name

import pytest
import torch
from torch.testing import assert_close

import regard
from regard import ALiBi, Attended, Causal, Full, Mask, Padding, ScaledDot, Sink, SoftCap, Window, attend
from regard.core.arguments.synonyms import ALIGNMENTS_ALSO, ATTRIBUTES, BACKENDS_ELSEWHERE, ELSEWHERE, SCORES_ALSO
from regard.core.arguments.torch_arguments import ANSWERS, SWITCHES

SDPA = torch.nn.functional.scaled_dot_product_attention


@pytest.fixture
def qkv():
    torch.manual_seed(0)
    return torch.randn(3, 2, 4, 6, 8)


@pytest.mark.parametrize(
    "given", [{"is_causal": True}, {"scale": 0.3}, {"is_causal": True, "scale": 2.0}, {"is_causal": False}]
)
def test_arguments_of_sdpa_mean_what_they_mean_there(qkv, given):
    assert_close(attend(*qkv, **given).out, SDPA(*qkv, **given))


def test_grouped_queries_need_no_word_and_take_torchs(qkv):
    q, k, v = qkv[0], qkv[1][:, :2], qkv[2][:, :2]
    assert_close(attend(q, k, v, enable_gqa=True).out, SDPA(q, k, v, enable_gqa=True))


def test_dropout_p_is_dropout(qkv):
    assert torch.equal(attend(*qkv, dropout_p=0.5, seed=3).out, attend(*qkv, dropout=0.5, seed=3).out)


def test_causal_joins_what_over_says(qkv):
    both = attend(*qkv, over=Padding(torch.tensor([6, 3])), causal=True).map.weights()
    assert torch.equal(both, attend(*qkv, over=Causal() & Padding(torch.tensor([6, 3]))).map.weights())


def test_a_plan_takes_the_same_words(qkv):
    assert str(regard.plan(*qkv, is_causal=True)) == str(regard.plan(*qkv, over=Causal()))


def test_compiled_calls_take_the_same_words(qkv):
    compiled = torch.compile(
        lambda q, k, v: attend(q, k, v, is_causal=True, scale=0.3).out, fullgraph=True, backend="eager"
    )
    assert_close(compiled(*qkv), SDPA(*qkv, is_causal=True, scale=0.3))


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_what_has_no_single_meaning_is_answered_by_a_line(qkv, name):
    with pytest.raises(TypeError, match=rf"attend\(\) has no argument {name}: ") as told:
        attend(*qkv, **{name: torch.ones(6, 6)})
    assert "MASK" not in str(told.value)


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_what_asks_for_nothing_is_taken(qkv, name):
    """A call that was written for another library hands on its unused arguments."""
    assert torch.equal(attend(*qkv, **{name: None}).out, attend(*qkv).out)
    if name in SWITCHES:
        assert torch.equal(attend(*qkv, **{name: False}).out, attend(*qkv).out)
    else:
        with pytest.raises(TypeError, match=rf"no argument {name}"):
            attend(*qkv, **{name: False})


def test_the_whole_call_of_torch_runs_as_it_is(qkv):
    given = {"attn_mask": None, "dropout_p": 0.0, "is_causal": True, "scale": None, "enable_gqa": False}
    assert_close(attend(*qkv, **given).out, SDPA(*qkv, **given))


@pytest.mark.parametrize("name", ["scale", "scaling", "softmax_scale", "sm_scale"])
def test_a_scale_has_the_names_that_kernels_and_models_give_it(qkv, name):
    assert_close(attend(*qkv, **{name: 0.3}).out, SDPA(*qkv, scale=0.3))
    with pytest.raises(TypeError, match="A scale that is learned multiplies the queries"):
        attend(*qkv, **{name: torch.tensor(0.3)})
    learned = torch.tensor(0.3, requires_grad=True)
    assert_close(attend(qkv[0] * learned, *qkv[1:], scale=1.0).out, SDPA(*qkv, scale=0.3))


@pytest.mark.parametrize("name", ["dropout_p", "attn_dropout", "attention_dropout"])
def test_dropout_of_weights_has_the_names_of_other_libraries(qkv, name):
    assert torch.equal(attend(*qkv, **{name: 0.5}, seed=3).out, attend(*qkv, dropout=0.5, seed=3).out)


def test_lines_that_answer_do_what_they_say(qkv):
    q, k, v = qkv
    cap, width, sinks = 5.0, q.shape[-1], torch.randn(4)
    s = q @ k.mT / width**0.5
    assert_close(attend(*qkv, score=SoftCap(cap)).out, (cap * (s / cap).tanh()).softmax(-1) @ v)
    assert_close(attend(*qkv, scale=1 / (2.0 * width**0.5)).out, (s / 2.0).softmax(-1) @ v)
    logits = torch.cat([s, sinks[:, None, None].expand(2, 4, 6, 1)], -1)
    assert_close(attend(*qkv, score=Sink(sinks)).out, logits.softmax(-1)[..., :-1] @ v)
    quiet = s.exp() / (1 + s.exp().sum(-1, keepdim=True))
    assert_close(attend(*qkv, score=Sink(torch.zeros(4))).out, quiet @ v)
    assert_close(attend(*qkv).map.tau, s.logsumexp(-1))


def test_the_line_that_answers_a_mask_does_what_torch_does(qkv):
    keep = torch.rand(6, 6) > 0.3
    keep[:, 0] = True
    with pytest.raises(TypeError, match=r"write over=Mask\(keep=attn_mask\) where True means that a pair may attend"):
        attend(*qkv, attn_mask=keep)
    assert_close(attend(*qkv, over=Mask(keep=keep)).out, SDPA(*qkv, attn_mask=keep))
    with pytest.raises(TypeError, match="the fourth argument of attend is the score"):
        attend(*qkv, keep)


def test_wrong_words_are_errors_that_say_the_nearest(qkv):
    for given, says in (
        ({"dropot": 0.1}, "did you mean dropout"),
        ({"xyz": 1}, "it takes q, k, v, score"),
        ({"is_causal": 1}, "expected True or False"),
        ({"dropout": 0.1, "dropout_p": 0.1}, "one argument"),
        ({"scale": 2.0, "score": "additive"}, "scale belongs to the dot product"),
        ({"scale": 2.0, "softmax_scale": 2.0}, "one argument"),
        ({"dropout_p": 0.1, "attn_dropout": 0.1}, "one argument"),
        ({"align": torch.softmax}, "write 'softmax'"),
        ({"align": torch.nn.functional.softmax}, "write 'softmax'"),
        ({"align": torch.sigmoid}, "write 'sigmoid'"),
        ({"align": None}, "leave it out for softmax"),
        ({"score": None}, "leave it out for the scaled dot product"),
    ):
        with pytest.raises(TypeError, match=says):
            attend(*qkv, **given)
    with pytest.raises(
        TypeError, match=r'is_causal=True\) with 6 queries and 3 keys: write over=Causal\(align="end"\)'
    ):
        attend(qkv[0], qkv[1][:, :, :3], qkv[2][:, :, :3], is_causal=True)


# structures by name and by one number


@pytest.mark.parametrize("name, same", [("causal", Causal()), ("full", Full())])
def test_a_structure_may_be_named(qkv, name, same):
    for _ in range(4):  # the last ones run without a plan
        found = attend(*qkv, over=name)
        assert torch.equal(found.out, attend(*qkv, over=same).out)
    assert torch.equal(found.map.weights(), attend(*qkv, over=same).map.weights())


@pytest.mark.parametrize(
    "name, says",
    [
        ("window", r"write over=Window\(8\)"),
        ("casual", "did you mean 'causal'"),
        ("zzz", "expected 'full', 'causal'"),
        (True, 'is_causal=True is over="causal"'),
    ],
)
def test_a_name_that_is_no_structure_is_answered(qkv, name, says):
    with pytest.raises((TypeError, ValueError), match=says):
        attend(*qkv, over=name)


def test_one_number_is_a_window_on_both_sides(qkv):
    i, j = torch.arange(6)[:, None], torch.arange(6)
    weights = attend(*qkv, over=Window(2)).map.weights()
    assert ((weights > 0) == ((i - j).abs() <= 2)).all()
    assert Window(2).plan_key() == Window(2, 2).plan_key()


@pytest.mark.parametrize("backend", ["reference", "chunked"])
def test_a_causal_window_sees_the_last_keys_its_own_among_them(qkv, backend):
    i, j = torch.arange(6)[:, None], torch.arange(6)
    found = attend(*qkv, over=Causal(window=3), backend=backend)
    assert ((found.map.weights() > 0) == ((j <= i) & (i - j < 3))).all()
    assert_close(found.out, attend(*qkv, over=Causal() & Window(2, 0)).out)
    assert Causal(window=3).plan_key() != Causal().plan_key()


def test_a_causal_window_joins_others_and_is_aligned(qkv):
    q, k, v = qkv
    over = Causal("end", window=2) & Padding(torch.tensor([6, 4]))
    weights = attend(q[:, :, 4:], k, v, over=over).map.weights()
    assert ((weights[0] > 0).sum(-1) == 2).all() and (weights[1, :, 1] == 0).all()
    assert "window=2" in str(Causal(window=2))
    with pytest.raises(ValueError, match="Causal\\(window=0\\): expected a whole number"):
        Causal(window=0)


def test_a_causal_window_is_recorded_with_its_window(qkv, tmp_path):
    layer = regard.nn.Attention(8, heads=2)
    with regard.record(layer) as rec:
        layer(qkv[0][:, 0], over=Causal(window=2))
    loaded = regard.load(rec.save(tmp_path / "a.regard"))
    assert_close(next(iter(loaded.maps.values())).weights(), next(iter(rec.maps.values())).weights())
    assert (next(iter(loaded.maps.values())).weights() > 0).sum(-1).max() == 2


# scores and alignments by other names


def test_a_modifier_alone_is_one_of_the_scaled_dot_product(qkv):
    assert torch.equal(attend(*qkv, score=ALiBi(4)).out, attend(*qkv, score=ScaledDot() | ALiBi(4)).out)
    x = torch.randn(2, 5, 16)
    layer = regard.nn.Attention(16, heads=4, score=ALiBi(4))
    assert isinstance(layer(x), Attended) and isinstance(layer.score.score, ScaledDot)


@pytest.mark.parametrize(
    "other, own", [*SCORES_ALSO.items(), ("Scaled-Dot attention", "scaled_dot"), ("Bahdanau", "additive")]
)
def test_scores_answer_to_their_other_names(qkv, other, own):
    assert torch.equal(attend(*qkv, score=other).out, attend(*qkv, score=own).out)
    layer = regard.nn.Attention(16, heads=4, score=other)
    assert type(layer.score) is type(regard.nn.Attention(16, heads=4, score=own).score)


@pytest.mark.parametrize("other, own", [x for x in ALIGNMENTS_ALSO.items() if x[1] != "reinforced"])
def test_alignments_answer_to_their_other_names(qkv, other, own):
    assert torch.equal(attend(*qkv, align=other).out, attend(*qkv, align=own).out)


@pytest.mark.parametrize("name", sorted(set(ELSEWHERE) - {"rotary"}))
def test_names_of_other_things_are_answered_by_the_line_for_them(qkv, name):
    with pytest.raises(ValueError, match=f"score={name!r}: it|score={name!r}: heads are an axis"):
        attend(*qkv, score=name)


def test_near_misses_are_told(qkv):
    for given, says in (
        ({"score": "addative"}, "did you mean 'additive'"),
        ({"align": "sofmax"}, "did you mean 'softmax'"),
        ({"score": "softmax"}, "one of the other kind, align='softmax'"),
        ({"align": "dot"}, "one of the other kind, score='dot'"),
    ):
        with pytest.raises(ValueError, match=says):
            attend(*qkv, **given)


@pytest.mark.parametrize("name", sorted(BACKENDS_ELSEWHERE))
def test_backends_of_other_libraries_are_answered(qkv, name):
    with pytest.raises(ValueError, match=rf"backend={name!r}: .*Backends here are"):
        attend(*qkv, backend=name)
    with pytest.raises(ValueError, match="did you mean 'reference'"):
        attend(*qkv, backend="referense")


def test_arrays_of_numpy_are_answered(qkv):
    with pytest.raises(TypeError, match=r"q is a ndarray.*torch.from_numpy\(q\)"):
        attend(*(x.numpy() for x in qkv))


def test_attributes_of_regard_are_answered():
    for name, says in (
        ("RoPE", "here it is regard.Rotary"),
        ("softmax", "it is regard.Softmax"),
        ("Sofmax", "did you mean"),
        ("GATv2Conv", "it is regard.nn.GATv2Conv"),
        ("Logger", "it is regard.recording.Logger"),
        ("ring_attention", "here it is regard.integrations.distributed.attend_sharded"),
        ("flash_attn_varlen_func", "here it is regard.attend_packed"),
    ):
        with pytest.raises(AttributeError, match=says):
            getattr(regard, name)
    with pytest.raises(AttributeError, match=r"did you mean regard.nn.Attention\?"):
        regard.nn.Atention  # noqa: B018
    with pytest.raises(AttributeError, match=r"it is regard.Softmax"):
        regard.nn.Softmax  # noqa: B018
    assert not hasattr(regard, "__wrapped__") and not hasattr(regard, "gqa")


def test_every_answer_names_something_that_exists():
    for answer in ATTRIBUTES.values():
        for name in re.findall(r"\bregard(?:\.\w+)+", f"regard.{answer}"):
            resolve_name(name)


def test_a_slip_of_a_word_of_torch_names_the_word():
    q = torch.randn(1, 2, 4, 8)
    with pytest.raises(TypeError, match=r"did you mean is_causal\?$"):
        regard.attend(q, q, q, is_causl=True)
    with pytest.raises(TypeError, match=r"did you mean key_padding_mask\? write over=Padding"):
        regard.attend(q, q, q, key_paddin_mask=None)


def test_a_slip_of_a_name_is_found_in_every_module():
    with pytest.raises(AttributeError, match=r"did you mean regard\.nn\.Attention\?"):
        _ = regard.Atention
