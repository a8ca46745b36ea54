/** Visible weights as CSV, one line each. */

import type { DifferenceHead } from "./difference";
import type { Head } from "./head";
import type { Box, View } from "./layout";
import type { SiteAbout } from "./data";

export const MOST = 1_000_000; // lines per file

export interface Range {
  i0: number;
  i1: number;
  j0: number;
  j1: number;
}

/** Visible rows and columns. */
export function inWindow(view: View, box: Box, n: number, m: number): Range {
  const down = view.scale * view.tall;
  const [slack, low] = [1e-6, (x: number) => Math.max(0, Math.floor(x + 1e-6))];
  return {
    i0: low(view.y), i1: Math.min(n, Math.ceil(view.y + box.height / down - slack)),
    j0: low(view.x), j1: Math.min(m, Math.ceil(view.x + box.width / view.scale - slack)),
  };
}

/** Quote; an apostrophe keeps spreadsheets from reading a formula (CSV injection). */
export function quoted(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return `"${safe.replaceAll('"', '""')}"`;
}

/** Nine digits: round-trips float32. */
const digits = (x: number): string => String(Number(x.toPrecision(9)));

/** row, its name, column, its name, weight, whether it is exact; of two maps both weights and the difference. Masked pairs are omitted. */
export function table(site: SiteAbout, head: Head, both: DifferenceHead | null, names: string[], range: Range): string {
  const sides = both ? [...names, `${names[0]} - ${names[1]}`] : ["weight"];
  const lines = [["row", "row name", "column", "column name", ...sides, "exact"].map(quoted).join(",")];
  for (let i = range.i0; i < range.i1; i++)
    for (let j = range.j0; j < range.j1; j++) {
      if (!(both ? both.a.allowed(i, j) || both.b.allowed(i, j) : head.allowed(i, j))) continue;
      const told = both ? [both.a, both.b, both].map((x) => (x.allowed(i, j) ? digits(x.value(i, j)) : "")) : [digits(head.value(i, j))];
      const exact = both ? both.exact(i, j) : head.exact(i, j);
      lines.push([i, quoted(site.rows?.[i] ?? String(i)), j, quoted(site.columns?.[j] ?? String(j)), ...told, exact ? 1 : 0].join(","));
    }
  return `${lines.join("\r\n")}\r\n`;
}
