"""regard study: run, inspect, resume, report, compare and cancel studies."""

from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .cli_errors import console, fail, requires_extra, resumable, user_errors
from .output.help import CommandList

if TYPE_CHECKING:
    from ..studies import Results, Study
    from ..studies.trial_store import Store

app = typer.Typer(
    cls=CommandList,
    help="Ablation studies: tasks x variants x seeds, run and compared.",
    epilog="Example:  regard study run quick",
    no_args_is_help=True,
)

What = Annotated[Path, typer.Argument(help="The study: its TOML file, or its folder.")]
Out = Annotated[Path | None, typer.Option("-o", "--out", help="Folder of the study.  [default: <name>-study]")]
StoreOption = Annotated[
    str | None, typer.Option("--store", help="Another store: a file, or postgresql://user@host/name.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Concurrent trials.  [default: as the cores or GPUs allow]")]
EngineOption = Annotated[str, typer.Option("--engine", help="local (processes on this machine) or ray (a cluster).")]
Address = Annotated[str | None, typer.Option(help="With --engine ray: the cluster, such as auto or host:6379.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print failures only.")]


@app.command()
def run(
    study: Annotated[Path, typer.Argument(help="The study's TOML file; or quick, the built-in study.")],
    out: Out = None,
    store: StoreOption = None,
    workers: Workers = None,
    engine: EngineOption = "local",
    address: Address = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Run the trials of a study that are not done.

    Any number of runners may share a store.

    Example:  regard study run quick
    """
    with requires_extra("studies"), user_errors():
        from ..studies import Study

        _run(Study.read(study), out, store, workers, engine, address, quiet, json)


@app.command()
def resume(
    study: What,
    out: Out = None,
    store: StoreOption = None,
    workers: Workers = None,
    engine: EngineOption = "local",
    address: Address = None,
    failed: Annotated[bool, typer.Option("--failed", help="Also retry failed trials.")] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Resume a study that was stopped, killed or cancelled.

    It resumes as it was specified then.

    Example:  regard study resume quick-study
    """
    with requires_extra("studies"), user_errors():
        found, trials, folder = _open(study, out, store)
        trials.close()
        _run(found, folder, store, workers, engine, address, quiet, json, failed)


def _run(
    study: "Study",
    out: Path | None,
    store: str | None,
    workers: int | None,
    engine: str,
    address: str | None,
    quiet: bool,
    json: bool,
    retry_failed: bool = False,
) -> None:
    from ..studies.local_engine import available_cores
    from ..studies.run_study import folder_for
    from ..studies.run_study import run as run_study
    from .output.study_progress import progress_callbacks

    shown = console(stderr=True)
    folder = out or folder_for(study.name)
    if not quiet:
        shown.print(_power_analysis(study), soft_wrap=True)
    slots = workers or max(1, available_cores() // study.threads)
    with resumable(), progress_callbacks(shown, study.name, study.trial_count(), slots, quiet) as callbacks:
        found = run_study(
            study,
            folder,
            store=store,
            workers=workers,
            engine=engine,
            address=address,
            callbacks=callbacks,
            retry_failed=retry_failed,
        )
    _show(found, json)
    if found.missing:
        raise typer.Exit(1)


@app.command()
def status(study: What, out: Out = None, store: StoreOption = None, json: Json = False) -> None:
    """Count trials by status; show progress and errors.

    Example:  regard study status quick-study
    """
    with requires_extra("studies"), user_errors():
        from ..studies.aggregate import missing_reason
        from ..studies.trial_runner import worker_name

        found, trials, _ = _open(study, out, store)
        counts = trials.counts(found.name)
        running = trials.trials(found.name, ("running",))
        failed = [
            (one, missing_reason(trials, one), trials.attempt_counts(one.id))
            for one in trials.trials(found.name, ("failed",))
        ]
        cancelled = trials.cancelled(found.name)
        trials.close()
    if json:
        rows = [
            {
                "task": one.task,
                "variant": one.variant,
                "seed": one.seed,
                "share": one.share,
                "note": one.note,
                "worker": one.worker,
            }
            for one in running
        ]
        errors = [
            {"task": one.task, "variant": one.variant, "seed": one.seed, "error": said, "ends": ends}
            for one, said, ends in failed
        ]
        typer.echo(
            dumps(
                {"study": found.name, "cancelled": cancelled, "trials": counts, "running": rows, "failed": errors},
                indent=1,
            )
        )
        return
    shown = console()
    said = ", ".join(f"{count} {name}" for name, count in counts.items())
    shown.print(f"{found.name}: {said}{'; cancelled' if cancelled else ''}")
    for one in running:
        far = f"{100 * (one.share or 0):.0f} %" + (f", {one.note}" if one.note else "")
        shown.print(
            f"  {one.task}: {one.variant}, seed {one.seed}: {far} ({one.running or 0:.0f} s, "
            f"{worker_name(one.worker or '')})",
            soft_wrap=True,
        )
    for one, error, _ in failed:
        shown.print(f"  {one.task}: {one.variant}, seed {one.seed} failed: {error}", soft_wrap=True)
    if failed:
        shown.print(f"`regard study resume {study} --failed` retries failed trials.", soft_wrap=True)


@app.command()
def report(
    study: What,
    out: Out = None,
    store: StoreOption = None,
    to: Annotated[
        Path | None, typer.Option(help="Write the page, tables, figures and all numbers into this folder.")
    ] = None,
    json: Json = False,
) -> None:
    """Report a study: each variant against the baseline.

    Example:  regard study report quick-study --to quick-report
    """
    with requires_extra("studies"), user_errors():
        from ..recording.io.writing import write_whole

        results = _collected(study, out, store)
        _show(results, json)
        if to is not None:
            from ..views.study import study_report

            to.mkdir(parents=True, exist_ok=True)
            write_whole(to / "results.json", [results.to_json(1).encode()])
            study_report(results, to)
            typer.echo((to / "report.html").resolve(), err=json)


@app.command()
def compare(
    study: What,
    variant: Annotated[str, typer.Argument(help="A variant of the study.")],
    beside: Annotated[str, typer.Argument(help="The variant to compare it with.")],
    out: Out = None,
    store: StoreOption = None,
    json: Json = False,
) -> None:
    """Compare two variants of a study, paired by seed.

    p is corrected for this comparison alone.

    Example:  regard study compare quick-study scaled_dot additive
    """
    with requires_extra("studies"), user_errors():
        from dataclasses import replace

        from ..models.attention_spec import parse_attention

        results = _collected(study, out, store)
        pair = []
        for name in (variant, beside):
            pair.append(name if name in results.variants else str(parse_attention(name)))
            if pair[-1] not in results.variants or pair[-1] in pair[:-1]:
                fail(f"{name!r}: name two variants of {results.study}, which has {', '.join(results.variants)}.")
        rows = [row for row in results.rows if row.variant in pair]
        _show(replace(results, baseline=pair[1], variants=(pair[1], pair[0]), rows=rows), json)


@app.command()
def cancel(study: What, out: Out = None, store: StoreOption = None) -> None:
    """Stop a study on all its runners; finished trials are kept.

    `regard study resume` continues it.

    Example:  regard study cancel quick-study
    """
    with requires_extra("studies"), user_errors():
        found, trials, _ = _open(study, out, store)
        trials.cancel(found.name)
        trials.close()
        console().print(f"{found.name} is cancelled; its runners will stop within seconds.")


def _open(what: Path, out: Path | None, store: str | None) -> "tuple[Study, Store, Path]":
    """The study as stored: by its TOML file, its folder, or its name in the store of --store."""
    from ..studies import Study
    from ..studies.run_study import folder_for, store_of

    modules = ""
    if what.is_file():
        read = Study.read(what)
        name, folder, modules = read.name, out or folder_for(read.name), read.modules
    elif store is None:
        name, folder = "", out or what
    else:
        name, folder = what.name.removesuffix("-study"), out or folder_for(what.name.removesuffix("-study"))
    trials = store_of(folder, store, patience=10.0)
    names = trials.names()
    if not name:
        if not names:
            raise ValueError(f"The store {trials.name} has no study yet: run one with `regard study run FILE`.")
        if len(names) != 1:
            raise ValueError(f"The store in {folder} has the studies {', '.join(names)}: give the TOML file of one.")
        name = names[0]
    found = Study.stored(trials.specification(name))
    return found if not modules else found.model_copy(update={"modules": modules}), trials, folder


def _power_analysis(study: "Study") -> str:
    from ..studies.statistics import check_power

    comparisons = (len(study.variant_names()) - 1) * len(study.tasks)
    return check_power(len(study.seeds), comparisons).says if comparisons else ""


def _collected(what: Path, out: Path | None, store: str | None) -> "Results":
    from ..studies.aggregate import collect

    found, trials, _ = _open(what, out, store)
    try:
        return collect(trials, found)
    finally:
        trials.close()


def results_in(place: Path) -> "Results":
    """The results of a study, by its folder or by the results.json of its report."""
    from ..studies.results import Results

    if place.is_file() and place.suffix == ".json":
        return Results.from_json(place.read_text(encoding="utf-8"))
    return _collected(place, None, None)


def _show(results: "Results", json: bool) -> None:
    from .output.study_tables import result_tables
    from .output.tables import table_console

    if json:
        typer.echo(results.to_json(1))
        return
    shown = table_console()
    for one in result_tables(results, shown.width):
        shown.print(one, soft_wrap=isinstance(one, str))
        if not isinstance(one, str):
            shown.print()
