/** <regard-text>: the text that is attended, each token as strong as the chosen row's weight on it. */

import { css, html, nothing } from "lit";
import { place, signed, written } from "./colour";
import type { Head } from "./head";
import { same, shown, spaced } from "./names";
import { Part } from "./part";
import type { Choice } from "./store";
import { theme } from "./theme";

const MOST = 800; // tokens written at a time

export class RegardText extends Part {
  static override properties = { ...Part.properties, head: { state: true }, without: { state: true } };
  declare head: Head | null;
  declare without: boolean; // the first token is left out of the scale
  private asked = 0;

  constructor() {
    super();
    this.head = null;
    this.without = false;
  }

  static override styles = [theme, css`
    p { margin: 0; line-height: 2; max-height: 15rem; overflow: auto; font-family: var(--serif); font-size: 1.05rem; }
    p span { padding: 0.12em 0.1em; border-radius: 0.2em; cursor: pointer; white-space: pre-wrap; }
    p span.row { box-shadow: inset 0 -2px var(--mark); font-weight: 600; } p span.lone { text-decoration: underline dotted; } small { color: var(--soft); }
  `];

  protected begun(): void {
    void this.load();
  }

  protected chosen(before: Choice): void {
    if (this.another(before)) void this.load();
    else this.requestUpdate();
  }

  private async load(): Promise<void> {
    const ask = ++this.asked;
    const found = await this.store!.head();
    await found.settled;
    if (ask === this.asked) this.head = found;
  }

  /** Lit writes it; here the row is brought into sight, unless the pointer is on the text. */
  protected draw(): void {
    const box = this.renderRoot.querySelector("p");
    const row = box?.querySelector<HTMLElement>("span.row");
    if (!box || !row || box.matches(":hover")) return;
    const y = row.offsetTop - box.offsetTop;
    if (y < box.scrollTop || y + row.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = y - box.clientHeight / 2;
  }

  protected override render() {
    const { store, head } = this;
    if (!store || !head) return nothing;
    const { site } = store;
    if (!site.columns || site.n === 0 || site.n !== head.n || site.m !== head.m) return html`<small>These rows and columns have no names.</small>`;
    const { row, column, side } = store.choice;
    const tell = side === "difference" ? signed : written;
    const weights = head.row(row);
    let top = 0;
    for (let j = this.without ? 1 : 0; j < weights.length; j++) if (Math.abs(weights[j]) > top) top = Math.abs(weights[j]);
    const from = Math.max(0, Math.min(site.m - MOST, column - MOST / 2));
    const to = Math.min(site.m, from + MOST);
    const own = same(site);
    const choose = (j: number) => store.choose(own ? { row: j, locked: true } : { column: j });
    return html`
      <div class="bar"><small>Strongest: ${written(top)}</small><label><input type="checkbox" .checked=${this.without}
        @change=${(e: Event) => (this.without = (e.target as HTMLInputElement).checked)}> without the first token</label></div>
      <p>${from > 0 ? "… " : nothing}${site.columns.slice(from, to).map((name, x) => {
        const j = from + x;
        const share = Math.round(62 * place(Math.abs(weights[j]), top, "root"));
        const lone = site.beside && "+-".includes(site.beside.columns[j]);
        return html`${spaced(site.columns!, j) ? " " : nothing}<span class=${`${own && j === row ? "row" : ""}${lone ? " lone" : ""}`} title=${tell(weights[j])}
          style=${`background: color-mix(in srgb, var(--${weights[j] < 0 ? "cold" : "mark"}) ${share}%, transparent)`} @click=${() => choose(j)}>${shown(name)}</span>`;
      })}${to < site.m ? " …" : nothing}</p>`;
  }
}
