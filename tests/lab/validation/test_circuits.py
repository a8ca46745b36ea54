"""Compiled transformers do what their program says, and the edges of the circuit are found."""

import pytest
import torch

from regard.lab.validation.circuits.compiler import Compiled
from regard.lab.validation.circuits.finders import METHODS
from regard.lab.validation.circuits.measures import auroc, circuit_rows, faithfulness, measured
from regard.lab.validation.circuits.planted import planted
from regard.lab.validation.circuits.programs import previous_token, programs
from regard.lab.validation.circuits.trained import (
    TaughtNetwork,
    Texts,
    agreement,
    answers,
    attention_loss,
    interchange,
    trained,
    untaught,
)


@pytest.mark.parametrize("program", programs(), ids=lambda program: program.name)
def test_a_compiled_program_answers_every_text(program):
    model, random = Compiled(program), torch.Generator().manual_seed(3)
    ids = torch.stack([program.sample(random) for _ in range(12)])
    answer = torch.stack([program.answer(one) for one in ids])
    assert bool((model(ids).argmax(-1) == answer)[answer >= 0].all())
    assert program.truth <= set(model.edges())


@pytest.mark.parametrize("program", programs(), ids=lambda program: program.name)
def test_why_finds_the_edges_that_the_program_has(program):
    model, random = Compiled(program, seed=1), torch.Generator().manual_seed(4)
    ids = torch.stack([program.sample(random) for _ in range(3)])
    found = METHODS["why"](model, ids)
    assert auroc(found.scores, program.truth) >= 0.95
    assert set(found.scores) == set(model.edges())


def test_patching_every_edge_with_its_own_run_changes_nothing():
    program = programs()[2]
    model, random = Compiled(program), torch.Generator().manual_seed(0)
    ids = torch.stack([program.sample(random) for _ in range(4)])
    other = model.patched(ids.roll(1, 0), {}, {})[1]
    kept = model.patched(ids, {edge: torch.tensor(1.0) for edge in model.edges()}, other)[0]
    assert torch.allclose(kept, model(ids), atol=1e-5)
    gone = model.patched(ids, {edge: torch.tensor(0.0) for edge in model.edges()}, other)[0]
    assert not torch.allclose(gone, model(ids), atol=0.1)


def test_the_circuit_itself_is_faithful_and_its_complement_is_not():
    program = programs()[2]
    model, random = Compiled(program), torch.Generator().manual_seed(0)
    ids = torch.stack([program.sample(random) for _ in range(4)])
    best = faithfulness(model, ids, {edge: float(edge in program.truth) for edge in model.edges()})
    worst = faithfulness(model, ids, {edge: float(edge not in program.truth) for edge in model.edges()})
    assert best[0] > 0.85 > worst[0] and best[1] < 0.15 < worst[1]


def test_chance_is_a_half_and_the_table_names_every_method():
    truth = {("embed", "0.0.q")}
    assert auroc({("embed", "0.0.q"): 1.0, ("embed", "0.0.k"): 1.0}, truth) == 0.5
    lines = measured(seeds=1, texts=2, names=["copy"])
    assert [row[0] for row in circuit_rows(lines)] == list(METHODS)


@pytest.mark.parametrize("program", planted(), ids=lambda program: program.name)
def test_a_planted_shortcut_answers_and_its_own_head_is_found(program):
    model, random = Compiled(program), torch.Generator().manual_seed(2)
    ids = torch.stack([program.sample(random) for _ in range(4)])
    answer = torch.stack([program.answer(one) for one in ids])
    assert bool((model(ids).argmax(-1) == answer)[answer >= 0].all()) and bool((answer >= 0).any())
    leak = ids.clone()
    leak[:, 1] = (leak[:, 1] + 1) % 6
    assert bool((model(leak).argmax(-1) == leak[:, 1:2])[answer >= 0].all())  # whatever stands there is said
    assert auroc(METHODS["why"](model, ids).scores, program.truth) >= 0.95


@pytest.mark.parametrize("program", programs(), ids=lambda program: program.name)
def test_a_program_agrees_with_itself_whatever_is_exchanged(program):
    assert min(agreement(Compiled(program), batches=2)) == 1.0


@pytest.mark.parametrize("program", programs(), ids=lambda program: program.name)
def test_attention_that_is_taught_is_that_of_the_program_under_the_same_exchange(program):
    teacher, texts = Compiled(program), Texts(program, 0, 16)
    one = interchange(teacher, texts, 4, True, 0.0)
    scores: list[torch.Tensor] = []
    answers(teacher, one, scores)
    assert float(attention_loss(teacher, one, scores)) == pytest.approx(0.0, abs=1e-5)
    other: list[torch.Tensor] = []
    answers(TaughtNetwork(program), one, other)
    loss = attention_loss(teacher, one, other)
    assert bool(loss.isfinite()) and float(loss) > float(attention_loss(teacher, one, scores))


@pytest.mark.slow
def test_training_by_exchange_gives_the_circuit_that_was_taught():
    program = previous_token()
    model = trained(program, steps=200)
    random = torch.Generator().manual_seed(0)
    ids = torch.stack([program.sample(random) for _ in range(4)])
    assert min(agreement(model, batches=2)) > 0.9 > 0.5 > min(agreement(TaughtNetwork(program), batches=2))
    assert untaught(program) == set()
    assert auroc(METHODS["why"](model, ids).scores, program.truth) >= 0.95
    own = model.patched(ids, {edge: torch.tensor(1.0) for edge in model.edges()}, model.patched(ids, {}, {})[1])[0]
    assert torch.allclose(own, model(ids), atol=1e-4)
