/** <regard-page>: all components on one page, sharing one selection. */

import { css, html, LitElement, nothing, type PropertyValues } from "lit";
import { EdgeHead } from "./edges";
import { MapData, type PageAbout } from "./data";
import { secondHead, unmatchedSites, sides } from "./sides";
import { Store } from "./store";
import { theme } from "./theme";

/** The maps embedded in an HTML file: one JSON script, and one script per array. */
export function embedded(root: Document = document): Store | null {
  const text = root.getElementById("regard-data")?.textContent;
  if (!text) return null;
  const about = JSON.parse(text) as PageAbout;
  const blob = (x: number) => root.querySelector(`script[data-blob="${x}"]`)?.textContent ?? "";
  return new Store(new MapData(about, blob));
}

/** An address ends in site, head, row, column, and the site and head that are compared: page.html#5,11,9,2,4,3 */
export function addressed(hash: string): number[] | null {
  return /^#\d+,\d+,\d+,\d+(,\d+,\d+)?$/.test(hash) ? hash.slice(1).split(",").map(Number) : null;
}

/** Initial selection: the head with the largest weight outside the first key, the last key and the diagonal band; of two
 * maps, the head and the weight that changed most; of a generation, a row that generated a token. A selection that the user made meanwhile is kept. */
export async function start(store: Store, hash: string): Promise<void> {
  const asked = addressed(hash);
  if (asked) {
    const against = asked.length === 6 ? { site: asked[4], head: asked[5] } : null;
    return store.choose({ site: asked[0], head: asked[1], row: asked[2], column: asked[3], pinned: true, against, ...(against ? { side: "difference" } : {}) });
  }
  let most = -1;
  let best = { site: 0, head: 0 };
  const taken = () => store.choice.pinned || store.choice.site !== best.site || store.choice.head !== best.head;
  if (taken()) return;
  const generated = store.data.sites.some((site) => site.steps);
  store.data.sites.forEach((site, s) => (!generated || site.steps) &&
    site.numbers.forEach((numbers, head) => {
      const stands = (site.beside ? numbers.change : numbers.elsewhere) ?? 0;
      if (stands > most) [most, best] = [stands, { site: s, head }];
    }),
  );
  const site = store.data.sites[best.site];
  const first = site.steps?.first ?? 0;
  const row = Math.max(first, Math.floor(site.n / 2));
  store.choose({ ...best, row, column: Math.min(row, site.m - 1) });
  const head = await store.head(best.head, best.site);
  if (taken()) return;
  if (head instanceof EdgeHead) return store.choose(head.graph.opening());
  if (store.data.about.image?.skip) return store.choose({ row: 0 });
  if (!head.dense) return;
  let top = 0;
  const place = { row: store.choice.row, column: store.choice.column };
  for (let i = first; i < site.n; i++)
    for (let j = 0; j < site.m; j++) {
      const w = Math.abs(head.dense[i * site.m + j]);
      if (w > top && (site.beside || (Math.abs(i - j) > 1 && j > 0 && j < site.m - 1))) {
        top = w;
        [place.row, place.column] = [i, j];
      }
    }
  store.choose(place);
}

export class RegardPage extends LitElement {
  static override properties = { store: { attribute: false }, bare: { type: Boolean } };
  declare store: Store | null;
  declare bare: boolean; // inside the application, which has its own header
  private addressed = false; // standalone page: the URL fragment follows the selection

  constructor() {
    super();
    this.store = null;
    this.bare = false;
  }

  static override styles = [theme, css`
    :host { background: var(--paper); min-height: 100vh; container-type: inline-size; } :host([bare]) { min-height: 0; }
    header, main, footer { max-width: 96rem; margin: 0 auto; padding: 0 1.5rem; }
    header { padding-top: 1.1rem; padding-bottom: 0.6rem; }
    .name { font-variant: small-caps; letter-spacing: 0.08em; color: var(--glow); font-weight: 600; margin-right: 0.6rem; }
    h1 { font: 600 1.45rem/1.2 var(--serif); margin: 0; overflow-wrap: anywhere; }
    .facts { color: var(--soft); margin: 0.25rem 0 0; } blockquote { margin: 0.4rem 0 0; font: 1.1rem/1.45 var(--serif); max-height: 4.4em; overflow: auto; }
    main { display: grid; grid-template-columns: minmax(0, 1.7fr) minmax(20rem, 1fr); gap: 1rem; align-items: start; }
    section { background: var(--raised); border: 1px solid var(--line); border-radius: 0.7rem; padding: 0.8rem 1rem; margin: 0 0 1rem; }
    h2 { font: 600 1.02rem/1.3 var(--serif); margin: 0 0 0.5rem; }
    footer { color: var(--soft); font-size: 0.85rem; padding-bottom: 1.5rem; } kbd { border: 1px solid var(--line); border-radius: 0.25rem; padding: 0 0.3em; }
    @container (max-width: 62rem) { main { grid-template-columns: minmax(0, 1fr); } }
  `];

  override connectedCallback(): void {
    super.connectedCallback();
    if (!this.store) {
      this.store = embedded();
      this.addressed = this.store !== null;
      if (this.store) void start(this.store, location.hash);
    }
  }

  protected override willUpdate(changed: PropertyValues): void {
    if (!changed.has("store")) return;
    (changed.get("store") as Store | null | undefined)?.removeEventListener("choice", this.follow);
    this.store?.addEventListener("choice", this.follow);
  }

  private readonly follow = (): void => {
    const { site, head, row, column, pinned, against } = this.store!.choice;
    const second = against ? `,${against.site},${against.head}` : "";
    if ((pinned || against) && this.addressed) history.replaceState(null, "", `#${site},${head},${row},${column}${second}`);
    this.requestUpdate();
  };

  protected override render() {
    const { store } = this;
    if (!store) return html`<main><p>This page contains no attention maps.</p></main>`;
    const { about, sites } = store.data;
    const { choice, site } = store;
    const coded = sites.some((x) => x.form === "codes");
    const pick = (name: "site" | "head") => (e: Event) => store.choose({ [name]: Number((e.target as HTMLSelectElement).value) });
    const first = site.form === "edges" ? "graph" : about.image ? "image" : "map"; // the component under the site and head selectors
    const bar = html`<div class="bar">
      ${sites.length > 1 ? html`<label title="Where attention runs in the model: the path of the module">Layer <select aria-label="Layer" @change=${pick("site")}>${sites.map((x, s) => html`<option value=${s} .selected=${s === choice.site}>${x.site}</option>`)}</select></label>` : nothing}
      ${site.heads > 1 ? html`<label title="Each layer has several heads, each with weights of its own">Head <select aria-label="Head" @change=${pick("head")}>${Array.from({ length: site.heads }, (_, h) => html`<option value=${h} .selected=${h === choice.head}>${h}</option>`)}</select></label>` : nothing}
      ${secondHead(store)}${sides(store)}<label>${site.n.toLocaleString("en")} queries × ${site.m.toLocaleString("en")} keys</label></div>`;
    return html`
      ${this.bare ? nothing : html`<header><h1 aria-label=${`Regard ${about.title}`}><span class="name">Regard</span>${about.title}</h1>
        ${about.text ? html`<blockquote>${about.beside?.text ? html`<small>${about.beside.names[0]}:</small> ` : nothing}${about.text}</blockquote>` : nothing}
        ${about.beside?.text ? html`<blockquote><small>${about.beside.names[1]}:</small> ${about.beside.text}</blockquote>` : nothing}${unmatchedSites(store)}
        ${about.facts ? html`<p class="facts">${about.facts}</p>` : nothing}</header>`}
      <main>
        <div>
          ${sites.some((x) => x.steps) ? html`<section><h2>Generation, step by step</h2><regard-steps .store=${store}></regard-steps></section>` : nothing}
          ${first === "graph" ? html`<section>${bar}<regard-graph .store=${store}></regard-graph></section>` : nothing}
          ${about.image ? html`<section>${first === "image" ? bar : nothing}<regard-image .store=${store}></regard-image></section>` : nothing}
          <section>${first === "map" ? bar : nothing}
            <regard-map .store=${store}></regard-map></section>
          <slot name="under"></slot>
        </div>
        <div>
          ${sites.length > 1 || site.heads > 1 ? html`<section><h2>All heads</h2><regard-heads .store=${store}></regard-heads></section>` : nothing}
          ${site.columns && site.form !== "edges" ? html`<section><h2>Text, shaded by the selected row</h2><regard-text .store=${store}></regard-text></section>` : nothing}
          ${site.form !== "edges" ? html`<section><h2>Lines</h2><regard-lines .store=${store}></regard-lines></section>` : nothing}
        </div>
      </main>
      <footer>Rows are queries, columns are keys. On the map: wheel or <kbd>+</kbd> <kbd>−</kbd> to zoom, drag to pan, click or arrow keys to pin a weight,
        <kbd>Enter</kbd> to zoom to it, <kbd>0</kbd> to reset the zoom, <kbd>h</kbd> <kbd>H</kbd> next and previous head, <kbd>l</kbd> <kbd>L</kbd> next and previous site${store.names ? html`, <kbd>d</kbd> to switch between the two maps and their difference` : nothing}.
        ${coded ? "The four largest weights of each row are exact; the others (≈) are quantised to 8 bits, with an error of at most 0.4 % of the head's maximum. " : ""}Attention weights are what the model computed; whether they
        explain its output is a separate question. ${this.bare ? nothing : "This page works offline."}</footer>`;
  }
}
