/** Single weights from queries, keys and the log-sum-exp of each row: w_ij = exp(scale q_i . k_j + bias_j - tau_i). */

export interface Pairs {
  n: number;
  m: number;
  d: number;
  q: Float32Array; // (n, d) of one head
  k: Float32Array; // (m, d)
  tau: Float32Array; // (n), +inf for an empty row
  bias: Float32Array | null; // (m)
  scale: number;
  causal: number | null; // key j is allowed for query i where j <= i + causal
  length: number | null; // and where j < length
  rowOf?: Uint32Array | null; // aligned maps: 1-based index of the query at each position; 0 is none
  columnOf?: Uint32Array | null;
}

/** Whether the mask allows the pair at this position. */
export function allowed(p: Pairs, i: number, j: number): boolean {
  const a = p.rowOf ? p.rowOf[i] - 1 : i;
  const b = p.columnOf ? p.columnOf[j] - 1 : j;
  return a >= 0 && b >= 0 && (p.causal === null || b <= a + p.causal) && (p.length === null || b < p.length);
}

export function exactWeight(p: Pairs, i: number, j: number): number {
  if (!allowed(p, i, j)) return 0;
  const row = p.rowOf ? p.rowOf[i] - 1 : i;
  const column = p.columnOf ? p.columnOf[j] - 1 : j;
  let s = 0;
  const { q, k, d } = p;
  for (let c = 0, a = row * d, b = column * d; c < d; c++) s += q[a + c] * k[b + c];
  const w = Math.exp(p.scale * s + (p.bias ? p.bias[column] : 0) - p.tau[row]);
  return w === w ? w : 0;
}

/** The weights of rows [i0, i1) and columns [j0, j1), row by row. */
export function exactBlock(p: Pairs, i0: number, i1: number, j0: number, j1: number): Float32Array {
  const made = new Float32Array(Math.max(0, i1 - i0) * Math.max(0, j1 - j0));
  let at = 0;
  for (let i = i0; i < i1; i++) for (let j = j0; j < j1; j++) made[at++] = exactWeight(p, i, j);
  return made;
}
