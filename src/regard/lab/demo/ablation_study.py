"""Demo: the built-in ablation study, run in the background while the other sections are computed."""

import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from regard.studies import Results, Study
from regard.studies.report import means_sheet, says
from regard.studies.run_study import FILE, run
from regard.studies.statistics import Analysis, analyse
from regard.views.study_charts import COLOURS, forest, forest_size

from .page import PageSection, Theme, fill, picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEFAULT_SEEDS = 5  # of the other sections; with fewer, the study has as few


class BackgroundStudy:
    """Starts the study in a thread with a worker process; `analysis` waits for its end."""

    def __init__(self, folder: Path, seeds: int = DEFAULT_SEEDS):
        self.study = Study.read("quick")
        if seeds < DEFAULT_SEEDS:
            self.study = self.study.model_copy(update={"seeds": tuple(range(seeds))})
        self.folder = folder
        if (folder / FILE).is_file():  # from an earlier demo: recomputed
            shutil.rmtree(folder)
        self._results: Results | None = None
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._results = run(self.study, self.folder, workers=1)
        except BaseException as problem:  # re-raised by analysis()
            self._problem = problem

    def analysis(self) -> Analysis:
        self._thread.join()
        if self._problem is not None:
            raise self._problem
        assert self._results is not None
        return analyse(self._results)


def section(found: Analysis) -> PageSection:
    task = found.results.tasks[0]
    measure = found.results.measures[task][found.results.main(task)]
    return PageSection(
        title="Is attention needed to look something up?",
        lead="A table of eight keys and values, and a question that names a key. The same network is trained with "
        "learned weights, with frozen random weights, and with uniform weights.",
        html=fill(
            "ablation_study.html",
            sheet=means_sheet(found, task),
            figure=picture(lambda theme: _draw(found, theme), "Differences to uniform weights, with intervals"),
            said=[says(one, measure) for one in found.comparisons],
            power=found.power.says,
        ),
    )


def _draw(found: Analysis, theme: Theme) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(forest_size(found), layout="constrained")
    dark = theme.ink.lower() > "#8"
    forest(
        figure,
        found,
        COLOURS
        | {
            "ink": theme.ink,
            "soft": theme.ink,
            "line": theme.ink,
            "band": "#2c2e36" if dark else COLOURS["band"],
            "better": "#5fc98f" if dark else COLOURS["better"],
            "worse": "#f08a7d" if dark else COLOURS["worse"],
        },
    )
    return figure
