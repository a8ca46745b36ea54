"""regard validate: power and false positives of the tests, on models of known truth and on null reports."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from .cli_errors import check_output_folder, console, fail, requires_extra, user_errors
from .output.help import CommandList
from .output.progress import progress_bar

app = typer.Typer(
    cls=CommandList,
    help="Validate the tests: models of known truth, null reports.",
    epilog="Example:  regard validate models",
    no_args_is_help=True,
)
Out = Annotated[Path | None, typer.Option("-o", "--out", help="A folder for JSON and the tables of the docs.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@app.callback()
def main() -> None:
    pass


@app.command()
def models(
    instances: Annotated[int, typer.Option(min=8, help="Texts, or nodes, on which each model is judged.")] = 40,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same table.")] = 0,
    only: Annotated[str, typer.Option(help="Names of models with commas between them; all unless told.")] = "",
    json: Json = False,
    out: Out = None,
) -> None:
    """AUROC, power and false positives on models of known truth.

    The models are built by hand: of each it is known whether its weights are a
    faithful reason. Takes two minutes on one core.

    Example:  regard validate models -o validation
    """
    if out is not None:
        check_output_folder(out)
    with requires_extra("judge"), user_errors():
        from ..lab.validation.built import chosen_models
        from ..lab.validation.judges import judged_models, qualities
        from ..lab.validation.tables import (
            JUDGES,
            MODELS,
            judge_rows,
            model_rows,
            models_json,
            models_markdown,
            validity_json,
        )
        from ..recording.io.writing import write_whole

        with progress_bar("building") as report:
            judged = judged_models(
                instances, seed, chosen_models(only), on_progress=lambda done, of, name: report(name, done, of)
            )
        found = qualities(judged, seed)
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            written = {
                "models.json": models_json(judged, found),
                "models.md": models_markdown(judged, found),
                "validity.json": validity_json(found),
            }
            for name, text in written.items():
                write_whole(out / name, [text.encode()])
        if json:
            typer.echo(models_json(judged, found))
            return
        console().print(_table(JUDGES, judge_rows(found)))
        console().print(_table(MODELS, model_rows(judged)))
        if out is not None:
            typer.echo(f"Written to {out / 'models.md'}.")


@app.command()
def null(
    reports: Annotated[int, typer.Option(min=1, help="How many null reports.")] = 200,
    instances: Annotated[int, typer.Option(min=8, help="Texts of each report.")] = 40,
    workers: Annotated[int, typer.Option(min=1, help="Processes; the numbers are the same for any.")] = 2,
    tests: Annotated[str, typer.Option(help="Some of the tests, with commas; by default those that have a null.")] = "",
    first: Annotated[int, typer.Option(min=0, help="Number of the first report; each draws its own data.")] = 0,
    json: Json = False,
    out: Out = None,
) -> None:
    """False verdicts of reports on permuted weights and labels.

    The weights are permuted within each text, so that they are unrelated to the
    prediction; labels and rationales are permuted too. At a level of .05 at most
    16 of 200 may have a verdict. Takes nine minutes of one core.

    Example:  regard validate null --reports 200
    """
    if out is not None:
        check_output_folder(out)
    with requires_extra("judge"), user_errors():
        from ..lab.validation.null import TESTS, null_reports
        from ..lab.validation.tables import NULL, null_json, null_markdown, null_rows, null_says
        from ..recording.io.writing import write_whole

        with progress_bar("judging") as report:
            found = null_reports(
                reports,
                instances,
                workers,
                tests or TESTS,
                lambda done, of, said: report("judging", done, of, said),
                first,
            )
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            for name, text in (("null.json", null_json(found)), ("null.md", null_markdown(found))):
                write_whole(out / name, [text.encode()])
        if json:
            typer.echo(null_json(found))
        else:
            console().print(_table(NULL, null_rows(found)))
            typer.echo(null_says(found))
    if not found.held:
        raise typer.Exit(1)


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    table = Table(*columns, box=None, header_style="bold")
    for column in table.columns[1:-1]:  # names may wrap; numbers stay whole
        column.no_wrap = True
    for row in rows:
        table.add_row(*row)
    return table


@app.command()
def coverage(
    trials: Annotated[int, typer.Option(min=100, help="How often each is drawn.")] = 1000,
    json: Json = False,
) -> None:
    """Coverage of the intervals, and false-positive rates of verdicts.

    Shares by enumeration; means, seeds and comparisons under the null
    hypothesis by simulation. Takes one minute on one core.

    Example:  regard validate coverage --json > coverage.json
    """
    with requires_extra("judge"), user_errors():
        from ..lab.validation import coverage as measure

        measure.main(json, trials)


@app.command()
def circuits(
    kind: Annotated[str, typer.Option(help="compiled, planted or trained: where the truth is from.")] = "compiled",
    noise: Annotated[float, typer.Option(min=0.0, help="Gaussian noise added to every weight.")] = 0.0,
    seeds: Annotated[int, typer.Option(min=1, help="Models of each program: other distractors, other texts.")] = 3,
    program: Annotated[list[str] | None, typer.Option(help="A program by name; all of them unless told.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Of training, with --kind trained.")] = 3000,
    json: Json = False,
) -> None:
    """Which methods find the edges of known circuits.

    compiled: eight programs in hand-set weights, with heads beside them that do
    nothing. planted: their heads look where they should, but the answer is taken
    from a token that leaks it. trained: networks taught the program's circuit by
    interchange interventions (40 to 90 s of a core each). AUROC of the true edges
    into queries, keys and values, by method; CPR and CMD of the Mechanistic
    Interpretability Benchmark; and what each costs.

    Example:  regard validate circuits --kind trained --seeds 1
    """
    if kind not in ("compiled", "planted", "trained"):
        fail(f"--kind {kind}: expected compiled, planted or trained.")
    with requires_extra("judge"), user_errors():
        from ..lab.validation.circuits.measures import CIRCUITS, circuit_rows, circuits_json, measured, program_names

        unknown = set(program or ()) - set(program_names(kind))
        if unknown:
            fail(f"--program {sorted(unknown)[0]}: expected some of {', '.join(program_names(kind))}.")
        with progress_bar("finding edges") as report:
            lines = measured(
                noise,
                seeds,
                names=program,
                on_progress=lambda done, of, name: report(name, done, of),
                kind=kind,
                steps=steps,
            )
    if json:
        typer.echo(circuits_json(lines))
        return
    table = _table(CIRCUITS, circuit_rows(lines))
    table.columns[0].min_width, table.columns[2].no_wrap = 16, False  # names of methods and programs wrap at words
    console().print(table)
    right = sum(line.right for line in lines) / len(lines)
    typer.echo(f"The models give the right answer at {right:.1%} of the places that have one.")
    if kind == "trained":
        agrees = {(line.program, line.seed): line.agrees for line in lines}
        typer.echo("Agreement with the program when edges are exchanged, worst of its kinds:")
        for name in dict.fromkeys(line.program for line in lines):
            typer.echo(f"  {name}: {', '.join(f'{x:.1%}' for (own, _), x in agrees.items() if own == name and x)}")
