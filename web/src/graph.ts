/** <regard-graph>: nodes and edges of a graph, each edge as broad as its weight; one node's neighbourhood with numbers. */

import { css, html, nothing, type PropertyValues } from "lit";
import { place, SCALES, written, type Scale } from "./colour";
import type { GraphAbout, SiteAbout } from "./data";
import { refusal, type Drawing } from "./drawing";
import { EdgeHead, type Edges, type Near } from "./edges";
import { legend, legendStyle } from "./legend";
import { classColour, drawn, endsOf, lookOf, shades, sizes, type Named } from "./look";
import { columnName, rowName, shown, told } from "./names";
import { paintHood, paintMark, type Hood, type Paint } from "./near";
import { Part } from "./part";
import type { Store } from "./store";
import { inks, isDark, sharpen, theme } from "./theme";

type Facing = "in" | "out";

const LISTED = 40; // neighbours written out

export class RegardGraph extends Part {
  static override properties = {
    ...Part.properties, scale: { state: true }, mass: { state: true }, facing: { state: true }, over: { state: true },
    top: { state: true }, ready: { state: true }, refused: { state: true },
  };
  declare scale: Scale;
  declare mass: number;
  declare facing: Facing; // the edges of the chosen node: those it attends along, or those on which it is attended
  declare over: number | null; // a node under the pointer, in the drawing's count
  declare top: number;
  declare ready: boolean;
  declare refused: string | null;

  private head: EdgeHead | null = null;
  private nodes: GraphAbout | null = null;
  private named: Named = { count: 0, first: 0, names: [], classes: null };
  private places: Float32Array | null = null;
  private drawing: Drawing | null = null;
  private slots: Uint32Array = new Uint32Array(0); // the edges that are drawn, by their place among all
  private drawnFor = "";
  private dressed = "";
  private asked = 0;

  constructor() {
    super();
    this.scale = "linear";
    this.mass = 1;
    this.facing = "in";
    this.over = null;
    this.top = 1;
    this.ready = false;
    this.refused = null;
  }

  static override styles = [theme, legendStyle, css`
    .both { display: grid; grid-template-columns: minmax(0, 1fr) 13rem; gap: 0.8rem; }
    .stage { position: relative; height: min(58vh, 35rem); min-height: 20rem; border-radius: 0.4rem; overflow: hidden; cursor: grab; }
    .stage > div, .stage > canvas { position: absolute; inset: 0; } .stage > canvas { pointer-events: none; }
    .legend { min-width: min(18.5rem, 100%); } /* what is written there never moves the graph */
    .here { height: 1.5em; margin: 0 0 0.35rem; font-size: 0.95rem; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; } /* one line: the graph stays under the pointer */ .here b { color: var(--glow); font-variant-numeric: tabular-nums; }
    small, .note { color: var(--soft); font-size: 0.85rem; } .note { margin: 0.35rem 0 0; }
    ol { list-style: none; margin: 0; padding: 0; max-height: min(58vh, 35rem); overflow: auto; }
    li button { display: grid; grid-template-columns: 1fr auto; gap: 0.5rem; width: 100%; text-align: left; border: 0; border-radius: 0.3rem; padding: 0.12rem 0.35rem; font-variant-numeric: tabular-nums; background-color: transparent; background-repeat: no-repeat; overflow-wrap: anywhere; }
    li button.on { color: var(--glow); font-weight: 600; }
    .classes { display: flex; flex-wrap: wrap; gap: 0.1rem 0.8rem; }
    .classes span::before { content: ""; display: inline-block; width: 0.7em; height: 0.7em; border-radius: 50%; margin-right: 0.3em; background: var(--class); }
    input[type="range"] { width: 6.5rem; } input[type="search"] { width: 8rem; background: var(--raised); border: 1px solid var(--line); border-radius: 0.4rem; padding: 0.2rem 0.5rem; }
    @media (max-width: 44rem) { .both { grid-template-columns: minmax(0, 1fr); } }
  `];

  protected begun(): void {
    void this.load();
  }

  protected chosen(before: Store["choice"]): void {
    if (this.another(before)) void this.load();
    else this.requestUpdate();
  }

  private async load(): Promise<void> {
    const ask = ++this.asked;
    const { data, site } = this.store!;
    if (site.form !== "edges") return void (this.head = null);
    const nodes = data.about.graphs![site.graph!];
    const found = await this.store!.head();
    const places = (await data.array(nodes.places)) as Float32Array;
    const classes = nodes.classes ? await data.array(nodes.classes) : null;
    if (ask !== this.asked || !(found instanceof EdgeHead)) return;
    [this.head, this.nodes, this.places] = [found, nodes, places];
    this.named = { count: nodes.count, first: nodes.first, names: namesOf(site, nodes), classes };
    this.dressed = "";
    this.requestUpdate();
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.drawing?.close();
    this.drawing = null;
    this.drawnFor = "";
  }

  protected override willUpdate(changed: PropertyValues): void {
    if (changed.has("scale") || changed.has("mass")) this.dressed = "";
  }

  protected draw(): void {
    const edges = this.head?.graph;
    if (!edges || !this.nodes || !this.renderRoot.querySelector(".stage")) return;
    const key = `${this.store!.choice.site}.${this.places!.length}.${edges.source.length}`;
    const look = `${key}.${this.store!.choice.head}.${isDark()}`;
    if (look !== this.dressed) {
      this.dressed = look;
      this.top = edges.w.reduce((a, b) => Math.max(a, Math.abs(b)), 0) || 1;
      this.dress(edges, key);
    }
    this.drawing?.resize();
    this.paint();
    this.ready = true;
  }

  private dress(edges: Edges, key: string): void {
    const anew = key !== this.drawnFor;
    if (anew) {
      this.drawing?.close();
      this.drawing = null;
      this.slots = drawn(edges, this.named.first);
    }
    const look = lookOf(edges, this.slots, this.named, { scale: this.scale, top: this.top, mass: this.mass }, inks(this));
    if (!anew) return void this.drawing?.show(look);
    this.drawnFor = key;
    this.refused = refusal();
    if (this.refused) return;
    const box = this.renderRoot.querySelector<HTMLElement>(".stage > div")!;
    const scene = { places: this.places!, ends: endsOf(edges, this.slots, this.named.first) };
    this.drawing = globalThis.regardDrawing!(box, scene, look, {
      over: (node) => this.point(node), click: (node) => this.hold(node), frame: () => this.paint(),
    });
  }

  /** A row's place among the nodes of the drawing, and back. */
  private node(row: number): number {
    return this.named.first + row;
  }

  private isolated(): number | null {
    const { locked, row, column } = this.store!.choice;
    if (!locked) return this.over;
    return this.facing === "out" && this.named.first > 0 ? column : this.node(row);
  }

  /** The largest weight of what is shown: of all edges, or of one node's. */
  private reach(): number {
    const node = this.isolated();
    return node === null ? this.top : Math.abs(this.hood(node).ends[0]?.w ?? 0) || 1;
  }

  private hood(node: number): Hood {
    const edges = this.head!.graph!;
    const { first } = this.named;
    const inward = first > 0 ? node >= first : this.facing === "in";
    const near: Near[] = inward ? edges.incoming(node - first) : edges.outgoing(node);
    const ends = near.map((x) => ({ ...x, at: inward ? x.node : first + x.node, self: first === 0 && x.node === node }));
    return { node, ends, inward, chosen: this.store!.choice.locked && inward ? this.store!.choice.column : null };
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
      drawing.fade(1, 1, 1);
      paintMark(context, this.node(store.choice.row), paint);
    } else {
      drawing.fade(store.choice.locked ? 0 : 0.1, 0.3, 0);
      paintHood(context, this.hood(focus), paint);
    }
  }

  private point(node: number | null): void {
    this.over = node;
    const { first } = this.named;
    if (node !== null && !this.store!.choice.locked)
      this.store!.choose(node >= first ? { row: node - first } : { column: node });
    this.later();
  }

  private hold(node: number | null): void {
    const { locked, row } = this.store!.choice;
    const { first } = this.named;
    if (node === null || (locked && node === this.node(row) && first === 0)) return this.store!.choose({ locked: false });
    if (node < first) {
      this.facing = "out";
      return this.store!.choose({ column: node, locked: true });
    }
    if (first > 0) this.facing = "in";
    this.go(node - first);
  }

  /** A node becomes the one that attends; marked is what it looks at hardest beside itself. */
  private go(row: number): void {
    const edges = this.head!.graph!;
    row = Math.max(0, Math.min(edges.n - 1, row));
    const near = edges.incoming(row);
    const other = near.find((x) => this.named.first > 0 || x.node !== row) ?? near[0];
    this.store!.choose({ row, locked: true, ...(other ? { column: other.node } : {}) });
    this.drawing?.reveal(this.node(row));
  }

  private step(by: number): void {
    const { row, column } = this.store!.choice;
    const near = this.head!.graph!.incoming(row);
    const now = near.findIndex((x) => x.node === column);
    const next = near[Math.max(0, Math.min(near.length - 1, now + by))];
    if (next) this.store!.choose({ column: next.node, locked: true });
  }

  private readonly onKey = (event: KeyboardEvent): void => {
    const { row, column, head, site } = this.store!.choice;
    if (!this.head?.graph) return;
    const far = event.shiftKey ? 10 : 1;
    const moves: Record<string, () => void> = {
      ArrowRight: () => this.go(row + far), ArrowLeft: () => this.go(row - far), ArrowDown: () => this.step(1),
      ArrowUp: () => this.step(-1), Enter: () => this.named.first === 0 && this.go(column),
      "+": () => this.drawing?.zoom(1.6), "=": () => this.drawing?.zoom(1.6), "-": () => this.drawing?.zoom(1 / 1.6),
      "0": () => this.drawing?.whole(), Escape: () => this.store!.choose({ locked: false }),
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
    if (store.site.form !== "edges") return html`<p class="note">This site attends over no graph.</p>`;
    const edges = this.head?.graph;
    const pick = (e: Event) => (e.target as HTMLSelectElement).value;
    return html`
      <div class="bar">
        <label>Colour and width <select aria-label="Scale of colour and width" @change=${(e: Event) => (this.scale = pick(e) as Scale)}>
          ${SCALES.map((s) => html`<option value=${s.value} ?selected=${s.value === this.scale}>${s.label}</option>`)}</select></label>
        <label title="The largest weights of each node that make up this share of what it gives">Mass
          <input type="range" min="0.3" max="1" step="0.01" .value=${String(this.mass)} aria-label="Share of each node's mass that is drawn"
            @input=${(e: Event) => (this.mass = Number((e.target as HTMLInputElement).value))}> ${Math.round(100 * this.mass)} %</label>
        ${this.named.first === 0 ? html`<label>A chosen node <select aria-label="Which edges of a chosen node are shown" @change=${(e: Event) => { this.facing = pick(e) as Facing; this.later(); }}>
          <option value="in">attends to</option><option value="out">is attended by</option></select></label>` : nothing}
        <label>Find <input type="search" aria-label="Find a node by name or number" @change=${(e: Event) => this.find((e.target as HTMLInputElement).value)}></label>
        <span><button aria-label="Zoom out" @click=${() => this.drawing?.zoom(1 / 1.6)}>−</button>
          <button aria-label="Zoom in" @click=${() => this.drawing?.zoom(1.6)}>+</button>
          <button @click=${() => this.drawing?.whole()}>Whole</button></span>
        ${legend({ top: edges ? this.reach() : 1, scale: this.scale, below: edges?.w.some((x) => x < 0) ?? false, what: this.isolated() === null ? "weight, all nodes" : "weight, this node" })}
      </div>
      ${edges ? this.told(edges) : nothing}`;
  }

  private told(edges: Edges) {
    const { choice, site } = this.store!;
    const focus = this.isolated();
    const hood = this.hood(focus ?? this.node(choice.row));
    const name = (x: number) => (this.named.first === 0 ? told(this.named.names[x], x) : told(this.named.names[x], x < this.named.first ? x : x - this.named.first));
    const sum = hood.ends.reduce((a, b) => a + b.w, 0);
    const best = hood.ends[0];
    const count = hood.ends.length;
    const many = `${count.toLocaleString("en")} ${count === 1 ? "edge" : "edges"}`;
    const said = !count ? `${name(hood.node)} ${hood.inward ? "attends to nobody" : "is attended by nobody"}.`
      : `${name(hood.node)} ${hood.inward ? "attends along" : "is attended on"} ${many}, most ${hood.inward ? "to" : "by"} ${best.self ? "itself" : name(best.at)}:`;
    const classes = this.nodes!.called;
    const high = Math.abs(best?.w ?? 0) || 1;
    const pickEnd = (end: Hood["ends"][0]) => (hood.inward ? this.store!.choose({ column: end.node, ...(this.named.first === 0 ? { row: hood.node } : { row: hood.node - this.named.first }), locked: true }) : this.go(end.node));
    const marked = hood.ends.find((x) => x.node === choice.column && hood.inward);
    return html`
      <p class="here">${said} <b>${best ? written(best.w) : ""}</b> <small>${count ? `sum ${written(sum)}` : ""}${choice.locked ? " · held (Esc lets go)" : ""}</small></p>
      <div class="both"><div><div class="stage" tabindex="0" role="application" @keydown=${this.onKey}
        aria-label=${`Graph of ${edges.n.toLocaleString("en")} attending nodes and ${edges.source.length.toLocaleString("en")} edges. Left and right choose a node, up and down one of its edges, Enter follows it, plus and minus zoom, 0 shows the whole, Escape lets go.`}>
        <div></div><canvas></canvas></div>
        ${this.refused ? html`<p class="note" role="status">${this.refused}</p>` : nothing}
        ${classes ? html`<p class="note classes">${classes.map((x, c) => html`<span style=${`--class: ${classColour(c)}`}>${x}</span>`)}</p>` : nothing}
        <p class="note">${site.edges!.toLocaleString("en")} edges${edges.source.length > site.edges! ? ` and ${(edges.source.length - site.edges!).toLocaleString("en")} added self-loops` : ""}.
          An edge is broad at the node that is attended and ends at the one that attends; a ring is what a node gives itself; a large node receives much.</p></div>
        <ol aria-label=${hood.inward ? "What the chosen node attends to, strongest first" : "Who attends to the chosen node, strongest first"}>
          ${hood.ends.slice(0, LISTED).map((end) => html`<li><button class=${end === marked ? "on" : ""} title=${end.id < site.edges! ? `edge ${end.id}` : "a self-loop that the layer added"}
            style=${`background-image: linear-gradient(color-mix(in srgb, var(--mark) 26%, transparent) 0 0); background-size: ${Math.round((100 * Math.abs(end.w)) / high)}% 100%`}
            @click=${() => pickEnd(end)} @dblclick=${() => this.named.first === 0 && this.go(end.node)}><span>${end.self ? "itself" : this.named.names[end.at]}</span><span>${written(end.w)}</span></button></li>`)}
          ${count > LISTED ? html`<li><small>and ${(count - LISTED).toLocaleString("en")} more, together ${written(hood.ends.slice(LISTED).reduce((a, b) => a + b.w, 0))}</small></li>` : nothing}</ol></div>
      <span class="quiet" aria-live="polite">${choice.locked ? `${said} ${best ? written(best.w) : ""}${marked ? `; marked ${marked.self ? "itself" : name(marked.at)} ${written(marked.w)}` : ""}` : ""}</span>`;
  }
}

function namesOf(site: SiteAbout, nodes: GraphAbout): string[] {
  const rows = Array.from({ length: site.n }, (_, i) => (site.rows ? shown(site.rows[i]) : rowName(site, i)));
  return nodes.first ? [...Array.from({ length: nodes.first }, (_, j) => columnName(site, j)), ...rows] : rows;
}
