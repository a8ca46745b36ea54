/** <regard-map>: one head as a picture, from the whole map to single weights. */

import { css, html, type PropertyValues } from "lit";
import { COLD, palette, RAMPS, SCALES, type Scale } from "./colour";
import type { DifferenceHead } from "./difference";
import { furnish, hatch, margins, type Frame } from "./furniture";
import { Gestures } from "./gestures";
import type { Head } from "./head";
import { PLACES, keys } from "./keys";
import { clamped, fit, limited, revealing, zoomed, type View } from "./layout";
import { legend, legendStyle } from "./legend";
import { levelFor, massThresholds } from "./levels";
import { paint, topInSight, topOf, type Shows } from "./picture";
import { Part } from "./part";
import { fileName, savePicture, saveText } from "./saving";
import { sentence } from "./sentence";
import type { Choice } from "./store";
import { inWindow, MOST, table } from "./table";
import { inks, isDark, sharpen, theme } from "./theme";

type Sink = "none" | "first" | "chosen";

export class RegardMap extends Part {
  static override properties = {
    ...Part.properties, scale: { state: true }, shows: { state: true }, sink: { state: true }, mass: { state: true },
    local: { state: true }, size: { state: true }, top: { state: true }, ready: { state: true }, note: { state: true },
  };
  declare scale: Scale;
  declare shows: Shows;
  declare sink: Sink;
  declare mass: number;
  declare local: boolean; // the darkest colour is the largest weight in sight, not of the head
  declare size: number; // weights along a cell that is drawn
  declare top: number;
  declare ready: boolean;
  declare note: string; // what could not be saved, and why

  private head: Head | null = null;
  private both: DifferenceHead | null = null; // where two maps stand beside each other
  private view: View = { x: 0, y: 0, scale: 0, tall: 1 };
  private frameBox: Frame = { left: 0, upper: 0, width: 1, height: 1, right: 0, lower: 0, tall: 1 };
  private picture = document.createElement("canvas");
  private stale = true;
  private least: { head: Head; mass: number; of: Float32Array } | null = null;
  private gestures = new Gestures(
    (event) => this.spot(event), () => this.view,
    (scale) => limited(scale, this.store!.site.n, this.store!.site.m, this.frameBox, this.view.tall),
    (view) => this.look(view), (event) => this.hold(event),
  );
  private lines: { key: string; row: Float32Array; column: Float32Array } | null = null;
  private asked = 0;

  constructor() {
    super();
    this.scale = "root";
    this.shows = "peak";
    this.sink = "none";
    this.mass = 1;
    this.local = false;
    this.size = 1;
    this.top = 1;
    this.ready = false;
    this.note = "";
  }

  static override styles = [theme, legendStyle, css`
    :host { position: relative; }
    .plot { position: relative; } canvas { touch-action: none; cursor: crosshair; border-radius: 0.4rem; }
    .here { min-height: 1.5em; margin: 0 0 0.35rem; font-size: 0.95rem; overflow-wrap: anywhere; }
    .here.two { min-height: 2.9em; } .here b { color: var(--glow); font-variant-numeric: tabular-nums; font-size: 1.05rem; }
    .here small, .note { color: var(--soft); }
    input[type="range"] { width: 6.5rem; } .note { font-size: 0.8rem; margin: 0.35rem 0 0; }
  `];

  protected begun(): void {
    this.loading = this.load(true);
  }

  protected chosen(before: Choice): void {
    if (this.another(before)) {
      const [a, b] = [this.store!.data.sites[before.site], this.store!.site];
      this.loading = this.load(a.n !== b.n || a.m !== b.m);
    } else {
      if (this.sink === "chosen" && this.wide() >= 0) this.stale = true;
      this.requestUpdate();
    }
  }

  private wide(): number {
    return this.sink === "none" ? -1 : this.sink === "first" ? 0 : this.store!.choice.column;
  }

  private async load(whole: boolean): Promise<void> {
    const ask = ++this.asked;
    const { site, head } = this.store!.choice;
    const found = await this.store!.head();
    const both = this.store!.site.beside ? ((await this.store!.data.head(site, head, "difference")) as DifferenceHead) : null;
    if (ask !== this.asked) return;
    this.head = found;
    this.both = both;
    this.lines = null;
    if (whole) this.view = { x: 0, y: 0, scale: 0, tall: 1 };
    this.redraw();
    await Promise.all([found.settled, both?.settled]);
    if (this.head === found && found.dense === null) {
      this.lines = null;
      this.redraw();
    }
  }

  private redraw(): void {
    this.stale = true;
    this.requestUpdate();
    this.later();
  }

  protected override willUpdate(changed: PropertyValues): void {
    for (const name of ["scale", "shows", "sink", "mass", "local"]) if (changed.has(name)) this.stale = true;
    if (changed.has("store")) this.head = this.both = null; // they were another store's
  }

  protected draw(): void {
    const { head, store } = this;
    if (!head || !store) return;
    if (head.n * head.m === 0) return void (this.ready = true);
    const canvas = this.canvas();
    const width = Math.floor(this.clientWidth);
    const frame = margins(store.site, width, Math.max(260, innerHeight * 0.68));
    const box = { width: frame.width, height: frame.height };
    if (frame.width !== this.frameBox.width || frame.height !== this.frameBox.height) this.stale = true;
    this.frameBox = frame;
    const whole = this.view.scale <= fit(head.n, head.m, box, frame.tall);
    this.view = clamped({ ...(whole ? { x: 0, y: 0, scale: 0 } : this.view), tall: frame.tall }, head.n, head.m, box);
    const colours = inks(this);
    if (this.stale) this.repaint(head, frame);
    const context = sharpen(canvas, width, frame.upper + frame.height + frame.lower);
    const { row, column, side } = store.choice;
    const key = `${store.choice.site}.${store.choice.head}.${row}.${column}.${side}`;
    if (this.lines?.key !== key) this.lines = { key, row: head.row(row), column: head.column(column) };
    canvas.style.touchAction = whole ? "pan-y" : "none"; // a finger on the whole map scrolls the page
    if (head.restricted) hatch(context, { frame, view: this.view, site: store.site, inks: colours });
    context.imageSmoothingEnabled = false;
    context.drawImage(this.picture, frame.left, frame.upper, frame.width, frame.height);
    furnish(context, { frame, view: this.view, site: store.site, inks: colours, row, column, lines: this.lines,
      locked: store.choice.locked, skipped: this.wide(), top: this.top, scale: this.scale, head, focused: this.shadowRoot!.activeElement === canvas });
    this.ready = true; // the first picture stands
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
    const skip = this.wide();
    const without = skip < 0 ? null : skip;
    const seen = this.local ? topInSight(head, this.view, frame.width, frame.height, per, this.shows, without) : 0;
    this.top = seen || topOf(head, level, this.shows, without);
    if (this.mass < 1 && head.dense && (this.least?.head !== head || this.least.mass !== this.mass))
      this.least = { head, mass: this.mass, of: massThresholds(head.dense, head.n, head.m, this.mass) };
    const context = this.picture.getContext("2d")!;
    const image = context.createImageData(w, h);
    const drawn = paint(image, head, this.view, ratio, {
      scale: this.scale, shows: this.shows, top: this.top, colours: palette(isDark() ? RAMPS.dark : RAMPS.light),
      cold: palette(isDark() ? COLD.dark : COLD.light),
      least: this.mass < 1 && head.dense ? this.least!.of : null,
    });
    context.putImageData(image, 0, 0);
    this.size = drawn.size;
    this.stale = drawn.waiting;
    if (drawn.waiting) this.later();
  }

  private spot(event: MouseEvent): { x: number; y: number } {
    const box = this.canvas().getBoundingClientRect();
    return { x: event.clientX - box.left - this.frameBox.left, y: event.clientY - box.top - this.frameBox.upper };
  }

  private at(event: MouseEvent): { i: number; j: number; x: number; y: number } | null {
    const { x, y } = this.spot(event);
    const j = Math.floor(this.view.x + x / this.view.scale);
    const i = Math.floor(this.view.y + y / this.view.scale / this.view.tall);
    const inside = x >= 0 && y >= 0 && x < this.frameBox.width && y < this.frameBox.height;
    return inside && i >= 0 && j >= 0 && i < this.store!.site.n && j < this.store!.site.m ? { i, j, x, y } : null;
  }

  private readonly onMove = (event: PointerEvent): void => {
    if (this.gestures.busy) return this.gestures.move(event);
    const here = this.at(event);
    if (here && !this.store!.choice.locked) this.store!.choose({ row: here.i, column: here.j });
  };

  private hold(event: PointerEvent): void {
    const here = this.at(event);
    if (!here) return;
    const { locked, row, column } = this.store!.choice;
    const same = row === here.i && column === here.j;
    this.store!.choose({ row: here.i, column: here.j, locked: !(locked && same) });
  }

  private readonly onWheel = (event: WheelEvent): void => {
    const here = this.at(event);
    const whole = this.view.scale <= fit(this.store!.site.n, this.store!.site.m, this.frameBox, this.view.tall) * 1.001;
    if (!here || (whole && event.deltaY > 0)) return; // nothing farther away: the page scrolls
    event.preventDefault();
    this.look(this.closer(this.view, Math.exp(-event.deltaY * (event.deltaMode ? 0.06 : 0.002)), here.x, here.y));
  };

  private look(view: View): void {
    this.view = clamped(view, this.store!.site.n, this.store!.site.m, this.frameBox);
    this.stale = true;
    this.later();
  }

  /** Closer to, or away from, the chosen weight. */
  private zoom(factor: number): void {
    const { row, column } = this.store!.choice;
    const seen = revealing(this.view, row, column, this.frameBox);
    const px = (column + 0.5 - seen.x) * seen.scale;
    const py = (row + 0.5 - seen.y) * seen.scale * seen.tall;
    this.look(factor === 0 ? { x: 0, y: 0, scale: 0, tall: this.view.tall } : this.closer(seen, factor, px, py));
  }

  private closer(view: View, factor: number, px: number, py: number): View {
    const { n, m } = this.store!.site;
    return zoomed(view, limited(view.scale * factor, n, m, this.frameBox, view.tall) / view.scale, px, py);
  }

  private readonly onKey = (event: KeyboardEvent): void => {
    const moves = keys(this.store!, event.shiftKey ? 10 : 1, (factor) => this.zoom(factor));
    const move = moves[event.key];
    if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    move();
    if (!PLACES.has(event.key)) return;
    const { row, column } = this.store!.choice;
    this.store!.choose({ locked: true }); // neither the pointer, resting on the map, nor a page that opens takes it away
    this.look(revealing(this.view, row, column, this.frameBox));
  };

  private readonly saveTable = (): void => {
    const { head, store } = this;
    if (!head?.single || !store) return void (this.note = "This page has no single weights of this map.");
    const range = inWindow(this.view, this.frameBox, head.n, head.m);
    const count = (range.i1 - range.i0) * (range.j1 - range.j0);
    this.note = count > MOST ? `${count.toLocaleString("en")} weights are in sight, a table has ${MOST.toLocaleString("en")}: zoom in.` : "";
    if (this.note) return;
    const made = table(store.site, head, this.both, store.data.about.beside?.names ?? [], range);
    saveText(made, "text/csv", fileName(store, "map", "csv"));
  };

  protected override firstUpdated(): void {
    this.canvas().addEventListener("wheel", this.onWheel, { passive: false });
  }

  protected override render() {
    if (!this.store) return html`<p class="note">No maps yet.</p>`;
    const said = sentence(this.store, this.head, this.both);
    const dense = this.head?.dense !== null;
    const { side } = this.store.choice;
    const pair = this.store.data.about.beside?.names;
    const differs = side === "difference";
    return html`
      <div class="bar">
        <label>Colour <select aria-label="Colour scale" @change=${(e: Event) => (this.scale = (e.target as HTMLSelectElement).value as Scale)}>
          ${SCALES.map((s) => html`<option value=${s.value} ?selected=${s.value === this.scale}>${s.label}</option>`)}</select></label>
        <label>Left out of the scale <select aria-label="Column left out of the colour scale" @change=${(e: Event) => (this.sink = (e.target as HTMLSelectElement).value as Sink)}>
          <option value="none">nothing</option><option value="first">first column</option><option value="chosen">chosen column</option></select></label>
        <label>A cell shows <select aria-label="What a cell of several weights shows" @change=${(e: Event) => (this.shows = (e.target as HTMLSelectElement).value as Shows)}>
          <option value="peak">its largest</option><option value="mean">its mean</option></select></label>
        <label title=${dense ? "The largest weights of each row that make up this share of it" : "For maps of up to a million weights"}>Mass
          <input type="range" min="0.5" max="1" step="0.01" .value=${String(this.mass)} ?disabled=${!dense} aria-label="Share of each row's mass that is drawn"
            @input=${(e: Event) => (this.mass = Number((e.target as HTMLInputElement).value))}> ${Math.round(100 * this.mass)} %</label>
        <label title="The darkest colour is the largest weight in sight, not of the whole head"><input type="checkbox" .checked=${this.local}
          @change=${(e: Event) => (this.local = (e.target as HTMLInputElement).checked)}> scale to what is in sight</label>
        ${this.saver({ PNG: () => savePicture(this.canvas(), inks(this).raised, fileName(this.store!, "map", "png")), CSV: this.saveTable }, "what is in sight")}
        <span><button aria-label="Zoom out" @click=${() => this.zoom(1 / 1.6)}>−</button>
          <button aria-label="Zoom in" @click=${() => this.zoom(1.6)}>+</button>
          <button @click=${() => this.zoom(0)}>Whole</button></span>
        ${legend({ top: this.top, scale: this.scale, shows: this.shows, size: this.size, beyond: this.wide() >= 0,
          below: differs || (this.head?.levels.at(-1)!.peak.some((x) => x < 0) ?? false), restricted: this.head?.restricted ?? false,
          what: pair ? (differs ? `${pair[0]} − ${pair[1]}` : `weight in ${side === "this" ? pair[0] : pair[1]}`) : "weight",
          shut: pair ? "may not meet, or no such token" : "may not meet" })}
      </div>
      <p class=${pair ? "here two" : "here"}>${said.before} <b>${said.value}</b> <small>${said.after}${this.store.choice.locked ? " · held (Esc lets go)" : ""}</small></p>
      <div class="plot"><canvas tabindex="0" role="application"
        aria-label="Heat map of attention: rows attend, columns are attended. Arrows move, plus and minus zoom, Enter goes to a single weight, 0 shows the whole."
        @pointermove=${this.onMove} @pointerdown=${this.gestures.down} @pointerup=${this.gestures.up} @pointercancel=${this.gestures.up} @keydown=${this.onKey}
        @focus=${() => this.later()} @blur=${() => this.later()}></canvas></div>
      ${this.note ? html`<p class="note" role="status">${this.note}</p>` : ""}
      <span class="quiet" aria-live="polite">${this.store.choice.locked ? `${said.before} ${said.value} ${said.after}` : ""}</span>`;
  }
}
