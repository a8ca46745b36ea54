/** <regard-graph>: node-link diagram, edge width by weight; the neighbourhood of the selected node with its weights. */

import { css, html, nothing, type PropertyValues } from "lit";
import { place, SCALES, written, type Scale } from "./colour";
import type { GraphAbout, SiteAbout } from "./data";
import { refusal, type GraphRenderer } from "./graph_renderer";
import { EdgeHead, type Edges, type Neighbour } from "./edges";
import { legend, legendStyle } from "./legend";
import { classColour, drawn, endsOf, graphStyle, shades, sizes, type NodeTable } from "./graph_style";
import { columnName, rowName, shown, withIndex } from "./token_names";
import { paintNeighbourhood, paintMark, type Neighbourhood, type Paint } from "./neighbourhood";
import { Component } from "./component";
import type { Store } from "./store";
import { inks, isDark, sharpen, theme } from "./theme";

type Direction = "in" | "out";

const LISTED = 40; // neighbours listed

export class RegardGraph extends Component {
  static override properties = {
    ...Component.properties, scale: { state: true }, mass: { state: true }, direction: { state: true }, over: { state: true },
    top: { state: true }, ready: { state: true }, refused: { state: true },
  };
  declare scale: Scale;
  declare mass: number;
  declare direction: Direction; // edges of the selected node: "in", those it attends along; "out", those it is attended on
  declare over: number | null; // the hovered node, as indexed by the renderer
  declare top: number;
  declare ready: boolean;
  declare refused: string | null;

  private head: EdgeHead | null = null;
  private nodes: GraphAbout | null = null;
  private named: NodeTable = { count: 0, first: 0, names: [], classes: null };
  private places: Float32Array | null = null;
  private drawing: GraphRenderer | null = null;
  private slots: Uint32Array = new Uint32Array(0); // indices of the drawn edges
  private drawnFor = "";
  private styled = "";
  private requestId = 0;

  constructor() {
    super();
    this.scale = "linear";
    this.mass = 1;
    this.direction = "in";
    this.over = null;
    this.top = 1;
    this.ready = false;
    this.refused = null;
  }

  static override styles = [theme, legendStyle, css`
    .both { display: grid; grid-template-columns: minmax(0, 1fr) 13rem; gap: 0.8rem; }
    .stage { position: relative; height: min(58vh, 35rem); min-height: 20rem; border-radius: 0.4rem; overflow: hidden; cursor: grab; }
    .stage > div, .stage > canvas { position: absolute; inset: 0; } .stage > canvas { pointer-events: none; }
    .legend { min-width: min(18.5rem, 100%); } /* fixed width: its text never reflows the graph */
    .readout { height: 1.5em; margin: 0 0 0.35rem; font-size: 0.95rem; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; } /* one line: the graph never moves under the pointer */ .readout b { color: var(--glow); font-variant-numeric: tabular-nums; }
    small, .note { color: var(--soft); font-size: 0.85rem; } .note { margin: 0.35rem 0 0; }
    ol { list-style: none; margin: 0; padding: 0; max-height: min(58vh, 35rem); overflow: auto; }
    li button { display: grid; grid-template-columns: 1fr auto; gap: 0.5rem; width: 100%; text-align: left; border: 0; border-radius: 0.3rem; padding: 0.12rem 0.35rem; font-variant-numeric: tabular-nums; background-color: transparent; background-repeat: no-repeat; overflow-wrap: anywhere; }
    li button.on { color: var(--glow); font-weight: 600; }
    .classes { display: flex; flex-wrap: wrap; gap: 0.1rem 0.8rem; }
    .classes span::before { content: ""; display: inline-block; width: 0.7em; height: 0.7em; border-radius: 50%; margin-right: 0.3em; background: var(--class); }
    input[type="range"] { width: 6.5rem; } input[type="search"] { width: 8rem; background: var(--raised); border: 1px solid var(--line); border-radius: 0.4rem; padding: 0.2rem 0.5rem; }
    @media (max-width: 44rem) { .both { grid-template-columns: minmax(0, 1fr); } }
  `];

  protected storeChanged(): void {
    void this.load();
  }

  protected choiceChanged(before: Store["choice"]): void {
    if (this.mapChanged(before)) void this.load();
    else this.requestUpdate();
  }

  private async load(): Promise<void> {
    const request = ++this.requestId;
    const { data, site } = this.store!;
    if (site.form !== "edges") return void (this.head = null);
    const nodes = data.about.graphs![site.graph!];
    const found = await this.store!.head();
    const places = (await data.array(nodes.places)) as Float32Array;
    const classes = nodes.classes ? await data.array(nodes.classes) : null;
    if (request !== this.requestId || !(found instanceof EdgeHead)) return;
    [this.head, this.nodes, this.places] = [found, nodes, places];
    this.named = { count: nodes.count, first: nodes.first, names: namesOf(site, nodes), classes };
    this.styled = "";
    this.requestUpdate();
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.drawing?.close();
    this.drawing = null;
    this.drawnFor = "";
  }

  protected override willUpdate(changed: PropertyValues): void {
    if (changed.has("scale") || changed.has("mass")) this.styled = "";
  }

  protected draw(): void {
    const edges = this.head?.graph;
    if (!edges || !this.nodes || !this.renderRoot.querySelector(".stage")) return;
    const key = `${this.store!.choice.site}.${this.places!.length}.${edges.source.length}`;
    const look = `${key}.${this.store!.choice.head}.${isDark()}`;
    if (look !== this.styled) {
      this.styled = look;
      this.top = edges.w.reduce((a, b) => Math.max(a, Math.abs(b)), 0) || 1;
      this.applyStyle(edges, key);
    }
    this.drawing?.resize();
    this.paint();
    this.ready = true;
  }

  private applyStyle(edges: Edges, key: string): void {
    const anew = key !== this.drawnFor;
    if (anew) {
      this.drawing?.close();
      this.drawing = null;
      this.slots = drawn(edges, this.named.first);
    }
    const look = graphStyle(edges, this.slots, this.named, { scale: this.scale, top: this.top, mass: this.mass }, inks(this));
    if (!anew) return void this.drawing?.show(look);
    this.drawnFor = key;
    this.refused = refusal();
    if (this.refused) return;
    const box = this.renderRoot.querySelector<HTMLElement>(".stage > div")!;
    const scene = { places: this.places!, ends: endsOf(edges, this.slots, this.named.first) };
    this.drawing = globalThis.regardDrawing!(box, scene, look, {
      over: (node) => this.point(node), click: (node) => this.pin(node), frame: () => this.paint(),
    });
  }

  /** Renderer index of a row. */
  private node(row: number): number {
    return this.named.first + row;
  }

  private isolated(): number | null {
    const { pinned, row, column } = this.store!.choice;
    if (!pinned) return this.over;
    return this.direction === "out" && this.named.first > 0 ? column : this.node(row);
  }

  /** Largest shown weight: of all edges, or of the isolated node's. */
  private reach(): number {
    const node = this.isolated();
    return node === null ? this.top : Math.abs(this.neighbourhood(node).ends[0]?.w ?? 0) || 1;
  }

  private neighbourhood(node: number): Neighbourhood {
    const edges = this.head!.graph!;
    const { first } = this.named;
    const inward = first > 0 ? node >= first : this.direction === "in";
    const near: Neighbour[] = inward ? edges.incoming(node - first) : edges.outgoing(node);
    const ends = near.map((x) => ({ ...x, at: inward ? x.node : first + x.node, self: first === 0 && x.node === node }));
    return { node, ends, inward, chosen: this.store!.choice.pinned && inward ? this.store!.choice.column : null };
  }

  private paint(): void {
    const { drawing, store, head } = this;
    if (!drawing || !store || !head?.graph) return;
    const canvas = this.renderRoot.querySelector<HTMLCanvasElement>(".stage > canvas")!;
    const stage = canvas.parentElement!;
    const context = sharpen(canvas, stage.clientWidth, stage.clientHeight);
    const focus = this.isolated();
    const colours = inks(this);
    const { warm, cold } = shades(colours.dark);
    const { wide } = sizes(this.named.count, this.slots.length);
    const at = (w: number) => place(Math.abs(w), this.reach(), this.scale);
    const paint: Paint = {
      drawing, inks: colours, name: (x) => this.named.names[x], width: (w) => 0.8 + Math.max(5, wide) * at(w),
      colour: (w) => (w < 0 ? cold : warm)[Math.round(60 + 195 * at(w))],
      fill: (x) => (this.named.classes ? classColour(this.named.classes[x]) : colours.soft),
    };
    if (focus === null) {
      drawing.setOpacity(1, 1, 1);
      paintMark(context, this.node(store.choice.row), paint);
    } else {
      drawing.setOpacity(store.choice.pinned ? 0 : 0.1, 0.3, 0);
      paintNeighbourhood(context, this.neighbourhood(focus), paint);
    }
  }

  private point(node: number | null): void {
    this.over = node;
    const { first } = this.named;
    if (node !== null && !this.store!.choice.pinned)
      this.store!.choose(node >= first ? { row: node - first } : { column: node });
    this.scheduleDraw();
  }

  private pin(node: number | null): void {
    const { pinned, row } = this.store!.choice;
    const { first } = this.named;
    if (node === null || (pinned && node === this.node(row) && first === 0)) return this.store!.choose({ pinned: false });
    if (node < first) {
      this.direction = "out";
      return this.store!.choose({ column: node, pinned: true });
    }
    if (first > 0) this.direction = "in";
    this.go(node - first);
  }

  /** Select a node as the query, and the neighbour (other than itself) with its largest weight as the key. */
  private go(row: number): void {
    const edges = this.head!.graph!;
    row = Math.max(0, Math.min(edges.n - 1, row));
    const near = edges.incoming(row);
    const other = near.find((x) => this.named.first > 0 || x.node !== row) ?? near[0];
    this.store!.choose({ row, pinned: true, ...(other ? { column: other.node } : {}) });
    this.drawing?.reveal(this.node(row));
  }

  private step(by: number): void {
    const { row, column } = this.store!.choice;
    const near = this.head!.graph!.incoming(row);
    const now = near.findIndex((x) => x.node === column);
    const next = near[Math.max(0, Math.min(near.length - 1, now + by))];
    if (next) this.store!.choose({ column: next.node, pinned: true });
  }

  private readonly onKey = (event: KeyboardEvent): void => {
    const { row, column, head, site } = this.store!.choice;
    if (!this.head?.graph) return;
    const stride = event.shiftKey ? 10 : 1;
    const moves: Record<string, () => void> = {
      ArrowRight: () => this.go(row + stride), ArrowLeft: () => this.go(row - stride), ArrowDown: () => this.step(1),
      ArrowUp: () => this.step(-1), Enter: () => this.named.first === 0 && this.go(column),
      "+": () => this.drawing?.zoom(1.6), "=": () => this.drawing?.zoom(1.6), "-": () => this.drawing?.zoom(1 / 1.6),
      "0": () => this.drawing?.resetView(), Escape: () => this.store!.choose({ pinned: false }),
      h: () => this.store!.choose({ head: head + 1 }), H: () => this.store!.choose({ head: head - 1 }),
      l: () => this.store!.choose({ site: site + 1 }), L: () => this.store!.choose({ site: site - 1 }),
    };
    const move = moves[event.key];
    if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    move();
  };

  private find(text: string): void {
    const { first } = this.named;
    const names = this.named.names.slice(first);
    const wanted = text.trim().toLowerCase();
    if (!wanted) return;
    let row = names.findIndex((name) => name.toLowerCase() === wanted);
    if (row < 0) row = names.findIndex((name) => name.toLowerCase().startsWith(wanted));
    if (row < 0 && /^\d+$/.test(wanted) && Number(wanted) < names.length) row = Number(wanted);
    if (row >= 0) this.go(row);
  }

  protected override render() {
    const { store } = this;
    if (!store) return html`<p class="note">No maps yet.</p>`;
    if (store.site.form !== "edges") return html`<p class="note">This site is not attention over a graph.</p>`;
    const edges = this.head?.graph;
    const pick = (e: Event) => (e.target as HTMLSelectElement).value;
    return html`
      <div class="bar">
        <label>Colour and width scale <select aria-label="Scale of colour and width" @change=${(e: Event) => (this.scale = pick(e) as Scale)}>
          ${SCALES.map((s) => html`<option value=${s.value} ?selected=${s.value === this.scale}>${s.label}</option>`)}</select></label>
        <label title="Draw only the largest weights of each node that add up to this share of its row (top-p)">Keep top % of each node
          <input type="range" min="0.3" max="1" step="0.01" .value=${String(this.mass)} aria-label="Share of each node's weight that is drawn"
            @input=${(e: Event) => (this.mass = Number((e.target as HTMLInputElement).value))}> ${Math.round(100 * this.mass)} %</label>
        ${this.named.first === 0 ? html`<label>Selected node <select aria-label="Which edges of the selected node are shown" @change=${(e: Event) => { this.direction = pick(e) as Direction; this.scheduleDraw(); }}>
          <option value="in">what it attends to</option><option value="out">what attends to it</option></select></label>` : nothing}
        <label>Find <input type="search" aria-label="Find a node by name or number" @change=${(e: Event) => this.find((e.target as HTMLInputElement).value)}></label>
        <span><button aria-label="Zoom out" @click=${() => this.drawing?.zoom(1 / 1.6)}>−</button>
          <button aria-label="Zoom in" @click=${() => this.drawing?.zoom(1.6)}>+</button>
          <button @click=${() => this.drawing?.resetView()}>Reset zoom</button></span>
        ${legend({ top: edges ? this.reach() : 1, scale: this.scale, below: edges?.w.some((x) => x < 0) ?? false, what: this.isolated() === null ? "weight, all nodes" : "weight, this node" })}
      </div>
      ${edges ? this.details(edges) : nothing}`;
  }

  private details(edges: Edges) {
    const { choice, site } = this.store!;
    const focus = this.isolated();
    const neighbourhood = this.neighbourhood(focus ?? this.node(choice.row));
    const name = (x: number) => (this.named.first === 0 ? withIndex(this.named.names[x], x) : withIndex(this.named.names[x], x < this.named.first ? x : x - this.named.first));
    const sum = neighbourhood.ends.reduce((a, b) => a + b.w, 0);
    const best = neighbourhood.ends[0];
    const count = neighbourhood.ends.length;
    const many = `${count.toLocaleString("en")} ${count === 1 ? "edge" : "edges"}`;
    const said = !count ? `${name(neighbourhood.node)} ${neighbourhood.inward ? "attends to no node" : "is attended by no node"}.`
      : `${name(neighbourhood.node)} ${neighbourhood.inward ? "attends along" : "is attended on"} ${many}, most ${neighbourhood.inward ? "to" : "by"} ${best.self ? "itself" : name(best.at)}:`;
    const classes = this.nodes!.called;
    const high = Math.abs(best?.w ?? 0) || 1;
    const pickEnd = (end: Neighbourhood["ends"][0]) => (neighbourhood.inward ? this.store!.choose({ column: end.node, ...(this.named.first === 0 ? { row: neighbourhood.node } : { row: neighbourhood.node - this.named.first }), pinned: true }) : this.go(end.node));
    const marked = neighbourhood.ends.find((x) => x.node === choice.column && neighbourhood.inward);
    return html`
      <p class="readout">${said} <b>${best ? written(best.w) : ""}</b> <small>${count ? `sum ${written(sum)}` : ""}${choice.pinned ? " · pinned (Esc to unpin)" : ""}</small></p>
      <div class="both"><div><div class="stage" tabindex="0" role="application" @keydown=${this.onKey}
        aria-label=${`Graph of ${edges.n.toLocaleString("en")} target nodes and ${edges.source.length.toLocaleString("en")} edges. Left and right select a node, up and down one of its edges, Enter follows the edge, plus and minus zoom, 0 resets the zoom, Escape unpins.`}>
        <div></div><canvas></canvas></div>
        ${this.refused ? html`<p class="note" role="status">${this.refused}</p>` : nothing}
        ${classes ? html`<p class="note classes">${classes.map((x, c) => html`<span style=${`--class: ${classColour(c)}`}>${x}</span>`)}</p>` : nothing}
        <p class="note">${site.edges!.toLocaleString("en")} edges${edges.source.length > site.edges! ? ` and ${(edges.source.length - site.edges!).toLocaleString("en")} added self-loops` : ""}.
          Edges taper from the attended (source) to the attending (target) node. Ring: weight of the self-loop. Node size: total weight received.</p></div>
        <ol aria-label=${neighbourhood.inward ? "What the selected node attends to, largest weight first" : "What attends to the selected node, largest weight first"}>
          ${neighbourhood.ends.slice(0, LISTED).map((end) => html`<li><button class=${end === marked ? "on" : ""} title=${end.id < site.edges! ? `edge ${end.id}` : "self-loop added by the layer"}
            style=${`background-image: linear-gradient(color-mix(in srgb, var(--mark) 26%, transparent) 0 0); background-size: ${Math.round((100 * Math.abs(end.w)) / high)}% 100%`}
            @click=${() => pickEnd(end)} @dblclick=${() => this.named.first === 0 && this.go(end.node)}><span>${end.self ? "itself" : this.named.names[end.at]}</span><span>${written(end.w)}</span></button></li>`)}
          ${count > LISTED ? html`<li><small>and ${(count - LISTED).toLocaleString("en")} more, together ${written(neighbourhood.ends.slice(LISTED).reduce((a, b) => a + b.w, 0))}</small></li>` : nothing}</ol></div>
      <span class="quiet" aria-live="polite">${choice.pinned ? `${said} ${best ? written(best.w) : ""}${marked ? `; marked ${marked.self ? "itself" : name(marked.at)} ${written(marked.w)}` : ""}` : ""}</span>`;
  }
}

function namesOf(site: SiteAbout, nodes: GraphAbout): string[] {
  const rows = Array.from({ length: site.n }, (_, i) => (site.rows ? shown(site.rows[i]) : rowName(site, i)));
  return nodes.first ? [...Array.from({ length: nodes.first }, (_, j) => columnName(site, j)), ...rows] : rows;
}
