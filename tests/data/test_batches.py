"""Examples become batches: padding, graphs end to end, an order that a seed decides."""

import gzip

import pytest
import torch
from torch.testing import assert_close

from regard.data import Example, Vocabulary, batches, collate
from regard.data.files import read_lines
from regard.data.task import shares


def example(n: int, t: int = 0, **more) -> Example:
    target = torch.arange(1, t + 1) if t else torch.tensor(n % 2)
    return Example(torch.arange(1, n + 1), target, **more)


def test_padding_is_zero_and_lengths_say_how_much_is_real():
    batch = collate([example(3, t=2, gold=torch.ones(2, 3), id=7), example(5, t=4, gold=torch.ones(4, 5), id=8)])
    assert batch.inputs.tolist() == [[1, 2, 3, 0, 0], [1, 2, 3, 4, 5]]
    assert batch.target.tolist() == [[1, 2, 0, 0], [1, 2, 3, 4]]
    assert batch.lengths.tolist() == [3, 5] and batch.target_lengths.tolist() == [2, 4]
    assert batch.real.sum(1).tolist() == [3, 5]
    assert batch.gold.shape == (2, 4, 5) and batch.gold[0].sum() == 6
    assert batch.ids.tolist() == [7, 8]


def test_documents_keep_the_lengths_of_their_sentences():
    first = Example(torch.ones(2, 4), torch.tensor(1), parts=torch.tensor([4, 2]))
    second = Example(torch.ones(3, 2), torch.tensor(0), parts=torch.tensor([1, 2, 2]))
    batch = collate([first, second])
    assert batch.inputs.shape == (2, 3, 4)
    assert batch.parts.tolist() == [[4, 2, 0], [1, 2, 2]]


def test_graphs_lie_end_to_end_and_no_edge_leaves_its_graph():
    one = Example(torch.ones(2, 3), torch.tensor(0), torch.ones(2), edges=torch.tensor([[0, 1], [1, 0]]))
    two = Example(torch.zeros(3, 3), torch.tensor(1), torch.zeros(3), edges=torch.tensor([[2], [0]]))
    batch = collate([one, two])
    assert batch.graph.tolist() == [0, 0, 1, 1, 1]
    assert batch.edge_index.tolist() == [[0, 1, 4], [1, 0, 2]]
    assert (batch.graph[batch.edge_index[0]] == batch.graph[batch.edge_index[1]]).all()
    assert batch.gold.tolist() == [1, 1, 0, 0, 0] and batch.target.tolist() == [0, 1]


def test_explanations_with_several_columns_are_padded_to_the_most():
    edges = torch.zeros(2, 0, dtype=torch.long)
    parts = [Example(torch.ones(n, 1), torch.tensor(0), torch.ones(n, c), edges=edges) for n, c in ((2, 1), (3, 3))]
    assert collate(parts).gold.sum(0).tolist() == [5, 3, 3]


def test_no_examples_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        collate([])


@pytest.mark.parametrize("seed", [None, 0, 5])
def test_every_example_is_in_one_batch(seed):
    examples = [example(n % 13 + 1) for n in range(101)]
    made = batches(examples, 8, seed)
    assert sorted(i for batch in made for i in batch) == list(range(101))
    assert sorted(map(len, made))[1:] == [8] * 12


def test_an_epoch_is_shuffled_by_its_seed_and_number_alone():
    examples = [example(n % 13 + 1) for n in range(101)]
    assert batches(examples, 8, 3, 1) == batches(examples, 8, 3, 1)
    assert batches(examples, 8, 3, 1) != batches(examples, 8, 3, 2)
    assert batches(examples, 8, 3, 1) != batches(examples, 8, 4, 1)


def test_batches_of_similar_length_have_less_padding():
    lengths = torch.randint(1, 50, (400,)).tolist()
    examples = [example(n) for n in lengths]

    def padding(groups):
        return sum(max(lengths[i] for i in group) * len(group) for group in groups) / sum(lengths)

    at_random = [list(range(i, i + 8)) for i in range(0, 400, 8)]
    assert padding(batches(examples, 8, 0)) < 1.1 < padding(at_random)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_shares_put_together_are_the_batch(count):
    found = shares(list(range(5)), count)
    assert len(found) == count and [i for part in found for i in part] == list(range(5))
    assert max(map(len, found)) - min(map(len, found)) <= 1


def test_words_are_numbered_by_how_often_they_occur():
    words = Vocabulary.of([["b", "a", "a"], ["c", "a", "b"]], least=2)
    assert words.words[4:] == ("a", "b")
    assert words.encode(["a", "c", "b"], end=True).tolist() == [4, 1, 5, 3]
    assert words.decode([2, 4, 5, 3, 4]) == ["a", "b"]


def test_a_packed_text_is_read_up_to_its_limit(tmp_path):
    path = tmp_path / "lines.gz"
    path.write_bytes(gzip.compress(b"one\ntwo\n"))
    assert read_lines(path) == ["one", "two"]
    with pytest.raises(ValueError, match="more than the limit of 4 bytes"):
        read_lines(path, limit=4)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match="cannot be unpacked"):
        read_lines(path)


def test_moving_a_batch_keeps_what_it_says():
    batch = collate([example(2), example(3)]).to("cpu")
    assert_close(batch.inputs, collate([example(2), example(3)]).inputs)
