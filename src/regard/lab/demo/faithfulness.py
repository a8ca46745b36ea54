"""Demo: tests of faithfulness on the digits network, and adversarial weights with the same predictions."""

from dataclasses import dataclass

import torch
from markupsafe import Markup
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor, nn

from regard import Mask
from regard.judging import Adapter, AttentionSelector, Instance, Report, judge
from regard.judging.adapters.inputs import Inputs
from regard.judging.artifacts import TextExample, TextExamples
from regard.views import spotlight
from regard.views.report import row

from .digits import GRID, PATCHES, Digits, PatchReader
from .page import PageSection, fill, pixels

IMAGES = 60  # test images that are judged
TESTS = ("task", "permutation", "adversary", "faithfulness")


class PatchIndexReader(nn.Module):
    """A reader whose inputs are patch indices: image i has the indices 16 i to 16 i + 15."""

    def __init__(self, reader: PatchReader, data: Digits):
        super().__init__()
        self.reader = reader
        self.patches = nn.Embedding.from_pretrained(data.patches.flatten(0, 1))

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        gone = PATCHES - tokens.shape[1]  # the trailing patches may be dropped in the whole batch
        tokens, real = nn.functional.pad(tokens, (0, gone)), nn.functional.pad(real, (0, gone))
        logits, _ = self.reader(self.patches(tokens), Mask(keep=real[:, None, None, :]))
        return logits


@dataclass(frozen=True)
class JudgedDigits:
    """The report, and images with the model's weights and adversarial ones of the same prediction."""

    report: Report
    pairs: list[TextExample]


def digits_adapter(reader: PatchReader, data: Digits, count: int = IMAGES) -> Adapter:
    """The first test images of the first split; a unit is a patch, removed by masking it for all queries."""
    train, test = data.split(0)
    rows = test[:count]
    instances = [
        Instance(torch.arange(PATCHES) + PATCHES * image, int(data.labels[image]), name=str(image))
        for image in rows.tolist()
    ]
    flat, labels = data.images.flatten(1).numpy(), data.labels.numpy()
    nearest = KNeighborsClassifier(1).fit(flat[train], labels[train]).predict(flat[rows]).tolist()

    def forward(model: nn.Module, inputs: Inputs) -> Tensor:
        logits: Tensor = model(inputs.tokens, inputs.real)
        return logits

    return Adapter(
        PatchIndexReader(reader, data),
        instances,
        forward=forward,
        selector=AttentionSelector(layer=-1),
        removal="mask",
        trivial={"nearest neighbour": nearest},
    )


def study(reader: PatchReader, data: Digits, count: int = IMAGES) -> JudgedDigits:
    report = judge(digits_adapter(reader, data, count), tests=TESTS)
    texts = next(one for one in report["adversary"].evidence if isinstance(one, TextExamples))
    return JudgedDigits(report, list(texts.texts))


def section(found: JudgedDigits, data: Digits) -> PageSection:
    rows = [(test.asks, row(one)) for test, one in found.report.headlines()]
    divergence = found.report["adversary"].findings[0]
    return PageSection(
        title="Are the weights faithful?",
        lead="The pictures show where the weight is. Whether the prediction depends on it is another question: here "
        "the weights are tested for faithfulness, each number beside its baseline.",
        html=fill(
            "faithfulness.html",
            rows=rows,
            count=found.report.about["instances"],
            says=divergence.says,
            pairs=[_pair(one, data) for one in found.pairs],
        ),
    )


def _pair(one: TextExample, data: Digits) -> dict[str, Markup | list[str]]:
    """An image under the model's weights and under the adversarial ones."""
    image = data.images[int(one.name)].numpy()
    lit = {}
    for name, weights in one.weights.items():
        grid = torch.tensor([x or 0.0 for x in weights]).reshape(GRID, GRID).numpy()
        lit[name] = pixels(spotlight(image, grid), f"A handwritten digit, lit by {name}")
    return {
        "own": lit["the model's weights"],
        "other": lit["others"],
        "facts": [f"{name} {fact}" for name, fact in one.facts.items()],
    }
