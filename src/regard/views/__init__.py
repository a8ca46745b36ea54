"""Pictures of attention maps, and pages that show them."""

from typing import TYPE_CHECKING

from .figures import figure, graph_map, head_grid, heat_map, line_map, overlay, spotlight, text_map
from .graph_payload import Nodes
from .notebook.display import mimebundle, show, widget
from .page import save_html
from .pictures import Picture
from .plotting import plot, save_figure
from .terminal.map_text import drawn, plain

if TYPE_CHECKING:
    from ..judging.report import Report


def report_page(report: "Report") -> str:
    """A report as one page; what it is drawn with is loaded only then."""
    from . import report as report_module

    return report_module.report_page(report)


__all__ = [
    "Nodes",
    "Picture",
    "drawn",
    "figure",
    "graph_map",
    "head_grid",
    "heat_map",
    "line_map",
    "mimebundle",
    "overlay",
    "plain",
    "plot",
    "report_page",
    "save_figure",
    "save_html",
    "show",
    "spotlight",
    "text_map",
    "widget",
]
