"""Name movers, who inhibits them, and syntax: each with its own chance level."""

import pytest
import torch

import regard
from regard.lab.validation.circuits.compiler import Compiled
from regard.lab.validation.circuits.programs import induction, previous_token
from regard.recording.decomposition.role_scores import inhibitors, link_keys, mover_keys, named


def recorded(program, count=3):
    random = torch.Generator().manual_seed(0)
    model, texts = Compiled(program).eval(), [program.sample(random)[None] for _ in range(count)]
    records = []
    for ids in texts:
        with torch.no_grad(), regard.record(model) as rec:
            model(ids)
        records.append(rec)
    return records, texts


def test_a_mover_looks_at_the_token_that_comes_next_and_not_as_induction_would():
    mary, john, gave, to, then = range(5)
    keys = mover_keys(torch.tensor([[mary, gave, john, then, to, mary]]))
    assert keys.nonzero().tolist() == [[4, 0]]  # at "to", Mary is next
    said_twice = torch.tensor([[mary, john, gave, mary, john]])
    assert not mover_keys(said_twice)[3].any()  # john stands after mary: induction


def test_a_head_of_fixed_distance_is_not_above_the_baseline_of_syntax():
    records, texts = recorded(previous_token())
    n = texts[0].shape[-1]
    chain = [link_keys([(i, [i - 1]) for i in range(1, n)], n)] * len(records)
    score, chance = named(records, chain, by_distance=True)[next(iter(records[0].maps)), 0]
    assert score == pytest.approx(1.0, abs=0.02) and chance == pytest.approx(1.0)
    _, even = named(records, chain)[next(iter(records[0].maps)), 0]
    assert even == pytest.approx(1 / n)


def test_inhibitors_are_earlier_heads_and_their_shares_are_shares():
    records, _ = recorded(induction(), 1)
    site = list(records[0].maps)[1]
    ids = torch.tensor([[6, 0, 1, 0, 2, 3, 0, 4, 2]])  # at 7, the token 2 of place 4 comes next; 0 was said three times
    with torch.no_grad(), regard.record(records[0]._names.model) as rec:
        rec._names.model(ids)
    found = inhibitors(rec, ids, [(site, 0), (site, 1)])
    first = next(iter(rec.maps))
    assert set(found) <= {(first, head) for head in range(3)}
    assert all(0 < score <= 1 and chance == pytest.approx(1 / 3) for score, chance in found.values())
    assert inhibitors(rec, torch.arange(9)[None], [(site, 0)]) == {}  # nothing is said twice
