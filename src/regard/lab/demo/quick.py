"""Is attention needed to look something up? The study that comes with Regard, run beside the demo's other parts."""

import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from regard.studies import Results, Study
from regard.studies.report import means_sheet, says
from regard.studies.run import FILE, run
from regard.studies.statistics import Analysis, analyse
from regard.views.study_charts import COLOURS, forest, forest_size

from .page import PageSection, Theme, fill, picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

USUAL = 5  # seeds of the other parts; with fewer, for a hasty run, the study has as few


class Running:
    """The study in a process of its own, from now on; `found` waits for it."""

    def __init__(self, folder: Path, seeds: int = USUAL):
        self.study = Study.read("quick")
        if seeds < USUAL:
            self.study = self.study.model_copy(update={"seeds": tuple(range(seeds))})
        self.folder = folder
        if (folder / FILE).is_file():  # of an earlier demo: this one recomputes it
            shutil.rmtree(folder)
        self._found: Results | None = None
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._found = run(self.study, self.folder, workers=1)
        except BaseException as problem:  # re-raised by found()
            self._problem = problem

    def found(self) -> Analysis:
        self._thread.join()
        if self._problem is not None:
            raise self._problem
        assert self._found is not None
        return analyse(self._found)


def part(found: Analysis) -> PageSection:
    task = found.results.tasks[0]
    measure = found.results.measures[task][found.results.main(task)]
    return PageSection(
        title="Is attention needed to look something up?",
        lead="A table of eight keys and values, and a question that names a key. The same network is trained with "
        "learned weights, with weights that stay as they were drawn, and with every weight equal.",
        html=fill(
            "quick.html",
            sheet=means_sheet(found, task),
            figure=picture(lambda theme: _draw(found, theme), "Differences to equal weights, with intervals"),
            said=[says(one, measure) for one in found.comparisons],
            foretold=found.foretold.says,
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
