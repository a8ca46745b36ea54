/** Two maps compared: this, other, and this - other. */

import { Head } from "./head";
import { levelsOf, type Level } from "./levels";

export type Side = "this" | "other" | "difference";

export const SIDES: Side[] = ["this", "other", "difference"];

/** Whether both have the row: "=" same token, "~" substituted; "+" and "-" are in one text only. */
export function compared(marks: string, i: number): boolean {
  return marks[i] === "=" || marks[i] === "~";
}

/** this - other of two heads on the same axes; rows that only one has are not compared. */
export class DifferenceHead extends Head {
  constructor(
    readonly a: Head,
    readonly b: Head,
    private marks: string,
    cells: Level | null,
  ) {
    super(a.n, a.m, levelsOf(cells ?? subtracted(a, b, marks), a.n, a.m), null, null);
    this.settled = Promise.all([a.settled, b.settled]).then(() => undefined);
  }

  override get single(): boolean {
    return this.a.single && this.b.single;
  }

  override value(i: number, j: number): number {
    return compared(this.marks, i) ? this.a.value(i, j) - this.b.value(i, j) : 0;
  }

  override exact(i: number, j: number): boolean {
    return this.a.exact(i, j) && this.b.exact(i, j);
  }

  override allowed(i: number, j: number): boolean {
    return compared(this.marks, i) && (this.a.allowed(i, j) || this.b.allowed(i, j));
  }
}

/** Both maps weight by weight. A pair that only one of them allows is compared too: its weight is 0 in the other. */
function subtracted(a: Head, b: Head, marks: string): Level {
  const { n, m } = a;
  const w = new Float32Array(n * m);
  const [x, y] = [a.dense!, b.dense!];
  const [open, there] = [a.levels[0].count, b.levels[0].count];
  const all = open === null && there === null && !/[-+]/.test(marks);
  const count = all ? null : new Float32Array(n * m);
  for (let i = 0; i < n; i++) {
    if (!compared(marks, i)) continue;
    for (let j = i * m; j < (i + 1) * m; j++) {
      w[j] = x[j] - y[j];
      if (count) count[j] = Math.max(open ? open[j] : 1, there ? there[j] : 1);
    }
  }
  return { size: 1, rows: n, cols: m, mean: w, peak: w, count };
}
