"""How well a model does: each figure is its library's, and each edge case is what is written."""

import math

import numpy as np
import pytest
import torch

from regard.judging.task_metrics import TASKS, extrinsic, log_probabilities

for module in ("sacrebleu", "jiwer", "nltk", "torchmetrics", "sklearn", "scipy"):
    pytest.importorskip(module)


def judged(*given, resamples=20, **options):
    return {one.name: one for one in extrinsic(*given, resamples=resamples, **options)}


SAID = ["the cat sat on the mat", "a dog runs", "there is nothing to see in this old house"]
WANTED = ["the cat sat on a mat", "a dog is running fast", "there is nothing to see in that old house"]


def test_bleu_is_that_of_sacrebleu():
    from sacrebleu import corpus_bleu

    from regard.lab.tasks.translation.bleu import bleu

    found = judged("translation", SAID, WANTED)["BLEU"]
    assert found.value == pytest.approx(corpus_bleu(SAID, [WANTED]).score) == pytest.approx(bleu(SAID, WANTED))
    assert found.interval[0] <= found.value <= found.interval[1]
    upper = [line.upper() for line in SAID]
    assert judged("translation", upper, WANTED, lower=True)["BLEU"].value == pytest.approx(found.value)


def test_of_several_references_the_best_counts():
    several = [["nothing alike here at all", line] for line in WANTED]
    assert judged("translation", WANTED, several)["BLEU"].value == pytest.approx(100)
    assert judged("translation", WANTED, several)["METEOR"].value == pytest.approx(
        judged("translation", WANTED, WANTED)["METEOR"].value
    )


def test_meteor_by_hand():
    def meteor(said, wanted):
        return judged("translation", [said], [wanted])["METEOR"].value

    # five of six words match, in two chunks: P = R = 5/6, hence F = 5/6
    assert meteor("the cat sat on one mat", "the cat sat on a mat") == pytest.approx(5 / 6 * (1 - 0.5 * (2 / 5) ** 3))
    assert meteor("dogs", "dog") == pytest.approx(0.5)  # by stem; one chunk of one match
    assert meteor("a b", "x y") == 0.0 and meteor("", "a b") == 0.0
    assert meteor("", "") is None
    # P = 1/2 and R = 1, so F = 10 P R / (R + 9 P) leans to recall
    assert meteor("dog zebra", "dog") == pytest.approx(0.5 * 10 * 0.5 / (1 + 4.5))


def test_the_synonyms_used_are_told():
    assert judged("translation", SAID, WANTED)["METEOR"].unit.startswith("exact, stem, ")


def test_word_errors_are_those_of_torchmetrics():
    from torchmetrics.functional.text import word_error_rate

    found = judged("speech", SAID, WANTED)["word error rate"]
    assert found.value == pytest.approx(100 * float(word_error_rate(SAID, WANTED)))
    assert judged("phones", ["k ae t"], ["k ah t s"])["phone error rate"].value == pytest.approx(50)


def test_edge_cases_of_texts():
    assert judged("speech", ["a b c"], ["a"])["word error rate"].value == pytest.approx(200)  # above 100
    assert judged("speech", ["a b"], [""])["word error rate"].value is None
    assert judged("speech", ["a b", "c"], ["", "c"])["word error rate"].value == pytest.approx(200)
    assert judged("speech", [""], ["a"])["word error rate"].value == pytest.approx(100)
    assert judged("translation", ["a b"], [""])["BLEU"].value is None
    assert judged("translation", ["", ""], ["a b", "c"])["BLEU"].value == 0.0
    assert judged("translation", [], [])["BLEU"].value is None


def test_perplexity_of_equal_chances_is_their_number():
    logits, targets = torch.zeros(2, 3, 7), torch.tensor([[1, 2, -100], [3, -100, -100]])
    found = judged("language", log_probabilities(logits, targets))["perplexity"]
    assert found.value == pytest.approx(7)
    logits = torch.randn(2, 3, 7, generator=torch.Generator().manual_seed(0))
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1).double(), targets.flatten()).exp()
    assert judged("language", log_probabilities(logits, targets))["perplexity"].value == pytest.approx(float(expected))
    assert judged("language", [[-math.inf]])["perplexity"].value == math.inf
    assert judged("language", [[]])["perplexity"].value is None
    with pytest.raises(ValueError, match="0 or less"):
        extrinsic("language", [[0.5]])


@pytest.mark.parametrize("size", [1, 2, 7, 60])
def test_averages_over_classes_are_those_of_scikit_learn(size):
    from sklearn.metrics import precision_recall_fscore_support

    draw = np.random.default_rng(size)
    for _ in range(10):
        wanted, said = draw.integers(5, size=size).tolist(), draw.integers(4, size=size).tolist()
        theirs = precision_recall_fscore_support(wanted, said, average="macro", zero_division=0.0)
        ours = judged("classification", said, wanted, resamples=1)
        assert [ours[f"{name}, macro"].value for name in ("precision", "recall", "F1")] == pytest.approx(theirs[:3])
        one = precision_recall_fscore_support(wanted, said, labels=[said[0]], average="macro", zero_division=0.0)
        ours = judged("classification", said, wanted, resamples=1, positive=said[0])
        assert [ours[f"{name} of {said[0]}"].value for name in ("precision", "recall", "F1")] == pytest.approx(one[:3])


def test_labels_are_judged_as_scikit_learn_does():
    from sklearn import metrics

    draw = np.random.default_rng(0)
    wanted, said = draw.integers(3, size=60).tolist(), draw.integers(3, size=60).tolist()
    scores = draw.integers(9, size=(60, 3))  # with ties
    found = judged("classification", said, wanted, scores=scores, positive=2)
    assert found["accuracy"].value == pytest.approx(metrics.accuracy_score(wanted, said))
    assert found["F1, macro"].value == pytest.approx(metrics.f1_score(wanted, said, average="macro"))
    assert found["F1, micro"].value == pytest.approx(found["accuracy"].value)
    assert found["recall of 2"].value == pytest.approx(metrics.recall_score(wanted, said, labels=[2], average="macro"))
    own = np.mean([metrics.roc_auc_score(np.array(wanted) == label, scores[:, label]) for label in range(3)])
    assert found["AUC"].value == pytest.approx(own)
    common = found["accuracy"].baselines["commonest class"]
    assert common == pytest.approx(np.bincount(wanted).max() / 60)


def test_one_class_has_no_area_and_a_class_never_said_has_no_precision():
    found = judged("classification", ["a", "b"], ["a", "a"], scores=[0.1, 0.9])
    assert found["AUC"].value is None and "two classes" in found["AUC"].says
    constant = judged("classification", ["a", "a", "a", "a"], ["a", "a", "b", "b"], scores=[1, 1, 1, 1])
    assert constant["AUC"].value == 0.5 and constant["precision, macro"].value == pytest.approx(0.25)
    assert constant["F1, macro"].value == pytest.approx((2 / 3 + 0) / 2)
    one = judged("classification", [1], [1])["accuracy"]
    assert one.interval == pytest.approx((0.025, 1.0)) and one.standing[1] == "undefined"
    for none in judged("classification", [], []).values():
        assert none.value is None and none.says.endswith("there is no instance.")


def test_numbers_are_judged_beside_their_mean():
    said, wanted = [1.0, 2.0, 4.0], [1.0, 3.0, 3.0]
    found = judged("regression", said, wanted)
    assert found["RMSE"].value == pytest.approx(math.sqrt(2 / 3))
    assert found["RMSE"].baselines["mean"] == pytest.approx(np.std(wanted))
    assert found["Pearson"].value == pytest.approx(np.corrcoef(said, wanted)[0, 1])
    assert found["Pearson"].baselines["mean"] is None  # a constant correlates with nothing
    assert judged("regression", [2.0, 2.0], [1.0, 3.0])["Pearson"].value is None
    assert judged("regression", [2.0], [1.0])["Pearson"].value is None


def test_pictures_are_judged_as_the_training_tasks_do():
    from regard.lab.tasks.images.digits import likeness

    wanted = torch.rand(3, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    said = (wanted + 0.1 * torch.rand(3, 1, 16, 16, generator=torch.Generator().manual_seed(1))).clamp(0, 1)
    found, theirs = judged("images", said, wanted), likeness(said, wanted)
    assert found["PSNR"].value == pytest.approx(theirs["psnr"], rel=1e-5)
    assert found["SSIM"].value == pytest.approx(theirs["ssim"], rel=1e-4)
    by_hand = np.mean([10 * math.log10(1 / float(((a - b) ** 2).mean())) for a, b in zip(said, wanted, strict=True)])
    assert found["PSNR"].value == pytest.approx(by_hand, rel=1e-5)
    bytes_too = judged("images", 255 * said, 255 * wanted, largest=255.0)
    assert bytes_too["PSNR"].value == pytest.approx(by_hand, rel=1e-5)
    same = judged("images", wanted, wanted)
    assert same["PSNR"].value == math.inf and same["SSIM"].value == pytest.approx(1)


def test_regions_that_are_both_empty_are_left_out():
    found = judged("regions", [[1, 1, 0], [0, 0, 0], [0, 0, 1]], [[0, 1, 1], [0, 0, 0], [0, 0, 0]])["IoU"]
    assert found.value == pytest.approx((1 / 3 + 0) / 2) and (found.n, found.undefined) == (2, 1)
    assert judged("regions", [[0]], [[0]])["IoU"].value is None


def test_baselines_of_the_callers_own_are_measured_alike():
    found = judged("translation", SAID, WANTED, baselines={"copy": WANTED})
    assert found["BLEU"].baselines["copy"] == pytest.approx(100)


def test_the_same_seed_gives_the_same_findings():
    assert extrinsic("speech", SAID, WANTED, seed=3) == extrinsic("speech", SAID, WANTED, seed=3)


@pytest.mark.parametrize(
    ("given", "options", "says"),
    [
        (("music", [], []), {}, "translation"),
        (("speech", ["a"]), {}, "wanted is missing"),
        (("speech", ["a"], []), {}, "1 instances were said, 0 wanted"),
        (("classification", [0, 1], [0, 1]), {"scores": np.zeros((2, 3))}, "for two classes"),
        (("classification", [0, 1], [0, 1]), {"positive": 2}, "one of the classes"),
        (("classification", [0, 1], [0, 1]), {"classes": [0]}, "not among classes"),
        (("images", torch.zeros(1, 1, 8, 8), torch.zeros(1, 1, 8, 8)), {}, "11 x 11"),
        (("images", torch.zeros(1, 8, 8), torch.zeros(1, 8, 8)), {}, "channels"),
        (("regions", [[1]], [[1, 0]]), {}, "expected the same"),
    ],
    ids=["task", "wanted", "count", "scores", "positive", "classes", "small", "shape", "mask"],
)
def test_what_cannot_be_measured_is_refused(given, options, says):
    with pytest.raises(ValueError, match=says):
        extrinsic(*given, **options)


def test_every_task_is_told_in_the_docstring():
    assert all(f"{task}:" in extrinsic.__doc__ for task in TASKS)
