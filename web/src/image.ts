/** <regard-image>: the input image overlaid with the weights of the selected row, patch by patch. */

import { css, html, nothing } from "lit";
import { palette, place, SCALES, written, type Scale } from "./colour";
import type { ImageAbout } from "./data";
import type { Head } from "./head";
import { legend, legendStyle } from "./legend";
import { inBoxes, patchAt, patchOf, shareOf, tokenOf } from "./patches";
import { columnName, rowName } from "./token_names";
import { Component } from "./component";
import type { Store } from "./store";
import { FONT, inks, sharpen, theme } from "./theme";

/** Dark to amber: white would be lost on a bright image. */
const GLOW = ["#0d0e12", "#3a2410", "#7a4508", "#c97406", "#ff9d0a", "#ffac1f"];

export class RegardImage extends Component {
  static override properties = {
    ...Component.properties, scale: { state: true }, opacity: { state: true }, smooth: { state: true }, marks: { state: true },
    direction: { state: true }, head: { state: true }, ready: { state: true },
  };
  declare scale: Scale;
  declare opacity: number;
  declare smooth: boolean;
  declare marks: boolean; // boxes and fixations
  declare direction: "row" | "column"; // "row": attention of the selected query; "column": attention received by the selected patch
  declare head: Head | null;
  declare ready: boolean;
  private picture: HTMLImageElement | null = null;
  private box = { x: 0, y: 0, scale: 1 };
  private requestId = 0;

  constructor() {
    super();
    this.scale = "linear";
    this.opacity = 0.65;
    this.smooth = false;
    this.marks = true;
    this.direction = "row";
    this.head = null;
    this.ready = false;
  }

  static override styles = [theme, legendStyle, css`
    canvas { cursor: crosshair; touch-action: none; } .tokens { display: inline-flex; flex-wrap: wrap; gap: 0.25rem; } .tokens button { padding: 0.1rem 0.45rem; font-size: 0.85rem; }
    .readout { height: 1.5em; margin: 0 0 0.35rem; font-size: 0.95rem; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; } .readout b { color: var(--glow); font-variant-numeric: tabular-nums; }
    .note { color: var(--soft); font-size: 0.85rem; margin: 0.35rem 0 0; } input[type="range"] { width: 6rem; }
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
    const { data } = this.store!;
    const image = data.about.image;
    if (!image) return;
    const found = await this.store!.head();
    await found.settled;
    if (!this.picture) {
      const picture = new Image();
      picture.src = data.png(image);
      await picture.decode();
      this.picture = picture;
    }
    if (request === this.requestId) this.head = found;
  }

  private get image(): ImageAbout {
    return this.store!.data.about.image!;
  }

  /** Whether the columns of this site cover the patches, and whether its rows are the same tokens. */
  private fits(): { columns: boolean; rows: boolean } {
    const { n, m } = this.store!.site;
    const least = this.image.skip + this.image.grid[0] * this.image.grid[1];
    return { columns: m >= least, rows: n >= least && n === m };
  }

  private weights(): Float32Array {
    const { row, column } = this.store!.choice;
    return this.direction === "row" ? this.head!.row(row) : this.head!.column(column);
  }

  protected draw(): void {
    const { head, picture } = this;
    const site = this.store!.site;
    if (!head || !picture || head.n !== site.n || head.m !== site.m || !this.fits().columns || !this.renderRoot.querySelector("canvas")) return;
    const { image } = this;
    const width = Math.floor(this.clientWidth);
    const scale = Math.min(width / image.width, Math.max(240, innerHeight * 0.6) / image.height);
    const box = { x: Math.round((width - image.width * scale) / 2), y: 0, scale };
    this.box = box;
    const context = sharpen(this.canvas(), width, Math.ceil(image.height * scale));
    context.imageSmoothingEnabled = scale * (image.width / picture.naturalWidth) < 1;
    context.drawImage(picture, box.x, box.y, image.width * scale, image.height * scale);
    context.save();
    context.translate(box.x, box.y);
    context.scale(scale, scale);
    this.shadeUncovered(context);
    this.paintWeights(context);
    if (this.marks) this.annotate(context);
    this.cursor(context);
    context.restore();
    this.ready = true;
  }

  /** Grey out the pixels that no patch covers. */
  private shadeUncovered(context: CanvasRenderingContext2D): void {
    const { width, height, grid, patch } = this.image;
    const [right, lower] = [grid[1] * patch[1], grid[0] * patch[0]];
    context.fillStyle = "rgba(90, 90, 96, 0.8)";
    if (right < width - 0.01) context.fillRect(right, 0, width - right, height);
    if (lower < height - 0.01) context.fillRect(0, lower, right, height - lower);
  }

  /** One pixel per patch, scaled up: nearest neighbour unless interpolation is on. Small weights darken the image less opaquely. */
  private paintWeights(context: CanvasRenderingContext2D): void {
    const { grid, patch, skip } = this.image;
    const [rows, columns] = grid;
    const weights = this.weights();
    const top = this.top(weights);
    const small = document.createElement("canvas");
    [small.width, small.height] = [columns, rows];
    const inner = small.getContext("2d")!;
    const data = inner.createImageData(columns, rows);
    const colours = palette(GLOW);
    const pixels = new Uint32Array(data.data.buffer);
    for (let x = 0; x < rows * columns; x++) {
      const share = place(Math.abs(weights[skip + x]), top, this.scale);
      const colour = colours[Math.round(255 * share)];
      pixels[x] = (colour & 0xffffff) | (Math.round(255 * this.opacity * (0.55 + 0.45 * share)) << 24); // the image is dark where the weight is small
    }
    inner.putImageData(data, 0, 0);
    context.save();
    context.imageSmoothingEnabled = this.smooth;
    context.imageSmoothingQuality = "high";
    context.drawImage(small, 0, 0, columns * patch[1], rows * patch[0]);
    context.restore();
  }

  private top(weights: Float32Array): number {
    const { grid, skip } = this.image;
    let top = 0;
    for (let x = skip; x < skip + grid[0] * grid[1]; x++) top = Math.max(top, Math.abs(weights[x]));
    return top || 1;
  }

  private annotate(context: CanvasRenderingContext2D): void {
    const line = 1 / this.box.scale;
    context.font = `600 ${12 * line}px ${FONT}`;
    context.textBaseline = "bottom";
    for (const [left, upper, right, lower, name] of this.image.boxes as [number, number, number, number, string?][]) {
      context.lineWidth = 3 * line;
      context.strokeStyle = "#00000099";
      context.strokeRect(left, upper, right - left, lower - upper);
      context.lineWidth = 1.6 * line;
      context.strokeStyle = "#7ee0ff";
      context.strokeRect(left, upper, right - left, lower - upper);
      if (name) this.write(context, name, left, upper > 16 * line ? upper - 2 * line : upper + 16 * line, "#7ee0ff");
    }
    const { fixations } = this.image;
    context.strokeStyle = "#b8ff9e";
    context.lineWidth = 1.4 * line;
    context.beginPath();
    fixations.forEach(([x, y], at) => (at ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.stroke();
    fixations.forEach(([x, y, seconds], at) => {
      context.beginPath();
      context.arc(x, y, line * (seconds === undefined ? 6 : Math.max(4, Math.min(24, 14 * Math.sqrt(seconds)))), 0, 2 * Math.PI);
      context.fillStyle = "#b8ff9e55";
      context.fill();
      context.stroke();
      this.write(context, String(at + 1), x + 7 * line, y - 5 * line, "#b8ff9e");
    });
  }

  private write(context: CanvasRenderingContext2D, text: string, x: number, y: number, colour: string): void {
    context.strokeStyle = "#000000b0";
    context.lineWidth = 3 / this.box.scale;
    context.strokeText(text, x, y);
    context.fillStyle = colour;
    context.fillText(text, x, y);
    context.strokeStyle = colour;
    context.lineWidth = 1.4 / this.box.scale;
  }

  private cursor(context: CanvasRenderingContext2D): void {
    const { row, column } = this.store!.choice;
    const line = 1 / this.box.scale;
    const frame = (token: number, colour: string, width: number) => {
      const at = patchOf(this.image, token);
      if (!at) return;
      const [tall, wide] = this.image.patch;
      context.strokeStyle = "#000000a0";
      context.lineWidth = (width + 1.6) * line;
      context.strokeRect(at.c * wide, at.r * tall, wide, tall);
      context.strokeStyle = colour;
      context.lineWidth = width * line;
      context.strokeRect(at.c * wide, at.r * tall, wide, tall);
    };
    frame(column, "#ffffff", this.direction === "row" ? 1.4 : 2.6);
    if (this.fits().rows) frame(row, inks(this).mark, this.direction === "row" ? 2.6 : 1.4);
  }

  private at(event: MouseEvent): number | null {
    const box = this.canvas().getBoundingClientRect();
    return patchAt(this.image, (event.clientX - box.left - this.box.x) / this.box.scale, (event.clientY - box.top - this.box.y) / this.box.scale);
  }

  private readonly onMove = (event: PointerEvent): void => {
    const token = this.at(event);
    if (token === null) return;
    if (this.direction === "row") this.store!.choose({ column: token });
    else if (this.fits().rows) this.store!.choose({ row: token });
  };

  private select(token: number): void {
    if (this.direction === "column" || !this.fits().rows) this.store!.choose({ column: token, pinned: true });
    else this.store!.choose({ row: token, pinned: true });
  }

  private readonly onKey = (event: KeyboardEvent): void => {
    const { row, column, head, site } = this.store!.choice;
    const { grid, skip } = this.image;
    const pointed = this.direction === "row" || !this.fits().rows ? column : row;
    const at = patchOf(this.image, pointed) ?? { r: 0, c: 0 };
    const move = (dr: number, dc: number) => {
      const token = tokenOf(this.image, Math.max(0, Math.min(grid[0] - 1, at.r + dr)), Math.max(0, Math.min(grid[1] - 1, at.c + dc)));
      this.store!.choose(pointed === column ? { column: token, pinned: true } : { row: token, pinned: true });
    };
    const moves: Record<string, () => void> = {
      ArrowUp: () => move(-1, 0), ArrowDown: () => move(1, 0), ArrowLeft: () => move(0, -1), ArrowRight: () => move(0, 1),
      Enter: () => this.select(pointed), Home: () => this.select(skip > 0 ? 0 : skip), Escape: () => this.store!.choose({ pinned: false }),
      h: () => this.store!.choose({ head: head + 1 }), H: () => this.store!.choose({ head: head - 1 }),
      l: () => this.store!.choose({ site: site + 1 }), L: () => this.store!.choose({ site: site - 1 }),
    };
    if (!moves[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    moves[event.key]();
  };

  private name(token: number, row: boolean): string {
    const site = this.store!.site;
    const at = row && !this.fits().rows ? null : patchOf(this.image, token);
    if (at) return `patch ${at.r + 1}, ${at.c + 1}`;
    const name = row ? rowName(site, token) : columnName(site, token);
    return name === String(token) ? `token ${token}` : name;
  }

  protected override render() {
    const { store, head } = this;
    const image = store?.data.about.image;
    if (!store || !image) return html`<p class="note">This page contains no image.</p>`;
    const fits = this.fits();
    if (!fits.columns) return html`<p class="note">This site has ${store.site.m} columns, fewer than the image's ${image.grid[0]} × ${image.grid[1]} patches.</p>`;
    if (!head || head.n !== store.site.n || head.m !== store.site.m) return html`<p class="note">…</p><canvas hidden></canvas>`;
    const { row, column } = store.choice;
    const weights = this.weights();
    const top = this.top(weights);
    const share = shareOf(image, weights);
    const others = image.skip + Math.max(0, weights.length - image.skip - image.grid[0] * image.grid[1]);
    const total = Math.abs(share.total) || 1;
    const percent = (x: number) => `${(100 * x).toFixed(1)} %`;
    const boxes = image.boxes.length && this.direction === "row" ? inBoxes(image, weights) : null;
    const w = head.weight(row, column);
    const said = `${this.name(row, true)} attends to ${this.name(column, false)}:`;
    const pick = (e: Event) => (e.target as HTMLSelectElement).value;
    const check = (e: Event) => (e.target as HTMLInputElement).checked;
    return html`
      <div class="bar">
        ${fits.rows ? html`<label>Show <select aria-label="What is shown" @change=${(e: Event) => (this.direction = pick(e) as "row" | "column")}>
          <option value="row">attention of the selected query</option><option value="column">attention received by the selected patch</option></select></label>` : nothing}
        ${fits.rows && image.skip > 0 && image.skip <= 12 && this.direction === "row" ? html`<span class="tokens">${Array.from({ length: image.skip }, (_, t) => html`<button aria-pressed=${t === row} @click=${() => store.choose({ row: t, pinned: true })}>${this.name(t, true)}</button>`)}</span>` : nothing}
        <label>Colour scale <select aria-label="Colour scale" @change=${(e: Event) => (this.scale = pick(e) as Scale)}>${SCALES.map((s) => html`<option value=${s.value} ?selected=${s.value === this.scale}>${s.label}</option>`)}</select></label>
        <label>Opacity <input type="range" min="0" max="1" step="0.05" .value=${String(this.opacity)} aria-label="Opacity of the weights over the image" @input=${(e: Event) => (this.opacity = Number((e.target as HTMLInputElement).value))}></label>
        <label title="Weights exist per patch only: interpolation invents values between them"><input type="checkbox" .checked=${this.smooth} @change=${(e: Event) => (this.smooth = check(e))}> interpolate</label>
        ${image.boxes.length || image.fixations.length ? html`<label><input type="checkbox" .checked=${this.marks} @change=${(e: Event) => (this.marks = check(e))}> ${[image.boxes.length ? "boxes" : "", image.fixations.length ? "fixations" : ""].filter(Boolean).join(" and ")}</label>` : nothing}
        ${legend({ top, scale: this.scale, ramp: GLOW, what: "weight" })}
      </div>
      <p class="readout">${said} <b>${w.exact ? "" : "≈ "}${written(w.value)}</b></p>
      <canvas tabindex="0" role="application" aria-label=${`Image of ${image.grid[0]} by ${image.grid[1]} patches. Arrow keys move over the patches, Enter selects one as the query, Home selects the first token.`}
        @pointermove=${this.onMove} @click=${(e: MouseEvent) => { const token = this.at(e); if (token !== null) this.select(token); }} @keydown=${this.onKey}></canvas>
      <p class="note">${image.grid[0]} × ${image.grid[1]} patches of ${tidy(image.patch[0])} × ${tidy(image.patch[1])} pixels${this.smooth ? ", interpolated: only the patch centres are actual weights" : ""}.
        ${others && this.direction === "row" ? html`${percent(share.patches / total)} of the row falls on patches, ${percent(1 - share.patches / total)} on ${others === 1 ? "the one non-patch token" : `the ${others} non-patch tokens`}.` : nothing}
        ${boxes ? html`${percent(boxes.mass)} of the weight on patches falls inside the boxes, which cover ${percent(boxes.area)} of the patch area.` : nothing}
        ${image.said ? html`Displayed: ${image.said}.` : nothing}</p>
      <span class="quiet" aria-live="polite">${store.choice.pinned ? `${said} ${written(w.value)}` : ""}</span>`;
  }
}

function tidy(x: number): string {
  return Number.isInteger(x) ? String(x) : x.toFixed(1);
}
