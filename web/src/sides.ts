/** Which of two maps is shown: one, the other, or their difference; and the head that another is compared with. */

import { html, type TemplateResult } from "lit";
import { SIDES } from "./difference";
import { comparable, type Store } from "./store";

export function sides(store: Store): TemplateResult | null {
  if (!store.names) return null;
  const [here, there] = store.names;
  const names = { this: here, other: there, difference: `${here} − ${there}` };
  return html`<span class="sides" role="group" aria-label="Which map is shown">${SIDES.map((side) =>
    html`<button aria-pressed=${store.choice.side === side} @click=${() => store.choose({ side })}>${names[side]}</button>`)}</span>`;
}

/** The choice of a second head, whose weights are subtracted from those of the selected one. */
export function secondHead(store: Store): TemplateResult | null {
  const { data, site, choice } = store;
  const groups = data.about.beside ? [] : data.sites.map((other, at) => ({ other, at })).filter(({ other }) => comparable(site, other));
  if (groups.reduce((count, { other }) => count + other.heads, 0) < 2) return null;
  const pick = (e: Event) => {
    const value = (e.target as HTMLSelectElement).value;
    const [at, head] = value.split(".").map(Number);
    store.choose(value ? { against: { site: at, head }, side: "difference" } : { against: null });
  };
  const { against } = choice;
  return html`<label title="Subtract the weights of another head from those of this one">Compare with head <select aria-label="Compare with head" @change=${pick}>
    <option value="" .selected=${!against}>none</option>${groups.map(({ other, at }) => html`<optgroup label=${other.site}>${Array.from({ length: other.heads }, (_, h) =>
      html`<option value=${`${at}.${h}`} ?disabled=${at === choice.site && h === choice.head} .selected=${against?.site === at && against.head === h}>${other.short}.${h}</option>`)}</optgroup>`)}</select></label>`;
}

/** Sites that only one of two records has. */
export function unmatchedSites(store: Store): TemplateResult | null {
  const { beside } = store.data.about;
  if (!beside || !beside.only.some((names) => names.length)) return null;
  return html`<p class="facts">${beside.only.map((names, x) =>
    names.length ? `Sites only in ${beside.names[x]} (not shown): ${names.slice(0, 4).join(", ")}${names.length > 4 ? `, ${names.length - 4} more` : ""}. ` : "")}</p>`;
}
