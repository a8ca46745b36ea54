/** <regard-heads>: thumbnails of every head of every site. */

import { css, html } from "lit";
import { diverging, palette, RAMPS } from "./colour";
import type { HeadNumbers, SiteAbout } from "./data";
import type { Side } from "./difference";
import { Component } from "./component";
import { fileName, savePicture } from "./saving";
import type { Choice } from "./store";
import { FONT, inks, isDark, sharpen, theme } from "./theme";

type Order = "layer" | "change" | "importance" | "entropy" | "sink" | "distance";

const ORDERS: { value: Order; label: string; title: string }[] = [
  { value: "change", label: "change, largest first", title: "total variation distance between the two maps, mean over rows" },
  { value: "layer", label: "layer and head", title: "a row for each layer, a column for each head" },
  { value: "importance", label: "importance, largest first", title: "the scores passed as importance=" },
  { value: "entropy", label: "entropy, lowest first", title: "mean over rows, in bits" },
  { value: "sink", label: "weight on first key (sink), largest first", title: "mean weight on the first column, where attention sinks form" },
  { value: "distance", label: "attention distance, largest first", title: "mean |query position - key position|, in tokens" },
];

interface Place {
  site: number;
  head: number;
  x: number;
  y: number;
}

/** Heads in the requested order; those without the statistic come last. */
export function ordered(sites: { numbers: HeadNumbers[] }[], order: Order): { site: number; head: number }[] {
  const all = sites.flatMap((site, s) => site.numbers.map((numbers, head) => ({ site: s, head, numbers })));
  if (order !== "layer") {
    const sign = order === "entropy" ? 1 : -1;
    const of = (x: HeadNumbers) => x[order] ?? null;
    all.sort((a, b) => {
      const [p, q] = [of(a.numbers), of(b.numbers)];
      return p === null || q === null ? Number(p === null) - Number(q === null) : sign * (p - q);
    });
  }
  return all.map(({ site, head }) => ({ site, head }));
}

/** Statistics of each head, of the map that is shown. */
export function numbersOf(site: SiteAbout, side: Side): HeadNumbers[] {
  if (side !== "other" || !site.beside) return site.numbers;
  return site.beside.other.numbers.map((numbers, head) => ({ ...site.numbers[head], ...numbers }));
}

export function described(numbers: HeadNumbers): string {
  const parts = [];
  if (typeof numbers.change === "number") parts.push(`${(100 * numbers.change).toFixed(1)} % of weight moved`);
  if (typeof numbers.importance === "number") parts.push(`importance ${Number(numbers.importance.toPrecision(3))}`);
  if (typeof numbers.entropy === "number") parts.push(`entropy ${numbers.entropy.toFixed(2)} bits`);
  if (typeof numbers.sink === "number") parts.push(`first key ${(100 * numbers.sink).toFixed(0)} %`);
  if (typeof numbers.distance === "number") parts.push(`distance ${numbers.distance.toFixed(1)}`);
  if (typeof numbers.loops === "number") parts.push(`self-loop ${(100 * numbers.loops).toFixed(0)} %`);
  return parts.join(" · ");
}

export class RegardHeads extends Component {
  static override properties = { ...Component.properties, order: { state: true }, over: { state: true } };
  declare order: Order;
  declare over: { site: number; head: number } | null;
  private places: Place[] = [];
  private side = 40;
  private images = new Map<string, HTMLCanvasElement>();
  private inked = false;
  private revealed = "";

  constructor() {
    super();
    this.order = "layer";
    this.over = null;
  }

  static override styles = [theme, css`
    .all { overflow: auto; max-height: 62vh; } canvas { cursor: pointer; }
    p { margin: 0.35rem 0 0; color: var(--soft); font-size: 0.85rem; min-height: 2.6em; } p b { color: var(--ink); font-weight: 600; }
  `];

  protected storeChanged(): void {
    this.order = this.store!.data.about.beside ? "change" : "layer";
    this.loading = this.load();
  }

  private async load(): Promise<void> {
    const { data, choice } = this.store!;
    const side = choice.against ? "this" : choice.side; // thumbnails are of single heads
    this.images.clear();
    this.inked = isDark();
    const colours = side === "difference" ? diverging(this.inked) : palette(this.inked ? RAMPS.dark : RAMPS.light);
    for (const [s, site] of data.sites.entries()) {
      await data.overview(s);
      if (this.store?.data !== data) return;
      const thumbs = { this: site.thumbs, other: site.beside?.other.thumbs, difference: site.beside?.difference.thumbs }[side] ?? site.thumbs;
      const codes = await data.array(thumbs);
      const now = this.store!.choice;
      if (side !== (now.against ? "this" : now.side)) return;
      const [heads, rows, cols] = thumbs.shape;
      for (let h = 0; h < heads && rows * cols > 0; h++) {
        const canvas = document.createElement("canvas");
        canvas.width = cols;
        canvas.height = rows;
        const context = canvas.getContext("2d")!;
        const image = context.createImageData(cols, rows);
        const pixels = new Uint32Array(image.data.buffer);
        for (let x = 0; x < rows * cols; x++) pixels[x] = colours[codes[h * rows * cols + x]];
        context.putImageData(image, 0, 0);
        this.images.set(`${s}.${h}`, canvas);
      }
      this.requestUpdate();
    }
    this.scheduleDraw();
  }

  protected choiceChanged(before: Choice): void {
    const { side, against } = this.store!.choice;
    if (before.side !== side || before.against !== against) this.loading = this.load();
    this.requestUpdate();
  }

  protected draw(): void {
    if (this.inked !== isDark()) return void (this.loading = this.load());
    const { sites } = this.store!.data;
    const colours = inks(this);
    const width = Math.floor(this.clientWidth) - 12;
    const most = Math.max(...sites.map((site) => site.heads));
    const grid = this.order === "layer";
    const left = grid ? 26 : 0;
    const upper = grid ? 16 : 2;
    const caption = grid ? 0 : 13;
    const across = grid ? most : Math.max(1, Math.floor(width / 46));
    this.side = Math.max(16, Math.min(52, Math.floor((width - left) / across) - 3));
    const step = this.side + 3;
    const { side } = this.store!.choice;
    this.places = ordered(sites.map((site) => ({ numbers: numbersOf(site, side) })), this.order).map(({ site, head }, index) => ({
      site, head, x: left + step * (grid ? head : index % across),
      y: upper + (step + caption) * (grid ? site : Math.floor(index / across)),
    }));
    const last = this.places[this.places.length - 1];
    const context = sharpen(this.canvas(), left + step * across, last.y + step + caption + 2);
    context.imageSmoothingEnabled = false;
    context.font = `10px ${FONT}`;
    context.fillStyle = colours.soft;
    context.textBaseline = "middle";
    if (grid) {
      context.textAlign = "center";
      for (let h = 0; h < most; h++) context.fillText(String(h), left + step * h + this.side / 2, 7);
      context.textAlign = "right";
      sites.forEach((site, s) => context.fillText(site.short.slice(0, 4), left - 5, upper + step * s + this.side / 2));
    }
    const { choice } = this.store!;
    this.reveal(`${this.order}.${choice.site}.${choice.head}`);
    for (const place of this.places) {
      const image = this.images.get(`${place.site}.${place.head}`);
      context.fillStyle = colours.raised;
      context.fillRect(place.x, place.y, this.side, this.side);
      if (image) {
        context.drawImage(image, place.x, place.y, this.side, this.side);
      }
      const on = place.site === choice.site && place.head === choice.head;
      const over = this.over?.site === place.site && this.over.head === place.head;
      context.strokeStyle = on || over ? colours.mark : colours.line;
      context.lineWidth = on ? 2.5 : 1;
      context.strokeRect(place.x - 0.5, place.y - 0.5, this.side + 1, this.side + 1);
      if (this.store!.marks.heads.has(`${place.site}.${place.head}`)) {
        context.fillStyle = colours.mark; // intervened on
        context.fillRect(place.x, place.y, this.side / 3, this.side / 3);
      }
      if (!grid) {
        context.fillStyle = on ? colours.mark : colours.soft;
        context.textAlign = "center";
        context.fillText(`${sites[place.site].short}.${place.head}`, place.x + this.side / 2, place.y + this.side + 8);
      }
    }
  }

  /** Scroll to a head that was selected elsewhere. */
  private reveal(choice: string): void {
    const box = this.renderRoot.querySelector(".all");
    const here = this.places.find((p) => p.site === this.store!.choice.site && p.head === this.store!.choice.head);
    if (!box || !here || choice === this.revealed) return;
    this.revealed = choice;
    if (here.y < box.scrollTop || here.y + this.side > box.scrollTop + box.clientHeight) box.scrollTop = here.y - box.clientHeight / 2;
  }

  private at(event: MouseEvent): Place | undefined {
    const box = this.canvas().getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    return this.places.find((p) => x >= p.x && x < p.x + this.side && y >= p.y && y < p.y + this.side);
  }

  private readonly onKey = (event: KeyboardEvent): void => {
    const { site, head } = this.store!.choice;
    const now = this.places.findIndex((p) => p.site === site && p.head === head);
    const here = this.places[now];
    const rows = { ArrowUp: -1, ArrowDown: 1 } as Record<string, number>;
    let next: Place | undefined;
    if (event.key === "ArrowLeft") next = this.places[now - 1];
    else if (event.key === "ArrowRight") next = this.places[now + 1];
    else if (event.key in rows) {
      const line = this.places.filter((p) => (p.y - here.y) * rows[event.key] > 0);
      next = line.sort((a, b) => Math.abs(a.y - here.y) - Math.abs(b.y - here.y) || Math.abs(a.x - here.x) - Math.abs(b.x - here.x))[0];
    } else return;
    event.preventDefault();
    if (next) this.store!.choose({ site: next.site, head: next.head });
  };

  protected override render() {
    if (!this.store) return html``;
    const { sites } = this.store.data;
    const shown = this.over ?? this.store.choice;
    const site = sites[shown.site];
    return html`
      <div class="bar"><label>Sort by <select aria-label="Sort heads by" @change=${(e: Event) => (this.order = (e.target as HTMLSelectElement).value as Order)}>
        ${ORDERS.filter((o) => o.value === "layer" || sites.some((s) => s.numbers.some((x) => typeof x[o.value as keyof HeadNumbers] === "number"))).map((o) =>
          html`<option value=${o.value} ?selected=${o.value === this.order} title=${o.title}>${o.label}</option>`)}</select></label>
        ${this.saver({ PNG: () => savePicture(this.canvas(), inks(this).raised, fileName(this.store!, "heads", "png")) }, "the heads")}</div>
      <div class="all"><canvas tabindex="0" role="application" aria-label="Thumbnails of all heads: arrow keys select one."
        @pointermove=${(e: PointerEvent) => (this.over = this.at(e) ?? null)} @pointerleave=${() => (this.over = null)}
        @click=${(e: MouseEvent) => { const p = this.at(e); if (p) this.store!.choose({ site: p.site, head: p.head }); }} @keydown=${this.onKey}
        @dblclick=${(e: MouseEvent) => { const p = this.at(e); if (p) this.act({ site: p.site, head: p.head }); }}></canvas></div>
      <p aria-live="polite"><b>${site.site}, head ${shown.head}</b><br>${described(numbersOf(site, this.store.choice.side)[shown.head] ?? {})}</p>`;
  }
}
