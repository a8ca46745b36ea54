/** Readout of the selected weight. */

import { signed, written } from "./colour";
import { compared, type DifferenceHead, type Side } from "./difference";
import type { Head, Weight } from "./head";
import { columnName, rowName, withIndex } from "./token_names";
import type { Store } from "./store";

export interface Readout {
  before: string;
  value: string;
  after: string;
}

const about = (w: Weight, write = written): string => `${w.exact ? "" : "≈ "}${write(w.value)}`;

export function readout(store: Store, head: Head | null, both: DifferenceHead | null): Readout {
  if (!head) return { before: "", value: "", after: "" };
  if (head.n * head.m === 0) return { before: "This map has no weights.", value: "", after: "" };
  const { site } = store;
  const { row, column, side } = store.choice;
  const before = `${withIndex(rowName(site, row), row)} attends to ${withIndex(columnName(site, column), column)}:`;
  if (both) return { before, ...compareWeights(store, both, row, column, side) };
  const w = head.weight(row, column);
  if (!head.allowed(row, column)) return { before, value: "0", after: "masked pair" };
  if (!head.single) return { before, value: `≈ ${written(w.value)}`, after: "mean of its cell; this page does not carry the individual weights of this map" };
  return { before, value: about(w), after: w.exact ? "" : "8-bit approximation" };
}

/** Both weights and their difference; the value is that of the map shown. */
function compareWeights(store: Store, both: DifferenceHead, row: number, column: number, side: Side): Omit<Readout, "before"> {
  const [here, there] = store.names!;
  const { rows, columns } = store.site.beside ?? { rows: "=".repeat(both.n), columns: "=".repeat(both.m) };
  const onlyIn = (mark: string) => (mark === "+" ? here : there);
  const weightText = (head: Head, i: number, j: number) => (head.allowed(i, j) ? about(head.weight(i, j)) : "none");
  const numbers = {
    this: weightText(both.a, row, column), other: weightText(both.b, row, column),
    difference: compared(rows, row) ? about(both.weight(row, column), signed) : "not compared",
  };
  const marks = [];
  if (!compared(rows, row)) marks.push(`the row is only in ${onlyIn(rows[row])}`);
  if (!compared(columns, column)) marks.push(`the column is only in ${onlyIn(columns[column])}`);
  const all = `${here} ${numbers.this} · ${there} ${numbers.other} · ${here} − ${there} ${numbers.difference}`;
  return { value: numbers[side], after: [all, ...marks].join("; ") };
}
