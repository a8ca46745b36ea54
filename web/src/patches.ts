/** Tokens and image patches: after `skip` non-patch tokens (such as [CLS]), patches in row-major order. */

import type { ImageAbout } from "./data";

type Grid = Pick<ImageAbout, "grid" | "skip" | "patch" | "boxes">;

export function tokenOf(image: Grid, r: number, c: number): number {
  return image.skip + r * image.grid[1] + c;
}

/** The patch that a token stands for. */
export function patchOf(image: Grid, token: number): { r: number; c: number } | null {
  const at = token - image.skip;
  if (at < 0 || at >= image.grid[0] * image.grid[1]) return null;
  return { r: Math.floor(at / image.grid[1]), c: at % image.grid[1] };
}

/** The token under a pixel; none where no patch covers it. */
export function patchAt(image: Grid, x: number, y: number): number | null {
  const [r, c] = [Math.floor(y / image.patch[0]), Math.floor(x / image.patch[1])];
  return r >= 0 && c >= 0 && r < image.grid[0] && c < image.grid[1] ? tokenOf(image, r, c) : null;
}

/** Weight of a row on patches, and in total. */
export function shareOf(image: Grid, weights: Float32Array): { patches: number; total: number } {
  let [patches, total] = [0, 0];
  for (let j = 0; j < weights.length; j++) {
    total += weights[j];
    if (patchOf(image, j)) patches += weights[j];
  }
  return { patches, total };
}

const coverageCache = new WeakMap<Grid, Float32Array>();

/** Box coverage of each patch, cached. */
function coverage(image: Grid): Float32Array {
  let made = coverageCache.get(image);
  if (!made) {
    const columns = image.grid[1];
    made = Float32Array.from({ length: image.grid[0] * columns }, (_, x) => covered(image, Math.floor(x / columns), x % columns));
    coverageCache.set(image, made);
  }
  return made;
}

/** Share of a patch covered by the union of the boxes, on a 16 x 16 grid of points. */
function covered(image: Grid, r: number, c: number): number {
  const fine = 16;
  const [tall, wide] = image.patch;
  let inside = 0;
  for (let a = 0; a < fine; a++)
    for (let b = 0; b < fine; b++) {
      const [x, y] = [(c + (b + 0.5) / fine) * wide, (r + (a + 0.5) / fine) * tall];
      if ((image.boxes as number[][]).some(([left, upper, right, lower]) => x >= left && x < right && y >= upper && y < lower)) inside++;
    }
  return inside / (fine * fine);
}

/** Share of the weight on patches that falls into boxes, and share of the patch area that boxes cover. */
export function inBoxes(image: Grid, weights: Float32Array): { mass: number; area: number } {
  let [inside, total, area] = [0, 0, 0];
  const parts = coverage(image);
  parts.forEach((part, x) => {
    inside += part * weights[image.skip + x];
    total += weights[image.skip + x];
    area += part;
  });
  return { mass: total ? inside / total : 0, area: area / parts.length };
}
