/** <regard-steps>: attention at each step of a generation. */

import { css, html, nothing } from "lit";
import { written } from "./colour";
import type { SiteAbout } from "./data";
import { strongest } from "./layout";
import { columnName, same, shown, withIndex } from "./token_names";
import { Component } from "./component";
import { fileName, saveText } from "./saving";
import { largest, running, shade, shading } from "./shading";
import type { Choice } from "./store";
import { drawnText } from "./svg";
import { inks, theme } from "./theme";

const PACE = 800; // milliseconds per step while playing
const MOST = 800; // tokens rendered at a time

/** The generation step of a row, clamped to the steps there are. */
export function stepOf(steps: { first: number; written: unknown[] }, row: number): number {
  return Math.max(0, Math.min(steps.written.length - 1, row - steps.first));
}

export class RegardSteps extends Component {
  static override properties = { ...Component.properties, weights: { state: true }, mean: { state: true }, excludeFirst: { state: true }, playing: { state: true } };
  declare weights: Float32Array | null; // (n, m) of the head, or of the mean of heads
  declare mean: boolean;
  declare excludeFirst: boolean;
  declare playing: boolean;
  private requestId = 0;
  private clock = 0;

  constructor() {
    super();
    this.weights = null;
    this.mean = true;
    this.excludeFirst = true;
    this.playing = false;
  }

  static override styles = [theme, shading, css`
    .steps:focus-visible { outline-offset: 4px; border-radius: 0.3rem; } input[type="range"] { flex: 1; min-width: 8rem; }
    .bar .now { min-width: 12rem; font-variant-numeric: tabular-nums; } .now b { color: var(--glow); }
    .bar.best { flex-wrap: nowrap; margin: 0.35rem 0 0; color: var(--soft); font-size: 0.85rem; min-height: 1.4em; } .play { min-width: 4.6rem; }
    .written { border-top: 1px solid var(--line); margin-top: 0.5rem; padding-top: 0.4rem; }
  `];

  protected storeChanged(): void {
    this.loading = this.load();
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.play(false);
  }

  protected choiceChanged(before: Choice): void {
    if (this.mapChanged(before)) this.loading = this.load();
    else this.requestUpdate();
  }

  private async load(): Promise<void> {
    const request = ++this.requestId;
    const { site, store } = { site: this.store!.site, store: this.store! };
    if (!site.steps) return void (this.weights = null);
    const heads = this.mean ? Array.from({ length: site.heads }, (_, h) => h) : [store.choice.head];
    const made = new Float32Array(site.n * site.m);
    for (const h of heads) {
      const head = await store.head(h);
      if (request !== this.requestId) return;
      for (let i = site.steps.first; i < site.n; i++) head.row(i).forEach((w, j) => (made[i * site.m + j] += w / heads.length));
    }
    this.weights = made;
  }

  protected draw(): void {
    const now = this.renderRoot.querySelector<HTMLElement>("span.new");
    const box = now?.closest("p");
    if (now && box && now.offsetTop - box.offsetTop + now.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = now.offsetTop - box.offsetTop - box.clientHeight / 2;
  }

  private get step(): number {
    return stepOf(this.store!.site.steps!, this.store!.choice.row);
  }

  private go(step: number): void {
    const { first, written: names } = this.store!.site.steps!;
    this.store!.choose({ row: first + Math.max(0, Math.min(names.length - 1, step)), pinned: true });
  }

  private play(on: boolean): void {
    clearInterval(this.clock);
    this.playing = on;
    if (!on) return;
    const last = this.store!.site.steps!.written.length - 1;
    if (this.step === last || this.store!.choice.row < this.store!.site.steps!.first) this.go(0);
    this.clock = window.setInterval(() => {
      const steps = this.store?.site.steps;
      if (!steps || this.step >= steps.written.length - 1) return this.play(false);
      this.go(this.step + 1);
    }, PACE);
  }

  private readonly onKey = (event: KeyboardEvent): void => {
    const last = this.store!.site.steps!.written.length - 1;
    const to = ({ ArrowLeft: this.step - 1, ArrowRight: this.step + 1, Home: 0, End: last } as Record<string, number>)[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey || (to === undefined && event.key !== " ")) return;
    if (event.key === " " && (event.target as Element).closest("button, input, label")) return; // their own handling of the space bar
    event.preventDefault();
    if (to === undefined) return this.play(!this.playing);
    this.play(false);
    this.go(to);
  };

  protected override render() {
    const { store } = this;
    if (!store) return nothing;
    const { site } = store;
    const { steps } = site;
    if (!steps) return html`<small>This site was called once; the generation steps are at ${store.data.sites.filter((x) => x.steps).length} other sites.</small>`;
    const { step } = this;
    const name = steps.written[step];
    const check = (key: "mean" | "excludeFirst") => (e: Event) => {
      this[key] = (e.target as HTMLInputElement).checked;
      if (key === "mean") this.loading = this.load();
    };
    return html`<div class="steps" tabindex="0" role="group" aria-label="Generation, step by step: left and right move one step, space plays or pauses." @keydown=${this.onKey}>
      <div class="bar"><button class="play" aria-pressed=${this.playing} @click=${() => this.play(!this.playing)}>${this.playing ? "❚❚ Pause" : "▶ Play"}</button>
        <input type="range" min="0" max=${steps.written.length - 1} .value=${String(step)} aria-label="Step"
          @input=${(e: Event) => { this.play(false); this.go(Number((e.target as HTMLInputElement).value)); }}>
        <span class="now" aria-live="polite">step ${step + 1} of ${steps.written.length}: wrote <b>${name === null ? "…" : `“${shown(name)}”`}</b></span>
        <label><input type="checkbox" .checked=${this.mean} @change=${check("mean")}> mean over ${site.heads} heads</label>
        <label><input type="checkbox" .checked=${this.excludeFirst} @change=${check("excludeFirst")}> exclude first token</label></div>
      ${this.weights && this.weights.length === site.n * site.m ? this.text(site, step) : nothing}</div>`;
  }

  /** The context shaded by weight, the tokens generated so far, and later tokens faint. */
  private text(site: SiteAbout, step: number) {
    const { first, written: names } = site.steps!;
    const row = first + step;
    const weights = this.weights!.subarray(row * site.m, (row + 1) * site.m);
    const top = largest(weights, this.excludeFirst ? 1 : 0);
    const own = same(site); // decoder-only: generated tokens join the context
    const jump = (to: number) => () => { this.play(false); this.go(to); };
    const columns = site.columns ?? Array.from({ length: site.m }, (_, j) => String(j));
    const from = Math.max(0, Math.min(site.m - MOST, (own ? row : 0) - MOST / 2));
    const best = strongest(weights, 1, 6).reverse().filter(({ j }) => j > 0 || !this.excludeFirst).slice(0, 5);
    return html`${running(columns, from, Math.min(site.m, from + MOST), (j) => ({
        kind: own && j === row + 1 ? "new" : own && j > row ? "later" : own && j === row ? "row" : "",
        tooltip: written(weights[j]), style: shade(weights[j], top), clicked: own && j > first ? jump(j - first - 1) : () => this.store!.choose({ column: j }),
      }))}
      ${own ? nothing : html`<div class="written">${running(names.map((x) => x ?? "…"), 0, names.length, (t) => ({
        kind: t === step ? "new" : t > step ? "later" : "", tooltip: "", style: "", clicked: jump(t) }))}</div>`}
      <div class="bar best"><span>${best.map(({ j, w }) => `${withIndex(columnName(site, j), j)} ${written(w)}`).join(" · ")}</span>${this.saver({ SVG: () => this.saveDrawing(step) }, "this step")}</div>`;
  }

  private saveDrawing(step: number): void {
    const pen = drawnText([...this.renderRoot.querySelectorAll("p.running")], inks(this).raised);
    saveText(String(pen), "image/svg+xml", fileName(this.store!, `step-${step + 1}`, "svg"));
  }
}
