/** One head of a map, at the resolution that the page carries. */

import type { Numbers } from "./codec";
import { allowed, exactWeight, type Pairs } from "./exact";
import type { Level } from "./levels";

export interface Weight {
  value: number;
  exact: boolean;
}

const TILE = 64;
const TILES = 1024; // cached tiles of single weights: 16 MB

export class Head {
  private tiles = new Map<number, Float32Array>();
  private anyMasked: boolean | null = null;
  /** Resolved when single weights are available: queries and keys of a large map arrive after its first frame. */
  settled: Promise<void> = Promise.resolve();

  constructor(
    readonly n: number,
    readonly m: number,
    readonly levels: Level[],
    public pairs: Pairs | null,
    private best: { values: Float32Array; keys: Numbers; count: number } | null,
  ) {}

  /** All weights, if the page carries them individually. */
  get dense(): Float32Array | null {
    return this.levels[0].size === 1 ? this.levels[0].peak : null;
  }

  /** Whether single weights are available at all. */
  get single(): boolean {
    return this.dense !== null || this.pairs !== null;
  }

  value(i: number, j: number): number {
    if (this.pairs) return exactWeight(this.pairs, i, j);
    if (this.dense) return this.dense[i * this.m + j];
    return this.levels[0].mean[this.cell(i, j)];
  }

  exact(i: number, j: number): boolean {
    return this.pairs !== null || (this.dense !== null && (this.best === null || this.among(i, j)));
  }

  weight(i: number, j: number): Weight {
    return { value: this.value(i, j), exact: this.exact(i, j) };
  }

  /** Whether the mask allows the pair. */
  allowed(i: number, j: number): boolean {
    if (this.pairs) return allowed(this.pairs, i, j);
    const { count } = this.levels[0];
    return count === null || count[this.cell(i, j)] > 0;
  }

  get restricted(): boolean {
    return (this.anyMasked ??= this.levels[0].count?.includes(0) ?? false);
  }

  private cell(i: number, j: number): number {
    const { size, cols } = this.levels[0];
    return Math.floor(i / size) * cols + Math.floor(j / size);
  }

  private among(i: number, j: number): boolean {
    const { keys, count, values } = this.best!;
    for (let x = i * count; x < (i + 1) * count; x++) if (keys[x] === j) return true;
    return values[(i + 1) * count - 1] === 0; // the smallest of the exact ones is 0: so is every other
  }

  row(i: number): Float32Array {
    if (this.dense) return this.dense.subarray(i * this.m, (i + 1) * this.m);
    return spread(this.m, (j) => this.value(i, j));
  }

  column(j: number): Float32Array {
    const { dense, m } = this;
    return spread(this.n, dense ? (i) => dense[i * m + j] : (i) => this.value(i, j));
  }

  /** A tile of single weights if it is cached, or if there is time to build it; NaN for masked pairs. */
  tile(r: number, c: number, make: boolean): Float32Array | null {
    const key = r * 65536 + c;
    const found = this.tiles.get(key);
    if (found || !make || !this.single) return found ?? null;
    if (this.tiles.size >= TILES) this.tiles.delete(this.tiles.keys().next().value!);
    const made = this.buildTile(r * TILE, c * TILE, TILE);
    this.tiles.set(key, made);
    return made;
  }

  protected buildTile(i0: number, j0: number, size: number): Float32Array {
    const made = new Float32Array(size * size);
    const [i1, j1] = [Math.min(this.n, i0 + size), Math.min(this.m, j0 + size)];
    for (let i = i0; i < i1; i++)
      for (let j = j0; j < j1; j++) made[(i - i0) * size + j - j0] = this.allowed(i, j) ? this.value(i, j) : NaN;
    return made;
  }

  static readonly TILE = TILE;
}

function spread(count: number, of: (x: number) => number): Float32Array {
  const made = new Float32Array(count);
  for (let x = 0; x < count; x++) made[x] = of(x);
  return made;
}
