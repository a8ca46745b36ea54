"""What was found of the judges, as rows, as Markdown for the docs, and as JSON."""

import json
from collections.abc import Sequence

from regard.judging.validity import ANSWER, Validity

from .judges import PLAUSIBILITY, JudgedModel, JudgeQuality
from .null import MOST, REPORTS, NullReports

JUDGES = ("measure", "AUROC", "95 %", "power", "false positives", "models", "")
MODELS = ("model", "a reason", "the report answers", "what it does")
NULL = ("finding", "false verdicts", "of")


def judge_rows(found: Sequence[JudgeQuality]) -> list[tuple[str, ...]]:
    made: list[tuple[str, ...]] = []
    for one in found:
        weak = one.measure not in (ANSWER, *PLAUSIBILITY) and validity(one).weak
        interval = " to ".join(map(_share, one.interval))
        made.append(
            (
                one.measure,
                _share(one.auroc),
                interval,
                _share(one.power),
                _share(one.false_positives),
                str(one.models),
                "weak" if weak else "",
            )
        )
    return made


def model_rows(judged: Sequence[JudgedModel]) -> list[tuple[str, ...]]:
    return [
        (one.model.name, "yes" if one.model.faithful else "no", one.answer.partition(":")[0], one.model.says)
        for one in judged
    ]


def null_rows(found: NullReports) -> list[tuple[str, ...]]:
    names = sorted(found.tried, key=lambda name: (-found.verdicts.get(name, 0), name))
    return [(name, str(found.verdicts.get(name, 0)), str(found.tried[name])) for name in names]


def null_says(found: NullReports) -> str:
    most = MOST * found.reports // REPORTS
    how = "held" if found.held else "not held"
    return f"{found.false} of {found.reports} reports have a false verdict; at most {most} may: {how}."


def validity(one: JudgeQuality) -> Validity:
    return Validity(
        round(one.auroc, 3), None if one.false_positives is None else round(one.false_positives, 3), one.models
    )


def validity_json(found: Sequence[JudgeQuality]) -> str:
    """What src/regard/judging/validity.json holds: the measures of faithfulness."""
    by_name = {one.measure: vars(validity(one)) for one in found if one.measure not in (ANSWER, *PLAUSIBILITY)}
    return json.dumps(by_name, indent=1) + "\n"


def models_json(judged: Sequence[JudgedModel], found: Sequence[JudgeQuality]) -> str:
    plain = {
        "judges": [one.as_dict() for one in found],
        "models": [
            {
                "model": one.model.name,
                "faithful": one.model.faithful,
                "answer": one.answer,
                "scores": {name: value if abs(value) < float("inf") else None for name, value in one.scores.items()},
                "verdicts": one.verdicts,
            }
            for one in judged
        ],
    }
    return json.dumps(plain, indent=1, allow_nan=False)


def null_json(found: NullReports) -> str:
    return json.dumps(vars(found) | {"held": found.held}, indent=1)


def models_markdown(judged: Sequence[JudgedModel], found: Sequence[JudgeQuality]) -> str:
    return _markdown(JUDGES, judge_rows(found)) + "\n" + _markdown(MODELS, model_rows(judged))


def null_markdown(found: NullReports) -> str:
    return f"{null_says(found)}\n\n{_markdown(NULL, null_rows(found))}"


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _share(x: float | None) -> str:
    return "–" if x is None else f"{x:.2f}"
