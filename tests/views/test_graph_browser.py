"""Graphs in a real browser: pointed at, clicked, walked by keys, zoomed; 20,000 edges."""

import pytest
import torch
from tests.views.driving import COPIED, choice, drawn, eventually, number, says, until

import regard
from regard.views import GraphNodes

GRAPH = "document.querySelector('regard-page').shadowRoot.querySelector('regard-graph')"
HOSTILE = "</script><img src=x onerror=alert(1)>"
EDGES = torch.tensor([[1, 2, 3, 0, 0, 4, 2], [0, 0, 0, 1, 2, 3, 2]])
NAMES = ["hub", "one", "two", HOSTILE, "four", "alone"]
PLACES = [(0, 0), (-1, 1), (1, 1), (-1, -1), (1, -1), (0.2, 0.9)]


def over(heads=2, self_loops=True):
    torch.manual_seed(0)
    q, k = 2 * torch.randn(heads, 6, 4), 2 * torch.randn(heads, 6, 4)
    return regard.attend(q, k, k, over=regard.Edges(EDGES, self_loops=self_loops)).map


@pytest.fixture
def graph(opened):
    def show(what=None, scheme="light", **how):
        how = how or {"nodes": GraphNodes(NAMES, [0, 1, 1, 0, 0, 1], PLACES)}
        page = opened(over() if what is None else what, scheme, **how)
        until(page, "ready", GRAPH)
        until(page, "drawing", GRAPH)
        drawn(page)
        return page

    return show


def spot(page, node):
    return tuple(
        page.evaluate(
            f"""node => {{
        const graph = {GRAPH}, box = graph.shadowRoot.querySelector('.stage').getBoundingClientRect();
        const at = graph.drawing.at(node); return [box.x + at.x, box.y + at.y]; }}""",
            node,
        )
    )


def listed(page):
    """The neighbours that are written beside the graph, with their weights."""
    rows = page.locator("regard-graph ol button").all_inner_texts()
    return {name: number(weight) for name, weight in (row.rsplit("\n", 1) for row in rows)}


def near(**weights):
    """Names and weights as the list should have them, to its four digits."""
    return pytest.approx({name: float(w) for name, w in weights.items()}, abs=6e-5)


def ink(page):
    """How many pixels are drawn over the graph."""
    return page.evaluate(f"""() => {{
        const data = ({COPIED})({GRAPH}.shadowRoot.querySelector('.stage > canvas'));
        return data.filter((x, i) => i % 4 === 3 && x > 0).length; }}""")


def edges_seen(page):
    return float(page.evaluate(f"{GRAPH}.shadowRoot.querySelector('canvas.sigma-edges').style.opacity"))


def test_pointing_at_a_node_isolates_what_it_attends_to_with_exact_weights(graph):
    amap = over()
    page = graph(amap)
    assert edges_seen(page) == 1
    page.mouse.move(*spot(page, 0))
    eventually(page, lambda: edges_seen(page), lambda seen: seen < 0.2)
    assert choice(page)["row"] == 0 and not choice(page)["pinned"]
    w = amap.weights()[choice(page)["head"], 0]
    eventually(page, lambda: listed(page), near(**{"itself": w[0], "one": w[1], "two": w[2], HOSTILE: w[3]}))
    assert list(listed(page).values()) == sorted(listed(page).values(), reverse=True)
    page.mouse.move(*(x + 90 for x in spot(page, 5)))
    eventually(page, lambda: edges_seen(page), 1)
    for there, seen in ((spot(page, 0), 0.1), ((1, 1), 1), (spot(page, 0), 0.1)):  # straight out of the graph, and back
        page.mouse.move(*there)
        eventually(page, lambda: edges_seen(page), seen)


def test_a_click_holds_a_neighbourhood_and_a_click_beside_lets_it_go(graph):
    page = graph()
    before = ink(page)
    page.mouse.click(*spot(page, 2))
    eventually(page, lambda: edges_seen(page), 0)
    assert (choice(page)["row"], choice(page)["pinned"]) == (2, True)
    eventually(page, lambda: ink(page), lambda now: now > before + 200)  # its edges and their numbers
    page.mouse.move(*spot(page, 0))
    until(page, "over === 0", GRAPH)  # it was heard
    drawn(page)
    assert choice(page)["row"] == 2 and page.locator("regard-map .readout").inner_text().startswith(
        "“two” (2) attends to"
    )
    page.mouse.click(*(x + 60 for x in spot(page, 5)))
    eventually(page, lambda: edges_seen(page), 1)
    assert not choice(page)["pinned"]


def test_keys_walk_the_graph_and_it_is_said(graph):
    amap = over()
    page = graph(amap)
    page.locator("regard-graph .stage").focus()
    page.keyboard.press("ArrowLeft")
    eventually(page, lambda: (choice(page)["row"], choice(page)["pinned"]), (0, True))
    w = amap.weights()[choice(page)["head"]]
    best = [j for j in w[0].argsort(descending=True).tolist() if w[0, j] > 0]
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    eventually(page, lambda: choice(page)["column"], best[0])
    page.keyboard.press("ArrowDown")
    eventually(page, lambda: choice(page)["column"], best[1])
    assert says(page.locator("regard-graph [aria-live]"), "marked").inner_text().startswith("“hub” (0) attends along 4")
    for _ in range(4):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    eventually(page, lambda: choice(page)["row"], best[-1])
    page.keyboard.press("h")
    eventually(page, lambda: choice(page)["head"], 1)
    page.keyboard.press("Escape")
    eventually(page, lambda: choice(page)["pinned"], False)


def test_another_head_has_other_weights_on_the_same_places(graph):
    amap = over()
    page = graph(amap)
    page.mouse.click(*spot(page, 0))
    eventually(page, lambda: choice(page)["pinned"])
    places = [spot(page, node) for node in range(6)]
    for head in (0, 1):
        page.locator("regard-page select[aria-label=Head]").select_option(str(head))
        w = amap.weights()[head, 0]
        wanted = near(**{"itself": w[0], "one": w[1], "two": w[2], HOSTILE: w[3]})
        eventually(page, lambda: listed(page), wanted)
        drawn(page)
        assert [spot(page, node) for node in range(6)] == places


def test_who_attends_to_a_node_can_be_asked_too(graph):
    amap = over()
    page = graph(amap)
    page.mouse.click(*spot(page, 0))
    page.locator("regard-graph select[aria-label^=Which]").select_option("out")
    w = amap.weights()[choice(page)["head"], :, 0]
    eventually(page, lambda: listed(page), near(itself=w[0], one=w[1], two=w[2]))


def test_the_mass_leaves_out_the_smallest_weights_of_each_node(graph):
    page = graph(over(self_loops=False))
    assert page.evaluate(f"{GRAPH}.slots.length") == 6  # the loop at 2 is a ring
    stage = page.locator("regard-graph .stage")
    before = stage.screenshot()
    page.locator("regard-graph input[type=range]").fill("0.3")
    says(page.locator("regard-graph .bar"), "30 %")
    eventually(page, lambda: stage.screenshot() != before)


def test_wheel_and_keys_zoom_and_the_whole_comes_back(graph):
    page = graph()
    apart = lambda: abs(spot(page, 1)[0] - spot(page, 2)[0])  # noqa: E731
    whole = apart()
    page.mouse.move(*spot(page, 0))
    page.mouse.wheel(0, -400)
    eventually(page, apart, lambda now: now > 1.2 * whole)
    page.locator("regard-graph button", has_text="Reset zoom").click()
    eventually(page, apart, pytest.approx(whole, rel=0.02))
    keys = "for (let n = 0; n < 2; n++) stage.dispatchEvent(new KeyboardEvent('keydown', { key: '+', bubbles: true }))"
    page.locator("regard-graph .stage").evaluate(f"stage => {{ {keys} }}")
    eventually(page, apart, pytest.approx(1.6 * 1.6 * whole, rel=0.02))  # quick keys are counted, each of them


def test_a_node_is_found_by_its_name(graph):
    page = graph()
    box = page.locator("regard-graph input[type=search]")
    for text, row in (("two", 2), ("fo", 4), ("5", 5)):
        box.fill(text)
        box.press("Enter")
        eventually(page, lambda: choice(page)["row"], row)
    says(page.locator("regard-graph .readout"), "attends along 1 edge")


def test_names_that_are_html_are_text_and_classes_have_a_legend(graph):
    page = graph(scheme="dark", nodes=GraphNodes(NAMES, ["<b>x</b>", "y", "y", "y", "y", "y"], PLACES))
    assert page.locator("regard-graph img").count() == 0 and page.locator("regard-graph .classes b").count() == 0
    assert page.locator("regard-graph .classes span").all_inner_texts() == ["<b>x</b>", "y"]


def test_targets_and_sources_that_are_other_nodes_are_both_asked(graph):
    torch.manual_seed(1)
    q, k = torch.randn(1, 2, 4), torch.randn(1, 3, 4)
    amap = regard.attend(q, k, k, over=regard.Edges(torch.tensor([[0, 1, 2, 1], [0, 0, 1, 1]]))).map
    places = [(-1, 1), (-1, 0), (-1, -1), (1, 0.6), (1, -0.6)]
    page = graph(amap, nodes=GraphNodes(["a", "b", "c", "A", "B"], places=places))
    page.mouse.click(*spot(page, 4))
    w = amap.weights()[0]
    eventually(page, lambda: listed(page), near(c=w[1, 2], b=w[1, 1]))
    page.mouse.click(*spot(page, 1))
    eventually(page, lambda: listed(page), near(A=w[0, 1], B=w[1, 1]))


def test_what_is_written_above_a_graph_never_moves_it_from_under_the_pointer(graph):
    page = graph()
    for width in (420, 520, 580):
        page.set_viewport_size({"width": width, "height": 1000})
        page.mouse.move(1, 1)
        eventually(page, lambda: page.evaluate(f"{GRAPH}.over"), None)
        drawn(page)
        places = [spot(page, node) for node in range(6)]
        page.mouse.move(*places[0])
        until(page, "over === 0", GRAPH)
        drawn(page)
        assert [spot(page, node) for node in range(6)] == places


QUICK = f"""([kind, spots]) => {{
    const stage = {GRAPH}.shadowRoot.querySelector('.sigma-mouse'), how = {{ bubbles: true, composed: true }};
    const send = (Event, name, more) => stage.dispatchEvent(new Event(name, {{ ...how, ...more }}));
    for (const [clientX, clientY] of spots) {{
        const at = {{ clientX, clientY }}, finger = new Touch({{ identifier: 0, target: stage, ...at }});
        if (kind === "clicks") for (const name of ["mousedown", "mouseup", "click"]) send(MouseEvent, name, at);
        else {{ send(TouchEvent, "touchstart", {{ touches: [finger] }}); send(TouchEvent, "touchend"); }} }} }}"""


def test_two_clicks_or_taps_are_never_one_double_click_however_quick(graph):
    amap = over()
    page = graph(amap)
    before = [spot(page, node) for node in range(6)]
    page.evaluate("const now = Date.now(); let asked = 0; Date.now = () => now - asked++")  # a clock that is set back
    w = amap.weights()[choice(page)["head"]]
    for kind, second, wanted in (("clicks", 4, near(itself=w[4, 4])), ("taps", 1, near(itself=w[1, 1], hub=w[1, 0]))):
        page.evaluate(QUICK, [kind, [before[0], before[second]]])  # and no timer between the two
        eventually(page, lambda: listed(page), wanted)
        assert (choice(page)["row"], choice(page)["pinned"]) == (second, True)
        drawn(page)
        assert [spot(page, node) for node in range(6)] == before  # nothing was zoomed


def test_without_webgl_a_sentence_stands_and_the_list_still_works(browser, tmp_path):
    file = over().save_html(tmp_path / "page.html", nodes=GraphNodes(NAMES))
    page = browser.new_page()
    page.add_init_script("""const own = HTMLCanvasElement.prototype.getContext;
        HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
            return kind.startsWith("webgl") ? null : own.call(this, kind, ...rest); };""")
    page.goto(file.as_uri())
    until(page, "refused", GRAPH)
    says(page.locator("regard-graph [role=status]"), "no WebGL")
    page.locator("regard-graph input[type=search]").fill("hub")
    page.locator("regard-graph input[type=search]").press("Enter")
    eventually(page, lambda: set(listed(page)), {"itself", "one", "two", HOSTILE})
    page.close()


def test_twenty_thousand_edges_open_and_answer(graph):
    torch.manual_seed(0)
    n = 2500
    source = torch.randint(0, n, (20_000,))
    ends = torch.stack([source, (source + torch.randint(1, 60, (20_000,))) % n])
    q, k = torch.randn(1, n, 4), torch.randn(1, n, 4)
    amap = regard.attend(q, k, k, over=regard.Edges(ends)).map
    page = graph(amap, title="many")
    assert page.evaluate(f"{GRAPH}.slots.length") == 20_000
    page.locator("regard-graph input[type=search]").fill("1234")
    page.locator("regard-graph input[type=search]").press("Enter")
    best = amap.topk(1234, 1)
    wanted = (int(best[1][0, 0]), pytest.approx(float(best[0][0, 0]), abs=6e-5))
    eventually(page, lambda: next((int(name), weight) for name, weight in listed(page).items()), wanted)
