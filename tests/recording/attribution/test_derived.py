"""Derived maps: against eager attention and autograd on small models, and on weights whose truth is known by hand."""

from itertools import combinations, product

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import regard
from regard import derived
from regard.core.maps.stored import StoredMap

transformers = pytest.importorskip("transformers")


def bert():
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=48, num_labels=3
    )
    model = transformers.BertForSequenceClassification(config).eval()
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[1, 6:] = 0
    return model, {"input_ids": torch.randint(1, 50, (2, 9)), "attention_mask": mask}


def llama():
    config = transformers.LlamaConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=48,
    )
    return transformers.LlamaForCausalLM(config).eval(), {"input_ids": torch.randint(1, 50, (2, 8))}


def t5():
    config = transformers.T5Config(
        vocab_size=50, d_model=32, d_kv=8, num_heads=4, num_layers=2, num_decoder_layers=2, d_ff=48
    )
    model = transformers.T5ForConditionalGeneration(config).eval()
    mask = torch.ones(2, 7, dtype=torch.long)
    mask[0, 5:] = 0
    return model, {
        "input_ids": torch.randint(1, 50, (2, 7)),
        "attention_mask": mask,
        "decoder_input_ids": torch.randint(1, 50, (2, 5)),
    }


def vit():
    config = transformers.ViTConfig(
        image_size=12,
        patch_size=4,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        num_labels=4,
    )
    return transformers.ViTForImageClassification(config).eval(), {"pixel_values": torch.randn(2, 3, 12, 12)}


MODELS = {"bert": bert, "llama": llama, "t5": t5, "vit": vit}


class Case:
    """A model recorded on its own kernel, and what eager attention and autograd say: weights and gradients by layer."""

    def __init__(self, name: str):
        torch.manual_seed(0)
        self.model, self.inputs = MODELS[name]()
        for parameter in self.model.parameters():  # weights far from uniform
            if parameter.ndim == 2:
                parameter.data.mul_(3.0)
        self.model.set_attn_implementation("sdpa")
        with regard.record(self.model, grad=True, values=True) as self.rec:
            self.out = self.model(**self.inputs)

    def eager(self, score):
        """(kind, weights, gradient) in the order in which layers ran."""
        self.model.set_attn_implementation("eager")
        out = self.model(**self.inputs, output_attentions=True)
        if "decoder_attentions" in out:
            named = [("source", a) for a in out.encoder_attentions]
            for own, cross in zip(out.decoder_attentions, out.cross_attentions, strict=True):
                named += [("target", own), ("cross", cross)]
        else:
            named = [("source", a) for a in out.attentions]
        gradients = torch.autograd.grad(score(out), [a for _, a in named])
        return [(kind, a.detach(), g) for (kind, a), g in zip(named, gradients, strict=True)]


@pytest.fixture(scope="module", params=list(MODELS))
def case(request):
    return Case(request.param)


def seen(case, x):
    """Without the rows and columns of padding, which mean nothing."""
    mask = case.inputs.get("attention_mask")
    if mask is None:
        return x
    n, m = x.shape[-2:]
    rows = mask if n == mask.shape[1] else torch.ones(len(mask), n)
    columns = mask if m == mask.shape[1] else torch.ones(len(mask), m)
    return x * (rows[:, None, :, None] * columns[:, None, None, :])


def test_the_gradient_of_every_weight_is_that_of_eager_attention(case):
    made = derived.gradient_times_attention(case.rec, case.out, target=2, contrast=1, position=-2)
    expected = case.eager(lambda out: _choose(out, 2) - _choose(out, 1))
    assert len(made) == len(expected)
    for name, (_, weights, gradient) in zip(made, expected, strict=True):
        found, open_pairs = case.rec.gradients[name].weights(), weights > 0  # T5 closes pairs by a very low bias
        assert_close(seen(case, found * open_pairs), seen(case, gradient * open_pairs), atol=1e-5, rtol=1e-4)
        assert_close(seen(case, made[name].weights()), seen(case, gradient * weights), atol=1e-5, rtol=1e-4)


def _choose(out, index):
    return (out.logits[:, -2] if out.logits.ndim == 3 else out.logits)[:, index].sum()


def test_relevance_is_the_update_rule_over_eager_attention(case):
    layers = case.eager(lambda out: _choose(out, 2) - _choose(out, 1))
    kinds = {kind for kind, _, _ in layers}
    sizes = {kind: w.shape[-2:] for kind, w, _ in layers}
    source = torch.eye(sizes["source"][0]).repeat(2, 1, 1)
    target = torch.eye(sizes.get("target", (1,))[0]).repeat(2, 1, 1)
    cross = torch.zeros(2, *sizes.get("cross", (1, 1)))

    def bar(x):
        hat = x - torch.eye(x.shape[-1])
        return torch.eye(x.shape[-1]) + torch.nan_to_num(hat / hat.sum(-1, keepdim=True))

    for kind, weights, gradient in layers:
        a = (weights * gradient).relu().mean(1)
        if kind == "source":
            source = source + a @ source
        elif kind == "target":
            target, cross = target + a @ target, cross + a @ cross
        else:
            cross = cross + bar(target).mT @ a @ bar(source)
    for part, expected in (("source", source), ("target", target), ("cross", cross)):
        if part in kinds:
            made = derived.relevance(case.rec, case.out, target=2, contrast=1, position=-2, part=part)
            assert_close(seen(case, made.weights()), seen(case, expected[:, None]), atol=1e-5, rtol=1e-4)


def test_rollout_is_the_product_of_layers_and_its_parts_sum_to_one(case):
    layers = case.eager(lambda out: _choose(out, 2))
    made = derived.rollout(case.rec)
    source = target = cross = None
    for kind, weights, _ in layers:
        a = weights.mean(1)
        half = lambda x, y: 0.5 * x + 0.5 * y  # noqa: E731
        if kind == "source":
            source = torch.eye(a.shape[-1]).repeat(2, 1, 1) if source is None else source
            source = half(source, a @ source)
        elif kind == "target":
            target = torch.eye(a.shape[-1]).repeat(2, 1, 1) if target is None else target
            cross = torch.zeros(2, a.shape[-1], source.shape[-1]) if cross is None else cross
            target, cross = half(target, a @ target), half(cross, a @ cross)
        else:
            target, cross = 0.5 * target, half(cross, a @ source)
    expected = source if cross is None else cross
    assert_close(seen(case, made.weights()), seen(case, expected[:, None]), atol=1e-5, rtol=1e-4)
    total = made.weights().sum(-1)
    if cross is not None:
        own = derived.rollout(case.rec, part="target").weights()
        assert_close(own, target[:, None], atol=1e-5, rtol=1e-4)
        total = total + own.sum(-1)
    assert_close(total, torch.ones_like(total))


def test_padding_changes_no_row_of_a_token():
    torch.manual_seed(1)
    model, inputs = bert()
    with regard.record(model, grad=True) as padded:
        out = model(**inputs)
    alone = {name: x[1:, :6] for name, x in inputs.items()}
    with regard.record(model, grad=True) as short:
        single = model(**alone)
    assert_close(derived.rollout(padded)[1].weights()[:, :6, :6], derived.rollout(short)[0].weights())
    assert derived.rollout(padded)[1].weights()[:, :6, 6:].abs().max() == 0
    relevance = derived.relevance(padded, out, target=0)[1].weights()[:, :6, :6]
    assert_close(relevance, derived.relevance(short, single, target=0)[0].weights())


def test_a_row_is_walked_alone_to_the_same_numbers(case, monkeypatch):
    whole = derived.rollout(case.rec)
    monkeypatch.setattr("regard.recording.attribution.rollout.WHOLE", 0)
    rows = derived.rollout(case.rec)
    assert_close(rows.row(2), whole.row(2))
    assert_close(rows[1].row(3), whole.weights()[1, :, 3])
    assert_close(rows.tile([4, 1], slice(1, 4)), whole.weights()[..., [4, 1], 1:4])


def test_gradients_leave_parameters_alone_and_can_be_asked_again(case):
    first = derived.relevance(case.rec, case.out, target=0).weights()
    derived.relevance(case.rec, case.out, target=1)
    assert_close(derived.relevance(case.rec, case.out, target=0).weights(), first)
    assert all(parameter.grad is None for parameter in case.model.parameters())


def test_a_map_keeps_its_own_target(case):
    first, other = (derived.relevance(case.rec, case.out, target=target) for target in (0, 1))
    cells = derived.gradient_times_attention(case.rec, case.out, target=0)
    derived.relevance(case.rec, case.out, target=2)
    assert_close(first.weights(), derived.relevance(case.rec, case.out, target=0).weights())
    assert not torch.allclose(first.weights(), other.weights())
    again = derived.gradient_times_attention(case.rec, case.out, target=0)
    assert all(torch.equal(cells[name].weights(), again[name].weights()) for name in cells)


def test_gradients_of_an_own_backward_pass_are_used_without_an_output():
    torch.manual_seed(0)
    model, inputs = bert()
    with regard.record(model, grad=True) as rec:
        out = model(**inputs)
    with pytest.raises(RuntimeError, match="no gradient yet"):
        derived.relevance(rec)
    out.logits[:, 1].sum().backward(retain_graph=True)
    assert_close(derived.relevance(rec).weights(), derived.relevance(rec, out, target=1).weights())


def test_a_function_a_list_of_ids_and_an_id_mean_the_same(case):
    def chosen(out):
        return (out.logits[:, -1] if out.logits.ndim == 3 else out.logits)[:, 2]

    one, each, function = (
        derived.relevance(case.rec, case.out, target=target, contrast=0).weights()
        for target in (2, torch.tensor([2, 2]), chosen)
    )
    assert_close(one, each)
    assert_close(one, function)


def test_without_a_target_the_largest_score_is_explained(case):
    logits = case.out.logits[:, -1] if case.out.logits.ndim == 3 else case.out.logits
    made = derived.relevance(case.rec, case.out).weights()
    assert_close(made, derived.relevance(case.rec, case.out, target=logits.argmax(-1)).weights())


def test_eager_models_have_gradients_too(tmp_path):
    torch.manual_seed(0)
    model, inputs = bert()
    maps = []
    for kernel in ("sdpa", "eager"):
        model.set_attn_implementation(kernel)
        with regard.record(model, grad=True) as rec:
            out = model(**inputs)
        maps.append(derived.relevance(rec, out, target=1).weights())
        rec.save(tmp_path / "run.regard")
        assert_close(derived.relevance(regard.load(tmp_path / "run.regard")).weights(), maps[-1])
    assert_close(maps[1][0], maps[0][0], atol=1e-6, rtol=1e-4)
    assert_close(maps[1][1, :, :6, :6], maps[0][1, :, :6, :6], atol=1e-6, rtol=1e-4)


def test_norms_are_those_of_what_a_head_adds_to_the_stream(case):
    made, together = derived.norms(case.rec), derived.norms(case.rec, together=True)
    assert len(made) == len(case.rec.maps)
    for name, amap in case.rec.maps.items():
        v = case.rec.values[name]
        v = v.repeat_interleave(amap.heads // v.shape[1], 1)
        projection = regard.recording.attribution.norms.output_projection(name, amap.heads * v.shape[-1], case.model)
        f = torch.einsum("bhmd,ohd->bhmo", v, projection.unflatten(1, (amap.heads, -1)))
        given = amap.weights()[..., None] * f[:, :, None]  # (B, H, n, m, d_out)
        assert_close(made[name].weights(), given.norm(dim=-1), atol=1e-5, rtol=1e-4)
        assert_close(together[name].weights()[:, 0], given.sum(1).norm(dim=-1), atol=1e-5, rtol=1e-4)
        assert_close(
            together[name][1].tile([2], [0, 3]), given.sum(1).norm(dim=-1)[1:, [2]][..., [0, 3]], atol=1e-5, rtol=1e-4
        )


def test_what_heads_hand_over_adds_up_to_the_attention_layers_output():
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(16, 4, batch_first=True)
    nn.init.normal_(layer.in_proj_bias)
    x = torch.randn(1, 5, 16)
    with regard.record(layer, values=True) as rec:
        out, _ = layer(x, x, x, need_weights=False)
    (name,) = rec.maps
    projection = regard.recording.attribution.norms.output_projection(name, 16, layer)
    f = torch.einsum("bhmd,ohd->bhmo", rec.values[name], projection.unflatten(1, (4, -1)))
    assert_close(torch.einsum("bhnm,bhmo->bno", rec.maps[name].weights(), f) + layer.out_proj.bias, out)


def test_a_projection_that_is_not_found_can_be_given():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(6, 6)

        def forward(self, x):
            return self.last(nn.functional.scaled_dot_product_attention(x, x, x)[:, 0])

    model, x = Own(), torch.randn(1, 1, 4, 6)
    with regard.record(model, values=True) as rec:
        model(x)
    with pytest.raises(ValueError, match="pass projection="):
        derived.norms(rec)
    made = derived.norms(rec, projection={"*": model.last.weight})["*"]
    expected = rec.maps["*"].weights() * (x @ model.last.weight.T).norm(dim=-1)[:, :, None]
    assert_close(made.weights(), expected)


# by hand


def stored(*layers):
    """Maps of one item and one head."""
    return [StoredMap((1, 1), torch.as_tensor(w, dtype=torch.float32)[None], rooted=False) for w in layers]


def drawn(n, count, seed=0, causal=False):
    torch.manual_seed(seed)
    scores = 2 * torch.randn(count, n, n)
    return list((scores.masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf) if causal else scores).softmax(-1))


def test_uniform_attention_without_a_residual_forgets_where_it_started():
    made = derived.rollout(stored(*drawn(4, 2), torch.full((4, 4), 0.25)), residual=0.0).weights()[0, 0]
    assert_close(made, made[:1].expand(4, 4))


def test_a_rollout_is_an_array_for_torch():
    layers = [regard.attend(*torch.randn(3, 2, 3, 5, 4)).map for _ in range(2)]
    rolled = derived.rollout(layers)
    assert_close(torch.as_tensor(rolled), rolled.weights())


def test_a_residual_of_one_is_the_identity():
    assert_close(derived.rollout(stored(*drawn(4, 3)), residual=1.0).weights()[0, 0], torch.eye(4))


def test_a_causal_model_rolls_out_nothing_from_later_tokens():
    made = derived.rollout(stored(*drawn(5, 3, causal=True))).weights()[0, 0]
    assert made.triu(1).abs().max() == 0
    assert_close(made.sum(-1), torch.ones(5))


def test_a_row_that_attends_nothing_keeps_itself_and_a_sink_is_normalised_away():
    w = torch.tensor([[0.0, 0.0], [0.2, 0.2]])
    made = derived.rollout(stored(w)).weights()[0, 0]
    assert_close(made, torch.tensor([[1.0, 0.0], [1 / 7, 6 / 7]]))


def test_flow_over_two_layers_is_the_sum_of_narrowest_pipes():
    first, second = drawn(5, 2)
    made = derived.flow(stored(first, second), residual=0.0).weights()[0, 0]
    assert_close(made, torch.minimum(second[:, :, None], first[None]).sum(1), atol=1e-6, rtol=0)


@pytest.mark.parametrize("causal", [False, True])
def test_flow_is_the_smallest_cut(causal):
    n, layers = 3, [0.5 * torch.eye(3) + 0.5 * w for w in drawn(3, 3, causal=causal)]
    made = derived.flow(stored(*drawn(3, 3, causal=causal))).weights()[0, 0]
    between = [set(x) for r in range(n + 1) for x in combinations(range(n), r)]
    for i, j in product(range(n), range(n)):
        cuts = []
        for upper, lower in product(between, between):  # which tokens of the layers between stand with the start
            sides = [set(range(n)) - {j}, lower, upper, {i}]  # the other inputs are dead ends: they cut nothing off
            cut = 0.0
            for level, w in enumerate(layers):
                cut += sum(float(w[a, b]) for a in sides[level + 1] for b in range(n) if b not in sides[level])
            cuts.append(cut)
        assert made[i, j] == pytest.approx(min(cuts), abs=1e-6)


def test_flow_reaches_the_source_of_an_encoder_decoder_and_some_rows_alone():
    case = Case("t5")
    one = [amap[0] for amap in case.rec.maps.values()]
    whole = derived.flow(one)
    assert whole.shape == (1, 5, 7)
    assert_close(derived.flow(one, rows=[3, -1]).weights(), whole.weights()[:, [3, 4]])
    assert whole.weights()[0, :, 5:].max() == 0  # padding
    assert bool((whole.weights() >= derived.rollout(one).weights() - 1e-6).all())  # mass is split, flow is not


def test_flow_that_would_take_too_long_is_refused():
    with pytest.raises(ValueError, match="rows="):
        derived.flow(stored(*drawn(200, 2)), limit=10**8)


def test_the_mean_of_heads_keeps_labels_and_items():
    w = torch.rand(6, 3, 4)
    amap = StoredMap((2, 3), w, rooted=False)
    amap.rows = ["a", "b", "c"]
    made = derived.mean_of_heads(amap)
    assert made.rows == amap.rows
    assert_close(made.weights(), w.unflatten(0, (2, 3)).mean(1, keepdim=True))
    assert_close(made[1].tile([2, 0], slice(1, 3)), w[3:].mean(0, keepdim=True)[:, [2, 0], 1:3])


def test_two_runs_are_not_one_deep_model():
    model, inputs = llama()
    with regard.record(model) as rec:
        model(**inputs)
        model(**inputs)
    with pytest.raises(ValueError, match="2 runs"):
        derived.rollout(rec)


def test_the_steps_of_a_generation_are_refused_with_a_sentence():
    model, inputs = llama()
    with regard.record(model) as rec:
        model.generate(**inputs, max_new_tokens=3, do_sample=False, pad_token_id=0)
    with pytest.raises(ValueError, match=r"runs|whole text"):
        derived.rollout(rec)


def test_errors_say_what_to_do():
    model, inputs = bert()
    with regard.record(model) as rec:
        out = model(**inputs)
    with pytest.raises(ValueError, match="grad=True"):
        derived.relevance(rec, out, target=0)
    with pytest.raises(ValueError, match="values=True"):
        derived.norms(rec)
    with pytest.raises(ValueError, match="part='cross'"):
        derived.rollout(rec, part="cross")
    with regard.record(model.bert, grad=True) as rec:
        hidden = model.bert(**inputs)
    with pytest.raises(TypeError, match="function"):
        derived.relevance(rec, hidden, target=0)
    with pytest.raises(ValueError, match="there are 3"):
        derived.score_of(out, target=7)
    with pytest.raises(ValueError, match="does not lead back"):
        derived.relevance(rec, hidden.last_hidden_state.detach()[:, 0], target=0)
    with pytest.raises(ValueError, match="does not depend on any attention"):
        derived.relevance(rec, out, target=0)
