/** What tokens are called on a page. */

import type { SiteAbout } from "./data";

// What writes nothing, and what turns the direction of what stands around it.
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** As people read it: spaces and line ends seen, pieces of words without their marks. */
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

/** As an axis has it: before a token that only one of two texts has, + or −. */
export function labelled(site: SiteAbout, axis: "rows" | "columns", x: number): string {
  const name = axis === "rows" ? rowName(site, x) : columnName(site, x);
  const mark = site.beside?.[axis][x];
  return mark === "+" ? `+ ${name}` : mark === "-" ? `− ${name}` : name;
}

/** A name with its place, for a sentence. */
export function told(name: string, place: number): string {
  return name === String(place) ? `${place}` : `“${name}” (${place})`;
}

const written = new WeakMap<string[], boolean>();

/** Whether a tokenizer writes its spaces down, as a token's first character. */
function writesSpaces(names: string[]): boolean {
  let found = written.get(names);
  if (found === undefined) written.set(names, (found = names.some((name) => /^[\sĠ▁]/.test(name))));
  return found;
}

/** Whether a space stands before a token in running text. */
export function spaced(names: string[], j: number): boolean {
  if (j === 0) return false;
  if (/^[\sĠ▁]/.test(names[j])) return true;
  if (writesSpaces(names)) return false;
  return !/^##/.test(names[j]) && !/^[.,;:!?)\]}%’”'…]/.test(names[j]) && !/^[([{“‘]$/.test(names[j - 1]);
}

/** Whether rows and columns are the same tokens: what attends may then be chosen in the text. */
export function same(site: SiteAbout): boolean {
  if (!site.rows || !site.columns || site.n !== site.m) return false;
  return site.rows.every((name, i) => name === site.columns![i]);
}

export function shortened(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
