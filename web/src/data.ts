/** The maps of a page: described at once, decoded on demand. */

import { bitsOf, decode, logarithmic, signedLogarithmic, weightOfCode, type Blob64, type Numbers } from "./codec";
import { DifferenceHead, type Side } from "./difference";
import { EdgeHead, Edges } from "./edges";
import { allowed, exactBlock, type Pairs } from "./exact";
import { Head } from "./head";
import { levelsOf, type Level } from "./levels";
import type { Rationale } from "./overlap";

export interface HeadNumbers {
  entropy?: number | null;
  sink?: number | null;
  distance?: number | null;
  elsewhere?: number | null;
  importance?: number | null; // passed by the caller
  loops?: number | null; // weight on the self-loop
  change?: number | null; // total variation distance to the other map, mean over rows
}

/** The finest level of a large map. */
export interface Cells {
  cell?: number;
  mean?: Blob64;
  peak?: Blob64;
  count?: Blob64;
}

/** The other map, on the same rows and columns; marks say which tokens both have. */
export interface BesideAbout {
  other: SiteAbout;
  difference: Cells & { thumbs: Blob64 };
  rows: string;
  columns: string;
}

export interface SiteAbout extends Cells {
  site: string;
  short: string;
  heads: number;
  n: number;
  m: number;
  rows: string[] | null;
  columns: string[] | null;
  large?: boolean; // from a server: heads are fetched one by one
  numbers: HeadNumbers[];
  thumbs: Blob64;
  form: "weights" | "qk" | "codes" | "cells" | "edges";
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
  open?: Blob64; // bit mask of the allowed pairs
  rowOf?: Blob64; // aligned maps: 1-based index of the query and key at each position
  columnOf?: Blob64;
  beside?: BesideAbout;
  steps?: { first: number; written: (string | null)[] }; // of a generation: the first row that generated a token, and each token
  start?: Blob64; // of a graph: CSR row pointers, source and id of each edge, number of edges of the caller
  source?: Blob64;
  edge?: Blob64;
  edges?: number;
  graph?: number; // index into the graphs of the page
}

/** The nodes of a graph: `first` of them are attended and never attend, where those are others than the rest. */
export interface GraphAbout {
  count: number;
  first: number;
  places: Blob64;
  classes?: Blob64;
  called?: string[];
}

/** An image and its patch grid: boxes (left, upper, right, lower, name) and fixations (x, y, seconds) in pixels. */
export interface ImageAbout {
  png: number;
  width: number;
  height: number;
  said: string;
  grid: [number, number];
  skip: number;
  patch: [number, number];
  boxes: (number | string)[][];
  fixations: number[][];
}

export interface PageAbout {
  version: number;
  title: string;
  facts: string;
  text: string;
  sites: SiteAbout[];
  rationale?: Rationale;
  beside?: { names: [string, string]; text: string; only: [string[], string[]] };
  graphs?: GraphAbout[];
  image?: ImageAbout;
}

const CACHED_WEIGHTS = 4e7; // weights of cached heads: 160 MB

export class MapData {
  readonly sites: SiteAbout[];
  private arrays = new Map<number, Promise<Numbers>>();
  private heads = new Map<string, Promise<Head>>();
  private tables: Partial<Record<"plain" | "signed", Float32Array>> = {};

  constructor(
    readonly about: PageAbout,
    private text: (blob: number) => string | Uint8Array<ArrayBuffer>,
  ) {
    this.sites = about.sites;
  }

  array(blob: Blob64): Promise<Numbers> {
    let found = this.arrays.get(blob.blob);
    if (!found) this.arrays.set(blob.blob, (found = decode(this.text(blob.blob), blob)));
    return found;
  }

  /** Resolved when thumbnails and statistics of a site are available; a standalone page carries them. */
  readonly overview: (site: number) => Promise<void> = () => Promise.resolve();

  head(site: number, head: number, side: Side = "this"): Promise<Head> {
    const key = `${site}.${head}.${side}`;
    let found = this.heads.get(key);
    if (!found) {
      const { n, m } = this.sites[site];
      const most = Math.max(3, Math.min(24, Math.floor(CACHED_WEIGHTS / Math.max(1, n * m)))); // fewer when heads are large
      while (this.heads.size >= most) this.heads.delete(this.heads.keys().next().value!);
      const about = this.sites[site];
      const made = side === "difference" && about.beside ? this.difference(site, head, about.beside)
        : this.made((side === "other" ? about.beside?.other : null) ?? about, head);
      this.heads.set(key, (found = made));
    }
    return found;
  }

  private async difference(site: number, head: number, { difference, rows }: BesideAbout): Promise<Head> {
    const [a, b] = await Promise.all([this.head(site, head, "this"), this.head(site, head, "other")]);
    const cells = difference.cell ? await this.cells(difference, head, (this.tables.signed ??= signedLogarithmic())) : null;
    return new DifferenceHead(a, b, rows, cells);
  }

  private async pairs(site: SiteAbout, head: number): Promise<Pairs | null> {
    if (!site.q || !site.k || !site.tau) return null;
    const [q, k, tau] = (await Promise.all([site.q, site.k, site.tau].map((x) => this.array(x)))) as Float32Array[];
    const bias = site.bias ? ((await this.array(site.bias)) as Float32Array) : null;
    const [, n, d] = site.q.shape;
    const m = site.k.shape[1];
    const places = async (blob?: Blob64) => (blob ? ((await this.array(blob)) as Uint32Array) : null);
    const shared = site.heads / site.k.shape[0]; // query heads per key head (GQA)
    const kh = Math.floor(head / shared);
    return {
      n, m, d, scale: site.scale ?? 1, causal: site.causal ?? null, length: site.length ?? null,
      q: q.subarray(head * n * d, (head + 1) * n * d), k: k.subarray(kh * m * d, (kh + 1) * m * d),
      tau: tau.subarray(head * n, (head + 1) * n), bias: bias && bias.subarray(head * m, (head + 1) * m),
      rowOf: await places(site.rowOf), columnOf: await places(site.columnOf),
    };
  }

  private async made(site: SiteAbout, head: number): Promise<Head> {
    const { n, m } = site;
    if (site.form === "cells") return this.ofCells(site, head);
    if (site.form === "edges") return this.ofEdges(site, head);
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
    const first: Level = { size: 1, rows: n, cols: m, mean: w, peak: w, count: await this.allowedPairs(site, head, pairs) };
    return new Head(n, m, levelsOf(first, n, m), pairs, best);
  }

  private async ofEdges(site: SiteAbout, head: number): Promise<Head> {
    const parts = [site.start!, site.source!, site.edge!, site.weights!].map((x) => this.array(x));
    const [start, source, id, w] = await Promise.all(parts);
    const own = (w as Float32Array).subarray(head * source.length, (head + 1) * source.length);
    return new EdgeHead(new Edges(site.n, site.m, start, source, id, own, site.edges!));
  }

  /** The image as a data URL. */
  png(image: ImageAbout): string {
    return `data:image/png;base64,${this.text(image.png)}`;
  }

  /** 1 for each allowed pair, 0 for a masked one; null when none is masked. */
  private async allowedPairs(site: SiteAbout, head: number, pairs: Pairs | null): Promise<Float32Array | null> {
    const { n, m } = site;
    if (site.open) return bitsOf(await this.array(site.open), site.open.shape[0] === 1 ? 0 : head, site.open.shape[1], n * m);
    if (!pairs || (pairs.causal === null && pairs.length === null && !pairs.rowOf)) return null;
    const made = new Float32Array(n * m);
    for (let i = 0, at = 0; i < n; i++) for (let j = 0; j < m; j++) made[at++] = allowed(pairs, i, j) ? 1 : 0;
    return made;
  }

  private async cells(about: Cells, head: number, table: Float32Array): Promise<Level> {
    const [, rows, cols] = about.peak!.shape;
    const part = async (blob: Blob64) => {
      const all = await this.array(blob);
      const at = blob.shape[0] === 1 ? 0 : head;
      return all.subarray(at * rows * cols, (at + 1) * rows * cols);
    };
    const [mean, peak, count] = await Promise.all([part(about.mean!), part(about.peak!), part(about.count!)]);
    return {
      size: about.cell!, rows, cols, count: Float32Array.from(count),
      mean: Float32Array.from(mean, (c) => table[c]), peak: Float32Array.from(peak, (c) => table[c]),
    };
  }

  private async ofCells(site: SiteAbout, head: number): Promise<Head> {
    const { n, m } = site;
    const first = await this.cells(site, head, (this.tables.plain ??= logarithmic()));
    const made = new Head(n, m, levelsOf(first, n, m), null, null);
    made.settled = pause().then(() => this.pairs(site, head)).then((pairs) => void (made.pairs = pairs));
    return made;
  }
}

/** Let the browser draw first. */
function pause(): Promise<void> {
  return new Promise((done) => setTimeout(done, 60));
}
