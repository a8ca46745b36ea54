/** Display names of tokens. */

import type { SiteAbout } from "./data";

// Control characters, and those that change text direction.
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Readable form: whitespace made visible, subword markers removed. */
export function shown(name: string): string {
  const plain = name.replace(/^##/, "").replace(/[Ġ▁]/g, " ").replace(/Ċ/g, "⏎");
  if (plain.trim() === "") return /[\n⏎]/.test(plain) ? "⏎" : "␣";
  return plain.trim().replace(/\n/g, "⏎").replace(CONTROL, "·");
}

export function rowName(site: SiteAbout, i: number): string {
  return site.rows ? shown(site.rows[i]) : String(i);
}

export function columnName(site: SiteAbout, j: number): string {
  return site.columns ? shown(site.columns[j]) : String(j);
}

/** Tick label: + or − before a token that only one of two texts has. */
export function labelled(site: SiteAbout, axis: "rows" | "columns", x: number): string {
  const name = axis === "rows" ? rowName(site, x) : columnName(site, x);
  const mark = site.beside?.[axis][x];
  return mark === "+" ? `+ ${name}` : mark === "-" ? `− ${name}` : name;
}

/** A name with its index. */
export function withIndex(name: string, place: number): string {
  return name === String(place) ? `${place}` : `“${name}” (${place})`;
}

const spaceMarkCache = new WeakMap<string[], boolean>();

/** Whether the tokenizer marks spaces by the first character of a token. */
function writesSpaces(names: string[]): boolean {
  let found = spaceMarkCache.get(names);
  if (found === undefined) spaceMarkCache.set(names, (found = names.some((name) => /^[\sĠ▁]/.test(name))));
  return found;
}

/** Whether a space stands before a token in running text. */
export function spaced(names: string[], j: number): boolean {
  if (j === 0) return false;
  if (/^[\sĠ▁]/.test(names[j])) return true;
  if (writesSpaces(names)) return false;
  return !/^##/.test(names[j]) && !/^[.,;:!?)\]}%’”'…]/.test(names[j]) && !/^[([{“‘]$/.test(names[j - 1]);
}

/** Whether rows and columns are the same tokens (self-attention): a query can then be selected in the text. */
export function same(site: SiteAbout): boolean {
  if (!site.rows || !site.columns || site.n !== site.m) return false;
  return site.rows.every((name, i) => name === site.columns![i]);
}

export function shortened(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
