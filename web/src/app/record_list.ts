/** <regard-records>: list of records, and upload. */

import { css, html, LitElement, nothing } from "lit";
import { theme } from "../theme";

export interface RecordEntry {
  from: "argument" | "folder" | "upload";
  name: string;
  bytes: number;
  changed: number;
}

export function sized(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  const power = Math.min(3, Math.floor(Math.log10(bytes) / 3));
  return `${(bytes / 1000 ** power).toPrecision(3)} ${["B", "kB", "MB", "GB"][power]}`;
}

const ORIGIN = { argument: "from the command line", upload: "uploaded", folder: "" };

export class RegardRecords extends LitElement {
  static override properties = { records: { attribute: false }, folder: {}, query: { state: true } };
  declare records: RecordEntry[];
  declare folder: string;
  declare query: string;

  constructor() {
    super();
    this.records = [];
    this.folder = "";
    this.query = "";
  }

  static override styles = [theme, css`
    ul { list-style: none; margin: 0 0 0.6rem; padding: 0; max-height: 50vh; overflow: auto; border: 1px solid var(--line); border-radius: 0.5rem; }
    li button { display: grid; grid-template-columns: 1fr max-content max-content; gap: 1rem; width: 100%; text-align: left; border: 0; border-radius: 0; padding: 0.4rem 0.7rem; }
    li + li button { border-top: 1px solid var(--line); } li button:hover { color: var(--glow); } small { color: var(--soft); } .name { overflow-wrap: anywhere; }
    .drop { border: 1px dashed var(--line); border-radius: 0.5rem; padding: 0.7rem; color: var(--soft); } input[type="search"] { padding: 0.2rem 0.5rem; border: 1px solid var(--line); border-radius: 0.4rem; background: var(--raised); }
  `];

  private emit(name: string, detail: unknown): void {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }

  private upload(files: FileList | null | undefined): void {
    const file = files?.[0];
    if (file) this.emit("send", file);
  }

  protected override render() {
    const found = this.records.filter(({ name }) => name.toLowerCase().includes(this.query.toLowerCase()));
    return html`
      <div class="bar"><label>Records in <b>${this.folder}</b></label>
        ${this.records.length > 8 ? html`<input type="search" placeholder="Find by name" aria-label="Find by name" @input=${(e: Event) => (this.query = (e.target as HTMLInputElement).value)}>` : nothing}</div>
      ${found.length ? html`<ul>${found.map((one) => html`<li><button aria-label=${[one.name, ORIGIN[one.from], sized(one.bytes)].filter(Boolean).join(", ")} @click=${() => this.emit("open", one)}>
          <span class="name">${one.name} ${ORIGIN[one.from] ? html`<small>${ORIGIN[one.from]}</small>` : nothing}</span>
          <small>${sized(one.bytes)}</small><small>${new Date(1000 * one.changed).toLocaleString()}</small></button></li>`)}</ul>`
        : html`<p>No record files in this folder. Create one with <code>regard record minilm "…" -o run.regard</code>.</p>`}
      <div class="drop" @dragover=${(e: DragEvent) => e.preventDefault()} @drop=${(e: DragEvent) => { e.preventDefault(); this.upload(e.dataTransfer?.files); }}>
        <label>Upload a record: drop a file here or <input type="file" accept=".regard" aria-label="Upload a record file" @change=${(e: Event) => this.upload((e.target as HTMLInputElement).files)}></label></div>`;
  }
}
