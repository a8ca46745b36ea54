"""Sequence models: teacher-forced and word by word they are the same; beams find what is best."""

import itertools

import pytest
import torch
from torch.testing import assert_close

from regard.data import Example, cipher, collate
from regard.data.vocabulary import END, START
from regard.models import builders
from regard.models.beam_search import generate
from regard.models.training.objectives import Sequences
from regard.models.training.trainer import Trainer, Training
from regard.models.transformer import Transformer

WORDS = 12


def batch_of(lengths=((3, 4), (5, 2), (2, 3))):
    return collate([Example(torch.randint(4, WORDS, (n,)), torch.randint(4, WORDS, (t,))) for n, t in lengths])


def models():
    yield "bahdanau", lambda: builders.translator(WORDS, WORDS, "additive", 8, 8, "bahdanau", 0.0)
    yield "luong", lambda: builders.translator(WORDS, WORDS, "general", 8, 8, "luong", 0.0)
    yield "luong local-p", lambda: builders.translator(WORDS, WORDS, "general+local_predictive", 8, 8, "luong", 0.0)
    yield "parallel", lambda: builders.translator(WORDS, WORDS, "additive", 8, 8, "parallel", 0.0)
    yield "parallel local-m", lambda: builders.translator(WORDS, WORDS, "local", 8, 8, "parallel", 0.0)
    yield "hard", lambda: builders.translator(WORDS, WORDS, "hard", 8, 8, "bahdanau", 0.0)
    yield "location-aware", lambda: builders.translator(WORDS, WORDS, "location_aware", 8, 8, "luong", 0.0)
    yield "monotonic", lambda: builders.translator(WORDS, WORDS, "monotonic", 8, 8, "luong", 0.0)
    yield "none", lambda: builders.translator(WORDS, WORDS, "none", 8, 8, "parallel", 0.0)
    yield "transformer", lambda: Transformer(WORDS, WORDS, 8, 2, 2, 0.0)


MODELS = dict(models())


@pytest.mark.parametrize("kind", MODELS)
def test_word_by_word_equals_teacher_forcing(kind):
    model, batch = MODELS[kind]().double().eval(), batch_of()
    together = model(batch).out
    state, word = model.begin(batch), torch.full((3,), START)
    for t in range(batch.target.shape[1]):
        logits, state, _ = model.step(word, state)
        assert_close(logits, together[:, t])
        word = batch.target[:, t]


@pytest.mark.parametrize("kind", MODELS)
def test_a_padded_pair_equals_itself_alone(kind):
    model = MODELS[kind]().double().eval()
    batch = batch_of()
    together = model(batch).out
    for place, (n, t) in enumerate(((3, 4), (5, 2), (2, 3))):
        alone = collate([Example(batch.inputs[place, :n], batch.target[place, :t])])
        assert_close(model(alone).out[0], together[place, :t])


def test_the_decoder_of_bahdanau_is_its_formula():
    """Second computation: one pair, an explicit loop over words and annotations."""
    model = builders.translator(WORDS, WORDS, "additive", 6, 5, "bahdanau", 0.0).double().eval()
    source, target = torch.tensor([4, 7, 9]), torch.tensor([5, 6, END])
    found = model(collate([Example(source, target)]))
    h, last = model.features.layers[0](model.features.before.table(source)[None])
    h = h[0]
    state = torch.tanh(model.query.first(last.transpose(0, 1).flatten()))
    score = model.attention.score
    for t, word in enumerate([START, 5, 6]):
        e = torch.stack(
            [(score.v[0] * torch.tanh(score.query[0] @ state + score.bias[0] + score.key[0] @ x)).sum() for x in h]
        )
        context = (e.softmax(0)[:, None] * h).sum(0)
        y = model.query.words.table.weight[word]
        _, new = model.query.cell(torch.cat([y, context])[None, None], state[None, None])
        state = new[0, 0]
        z = torch.tanh(model.output.hidden(torch.cat([state, context, y])))
        assert_close(found.out[0, t], model.output.logits(z))
        assert_close(found.weights()[0, 0, t], e.softmax(0))


def scripted(table):
    """A model that says by a table of log-probabilities: next word given the words so far."""

    class State:
        def __init__(self, said):
            self.said = said

        def reorder(self, index):
            return State([self.said[i] for i in index.tolist()])

    class Scripted:
        def begin(self, batch):
            return State([()] * len(batch))

        def step(self, word, state):
            said = [(*before, w) for before, w in zip(state.said, word.tolist(), strict=True)]
            return torch.stack([table(one[1:]) for one in said]), State(said), None

    return Scripted()


def test_a_wide_beam_finds_the_best_of_all_sequences():
    """Against every sequence of up to 3 words: the best mean log-probability."""
    draw = torch.Generator().manual_seed(3)
    known = {}

    def table(said):
        if said not in known:
            known[said] = torch.randn(6, generator=draw, dtype=torch.float64)
        return known[said]

    def value(sequence):
        total = 0.0
        for t, word in enumerate(sequence):
            logits = table(tuple(sequence[:t])).clone()
            logits[0] = logits[2] = float("-inf")
            total += float(logits.float().log_softmax(-1)[word])
        return total / len(sequence)

    every = [(*first, END) for n in range(3) for first in itertools.product((1, 4, 5), repeat=n)]
    every += list(itertools.product((1, 4, 5), repeat=3))
    best = max(every, key=value)
    batch = batch_of(((1, 1),))
    found = [w for w in generate(scripted(table), batch, longest=3, beam=40)[0].tolist() if w]
    assert tuple(found) == best


def test_one_beam_takes_the_likeliest_word_each_time():
    def table(said):
        return torch.tensor([0.0, 0.0, 9.0, 0.0, 3.0, 0.0]) if len(said) < 2 else torch.tensor([9.0, 0, 0, 5.0, 0, 0])

    assert generate(scripted(table), batch_of(), longest=5).tolist() == [[4, 4, END]] * 3


@pytest.mark.parametrize("kind", ["parallel", "transformer"])
def test_beams_of_a_real_model_are_never_less_likely_than_greed(kind):
    model, batch = MODELS[kind]().eval(), batch_of()

    def likelihood(words):
        total = []
        for place in range(3):
            said = words[place][words[place] != 0]
            out = model(collate([Example(batch.inputs[place, : batch.lengths[place]], said)])).out[0].clone()
            out[:, 0] = out[:, START] = float("-inf")
            total.append(float(out.log_softmax(-1).gather(1, said[:, None]).mean().detach()))
        return total

    greedy, wide = likelihood(generate(model, batch, 6)), likelihood(generate(model, batch, 6, beam=30))
    assert all(b >= a - 1e-6 for a, b in zip(greedy, wide, strict=True))


def test_a_decoder_with_attention_learns_a_cipher():
    task = cipher(words=8, shortest=2, longest=5, train=300, val=40, test=40, order="reversed", doubled=0.0)
    torch.manual_seed(0)
    model = builders.translator(len(task.words), len(task.target_words), "additive", 24, 24, "parallel", 0.0)
    Trainer(Training(epochs=12, batch=16, rate=1e-2, patience=12)).fit(model, Sequences(), task.train, task.val)
    batch = collate(task.test)
    said = generate(model.eval(), batch, 10)
    decode = task.target_words.decode
    assert sum(decode(a) == decode(b) for a, b in zip(said, batch.target, strict=True)) > 30


def test_local_attention_that_must_know_its_row_is_refused_word_by_word():
    with pytest.raises(ValueError, match="order='parallel'"):
        builders.translator(WORDS, WORDS, "local", 8, 8, "luong")
