/** <regard-live>: input text, attention maps, and the effect of attention interventions on the output. */

import { css, html, LitElement, nothing } from "lit";
import { shown } from "../token_names";
import { start } from "../page";
import { Store, type Act } from "../store";
import { theme } from "../theme";
import { follow, Refused, Stopped, type Job } from "./api";
import { dataOf, release, type Viewed } from "./remote";
import type { OutputDiff } from "./output_diff";

export interface Change {
  token?: number;
  site?: string;
  head?: number;
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
  const same = (x: Change) => x.token === one.token && x.site === one.site && x.head === one.head;
  return changes.some(same) ? changes.filter((x) => !same(x)) : [...changes, one];
}

export class RegardLive extends LitElement {
  static override properties = {
    model: { attribute: false }, text: { state: true }, changes: { state: true }, read: { state: true }, problem: { state: true },
  };
  declare model: Job<{ name: string; class: string; parameters: number }>;
  declare text: string;
  declare changes: Change[]; // in order
  declare read: RunResult | null;
  declare problem: string;
  private requestId = 0;
  private mapsText = ""; // the input of the maps shown
  store: Store | null;

  constructor() {
    super();
    this.text = TEXT;
    this.changes = [];
    this.read = null;
    this.problem = "";
    this.store = null;
    this.addEventListener("act", (event) => {
      event.preventDefault();
      this.act((event as CustomEvent<Act>).detail);
    });
  }

  static override styles = [theme, css`
    .top { max-width: 96rem; margin: 0 auto; padding: 0 1.5rem; display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 1rem; align-items: start; }
    section { background: var(--raised); border: 1px solid var(--line); border-radius: 0.7rem; padding: 0.8rem 1rem; margin: 0 0 1rem; }
    h2 { font: 600 1.02rem/1.3 var(--serif); margin: 0 0 0.5rem; } textarea { width: 100%; min-height: 4.2em; font: 1.08rem/1.45 var(--serif); color: inherit; background: var(--paper); border: 1px solid var(--line); border-radius: 0.4rem; padding: 0.4rem 0.6rem; resize: vertical; }
    .changes { display: flex; flex-wrap: wrap; gap: 0.4rem; margin: 0.6rem 0 0.2rem; align-items: center; } .changes button.one { border-color: var(--mark); }
    .hint { color: var(--soft); font-size: 0.85rem; margin: 0.5rem 0 0; } .bad { color: #b3261e; } button.main { background: var(--mark); border-color: var(--mark); color: #201200; font-weight: 600; }
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
    try {
      const read = await follow<RunResult>("/api/read", { text, changes, page: PAGE }, (job) => {
        if (request === this.requestId) this.dispatchEvent(new CustomEvent("busy", { detail: job, bubbles: true, composed: true }));
        if (job?.notes.length) this.problem = job.notes.join(" ");
      });
      if (request === this.requestId) await this.show(read, text, changes, request);
    } catch (problem) {
      if (request !== this.requestId) return;
      if (!(problem instanceof Refused || problem instanceof Stopped)) throw problem;
      this.problem = problem instanceof Stopped ? "Stopped." : problem.message;
    }
  }

  private async show(read: RunResult, text: string, changes: Change[], request: number): Promise<void> {
    const store = new Store(await dataOf(read.maps, (problem) => (this.problem = problem)));
    const { data } = store;
    const sites = data.sites.map((x) => x.site);
    for (const { token, site, head } of changes)
      if (token !== undefined) store.marks.tokens.add(token);
      else store.marks.heads.add(`${sites.indexOf(site!)}.${head}`);
    if (!this.store || this.mapsText !== text) {
      if (!data.sites.some((site) => site.large)) await Promise.all(data.sites.map((_, s) => data.overview(s)));
      await start(store, "");
    }
    if (request !== this.requestId) return release(read.maps.view, data); // superseded by a newer run
    const old = this.store;
    if (old && this.mapsText === text) {
      const { side } = old.data.about.beside && data.about.beside ? old.choice : store.choice; // the first intervention is shown as the difference
      store.choose({ ...old.choice, side });
    }
    store.addEventListener("choice", () => this.requestUpdate());
    if (old && this.read) release(this.read.maps.view, old.data);
    this.store = store;
    this.mapsText = text;
    this.read = read;
  }

  private act({ token, site, head }: Act): void {
    const { read, store } = this;
    if (!read || !store) return;
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

  private label({ token, site, head }: Change): string {
    if (token !== undefined) return `“${shown(this.read?.tokens[token] ?? "")}” (${token}) masked`;
    const short = this.store?.data.sites.find((x) => x.site === site)?.short ?? site;
    return `head ${short}.${head} uniform`;
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
          <textarea aria-label="Text for the model" spellcheck="false" .value=${this.text} @input=${(e: Event) => this.setText((e.target as HTMLTextAreaElement).value)}
            @keydown=${(e: KeyboardEvent) => { if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) void this.run(); }}></textarea>
          <div class="bar" style="margin: 0.4rem 0 0"><button class="main" ?disabled=${!ready} @click=${() => void this.run()}>Run</button><label>Ctrl+Enter</label></div>
          ${this.problem ? html`<p class="hint bad" role="alert">${this.problem}</p>` : nothing}
          ${changes.length ? html`<div class="changes" role="group" aria-label="Interventions">Interventions:
              ${changes.map((one) => html`<button class="one" title=${`Remove this intervention${one.site ? `: ${one.site}` : ""}`} @click=${() => this.change(one)}>${this.label(one)} ×</button>`)}
              <button @click=${() => this.setChanges(changes.slice(0, -1))}>Undo</button><button @click=${() => this.setChanges([])}>Reset</button></div>` : nothing}
          ${store && read ? html`<p class="hint">Double-click a token in the text or the lines to mask it in every layer; double-click a head to make its weights uniform. Or use the current selection:
              ${token === null ? nothing : html`<button @click=${() => this.act({ token: choice!.column })}>mask “${token}”</button>`}
              <button @click=${() => this.act({ site: choice!.site, head: choice!.head })}>make head ${site!.short}.${choice!.head} uniform</button></p>` : nothing}
        </section>
        <section>${read ? html`<regard-output .diff=${read.output} .names=${read.tokens} .masked=${store!.marks.tokens}></regard-output>` : html`<p class="hint">The output of the model appears here.</p>`}</section>
      </div>
      ${store ? html`<regard-page bare .store=${store}></regard-page>` : nothing}`;
  }
}
