"""The task `sequences`: any mechanism in the same language model, trained and tuned alike."""

import pytest

from regard.lab.comparisons import sequences
from regard.lab.comparisons.sequences import SequenceBenchmark, run_sequences
from regard.studies import Study
from regard.studies.trial import Setting


@pytest.fixture(autouse=True)
def few_sequences(monkeypatch):
    monkeypatch.setattr(sequences, "TRAIN", 256)
    monkeypatch.setattr(sequences, "TEST", 32)
    sequences._planted.cache_clear()
    yield
    sequences._planted.cache_clear()


def setting(data="recall", steps=10, **options):
    return Setting(options={"data": data}, budget={"steps": steps}, **options)


@pytest.mark.parametrize("data", ["recall", "induction", "copying", "needle"])
def test_answers_are_measured_at_the_trained_length_and_at_twice_it(data):
    found = run_sequences("rope", 0, setting(data))
    assert set(found["numbers"]) == {"accuracy", "longer"}
    assert all(0 <= value <= 1 for value in found["numbers"].values())
    assert len(found["scores"]["accuracy"]) == 32 and len(found["curve"]) == 10


def test_attention_with_positions_learns_to_recall(monkeypatch):
    monkeypatch.setattr(sequences, "TRAIN", 4096)
    found = run_sequences("rope", 0, Setting(options={"data": "recall", "length": 16}, budget={"steps": 250}))
    assert found["numbers"]["accuracy"] > 0.4  # a guess has .06, a value of the table .25


def test_a_trial_of_tuning_does_not_see_the_test_part_and_the_same_seed_gives_the_same_bits():
    one, other = (run_sequences("gla", 2, setting(tunes=True)) for _ in range(2))
    assert one == other and one["numbers"] == {}


def test_wrong_names_are_answered_by_what_there_is():
    with pytest.raises(ValueError, match="no data 'recal': expected recall, induction"):
        SequenceBenchmark({"task": "sequences", "options": {"data": "recal"}})
    with pytest.raises(ValueError, match="no variant 'ropes'; it has rope"):
        Study(name="a", tasks=["sequences"], variants=["ropes"])
