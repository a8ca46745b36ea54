/** <regard-text>: the text that is attended, each token as strong as the chosen row's weight on it; what a person marked beside it. */

import { css, html, nothing, type TemplateResult } from "lit";
import { signed, written } from "./colour";
import type { Head } from "./head";
import { same } from "./names";
import { marksOf, overlap, type Overlap } from "./overlap";
import { Part } from "./part";
import { fileName, saveText } from "./saving";
import { largest, running, shade, shading } from "./shading";
import type { Choice } from "./store";
import { drawnText } from "./svg";
import { inks, theme } from "./theme";

const MOST = 800; // tokens written at a time

export class RegardText extends Part {
  static override properties = { ...Part.properties, head: { state: true }, without: { state: true }, mean: { state: true } };
  declare head: Head | null;
  declare without: boolean; // the first token is left out of the scale
  declare mean: boolean; // the mean of all rows, not the chosen one
  private asked = 0;

  constructor() {
    super();
    this.head = null;
    this.without = false;
    this.mean = false;
  }

  static override styles = [theme, shading, css`
    .both { display: grid; grid-template-columns: 1fr 1fr; gap: 0.2rem 1.2rem; } .both small { border-bottom: 1px solid var(--line); }
    .marked span.on { background: color-mix(in srgb, var(--cold) 40%, transparent); } .note { margin: 0.4rem 0 0; font-size: 0.85rem; }
  `];

  protected begun(): void {
    this.loading = this.load();
  }

  protected chosen(before: Choice): void {
    if (this.another(before)) this.loading = this.load();
    else this.requestUpdate();
  }

  private async load(): Promise<void> {
    const ask = ++this.asked;
    const found = await this.store!.head();
    await found.settled;
    if (ask === this.asked) this.head = found;
  }

  /** Lit writes it; here the row is brought into sight, unless the pointer is on the text. */
  protected draw(): void {
    const box = this.renderRoot.querySelector("p.running");
    const row = box?.querySelector<HTMLElement>("span.row");
    if (!box || !row || box.matches(":hover")) return;
    const y = row.offsetTop - (box as HTMLElement).offsetTop;
    if (y < box.scrollTop || y + row.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = y - box.clientHeight / 2;
  }

  /** The weights that are shown: of the chosen row, or the mean of all. */
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
    if (!site.columns || site.n === 0 || site.n !== head.n || site.m !== head.m) return html`<small>These rows and columns have no names.</small>`;
    const { row, column, side } = store.choice;
    const tell = side === "difference" ? signed : written;
    const marks = marksOf(store.data.about.rationale, site.m);
    const weights = this.weights(head);
    const top = largest(weights, this.without ? 1 : 0);
    const from = Math.max(0, Math.min(site.m - MOST, column - MOST / 2));
    const to = Math.min(site.m, from + MOST);
    const own = same(site) && !(marks && this.mean);
    const chosen = (j: number) => () => store.choose(own ? { row: j, locked: true } : { column: j });
    const text = running(site.columns, from, to, (j) => {
      const lone = site.beside && "+-".includes(site.beside.columns[j]);
      return { kind: `${own && j === row ? "row" : ""}${lone ? " lone" : ""}${store.marks.tokens.has(j) ? " gone" : ""}`, told: tell(weights[j]), style: shade(weights[j], top), chosen: chosen(j), acted: () => this.act({ token: j }) };
    });
    return html`
      <div class="bar"><small>Strongest: ${written(top)}</small><label><input type="checkbox" .checked=${this.without}
        @change=${(e: Event) => (this.without = (e.target as HTMLInputElement).checked)}> without the first token</label>
        ${marks ? html`<label><input type="checkbox" .checked=${this.mean} @change=${(e: Event) => (this.mean = (e.target as HTMLInputElement).checked)}> mean of all rows</label>` : nothing}
        ${this.saver({ SVG: this.saveDrawing }, "the text")}</div>
      ${marks ? this.beside(text, marks, running(site.columns, from, to, (j) => ({ kind: marks[j] ? "on" : "", told: marks[j] ? "marked" : "", style: "", chosen: chosen(j) })), overlap(weights, marks)) : text}`;
  }

  private beside(text: TemplateResult, marks: Uint8Array, marked: TemplateResult, found: Overlap): TemplateResult {
    const share = (x: number) => x.toFixed(2);
    return html`<div class="both"><small>Marked by a person: ${found.marked} of ${marks.length}</small>
        <small>Attended ${this.mean ? "on average" : "by the row"}</small><div class="marked">${marked}</div><div>${text}</div></div>
      <p class="note">AUPRC <b>${share(found.auprc)}</b> · precision of the ${found.marked} largest <b>${share(found.precision)}</b>
        <small>· at random ${share(found.chance)}. Agreement with a person says nothing of what the model used.</small></p>`;
  }
}
