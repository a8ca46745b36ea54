"""May I believe it? The network of the digits put to the judges, and other weights that read the same digits."""

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


class Shown(nn.Module):
    """A reader that is given patches by their numbers: image i has the numbers 16 i to 16 i + 15."""

    def __init__(self, reader: PatchReader, data: Digits):
        super().__init__()
        self.reader = reader
        self.patches = nn.Embedding.from_pretrained(data.patches.flatten(0, 1))

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        gone = PATCHES - tokens.shape[1]  # the last patches are left out where all of a batch are without them
        tokens, real = nn.functional.pad(tokens, (0, gone)), nn.functional.pad(real, (0, gone))
        logits, _ = self.reader(self.patches(tokens), Mask(keep=real[:, None, None, :]))
        return logits


@dataclass(frozen=True)
class Believed:
    """What the judges found, and images with the model's weights and others that give the same answer."""

    report: Report
    pairs: list[TextExample]


def adapter_of(reader: PatchReader, data: Digits, count: int = IMAGES) -> Adapter:
    """The first test images of the first split; a unit is a patch, taken away by closing it to everyone."""
    train, test = data.split(0)
    rows = test[:count]
    instances = [
        Instance(torch.arange(PATCHES) + PATCHES * image, int(data.labels[image]), name=str(image))
        for image in rows.tolist()
    ]
    flat, labels = data.images.flatten(1).numpy(), data.labels.numpy()
    nearest = KNeighborsClassifier(1).fit(flat[train], labels[train]).predict(flat[rows]).tolist()

    def forward(model: nn.Module, inputs: Inputs) -> Tensor:
        made: Tensor = model(inputs.tokens, inputs.real)
        return made

    return Adapter(
        Shown(reader, data),
        instances,
        forward=forward,
        selector=AttentionSelector(layer=-1),
        removal="mask",
        trivial={"nearest neighbour": nearest},
    )


def study(reader: PatchReader, data: Digits, count: int = IMAGES) -> Believed:
    report = judge(adapter_of(reader, data, count), tests=TESTS)
    texts = next(one for one in report["adversary"].evidence if isinstance(one, TextExamples))
    return Believed(report, list(texts.texts))


def part(found: Believed, data: Digits) -> PageSection:
    rows = [(test.asks, row(one)) for test, one in found.report.headlines()]
    divergence = found.report["adversary"].findings[0]
    return PageSection(
        title="May I believe it?",
        lead="The pictures say where the network looks. Whether that is why it reads what it reads is another "
        "question: here its weights are judged, each number beside what chance would give.",
        html=fill(
            "believe.html",
            rows=rows,
            count=found.report.about["instances"],
            says=divergence.says,
            pairs=[_pair(one, data) for one in found.pairs],
        ),
    )


def _pair(one: TextExample, data: Digits) -> dict[str, Markup | list[str]]:
    """An image under the model's weights and under the others."""
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
