"""What holds for every composition: padding, emptiness, gradients, any score, any alignment, maps that are heard."""

import pytest
import torch
from tests.nn.compositions import CASES, built, call, inputs, maps_of
from torch.testing import assert_close

import regard
from regard import Additive, Entmax, Hard
from regard.nn import Composed

ALIGNMENTS = [*regard.alignments.NAMES, "reinforced"]
SIMPLEX = ("softmax", "sparsemax", "entmax15", "uniform", "hard", "gumbel", "local")
SCORES = ["general", "additive", "activated_general", "biased_general"]  # take queries and keys of two widths
every = pytest.mark.parametrize("name", CASES)
with_alignment = pytest.mark.parametrize("name", [name for name, case in CASES.items() if "align" in case.takes])
with_score = pytest.mark.parametrize("name", [name for name, case in CASES.items() if "score" in case.takes])


def padded(name):
    """Inputs with garbage after the length of each item; the last item is empty."""
    given, lengths = inputs(name), {}
    for key in CASES[name].sequences:
        longest = given[key].shape[1]
        lengths[key] = torch.tensor([longest, 2, 0])
        for item, length in enumerate(lengths[key].tolist()):
            given[key][item, length:] = 50 * torch.randn(longest - length, given[key].shape[-1], dtype=torch.float64)
    return given, lengths


@every
def test_padding_full_of_garbage_changes_nothing(name):
    made, (given, lengths) = built(name), padded(name)
    batch = call(name, made, given, lengths)
    for item in range(3):
        alone = {key: x[item : item + 1] for key, x in given.items()}
        for key, sizes in lengths.items():
            alone[key] = alone[key][:, : sizes[item]]
        single = call(name, made, alone)
        rows = slice(None) if CASES[name].rows_of is None else slice(0, int(lengths[CASES[name].rows_of][item]))
        assert_close(batch.out[item, rows], single.out[0])


@every
def test_padding_gets_neither_weight_nor_gradient(name):
    made, (given, lengths) = built(name), padded(name)
    for x in given.values():
        x.requires_grad_()
    found, rows_of = call(name, made, given, lengths), CASES[name].rows_of
    out = found.out
    if rows_of is not None:  # a padded row is somebody else's to ignore
        out = out * (torch.arange(out.shape[1]) < lengths[rows_of][:, None])[..., None]
    out.square().sum().backward()
    for key, sizes in lengths.items():
        beyond = torch.arange(given[key].shape[1]) >= sizes[:, None]
        assert given[key].grad[beyond].abs().max() == 0
    for x in [*given.values(), *made.parameters()]:
        assert x.grad is None or x.grad.isfinite().all()


@every
def test_an_empty_input_gives_finite_numbers_and_no_weight(name):
    made, given = built(name), inputs(name)
    none = {key: torch.zeros(3, dtype=torch.long) for key in CASES[name].sequences}
    found = call(name, made, given, none)
    assert found.out.isfinite().all()
    empty = {key: x[:, :0] if key in none else x for key, x in given.items()}
    assert call(name, made, empty).out.isfinite().all()
    if name in ("external", "double", "squeeze", "efficient channels", "cbam", "channels", "dual"):
        return  # these also attend to what is no position: a memory, channels, descriptors, themselves
    for amap in maps_of(found).values():
        assert amap.weights().abs().max() == 0


@every
def test_gradients_are_those_of_finite_differences(name):
    made, (given, lengths) = built(name), padded(name)
    given = {key: x[:2] for key, x in given.items()}
    lengths = {key: sizes[:2] for key, sizes in lengths.items()}
    names, tensors = zip(*given.items(), strict=True)

    def run(*tensors):
        out = call(name, made, dict(zip(names, tensors, strict=True)), lengths).out
        rows_of = CASES[name].rows_of
        return out if rows_of is None else out[1, :2]

    assert torch.autograd.gradcheck(run, [x.clone().requires_grad_() for x in tensors], atol=1e-6)


@every
def test_every_parameter_learns(name):
    made, given = built(name), inputs(name)
    call(name, made, given).out.square().sum().backward()
    policy = "read"  # chosen by a draw, which has no gradient; its loss is tested where it stands
    still = [label for label, p in made.named_parameters() if p.grad is None and not label.startswith(policy)]
    assert still == []


@with_alignment
@pytest.mark.parametrize("align", ALIGNMENTS)
def test_any_alignment_by_name(name, align):
    made, (given, lengths) = built(name, align=align), padded(name)
    if name in ("channels", "dual") and align in ("local_predictive", "reinforced"):
        with pytest.raises(ValueError, match="build it for that width"):  # channels are as wide as the image
            call(name, made, given, lengths)
        return
    found = call(name, made, given, lengths)
    assert found.out.isfinite().all()
    for step, amap in maps_of(found).items():
        mass = amap.weights()[0].sum(-1)
        assert mass.isfinite().all()
        if align in SIMPLEX and step != "gate":
            assert_close(mass[mass != 0], torch.ones_like(mass[mass != 0]))


@with_alignment
def test_an_alignment_as_an_object_is_the_one_of_its_name(name):
    given = inputs(name)
    assert_close(
        call(name, built(name, align=Entmax(1.5)), given).out, call(name, built(name, align="entmax15"), given).out
    )


@with_score
@pytest.mark.parametrize("score", SCORES)
def test_any_score_by_name(name, score):
    made, (given, lengths) = built(name, score=score), padded(name)
    found = call(name, made, given, lengths)
    assert found.out.isfinite().all()
    other = call(name, built(name, score="additive" if score != "additive" else "general"), given, lengths)
    assert not torch.equal(found.out, other.out)


@with_score
def test_a_score_may_be_built_by_a_function_of_its_widths(name):
    if name in ("self-attention", "non-local", "dual"):
        with pytest.raises(TypeError, match="expected a name or a Score object"):  # they are of nn.Attention
            built(name, score=lambda d_q, d_k: Additive(d_q, d_k, width=7))
        return
    made = built(name, score=lambda d_q, d_k: Additive(d_q, d_k, width=7))
    widths = {module.query.shape[1] for module in made.modules() if isinstance(module, Additive)}
    assert widths == {7}
    assert call(name, made, inputs(name)).out.isfinite().all()


def test_steps_never_share_the_parameters_of_a_score_object():
    score = Additive(4, 4)
    made = regard.nn.InteractiveCoAttention(4, score=score)
    kept = {id(p) for p in made.parameters()}
    assert len(kept) == 8
    assert kept.isdisjoint(id(p) for p in score.parameters())


def test_draws_are_kept_by_step_in_training_mode_alone():
    made, given = built("alternating", align=Hard()), inputs("alternating")
    made.train()
    drawn = call("alternating", made, given)
    assert set(drawn.samples) == {"summary", "second", "first"}
    assert drawn.samples["first"].log_prob.requires_grad
    assert drawn.steps["first"].map.weights().max() == 1


def test_dropout_falls_on_weights_in_training_mode_alone():
    torch.manual_seed(0)
    made, given = regard.nn.AttentionPooling(4, dropout=0.5).double(), inputs("pooling")
    assert not torch.equal(made(**given).out, made.eval()(**given).out)
    assert_close(made(**given).out, made(**given).out)


def test_a_result_unpacks_into_output_and_maps():
    made, given = built("rotatory"), inputs("rotatory")
    out, maps = made(**given)
    assert out.shape == (3, 13)
    assert list(maps) == ["left", "right", "left_target", "right_target"]


def test_a_result_passes_through_the_tree_of_torch():
    found = call("interactive", built("interactive"), inputs("interactive"))
    leaves, spec = torch.utils._pytree.tree_flatten(found)
    again = torch.utils._pytree.tree_unflatten(leaves, spec)
    assert isinstance(again, Composed)
    assert torch.equal(again.out, found.out)
    assert torch.equal(again.maps["first"].weights(), found.maps["first"].weights())


@pytest.mark.parametrize(
    ("name", "sites"),
    [
        ("alternating, untied", {"summary", "second", "first"}),
        ("rotatory", {"turns.0.left", "turns.0.right", "turns.0.left_target", "turns.0.right_target"}),
        ("capsules", {"capsules", "whole"}),
        ("cbam", {"of_channels", "of_places"}),
    ],
)
def test_recording_hears_each_step_where_it_stands(name, sites):
    made, given = built(name), inputs(name)
    with regard.record(made) as rec:
        found = call(name, made, given)
    assert sites == set(rec.maps)
    heard = {name: rec.maps[name].weights() for name in sites}
    assert {tuple(w.shape) for w in heard.values()} <= {amap.shape for amap in found.maps.values()}


def test_compiled_for_all_lengths_it_gives_the_same():
    name, made = "pooling", built("pooling", torch.float32)
    fast = torch.compile(made, fullgraph=True, dynamic=True, backend="aot_eager")
    for length in (4, 6):
        given = inputs(name, length=length, dtype=torch.float32)
        lengths = {key: torch.tensor([length, 2, 1]) for key in CASES[name].sequences}
        assert_close(call(name, fast, given, lengths).out, call(name, made, given, lengths).out)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@every
def test_other_precisions_run(name, dtype):
    found = call(name, built(name, dtype), inputs(name, dtype=dtype))
    exact = call(name, built(name), inputs(name))
    assert found.out.dtype == dtype
    far = (found.out.double() - exact.out).abs().max() / exact.out.abs().max()
    assert far < (1e-4 if dtype == torch.float32 else 0.2)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: regard.nn.Attend(0, 4), "whole number"),
        (lambda: regard.nn.Attend(4, 4, dropout=1.0), "probability"),
        (lambda: regard.nn.Attend(4, 3, "dot"), "one width"),
        (lambda: regard.nn.Attend(4, 4, Additive), "name, a Score object or a function"),
        (lambda: regard.nn.Attend(4, 4, align=3), "an Alignment object"),
        (lambda: regard.nn.ParallelCoAttention(4, 3, combine="sum"), "make them equal"),
        (lambda: regard.nn.ParallelCoAttention(4, reading="mean"), "aggregated"),
        (lambda: regard.nn.ParallelCoAttention(4, score=Additive(4, features=4)), "one number for each pair"),
        (lambda: regard.nn.MultiGrainedCoAttention(4, form="x"), "survey"),
        (lambda: regard.nn.RotatoryAttention(4, hops=0), "1 or more"),
        (lambda: regard.nn.MultiHopAttention(4, 3, transform="stacked"), "make them equal"),
        (lambda: regard.nn.MultiHopAttention(4, transform="lstm"), "one of identity"),
        (lambda: regard.nn.HierarchicalAttention([4, 4], 3), "one width, or 3"),
        (lambda: regard.nn.HierarchicalAttention(4, between=[]), "each level but the first"),
        (lambda: regard.nn.MultiRepresentationalAttention([], 4), "one embedding or more"),
        (lambda: regard.nn.EfficientChannelAttention(4, 2), "odd"),
        (lambda: regard.nn.DirectionalSelfAttention(4, direction="up"), "forward"),
    ],
)
def test_a_wrong_argument_is_told_what_was_expected(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


def test_a_wrong_width_names_the_shape():
    with pytest.raises(ValueError, match=r"\(3, 5, 3\), expected a tensor \(..., length, 4\)"):
        regard.nn.AttentionPooling(4)(torch.zeros(3, 5, 3))
    with pytest.raises(ValueError, match=r"query\[..., None, :\]"):
        regard.nn.MultiHopAttention(4, transform="stacked")(torch.zeros(3, 5), torch.zeros(3, 5, 4))
    with pytest.raises(ValueError, match="expected \\(batch, 4, height, width\\)"):
        regard.nn.SqueezeExcitation(4)(torch.zeros(1, 3, 2, 2))
