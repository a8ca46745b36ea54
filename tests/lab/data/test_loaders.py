"""Loaders of real sets: their counts, and what they say of files that are missing or broken."""

import gzip
import os

import numpy as np
import pytest
import torch

from regard import data
from regard.lab.data.spoken_digits import RATE, log_mel, mel_bank
from regard.lab.data.sst import sentences, tree

HERE = pytest.mark.skipif(not os.environ.get("REGARD_DATA"), reason="REGARD_DATA names no folder of data sets.")


def sizes(task):
    return [len(part) for part in (task.train, task.val, task.test)]


LOADERS = {
    "sst": lambda: data.sst(phrases=False),
    "movies": data.movies,
    "agnews": data.ag_news,
    "multi30k": data.multi30k,
    "mnist": lambda: data.mnist(train=100, val=10, test=10),
    "spoken": lambda: data.spoken_strings(train=5, val=5, test=5),
    "tu": data.tu,
    "molecules": lambda: data.molecules("crippen"),
    "drugs": data.drug_response,
    "heterophilous": lambda: data.heterophilous("cornell"),
}


@pytest.mark.parametrize("name", LOADERS)
def test_without_a_folder_of_data_the_sentence_says_what_to_set(name, monkeypatch, tmp_path):
    monkeypatch.delenv("REGARD_DATA", raising=False)
    with pytest.raises(data.MissingData, match="set REGARD_DATA"):
        LOADERS[name]()
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    with pytest.raises(data.MissingData, match="There is no "):
        LOADERS[name]()


@HERE
def test_sentiment_sentences_are_as_many_as_published():
    assert sizes(data.sst(phrases=False)) == [6920, 872, 1821]
    task, texts = data.sst(phrases=False), sentences("dev")
    assert [label for _, label in texts] == [int(one.target) for one in task.val]
    assert texts[0][0].startswith("it 's a lovely film") and not any("-lrb-" in text for text, _ in texts)


@HERE
def test_rationales_of_reviews_stand_on_the_words_they_stood_on():
    task = data.movies()
    assert sizes(task) == [1600, 200, 200]
    marked = torch.tensor([float(one.gold.sum()) for one in task.test])
    assert (marked > 0).all()
    one = task.test[0]
    inside = torch.arange(one.inputs.shape[1]) < one.parts[:, None]
    assert not one.gold[~inside].any() and not one.inputs[~inside].any()


@HERE
def test_captions_come_in_pairs_and_pieces_are_joined_again():
    pytest.importorskip("tokenizers")
    task = data.multi30k(pieces=2000, lines=2000)
    assert sizes(task)[1:] == [1014, 1000]
    line = "Ein Mann in einem blauen Hemd steht auf einer Leiter"
    assert task.target.join(task.target.split(line)) == line
    one = task.test[3]
    assert task.target.join(task.target_words.decode(one.target)) == task.references[3]


@HERE
def test_digits_are_those_of_the_original_files():
    task = data.mnist()
    assert sizes(task) == [55_000, 5_000, 10_000]
    assert [int(one.target) for one in task.test[:5]] == [7, 2, 1, 0, 4]
    noisy = data.noisy_mnist(train=20, val=5, test=5, noise=0.3)
    assert torch.equal(noisy.test[0].target, task.test[0].inputs)
    assert 0.1 < float((noisy.test[0].inputs - noisy.test[0].target).std()) < 0.3


@HERE
def test_a_speaker_that_is_held_out_is_never_learned_from_and_gold_follows_the_clips():
    task = data.spoken_strings(train=6, val=4, test=4)
    for one in [*task.train, *task.test]:
        assert 4 <= len(one.target) <= 8
        assert torch.allclose(one.gold.sum(1), torch.tensor([1.0] * (len(one.target) - 1) + [0.0]))
        order = one.gold[:-1].argmax(1)
        assert (order.diff() > 0).all()


@HERE
def test_graphs_and_folds_are_as_many_as_published():
    tasks = [data.tu("MUTAG", fold) for fold in range(10)]
    assert all(sum(sizes(task)) == 188 for task in tasks)
    judged = [one.id for task in tasks for one in task.test]
    assert len(judged) == len(set(judged)) == 180
    assert sizes(data.molecules("benzene")) == [9000, 1000, 2000]
    one, more = (data.molecules("crippen", bonds=wanted).test[0] for wanted in (False, True))
    degree = torch.bincount(one.edges[0], minlength=one.length).float()
    assert torch.equal(more.inputs[:, :14], one.inputs) and torch.equal(more.inputs[:, 14:].sum(1), degree)
    graph = data.heterophilous("cornell")
    assert (graph.nodes, graph.classes) == (183, 5)


@HERE
@pytest.mark.parametrize("held_out", ["drugs", "cells"])
def test_what_is_held_out_is_not_in_training(held_out):
    task = data.drug_response(held_out=held_out)
    assert sum(sizes(task)) == 107446

    def known(part):
        return {one.inputs.data_ptr() if held_out == "drugs" else one.second.data_ptr() for one in part}

    assert not known(task.train) & known(task.test)


def test_every_node_of_a_tree_is_a_phrase():
    found = tree("(3 (2 a) (4 (3 good) (2 film)))")
    assert found == [(3, ("a", "good", "film")), (2, ("a",)), (4, ("good", "film")), (3, ("good",)), (2, ("film",))]


@pytest.mark.parametrize("line", ["(3 a", "(7 a)", "a (2 b)", "(3 )", "(2 " * 300 + "a" + ")" * 300])
def test_a_line_that_is_no_tree_is_refused(line):
    with pytest.raises(ValueError, match="the tree"):
        tree(line)


def test_broken_files_are_refused_by_name(tmp_path):
    (tmp_path / "tu").mkdir()
    arrays = {
        "ptr": np.array([0, 2, 3]),
        "edge_index": np.array([[0], [2]]),
        "node_tag": np.zeros(3, int),
        "tag_values": np.zeros(1),
        "y": np.zeros(2, int),
        "label_values": np.zeros(2),
        "test_fold": np.zeros(2, int),
    }
    np.savez(tmp_path / "tu" / "MUTAG.npz", **arrays)
    with pytest.raises(ValueError, match="joins node 0 of graph 0 and node 2 of graph 1"):
        data.tu("MUTAG", folder=tmp_path)
    (tmp_path / "images").mkdir()
    for kind in ("images-idx3", "labels-idx1"):
        (tmp_path / "images" / f"mnist_train-{kind}-ubyte.gz").write_bytes(gzip.compress(b"\0\0\x08\x01" + b"\0" * 30))
    with pytest.raises(ValueError, match="not an idx file"):
        data.mnist(folder=tmp_path)


def test_a_pure_tone_is_loudest_in_the_band_that_holds_it():
    bank = mel_bank(20)
    tone = torch.sin(2 * torch.pi * 1000 * torch.arange(RATE) / RATE)
    frames = log_mel(tone, bank)
    hertz = torch.linspace(0, RATE / 2, bank.shape[1])
    centre = (bank * hertz).sum(1) / bank.sum(1)
    assert abs(float(centre[frames.mean(0).argmax()]) - 1000) < 150
