/** What a map tells of the weight that is chosen. */

import { signed, written } from "./colour";
import { compared, type DifferenceHead, type Side } from "./difference";
import type { Head, Weight } from "./head";
import { columnName, rowName, told } from "./names";
import type { Store } from "./store";

export interface Told {
  before: string;
  value: string;
  after: string;
}

const about = (w: Weight, write = written): string => `${w.exact ? "" : "≈ "}${write(w.value)}`;

export function sentence(store: Store, head: Head | null, both: DifferenceHead | null): Told {
  if (!head) return { before: "", value: "", after: "" };
  if (head.n * head.m === 0) return { before: "This map has no weights.", value: "", after: "" };
  const { site } = store;
  const { row, column, side } = store.choice;
  const before = `${told(rowName(site, row), row)} attends to ${told(columnName(site, column), column)}:`;
  if (both) return { before, ...compare(store, both, row, column, side) };
  const w = head.weight(row, column);
  if (!head.open(row, column)) return { before, value: "0", after: "they may not meet" };
  if (!head.single) return { before, value: `≈ ${written(w.value)}`, after: "mean of its cell; this page has no single weights of this map" };
  return { before, value: about(w), after: w.exact ? "" : "rounded" };
}

/** The numbers of both and of the difference; the one that is drawn comes first. */
function compare(store: Store, both: DifferenceHead, row: number, column: number, side: Side): Omit<Told, "before"> {
  const [here, there] = store.data.about.beside!.names;
  const { rows, columns } = store.site.beside!;
  const lone = (mark: string) => (mark === "+" ? here : there);
  const told = (head: Head, i: number, j: number) => (head.open(i, j) ? about(head.weight(i, j)) : "none");
  const numbers = {
    this: told(both.a, row, column), other: told(both.b, row, column),
    difference: compared(rows, row) ? about(both.weight(row, column), signed) : "not compared",
  };
  const marks = [];
  if (!compared(rows, row)) marks.push(`the row is only in ${lone(rows[row])}`);
  if (!compared(columns, column)) marks.push(`the column is only in ${lone(columns[column])}`);
  const all = `${here} ${numbers.this} · ${there} ${numbers.other} · ${here} − ${there} ${numbers.difference}`;
  return { value: numbers[side], after: [all, ...marks].join("; ") };
}
