/** <regard-live>: a text for the model, what it attends to, and what becomes of its output when attention is changed. */

import { css, html, LitElement, nothing } from "lit";
import { shown } from "../names";
import { start } from "../page";
import { Store, type Act } from "../store";
import { theme } from "../theme";
import { follow, Refused, Stopped, type Job } from "./api";
import { dataOf, leave, type Viewed } from "./remote";
import type { Told } from "./told";

export interface Change {
  token?: number;
  site?: string;
  head?: number;
}

interface Read {
  seen: Viewed; // as it is, or changed beside as it is
  told: Told;
  tokens: string[];
}

const TEXT = "The animal did not cross the street because it was too tired.";
const PAGE = Math.random().toString(36).slice(2, 12); // so that another page's texts do not stop ours

/** Asking for the same change again takes it back. */
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
  declare changes: Change[]; // in the order in which they were made
  declare read: Read | null;
  declare problem: string;
  private asked = 0;
  private seen = ""; // the text that the maps are of
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
    if (this.model.state === "done" && this.asked === 0) void this.see();
  }

  /** Let the model read: as it is, and with the changes. */
  async see(): Promise<void> {
    const ask = ++this.asked;
    this.problem = "";
    const { text, changes } = this;
    try {
      const read = await follow<Read>("/api/read", { text, changes, page: PAGE }, (job) => {
        if (ask === this.asked) this.dispatchEvent(new CustomEvent("busy", { detail: job, bubbles: true, composed: true }));
        if (job?.notes.length) this.problem = job.notes.join(" ");
      });
      if (ask === this.asked) await this.show(read, text, changes, ask);
    } catch (problem) {
      if (ask !== this.asked) return;
      if (!(problem instanceof Refused || problem instanceof Stopped)) throw problem;
      this.problem = problem instanceof Stopped ? "Stopped." : problem.message;
    }
  }

  private async show(read: Read, text: string, changes: Change[], ask: number): Promise<void> {
    const store = new Store(await dataOf(read.seen, (problem) => (this.problem = problem)));
    const { data } = store;
    const sites = data.sites.map((x) => x.site);
    for (const { token, site, head } of changes)
      if (token !== undefined) store.marks.tokens.add(token);
      else store.marks.heads.add(`${sites.indexOf(site!)}.${head}`);
    if (!this.store || this.seen !== text) {
      if (!data.sites.some((site) => site.large)) await Promise.all(data.sites.map((_, s) => data.glance(s)));
      await start(store, "");
    }
    if (ask !== this.asked) return leave(read.seen.view, data); // something else was asked for meanwhile
    const old = this.store;
    if (old && this.seen === text) {
      const { side } = old.data.about.beside && data.about.beside ? old.choice : store.choice; // a first change is shown as the difference
      store.choose({ ...old.choice, side });
    }
    store.addEventListener("choice", () => this.requestUpdate());
    if (old && this.read) leave(this.read.seen.view, old.data);
    this.store = store;
    this.seen = text;
    this.read = read;
  }

  private act({ token, site, head }: Act): void {
    const { read, store } = this;
    if (!read || !store) return;
    if (token !== undefined) {
      const columns = store.site.columns ?? [];
      if (token >= read.tokens.length || read.tokens.some((name, j) => columns[j] !== name))
        return void (this.problem = "Only tokens of the text that was read can be masked; these were written by the model.");
      this.change({ token });
    } else this.change({ site: store.data.sites[site!].site, head: head! });
  }

  private change(one: Change): void {
    this.set(toggled(this.changes, one));
  }

  private set(changes: Change[]): void {
    this.text = this.seen || this.text;
    this.changes = changes;
    void this.see();
  }

  private named({ token, site, head }: Change): string {
    if (token !== undefined) return `“${shown(this.read?.tokens[token] ?? "")}” (${token}) masked`;
    const short = this.store?.data.sites.find((x) => x.site === site)?.short ?? site;
    return `head ${short}.${head} uniform`;
  }

  private typed(text: string): void {
    if (text !== this.seen) this.changes = []; // they were of another text's tokens
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
        <section><h2>${ready ? html`What ${model.result!.name} reads` : model.state === "failed" ? html`<span class="bad">${model.error}</span>` : html`${model.says} …`}</h2>
          <textarea aria-label="Text for the model" spellcheck="false" .value=${this.text} @input=${(e: Event) => this.typed((e.target as HTMLTextAreaElement).value)}
            @keydown=${(e: KeyboardEvent) => { if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) void this.see(); }}></textarea>
          <div class="bar" style="margin: 0.4rem 0 0"><button class="main" ?disabled=${!ready} @click=${() => void this.see()}>See</button><label>Ctrl+Enter</label></div>
          ${this.problem ? html`<p class="hint bad" role="alert">${this.problem}</p>` : nothing}
          ${changes.length ? html`<div class="changes" role="group" aria-label="What is changed">Changed:
              ${changes.map((one) => html`<button class="one" title=${`Take this back${one.site ? `: ${one.site}` : ""}`} @click=${() => this.change(one)}>${this.named(one)} ×</button>`)}
              <button @click=${() => this.set(changes.slice(0, -1))}>Undo</button><button @click=${() => this.set([])}>Reset</button></div>` : nothing}
          ${store && read ? html`<p class="hint">Double-click a token in the text or the lines: nobody sees it any more. Double-click a head: it looks at everything alike. Or, as chosen on the map:
              ${token === null ? nothing : html`<button @click=${() => this.act({ token: choice!.column })}>mask “${token}”</button>`}
              <button @click=${() => this.act({ site: choice!.site, head: choice!.head })}>make head ${site!.short}.${choice!.head} uniform</button></p>` : nothing}
        </section>
        <section>${read ? html`<regard-told .told=${read.told} .names=${read.tokens} .gone=${store!.marks.tokens}></regard-told>` : html`<p class="hint">What the model gives is shown here.</p>`}</section>
      </div>
      ${store ? html`<regard-page bare .store=${store}></regard-page>` : nothing}`;
  }
}
