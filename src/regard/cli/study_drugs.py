"""regard study drugs: is attention all one needs for drug response?"""

from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from .cli_errors import check_output_folder, console, fail, requires_extra, resumable, user_errors


def drugs(
    small: Annotated[
        bool, typer.Option("--small", help="The small setting for two cores; by default that for a GPU.")
    ] = False,
    splits: Annotated[
        str, typer.Option(help="Comma-separated: cells, drugs, tissues, scaffolds, pairs.  [default: all]")
    ] = "",
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder of the store, tables and figures.")] = Path("drugs"),
    workers: Annotated[
        int | None, typer.Option(min=1, help="Concurrent trials.  [default: as the cores or GPUs allow]")
    ] = None,
    report: Annotated[bool, typer.Option("--report", help="Run nothing; report what is in the folder.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Drug response: is attention all I need?

    Networks with attention in nine places against mean effects, ridge, trees
    and ablations, with equal tuning budgets, on five kinds of split. The same
    command resumes. Needs REGARD_DATA and RDKit.

    Example:  regard study drugs --small --splits cells -o drugs
    """
    check_output_folder(out)
    with requires_extra("studies"), requires_extra("chem"), user_errors(), resumable():
        from ..lab.drug_response import run_comparison as answer
        from ..lab.drug_response.protocol.settings import FULL, SMALL
        from ..lab.drug_response.protocol.splits import SPLITS

        setting = SMALL if small else FULL
        chosen = [one.strip() for one in splits.split(",") if one.strip()] or list(setting.variants)
        if strange := [one for one in chosen if one not in SPLITS]:
            fail(f"--splits {strange[0]}: expected some of {', '.join(SPLITS)}, comma-separated.")
        shown = console(stderr=True)
        if not report:
            for sentence in answer.foretold(setting, chosen):
                shown.print(sentence, soft_wrap=True, highlight=False)
            _run(setting, chosen, out, workers)
        elif not out.is_dir():
            fail(f"--out {out}: there is no such folder to report; run without --report first.")
        _show(setting, chosen, out, report, json)


def _run(setting: Any, chosen: list[str], out: Path, workers: int | None) -> None:
    from ..lab.drug_response import run_comparison as answer
    from ..studies.local_engine import available_cores
    from .output.study_progress import progress_callbacks

    shown = console(stderr=True)
    for split in chosen:
        study = setting.study(split)
        slots = workers or available_cores()
        with progress_callbacks(shown, study.name, len(study.jobs()), slots) as callbacks:
            answer.run_split(setting, split, out, workers, callbacks)


def _show(setting: Any, chosen: list[str], out: Path, report: bool, json: bool) -> None:
    from ..lab.drug_response import run_comparison as answer
    from ..lab.drug_response.evaluation.report import measure_sheet, paired_sheet, reason_sheet
    from .output.progress import progress_bar
    from .output.tables import table_console, table_of, with_whole_cells

    reports = answer.reports_of(setting, chosen, out)
    reasons = []
    if not report or (out / "reasons").is_dir():
        with progress_bar("known targets") as said:
            reasons = answer.judged_reasons(setting, out, said, not report)
    written = answer.write_answer(reports, reasons, out)
    if json:
        typer.echo(
            dumps([one.as_dict() for one in reports] + [one.as_dict() for one in reasons], indent=1, allow_nan=False)
        )
        return
    shown = table_console()
    for one in reports:
        sheets = [measure_sheet(one), paired_sheet("beside baselines, RMSE", one.against)]
        sheets += [paired_sheet("beside ablations, RMSE", one.ablations)] if one.ablations else []
        for sheet in sheets:
            for part in with_whole_cells(sheet, shown.width):
                shown.print(table_of(part, shown.width))
                shown.print()
        shown.print(f"- {one.says()} {one.says_of_ablations()}\n")
    if reasons:
        shown.print(table_of(reason_sheet(reasons), shown.width))
        for finding in reasons:
            shown.print(f"- {finding.says}")
    typer.echo(f"Written to {out}: {', '.join(path.name for path in written)}.")
