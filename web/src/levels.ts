/** Mipmap levels of a map: from single weights, or the cells of a pyramid, down to a few cells. */

export interface Level {
  size: number; // weights along the side of a cell
  rows: number;
  cols: number;
  mean: Float32Array;
  peak: Float32Array;
  count: Float32Array | null; // allowed pairs of each cell; null: all
}

/** 2 x 2 pooling: means weighted by counts, peaks of the largest magnitude. */
export function halved(of: Level, n: number, m: number): Level {
  const rows = Math.ceil(of.rows / 2);
  const cols = Math.ceil(of.cols / 2);
  const mean = new Float32Array(rows * cols);
  const peak = new Float32Array(rows * cols);
  const count = new Float32Array(rows * cols);
  for (let r = 0; r < of.rows; r++) {
    const high = Math.min(of.size, n - r * of.size);
    for (let c = 0; c < of.cols; c++) {
      const from = r * of.cols + c;
      const to = (r >> 1) * cols + (c >> 1);
      const pairs = of.count ? of.count[from] : high * Math.min(of.size, m - c * of.size);
      mean[to] += of.mean[from] * pairs;
      count[to] += pairs;
      if (Math.abs(of.peak[from]) > Math.abs(peak[to])) peak[to] = of.peak[from];
    }
  }
  for (let x = 0; x < mean.length; x++) if (count[x] > 0) mean[x] /= count[x];
  return { size: of.size * 2, rows, cols, mean, peak, count };
}

export function levelsOf(first: Level, n: number, m: number): Level[] {
  const made = [first];
  while (Math.max(made[made.length - 1].rows, made[made.length - 1].cols) > 64)
    made.push(halved(made[made.length - 1], n, m));
  return made;
}

/** The finest level whose cells are at least a pixel wide. */
export function levelFor(levels: Level[], pixels: number): number {
  const found = levels.findIndex((level) => level.size * pixels >= 0.999);
  return found < 0 ? levels.length - 1 : found;
}

/** Top-p threshold of a row: larger weights add up to the share; 0 keeps all. */
export function leastOf(weights: Float32Array, share: number): number {
  if (share >= 1) return 0;
  const row = Float32Array.from(weights, Math.abs).sort();
  const total = row.reduce((a, b) => a + b, 0);
  let sum = 0;
  let least = 0;
  for (let j = row.length - 1; j >= 0; j--) {
    sum += row[j];
    least = row[j];
    if (sum >= share * total - 1e-7) break;
  }
  return least;
}

/** The same for each row of a map. */
export function massThresholds(w: Float32Array, n: number, m: number, share: number): Float32Array {
  return Float32Array.from({ length: n }, (_, i) => leastOf(w.subarray(i * m, (i + 1) * m), share));
}
