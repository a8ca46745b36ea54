/** <regard-live>: input text, attention maps, and the effect of attention interventions on the output. */

import { css, html, LitElement, nothing } from "lit";
import { shown } from "../token_names";
import { start } from "../page";
import { Store, type Act } from "../store";
import { theme } from "../theme";
import { follow, Refused, Stopped, type Job } from "./api";
import { chosen, selectionOf, type Address, type Selection } from "./address";
import { dataOf, release, type Viewed } from "./remote";
import type { OutputDiff } from "./output_diff";
import type { Cut } from "./why";

export interface Change {
  token?: number;
  site?: string;
  head?: number;
  cut?: Cut;
}

interface RunResult {
  maps: Viewed; // of the plain run, or of the intervened run compared with it
  output: OutputDiff;
  tokens: string[];
}

const TEXT = "The animal did not cross the street because it was too tired.";
const PAGE = Math.random().toString(36).slice(2, 12); // a new run cancels the previous one of this page only

/** Repeating a change removes it. */
export function toggled(changes: Change[], one: Change): Change[] {
  const same = (x: Change) => x.token === one.token && x.site === one.site && x.head === one.head && JSON.stringify(x.cut) === JSON.stringify(one.cut);
  return changes.some(same) ? changes.filter((x) => !same(x)) : [...changes, one];
}

export class RegardLive extends LitElement {
  static override properties = {
    model: { attribute: false }, text: { state: true }, changes: { state: true }, read: { state: true }, problem: { state: true },
    second: { state: true }, comparing: { state: true },
  };
  declare model: Job<{ name: string; class: string; parameters: number }>;
  declare text: string;
  declare changes: Change[]; // in order
  declare read: RunResult | null;
  declare problem: string;
  private requestId = 0;
  declare second: string; // a second text to compare with
  declare comparing: boolean; // whether the field of the second text is there
  private wanted: Selection | null = null; // a selection that the address asks for
  private mapsSecond = "";
  private mapsText = ""; // the input of the maps shown
  store: Store | null;

  constructor() {
    super();
    this.text = TEXT;
    this.changes = [];
    this.read = null;
    this.problem = "";
    this.second = "";
    this.comparing = false;
    this.store = null;
    this.addEventListener("cut-writer", (event) => {
      const { store } = this;
      if (store) this.change({ site: store.site.site, head: store.choice.head, cut: (event as CustomEvent<Cut>).detail });
    });
    this.addEventListener("act", (event) => {
      event.preventDefault();
      this.act((event as CustomEvent<Act>).detail);
    });
  }

  static override styles = [theme, css`
    .top { max-width: 96rem; margin: 0 auto; padding: 0 1.5rem; display: grid; grid-template-columns: minmax(0, 1.7fr) minmax(20rem, 1fr); gap: 0 1rem; align-items: start; }
    section { background: var(--raised); border: 1px solid var(--line); border-radius: 0.7rem; padding: 0.6rem 1rem; margin: 0 0 0.7rem; }
    .fields { display: grid; grid-template-columns: minmax(0, 1fr) max-content; gap: 0.5rem; align-items: start; } .fields .buttons { display: grid; gap: 0.3rem; }
    h2 { font: 600 1.02rem/1.3 var(--serif); margin: 0 0 0.4rem; } textarea { width: 100%; min-height: 2.6em; field-sizing: content; max-height: 30vh; display: block; font: 1.08rem/1.45 var(--serif); color: inherit; background: var(--paper); border: 1px solid var(--line); border-radius: 0.4rem; padding: 0.4rem 0.6rem; resize: vertical; }
    .changes { display: flex; flex-wrap: wrap; gap: 0.4rem; margin: 0.6rem 0 0.2rem; align-items: center; } .changes button.one { border-color: var(--mark); }
    .hint { color: var(--soft); font-size: 0.82rem; margin: 0.35rem 0 0; } .hint button { font-size: inherit; padding: 0 0.4rem; } textarea + textarea { margin-top: 0.3rem; } button[disabled] { opacity: 0.5; cursor: default; } .bad { color: #b3261e; } button.main { background: var(--mark); border-color: var(--mark); color: #201200; font-weight: 600; }
    @media (prefers-color-scheme: dark) { .bad { color: #ff8a80; } } @media (max-width: 62rem) { .top { grid-template-columns: minmax(0, 1fr); } }
  `];

  protected override willUpdate(): void {
    if (this.model.state === "done" && this.requestId === 0) void this.run();
  }

  /** Run the model, plain and with the interventions. */
  async run(): Promise<void> {
    const request = ++this.requestId;
    this.problem = "";
    const { text, changes } = this;
    const second = this.comparing ? this.second.trim() : "";
    try {
      const read = await follow<RunResult>("/api/read", { text, changes: second ? [] : changes, page: PAGE, second: second || null }, (job) => {
        if (request === this.requestId) this.dispatchEvent(new CustomEvent("busy", { detail: job, bubbles: true, composed: true }));
        if (job?.notes.length) this.problem = job.notes.join(" ");
      });
      if (request === this.requestId) await this.show(read, text, second ? [] : changes, request, second);
    } catch (problem) {
      if (request !== this.requestId) return;
      if (!(problem instanceof Refused || problem instanceof Stopped)) throw problem;
      this.problem = problem instanceof Stopped ? "Stopped." : problem.message;
    }
  }

  private async show(read: RunResult, text: string, changes: Change[], request: number, second: string): Promise<void> {
    const store = new Store(await dataOf(read.maps, (problem) => (this.problem = problem)));
    const { data } = store;
    const sites = data.sites.map((x) => x.site);
    for (const { token, site, head, cut } of changes)
      if (cut) continue;
      else if (token !== undefined) store.marks.tokens.add(token);
      else store.marks.heads.add(`${sites.indexOf(site!)}.${head}`);
    const same = this.mapsText === text && this.mapsSecond === second;
    if (!this.store || !same) {
      if (!data.sites.some((site) => site.large)) await Promise.all(data.sites.map((_, s) => data.overview(s)));
      await start(store, "");
    }
    if (request !== this.requestId) return release(read.maps.view, data); // superseded by a newer run
    const old = this.store;
    if (old && same) {
      const { side } = old.data.about.beside && data.about.beside ? old.choice : store.choice; // the first intervention is shown as the difference
      store.choose({ ...old.choice, side });
    }
    if (this.wanted) store.choose(chosen(this.wanted));
    this.wanted = null;
    store.addEventListener("choice", () => {
      this.requestUpdate();
      this.moved();
    });
    if (old && this.read) release(this.read.maps.view, old.data);
    this.store = store;
    this.mapsText = text;
    this.mapsSecond = second;
    this.read = read;
    this.moved();
  }

  private moved(): void {
    this.dispatchEvent(new CustomEvent("moved", { bubbles: true, composed: true }));
  }

  /** What the address says of this view: of what is shown, not of what is being typed. */
  get address(): Pick<Address, "text" | "second" | "changes" | "place"> {
    const place = selectionOf(this.store?.choice);
    return { text: this.mapsText, second: this.mapsSecond, changes: this.mapsSecond ? [] : this.changes, place };
  }

  /** The view that an address asks for: run again only if it is another. */
  restore({ text, second, changes, place }: Pick<Address, "text" | "second" | "changes" | "place">): void {
    const shown = this.address;
    this.wanted = place;
    if (!text) return;
    if (this.read && shown.text === text && shown.second === second && JSON.stringify(shown.changes) === JSON.stringify(changes)) {
      if (place && this.store) this.store.choose(chosen(place));
      this.wanted = null;
      return;
    }
    Object.assign(this, { text, second, changes, comparing: second !== "" });
    if (this.model.state === "done") void this.run();
  }

  private act({ token, site, head }: Act): void {
    const { read, store } = this;
    if (!read || !store) return;
    if (this.mapsSecond) return void (this.problem = "Interventions are on one text: end the comparison first.");
    if (token !== undefined) {
      const columns = store.site.columns ?? [];
      if (token >= read.tokens.length || read.tokens.some((name, j) => columns[j] !== name))
        return void (this.problem = "Only input tokens can be masked; this one was generated by the model.");
      this.change({ token });
    } else this.change({ site: store.data.sites[site!].site, head: head! });
  }

  private change(one: Change): void {
    this.setChanges(toggled(this.changes, one));
  }

  private setChanges(changes: Change[]): void {
    this.text = this.mapsText || this.text;
    this.changes = changes;
    void this.run();
  }

  private label({ token, site, head, cut }: Change): string {
    if (cut) return `${cut.writer} cut from the ${cut.side} of “${shown((this.read?.tokens ?? [])[cut.side === "key" ? cut.column : cut.row] ?? "")}”`;
    if (token !== undefined) return `“${shown(this.read?.tokens[token] ?? "")}” (${token}) masked`;
    const short = this.store?.data.sites.find((x) => x.site === site)?.short ?? site;
    return `head ${short}.${head} uniform`;
  }

  /** Ask for a second text, or go back to one. */
  private compare(): void {
    this.comparing = !this.comparing;
    if (this.comparing) void this.updateComplete.then(() => this.renderRoot.querySelectorAll("textarea")[1]?.focus());
    else if (this.mapsSecond) void this.run();
  }

  private setText(text: string): void {
    if (text !== this.mapsText) this.changes = []; // they refer to tokens of the previous text
    this.text = text;
  }

  protected override render() {
    const { model, changes, store, read } = this;
    const ready = model.state === "done";
    const choice = store?.choice;
    const site = store?.site;
    const token = choice && site?.columns ? shown(site.columns[choice.column]) : null;
    return html`
      <div class="top">
        <section><h2>${ready ? html`Input to ${model.result!.name}` : model.state === "failed" ? html`<span class="bad">${model.error}</span>` : html`${model.says} …`}</h2>
          <div class="fields"><div><textarea aria-label="Text for the model" rows="1" spellcheck="false" .value=${this.text} @input=${(e: Event) => this.setText((e.target as HTMLTextAreaElement).value)}
            @keydown=${(e: KeyboardEvent) => { if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) void this.run(); }}></textarea>
          ${this.comparing ? html`<textarea aria-label="Second text, to compare with" placeholder="A second text, to compare with" rows="1" spellcheck="false" .value=${this.second} @input=${(e: Event) => (this.second = (e.target as HTMLTextAreaElement).value)}
            @keydown=${(e: KeyboardEvent) => { if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) void this.run(); }}></textarea>` : nothing}</div>
          <div class="buttons"><button class="main" title="Ctrl+Enter" ?disabled=${!ready} @click=${() => void this.run()}>Run</button>
            <button aria-pressed=${this.comparing} title="Run a second text and show the difference of the maps" @click=${() => this.compare()}>Compare</button></div></div>
          ${this.problem ? html`<p class="hint bad" role="alert">${this.problem}</p>` : nothing}
          ${changes.length ? html`<div class="changes" role="group" aria-label="Interventions">Interventions:
              ${changes.map((one) => html`<button class="one" title=${`Remove this intervention${one.site ? `: ${one.site}` : ""}`} @click=${() => this.change(one)}>${this.label(one)} ×</button>`)}
              <button @click=${() => this.setChanges(changes.slice(0, -1))}>Undo</button><button @click=${() => this.setChanges([])}>Reset</button></div>` : nothing}
          ${store && read && !this.mapsSecond ? html`<p class="hint">Double-click a token to mask it in every layer, a head to make its weights uniform; click a cell of the map to see, under it, why it has its weight. Or, of the selection:
              ${token === null ? nothing : html`<button @click=${() => this.act({ token: choice!.column })}>mask “${token}”</button>`}
              <button @click=${() => this.act({ site: choice!.site, head: choice!.head })}>make head ${site!.short}.${choice!.head} uniform</button></p>` : nothing}
        </section>
        <section>${read ? html`<regard-output .diff=${read.output} .names=${read.tokens} .masked=${store!.marks.tokens}></regard-output>` : html`<p class="hint">The output of the model appears here.</p>`}</section>
      </div>
      ${store ? html`<regard-page bare .store=${store}>${read ? html`<regard-why slot="under" .store=${store} .view=${read.maps.view} .text=${this.mapsText} .cuts=${changes.flatMap((x) => (x.cut ? [{ ...x.cut, head: x.head!, site: x.site! }] : []))}></regard-why>` : nothing}</regard-page>` : nothing}`;
  }
}
