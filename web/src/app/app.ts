/** <regard-app>: recorded runs and a live model in one application. */

import { css, html, LitElement, nothing, type TemplateResult } from "lit";
import { start } from "../page";
import { unmatchedSites } from "../sides";
import { Store } from "../store";
import { theme } from "../theme";
import { requestJson, follow, Refused, stop, Stopped, type Job } from "./api";
import type { RegardLive } from "./live";
import { chosen, read as addressed, sameRecord, sameView, selectionOf, written, type Address, type Origin } from "./address";
import { closedByKey, closedByLeaving } from "./menu";
import { dataOf, release, type Viewed } from "./remote";
import type { RecordEntry } from "./record_list";

interface State {
  folder: string;
  records: RecordEntry[];
  model: Job<{ name: string; class: string; parameters: number }> | null;
}

interface Tab {
  title: string;
  origin: Origin;
  view: string;
  store: Store;
}

const MODEL = -1;
const RECORDS = -2;
const START = -3; // nothing selected, state not loaded yet

export class RegardApp extends LitElement {
  static override properties = {
    state: { state: true }, tabs: { state: true }, at: { state: true }, job: { state: true }, problem: { state: true },
  };
  declare state: State | null;
  declare tabs: Tab[];
  declare at: number; // a tab, the live model or the list of records
  declare job: Job | null;
  declare problem: string;

  constructor() {
    super();
    this.state = null;
    this.tabs = [];
    this.at = START;
    this.job = null;
    this.problem = "";
  }

  static override styles = [theme, css`
    :host { background: var(--paper); min-height: 100vh; }
    header { max-width: 96rem; margin: 0 auto; padding: 0.9rem 1.5rem 0.7rem; display: flex; flex-wrap: wrap; gap: 0.5rem 0.9rem; align-items: center; }
    .name { margin: 0; font: 600 1.45rem/1 var(--serif); font-variant: small-caps; letter-spacing: 0.08em; color: var(--glow); }
    nav { display: flex; flex-wrap: wrap; gap: 0.35rem; flex: 1; } nav span { display: inline-flex; max-width: 100%; } nav .close { padding: 0.2rem 0.4rem; margin-left: -0.4rem; border-left: 0; border-radius: 0 0.4rem 0.4rem 0; }
    .job { position: sticky; top: 0; z-index: 2; background: var(--raised); border: 1px solid var(--mark); border-radius: 0.5rem; max-width: 93rem; margin: 0 auto 0.7rem; padding: 0.35rem 0.8rem; display: flex; gap: 0.9rem; align-items: center; }
    progress { accent-color: var(--mark); flex: 1; max-width: 24rem; } .problem { max-width: 96rem; margin: 0 auto 0.7rem; padding: 0 1.5rem; color: #b3261e; } .problem button { margin-left: 0.6rem; }
    .about { max-width: 96rem; margin: 0 auto; padding: 0 1.5rem 0.7rem; } .about blockquote { margin: 0; font: 1.1rem/1.45 var(--serif); max-height: 4.4em; overflow: auto; } .about p { margin: 0.2rem 0 0; color: var(--soft); }
    header label { display: inline-flex; gap: 0.4rem; align-items: center; color: var(--soft); } header select { max-width: 12rem; }
    .records { max-width: 60rem; margin: 0 auto; padding: 0 1.5rem; } details { position: relative; } summary { cursor: pointer; list-style: none; border: 1px solid var(--line); border-radius: 0.4rem; padding: 0.2rem 0.55rem; background: var(--raised); }
    details div { position: absolute; right: 0; z-index: 3; background: var(--raised); border: 1px solid var(--line); border-radius: 0.5rem; padding: 0.4rem; display: grid; gap: 0.3rem; width: max-content; box-shadow: 0 0.4rem 1.2rem #0003; }
    @media (max-width: 40rem) { nav { order: 1; flex-basis: 100%; } header details { margin-left: auto; } }
    @media (prefers-color-scheme: dark) { .problem { color: #ff8a80; } }
  `];

  override connectedCallback(): void {
    super.connectedCallback();
    history.replaceState(null, "", location.pathname + location.hash); // drop the token from the URL: the session cookie replaces it
    this.addEventListener("busy", (event) => (this.job = (event as CustomEvent<Job | null>).detail));
    this.addEventListener("open", (event) => void this.open((event as CustomEvent<RecordEntry>).detail));
    this.addEventListener("moved", () => this.note());
    this.addEventListener("send", (event) => void this.send((event as CustomEvent<File>).detail));
    document.addEventListener("pointerdown", this.pointerPressed);
    document.addEventListener("keydown", this.keyPressed);
    addEventListener("popstate", this.back);
    void this.begin();
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    document.removeEventListener("pointerdown", this.pointerPressed);
    document.removeEventListener("keydown", this.keyPressed);
    removeEventListener("popstate", this.back);
  }

  /** Escape closes the menu wherever the focus is. */
  private readonly keyPressed = (event: KeyboardEvent): void => {
    const menu = this.renderRoot.querySelector("details");
    if (menu) closedByKey(menu, event);
  };

  private readonly back = (): void => {
    const address = addressed(location.hash);
    if (address) void this.restore(address);
  };

  private restoring = false;

  /** The address follows what is shown; another view is another entry of the history. */
  private note(): void {
    if (this.restoring || this.at === START) return;
    const own = selectionOf(this.at >= 0 ? this.tabs[this.at]?.store.choice : null);
    const live = this.live?.address ?? { text: "", second: "", changes: [], place: null };
    const at = this.at >= 0 ? String(this.at) : this.at === MODEL ? "model" : "records";
    const now = written({ ...live, at, records: this.tabs.map((one) => one.origin), place: this.at === MODEL ? live.place : own });
    if (now === location.hash) return;
    const first = !addressed(location.hash) || (this.at === MODEL && !addressed(location.hash)?.text);
    if (first || sameView(now, location.hash)) history.replaceState(null, "", now);
    else history.pushState(null, "", now);
  }

  private async restore(address: Address): Promise<void> {
    this.restoring = true;
    try {
      for (const origin of address.records) if (!this.tabs.some((one) => sameRecord(one.origin, origin))) await this.open(origin);
      const wanted = address.records[Number(address.at)];
      const found = wanted ? this.tabs.findIndex((one) => sameRecord(one.origin, wanted)) : -1;
      if (found >= 0) {
        this.at = found;
        if (address.place) this.tabs[found].store.choose(chosen(address.place));
      } else this.at = address.at === "model" && this.state?.model ? MODEL : RECORDS;
      await this.updateComplete;
      if (this.at === MODEL) this.live?.restore(address);
    } finally {
      this.restoring = false;
    }
  }

  protected override updated(changed: Map<PropertyKey, unknown>): void {
    const shown = this.at >= 0 ? this.tabs[this.at]?.title : this.at === MODEL ? this.state?.model?.result?.name : "";
    document.title = shown ? `${shown} · Regard` : "Regard";
    if (changed.has("at") || changed.has("tabs")) this.note();
  }

  private readonly pointerPressed = (event: Event): void => {
    const menu = this.renderRoot.querySelector("details");
    if (menu) closedByLeaving(menu, event.composedPath());
  };

  private menuLeft(event: FocusEvent): void {
    const menu = event.currentTarget as HTMLDetailsElement;
    const next = event.relatedTarget as Node | null;
    closedByLeaving(menu, next && (menu.contains(next) ? [menu] : []));
  }

  private async begin(): Promise<void> {
    await this.refresh();
    const { state } = this;
    if (this.at === START) this.at = state?.model ? MODEL : RECORDS;
    if (!state) return;
    const address = addressed(location.hash);
    if (address) await this.restore(address);
    const requested = address ? [] : state.records.filter((one) => one.from === "argument");
    for (const one of requested) await this.open(one);
    if (requested.length && this.tabs.length) this.at = 0;
    while (this.state?.model && ["waiting", "running"].includes(this.state.model.state)) {
      await new Promise((done) => setTimeout(done, 400));
      await this.refresh();
    }
  }

  private async refresh(): Promise<void> {
    try {
      this.state = await requestJson<State>("/api/state"); // without clearing the error shown
    } catch (problem) {
      this.refused(problem);
    }
  }

  /** Run, and show the error if it is refused. */
  private async guarded(work: () => Promise<unknown>): Promise<void> {
    try {
      this.problem = "";
      await work();
    } catch (problem) {
      this.refused(problem);
    }
  }

  private refused(problem: unknown): void {
    if (problem instanceof Refused) this.problem = problem.message;
    else if (!(problem instanceof Stopped)) throw problem;
  }

  private readonly onJob = (job: Job<unknown> | null): void => void (this.job = job);

  private open({ from, name, beside }: Origin): Promise<void> {
    const origin: Origin = { from, name, ...(beside ? { beside: { from: beside.from, name: beside.name } } : {}) };
    return this.guarded(async () => this.show(origin, await follow<Viewed>("/api/open", origin, this.onJob)));
  }

  /** Show the open record beside another one, as a tab of its own. */
  private async compare(other: Origin): Promise<void> {
    const { from, name } = this.tabs[this.at].origin;
    const origin = { from, name, beside: other };
    const open = this.tabs.findIndex((one) => sameRecord(one.origin, origin));
    if (open >= 0) this.at = open;
    else await this.open(origin);
  }

  /** Records that the open one can be compared with: the other tabs and what the folder holds. */
  private comparison(): TemplateResult | typeof nothing {
    const own = this.tabs[this.at]?.origin;
    if (!own || own.beside) return nothing;
    const named = [...this.tabs.map((one) => one.origin).filter((one) => !one.beside), ...(this.state?.records ?? [])];
    const others = named.filter((one, at) => !sameRecord(one, own) && named.findIndex((x) => x.from === one.from && x.name === one.name) === at);
    if (!others.length) return nothing;
    const pick = (event: Event) => {
      const list = event.target as HTMLSelectElement;
      const other = others[Number(list.value)];
      list.value = "";
      if (other) void this.compare({ from: other.from, name: other.name });
    };
    return html`<label>Compare with <select aria-label="Compare with another record" @change=${pick}>
      <option value="" selected>…</option>${others.map((one, at) => html`<option value=${at}>${one.name}</option>`)}</select></label>`;
  }

  private send(file: File): Promise<void> {
    return this.guarded(async () => {
      const sent = await follow<Viewed & { name: string }>(`/api/upload?name=${encodeURIComponent(file.name)}`, file, this.onJob);
      await this.show({ from: "upload", name: sent.name }, sent);
      this.state = await requestJson<State>("/api/state");
    });
  }

  private async show(origin: Origin, viewed: Viewed): Promise<void> {
    const store = new Store(await dataOf(viewed, (problem) => (this.problem = problem)));
    store.addEventListener("choice", () => this.note());
    this.tabs = [...this.tabs, { title: origin.beside ? `${origin.name} − ${origin.beside.name}` : origin.name, origin, store, view: viewed.view }];
    this.at = this.tabs.length - 1;
    if (!viewed.about.sites.some((site) => site.large))
      void Promise.all(viewed.about.sites.map((_, s) => store.data.overview(s))).then(() => start(store, ""));
  }

  private close(at: number): void {
    release(this.tabs[at].view, this.tabs[at].store.data);
    this.tabs = this.tabs.filter((_, x) => x !== at);
    if (this.at >= at) this.at = this.at > at ? this.at - 1 : this.tabs.length ? Math.min(at, this.tabs.length - 1) : this.state?.model ? MODEL : RECORDS;
  }

  private get shown(): Store | null {
    if (this.at >= 0) return this.tabs[this.at]?.store ?? null;
    return this.at === MODEL ? (this.live?.store ?? null) : null;
  }

  private get live(): RegardLive | null {
    return this.renderRoot.querySelector<RegardLive>("regard-live");
  }

  private export(kind: "page" | "record", alone: boolean): Promise<void> {
    this.renderRoot.querySelector("details")!.open = false;
    return this.guarded(async () => {
      const store = this.shown;
      if (!store) throw new Refused("There is nothing to export yet.");
      const view = this.at === MODEL ? this.live?.read?.maps.view : this.tabs[this.at].view;
      const body = { view, kind, sites: alone ? [store.site.site] : null };
      const made = await follow<{ file: string; job: string }>("/api/export", body, this.onJob);
      const link = document.createElement("a");
      link.href = `/api/exports/${made.job}`;
      link.download = made.file;
      link.click();
    });
  }

  protected override render() {
    const { state, tabs, at, job } = this;
    const tab = (where: number, title: unknown) => html`<button aria-pressed=${at === where} @click=${() => (this.at = where)}>${title}</button>`;
    return html`
      <header><h1 class="name">Regard</h1>
        <nav aria-label="Open views">${state?.model ? tab(MODEL, html`Live: ${state.model.result?.name ?? "…"}`) : nothing}
          ${tabs.map((one, x) => html`<span>${tab(x, one.title)}<button class="close" aria-label=${`Close ${one.title}`} @click=${() => this.close(x)}>×</button></span>`)}
          <button aria-pressed=${at === RECORDS} @click=${() => { this.at = RECORDS; void this.refresh(); }}>Open …</button></nav>
        ${this.comparison()}
        ${at <= RECORDS ? nothing : html`<details @keydown=${(e: KeyboardEvent) => closedByKey(e.currentTarget as HTMLDetailsElement, e)} @focusout=${this.menuLeft}><summary>Export</summary><div>
          <button @click=${() => void this.export("page", false)}>HTML page, all sites</button>
          <button @click=${() => void this.export("page", true)}>HTML page, this site only</button>
          <button @click=${() => void this.export("record", false)}>Record file (.regard)</button></div></details>`}</header>
      ${job ? html`<div class="job" role="status"><span>${job.says} …</span><progress max="1" .value=${job.of ? job.done / job.of : 0}></progress>
        <span>${job.of ? `${Math.round((100 * job.done) / job.of)} %` : ""}</span><button @click=${() => void stop(job).catch(() => undefined)}>Cancel</button></div>` : nothing}
      ${this.problem ? html`<p class="problem" role="alert">${this.problem}<button @click=${() => (this.problem = "")}>OK</button></p>` : nothing}
      ${state?.model ? html`<regard-live .model=${state.model} ?hidden=${at !== MODEL}></regard-live>` : nothing}
      ${at === RECORDS ? html`<div class="records"><regard-records .records=${state?.records ?? []} .folder=${state?.folder ?? ""}></regard-records>
        ${state && !state.model ? html`<p>To run a model on your own text and intervene on its attention, start with <code>regard serve --model minilm</code>.</p>` : nothing}</div>` : nothing}
      ${at >= 0 && tabs[at] ? this.record(tabs[at].store) : nothing}`;
  }

  private record(store: Store) {
    const { text, facts, beside } = store.data.about;
    const called = (name: string | undefined) => (beside?.text ? html`<small>${name}:</small> ` : nothing);
    return html`<div class="about">${text ? html`<blockquote>${called(beside?.names[0])}${text}</blockquote>` : nothing}${beside?.text ? html`<blockquote>${called(beside.names[1])}${beside.text}</blockquote>` : nothing}${unmatchedSites(store)}${facts ? html`<p>${facts}</p>` : nothing}</div>
      <regard-page bare .store=${store}></regard-page>`;
  }
}
