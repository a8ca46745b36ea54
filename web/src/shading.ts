/** Running text with each token shaded by its weight. */

import { css, html, nothing, type TemplateResult } from "lit";
import { place } from "./colour";
import { shown, spaced } from "./token_names";

export const shading = css`
  .running { margin: 0; padding: 0 0.2rem; line-height: 2; max-height: 15rem; overflow: auto; font-family: var(--serif); font-size: 1.05rem; }
  .running span { padding: 0.12em 0.1em; border-radius: 0.2em; cursor: pointer; white-space: pre-wrap; }
  .running span.row { box-shadow: inset 0 -2px var(--mark); font-weight: 600; }
  .running span.masked { text-decoration: line-through 2px; } .running span.unmatched { text-decoration: underline dotted; } .running span.later { opacity: 0.28; }
  .running span.new { outline: 2px solid var(--mark); outline-offset: 1px; font-weight: 600; }
  small { color: var(--soft); }
`;

/** Background of a weight relative to the largest: warm above 0, cold below. */
export function shade(w: number, top: number): string {
  const share = Math.round(62 * place(Math.abs(w), top, "root"));
  return `background: color-mix(in srgb, var(--${w < 0 ? "cold" : "mark"}) ${share}%, transparent)`;
}

/** Largest magnitude. */
export function largest(weights: ArrayLike<number>, from = 0): number {
  let top = 0;
  for (let j = from; j < weights.length; j++) if (Math.abs(weights[j]) > top) top = Math.abs(weights[j]);
  return top;
}

export interface Token {
  kind: string; // CSS classes
  tooltip: string; // title attribute
  style: string;
  clicked?: () => void; // a click
  doubleClicked?: () => void; // a double-click
}

/** The tokens [from, to) of a text. */
export function running(names: string[], from: number, to: number, token: (j: number) => Token): TemplateResult {
  return html`<p class="running">${from > 0 ? "… " : nothing}${names.slice(from, to).map((name, x) => {
    const j = from + x;
    const { kind, tooltip, style, clicked, doubleClicked } = token(j);
    return html`${spaced(names, j) ? " " : nothing}<span class=${kind} title=${tooltip} style=${style} @click=${clicked ?? nothing} @dblclick=${doubleClicked ?? nothing}>${shown(name)}</span>`;
  })}${to < names.length ? " …" : nothing}</p>`;
}
