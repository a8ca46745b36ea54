"""Views of attention maps: figures, HTML pages, notebook, terminal, web application."""

import warnings
from typing import TYPE_CHECKING, Any

from ..core.errors import lacking
from .figures import figure, graph_map, head_grid, heat_map, line_map, overlay, spotlight, text_map
from .notebook.display import mimebundle, show, widget
from .page import save_html
from .payload.graph_payload import GraphNodes
from .payload.pictures import Picture
from .plotting import plot, save_figure
from .terminal.map_text import drawn, plain
from .why import why_figure, why_html, why_table

if TYPE_CHECKING:
    from ..judging.report import Report
    from ..recording import Monitor
    from .server.live_page import LivePage


def report_page(report: "Report") -> str:
    """A report of judging as one HTML page."""
    from .report import report_page  # imports jinja2 and matplotlib

    return report_page(report)


def live_page(monitor: "Monitor", port: int = 0) -> "LivePage":
    """Serve the live page of a monitor, at an address of this machine alone, until `close`."""
    try:
        from .server.live_page import LivePage
    except ImportError as error:
        raise lacking("Monitor(serve=True)", "fastapi and uvicorn", "views") from error
    return LivePage(monitor, port)


__all__ = [
    "GraphNodes",
    "Picture",
    "drawn",
    "figure",
    "graph_map",
    "head_grid",
    "heat_map",
    "line_map",
    "live_page",
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
    "why_figure",
    "why_html",
    "why_table",
    "widget",
]


def __getattr__(name: str) -> Any:
    if name != "Nodes":
        raise AttributeError(f"module 'regard.views' has no attribute {name!r}")
    warnings.warn("regard.views.Nodes is now GraphNodes; 0.3 drops it.", DeprecationWarning, stacklevel=2)
    return GraphNodes
