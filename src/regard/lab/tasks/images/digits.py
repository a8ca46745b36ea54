"""Images: classification of a digit in clutter, and denoising."""

import torch
from torch import Tensor, nn

from regard.data.batch import collate
from regard.data.task import Task
from regard.models.builders import image_restorer, patch_classifier
from regard.models.training.experiment import ExampleScores, Experiment, Measure, Result, answers
from regard.models.training.objectives import Classification, Objective, Restoration
from regard.models.training.trainer import Training

from ...data.mnist import SIDE as MNIST_SIDE
from ...data.mnist import noisy_mnist
from ...data.planted.clutter import PATCH, SIDE, clutter
from ..texts.text_classification import most_frequent_class

CANVAS = 32
CHOSEN = (SIDE // PATCH) ** 2  # patches that have the area of the box


def overlap(weights: Tensor, gold: Tensor) -> Tensor:
    """IoU of the box with the top patches by weight, as many as have its area: (B, patches) twice -> (B,)."""
    best = weights.topk(CHOSEN, -1).indices
    common = gold.gather(-1, best).sum(-1)
    return common / (2 * CHOSEN - common)


class Clutter(Experiment):
    """Classification and localisation. `iou` as in `overlap`, `mass` the share of attention in the box."""

    name = "clutter"
    measures = {  # noqa: RUF012
        "accuracy": Measure("accuracy, %"),
        "iou": Measure("IoU with the box, %"),
        "mass": Measure("attention in the box, %"),
    }
    beside = ("uniform",)

    def load(self, seed: int) -> Task:
        if self.small:
            return clutter(CANVAS, train=3000, val=300, test=300, seed=seed)
        return clutter(CANVAS, train=12_000, val=1000, test=2000, seed=seed)

    def model(self, task: Task, attention: str) -> nn.Module:
        return patch_classifier(10, attention, 32 if self.small else 64)

    def objective(self) -> Objective:
        return Classification(supervise=float(self.options.get("supervise", 0.0)))

    @property
    def training(self) -> Training:
        # training starts with a plateau, until attention localises the digit
        return Training(
            epochs=16, batch=32 if self.small else 64, rate=2e-3, decay=1e-2, warmup=50, schedule="cosine", patience=16
        )

    def measure(self, model: nn.Module, task: Task, device: str) -> Result:
        found = ExampleScores()
        for places, batch, answer in answers(model, task.test, device):
            assert batch.gold is not None
            found.add(places, accuracy=(answer.out.argmax(-1) == batch.target).float())
            if answer.maps:
                weights = answer.mean_weights()[:, 0]
                found.add((), iou=overlap(weights, batch.gold), mass=(weights * batch.gold).sum(-1))
        return found.result()

    def baselines(self, task: Task) -> dict[str, dict[str, float]]:
        from sklearn.linear_model import LogisticRegression

        train, test = collate(task.train), collate(task.test)
        assert test.gold is not None
        learned = LogisticRegression(max_iter=100, C=0.1).fit(train.inputs.flatten(1).numpy(), train.target.numpy())
        accuracy = float(learned.score(test.inputs.flatten(1).numpy(), test.target.numpy()))
        side = CANVAS // PATCH
        centre = torch.zeros(side, side)
        centre[side // 2 - 1 : side // 2 + 1, side // 2 - 1 : side // 2 + 1] = 0.25
        ink = test.inputs.unfold(2, PATCH, PATCH).unfold(3, PATCH, PATCH).sum((-1, -2)).flatten(1)
        made = {}
        for name, weights, right in (
            ("logistic regression on pixels; patches with most ink", ink / ink.sum(-1, keepdim=True), accuracy),
            ("most frequent class; the centre", centre.flatten().expand(len(test), -1), most_frequent_class(task)),
        ):
            iou, mass = overlap(weights, test.gold).mean(), (weights * test.gold).sum(-1).mean()
            made[name] = {"accuracy": right, "iou": float(iou), "mass": float(mass)}
        return made | {"(the best that patches can do)": {"iou": float(overlap(test.gold, test.gold).mean())}}


class Denoise(Experiment):
    """MNIST with noise of deviation 0.5: peak signal-to-noise ratio and structural similarity."""

    name = "denoise"
    measures = {"psnr": Measure("PSNR, dB", 1.0, 2), "ssim": Measure("SSIM", 1.0, 3)}  # noqa: RUF012
    beside = ("uniform",)
    usual = "scaled_dot"

    def load(self, seed: int) -> Task:
        if self.small:
            return noisy_mnist(train=4000, val=200, test=300, seed=seed)
        return noisy_mnist(seed=seed)

    def model(self, task: Task, attention: str) -> nn.Module:
        return image_restorer(MNIST_SIDE, attention, 4, 48 if self.small else 96)

    def objective(self) -> Objective:
        return Restoration()

    @property
    def training(self) -> Training:
        return Training(
            epochs=8 if self.small else 12,
            batch=64 if self.small else 128,
            rate=3e-3 if self.small else 2e-3,
            schedule="cosine",
            patience=12,
        )

    def measure(self, model: nn.Module, task: Task, device: str) -> Result:
        made, wanted = [], []
        for _, batch, answer in answers(model, task.test, device):
            made.append(answer.out.clamp(0, 1).cpu())
            wanted.append(batch.target.cpu())
        return Result(likeness(torch.cat(made), torch.cat(wanted)))

    def baselines(self, task: Task) -> dict[str, dict[str, float]]:
        from scipy.ndimage import gaussian_filter, median_filter

        test, val = collate(task.test), collate(task.val)

        def blurred(x: Tensor, width: float) -> Tensor:
            return torch.from_numpy(gaussian_filter(x.numpy(), (0, 0, width, width)))

        width = max((w / 10 for w in range(4, 16)), key=lambda w: likeness(blurred(val.inputs, w), val.target)["psnr"])
        middle = torch.from_numpy(median_filter(test.inputs.numpy(), (1, 1, 3, 3)))
        name = f"Gaussian blur of {width:g} pixels (best on validation)"
        return {
            name: likeness(blurred(test.inputs, width), test.target),
            "median of 3 x 3": likeness(middle, test.target),
            "the noisy image": likeness(test.inputs, test.target),
        }


def likeness(made: Tensor, wanted: Tensor) -> dict[str, float]:
    """PSNR, the mean over images, and SSIM, by torchmetrics; pixels in [0, 1]."""
    from torchmetrics.functional.image import peak_signal_noise_ratio, structural_similarity_index_measure

    psnr = peak_signal_noise_ratio(made, wanted, data_range=1.0, dim=(1, 2, 3), reduction="elementwise_mean")
    return {"psnr": float(psnr), "ssim": float(structural_similarity_index_measure(made, wanted, data_range=1.0))}  # type: ignore[arg-type]
