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
  without: number | null; // the weight without it
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

/** A weight in few digits; small ones as powers of ten. */
export function few(weight: number): string {
  return weight > 0 && weight < 5e-4 ? weight.toExponential(0).replace("-", "−") : weight.toFixed(3);
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
    store: { attribute: false }, view: { attribute: false }, text: { attribute: false }, cuts: { attribute: false }, answer: { state: true }, problem: { state: true }, busy: { state: true },
  };
  declare store: Store | null;
  declare view: string;
  declare text: string;
  declare cuts: (Cut & { head: number; site: string })[]; // what is cut now
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
    this.cuts = [];
    this.answer = null;
    this.problem = "";
    this.busy = false;
  }

  static override styles = [theme, css`
    :host { display: block; }
    section { background: var(--raised); border: 1px solid var(--line); border-radius: 0.7rem; padding: 0.8rem 1rem; margin: 0 0 1rem; }
    h2 { font: 600 1.02rem/1.3 var(--serif); margin: 0 0 0.4rem; } p { margin: 0 0 0.6rem; } .hint { color: var(--soft); font-size: 0.85rem; }
    .writers { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 1.2rem; } h3 { font: 600 0.9rem/1.3 var(--serif); margin: 0 0 0.3rem; }
    ul { list-style: none; margin: 0; padding: 0; } li { display: grid; grid-template-columns: minmax(5rem, 8rem) 1fr 3.4rem 3rem max-content; gap: 0.5rem; align-items: center; padding: 0.1rem 0; }
    li.head { color: var(--soft); font-size: 0.8rem; } li.head span { text-align: right; } li.head span:first-child { text-align: left; } li button[aria-pressed="true"] { background: var(--mark); border-color: var(--mark); color: #201200; }
    .bar { height: 0.75rem; border-radius: 0.15rem; min-width: 1px; } .up { background: #2563eb; } .down { background: #c2410c; } .number { text-align: right; font-variant-numeric: tabular-nums; }
    li button { padding: 0 0.45rem; } .name { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; } svg { width: 100%; height: auto; display: block; margin: 0.6rem 0 0; }
    svg text { font-size: 11px; fill: var(--soft); } svg .name { fill: currentColor; } svg .axis { stroke: var(--line); } .lane { stroke: #2563eb; } circle.lane { fill: #2563eb; } .pairs li { grid-template-columns: minmax(8rem, 20rem) 1fr 3.4rem; }
    @media (max-width: 62rem) { .writers { grid-template-columns: minmax(0, 1fr); } } @media (max-width: 36rem) { li { grid-template-columns: 5.2rem minmax(1rem, 1fr) 2.9rem 2.6rem max-content; gap: 0.3rem; font-size: 0.9rem; } svg text { font-size: 19px; } .pairs li { grid-template-columns: minmax(8rem, 13rem) 1fr 3.4rem; } }
    @media (prefers-color-scheme: dark) { .up { background: #60a5fa; } .down { background: #fb923c; } .lane { stroke: #60a5fa; } circle.lane { fill: #60a5fa; } }
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

  private isCut(side: Side, writer: string): boolean {
    const [row, column] = this.answer!.cell;
    const { site, choice } = this.store!;
    return this.cuts.some((x) => x.site === site.site && x.head === choice.head && x.side === side && x.writer === writer && x.row === row && x.column === column);
  }

  private bar(value: number, most: number) {
    return html`<span><span class="bar ${value > 0 ? "up" : "down"}" style=${`display:block;width:${(100 * Math.abs(value)) / most}%`}></span></span><span class="number">${value > 0 ? "+" : "−"}${Math.abs(value).toFixed(2)}</span>`;
  }

  private bars(side: Side) {
    const shares = this.answer![side];
    const most = Math.max(...this.answer!.query.concat(this.answer!.key).map((x) => Math.abs(x.value)), 1e-9);
    return html`<div><h3>Written into the ${side}</h3><ul><li class="head"><span>by</span><span></span><span>score</span><span title="The weight of this cell when the model runs without this part">without</span><span></span></li>
      ${shares.map((one) => html`<li><span class="name" title=${one.name}>${one.name}</span>${this.bar(one.value, most)}<span class="number">${one.without === null ? "" : few(one.without)}</span>
      <button aria-pressed=${this.isCut(side, one.name)} aria-label=${`Cut ${one.name} from the ${side}`} @click=${() => this.cut(side, one.name)} title=${`Run the model without what ${one.name} wrote into this ${side}`}>cut it</button></li>`)}</ul></div>`;
  }

  /** The largest parts: what a writer of the query does with a writer of the key. */
  private pairs() {
    const most = Math.max(...this.answer!.pairs.map((x) => Math.abs(x.value)), 1e-9);
    return html`<div class="pairs"><h3>Largest parts of the score: a writer of the query times a writer of the key</h3><ul>${this.answer!.pairs.map((one) => html`<li>
      <span class="name" title=${`${one.query} × ${one.key}`}>${one.query} × ${one.key}</span>${this.bar(one.value, most)}</li>`)}</ul></div>`;
  }

  /** The writers by layer, as lines into the head: the query above, the key below. */
  private path() {
    const { layer, query, key } = this.answer!;
    const x = (l: number) => 60 + (520 * (l + 1)) / (layer + 1);
    const most = Math.max(...query.concat(key).map((one) => Math.abs(one.value)), 1e-9);
    const raising = (shares: Share[]) => shares.filter((one) => one.value > 0).slice(0, 5);
    const lane = (shares: Share[], y: number) => raising(shares).map((one) => svg`
      <path class="lane" d=${`M${x(one.layer)},${y} Q${x(layer) - 20},${y} ${x(layer)},60`} fill="none" stroke-opacity="0.7" stroke-width=${0.6 + (4 * one.value) / most}><title>${one.name} ${one.value.toFixed(2)}</title></path>
      <circle class="lane" cx=${x(one.layer)} cy=${y} r="3"><title>${one.name} ${one.value.toFixed(2)}</title></circle>`);
    const labels = (shares: Share[], y: number) => {
      const told: Share[] = [];
      for (const one of raising(shares)) if (told.every((other) => Math.abs(x(one.layer) - x(other.layer)) > 110)) told.push(one);
      return told.map((one) => svg`<text class="name" x=${Math.min(x(one.layer), 560)} y=${y} text-anchor="middle">${one.name}</text>`);
    };
    const ticks = [...new Set([-1, 0, Math.round(layer / 2), layer])].filter((l) => l < 1 || l === layer || layer > 3);
    return html`<svg viewBox="0 0 640 140" role="img" aria-label="The writers through the layers, as lines into the head">
      <text x="0" y="34">query</text><text x="0" y="94">key</text><line class="axis" x1=${x(-1)} x2=${x(layer)} y1="118" y2="118"></line>
      ${ticks.filter((l) => l !== 0 || layer < 8).map((l) => svg`<text x=${x(l)} y="135" text-anchor="middle">${l < 0 ? "input" : l === layer ? `layer ${l}` : l}</text>`)}
      ${lane(query, 30)}${lane(key, 90)}${labels(query, 18)}${labels(key, 110)}<circle cx=${x(layer)} cy="60" r="5" fill="#c2410c"></circle><text class="name" x=${x(layer) + 10} y="64">${layer}.${this.store!.choice.head}</text></svg>`;
  }

  protected override render() {
    if (!this.store) return nothing;
    const { answer } = this;
    return html`<section aria-live="polite"><h2>Why?${this.busy ? html` <span class="hint">running the model once, then every cell is quick …</span>` : nothing}</h2>
      ${this.problem ? html`<p class="hint">${this.problem}</p>` : nothing}
      ${!answer && !this.problem && !this.busy ? html`<p class="hint">Click a cell of the map: it is answered here what wrote its query and its key, and what happens without it.</p>` : nothing}
      ${answer ? html`<p>${answer.sentence}</p><div class="writers">${this.bars("query")}${this.bars("key")}</div>
        <p class="hint">Blue raises this cell's score over the other keys, orange lowers it; “without” is the weight (now ${few(answer.weight)}) when that part is cut.</p>${this.pairs()}${this.path()}` : nothing}</section>`;
  }
}
