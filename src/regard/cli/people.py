"""regard people: attention beside people, on real data."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ..core.plural import count_of
from .cli_errors import Device, check_output_folder, requires_extra, resumable, user_errors
from .findings import leave
from .help import CommandList
from .progress import progress_bar, progress_bars

app = typer.Typer(
    cls=CommandList,
    help="Attention beside people: reading times, looks, reasons.",
    epilog="Example:  regard people reading",
    no_args_is_help=True,
)

Json = Annotated[bool, typer.Option("--json", help="Print the findings as JSON instead of a table.")]


def _tables(findings: Sequence[Any], title: str) -> Iterator[Table]:
    for unit, better in dict.fromkeys((one.unit, one.better) for one in findings):
        some = [one for one in findings if (one.unit, one.better) == (unit, better)]
        yield _table(some, f"{title}: {unit}" + f", {better} is better" * (better != "neither"))


def _table(some: Sequence[Any], title: str) -> Table:
    """A row a finding. A baseline that is the same beside all of them has a row of its own, one that is a finding too
    has that row; others stand beside."""
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
        table.add_column("beside")
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
    model: Annotated[str, typer.Option(help="A name for transformers, a folder, or minilm.")] = "minilm",
    sentences: Annotated[int, typer.Option(min=0, help="Only the first so many; 0 for all.")] = 0,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """GECO: are words that receive attention read longer?

    Beside word length, rarity, place and chance. Needs the folder REGARD_DATA.

    Example:  regard people reading
    """
    with requires_extra("demo"), user_errors():
        from ..lab.data.eye_tracking import geco
        from ..lab.human_agreement.reading import judge_reading
        from ..recording.pretrained import load_model

        readings = geco()[: sentences or None]
        network, tokenizer = load_model(model)
        with progress_bars() as report:
            found = judge_reading(
                network.to(device), tokenizer, readings, on_progress=lambda done, of: report(f"{model} reads", done, of)
            )
        leave(found, _tables(found, f"{len(readings)} sentences, {model}"), json, None)


@app.command("scenes")
def scenes(
    seeds: Annotated[
        int, typer.Option(min=1, help="How often photographs are drawn into parts, and models taught.")
    ] = 3,
    parts: Annotated[int, typer.Option(min=2, help="Parts of which each is foreseen by a model of the others.")] = 5,
    photographs: Annotated[int, typer.Option(min=0, help="Only the first so many; 0 for all.")] = 0,
    device: Device = "cpu",
    out: Annotated[
        Path | None, typer.Option(help="A folder for findings and what was foreseen; stopped runs go on.")
    ] = None,
    json: Json = False,
) -> None:
    """Photographs: can attention learn where people look?

    Beside the centre, contrast and other people. Needs the folder REGARD_DATA.
    The example takes about three minutes on one core and keeps 8 MB in --out.

    Example:  regard people scenes --seeds 1 --out scenes
    """
    check_output_folder(out)
    with requires_extra("train"), user_errors(), resumable(saved=out is not None):
        from ..lab.data.eye_tracking import scenes as load
        from ..lab.human_agreement.scene_model import Taught
        from ..lab.human_agreement.scenes import judge_scenes

        some = load()[: photographs or None]
        how = {
            "taught attention": Taught(device=device),
            "taught attention, picture alone": Taught(prior=False, device=device),
        }
        with progress_bar() as report:
            found = judge_scenes(some, parts=parts, seeds=seeds, how=how, out=out, on_progress=report)
        leave(found, _tables(found, f"{len(some)} photographs, {count_of(seeds, 'seed')}"), json, out)


@app.command("movies")
def movies(
    supervise: Annotated[
        list[float] | None, typer.Option(help="Weights of the loss on attention, beside 0 (repeat it for several).")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How often each reader is trained.")] = 3,
    learn: Annotated[int, typer.Option(min=0, help="Training reviews to learn from; 0 for all 1600.")] = 0,
    erase: Annotated[int, typer.Option(min=0, help="Test reviews whose words are erased; 0 leaves that out.")] = 100,
    model: Annotated[
        str, typer.Option(help="Whose vectors of words are read: minilm, or a folder of such a model.")
    ] = "minilm",
    device: Device = "cpu",
    out: Annotated[
        Path | None, typer.Option(help="A folder for findings, vectors and checkpoints; stopped runs go on.")
    ] = None,
    json: Json = False,
) -> None:
    """ERASER Movies: does attention lie on people's reasons?

    And does it help to teach it that? Needs the folder REGARD_DATA.
    The example takes about 25 minutes on one core, half of them to erase words
    (--erase 0 leaves that out), and keeps 1.2 GB of vectors in --out.

    Example:  regard people movies --seeds 3 --out movies
    """
    check_output_folder(out)
    with requires_extra("train"), user_errors(), resumable(saved=out is not None):
        from ..lab.data.movies import reviews
        from ..lab.human_agreement.encoder import Encoder
        from ..lab.human_agreement.review_model import Judging
        from ..lab.human_agreement.reviews import judge_reviews
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
                how=Judging(device=device),
                out=out,
                on_progress=report,
            )
        leave(found, _review_tables(found, len(parts["test"]), seeds), json, out)


def _review_tables(found: Sequence[Any], reviews: int, seeds: int) -> Iterator[Table]:
    """Words are erased for one seed alone, and in some of the reviews."""
    from ..lab.human_agreement.reviews import ERASED

    erased = [one for one in found if one.unit in ERASED]
    yield from _tables([one for one in found if one not in erased], f"{reviews} reviews, {count_of(seeds, 'seed')}")
    if erased:
        yield from _tables(erased, f"{erased[0].n} reviews, {count_of(1, 'seed')}")


@app.command("sst")
def sst(
    seeds: Annotated[int, typer.Option(min=1, help="How often each classifier is trained.")] = 3,
    learn: Annotated[int, typer.Option(min=0, help="Sentences to learn from, spread evenly; 0 for all 6920.")] = 0,
    readings: Annotated[int, typer.Option(min=0, help="Sentences that were read, the first so many; 0 for all.")] = 0,
    weight: Annotated[float, typer.Option(min=0, help="Weight of the loss on attention.")] = 1.0,
    device: Device = "cpu",
    out: Annotated[Path | None, typer.Option(help="A folder for findings and checkpoints; stopped runs go on.")] = None,
    json: Json = False,
) -> None:
    """SST taught by GECO: does it help to look as readers do?

    A classifier of sentences learns to look as the readers of a novel did.
    Needs the folder REGARD_DATA. The example takes about a minute and a half
    on one core.

    Example:  regard people sst --learn 1000 --readings 1500
    """
    check_output_folder(out)
    with requires_extra("train"), user_errors(), resumable(saved=out is not None):
        from ..lab.data.eye_tracking import geco
        from ..lab.data.sst import sst as load
        from ..lab.human_agreement.joint import Classifying, judge_joint

        task = load(phrases=False)
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
                how=Classifying(weight=weight, device=device),
                on_progress=report,
            )
        leave(found, _tables(found, f"{len(task.train)} sentences to learn from, {count_of(seeds, 'seed')}"), json, out)
