/** <regard-why>: why the pinned cell has its weight: what wrote its query and its key, and a cut beside each part. */

import { css, html, LitElement, nothing, svg } from "lit";
import type { Store } from "../store";
import { theme } from "../theme";
import { follow, Refused, Stopped } from "./api";

interface Share {
  name: string;
  value: number;
  layer: number;
  kind: string;
}

export interface Answer {
  sentence: string;
  score: number;
  weight: number;
  layer: number;
  query: Share[];
  key: Share[];
  pairs: { query: string; key: string; value: number }[];
  cell: [number, number];
}

export type Side = "query" | "key";

export interface Cut {
  row: number;
  column: number;
  side: Side;
  writer: string;
}

export class RegardWhy extends LitElement {
  static override properties = {
    store: { attribute: false }, view: { attribute: false }, text: { attribute: false }, answer: { state: true }, problem: { state: true }, busy: { state: true },
  };
  declare store: Store | null;
  declare view: string;
  declare text: string;
  declare answer: Answer | null;
  declare problem: string;
  declare busy: boolean;
  private asked = "";
  private heard: Store | null = null;
  private request = 0;

  constructor() {
    super();
    this.store = null;
    this.view = "";
    this.text = "";
    this.answer = null;
    this.problem = "";
    this.busy = false;
  }

  static override styles = [theme, css`
    :host { display: block; }
    section { background: var(--raised); border: 1px solid var(--line); border-radius: 0.7rem; padding: 0.8rem 1rem; margin: 0 0 1rem; }
    h2 { font: 600 1.02rem/1.3 var(--serif); margin: 0 0 0.4rem; } p { margin: 0 0 0.6rem; } .hint { color: var(--soft); font-size: 0.85rem; }
    .writers { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 1.2rem; } h3 { font: 600 0.9rem/1.3 var(--serif); margin: 0 0 0.3rem; }
    ul { list-style: none; margin: 0; padding: 0; } li { display: grid; grid-template-columns: 9rem 1fr 3.4rem auto; gap: 0.5rem; align-items: center; padding: 0.1rem 0; }
    .bar { height: 0.75rem; border-radius: 0.15rem; min-width: 1px; } .up { background: #2563eb; } .down { background: #c2410c; } .number { text-align: right; font-variant-numeric: tabular-nums; }
    li button { padding: 0 0.45rem; } .name { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; } svg { width: 100%; height: 5.2rem; display: block; margin: 0.5rem 0 0; }
    svg text { font-size: 10px; fill: var(--soft); } @media (max-width: 62rem) { .writers { grid-template-columns: minmax(0, 1fr); } }
    @media (prefers-color-scheme: dark) { .up { background: #60a5fa; } .down { background: #fb923c; } }
  `];

  private readonly listen = (): void => this.look();

  protected override willUpdate(): void {
    if (this.store !== this.heard) {
      this.heard?.removeEventListener("choice", this.listen);
      this.heard = this.store;
      this.store?.addEventListener("choice", this.listen);
      this.asked = "";
      this.look();
    }
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.heard?.removeEventListener("choice", this.listen);
    this.heard = null;
  }

  /** Ask of the pinned cell, once. */
  private look(): void {
    if (!this.store) return;
    const { site, head, row, column, pinned } = this.store.choice;
    const key = `${this.view}.${site}.${head}.${row}.${column}`;
    if (!pinned || key === this.asked) return;
    this.asked = key;
    void this.ask(site, head, row, column);
  }

  private async ask(site: number, head: number, row: number, column: number): Promise<void> {
    const request = ++this.request;
    this.busy = true;
    this.problem = "";
    try {
      const made = await follow<Answer>("/api/why", { view: this.view, site, head, row, column }, () => undefined);
      if (request !== this.request) return;
      this.answer = made;
    } catch (problem) {
      if (request !== this.request) return;
      if (!(problem instanceof Refused || problem instanceof Stopped)) throw problem;
      this.answer = null;
      this.problem = problem.message;
    } finally {
      if (request === this.request) this.busy = false;
    }
  }

  private cut(side: Side, writer: string): void {
    const [row, column] = this.answer!.cell;
    const detail: Cut = { row, column, side, writer };
    this.dispatchEvent(new CustomEvent("cut-writer", { detail, bubbles: true, composed: true }));
  }

  private bars(side: Side) {
    const shares = this.answer![side];
    const most = Math.max(...this.answer!.query.concat(this.answer!.key).map((x) => Math.abs(x.value)), 1e-9);
    return html`<div><h3>Written into the ${side}</h3><ul>${shares.map((one) => html`<li>
      <span class="name" title=${one.name}>${one.name}</span><span><span class="bar ${one.value > 0 ? "up" : "down"}" style=${`display:block;width:${(100 * Math.abs(one.value)) / most}%`}></span></span>
      <span class="number">${one.value > 0 ? "+" : "−"}${Math.abs(one.value).toFixed(2)}</span><button @click=${() => this.cut(side, one.name)} aria-label=${`cut ${one.name} from the ${side}`} title=${`Run the model without what ${one.name} wrote into this ${side}`}>cut it</button></li>`)}</ul></div>`;
  }

  /** The writers by layer, as lines into the head: the query above, the key below. */
  private path() {
    const { layer, query, key } = this.answer!;
    const x = (l: number) => 70 + (540 * (l + 1)) / (layer + 1);
    const most = Math.max(...query.concat(key).map((one) => Math.abs(one.value)), 1e-9);
    const lane = (shares: Share[], y: number) => shares.filter((one) => one.value > 0).slice(0, 5).map((one) => svg`
      <path d=${`M${x(one.layer)},${y} Q${x(layer) - 20},${y} ${x(layer)},42`} fill="none" stroke="#2563eb" stroke-opacity="0.7" stroke-width=${0.6 + (4 * one.value) / most}><title>${one.name} ${one.value.toFixed(2)}</title></path>
      <circle cx=${x(one.layer)} cy=${y} r="3" fill="#2563eb"></circle>`);
    const top = (shares: Share[]) => shares.find((one) => one.value > 0 && one.layer >= 0);
    const label = (one: Share | undefined, y: number) => (one ? svg`<text x=${x(one.layer)} y=${y} text-anchor="middle">${one.name}</text>` : nothing);
    return html`<svg viewBox="0 0 640 84" role="img" aria-label="The writers through the layers"><text x="0" y="16">query</text><text x="0" y="76">key</text>
      ${lane(query, 14)}${lane(key, 70)}${label(top(query), 30)}${label(top(key), 62)}<circle cx=${x(layer)} cy="42" r="5" fill="#c2410c"></circle></svg>`;
  }

  protected override render() {
    if (!this.store) return nothing;
    const { answer } = this;
    return html`<section aria-live="polite"><h2>Why?${this.busy ? html` <span class="hint">running the model once, then every cell is quick …</span>` : nothing}</h2>
      ${this.problem ? html`<p class="hint">${this.problem}</p>` : nothing}
      ${!answer && !this.problem && !this.busy ? html`<p class="hint">Click a cell of the map: it is answered here what wrote its query and its key, and what happens without it.</p>` : nothing}
      ${answer ? html`<p>${answer.sentence}</p><div class="writers">${this.bars("query")}${this.bars("key")}</div>${this.path()}` : nothing}</section>`;
  }
}
