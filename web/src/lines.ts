/** <regard-lines>: queries on the left, keys on the right, line width by weight. */

import { css, html } from "lit";
import { COLD, HEAD_COLOURS, signed } from "./colour";
import type { Head } from "./head";
import { inSight, strongest } from "./layout";
import { labelled, shortened } from "./token_names";
import { Component } from "./component";
import { fileName, savePicture, saveText } from "./saving";
import type { Choice } from "./store";
import { SvgPen, type Pen } from "./svg";
import { FONT, inks, sharpen, theme } from "./theme";

const ROW_HEIGHT = 21;
const MAX_HEIGHT = 460;
const MAX_LINES = 24; // lines per row

export class RegardLines extends Component {
  static override properties = { ...Component.properties, mass: { state: true }, heads: { state: true }, over: { state: true } };
  declare mass: number;
  declare heads: number[]; // heads of the selected site that are drawn
  declare over: number | null; // the hovered row
  private loaded = new Map<number, Head>();
  private rows = new Map<string, { j: number; w: number }[]>();
  private requestId = 0;

  constructor() {
    super();
    this.mass = 0.8;
    this.heads = [0];
    this.over = null;
  }

  static override styles = [theme, css`
    .scroll { position: relative; overflow: auto; max-height: 460px; border: 1px solid var(--line); border-radius: 0.5rem; background: var(--raised); }
    canvas { position: sticky; top: 0; cursor: pointer; } .heads { display: flex; flex-wrap: wrap; gap: 0.25rem; }
    .heads button { padding: 0.05rem 0.4rem; min-width: 1.9rem; border-width: 2px; font-size: 0.8rem; }
    .heads button[aria-pressed="true"] { color: #fff; border-color: transparent; }
    .heads button[aria-pressed="true"]:focus-visible { outline-offset: 3px; }
  `];

  protected storeChanged(): void {
    this.heads = [this.store!.choice.head];
    this.loading = this.load();
  }

  protected choiceChanged(before: Choice): void {
    const now = this.store!.choice;
    if (this.mapChanged(before)) {
      if (now.site !== before.site || now.head !== before.head) this.heads = [now.head];
      this.loading = this.load();
    } else if (now.row !== before.row && this.over === null) this.reveal(now.row);
    this.requestUpdate();
  }

  private reveal(row: number): void {
    const box = this.renderRoot.querySelector(".scroll");
    if (!box) return;
    const y = row * ROW_HEIGHT;
    if (y < box.scrollTop || y + ROW_HEIGHT > box.scrollTop + box.clientHeight) box.scrollTop = y - box.clientHeight / 2;
  }

  private async load(): Promise<void> {
    const request = ++this.requestId;
    const made = new Map<number, Head>();
    for (const head of this.heads) {
      const found = await this.store!.head(head);
      await found.settled;
      made.set(head, found);
    }
    if (request !== this.requestId) return;
    this.loaded = made;
    this.rows.clear();
    this.scheduleDraw();
  }

  private of(head: number, i: number): { j: number; w: number }[] {
    const key = `${head}.${i}.${this.mass}`;
    let found = this.rows.get(key);
    if (!found) {
      if (this.rows.size > 4000) this.rows.clear();
      this.rows.set(key, (found = strongest(this.loaded.get(head)!.row(i), this.mass, MAX_LINES)));
    }
    return found;
  }

  private get focused(): number | null {
    return this.over ?? (this.store!.choice.pinned ? this.store!.choice.row : null);
  }

  protected draw(): void {
    const { site } = this.store!;
    if (site.n * site.m === 0) return;
    const box = this.renderRoot.querySelector(".scroll") as HTMLElement;
    const [width, height] = [Math.floor(box.clientWidth), Math.min(MAX_HEIGHT, Math.max(site.n, site.m) * ROW_HEIGHT + 30)];
    this.drawOn(sharpen(this.canvas(), width, height), width, height, box.scrollTop - 26, performance.now() + 10);
  }

  /** Lines and names drawn with a pen; rows that are not cached yet are read until the deadline `until`. */
  private drawOn(context: Pen, width: number, height: number, scroll: number, until: number): void {
    const { site, choice } = this.store!;
    const colours = inks(this);
    const above = (count: number) => (count * ROW_HEIGHT + 30 <= height ? -26 : scroll); // a column that fits does not scroll
    const [topLeft, topRight] = [above(site.n), above(site.m)];
    const [left, right] = [width * 0.3, width * 0.7];
    const [i0, i1] = inSight(site.n, topLeft, height, ROW_HEIGHT);
    const [j0, j1] = inSight(site.m, topRight, height, ROW_HEIGHT);
    const yLeft = (i: number) => (i + 0.5) * ROW_HEIGHT - topLeft;
    const yRight = (j: number) => (j + 0.5) * ROW_HEIGHT - topRight;
    const focused = this.focused;
    const heads = this.heads.filter((head) => this.loaded.has(head));
    const differs = choice.side === "difference";
    let top = differs ? 0 : 1; // differences are scaled by the largest
    if (differs) for (const head of heads) for (const x of this.loaded.get(head)!.levels.at(-1)!.peak) top = Math.max(top, Math.abs(x));
    const cold = (colours.dark ? COLD.dark : COLD.light)[4];
    context.lineCap = "butt";
    for (const head of heads)
      for (let i = i0; i < i1; i++) {
        if (focused !== null && i !== focused) continue;
        if (i !== focused && performance.now() > until && !this.rows.has(`${head}.${i}.${this.mass}`)) {
          this.scheduleDraw();
          continue;
        }
        for (const { j, w: weight } of this.of(head, i)) {
          const w = Math.min(1, Math.abs(weight) / (top || 1));
          context.setLineDash(weight < 0 ? [5, 4] : []); // below zero
          context.strokeStyle = !differs || heads.length > 1 ? HEAD_COLOURS[head % HEAD_COLOURS.length] : weight < 0 ? cold : colours.mark;
          context.globalAlpha = Math.min(1, (focused === null ? 0.14 + 0.56 * w : 0.4 + 0.5 * w) * (colours.dark ? 1.25 : 1)) * (j >= j0 && j < j1 ? 1 : 0.4);
          context.lineWidth = Math.max(0.6, (focused === null ? 9 : 14) * w);
          context.beginPath();
          context.moveTo(left, yLeft(i));
          context.bezierCurveTo((left + right) / 2, yLeft(i), (left + right) / 2, yRight(j), right, yRight(j));
          context.stroke();
        }
      }
    context.setLineDash([]);
    context.globalAlpha = 1;
    context.textBaseline = "middle";
    const received = new Map<number, number>();
    if (focused !== null) for (const head of heads) for (const { j, w } of this.of(head, focused)) if (Math.abs(w) > Math.abs(received.get(j) ?? 0)) received.set(j, w);
    context.textAlign = "right";
    for (let i = i0; i < i1; i++) {
      const on = i === focused || (focused === null && i === choice.row);
      context.font = `${on ? "600 " : ""}13px ${FONT}`;
      context.fillStyle = on ? colours.mark : focused === null ? colours.ink : colours.soft;
      context.fillText(shortened(labelled(site, "rows", i), Math.floor(left / 9)), left - 8, yLeft(i));
    }
    context.textAlign = "left";
    for (let j = j0; j < j1; j++) {
      const w = received.get(j);
      context.font = `${w ? "600 " : ""}13px ${FONT}`;
      context.fillStyle = focused === null || w ? colours.ink : colours.soft;
      const name = shortened(labelled(site, "columns", j), Math.floor(left / 9));
      context.fillText(name, right + 8, yRight(j));
      if (w && Math.abs(w) >= 0.01) {
        const after = right + 14 + context.measureText(name).width;
        context.font = `11px ${FONT}`;
        context.fillStyle = colours.soft;
        context.fillText(differs ? signed(Number(w.toFixed(3))) : w.toFixed(3), after, yRight(j));
      }
    }
    context.fillStyle = colours.raised;
    context.fillRect(0, 0, width, 24);
    context.font = `italic 600 12px ${FONT}`;
    context.fillStyle = colours.soft;
    context.textAlign = "right";
    context.fillText("query", left - 8, 13);
    context.textAlign = "left";
    context.fillText("key", right + 8, 13);
  }

  private readonly saveDrawing = (): void => {
    const box = this.renderRoot.querySelector(".scroll") as HTMLElement;
    const { width, height } = this.canvas().getBoundingClientRect();
    const pen = new SvgPen(width, height);
    pen.fillStyle = inks(this).raised;
    pen.fillRect(0, 0, width, height);
    this.drawOn(pen, width, height, box.scrollTop - 26, Infinity);
    saveText(String(pen), "image/svg+xml", fileName(this.store!, "lines", "svg"));
  };

  private row(event: MouseEvent): number | null {
    const canvas = this.canvas().getBoundingClientRect();
    const box = this.renderRoot.querySelector(".scroll") as HTMLElement;
    if (event.clientX - canvas.left > canvas.width * 0.42) return null;
    const scroll = this.store!.site.n * ROW_HEIGHT + 30 <= canvas.height ? 0 : box.scrollTop;
    const i = Math.floor((event.clientY - canvas.top + scroll - 26) / ROW_HEIGHT);
    return i >= 0 && i < this.store!.site.n ? i : null;
  }

  /** The token under the pointer, left or right. */
  private token(event: MouseEvent): number | null {
    const canvas = this.canvas().getBoundingClientRect();
    const { n, m } = this.store!.site;
    const count = event.clientX - canvas.left > canvas.width / 2 ? m : n;
    const scroll = count * ROW_HEIGHT + 30 <= canvas.height ? 0 : (this.renderRoot.querySelector(".scroll") as HTMLElement).scrollTop;
    const at = Math.floor((event.clientY - canvas.top + scroll - 26) / ROW_HEIGHT);
    return at >= 0 && at < count ? at : null;
  }

  private toggle(head: number): void {
    const on = this.heads.includes(head);
    this.heads = on ? this.heads.filter((x) => x !== head) : [...this.heads, head];
    if (!on) this.loading = this.load();
  }

  private readonly onKey = (event: KeyboardEvent): void => {
    const step = ({ ArrowUp: -1, ArrowDown: 1, PageUp: -15, PageDown: 15 } as Record<string, number>)[event.key];
    if (event.key === "Escape") return this.store!.choose({ pinned: false });
    if (!step) return;
    event.preventDefault();
    this.over = null;
    this.store!.choose({ row: this.store!.choice.row + step, pinned: true });
  };

  protected override render() {
    if (!this.store) return html``;
    const { site } = this.store;
    const dark = inks(this).raised;
    return html`
      <div class="bar"><span class="heads" role="group" aria-label="Heads drawn">${Array.from({ length: site.heads }, (_, h) => {
        const on = this.heads.includes(h);
        const colour = HEAD_COLOURS[h % HEAD_COLOURS.length];
        return html`<button aria-pressed=${on} aria-label=${`Head ${h}`} style=${on ? `background:${colour}` : `border-color:${colour};background:${dark}`} @click=${() => this.toggle(h)}>${h}</button>`;
      })}</span>
      <label title="Draw only the largest weights of each row that add up to this share of it (top-p)">Keep top % of each row <input type="range" min="0.3" max="1" step="0.05" .value=${String(this.mass)} aria-label="Share of each row's weight that is drawn"
        @input=${(e: Event) => (this.mass = Number((e.target as HTMLInputElement).value))}> <span class="value">${Math.round(100 * this.mass)} %</span></label>
      ${this.saver({ PNG: () => savePicture(this.canvas(), dark, fileName(this.store!, "lines", "png")), SVG: this.saveDrawing }, "the lines")}</div>
      <div class="scroll" @scroll=${() => this.scheduleDraw()}><div style=${`height:${Math.max(site.n, site.m) * ROW_HEIGHT + 30}px`}>
        <canvas tabindex="0" role="application" aria-label="Lines from each query to the keys it attends to. Up and down select a row."
          @pointermove=${(e: PointerEvent) => { const i = this.row(e); if (i !== this.over) this.over = i; if (i !== null && !this.store!.choice.pinned) this.store!.choose({ row: i }); }}
          @pointerleave=${() => (this.over = null)} @keydown=${this.onKey}
          @dblclick=${(e: MouseEvent) => { const j = this.token(e); if (j !== null) this.act({ token: j }); }}
          @click=${(e: MouseEvent) => { const i = this.row(e); const c = this.store!.choice; this.store!.choose(i === null || (c.pinned && c.row === i) ? { pinned: false } : { row: i, pinned: true }); }}></canvas>
      </div></div>`;
  }
}
