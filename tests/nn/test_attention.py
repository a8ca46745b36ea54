"""nn.Attention: heads, projections, every score with every alignment, structures, padding, empty rows."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import regard
from regard import (
    Additive,
    ALiBi,
    Causal,
    Edges,
    Entmax,
    Full,
    Mask,
    Padding,
    Reinforced,
    Rotary,
    ScaledDot,
    Segments,
    TopK,
    Window,
    attend,
)
from regard.core.scores import SCORES
from regard.nn import Attention, build_score

ALIGNMENTS = (*regard.alignments.NAMES, "reinforced")
IGNORE_THE_QUERY = ("query_free", "learned_query")
NEVER_POSITIVE = ("gaussian", "laplace")  # minus a distance: ReLU leaves nothing of it


def inputs(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layer(*sizes: int, **options) -> Attention:
    torch.manual_seed(0)
    made = Attention(*sizes, dtype=torch.float64, **options)
    for name, parameter in made.named_parameters():
        if name.endswith("bias"):  # zero at first, and then a wrong bias would not show
            torch.nn.init.normal_(parameter, std=0.3)
    return made.eval()


def identity(heads: int, dim: int) -> Attention:
    made = layer(dim, heads, bias=False)
    for proj in (made.q_proj, made.k_proj, made.v_proj, made.out_proj):
        torch.nn.init.eye_(proj.weight)
    return made


def test_one_head_with_identity_projections_is_the_scaled_dot():
    x = inputs(2, 5, 8)
    out, amap = identity(1, 8)(x)
    bare = attend(x[:, None], x[:, None], x[:, None])
    assert_close(out, bare.out[:, 0])
    assert_close(amap.weights(), bare.map.weights())


def test_each_head_attends_with_its_own_slice():
    x = inputs(2, 5, 8)
    out, amap = identity(2, 8)(x)
    for head in range(2):
        part = x[..., 4 * head : 4 * head + 4]
        alone = attend(part[:, None], part[:, None], part[:, None])
        assert_close(out[..., 4 * head : 4 * head + 4], alone.out[:, 0])
        assert_close(amap.weights()[:, head], alone.map.weights()[:, 0])


def test_permuting_heads_with_the_blocks_of_the_output_matrix_changes_nothing():
    x, made = inputs(2, 6, 12), layer(12, 3, d_k=5, d_v=2)
    out, amap = made(x)
    order = torch.tensor([2, 0, 1])
    with torch.no_grad():
        for proj, width in ((made.q_proj, 5), (made.k_proj, 5), (made.v_proj, 2)):
            proj.weight.copy_(proj.weight.unflatten(0, (3, width))[order].flatten(0, 1))
            proj.bias.copy_(proj.bias.unflatten(0, (3, width))[order].flatten())
        made.out_proj.weight.copy_(made.out_proj.weight.unflatten(1, (3, 2))[:, order].flatten(1))
    permuted, pmap = made(x)
    assert_close(permuted, out)
    assert_close(pmap.weights(), amap.weights()[:, order])


def test_self_attention_is_permutation_equivariant():
    x, made, order = inputs(1, 6, 8), layer(8, 2), torch.tensor([3, 0, 5, 1, 4, 2])
    assert_close(made(x[:, order]).out, made(x).out[:, order])


def test_sizes_need_not_divide():
    made = layer(10, 3, d_k=4, d_v=7, key_dim=6, value_dim=5, out_dim=9)
    out, amap = made(inputs(2, 4, 10), inputs(2, 11, 6, seed=1), inputs(2, 11, 5, seed=2))
    assert out.shape == (2, 4, 9)
    assert amap.shape == (2, 3, 4, 11)


def test_values_are_the_keys_unless_given():
    made, query, memory = layer(8, 2, key_dim=6), inputs(2, 3, 8), inputs(2, 5, 6)
    assert made.value_dim == 6
    assert_close(made(query, memory).out, made(query, memory, memory).out)


@pytest.mark.parametrize("lead", [(), (3,), (2, 3)], ids=["unbatched", "batch", "two batch axes"])
def test_any_number_of_batch_axes(lead):
    x, made = inputs(6, 5, 8), layer(8, 2)
    batched = made(x)
    count = 1
    for size in lead:
        count *= size
    out, amap = made(x[:count].reshape(*lead, 5, 8))
    assert out.shape == (*lead, 5, 8)
    assert amap.shape == (*lead, 2, 5, 5)
    assert_close(out.reshape(-1, 5, 8), batched.out[:count])
    assert_close(amap.weights().reshape(-1, 2, 5, 5), batched.map.weights()[:count])


def test_grouped_queries_equal_the_keys_repeated():
    x, grouped, whole = inputs(2, 5, 12), layer(12, 6, kv_heads=2), layer(12, 6)
    with torch.no_grad():
        for name in ("q_proj", "out_proj"):
            getattr(whole, name).load_state_dict(getattr(grouped, name).state_dict())
        for name in ("k_proj", "v_proj"):
            few, many = getattr(grouped, name), getattr(whole, name)
            many.weight.copy_(few.weight.unflatten(0, (2, 2)).repeat_interleave(3, 0).flatten(0, 1))
            many.bias.copy_(few.bias.unflatten(0, (2, 2)).repeat_interleave(3, 0).flatten())
    assert_close(grouped(x).out, whole(x).out)
    assert_close(grouped(x).map.weights(), whole(x).map.weights())


@pytest.mark.parametrize("align", ALIGNMENTS)
@pytest.mark.parametrize("score", SCORES.built)
def test_every_score_with_every_alignment_runs_and_teaches_its_parameters(score, align):
    if score == "location_aware" and align == "monotonic":  # two stepwise mechanisms have no order between them
        with pytest.raises(ValueError, match="LocationAware and Monotonic do not fit"):
            layer(8, 2, score=score, align=align)
        return
    made = layer(8, 2, score=score, align=align).train()
    query, memory = inputs(2, 5, 8), inputs(2, 6, 8, seed=1)
    found = made(query, memory, seed=3)
    assert found.out.shape == (2, 5, 8)
    assert found.map.shape == (2, 2, 5, 6)
    loss = found.out.square().sum()
    if found.sample is not None:
        loss = loss + found.sample.log_prob.sum()
    loss.backward()
    if align in ("relu", "softpick") and score in NEVER_POSITIVE:
        assert bool((found.map.weights() == 0).all())
        return
    learns = {name for name, p in made.named_parameters() if p.grad is not None and bool(p.grad.abs().max() > 0)}
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in made.parameters())
    wanted = {"v_proj.weight", "v_proj.bias", "out_proj.weight", "out_proj.bias"}
    scores_count = align != "uniform" and not (align == "hard" and found.sample is None)
    if scores_count:
        wanted.add("k_proj.weight")
        wanted |= {f"score.{name}" for name, _ in made.score.named_parameters()}
    if (scores_count and score not in IGNORE_THE_QUERY) or align == "local_predictive":
        wanted.add("q_proj.weight")
    wanted |= {f"align.{name}" for name, _ in made.align.named_parameters()}
    assert wanted <= learns, f"without a gradient: {sorted(wanted - learns)}"


def test_a_name_builds_parameters_for_each_head():
    made = layer(8, 2, score="additive")
    assert made.score.query.shape == (2, 4, 4)
    assert sum(p.numel() for p in layer(8, 2, score="gaussian").score.parameters()) == 2
    assert isinstance(build_score("concat", 3, 5, heads=2), Additive)
    assert build_score("general", 3, 5, heads=2).matrix.shape == (2, 5, 3)


@pytest.mark.parametrize("name", ["gaussian", "laplace"])
def test_distances_by_name_start_as_soft_as_scaled_dot(name):
    q, k = inputs(1, 1, 200, 64), inputs(1, 1, 200, 64, seed=1)
    spread = build_score(name, 64, 64).double()(q, k).std(-1).mean()
    soft = ScaledDot()(q, k).std(-1).mean()
    assert 0.5 < spread / soft < 2


def test_a_score_object_is_used_as_it_is():
    score = ScaledDot() | ALiBi(heads=2)
    made, x = layer(8, 2, score=score), inputs(2, 5, 8)
    assert made.score is score
    q, k = (proj(x).unflatten(-1, (2, 4)).transpose(1, 2) for proj in (made.q_proj, made.k_proj))
    assert_close(made(x).map.weights(), attend(q, k, k, score=score).map.weights())


def test_a_learned_alpha_by_head_is_trained():
    made = layer(8, 2, align=Entmax(1.5, learned=True, heads=2))
    made(inputs(2, 5, 8)).out.square().sum().backward()
    assert made.align.raw.grad.shape == (2,)
    assert bool((made.align.raw.grad != 0).all())


def test_feature_wise_weights_have_an_axis_of_their_own():
    made = layer(8, 2, d_v=3, score=Additive(4, heads=2, features=3))
    out, amap = made(inputs(2, 5, 8))
    assert out.shape == (2, 5, 8)
    assert amap.shape == (2, 2, 3, 5, 5)
    assert_close(amap.weights().sum(-1), torch.ones(2, 2, 3, 5, dtype=torch.float64))


@pytest.mark.parametrize(
    "over",
    [
        Full(),
        Causal(),
        Window(1, 2),
        Padding(torch.tensor([3, 6])),
        Mask(keep=torch.eye(6, dtype=torch.bool)),
        Segments(torch.tensor([0, 0, 1, 1, 1, 2])),
        Edges(torch.tensor([[0, 1, 2], [1, 2, 5]])),
        Causal() & Window(2, 0),
    ],
    ids=str,
)
def test_any_structure_is_handed_on(over):
    made, x = layer(8, 2), inputs(2, 6, 8)
    q, k, v = (proj(x).unflatten(-1, (2, 4)).transpose(1, 2) for proj in (made.q_proj, made.k_proj, made.v_proj))
    bare = attend(q, k, v, over=over)
    found = made(x, over=over)
    assert_close(found.out, made.out_proj(bare.out.transpose(1, 2).flatten(-2)))
    assert_close(found.map.weights(), bare.map.weights())


@pytest.mark.parametrize("garbage", [1e3, float("nan")])
@pytest.mark.parametrize("align", ["softmax", "entmax15", "sigmoid", "local_predictive", "reinforced"])
@pytest.mark.parametrize("score", ["scaled_dot", "additive", "gaussian"])
def test_a_padded_batch_equals_its_items(score, align, garbage):
    made, lengths = layer(8, 2, score=score, align=align), [4, 6, 1]
    x, memory = inputs(3, 5, 8), inputs(3, 6, 8, seed=1)
    for item, length in enumerate(lengths):
        memory[item, length:] = garbage
    out, amap = made(x, memory, over=Padding(torch.tensor(lengths)))
    for item, length in enumerate(lengths):
        alone = made(x[item], memory[item, :length])
        assert_close(out[item], alone.out)
        assert_close(amap[item].weights()[..., :length], alone.map.weights())
        assert bool((amap[item].weights()[..., length:] == 0).all())


@pytest.mark.parametrize("align", [*regard.alignments.NAMES, "reinforced"])
@pytest.mark.parametrize("score", ["scaled_dot", "additive", "cosine", "trilinear"])
def test_a_row_without_a_key_gives_the_bias_and_no_gradient(score, align):
    made, x = layer(8, 2, score=score, align=align), inputs(2, 4, 8)
    memory = inputs(2, 5, 8, seed=1).requires_grad_()
    found = made(x, memory, over=Padding(torch.tensor([0, 5])))
    assert_close(found.out[0], made.out_proj.bias.expand(4, 8))
    assert bool((found.map.weights()[0] == 0).all())
    found.out.sum().backward()
    assert bool((memory.grad[0] == 0).all())
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in made.parameters())


def test_no_keys_at_all():
    made, x = layer(8, 2), inputs(2, 4, 8)
    out, amap = made(x, x[:, :0])
    assert_close(out, made.out_proj.bias.expand(2, 4, 8))
    assert amap.shape == (2, 2, 4, 0)


def test_dropout_only_in_training_and_repeatable_by_seed():
    made, x = layer(8, 2, dropout=0.5), inputs(2, 6, 8)
    assert_close(made(x).out, made(x).out)
    made.train()
    assert_close(made(x, seed=7).out, made(x, seed=7).out)
    assert not torch.equal(made(x, seed=7).out, made(x, seed=8).out)
    assert_close(made(x, seed=7, backend="reference").out, made(x, seed=7, backend="chunked").out)


def test_alignments_draw_in_training_and_decide_in_evaluation():
    made, x = layer(8, 2, align="hard"), inputs(2, 40, 8)
    best = made(x)
    assert bool((best.map.weights().argmax(-1) == made(x).sample.index).all())
    made.train()
    drawn = [made(x, seed=seed).sample.index for seed in (1, 2)]
    assert not torch.equal(*drawn)
    assert made(x, seed=1).sample.log_prob.shape == (2, 2, 40)


def test_the_policy_of_reinforced_attention_is_passed_through():
    made = layer(8, 2, align=Reinforced(4)).train()
    sample = made(inputs(2, 5, 8), seed=0).sample
    assert sample.index.shape == (2, 2, 5)
    assert sample.log_prob.shape == (2, 2)


def test_top_k_keeps_k():
    weights = layer(8, 2, align=TopK(2))(inputs(2, 7, 8)).map.weights()
    assert bool(((weights > 0).sum(-1) == 2).all())


def test_rotary_makes_weights_depend_on_distance_alone():
    made, x = layer(8, 2, rotary=True), inputs(1, 1, 8).expand(1, 6, 8)
    weights = made(x, over=Causal()).map
    last = attend_logits(weights.weights())
    assert_close(last[..., 4, 1:5], last[..., 5, 2:6])


def attend_logits(weights: Tensor) -> Tensor:
    """Differences of log-weights within a row: what the scores say, whatever the sum of the row."""
    return weights.log() - weights.log().diagonal(dim1=-2, dim2=-1)[..., None]


@pytest.mark.parametrize("rotary", [True, 10000.0, Rotary(4), 500.0])
def test_rotary_by_flag_base_or_object(rotary):
    made, x = layer(8, 2, rotary=rotary), inputs(2, 5, 8)
    base = 500.0 if rotary == 500.0 else 10000.0
    q, k, v = (proj(x).unflatten(-1, (2, 4)).transpose(1, 2) for proj in (made.q_proj, made.k_proj, made.v_proj))
    turn = Rotary(4, base=base)
    bare = attend(turn(q), turn(k), v)
    assert_close(made(x).out, made.out_proj(bare.out.transpose(1, 2).flatten(-2)))


def test_a_stepwise_score_hands_its_state_from_step_to_step():
    made, x, memory = layer(8, 2, score="location_aware"), inputs(2, 4, 8), inputs(2, 6, 8, seed=1)
    whole = made(x, memory)
    state, steps = None, []
    for t in range(4):
        step = made(x[:, t : t + 1], memory, state=state)
        state = step.state
        steps.append(step.out)
    assert_close(torch.cat(steps, 1), whole.out)


def test_a_plan_says_what_a_call_would_run():
    made, x = layer(8, 2, kv_heads=1), inputs(2, 5, 8)
    assert made.plan(x).backend == "sdpa"
    assert made.plan(x, over=Window(1, 1)).backend != "sdpa"
    assert "Window" in " ".join(made.plan(x, over=Window(1, 1)).refusals["sdpa"])


def test_a_backend_by_name_never_falls_back():
    with pytest.raises(regard.Refused, match="softmax"):
        layer(8, 2, align="entmax15")(inputs(2, 5, 8), backend="sdpa")


def test_results_of_a_layer_are_not_merged_by_mistake():
    made, x, memory = layer(8, 2), inputs(2, 4, 8), inputs(2, 6, 8, seed=1)
    with pytest.raises(regard.Refused, match="A layer mixes its heads"):
        made(x, memory[:, :3]).merge(made(x, memory[:, 3:]))
