/** Agreement of weights with a human rationale. */

/** Spans [start, stop) of marked tokens, and the number of annotated tokens if known. */
export interface Rationale {
  spans: [number, number][];
  length: number | null;
}

/** 0/1 mask over the columns; null if the rationale does not fit them. */
export function marksOf(rationale: Rationale | undefined, m: number): Uint8Array | null {
  if (!rationale) return null;
  const { spans, length } = rationale;
  if (length !== null ? length !== m : spans.some(([, stop]) => stop > m)) return null;
  const made = new Uint8Array(m);
  for (const [start, stop] of spans) made.fill(1, start, stop);
  return made;
}

export interface Overlap {
  auprc: number; // average precision: sum over falling thresholds of (recall gained) x precision
  precision: number; // precision@k, k = number of marked tokens; ties count proportionally
  chance: number; // expectation of both for random weights
  marked: number;
}

export function overlap(weights: ArrayLike<number>, marks: ArrayLike<number>): Overlap {
  const order = Array.from({ length: weights.length }, (_, j) => j).sort((a, b) => weights[b] - weights[a]);
  let marked = 0;
  for (let j = 0; j < marks.length; j++) marked += marks[j];
  let [seen, hits, auprc, top] = [0, 0, 0, 0];
  for (let x = 0; x < order.length; ) {
    let [next, here] = [x, 0];
    while (next < order.length && weights[order[next]] === weights[order[x]]) here += marks[order[next++]]; // ties come in together
    if (x < marked) top += here * Math.min(1, (marked - x) / (next - x));
    seen = next;
    hits += here;
    auprc += (here / marked) * (hits / seen);
    x = next;
  }
  return { auprc, precision: top / marked, chance: marked / weights.length, marked };
}
