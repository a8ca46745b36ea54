"""`regard demo`: attention computed, drawn and judged in a minute or two, on one offline page."""

import platform
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from regard import __version__
from regard.studies.report import means_sheet
from regard.studies.statistics import Analysis
from regard.views.report import row as report_row

from . import (
    ablation_study,
    digits,
    digits_section,
    faithfulness,
    five_tokens,
    karate,
    karate_section,
    paragraph,
    records,
)
from .page import PageSection, make_folder, render, write
from .spread import Spread, around


def run(out: Path, seeds: int = 5, epochs: int = 15, console: Console | None = None) -> Path:
    """Compute every section with progress on the console; write out/index.html and records; return the page's path."""
    make_folder(out)  # fail at once if the folder cannot be created
    console = console or Console()
    clock = _Clock(console, 6)
    background_study = ablation_study.BackgroundStudy(out / "quick-study", seeds)  # runs in the background
    clock.part("five tokens, every number")
    five = five_tokens.compute()
    console.print(_five_table(five))
    clock.part("what “it” attends to, and a paragraph in shuffled orders (MiniLM)")
    text_parts = _texts(console, out)
    clock.part("karate club: graph attention networks")
    club, sides = karate.Club.load(), karate.KarateResults(seeds)
    _follow(console, "karate club", seeds * len(karate.KINDS), karate.study(club, sides))
    console.print(_karate_table(sides))
    records.save_karate_record(club, out)
    clock.part("digits: networks with and without attention")
    data, results = digits.Digits.load(), digits.DigitResults(seeds)
    total = seeds * len(digits.NETWORKS) * len(digits.ALIGNMENTS)
    _follow(console, "digits", total, digits.study(data, results, epochs))
    console.print(_digits_table(results))
    clock.part("digits: are the weights faithful?")
    digits_parts = [digits_section.section(data, results, epochs), _judge_digits(console, data, results)]
    clock.part("retrieval: an ablation study, which has run beside the others")
    with console.status("waiting for the ablation study"):
        studied = background_study.analysis()
    console.print(_quick_table(studied))
    parts = [
        *text_parts,
        *digits_parts,
        karate_section.section(club, sides),
        ablation_study.section(studied),
        five_tokens.section(five),
    ]
    took = clock.end()
    page = render(
        parts,
        regard=__version__,
        torch=version("torch"),
        python=platform.python_version(),
        computed=f"in {took:.0f} s",
    )
    return write(page, out)


class _Clock:
    """Says which part of how many is on, and how long each took."""

    def __init__(self, console: Console, parts: int):
        self.console, self.parts, self.number = console, parts, 0
        self.began = self.last = time.perf_counter()

    def part(self, name: str) -> None:
        """The next part begins."""
        self._took()
        self.number += 1
        self.console.print(f"[{self.number}/{self.parts}] {name}", style="bold", markup=False, highlight=False)

    def end(self) -> float:
        """The last part is over; seconds since the first began."""
        self._took()
        return time.perf_counter() - self.began

    def _took(self) -> None:
        now = time.perf_counter()
        if self.number:
            said = f"took {now - self.last:.0f} s, {now - self.began:.0f} s so far"
            self.console.print(said, style="dim", highlight=False)
        self.last = now


def _texts(console: Console, out: Path) -> list[PageSection]:
    """The sections on texts; skipped with a message if the model is not installed, or cannot be loaded."""
    from regard.recording.pretrained import NoModel

    from . import paragraph_section, pronouns, pronouns_section

    missing = paragraph.missing()
    if missing:
        console.print(f"Skipped: the sentences need MiniLM: {missing}", highlight=False)
        return []
    try:
        with console.status("loading MiniLM"):
            model, tokenizer = paragraph.load()
    except NoModel as problem:
        console.print(f"Skipped: {problem}", highlight=False, markup=False)
        return []
    with console.status("reading sentences"):
        found = pronouns.study(model, tokenizer)
    console.print(pronouns_section.verdict(found), highlight=False, markup=False)
    with console.status("reading a paragraph in shuffled orders"):
        results = paragraph.study(model, tokenizer)
        records.save_paragraph_record(model, tokenizer, out)
    console.print(_segments_table(results), paragraph_section.headline(results.after), sep="\n", highlight=False)
    return [pronouns_section.section(found), paragraph_section.section(results)]


def _judge_digits(console: Console, data: digits.Digits, results: digits.DigitResults) -> PageSection:
    """Judge the weights of the digits network."""
    assert results.reader is not None
    with console.status("judging the network's weights"):
        found = faithfulness.study(results.reader, data)
    console.print(_judge_table(found))
    return faithfulness.section(found, data)


def _follow(console: Console, doing: str, total: int, runs: Iterator[tuple[Any, ...]]) -> None:
    """Consume runs (seed, names of the network ..., accuracy), with progress on the console."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(doing, total=total)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # such small tensors are slower on several threads
        try:
            for seed, *network, accuracy in runs:
                ended = f"seed {seed}: {', '.join(network)} {100 * accuracy:.1f}%"
                progress.update(task, advance=1, description=ended)
                if not console.is_terminal:  # in a log, a line instead of a bar
                    console.print(ended, highlight=False)
        finally:
            torch.set_num_threads(threads)


def _five_table(five: five_tokens.FiveTokens) -> Table:
    table = Table("query", *five_tokens.TOKENS, title="Five tokens: attention weights", title_justify="left")
    for token, row in zip(five_tokens.TOKENS, five.weights.tolist(), strict=True):
        table.add_row(token, *(f"{weight:.4f}" for weight in row))
    return table


def _karate_table(results: karate.KarateResults) -> Table:
    title = f"Karate club: accuracy on unlabelled members, {_seeds(results.seeds)}"
    table = Table("network", "accuracy", title=title, title_justify="left")
    found = {kind: results.spread(kind) for kind in karate.KINDS}
    found |= {name: Spread(tuple(values)) for name, values in results.baselines.items()}
    for name, spread in found.items():
        table.add_row(name, f"{100 * spread.mean:.1f}{around(spread)}%")
    return table


def _segments_table(results: paragraph.SegmentResults) -> Table:
    title = f"Paragraph: orders in which the answer has the largest weight, of {len(results.after[0].orders)}"
    table = Table("question", "MiniLM's attention", "nearest segment", "chance", title=title, title_justify="left")
    for question, one in zip(paragraph.QUESTIONS, results.after, strict=True):
        hits, position = one.hits(), one.by_position()
        guess = f"{hits.of / paragraph.PLACES:.0f} of {hits.of}"
        table.add_row(question, f"{hits.hits} of {hits.of}", f"{position.hits} of {position.of}", guess)
    return table


def _quick_table(found: Analysis) -> Table:
    sheet = means_sheet(found, found.results.tasks[0])
    table = Table(*sheet.columns, title=f"Retrieval study: {sheet.title}", title_justify="left")
    for row in sheet.rows:
        table.add_row(*row)
    return table


def _digits_table(results: digits.DigitResults) -> Table:
    table = Table(
        "network",
        "attention",
        "uniform weights",
        "difference",
        title=f"Digits: test accuracy, {_seeds(results.seeds)}",
        title_justify="left",
    )
    for network in digits.NETWORKS:
        on, off = results.spread(network, "softmax"), results.spread(network, "uniform")
        cells = (f"{100 * spread.mean:.1f}{around(spread)}%" for spread in (on, off, on - off))
        table.add_row(network, *cells)
    return table


def _judge_table(found: faithfulness.JudgedDigits) -> Table:
    title = f"Faithfulness of the weights, {found.report.about['instances']} digits"
    table = Table("test", "value", "baseline", title=title, title_justify="left")
    for test, one in found.report.headlines():
        cells = report_row(one)
        baseline = f"{cells['main']['says']} {cells['main']['value']}" if cells["main"] else ""
        table.add_row(f"{test.name}: {one.name}", f"{cells['value']} [{cells['interval']}]", baseline)
    return table


def _seeds(count: int) -> str:
    return f"{count} seed{'s' * (count > 1)}"
