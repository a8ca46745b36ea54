"""A transformer goes on learning: classes, what stays as it was, and the folder that it leaves."""

from dataclasses import replace

import pytest
import torch
from tests import small_models
from typer.testing import CliRunner

from regard.cli.app import app
from regard.lab.tasks.texts.fine_tuning import TRAINING, TransformerClassifier, fine_tune, freeze_layers, pieces, save
from regard.recording.pretrained import load_model

pytest.importorskip("transformers")
QUICK = replace(TRAINING, epochs=50, batch=8, rate=3e-3, warmup=0, patience=50)
# the class is whether a cat is in it
TEXTS = [
    (f"{first} {second}", int("cat" in (first, second)))
    for first in ("cat", "a", "sat", "script")
    for second in ("sat", "cat", ".", "a")
] * 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return small_models.saved(tmp_path_factory.mktemp("small"), hidden_dropout_prob=0.0)


@pytest.fixture(scope="module")
def tuned(folder):
    return fine_tune(str(folder), TEXTS, TEXTS, TEXTS, training=QUICK, names=("no", "cat"))


def test_it_learns_what_the_texts_show_and_its_folder_says_the_same(tuned, tmp_path):
    assert tuned.accuracy > 0.9 > sum(label for _, label in TEXTS) / len(TEXTS)
    model, tokenizer = load_model(str(save(tuned, tmp_path / "deep" / "cats")))
    assert type(model).__name__ == "BertForSequenceClassification" and model.config.id2label == {0: "no", 1: "cat"}
    said = model(**tokenizer([text for text, _ in TEXTS], return_tensors="pt", padding=True)).logits
    assert float((said.argmax(-1) == torch.tensor([label for _, label in TEXTS])).float().mean()) == tuned.accuracy
    assert list((tmp_path / "deep").iterdir()) == [tmp_path / "deep" / "cats"]  # no draft is left
    assert all(file.stat().st_mode & 0o044 == 0o044 for file in (tmp_path / "deep" / "cats").iterdir())  # for others
    with pytest.raises(FileExistsError, match="name a new folder"):
        save(tuned, tmp_path / "deep" / "cats")


def test_a_seed_gives_the_same_network_and_frozen_layers_stay(folder):
    short = replace(QUICK, epochs=2)
    one, two, other = (
        fine_tune(str(folder), TEXTS, TEXTS, TEXTS, training=short, seed=seed).network.state_dict()
        for seed in (1, 1, 2)
    )
    assert all(torch.equal(x, two[name]) for name, x in one.items())
    assert not all(torch.equal(x, other[name]) for name, x in one.items())
    frozen = fine_tune(str(folder), TEXTS, TEXTS, TEXTS, training=short, freeze=1).network
    before = small_models.model("BertModel", hidden_dropout_prob=0.0).state_dict()
    moved = {name for name, x in frozen.bert.state_dict().items() if not torch.equal(x, before[name])}
    assert moved and all(name.startswith(("encoder.layer.1.", "pooler.")) for name in moved)
    with pytest.raises(ValueError, match="freeze=3"):
        freeze_layers(frozen, 3)


def test_padding_changes_nothing(tuned):
    from regard.data.batch import collate

    some = pieces(tuned.tokenizer, [("cat", 1), ("a script cat sat .", 1)])
    model = TransformerClassifier(tuned.network).eval()
    with torch.no_grad():
        torch.testing.assert_close(model(collate(some)).out[:1], model(collate(some[:1])).out, atol=1e-5, rtol=1e-4)


def test_a_folder_that_is_there_is_told_before_anything_is_read(tmp_path):
    said = CliRunner().invoke(app, ["train", "minilm", "-o", str(tmp_path)])
    assert said.exit_code == 1 and "name a new folder" in " ".join(said.output.split())
