"""What experiments are judged by, against loops and libraries."""

import pytest
import torch

from regard.lab.data.multi30k import pairs
from regard.lab.tasks.compare import TaskComparison, VariantRow
from regard.lab.tasks.images.digits import CHOSEN, likeness, overlap
from regard.lab.tasks.planted import Retrieval
from regard.lab.tasks.speech import Spoken
from regard.lab.tasks.translation import bleu as scoring
from regard.lab.tasks.translation.translation import word_for_word
from regard.models.training.experiment import Result

SAID = ["Ein Mann, der läuft.", "Zwei Hunde spielen im Schnee .", "Eine Frau mit einem Hut"]
WANTED = ["Ein Mann läuft.", "Zwei Hunde spielen im Schnee.", "Eine Frau mit einem roten Hut steht da."]


@pytest.mark.parametrize("lower", [False, True])
def test_bleu_without_sacrebleu_is_that_of_sacrebleu(monkeypatch, lower):
    pytest.importorskip("sacrebleu")
    pytest.importorskip("torchmetrics")
    first = scoring.bleu(SAID, WANTED, lower)
    import sys

    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    assert scoring.bleu(SAID, WANTED, lower) == pytest.approx(first, abs=1e-3)


def test_overlap_is_one_at_the_box_and_counts_pixels_elsewhere():
    box = torch.zeros(1, 16)
    box[0, :CHOSEN] = 1.0
    assert overlap(box, box).item() == 1.0
    assert overlap(1 - box, box).item() == 0.0
    half = torch.zeros(1, 16)
    half[0, 2 : 2 + CHOSEN] = torch.arange(1.0, 1 + CHOSEN)
    assert overlap(half, box).item() == pytest.approx(2 / 6)


def test_a_perfect_image_has_a_likeness_of_one():
    pytest.importorskip("torchmetrics")
    image = torch.rand(2, 1, 16, 16)
    noisy = (image + 0.1).clamp(0, 1)
    assert likeness(image, image)["ssim"] == pytest.approx(1.0, abs=1e-5)
    psnr = torch.stack([-10 * (a - b).square().mean().log10() for a, b in zip(image, noisy, strict=True)]).mean()
    assert likeness(noisy, image)["psnr"] == pytest.approx(float(psnr), rel=1e-4)


def test_word_for_word_finds_the_words_that_go_together():
    lines = [
        ("a red dog", "ein roter Hund"),
        ("a red cat", "eine rote Katze"),
        ("the dog", "der Hund"),
        ("the cat", "die Katze"),
        ("a dog", "ein Hund"),
    ]
    task = pairs("made", [*lines, *lines], lines[:1], [("dog cat", "Hund Katze")])
    assert word_for_word(task) == ["Hund Katze"]


@pytest.mark.parametrize(
    ("experiment", "mine", "says"),
    [
        (Retrieval, 0.9, "above"),
        (Retrieval, 0.2, "below"),
        (Spoken, 0.1, "above"),
        (Spoken, 0.9, "below"),
    ],
)
def test_a_result_below_the_trivial_baseline_is_called_so(experiment, mine, says):
    made = experiment(small=True)
    rows = [VariantRow("attention", [Result({made.main: mine})])]
    trivial = [VariantRow("nothing", [Result({made.main: 0.5})]), VariantRow("(an oracle)", [Result({"other": 1.0})])]
    assert f"is {says} the best trivial baseline (nothing)" in TaskComparison(made, "task", rows, trivial).verdict()
