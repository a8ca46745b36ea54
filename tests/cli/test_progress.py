"""Progress: a bar in a terminal; a line for each stage where stderr is a file."""

import io
import re

import pytest
from rich.console import Console
from rich.progress import Progress

from regard.cli.output import progress


def lines(capsys):
    said = capsys.readouterr().err.splitlines()
    assert all(re.fullmatch(r" *\d+ s  .+", line) for line in said), said
    return [line.split(" s  ", 1)[1] for line in said]


def test_a_stage_is_reported_once_however_many_steps_it_has(capsys):
    with progress.progress_bar() as report:
        for seed in range(2):
            for epoch in range(3):
                for step in range(5):
                    report(f"additive, seed {seed}, epoch {epoch}", step, 5, "loss 0.1")
        report("vectors of test: 3 of 9")
        report("vectors of test: 9 of 9")
    assert lines(capsys) == ["loading", "additive, seed 0", "additive, seed 1", "vectors of test"]


def test_a_long_stage_is_reported_again_with_its_metrics(capsys, monkeypatch):
    monkeypatch.setattr(progress, "REPEAT_AFTER", -1.0)
    with progress.progress_bar("reading") as report:
        report("dot, seed 0, epoch 1", 1, 9, "loss 0.5")
        report("dot, seed 0, epoch 2", 2, 9, "loss 0.4")
    assert lines(capsys) == ["reading", "dot, seed 0", "dot, seed 0, epoch 2  loss 0.4"]


def test_a_count_is_reported_at_every_tenth_and_at_the_end(capsys):
    with progress.progress_bars() as report:
        for done in range(1, 201):
            report("a model reads", done, 200)
        report("GAT on cora", 1, 2, "GAT on cora: 83.0 ± 0.0")
    said = lines(capsys)
    assert said[0] == "a model reads, 1 of 200" and said[-2] == "a model reads, 200 of 200" and len(said) == 12
    assert said[-1] == "GAT on cora: 83.0 ± 0.0, 1 of 2"


def test_words_in_square_brackets_are_printed_as_they_are(capsys):
    with progress.progress_bar("[CLS] and [/bold]"):
        pass
    assert lines(capsys) == ["[CLS] and [/bold]"]


@pytest.fixture
def terminal(monkeypatch):
    """A terminal whose clock is set by hand, and the progress that is shown in it."""
    made = Terminal()
    console = Console(file=made.text, force_terminal=True, width=80, get_time=lambda: made.now)
    monkeypatch.setattr(progress, "console", lambda stderr: console)
    monkeypatch.setattr(progress, "Progress", lambda *columns, **how: made.keep(Progress(*columns, **how)))
    return made


class Terminal:
    def __init__(self):
        self.text, self.now, self.progress = io.StringIO(), 0.0, None

    def keep(self, progress):
        self.progress = progress
        return progress


def test_the_clock_goes_on_behind_an_epoch_that_is_full(terminal):
    with progress.progress_bar() as report:
        report("additive, epoch 1", 9, 9)
        terminal.now = 75.0
        report("additive, epoch 2", 1, 9)
        terminal.progress.refresh()
        assert "0:01:15" in terminal.text.getvalue()


def test_words_that_are_too_long_for_the_terminal_leave_the_clock_whole(terminal):
    with progress.progress_bar() as report:
        terminal.now = 75.0
        report("taught attention, picture alone, " * 4, 3, 9, "loss 0.1234")
        terminal.progress.refresh()
        assert "0:01:15" in terminal.text.getvalue()


def test_a_stage_of_unknown_length_does_not_keep_the_length_of_the_one_before(terminal):
    with progress.progress_bar() as report:
        report("additive, epoch 1", 3, 9)
        assert terminal.progress.tasks[0].percentage == pytest.approx(100 / 3)
        report("trivial baselines")
        assert terminal.progress.tasks[0].total is None
