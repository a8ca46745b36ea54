/** Tokens of a running text, each as strong as its weight. */

import { css, html, nothing, type TemplateResult } from "lit";
import { place } from "./colour";
import { shown, spaced } from "./names";

export const shading = css`
  .running { margin: 0; padding: 0 0.2rem; line-height: 2; max-height: 15rem; overflow: auto; font-family: var(--serif); font-size: 1.05rem; }
  .running span { padding: 0.12em 0.1em; border-radius: 0.2em; cursor: pointer; white-space: pre-wrap; }
  .running span.row { box-shadow: inset 0 -2px var(--mark); font-weight: 600; }
  .running span.gone { text-decoration: line-through 2px; } .running span.lone { text-decoration: underline dotted; } .running span.later { opacity: 0.28; }
  .running span.new { outline: 2px solid var(--mark); outline-offset: 1px; font-weight: 600; }
  small { color: var(--soft); }
`;

/** The background of a weight beside the largest: warm above 0, cold below. */
export function shade(w: number, top: number): string {
  const share = Math.round(62 * place(Math.abs(w), top, "root"));
  return `background: color-mix(in srgb, var(--${w < 0 ? "cold" : "mark"}) ${share}%, transparent)`;
}

/** The largest of some weights, in size. */
export function largest(weights: ArrayLike<number>, from = 0): number {
  let top = 0;
  for (let j = from; j < weights.length; j++) if (Math.abs(weights[j]) > top) top = Math.abs(weights[j]);
  return top;
}

export interface Token {
  kind: string; // classes
  told: string; // what pointing at it says
  style: string;
  chosen?: () => void; // a click
  acted?: () => void; // a double-click
}

/** The tokens [from, to) of a text. */
export function running(names: string[], from: number, to: number, token: (j: number) => Token): TemplateResult {
  return html`<p class="running">${from > 0 ? "… " : nothing}${names.slice(from, to).map((name, x) => {
    const j = from + x;
    const { kind, told, style, chosen, acted } = token(j);
    return html`${spaced(names, j) ? " " : nothing}<span class=${kind} title=${told} style=${style} @click=${chosen ?? nothing} @dblclick=${acted ?? nothing}>${shown(name)}</span>`;
  })}${to < names.length ? " …" : nothing}</p>`;
}
