"""Pages of Regard, BertViz and inspectus in one browser: file size, first draw, pointer latency, panning."""

import itertools
import multiprocessing
import os
import queue
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from regard.core.attend import attend
from regard.core.structures import Causal
from regard.core.structures.edges import Edges
from regard.recording import record

from .measure import BenchResult, show
from .view_peers import OnePage, answer, bertviz_pages, inspectus_page

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MAP = "document.querySelector('regard-page')?.shadowRoot?.querySelector('regard-map')"
GRAPH = MAP.replace("regard-map", "regard-graph")

# Polled once a frame from the start; records the second frame after the condition holds.
WATCH = """(() => { const look = () => (%s)
    ? requestAnimationFrame(() => requestAnimationFrame(() => { window.drawn_at = performance.now(); }))
    : requestAnimationFrame(look);
  requestAnimationFrame(look); })();"""
# From the pointer event to the second frame after it.
POINT = """() => { window.answered = null; addEventListener('mousemove', (event) =>
  requestAnimationFrame(() => requestAnimationFrame(() => { window.answered = performance.now() - event.timeStamp; })),
  { once: true, capture: true }); }"""
FRAMES = """() => { window.frames_seen = []; let last = performance.now();
  const next = (now) => {
    window.frames_seen.push(now - last); last = now; window.timer = requestAnimationFrame(next); };
  window.timer = requestAnimationFrame(next); }"""


@dataclass
class PageMeasurement:
    """Measurements of one page: bytes, seconds, milliseconds; None if it failed."""

    name: str
    bytes: int
    draw: float | None = None
    points: list[float] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    memory: float | None = None  # megabytes of the process that draws the page
    why: str = ""

    def __str__(self) -> str:
        drawn = "never drawn" if self.draw is None else f"first draw {self.draw:.2f} s"
        pointing = f", pointing {statistics.median(self.points):.0f} ms" if self.points else ""
        return f"{self.name}: {self.bytes / 1e6:.1f} MB, {drawn}{pointing}{self.why and f' ({self.why})'}"


@contextmanager
def opened(file: Path, drawn: str, scripts: Path | None = None, asked: list[str] | None = None) -> Iterator[Any]:
    """A page in its own browser without a network, and the seconds until it is drawn."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as run:
        browser = run.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(0)  # the parent process has the time limit
        page.route("http*://**/*", answer(scripts, [] if asked is None else asked))
        page.add_init_script(WATCH % drawn)
        page.goto(file.as_uri())
        yield page, polled(page, "drawn_at") / 1000
        browser.close()


def memory_of(page: Any) -> float | None:
    """Resident megabytes of the process that draws a page; None where the system does not tell it."""
    link = page.context.browser.new_browser_cdp_session()
    drawing = [one["id"] for one in link.send("SystemInfo.getProcessInfo")["processInfo"] if one["type"] == "renderer"]
    link.detach()
    told = [Path(f"/proc/{number}/statm") for number in drawing]
    pages = [int(one.read_text().split()[1]) for one in told if one.exists()]
    return max(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6 if pages else None


def polled(page: Any, name: str, limit: float = 600.0) -> float:
    """A value of the page, polled, since the page may be busy for long."""
    end = time.perf_counter() + limit
    while time.perf_counter() < end:
        found = page.evaluate(f"window.{name} ?? null")
        if found is not None:
            return float(found)
        page.wait_for_timeout(40)
    raise TimeoutError(f"{name} was not there after {limit:.0f} s")


def chromium() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise OSError(f"There is no Chromium on this machine; the benchmark needs one of {', '.join(BROWSERS)}.")
    return found


def seen(page: OnePage, scripts: Path | None = None, limit: float = 240.0) -> PageMeasurement:
    """Measure in a separate process, which can be killed if the page hangs."""
    context = multiprocessing.get_context("spawn")
    found, start = context.Queue(), time.perf_counter()
    made = PageMeasurement(page.name, page.file.stat().st_size)
    process = context.Process(target=_measure, args=(page, scripts, found))
    process.start()
    stage = "nothing was drawn"
    while True:
        try:
            kind, value = found.get(timeout=max(0.1, limit - (time.perf_counter() - start)))
        except queue.Empty:
            made.why = f"{stage} after {limit:.0f} s"
            break
        if kind == "end":
            made.why = value
            break
        if kind == "draw":
            made.draw, made.asked, made.memory = value
            stage, start = "the pointer was not answered", time.perf_counter()
        else:
            made.points.append(value)
    process.kill()
    process.join()
    return made


def _measure(page: OnePage, scripts: Path | None, found: Any, times: int = 9) -> None:
    asked: list[str] = []
    try:
        with opened(page.file, page.drawn, scripts, asked) as (tab, draw):
            found.put(("draw", (draw, asked, memory_of(tab))))
            places = tab.evaluate(page.places)
            for x, y in places[:: max(1, len(places) // times)][:times]:
                tab.evaluate(POINT)
                tab.mouse.move(x, y)
                found.put(("point", polled(tab, "answered")))
        found.put(("end", ""))
    except Exception as problem:  # a page that dies in its browser is a result
        found.put(("end", str(problem).partition("\n")[0]))


def main(json: bool = False, scripts: Path | None = None, limit: float = 240.0) -> None:
    """Runs all parts and prints a table, or JSON."""
    chromium()
    console = Console(stderr=True)

    def tell(said: str) -> None:
        console.print(f"[dim]{said}[/dim]")

    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        results = many_heads(room, tell, scripts, limit) + long_map(room, tell) + large_graph(room, tell)
    show("view", results, json)


def many_heads(
    room: Path,
    tell: Callable[[str], None],
    scripts: Path | None,
    limit: float,
    layers: int = 12,
    heads: int = 12,
    n: int = 256,
) -> list[BenchResult]:
    """Random heads, the worst case for compression: ours and the installed peers."""
    what = f"{layers} x {heads} heads, {n} tokens"
    tell(what)
    torch.manual_seed(0)
    with record() as rec:
        for _ in range(layers):
            q, k = 1.2 * torch.randn(1, heads, n, 64), 1.2 * torch.randn(1, heads, n, 64)
            torch.nn.functional.scaled_dot_product_attention(q, k, k)
    tokens = [f"token{i}" for i in range(n)]
    rec.label(tokens=tokens)
    weights = [amap.weights() for amap in rec.maps.values()]
    pages = itertools.chain([_ours(rec.save_html(room / "ours.html", title=what))], _peers(weights, tokens, room, tell))
    made = []
    for page in pages:
        made.append(seen(page, scripts, limit))
        page.file.unlink()
        tell(f"  {made[-1]}")
    ours, *peers = made
    return [result for peer in peers for result in _compared(ours, peer, what)] or _compared(ours, None, what)


def _ours(file: Path) -> OnePage:
    """The pointer goes over the part of the map that is in sight."""
    places = f"""(() => {{ const box = {MAP}.shadowRoot.querySelector('canvas').getBoundingClientRect();
      const high = Math.min(innerHeight, box.bottom) - box.top;
      return Array.from({{length: 9}}, (_, i) => [box.x + box.width * (.25 + .05 * i), box.y + high * (.3 + .06 * i)]);
      }})()"""
    return OnePage("ours", file, f"{MAP}?.ready", places)


def _peers(weights: Any, tokens: list[str], room: Path, tell: Callable[[str], None]) -> Iterator[OnePage]:
    try:
        yield inspectus_page(torch.cat(weights), tokens, room)
    except ModuleNotFoundError as missing:
        tell(f"  inspectus is skipped: {missing.name} is not installed.")
    try:
        yield from bertviz_pages(weights, tokens, room)
    except ModuleNotFoundError as missing:
        tell(f"  BertViz is skipped: {missing.name} is not installed.")


def _compared(ours: PageMeasurement, peer: PageMeasurement | None, what: str) -> list[BenchResult]:
    name = "-" if peer is None else peer.name
    if ours.draw is None or not ours.points:
        raise OSError(f"Our own page was not measured: {ours.why}.")
    mine = statistics.median(ours.points)
    theirs = statistics.median(peer.points) if peer is not None and peer.points else None
    made = [
        BenchResult(
            f"{what}: file",
            "MB",
            ours.bytes / 1e6,
            None if peer is None else peer.bytes / 1e6,
            name,
            "at most 10 MB",
            ours.bytes <= 10e6,
        ),
        BenchResult(
            f"{what}: first draw",
            "s",
            ours.draw,
            None if peer is None else peer.draw,
            name,
            "at most 1.5 s",
            ours.draw <= 1.5,
        ),
        BenchResult(f"{what}: pointing", "ms", mine, theirs, name, "at most 50 ms", mine <= 50),
    ]
    made[2].notes = {"largest": max(ours.points)}
    made[1].notes = {"memory_mb": ours.memory}
    if peer is not None:
        told = {"peer_asked_the_network": len(peer.asked), "peer": peer.why or "drawn", "peer_memory_mb": peer.memory}
        made[1].notes |= told
    return made


def long_map(room: Path, tell: Callable[[str], None], n: int = 32_768) -> list[BenchResult]:
    """One causal head: opened whole, zoomed in, dragged. No peer opens it."""
    tell(f"{n:,} tokens")
    torch.manual_seed(0)
    q, k = torch.randn(1, n, 64), torch.randn(1, n, 64)
    file = attend(q, k, k[..., :1], over=Causal()).map.save_html(room / "long.html", title=f"{n:,} tokens")
    with opened(file, f"{MAP}?.ready") as (tab, draw):
        memory = memory_of(tab)
        box = tab.evaluate(
            f"(() => {{ const b = {MAP}.shadowRoot.querySelector('canvas').getBoundingClientRect();"
            " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        tab.wait_for_timeout(1500)  # queries and keys arrive after the first picture
        longest = {"whole": panned(tab, *box)}
        for title, wheel in (("closer", 8), ("closest", 24)):
            for _ in range(wheel):
                tab.mouse.wheel(0, -240)
                tab.wait_for_timeout(20)
            before = tab.evaluate(f"{MAP}.view.y")
            longest[title] = panned(tab, *box)
            if tab.evaluate(f"{MAP}.view.y") == before:
                raise OSError("The map was dragged and did not move: its frames say nothing.")
    size = file.stat().st_size / 1e6
    frames = ", ".join(f"{title} {took:.0f} ms" for title, took in longest.items())
    tell(f"  {size:.0f} MB, first draw {draw:.2f} s, longest frames: {frames}")
    opens = BenchResult(f"{n} tokens: first draw", "s", draw, None, "-", "at most 2 s", draw <= 2)
    opens.notes = {"file_mb": size, "memory_mb": memory}
    worst = max(longest.values())
    pans = BenchResult(
        f"{n} tokens: longest frame while panning", "ms", worst, None, "-", "at most 100 ms", worst <= 100
    )
    pans.notes = longest
    return [opens, pans]


def large_graph(room: Path, tell: Callable[[str], None], nodes: int = 5000, edges: int = 20_000) -> list[BenchResult]:
    """Random edges with a few hubs: opened, pointed at, dragged."""
    tell(f"{edges:,} edges")
    torch.manual_seed(0)
    ends = torch.stack([(nodes * torch.rand(edges) ** 3).long(), torch.randint(nodes, (edges,))])
    x = torch.randn(nodes, 16)
    file = attend(x, x, x, over=Edges(ends, size=(nodes, nodes))).map.save_html(room / "graph.html", title="A graph")
    with opened(file, f"{GRAPH}?.ready") as (tab, draw):
        memory = memory_of(tab)
        x0, y0 = tab.evaluate(
            f"(() => {{ const b = {GRAPH}.shadowRoot.querySelector('.stage').getBoundingClientRect();"
            " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        points = []
        for i in range(9):
            tab.evaluate(POINT)
            tab.mouse.move(x0 - 60 + 15 * i, y0 - 40 + 10 * i)
            points.append(polled(tab, "answered"))
        longest = panned(tab, x0, y0)
    pointing = statistics.median(points)
    tell(f"  first draw {draw:.2f} s, pointing {pointing:.0f} ms, longest frame {longest:.0f} ms")
    what = f"graph of {nodes:,} nodes and {edges:,} edges"
    return [
        BenchResult(
            f"{what}: first draw",
            "s",
            draw,
            None,
            "-",
            "-",
            None,
            {"file_mb": file.stat().st_size / 1e6, "memory_mb": memory},
        ),
        BenchResult(f"{what}: pointing", "ms", pointing, None, "-", "-", None, {"largest": max(points)}),
        BenchResult(f"{what}: longest frame while panning", "ms", longest, None, "-", "-", None),
    ]


def panned(tab: Any, x: float, y: float, steps: int = 60) -> float:
    """The longest frame in milliseconds while the map is dragged to and fro."""
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.evaluate(FRAMES)
    for step in range(steps):
        tab.mouse.move(x - 3 * (step if step < steps / 2 else steps - step), y - 2 * step)
    frames = tab.evaluate("() => { cancelAnimationFrame(window.timer); return window.frames_seen; }")
    tab.mouse.up()
    return float(max(frames[1:], default=0.0))
