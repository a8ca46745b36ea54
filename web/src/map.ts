/** <regard-map>: heat map of one head, from the whole map down to single weights. */

import { css, html, type PropertyValues } from "lit";
import { COLD, palette, RAMPS, SCALES, type Scale } from "./colour";
import type { DifferenceHead } from "./difference";
import { drawAxes, hatch, margins, type Frame } from "./axes";
import { Gestures } from "./gestures";
import type { Head } from "./head";
import { NAVIGATION_KEYS, keys } from "./keys";
import { clamped, fit, limited, revealing, zoomed, type View } from "./layout";
import { legend, legendStyle } from "./legend";
import { levelFor, massThresholds } from "./levels";
import { paint, topVisible, topOf, type CellValue } from "./raster";
import { Component } from "./component";
import { fileName, savePicture, saveText } from "./saving";
import { readout } from "./readout";
import type { Choice } from "./store";
import { inWindow, MOST, table } from "./table";
import { inks, isDark, sharpen, theme } from "./theme";

type Sink = "none" | "first" | "chosen";

export class RegardMap extends Component {
  static override properties = {
    ...Component.properties, scale: { state: true }, cellValue: { state: true }, sink: { state: true }, mass: { state: true },
    scaleToVisible: { state: true }, size: { state: true }, top: { state: true }, ready: { state: true }, note: { state: true },
  };
  declare scale: Scale;
  declare cellValue: CellValue;
  declare sink: Sink;
  declare mass: number;
  declare scaleToVisible: boolean; // colours are normalised by the largest visible weight, not by that of the head
  declare size: number; // weights along the side of a drawn cell
  declare top: number;
  declare ready: boolean;
  declare note: string; // why nothing was saved

  private head: Head | null = null;
  private wholeScale = 0; // at which the whole map was drawn last
  private difference: DifferenceHead | null = null; // when two maps are compared
  private view: View = { x: 0, y: 0, scale: 0, tall: 1 };
  private frameBox: Frame = { left: 0, upper: 0, width: 1, height: 1, right: 0, lower: 0, tall: 1 };
  private picture = document.createElement("canvas");
  private stale = true;
  private least: { head: Head; mass: number; of: Float32Array } | null = null;
  private gestures = new Gestures(
    (event) => this.position(event), () => this.view,
    (scale) => limited(scale, this.store!.site.n, this.store!.site.m, this.frameBox, this.view.tall),
    (view) => this.setView(view), (event) => this.pin(event),
  );
  private lines: { key: string; row: Float32Array; column: Float32Array } | null = null;
  private requestId = 0;

  constructor() {
    super();
    this.scale = "root";
    this.cellValue = "peak";
    this.sink = "none";
    this.mass = 1;
    this.scaleToVisible = false;
    this.size = 1;
    this.top = 1;
    this.ready = false;
    this.note = "";
  }

  static override styles = [theme, legendStyle, css`
    :host { position: relative; } .bar > .legend:has(.ramp) { min-width: min(30rem, 100%); } /* fixed width: its text never reflows the map */
    .plot { position: relative; } canvas { touch-action: none; cursor: crosshair; border-radius: 0.4rem; }
    .readout { min-height: 1.5em; margin: 0 0 0.35rem; font-size: 0.95rem; overflow-wrap: anywhere; }
    .readout.two { min-height: 2.9em; } .readout b { color: var(--glow); font-variant-numeric: tabular-nums; font-size: 1.05rem; }
    .readout small, .note { color: var(--soft); }
    input[type="range"] { width: 6.5rem; } .note { font-size: 0.8rem; margin: 0.35rem 0 0; }
  `];

  protected storeChanged(): void {
    this.loading = this.load(true);
  }

  protected choiceChanged(before: Choice): void {
    if (this.mapChanged(before)) {
      const [a, b] = [this.store!.data.sites[before.site], this.store!.site];
      this.loading = this.load(a.n !== b.n || a.m !== b.m);
    } else {
      if (this.sink === "chosen" && this.excludedColumn() >= 0) this.stale = true;
      this.requestUpdate();
    }
  }

  private excludedColumn(): number {
    return this.sink === "none" ? -1 : this.sink === "first" ? 0 : this.store!.choice.column;
  }

  private async load(whole: boolean): Promise<void> {
    const request = ++this.requestId;
    const found = await this.store!.head();
    const difference = await this.store!.difference();
    if (request !== this.requestId) return;
    this.head = found;
    this.difference = difference;
    this.lines = null;
    if (whole) this.view = { x: 0, y: 0, scale: 0, tall: 1 };
    this.redraw();
    await Promise.all([found.settled, difference?.settled]);
    if (this.head === found && found.dense === null) {
      this.lines = null;
      this.redraw();
    }
  }

  /** The height at which the map ends at the lower edge of a window that is not scrolled, unless little is left there. */
  private roomBelow(canvas: HTMLCanvasElement): number {
    const room = innerHeight - (canvas.getBoundingClientRect().top + scrollY) - 24;
    return Math.max(260, room > 0.4 * innerHeight ? Math.min(room, 0.85 * innerHeight) : 0.68 * innerHeight);
  }

  private redraw(): void {
    this.stale = true;
    this.requestUpdate();
    this.scheduleDraw();
  }

  protected override willUpdate(changed: PropertyValues): void {
    for (const name of ["scale", "cellValue", "sink", "mass", "scaleToVisible"]) if (changed.has(name)) this.stale = true;
    if (changed.has("store")) this.head = this.difference = null; // they belong to the previous store
  }

  protected draw(): void {
    const { head, store } = this;
    if (!head || !store) return;
    if (head.n * head.m === 0) return void (this.ready = true);
    const canvas = this.canvas();
    const width = Math.floor(this.clientWidth);
    const frame = margins(store.site, width, this.roomBelow(canvas));
    const box = { width: frame.width, height: frame.height };
    if (frame.width !== this.frameBox.width || frame.height !== this.frameBox.height) this.stale = true;
    this.frameBox = frame;
    const fitting = fit(head.n, head.m, box, frame.tall);
    const whole = this.view.scale <= fitting || this.view.scale === this.wholeScale; // also where less room is left than before
    this.view = clamped({ ...(whole ? { x: 0, y: 0, scale: 0 } : this.view), tall: frame.tall }, head.n, head.m, box);
    this.wholeScale = whole ? this.view.scale : 0;
    const colours = inks(this);
    if (this.stale) this.repaint(head, frame);
    const context = sharpen(canvas, width, frame.upper + frame.height + frame.lower);
    const { row, column, side, against } = store.choice;
    const key = [store.choice.site, store.choice.head, row, column, side, against?.site, against?.head].join(".");
    if (this.lines?.key !== key) this.lines = { key, row: head.row(row), column: head.column(column) };
    canvas.style.touchAction = whole ? "pan-y" : "none"; // unzoomed, one finger scrolls the page
    if (head.restricted) hatch(context, { frame, view: this.view, site: store.site, inks: colours });
    context.imageSmoothingEnabled = false;
    context.drawImage(this.picture, frame.left, frame.upper, frame.width, frame.height);
    drawAxes(context, { frame, view: this.view, site: store.site, inks: colours, row, column, lines: this.lines,
      pinned: store.choice.pinned, excluded: this.excludedColumn(), top: this.top, scale: this.scale, head, focused: this.shadowRoot!.activeElement === canvas });
    this.ready = true; // the first frame is drawn
  }

  private repaint(head: Head, frame: Frame): void {
    const ratio = devicePixelRatio || 1;
    const w = Math.max(1, Math.round(frame.width * ratio));
    const h = Math.max(1, Math.round(frame.height * ratio));
    if (this.picture.width !== w || this.picture.height !== h) {
      this.picture.width = w;
      this.picture.height = h;
    }
    const per = this.view.scale * ratio * Math.min(1, this.view.tall);
    const level = levelFor(head.levels, per);
    const skip = this.excludedColumn();
    const without = skip < 0 ? null : skip;
    const visible = this.scaleToVisible ? topVisible(head, this.view, frame.width, frame.height, per, this.cellValue, without) : 0;
    this.top = visible || topOf(head, level, this.cellValue, without);
    if (this.mass < 1 && head.dense && (this.least?.head !== head || this.least.mass !== this.mass))
      this.least = { head, mass: this.mass, of: massThresholds(head.dense, head.n, head.m, this.mass) };
    const context = this.picture.getContext("2d")!;
    const image = context.createImageData(w, h);
    const drawn = paint(image, head, this.view, ratio, {
      scale: this.scale, cellValue: this.cellValue, top: this.top, colours: palette(isDark() ? RAMPS.dark : RAMPS.light),
      cold: palette(isDark() ? COLD.dark : COLD.light),
      least: this.mass < 1 && head.dense ? this.least!.of : null,
    });
    context.putImageData(image, 0, 0);
    this.size = drawn.size;
    this.stale = drawn.waiting;
    if (drawn.waiting) this.scheduleDraw();
  }

  private position(event: MouseEvent): { x: number; y: number } {
    const box = this.canvas().getBoundingClientRect();
    return { x: event.clientX - box.left - this.frameBox.left, y: event.clientY - box.top - this.frameBox.upper };
  }

  private at(event: MouseEvent): { i: number; j: number; x: number; y: number } | null {
    const { x, y } = this.position(event);
    const j = Math.floor(this.view.x + x / this.view.scale);
    const i = Math.floor(this.view.y + y / this.view.scale / this.view.tall);
    const inside = x >= 0 && y >= 0 && x < this.frameBox.width && y < this.frameBox.height;
    return inside && i >= 0 && j >= 0 && i < this.store!.site.n && j < this.store!.site.m ? { i, j, x, y } : null;
  }

  private readonly onMove = (event: PointerEvent): void => {
    if (this.gestures.busy) return this.gestures.move(event);
    const here = this.at(event);
    if (here && !this.store!.choice.pinned) this.store!.choose({ row: here.i, column: here.j });
  };

  private pin(event: PointerEvent): void {
    const here = this.at(event);
    if (!here) return;
    const { pinned, row, column } = this.store!.choice;
    const same = row === here.i && column === here.j;
    this.store!.choose({ row: here.i, column: here.j, pinned: !(pinned && same) });
  }

  private readonly onWheel = (event: WheelEvent): void => {
    const here = this.at(event);
    const whole = this.view.scale <= fit(this.store!.site.n, this.store!.site.m, this.frameBox, this.view.tall) * 1.001;
    if (!here || (whole && event.deltaY > 0)) return; // already zoomed out: scroll the page
    event.preventDefault();
    this.setView(this.zoomView(this.view, Math.exp(-event.deltaY * (event.deltaMode ? 0.06 : 0.002)), here.x, here.y));
  };

  private setView(view: View): void {
    this.view = clamped(view, this.store!.site.n, this.store!.site.m, this.frameBox);
    this.stale = true;
    this.scheduleDraw();
  }

  /** Zoom about the selected weight; factor 0 resets. */
  private zoom(factor: number): void {
    const { row, column } = this.store!.choice;
    const visible = revealing(this.view, row, column, this.frameBox);
    const px = (column + 0.5 - visible.x) * visible.scale;
    const py = (row + 0.5 - visible.y) * visible.scale * visible.tall;
    this.setView(factor === 0 ? { x: 0, y: 0, scale: 0, tall: this.view.tall } : this.zoomView(visible, factor, px, py));
  }

  private zoomView(view: View, factor: number, px: number, py: number): View {
    const { n, m } = this.store!.site;
    return zoomed(view, limited(view.scale * factor, n, m, this.frameBox, view.tall) / view.scale, px, py);
  }

  private readonly onKey = (event: KeyboardEvent): void => {
    const moves = keys(this.store!, event.shiftKey ? 10 : 1, (factor) => this.zoom(factor));
    const move = moves[event.key];
    if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    move();
    if (!NAVIGATION_KEYS.has(event.key)) return;
    const { row, column } = this.store!.choice;
    this.store!.choose({ pinned: true }); // so that neither a resting pointer nor the opening page moves it
    this.setView(revealing(this.view, row, column, this.frameBox));
  };

  private readonly saveTable = (): void => {
    const { head, store } = this;
    if (!head?.single || !store) return void (this.note = "This page does not carry the individual weights of this map: there is no CSV.");
    const range = inWindow(this.view, this.frameBox, head.n, head.m);
    const count = (range.i1 - range.i0) * (range.j1 - range.j0);
    this.note = count > MOST ? `${count.toLocaleString("en")} weights are visible, a CSV holds at most ${MOST.toLocaleString("en")}: zoom in.` : "";
    if (this.note) return;
    const made = table(store.site, head, this.difference, store.names ?? [], range);
    saveText(made, "text/csv", fileName(store, "map", "csv"));
  };

  protected override firstUpdated(): void {
    this.canvas().addEventListener("wheel", this.onWheel, { passive: false });
  }

  protected override render() {
    if (!this.store) return html`<p class="note">No maps yet.</p>`;
    const said = readout(this.store, this.head, this.difference);
    const dense = this.head?.dense !== null;
    const { side } = this.store.choice;
    const pair = this.store.names;
    const differs = side === "difference";
    return html`
      <div class="bar">
        <label>Colour scale <select aria-label="Colour scale" @change=${(e: Event) => (this.scale = (e.target as HTMLSelectElement).value as Scale)}>
          ${SCALES.map((s) => html`<option value=${s.value} ?selected=${s.value === this.scale}>${s.label}</option>`)}</select></label>
        <label title="A dominant column, often the first key (an attention sink), hides the rest of the map">Exclude from colours <select aria-label="Token excluded from the colours" @change=${(e: Event) => (this.sink = (e.target as HTMLSelectElement).value as Sink)}>
          <option value="none">nothing</option><option value="first">first token</option><option value="chosen">selected key</option></select></label>
        <label ?hidden=${this.size <= 1 && this.cellValue === "peak"} title="When a pixel covers several weights">Cell value <select aria-label="Value of a cell that covers several weights" @change=${(e: Event) => (this.cellValue = (e.target as HTMLSelectElement).value as CellValue)}>
          <option value="peak">maximum</option><option value="mean">mean</option></select></label>
        <label title=${dense ? "Draw only the largest weights of each row that add up to this share of it (top-p)" : "Only for maps of up to a million weights"}>Keep top % of each row
          <input type="range" min="0.5" max="1" step="0.01" .value=${String(this.mass)} ?disabled=${!dense} aria-label="Share of each row's weight that is drawn"
            @input=${(e: Event) => (this.mass = Number((e.target as HTMLInputElement).value))}> <span class="value">${Math.round(100 * this.mass)} %</span></label>
        <label title="Normalise colours by the largest visible weight instead of the largest of the head"><input type="checkbox" .checked=${this.scaleToVisible}
          @change=${(e: Event) => (this.scaleToVisible = (e.target as HTMLInputElement).checked)}> scale to visible range</label>
        ${this.saver({ PNG: () => savePicture(this.canvas(), inks(this).raised, fileName(this.store!, "map", "png")), CSV: this.saveTable }, "the visible part")}
        <span><button aria-label="Zoom out" @click=${() => this.zoom(1 / 1.6)}>−</button>
          <button aria-label="Zoom in" @click=${() => this.zoom(1.6)}>+</button>
          <button @click=${() => this.zoom(0)}>Reset zoom</button></span>
        ${legend({ top: this.top, scale: this.scale, cellValue: this.cellValue, size: this.size, clipped: this.excludedColumn() >= 0,
          below: differs || (this.head?.levels.at(-1)!.peak.some((x) => x < 0) ?? false), restricted: this.head?.restricted ?? false,
          what: pair ? (differs ? `${pair[0]} − ${pair[1]}` : `weight in ${side === "this" ? pair[0] : pair[1]}`) : "weight",
          masked: this.store.data.about.beside ? "masked, or token in one text only" : "masked" })}
      </div>
      <p class=${pair ? "readout two" : "readout"}>${said.before} <b>${said.value}</b> <small>${said.after}${this.store.choice.pinned ? " · pinned (Esc to unpin)" : ""}</small></p>
      <div class="plot"><canvas tabindex="0" role="application"
        aria-label="Attention heat map: rows are queries, columns are keys. Arrow keys move the selection, plus and minus zoom, Enter zooms to the selected weight, 0 resets the zoom."
        @pointermove=${this.onMove} @pointerdown=${this.gestures.down} @pointerup=${this.gestures.up} @pointercancel=${this.gestures.up} @keydown=${this.onKey}
        @focus=${() => this.scheduleDraw()} @blur=${() => this.scheduleDraw()}></canvas></div>
      ${this.note ? html`<p class="note" role="status">${this.note}</p>` : ""}
      <span class="quiet" aria-live="polite">${this.store.choice.pinned ? `${said.before} ${said.value} ${said.after}` : ""}</span>`;
  }
}
