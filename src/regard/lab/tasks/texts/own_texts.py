"""A user's own texts with classes: a csv, tsv or jsonl file, or a folder in ERASER format."""

import math
from functools import cached_property

import torch
from torch import nn

from regard.data.batch import Example
from regard.data.readers.labelled_text import LabelledText, LabelledTexts
from regard.data.readers.reading_times import Reading, read_reading_times
from regard.data.readers.text_file import read_texts
from regard.data.task import Task
from regard.data.text_task import text_task
from regard.judging.plausibility.fixations import rank_correlation
from regard.judging.statistics.intervals import known
from regard.models.training.experiment import ExampleScores, Measure, Result, answers, by_length
from regard.models.training.objectives import Classification, Objective
from regard.models.training.train_config import Training

from .text_classification import SentenceTask

BATCH = 32
STEPS = {True: 300, False: 1200}  # by `small`: what a few hundred texts need


class OwnTexts(SentenceTask):
    """A BiLSTM with attention on a user's texts; baseline: a bag of words.

    data       the path of the texts (`read_texts`)
    split      the seed of the random split, unless the file has a column split
    longest    maximum number of words of a text; 0: no limit
    supervise  weight of the loss that supervises attention with the rationales of the file
    reading    the path of reading times (`read_reading_times`): the measure `reading` is Spearman's rho of attention
               and reading time, the mean over their sentences

    `rationale` is the share of attention on words of rationales, `marked` the share of such words (chance level): both
    over the test texts with a rationale.
    """

    name = "classification"
    drawn = False

    def __init__(
        self,
        small: bool = False,
        data: str = "",
        split: int = 0,
        longest: int = 0,
        supervise: float = 0.0,
        reading: str = "",
    ):
        super().__init__(small, data=data, split=split, longest=longest, supervise=supervise, reading=reading)
        if not data:
            raise ValueError(
                "classification needs data: the path of a .csv with the columns text and label, such as "
                "regard train classification --data my.csv"
            )
        self.source = data
        if any(one.marks is not None and any(one.marks) for one in self.texts.texts):
            own = {"rationale": Measure("attention on rationales, %"), "marked": Measure("words in rationales, %")}
            self.measures = {**self.measures, **own}
        elif supervise:
            raise ValueError(f"supervise={supervise}: {data} has no rationales to supervise attention with.")

        if reading:
            self.measures = {**self.measures, "reading": Measure("rho with reading times", 1.0, 3)}

    @cached_property
    def readings(self) -> list[Reading]:
        """The sentences with reading times."""
        return read_reading_times(self.options["reading"]) if self.options["reading"] else []

    @cached_property
    def texts(self) -> LabelledTexts:
        """The file as it is read."""
        return read_texts(self.source)

    def load(self, seed: int) -> Task:
        return text_task(self.source, self.texts, self.options["split"], longest=self.options["longest"])

    def objective(self) -> Objective:
        return Classification(supervise=self.options["supervise"])

    @property
    def training(self) -> Training:
        steps = math.ceil(0.7 * len(self.texts.texts) / BATCH)
        epochs = min(max(math.ceil(STEPS[self.small] / steps), 4), 60)
        rate = 2e-3 if self.small else 1e-3
        return Training(epochs=epochs, batch=BATCH, rate=rate, decay=1e-4, schedule="cosine", patience=epochs)

    def measure(self, model: nn.Module, task: Task, device: str) -> Result:
        found = (
            self._marked(model, task, device) if "rationale" in self.measures else super().measure(model, task, device)
        )
        rho = self._read(model, task, device)
        if rho is not None:
            found.numbers["reading"] = rho
        return found

    def _read(self, model: nn.Module, task: Task, device: str) -> float | None:
        """None without reading times, without attention, or if all weights are constant."""
        assert task.words is not None
        pieces = [LabelledText(one.words).in_tokens() for one in self.readings]
        examples = [
            Example(task.words.encode([word.lower() for word in one.words]), torch.tensor(0), id=place)
            for place, (one, _) in enumerate(pieces)
        ]
        found = []
        for places, _, answer in answers(model, examples, device):
            if not answer.maps:
                return None
            for place, row in zip(places, answer.mean_weights()[:, 0].double().cpu(), strict=True):
                where = torch.tensor(pieces[place][1])
                share = self.readings[place].share
                by_word = torch.zeros(len(share), dtype=torch.float64).index_add(0, where, row[: len(where)])
                found.append(rank_correlation(by_word.numpy(), share))
        return known(found)

    def _marked(self, model: nn.Module, task: Task, device: str) -> Result:
        """Accuracy, and the share of attention on rationales."""
        lengths: list[int] = []
        found, on_marks, marked = ExampleScores(), [], []
        for places, batch, answer in answers(model, task.test, device):
            assert batch.gold is not None
            lengths += batch.lengths.tolist()
            found.add(places, accuracy=(answer.out.argmax(-1) == batch.target).float())
            some = batch.gold.sum(-1) > 0
            marked += (batch.gold.sum(-1) / batch.lengths)[some].tolist()
            if answer.maps:
                on_marks += (answer.mean_weights()[:, 0] * batch.gold).sum(-1)[some].tolist()
        more = {"marked": sum(marked) / len(marked)} if marked else {}
        if on_marks:
            more["rationale"] = sum(on_marks) / len(on_marks)
        return found.result(by_length(lengths, found.found["accuracy"]), **more)
