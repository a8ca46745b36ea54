/** Export of what is shown, as PNG, SVG or CSV. */

import { html, type TemplateResult } from "lit";
import type { Store } from "./store";

/** File name from the title and the selection. */
export function fileName(store: Store, part: string, kind: string): string {
  const { choice, site, data } = store;
  const title = `${data.about.title} ${site.short}.${choice.head}${choice.side === "this" ? "" : ` ${choice.side}`} ${part}`;
  const plain = title.normalize("NFC").replace(/[^\p{L}\p{N}.]+/gu, "-").replace(/^[-.]+|[-.]+$/g, "").slice(0, 80);
  return `${plain || "regard"}.${kind}`;
}

export function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** A canvas over the background colour, as PNG. */
export function savePicture(canvas: HTMLCanvasElement, paper: string, name: string): void {
  const made = document.createElement("canvas");
  made.width = canvas.width;
  made.height = canvas.height;
  const context = made.getContext("2d")!;
  context.fillStyle = paper;
  context.fillRect(0, 0, made.width, made.height);
  context.drawImage(canvas, 0, 0);
  made.toBlob((blob) => blob && save(blob, name), "image/png");
}

export function saveText(text: string, type: string, name: string): void {
  save(new Blob([text], { type: `${type};charset=utf-8` }), name);
}

/** One button per file type; `soon` runs the export once the view is ready. */
export function savers(kinds: Record<string, () => void>, what: string, soon: (run: () => void) => Promise<void>): TemplateResult {
  return html`<span class="savers" role="group" aria-label=${`Save ${what}`}>${Object.entries(kinds).map(([kind, run]) =>
    html`<button title=${`Save ${what} as ${kind}`} @click=${() => void soon(run)}>${kind}</button>`)}</span>`;
}
