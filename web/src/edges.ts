/** Edge weights of one head in CSR order: the edges of target i are start[i] to start[i + 1]. */

import type { Numbers } from "./codec";
import { Head } from "./head";
import { leastOf, levelsOf, type Level } from "./levels";

export interface Neighbour {
  node: number; // the other endpoint
  w: number;
  id: number; // index of the caller's edge; from `callerEdges` on, of an added self-loop
}

const CELLS = 1 << 20; // of the finest level of the matrix view

export class Edges {
  private bySource: { start: Uint32Array; slot: Uint32Array } | null = null;
  readonly target: Uint32Array; // of each edge

  constructor(
    readonly n: number,
    readonly m: number,
    readonly start: Numbers,
    readonly source: Numbers,
    readonly id: Numbers,
    readonly w: Float32Array,
    readonly callerEdges: number, // edges of the caller
  ) {
    this.target = new Uint32Array(source.length);
    for (let i = 0; i < n; i++) this.target.fill(i, start[i], start[i + 1]);
  }

  /** w_ij; parallel edges add up. */
  weight(i: number, j: number): number {
    let sum = 0;
    for (let e = this.start[i]; e < this.start[i + 1]; e++) if (this.source[e] === j) sum += this.w[e];
    return sum;
  }

  row(i: number): Float32Array {
    const made = new Float32Array(this.m);
    for (let e = this.start[i]; e < this.start[i + 1]; e++) made[this.source[e]] += this.w[e];
    return made;
  }

  column(j: number): Float32Array {
    const made = new Float32Array(this.n);
    for (const e of this.slots(j)) made[this.target[e]] += this.w[e];
    return made;
  }

  /** Rows [i0, i0 + size) and columns [j0, j0 + size), row by row. */
  tile(i0: number, j0: number, size: number): Float32Array {
    const made = new Float32Array(size * size);
    for (let e = this.start[Math.min(i0, this.n)]; e < this.start[Math.min(i0 + size, this.n)]; e++) {
      const j = this.source[e] - j0;
      if (j >= 0 && j < size) made[(this.target[e] - i0) * size + j] += this.w[e];
    }
    return made;
  }

  private slots(j: number): Uint32Array {
    if (!this.bySource) {
      const start = new Uint32Array(this.m + 1);
      for (const x of this.source) start[x + 1]++;
      for (let x = 0; x < this.m; x++) start[x + 1] += start[x];
      const [slot, next] = [new Uint32Array(this.source.length), start.slice()];
      for (let e = 0; e < slot.length; e++) slot[next[this.source[e]]++] = e;
      this.bySource = { start, slot };
    }
    return this.bySource.slot.subarray(this.bySource.start[j], this.bySource.start[j + 1]);
  }

  /** Edges of a target, largest weight first. */
  incoming(i: number): Neighbour[] {
    const made: Neighbour[] = [];
    for (let e = this.start[i]; e < this.start[i + 1]; e++) made.push({ node: this.source[e], w: this.w[e], id: this.id[e] });
    return made.sort(stronger);
  }

  /** Edges of a source, largest weight first. */
  outgoing(j: number): Neighbour[] {
    return Array.from(this.slots(j), (e) => ({ node: this.target[e], w: this.w[e], id: this.id[e] })).sort(stronger);
  }

  /** Total weight that each source receives. */
  received(): Float32Array {
    const made = new Float32Array(this.m);
    for (let e = 0; e < this.w.length; e++) made[this.source[e]] += Math.abs(this.w[e]);
    return made;
  }

  /** Top-p threshold of each row: larger weights add up to the share; 0 keeps all. */
  least(share: number): Float32Array {
    return Float32Array.from({ length: this.n }, (_, i) => leastOf(this.w.subarray(this.start[i], this.start[i + 1]), share));
  }

  /** The matrix as cells, single weights where they are at most a million. */
  level(): Level {
    let size = 1;
    while (Math.ceil(this.n / size) * Math.ceil(this.m / size) > CELLS) size *= 2;
    const [rows, cols] = [Math.ceil(this.n / size), Math.ceil(this.m / size)];
    const [mean, peak, count] = [0, 1, 2].map(() => new Float32Array(rows * cols));
    for (let e = 0; e < this.w.length; e++) {
      const cell = Math.floor(this.target[e] / size) * cols + Math.floor(this.source[e] / size);
      mean[cell] += this.w[e];
      count[cell]++;
      if (size === 1) peak[cell] = mean[cell]; // parallel edges
      else if (Math.abs(this.w[e]) > Math.abs(peak[cell])) peak[cell] = this.w[e];
    }
    if (size > 1) for (let x = 0; x < mean.length; x++) if (count[x]) mean[x] /= count[x];
    return { size, rows, cols, mean, peak, count: size > 1 ? count : null };
  }

  /** Initial selection: the target of largest degree, and its neighbour of largest weight. */
  opening(): { row: number; column: number } {
    let row = 0;
    for (let i = 1; i < this.n; i++)
      if (this.start[i + 1] - this.start[i] > this.start[row + 1] - this.start[row]) row = i;
    const near = this.incoming(row).filter((x) => x.node !== row);
    return { row, column: near.length ? near[0].node : row };
  }
}

function stronger(a: Neighbour, b: Neighbour): number {
  return Math.abs(b.w) - Math.abs(a.w) || a.node - b.node;
}

/** A head over edges: every weight is exact, and 0 where there is no edge. */
export class EdgeHead extends Head {
  constructor(readonly graph: Edges) {
    super(graph.n, graph.m, levelsOf(graph.level(), graph.n, graph.m), null, null);
  }

  override get single(): boolean {
    return true;
  }

  override get restricted(): boolean {
    return false; // nearly all pairs of a graph are masked: they are left blank
  }

  override value(i: number, j: number): number {
    return this.graph.weight(i, j);
  }

  override exact(): boolean {
    return true;
  }

  override allowed(): boolean {
    return true;
  }

  override row(i: number): Float32Array {
    return this.graph.row(i);
  }

  override column(j: number): Float32Array {
    return this.graph.column(j);
  }

  protected override buildTile(i0: number, j0: number, size: number): Float32Array {
    return this.graph.tile(i0, j0, size);
  }
}
