/** <regard-output>: output of the model before and after an intervention. */

import { css, html, LitElement, nothing } from "lit";
import { shown } from "../token_names";
import { largest, running, shade, shading } from "../shading";
import { theme } from "../theme";

export interface Bar {
  name: string;
  before: number;
  after: number | null;
}

export interface OutputDiff {
  title: string;
  bars: { at: string; bars: Bar[] }[];
  numbers: Bar[];
  tokens: number[] | null;
  wrote: [string, string | null] | null;
  says: string;
}

const digits = (x: number): string => (Math.abs(x) >= 0.0001 || x === 0 ? x.toFixed(4) : x.toExponential(1).replace("e-", "e−"));

export class RegardOutput extends LitElement {
  static override properties = { diff: { attribute: false }, names: { attribute: false }, masked: { attribute: false } };
  declare diff: OutputDiff | null;
  declare names: string[];
  declare masked: Set<number>; // masked tokens

  constructor() {
    super();
    this.diff = null;
    this.names = [];
    this.masked = new Set();
  }

  static override styles = [theme, shading, css`
    h2 { font: 600 1.02rem/1.3 var(--serif); margin: 0 0 0.3rem; } p { margin: 0.3rem 0; }
    .says { font-weight: 600; } .key { color: var(--soft); font-size: 0.85rem; }
    .key i { display: inline-block; width: 0.8em; height: 0.8em; border-radius: 0.15em; margin: 0 0.25em 0 0.7em; vertical-align: -0.05em; }
    i.before { background: color-mix(in srgb, var(--soft) 55%, var(--raised)); } i.after { background: var(--mark); }
    .bars { display: grid; grid-template-columns: minmax(4rem, max-content) 1fr max-content max-content; gap: 0.15rem 0.7rem; align-items: center; font-variant-numeric: tabular-nums; }
    .bars .name { text-align: right; max-width: 12rem; overflow: hidden; text-overflow: ellipsis; white-space: pre; }
    .bars .pair { display: grid; gap: 1px; } .bars .pair i { display: block; height: 0.42rem; border-radius: 0.15rem; min-width: 1px; }
    .bars b, td b { color: var(--glow); font-weight: 600; } .bars .old, td { color: var(--soft); }
    table { border-collapse: collapse; font-variant-numeric: tabular-nums; } td, th { padding: 0.1rem 0.9rem 0.1rem 0; text-align: left; font-weight: 400; }
    .running { max-height: 7.6rem; } .running span { cursor: default; } q { font: 1.02rem/1.5 var(--serif); }
  `];

  protected override render() {
    const { diff } = this;
    if (!diff) return nothing;
    const after = diff.says !== "" || diff.tokens !== null || diff.bars.some(({ bars }) => bars.some((bar) => bar.after !== null));
    return html`<h2>${diff.title}</h2>
      ${after ? html`<p class="key"><i class="before"></i>before<i class="after"></i>after the intervention</p>` : nothing}
      ${diff.says ? html`<p class="says" aria-live="polite">${diff.says}</p>` : nothing}
      ${diff.bars.map(({ at, bars }) => html`${at ? html`<p class="key">${at}</p>` : nothing}<div class="bars">${bars.map((bar) => this.bar(bar))}</div>`)}
      ${diff.wrote ? html`<p><q>${diff.wrote[0]}</q></p>${diff.wrote[1] === null ? nothing : html`<p><b>After:</b> <q>${diff.wrote[1]}</q></p>`}` : nothing}
      ${diff.numbers.length ? html`<table aria-label=${diff.title}>${diff.numbers.map(({ name, before, after }) =>
        html`<tr><th>${name}</th><td>${digits(before)}</td><td><b>${after === null ? "" : digits(after)}</b></td></tr>`)}</table>` : nothing}
      ${diff.tokens ? this.tokenChanges(diff.tokens) : nothing}`;
  }

  private bar({ name, before, after }: Bar) {
    const wide = (x: number) => `width: ${(100 * Math.min(1, x)).toFixed(2)}%`;
    return html`<span class="name" title=${name}>${shown(name)}</span>
      <span class="pair"><i class="before" style=${wide(before)}></i>${after === null ? nothing : html`<i class="after" style=${wide(after)}></i>`}</span>
      <span class="old">${digits(before)}</span><b>${after === null ? "" : digits(after)}</b>`;
  }

  private tokenChanges(tokens: number[]) {
    const top = largest(tokens);
    if (this.names.length !== tokens.length) return nothing;
    return html`<p class="key">Change of each token, max ${digits(top)}</p>${running(this.names, 0, tokens.length, (j) =>
      ({ kind: this.masked.has(j) ? "masked" : "", tooltip: digits(tokens[j]), style: shade(tokens[j], top) }))}`;
  }
}
