/** Which of two maps is shown: one, the other, or their difference. */

import { html, type TemplateResult } from "lit";
import { SIDES } from "./difference";
import type { Store } from "./store";

export function sides(store: Store): TemplateResult | null {
  const { beside } = store.data.about;
  if (!beside) return null;
  const [here, there] = beside.names;
  const names = { this: here, other: there, difference: `${here} − ${there}` };
  return html`<span class="sides" role="group" aria-label="Which map is shown">${SIDES.map((side) =>
    html`<button aria-pressed=${store.choice.side === side} @click=${() => store.choose({ side })}>${names[side]}</button>`)}</span>`;
}

/** Sites that only one of two records has. */
export function unmatchedSites(store: Store): TemplateResult | null {
  const { beside } = store.data.about;
  if (!beside || !beside.only.some((names) => names.length)) return null;
  return html`<p class="facts">${beside.only.map((names, x) =>
    names.length ? `Sites only in ${beside.names[x]} (not shown): ${names.slice(0, 4).join(", ")}${names.length > 4 ? `, ${names.length - 4} more` : ""}. ` : "")}</p>`;
}
