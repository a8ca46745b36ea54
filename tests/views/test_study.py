"""The page of a study: offline, every verdict on it, no name of a variant runs; figures and files beside it."""

import html
import re

import numpy as np
import pytest
from tests.studies.made import drawn, made

from regard.studies.results import Missing
from regard.studies.statistics import analyse, ranks
from regard.views.study import study_page, study_report
from regard.views.study_charts import by_length, forest, rank_plot

matplotlib = pytest.importorskip("matplotlib", reason="figures are drawn by matplotlib")


def told() -> np.ndarray:
    values = drawn(2, 3, 10)
    values[0, 1] = values[0, 0] + 0.05
    return values


def test_the_page_tells_each_verdict_what_was_foretold_what_is_trivial_and_what_is_missing():
    missing = (Missing("task 0", "gat", 3, "waiting"),)
    page = study_page(analyse(made(told(), trivial=0.84, missing=missing)))
    assert "gat is better than mean on task 0 by 5.0" in page
    assert page.count("No significant difference between") == 3
    assert "10 seeds and 4 comparisons with the baseline: the smallest reachable p after Holm" in page
    assert "Below the best trivial baseline, most frequent" in page and "seed 3: waiting" in page
    assert len(re.findall("<svg", page)) == 2


def test_the_page_and_the_table_say_which_variants_train_more_parameters(tmp_path):
    results = made(told())
    results.parameters = {"task 0": {"mean": 100, "gat": 100, "mlp": 150}}
    study_report(results, tmp_path)
    for name in ("report.html", "means.md"):
        assert "compared with mean (100), mlp +50 %" in (tmp_path / name).read_text()


def test_the_page_needs_no_network_and_no_script_and_names_are_letters():
    page = study_page(analyse(made(told(), tasks=("<script>alert(1)</script>", "b & c"))))
    assert "<script" not in page and "&lt;script&gt;alert(1)" in page
    assert "default-src 'none'" in html.unescape(page)
    assert not re.findall(r"(?:src|href)\s*=\s*[\"'](?!#)", page) and "http://" not in page and "https://" not in page


def test_the_same_results_give_the_same_files(tmp_path):
    for name in ("first", "second"):
        study_report(made(told()), tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "first").iterdir())
    tables = {f"{name}.{ending}" for name in ("means", "comparisons") for ending in ("csv", "md", "tex")}
    drawings = {f"{name}.{ending}" for name in ("differences", "ranks") for ending in ("pdf", "svg")}
    assert set(files) == {"report.html"} | tables | drawings
    for name in files:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


def test_a_point_is_filled_only_where_the_test_told_a_difference():
    from matplotlib.figure import Figure

    found, figure = analyse(made(told())), Figure()
    forest(figure, found)
    ax = figure.axes[0]
    points = [line for line in ax.lines if line.get_marker() == "o"]
    assert [line.get_xdata()[0] for line in points] == pytest.approx(
        [100 * one.difference.value for one in found.of("task 0")]
    )
    assert [line.get_markerfacecolor() == "none" for line in points] == [False, True]


def test_below_six_seeds_points_have_no_intervals():
    from matplotlib.figure import Figure

    figure = Figure()
    forest(figure, analyse(made(drawn(1, 3, 5))))
    assert sum(line.get_marker() == "o" for line in figure.axes[0].lines) == 2
    assert len(figure.axes[0].lines) == 3  # two points and the line at 0


def test_values_by_length_are_means_over_seeds_in_the_order_of_lengths():
    from matplotlib.figure import Figure

    results = made(told())
    results.lengths = {"task 0": {"mean": {"10-19": [0.5, 0.7], "2-9": [0.1, 0.3]}, "gat": {"2-9": [0.4]}}}
    assert "by input length" in study_page(analyse(results))
    figure = Figure()
    by_length(figure, results.lengths["task 0"], results.measures["task 0"]["accuracy"])
    ax = figure.axes[0]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["2-9", "10-19"]
    assert [line.get_ydata().tolist() for line in ax.lines] == [pytest.approx([20.0, 60.0]), pytest.approx([40.0])]


def test_a_rank_plot_has_each_variant_at_its_rank_and_a_bar_for_each_group():
    from matplotlib.figure import Figure

    figure = Figure()
    found = ranks(np.random.default_rng(0).normal(size=(4, 9)) + np.arange(4)[:, None], ("a", "b", "c", "d"))
    rank_plot(figure, found)
    ax = figure.axes[0]
    stems = sorted(line.get_xdata()[0] for line in ax.lines if len(line.get_xdata()) == 3)
    assert stems == pytest.approx(sorted(found.average))
    assert sum(line.get_linewidth() == 3 for line in ax.lines) == len(found.groups) > 0
