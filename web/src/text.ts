/** <regard-text>: the tokens shaded by the weights of the selected row; beside them a human rationale, if there is one. */

import { css, html, nothing, type TemplateResult } from "lit";
import { signed, written } from "./colour";
import type { Head } from "./head";
import { same } from "./token_names";
import { marksOf, overlap, type Overlap } from "./overlap";
import { Component } from "./component";
import { fileName, saveText } from "./saving";
import { largest, running, shade, shading } from "./shading";
import type { Choice } from "./store";
import { drawnText } from "./svg";
import { inks, theme } from "./theme";

const MOST = 800; // tokens rendered at a time

export class RegardText extends Component {
  static override properties = { ...Component.properties, head: { state: true }, excludeFirst: { state: true }, mean: { state: true } };
  declare head: Head | null;
  declare excludeFirst: boolean; // exclude the first token from the shading scale
  declare mean: boolean; // mean over rows instead of the selected row
  private requestId = 0;

  constructor() {
    super();
    this.head = null;
    this.excludeFirst = false;
    this.mean = false;
  }

  static override styles = [theme, shading, css`
    .both { display: grid; grid-template-columns: 1fr 1fr; gap: 0.2rem 1.2rem; } .both small { border-bottom: 1px solid var(--line); }
    .marked span.on { background: color-mix(in srgb, var(--cold) 40%, transparent); } .note { margin: 0.4rem 0 0; font-size: 0.85rem; }
  `];

  protected storeChanged(): void {
    this.loading = this.load();
  }

  protected choiceChanged(before: Choice): void {
    if (this.mapChanged(before)) this.loading = this.load();
    else this.requestUpdate();
  }

  private async load(): Promise<void> {
    const request = ++this.requestId;
    const found = await this.store!.head();
    await found.settled;
    if (request === this.requestId) this.head = found;
  }

  /** Lit renders the text; this scrolls to the row, unless the pointer is over the text. */
  protected draw(): void {
    const box = this.renderRoot.querySelector("p.running");
    const row = box?.querySelector<HTMLElement>("span.row");
    if (!box || !row || box.matches(":hover")) return;
    const y = row.offsetTop - (box as HTMLElement).offsetTop;
    if (y < box.scrollTop || y + row.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = y - box.clientHeight / 2;
  }

  /** Weights of the selected row, or the mean over rows. */
  private weights(head: Head): Float32Array {
    if (!this.mean) return head.row(this.store!.choice.row);
    const made = new Float32Array(head.m);
    for (let i = 0; i < head.n; i++) head.row(i).forEach((w, j) => (made[j] += w / head.n));
    return made;
  }

  private readonly saveDrawing = (): void => {
    const boxes = [...this.renderRoot.querySelectorAll("p.running, .both > small")];
    saveText(String(drawnText(boxes, inks(this).raised)), "image/svg+xml", fileName(this.store!, "text", "svg"));
  };

  protected override render() {
    const { store, head } = this;
    if (!store || !head) return nothing;
    const { site } = store;
    if (!site.columns || site.n === 0 || site.n !== head.n || site.m !== head.m) return html`<small>This map has no token names.</small>`;
    const { row, column, side } = store.choice;
    const tell = side === "difference" ? signed : written;
    const marks = marksOf(store.data.about.rationale, site.m);
    const weights = this.weights(head);
    const top = largest(weights, this.excludeFirst ? 1 : 0);
    const from = Math.max(0, Math.min(site.m - MOST, column - MOST / 2));
    const to = Math.min(site.m, from + MOST);
    const own = same(site) && !(marks && this.mean);
    const chosen = (j: number) => () => store.choose(own ? { row: j, pinned: true } : { column: j });
    const text = running(site.columns, from, to, (j) => {
      const unmatched = site.beside && "+-".includes(site.beside.columns[j]);
      return { kind: `${own && j === row ? "row" : ""}${unmatched ? " unmatched" : ""}${store.marks.tokens.has(j) ? " masked" : ""}`, tooltip: tell(weights[j]), style: shade(weights[j], top), clicked: chosen(j), doubleClicked: () => this.act({ token: j }) };
    });
    return html`
      <div class="bar"><small>Maximum: ${written(top)}</small><label><input type="checkbox" .checked=${this.excludeFirst}
        @change=${(e: Event) => (this.excludeFirst = (e.target as HTMLInputElement).checked)}> exclude first token</label>
        ${marks ? html`<label><input type="checkbox" .checked=${this.mean} @change=${(e: Event) => (this.mean = (e.target as HTMLInputElement).checked)}> mean over rows</label>` : nothing}
        ${this.saver({ SVG: this.saveDrawing }, "the text")}</div>
      ${marks ? this.beside(text, marks, running(site.columns, from, to, (j) => ({ kind: marks[j] ? "on" : "", tooltip: marks[j] ? "in the rationale" : "", style: "", clicked: chosen(j) })), overlap(weights, marks)) : text}`;
  }

  private beside(text: TemplateResult, marks: Uint8Array, marked: TemplateResult, found: Overlap): TemplateResult {
    const share = (x: number) => x.toFixed(2);
    return html`<div class="both"><small>Human rationale: ${found.marked} of ${marks.length} tokens</small>
        <small>Attention, ${this.mean ? "mean over rows" : "selected row"}</small><div class="marked">${marked}</div><div>${text}</div></div>
      <p class="note">AUPRC <b>${share(found.auprc)}</b> · precision@${found.marked} <b>${share(found.precision)}</b>
        <small>· chance ${share(found.chance)}. Plausibility (agreement with humans) is not faithfulness (what the model used).</small></p>`;
  }
}
