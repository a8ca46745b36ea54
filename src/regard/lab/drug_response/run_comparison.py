"""The whole comparison: run missing trials, judge the attention, and write tables, figures and a verdict."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from regard.judging.finding import Finding
from regard.studies.aggregate import collect
from regard.studies.report import markdown
from regard.studies.run_study import store_of
from regard.studies.trial_runner import RunnerCallbacks
from regard.views.page import write_file

from .evaluation.figures import ablation_figure, explained_figure, reason_figure
from .evaluation.report import SplitReport, measure_sheet, paired_sheet, power_sentence, reason_sheet
from .models.attention_variants import ABLATIONS, ATTENTION, PLACES
from .models.candidates import draws
from .protocol.settings import ResponseSetting
from .protocol.splits import SPLITS


def foretold(setting: ResponseSetting, splits: Sequence[str]) -> list[str]:
    """Power analysis of each split, before it is run."""
    made = []
    for split in splits:
        some = setting.variants[split]
        networks, ablated = sum(name in PLACES for name in some), sum("/" in name for name in some)
        made.append(f"{SPLITS[split]}: {power_sentence(setting.seeds, 3 * networks)}")
        if ablated:
            made.append(f"{SPLITS[split]}, ablations: {power_sentence(setting.seeds, ablated)}")
    return made


def run_split(
    setting: ResponseSetting,
    split: str,
    out: Path,
    workers: "int | None" = None,
    callbacks: "RunnerCallbacks | None" = None,
) -> None:
    """Run the trials of a split that are missing; a killed run loses the trials that were running."""
    setting.study(split).run(out, workers=workers, callbacks=callbacks)


def reports_of(setting: ResponseSetting, splits: Sequence[str], out: Path) -> list[SplitReport]:
    """Reports of the results in the store; splits without results are skipped."""
    store = store_of(out)
    try:
        found = [SplitReport.of(split, collect(store, setting.study(split))) for split in splits]
    finally:
        store.close()
    return [one for one in found if one.trees]


def judged_reasons(
    setting: ResponseSetting, out: Path, on_progress: Callable[[str, int, int], None], compute: bool = True
) -> list[Finding]:
    """Ranks of known targets; networks have the usual setting of cross-attention."""
    from .evaluation.attention_judgement import judge_reasons
    from .protocol.trial import panel

    usual = draws("cross", 1, 0, setting.small)[0]
    return judge_reasons(
        panel(), usual, device=setting.device, out=out / "reasons", on_progress=on_progress, compute=compute
    )


def write_answer(reports: Sequence[SplitReport], reasons: Sequence[Finding], out: Path) -> list[Path]:
    """results.json, answer.md and the figures, in a folder."""
    out.mkdir(parents=True, exist_ok=True)
    plain = {
        "splits": [one.as_dict() for one in reports],
        "reasons": [one.as_dict() for one in reasons],
        "attention": list(ATTENTION),
        "ablations": list(ABLATIONS),
    }
    write_file(json.dumps(plain, indent=1, allow_nan=False), out / "results.json")
    write_file(answer_text(reports, reasons), out / "answer.md")
    made = [out / "results.json", out / "answer.md"]
    if reports:
        for ending in ("svg", "pdf"):
            made.append(explained_figure(reports, out / f"explained.{ending}"))
            ablated = ablation_figure(reports, out / f"ablations.{ending}")
            made += [ablated] if ablated is not None else []
    if reasons:
        made += [reason_figure(reasons, out / f"reasons.{ending}") for ending in ("svg", "pdf")]
    return made


def answer_text(reports: Sequence[SplitReport], reasons: Sequence[Finding]) -> str:
    """The verdicts, then the tables, as Markdown."""
    lines = ["# Drug response: is attention all I need?\n"]
    for one in reports:
        lines += [f"- {one.says()} {one.says_of_ablations()}".rstrip()]
    lines += [f"- {one.says} Interval {_ends(one)}." for one in reasons]
    for one in reports:
        lines += [f"\n## {SPLITS[one.split].capitalize()}\n", markdown(measure_sheet(one))]
        if one.against:
            lines += ["Networks beside the mean effects, the best trees and the ridge (RMSE):\n"]
            lines += [markdown(paired_sheet("", one.against))]
        if one.ablations:
            lines += ["Learned weights beside their ablations (RMSE):\n", markdown(paired_sheet("", one.ablations))]
    if reasons:
        lines += ["\n## Is its attention a reason?\n", markdown(reason_sheet(reasons))]
    return "\n".join(lines) + "\n"


def _ends(one: Finding) -> str:
    return "undefined" if one.interval is None else f"{one.interval[0]:.3f} to {one.interval[1]:.3f}"
