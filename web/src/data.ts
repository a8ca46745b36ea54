/** The maps of a page: described at once, decoded when they are looked at. */

import { decode, logarithmic, weightOfCode, type Blob64, type Numbers } from "./codec";
import { exactBlock, exactWeight, type Pairs } from "./exact";
import { levelsOf, type Level } from "./levels";

export interface HeadNumbers {
  entropy?: number | null;
  sink?: number | null;
  distance?: number | null;
  elsewhere?: number | null;
}

export interface SiteAbout {
  site: string;
  short: string;
  heads: number;
  n: number;
  m: number;
  rows: string[] | null;
  columns: string[] | null;
  numbers: HeadNumbers[];
  thumbs: Blob64;
  form: "weights" | "qk" | "codes" | "cells";
  weights?: Blob64;
  q?: Blob64;
  k?: Blob64;
  tau?: Blob64;
  bias?: Blob64;
  scale?: number;
  causal?: number;
  length?: number;
  codes?: Blob64;
  top?: number[];
  best?: Blob64;
  keys?: Blob64;
  cell?: number;
  mean?: Blob64;
  peak?: Blob64;
  count?: Blob64;
}

export interface PageAbout {
  version: number;
  title: string;
  facts: string;
  text: string;
  sites: SiteAbout[];
}

export interface Weight {
  value: number;
  exact: boolean;
}

const KEPT = 4e7; // weights of heads that were looked at before: 160 MB
const TILE = 64;
const TILES = 1024; // tiles of single weights that are kept: 16 MB

/** One head, as fine as the page has it. */
export class Head {
  private tiles = new Map<number, Float32Array>();
  /** Settled when single weights can be had: queries and keys of a large map arrive after its first picture. */
  settled: Promise<void> = Promise.resolve();

  constructor(
    readonly n: number,
    readonly m: number,
    readonly levels: Level[],
    public pairs: Pairs | null,
    private best: { values: Float32Array; keys: Numbers; count: number } | null,
  ) {}

  /** All weights, where the page has them one by one. */
  get dense(): Float32Array | null {
    return this.levels[0].size === 1 ? this.levels[0].peak : null;
  }

  /** Whether single weights can be had at all. */
  get single(): boolean {
    return this.dense !== null || this.pairs !== null;
  }

  weight(i: number, j: number): Weight {
    if (this.pairs) return { value: exactWeight(this.pairs, i, j), exact: true };
    if (this.dense) return { value: this.dense[i * this.m + j], exact: this.best === null || this.among(i, j) };
    const cell = this.levels[0];
    return { value: cell.mean[Math.floor(i / cell.size) * cell.cols + Math.floor(j / cell.size)], exact: false };
  }

  private among(i: number, j: number): boolean {
    const { keys, count, values } = this.best!;
    for (let x = i * count; x < (i + 1) * count; x++) if (keys[x] === j) return true;
    return values[(i + 1) * count - 1] === 0; // the least of the exact ones is 0: so is every other
  }

  row(i: number): Float32Array {
    if (this.dense) return this.dense.subarray(i * this.m, (i + 1) * this.m);
    if (this.pairs) return exactBlock(this.pairs, i, i + 1, 0, this.m);
    return this.spread(this.m, (j) => this.weight(i, j).value);
  }

  column(j: number): Float32Array {
    if (this.dense) return this.spread(this.n, (i) => this.dense![i * this.m + j]);
    if (this.pairs) return exactBlock(this.pairs, 0, this.n, j, j + 1);
    return this.spread(this.n, (i) => this.weight(i, j).value);
  }

  private spread(count: number, of: (x: number) => number): Float32Array {
    const made = new Float32Array(count);
    for (let x = 0; x < count; x++) made[x] = of(x);
    return made;
  }

  /** A tile of single weights if it is there, or if there is time to make it. */
  tile(r: number, c: number, make: boolean): Float32Array | null {
    const key = r * 65536 + c;
    const found = this.tiles.get(key);
    if (found || !make || !this.pairs) return found ?? null;
    const made = new Float32Array(TILE * TILE);
    const i1 = Math.min(this.n, (r + 1) * TILE);
    const j1 = Math.min(this.m, (c + 1) * TILE);
    for (let i = r * TILE; i < i1; i++)
      for (let j = c * TILE; j < j1; j++) made[(i - r * TILE) * TILE + j - c * TILE] = exactWeight(this.pairs, i, j);
    if (this.tiles.size >= TILES) this.tiles.delete(this.tiles.keys().next().value!);
    this.tiles.set(key, made);
    return made;
  }

  static readonly TILE = TILE;
}

export class MapData {
  readonly sites: SiteAbout[];
  private arrays = new Map<number, Promise<Numbers>>();
  private heads = new Map<string, Promise<Head>>();
  private table: Float32Array | null = null;

  constructor(
    readonly about: PageAbout,
    private text: (blob: number) => string,
  ) {
    this.sites = about.sites;
  }

  array(blob: Blob64): Promise<Numbers> {
    let found = this.arrays.get(blob.blob);
    if (!found) this.arrays.set(blob.blob, (found = decode(this.text(blob.blob), blob)));
    return found;
  }

  head(site: number, head: number): Promise<Head> {
    const key = `${site}.${head}`;
    let found = this.heads.get(key);
    if (!found) {
      const { n, m } = this.sites[site];
      const most = Math.max(3, Math.min(24, Math.floor(KEPT / Math.max(1, n * m)))); // a large one takes more room
      while (this.heads.size >= most) this.heads.delete(this.heads.keys().next().value!);
      this.heads.set(key, (found = this.made(this.sites[site], head)));
    }
    return found;
  }

  private async pairs(site: SiteAbout, head: number): Promise<Pairs | null> {
    if (!site.q || !site.k || !site.tau) return null;
    const [q, k, tau] = (await Promise.all([site.q, site.k, site.tau].map((x) => this.array(x)))) as Float32Array[];
    const bias = site.bias ? ((await this.array(site.bias)) as Float32Array) : null;
    const { n, m } = site;
    const d = site.q.shape[2];
    const shared = site.heads / site.k.shape[0]; // heads that look at the same keys
    const kh = Math.floor(head / shared);
    return {
      n, m, d, scale: site.scale ?? 1, causal: site.causal ?? null, length: site.length ?? null,
      q: q.subarray(head * n * d, (head + 1) * n * d), k: k.subarray(kh * m * d, (kh + 1) * m * d),
      tau: tau.subarray(head * n, (head + 1) * n), bias: bias && bias.subarray(head * m, (head + 1) * m),
    };
  }

  private async made(site: SiteAbout, head: number): Promise<Head> {
    const { n, m } = site;
    if (site.form === "cells") return this.ofCells(site, head);
    const pairs = await this.pairs(site, head);
    let w: Float32Array;
    let best = null;
    if (site.form === "weights") {
      w = ((await this.array(site.weights!)) as Float32Array).subarray(head * n * m, (head + 1) * n * m);
    } else if (site.form === "qk") {
      w = exactBlock(pairs!, 0, n, 0, m);
    } else {
      const codes = (await this.array(site.codes!)).subarray(head * n * m, (head + 1) * n * m);
      const count = site.best!.shape[2];
      const values = ((await this.array(site.best!)) as Float32Array).subarray(head * n * count, (head + 1) * n * count);
      const keys = (await this.array(site.keys!)).subarray(head * n * count, (head + 1) * n * count);
      const table = Float32Array.from({ length: 256 }, (_, c) => weightOfCode(c, site.top![head]));
      w = new Float32Array(n * m);
      for (let x = 0; x < w.length; x++) w[x] = table[codes[x]];
      for (let x = 0; x < values.length; x++) w[Math.floor(x / count) * m + keys[x]] = values[x];
      best = { values, keys, count };
    }
    const first: Level = { size: 1, rows: n, cols: m, mean: w, peak: w, count: null };
    return new Head(n, m, levelsOf(first, n, m), pairs, best);
  }

  private async ofCells(site: SiteAbout, head: number): Promise<Head> {
    const { n, m } = site;
    const [, rows, cols] = site.peak!.shape;
    const part = async (blob: Blob64) => {
      const all = await this.array(blob);
      const at = blob.shape[0] === 1 ? 0 : head;
      return all.subarray(at * rows * cols, (at + 1) * rows * cols);
    };
    const [mean, peak, count] = await Promise.all([part(site.mean!), part(site.peak!), part(site.count!)]);
    const table = (this.table ??= logarithmic());
    const first: Level = {
      size: site.cell!, rows, cols, count: Float32Array.from(count),
      mean: Float32Array.from(mean, (c) => table[c]), peak: Float32Array.from(peak, (c) => table[c]),
    };
    const made = new Head(n, m, levelsOf(first, n, m), null, null);
    made.settled = pause().then(() => this.pairs(site, head)).then((pairs) => void (made.pairs = pairs));
    return made;
  }
}

/** Until the browser has drawn. */
function pause(): Promise<void> {
  return new Promise((done) => setTimeout(done, 60));
}
