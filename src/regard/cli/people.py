"""regard people: agreement of attention with humans, on real data."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ..core.plural import count_of
from .cli_errors import Device, check_output_folder, requires_extra, resumable, user_errors
from .output.findings import print_findings
from .output.help import CommandList
from .output.progress import progress_bar, progress_bars

app = typer.Typer(
    cls=CommandList,
    help="Agreement with humans: reading times, gaze, rationales.",
    epilog="Example:  regard people reading",
    no_args_is_help=True,
)

Json = Annotated[bool, typer.Option("--json", help="Print the findings as JSON instead of a table.")]


def _tables(findings: Sequence[Any], title: str) -> Iterator[Table]:
    for unit, better in dict.fromkeys((one.unit, one.better) for one in findings):
        some = [one for one in findings if (one.unit, one.better) == (unit, better)]
        yield _table(some, f"{title}: {unit}" + f", {better} is better" * (better != "neither"))


def _table(some: Sequence[Any], title: str) -> Table:
    """One row for each finding. A baseline shared by all has a row of its own, one that is a finding uses its row;
    others are in the last column."""
    values: dict[str, list[float | None]] = {}
    for one in some:
        for name, value in one.baselines.items():
            values.setdefault(name, []).append(value)
    shared = {name: found[0] for name, found in values.items() if len(found) == len(some) > 1 and len(set(found)) == 1}
    listed = {name for name in values if any(one.name.endswith((f", {name}", f": {name}")) for one in some)}
    own = not values.keys() <= shared.keys() | listed
    table = Table(title=title)
    table.add_column("")
    for name in ("value", "interval", "n"):
        table.add_column(name, justify="right", no_wrap=True)
    if own:
        table.add_column("baselines")
    for one in some:
        ends = "" if one.interval is None else f"[{one.interval[0]:.3f}, {one.interval[1]:.3f}]"
        rest = {name: value for name, value in one.baselines.items() if name not in shared and name not in listed}
        beside = ", ".join(f"{name} {_said(value)}" for name, value in rest.items())
        table.add_row(one.name, _said(one.value), ends, str(one.n), *[beside] * own)
    if shared:
        table.add_section()
    for name, value in shared.items():
        table.add_row(name, _said(value))
    return table


def _said(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"


@app.command("reading")
def reading(
    model: Annotated[str, typer.Option(help="A model name for transformers, a folder, or minilm.")] = "minilm",
    data: Annotated[
        str, typer.Option(help="geco, or the path of your reading times: a .csv with sentence, word and time.")
    ] = "geco",
    sentences: Annotated[int, typer.Option(min=0, help="Only the first N; 0 for all.")] = 0,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """GECO: does attention correlate with reading times?

    Or your own reading times, by --data. Baselines: word length, rarity,
    position, chance. GECO needs REGARD_DATA.

    Example:  regard people reading
    """
    with requires_extra("demo"), user_errors():
        from ..data.readers.reading_times import read_reading_times
        from ..lab.data.eye_tracking import geco
        from ..lab.human_agreement.reading_times import PUBLISHED, judge_reading
        from ..recording.pretrained import load_model

        readings = (geco() if data == "geco" else read_reading_times(data))[: sentences or None]
        network, tokenizer = load_model(model)
        with progress_bars() as report:
            found = judge_reading(
                network.to(device),
                tokenizer,
                readings,
                published=PUBLISHED if data == "geco" else {},
                on_progress=lambda done, of: report(f"{model} reads", done, of),
            )
        print_findings(found, _tables(found, f"{len(readings)} sentences, {model}"), json, None)


@app.command("scenes")
def scenes(
    seeds: Annotated[int, typer.Option(min=1, help="Random splits into folds, with a model trained on each.")] = 3,
    parts: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 5,
    data: Annotated[
        str,
        typer.Option(help="scenes, or the path of your folder: images and fixations.csv with image, x, y, observer."),
    ] = "scenes",
    photographs: Annotated[int, typer.Option(min=0, help="Only the first N; 0 for all.")] = 0,
    device: Device = "cpu",
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Folder for findings and predictions; interrupted runs resume.")
    ] = None,
    json: Json = False,
) -> None:
    """Photographs: can attention predict human fixations?

    Baselines: centre bias, contrast, other observers. Your own photographs by
    --data; else it needs REGARD_DATA.
    The example takes about three minutes on one core; --out takes 8 MB.

    Example:  regard people scenes --seeds 1 --out scenes
    """
    check_output_folder(out)
    with requires_extra("train"), user_errors(), resumable(saved=out is not None):
        from ..data.readers.fixations import read_fixations
        from ..lab.data.eye_tracking import scenes as load
        from ..lab.human_agreement.scene_model import GazeTraining
        from ..lab.human_agreement.scenes import judge_scenes

        some = (load() if data == "scenes" else read_fixations(data))[: photographs or None]
        how = {
            "taught attention": GazeTraining(device=device),
            "taught attention, picture alone": GazeTraining(prior=False, device=device),
        }
        with progress_bar() as report:
            found = judge_scenes(some, parts=parts, seeds=seeds, how=how, out=out, on_progress=report)
        print_findings(found, _tables(found, f"{len(some)} photographs, {count_of(seeds, 'seed')}"), json, out)


@app.command("movies")
def movies(
    supervise: Annotated[
        list[float] | None, typer.Option(help="Weight of the loss on attention, beside 0 (repeatable).")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Training runs of each model.")] = 3,
    learn: Annotated[int, typer.Option(min=0, help="Training reviews; 0 for all 1600.")] = 0,
    erase: Annotated[int, typer.Option(min=0, help="Test reviews for erasure metrics; 0 skips them.")] = 100,
    model: Annotated[str, typer.Option(help="Source of word vectors: minilm, or a folder of such a model.")] = "minilm",
    device: Device = "cpu",
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Folder for findings, vectors, checkpoints; interrupted runs resume."),
    ] = None,
    json: Json = False,
) -> None:
    """ERASER Movies: does attention match human rationales?

    And does supervising attention with them help? Needs REGARD_DATA.
    The example takes about 25 minutes on one core, half of them for erasure
    (--erase 0 skips it); --out takes 1.2 GB of vectors.

    Example:  regard people movies --seeds 3 --out movies
    """
    check_output_folder(out)
    with requires_extra("train"), user_errors(), resumable(saved=out is not None):
        from ..lab.data.movies import reviews
        from ..lab.human_agreement.review_model import ReviewTraining
        from ..lab.human_agreement.reviews import judge_reviews
        from ..lab.human_agreement.word_encoder import Encoder
        from ..recording.pretrained import load_model

        parts = reviews()
        network, tokenizer = load_model(model)
        weights = (0.0, *dict.fromkeys(one for one in supervise or (0.1, 1.0) if one))
        with progress_bar() as report:
            found = judge_reviews(
                Encoder(network.to(device), tokenizer),
                parts,
                supervise=weights,
                seeds=seeds,
                learn=learn,
                erase=erase,
                how=ReviewTraining(device=device),
                out=out,
                on_progress=report,
            )
        print_findings(found, _review_tables(found, len(parts["test"]), seeds), json, out)


def _review_tables(found: Sequence[Any], reviews: int, seeds: int) -> Iterator[Table]:
    """Erasure metrics have one seed and fewer reviews: a table of their own."""
    from ..lab.human_agreement.reviews import ERASED

    erased = [one for one in found if one.unit in ERASED]
    yield from _tables([one for one in found if one not in erased], f"{reviews} reviews, {count_of(seeds, 'seed')}")
    if erased:
        yield from _tables(erased, f"{erased[0].n} reviews, {count_of(1, 'seed')}")


@app.command("sst")
def sst(
    seeds: Annotated[int, typer.Option(min=1, help="Training runs of each classifier.")] = 3,
    learn: Annotated[int, typer.Option(min=0, help="Training sentences, evenly spaced; 0 for all 6920.")] = 0,
    readings: Annotated[int, typer.Option(min=0, help="Sentences with reading times; 0 for all.")] = 0,
    weight: Annotated[float, typer.Option(min=0, help="Weight of the loss on attention.")] = 1.0,
    device: Device = "cpu",
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Folder for findings and checkpoints; interrupted runs resume.")
    ] = None,
    json: Json = False,
) -> None:
    """SST: does supervising attention with reading times help?

    The attention of a sentence classifier is supervised with reading times of
    another text (GECO). Needs REGARD_DATA. The example takes about a minute
    and a half on one core.

    Example:  regard people sst --learn 1000 --readings 1500
    """
    check_output_folder(out)
    with requires_extra("train"), user_errors(), resumable(saved=out is not None):
        from ..lab.data.eye_tracking import geco
        from ..lab.data.sst import sst as load_sst
        from ..lab.human_agreement.reading_supervision import JointTraining, judge_joint

        task = load_sst(phrases=False)
        if 0 < learn < len(task.train):
            task.train = [task.train[place * len(task.train) // learn] for place in range(learn)]
        with progress_bar() as report:
            read = geco()[: readings or None]
            found = judge_joint(
                task,
                read,
                seeds=seeds,
                out=out,
                held=min(500, len(read) // 3),
                how=JointTraining(weight=weight, device=device),
                on_progress=report,
            )
        print_findings(
            found, _tables(found, f"{len(task.train)} sentences to learn from, {count_of(seeds, 'seed')}"), json, out
        )
