/** <regard-lines>: who attends, left; what is attended, right; a line as broad as the weight. */

import { css, html } from "lit";
import { COLD, HEAD_COLOURS, signed as told } from "./colour";
import type { Head } from "./head";
import { inSight, strongest } from "./layout";
import { labelled, shortened } from "./names";
import { Part } from "./part";
import { fileName, savePicture, saveText } from "./saving";
import type { Choice } from "./store";
import { SvgPen, type Pen } from "./svg";
import { FONT, inks, sharpen, theme } from "./theme";

const LINE = 21;
const HIGH = 460;
const MOST = 24; // lines of a row at the most

export class RegardLines extends Part {
  static override properties = { ...Part.properties, mass: { state: true }, heads: { state: true }, over: { state: true } };
  declare mass: number;
  declare heads: number[]; // those drawn, of the chosen site
  declare over: number | null; // a row under the pointer
  private loaded = new Map<number, Head>();
  private rows = new Map<string, { j: number; w: number }[]>();
  private asked = 0;

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

  protected begun(): void {
    this.heads = [this.store!.choice.head];
    this.loading = this.load();
  }

  protected chosen(before: Choice): void {
    const now = this.store!.choice;
    if (this.another(before)) {
      if (now.site !== before.site || now.head !== before.head) this.heads = [now.head];
      this.loading = this.load();
    } else if (now.row !== before.row && this.over === null) this.reveal(now.row);
    this.requestUpdate();
  }

  private reveal(row: number): void {
    const box = this.renderRoot.querySelector(".scroll");
    if (!box) return;
    const y = row * LINE;
    if (y < box.scrollTop || y + LINE > box.scrollTop + box.clientHeight) box.scrollTop = y - box.clientHeight / 2;
  }

  private async load(): Promise<void> {
    const ask = ++this.asked;
    const made = new Map<number, Head>();
    for (const head of this.heads) {
      const found = await this.store!.head(head);
      await found.settled;
      made.set(head, found);
    }
    if (ask !== this.asked) return;
    this.loaded = made;
    this.rows.clear();
    this.later();
  }

  private of(head: number, i: number): { j: number; w: number }[] {
    const key = `${head}.${i}.${this.mass}`;
    let found = this.rows.get(key);
    if (!found) {
      if (this.rows.size > 4000) this.rows.clear();
      this.rows.set(key, (found = strongest(this.loaded.get(head)!.row(i), this.mass, MOST)));
    }
    return found;
  }

  private get held(): number | null {
    return this.over ?? (this.store!.choice.locked ? this.store!.choice.row : null);
  }

  protected draw(): void {
    const { site } = this.store!;
    if (site.n * site.m === 0) return;
    const box = this.renderRoot.querySelector(".scroll") as HTMLElement;
    const [width, height] = [Math.floor(box.clientWidth), Math.min(HIGH, Math.max(site.n, site.m) * LINE + 30)];
    this.drawOn(sharpen(this.canvas(), width, height), width, height, box.scrollTop - 26, performance.now() + 10);
  }

  /** Lines and names with a pen; rows that nobody has asked for yet are read until then. */
  private drawOn(context: Pen, width: number, height: number, scroll: number, until: number): void {
    const { site, choice } = this.store!;
    const colours = inks(this);
    const above = (count: number) => (count * LINE + 30 <= height ? -26 : scroll); // a short column stays in sight
    const [topLeft, topRight] = [above(site.n), above(site.m)];
    const [left, right] = [width * 0.3, width * 0.7];
    const [i0, i1] = inSight(site.n, topLeft, height, LINE);
    const [j0, j1] = inSight(site.m, topRight, height, LINE);
    const yLeft = (i: number) => (i + 0.5) * LINE - topLeft;
    const yRight = (j: number) => (j + 0.5) * LINE - topRight;
    const held = this.held;
    const heads = this.heads.filter((head) => this.loaded.has(head));
    const differs = choice.side === "difference";
    let top = differs ? 0 : 1; // differences are as broad as their share of the largest
    if (differs) for (const head of heads) for (const x of this.loaded.get(head)!.levels.at(-1)!.peak) top = Math.max(top, Math.abs(x));
    const cold = (colours.dark ? COLD.dark : COLD.light)[4];
    context.lineCap = "butt";
    for (const head of heads)
      for (let i = i0; i < i1; i++) {
        if (held !== null && i !== held) continue;
        if (i !== held && performance.now() > until && !this.rows.has(`${head}.${i}.${this.mass}`)) {
          this.later();
          continue;
        }
        for (const { j, w: signed } of this.of(head, i)) {
          const w = Math.min(1, Math.abs(signed) / (top || 1));
          context.setLineDash(signed < 0 ? [5, 4] : []); // below zero
          context.strokeStyle = !differs || heads.length > 1 ? HEAD_COLOURS[head % HEAD_COLOURS.length] : signed < 0 ? cold : colours.mark;
          context.globalAlpha = Math.min(1, (held === null ? 0.14 + 0.56 * w : 0.4 + 0.5 * w) * (colours.dark ? 1.25 : 1)) * (j >= j0 && j < j1 ? 1 : 0.4);
          context.lineWidth = Math.max(0.6, (held === null ? 9 : 14) * w);
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
    if (held !== null) for (const head of heads) for (const { j, w } of this.of(head, held)) if (Math.abs(w) > Math.abs(received.get(j) ?? 0)) received.set(j, w);
    context.textAlign = "right";
    for (let i = i0; i < i1; i++) {
      const on = i === held || (held === null && i === choice.row);
      context.font = `${on ? "600 " : ""}13px ${FONT}`;
      context.fillStyle = on ? colours.mark : held === null ? colours.ink : colours.soft;
      context.fillText(shortened(labelled(site, "rows", i), Math.floor(left / 9)), left - 8, yLeft(i));
    }
    context.textAlign = "left";
    for (let j = j0; j < j1; j++) {
      const w = received.get(j);
      context.font = `${w ? "600 " : ""}13px ${FONT}`;
      context.fillStyle = held === null || w ? colours.ink : colours.soft;
      const name = shortened(labelled(site, "columns", j), Math.floor(left / 9));
      context.fillText(name, right + 8, yRight(j));
      if (w && Math.abs(w) >= 0.01) {
        const after = right + 14 + context.measureText(name).width;
        context.font = `11px ${FONT}`;
        context.fillStyle = colours.soft;
        context.fillText(differs ? told(Number(w.toFixed(3))) : w.toFixed(3), after, yRight(j));
      }
    }
    context.fillStyle = colours.raised;
    context.fillRect(0, 0, width, 24);
    context.font = `italic 600 12px ${FONT}`;
    context.fillStyle = colours.soft;
    context.textAlign = "right";
    context.fillText("attends", left - 8, 13);
    context.textAlign = "left";
    context.fillText("is attended", right + 8, 13);
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
    const scroll = this.store!.site.n * LINE + 30 <= canvas.height ? 0 : box.scrollTop;
    const i = Math.floor((event.clientY - canvas.top + scroll - 26) / LINE);
    return i >= 0 && i < this.store!.site.n ? i : null;
  }

  /** The token under the pointer, left or right. */
  private token(event: MouseEvent): number | null {
    const canvas = this.canvas().getBoundingClientRect();
    const { n, m } = this.store!.site;
    const count = event.clientX - canvas.left > canvas.width / 2 ? m : n;
    const scroll = count * LINE + 30 <= canvas.height ? 0 : (this.renderRoot.querySelector(".scroll") as HTMLElement).scrollTop;
    const at = Math.floor((event.clientY - canvas.top + scroll - 26) / LINE);
    return at >= 0 && at < count ? at : null;
  }

  private toggle(head: number): void {
    const on = this.heads.includes(head);
    this.heads = on ? this.heads.filter((x) => x !== head) : [...this.heads, head];
    if (!on) this.loading = this.load();
  }

  private readonly onKey = (event: KeyboardEvent): void => {
    const step = ({ ArrowUp: -1, ArrowDown: 1, PageUp: -15, PageDown: 15 } as Record<string, number>)[event.key];
    if (event.key === "Escape") return this.store!.choose({ locked: false });
    if (!step) return;
    event.preventDefault();
    this.over = null;
    this.store!.choose({ row: this.store!.choice.row + step, locked: true });
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
      <label>Mass <input type="range" min="0.3" max="1" step="0.05" .value=${String(this.mass)} aria-label="Share of each row's mass that has lines"
        @input=${(e: Event) => (this.mass = Number((e.target as HTMLInputElement).value))}> ${Math.round(100 * this.mass)} %</label>
      ${this.saver({ PNG: () => savePicture(this.canvas(), dark, fileName(this.store!, "lines", "png")), SVG: this.saveDrawing }, "the lines")}</div>
      <div class="scroll" @scroll=${() => this.later()}><div style=${`height:${Math.max(site.n, site.m) * LINE + 30}px`}>
        <canvas tabindex="0" role="application" aria-label="Lines from each token to those it attends to. Up and down choose a row."
          @pointermove=${(e: PointerEvent) => { const i = this.row(e); if (i !== this.over) this.over = i; if (i !== null && !this.store!.choice.locked) this.store!.choose({ row: i }); }}
          @pointerleave=${() => (this.over = null)} @keydown=${this.onKey}
          @dblclick=${(e: MouseEvent) => { const j = this.token(e); if (j !== null) this.act({ token: j }); }}
          @click=${(e: MouseEvent) => { const i = this.row(e); const c = this.store!.choice; this.store!.choose(i === null || (c.locked && c.row === i) ? { locked: false } : { row: i, locked: true }); }}></canvas>
      </div></div>`;
  }
}
