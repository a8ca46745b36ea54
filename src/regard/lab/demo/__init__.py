"""`regard demo`: attention computed, drawn and judged in a minute or two, left behind as one page."""

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

from regard.studies.report import means_sheet
from regard.studies.statistics import Analysis
from regard.views import report as judged_report

from . import believe, digits, digits_part, five_tokens, karate, karate_part, quick, records, segments
from .page import PageSection, make_folder, render, write
from .spread import Spread, around


def run(out: Path, seeds: int = 5, epochs: int = 15, console: Console | None = None) -> Path:
    """Computes every part, tells the console as it goes, writes out/index.html and records; returns the page's path."""
    make_folder(out)  # a folder that cannot be is an error now, not after a minute
    console = console or Console()
    began = time.perf_counter()
    looking_up = quick.Running(out / "quick-study", seeds)  # in a process of its own while the rest is computed
    five = five_tokens.compute()
    console.print(_five_table(five))
    club, sides = karate.Club.load(), karate.KarateResults(seeds)
    _follow(console, "finding sides", seeds * len(karate.KINDS), karate.study(club, sides))
    console.print(_karate_table(sides))
    records.of_the_club(club, out)
    told = _segments(console, out)
    data, results = digits.Digits.load(), digits.DigitResults(seeds)
    total = seeds * len(digits.NETWORKS) * len(digits.ALIGNMENTS)
    _follow(console, "reading digits", total, digits.study(data, results, epochs))
    console.print(_digits_table(results))
    read = [digits_part.part(data, results, epochs), _believe(console, data, results)]
    with console.status("waiting for the study of looking up"):
        studied = looking_up.found()
    console.print(_quick_table(studied))
    parts = [karate_part.part(club, sides), *told, *read, quick.part(studied), five_tokens.part(five)]
    page = render(
        parts,
        regard=version("regard"),
        torch=version("torch"),
        python=platform.python_version(),
        computed=f"in {time.perf_counter() - began:.0f} s",
    )
    return write(page, out)


def _segments(console: Console, out: Path) -> list[PageSection]:
    """The paragraph and its questions; nothing, and a word about it, where the model is not installed."""
    lacking = segments.missing()
    if lacking:
        console.print(f"The paragraph and its questions are left out, they need MiniLM: {lacking}", highlight=False)
        return []
    from . import segments_part

    with console.status("reading a paragraph in shuffled orders"):
        model, tokenizer = segments.load()
        results = segments.study(model, tokenizer)
        records.of_the_paragraph(model, tokenizer, out)
    console.print(_segments_table(results), segments_part.headline(results.after), sep="\n", highlight=False)
    return [segments_part.part(results)]


def _believe(console: Console, data: digits.Digits, results: digits.DigitResults) -> PageSection:
    """The digits' network before the judges."""
    assert results.reader is not None
    with console.status("judging the network's weights"):
        found = believe.study(results.reader, data)
    console.print(_believe_table(found))
    return believe.part(found, data)


def _follow(console: Console, doing: str, total: int, runs: Iterator[tuple[Any, ...]]) -> None:
    """Runs (seed, names of the network ..., accuracy) one after the other, telling the console of each."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(doing, total=total)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # tensors this small only wait for each other on several
        try:
            for seed, *network, accuracy in runs:
                ended = f"seed {seed}: {', '.join(network)} {100 * accuracy:.1f}%"
                progress.update(task, advance=1, description=ended)
                if not console.is_terminal:  # a log has no bar that moves
                    console.print(ended, highlight=False)
        finally:
            torch.set_num_threads(threads)


def _five_table(five: five_tokens.FiveTokens) -> Table:
    table = Table("query", *five_tokens.TOKENS, title="Five tokens: who attends to whom", title_justify="left")
    for token, row in zip(five_tokens.TOKENS, five.weights.tolist(), strict=True):
        table.add_row(token, *(f"{weight:.4f}" for weight in row))
    return table


def _karate_table(results: karate.KarateResults) -> Table:
    title = f"Karate club: hidden members found, {_seeds(results.seeds)}"
    table = Table("network", "accuracy", title=title, title_justify="left")
    found = {kind: results.spread(kind) for kind in karate.KINDS}
    found |= {name: Spread(tuple(values)) for name, values in results.baselines.items()}
    for name, spread in found.items():
        table.add_row(name, f"{100 * spread.mean:.1f}{around(spread)}%")
    return table


def _segments_table(results: segments.SegmentResults) -> Table:
    title = f"A paragraph and its questions: the answer has the largest weight, {len(results.after[0].orders)} orders"
    table = Table("question", "MiniLM's attention", "always the nearest", "a guess", title=title, title_justify="left")
    for question, one in zip(segments.QUESTIONS, results.after, strict=True):
        hits, position = one.hits(), one.by_position()
        guess = f"{hits.of / segments.PLACES:.0f} of {hits.of}"
        table.add_row(question, f"{hits.hits} of {hits.of}", f"{position.hits} of {position.of}", guess)
    return table


def _quick_table(found: Analysis) -> Table:
    sheet = means_sheet(found, found.results.tasks[0])
    table = Table(*sheet.columns, title=f"Looking up: {sheet.title}", title_justify="left")
    for row in sheet.rows:
        table.add_row(*row)
    return table


def _digits_table(results: digits.DigitResults) -> Table:
    table = Table(
        "network",
        "attention",
        "every weight equal",
        "difference",
        title=f"Digits: test accuracy, {_seeds(results.seeds)}",
        title_justify="left",
    )
    for network in digits.NETWORKS:
        on, off = results.spread(network, "softmax"), results.spread(network, "uniform")
        cells = (f"{100 * spread.mean:.1f}{around(spread)}%" for spread in (on, off, on - off))
        table.add_row(network, *cells)
    return table


def _believe_table(found: believe.Believed) -> Table:
    title = f"May I believe it? {found.report.about['instances']} digits"
    table = Table("asked", "found", "beside", title=title, title_justify="left")
    for test, one in found.report.headlines():
        told = judged_report.row(one)
        beside = f"{told['main']['says']} {told['main']['value']}" if told["main"] else ""
        table.add_row(f"{test.name}: {one.name}", f"{told['value']} [{told['interval']}]", beside)
    return table


def _seeds(count: int) -> str:
    return f"{count} seed{'s' * (count > 1)}"
