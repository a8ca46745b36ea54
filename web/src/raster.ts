/** Rasterise a map: each pixel has the colour of its weight, or of its cell. */

import { place, type Scale } from "./colour";
import { Head } from "./head";
import { levelFor } from "./levels";
import type { View } from "./layout";

export type CellValue = "peak" | "mean";

export interface RasterStyle {
  scale: Scale;
  cellValue: CellValue;
  top: number;
  least: Float32Array | null; // top-p threshold of each row: smaller weights are left blank
  colours: Uint32Array;
  cold: Uint32Array; // for negative values
}

export interface Drawn {
  size: number; // weights along the side of a drawn cell: 1 is a single weight
  waiting: boolean; // some tiles are not built yet
}

const TILE_BUDGET = 14; // milliseconds for new tiles in one frame

/** Largest cell of a head, without the excluded column. */
export function topOf(head: Head, level: number, cellValue: CellValue, without: number | null): number {
  const { size, rows, cols } = head.levels[cellValue === "peak" ? 0 : level];
  const cells = head.levels[cellValue === "peak" ? 0 : level][cellValue];
  const skip = without === null ? -1 : Math.floor(without / size);
  let top = 0;
  for (let r = 0; r < rows; r++)
    for (let c = 0; c < cols; c++) {
      const x = Math.abs(cells[r * cols + c]);
      if (x > top && c !== skip) top = x;
    }
  return top;
}

/** Largest visible weight or cell: top of a scale normalised to the visible range. */
export function topVisible(head: Head, view: View, width: number, height: number, per: number, cellValue: CellValue, without: number | null): number {
  const single = head.dense === null && head.single && per >= 0.999;
  const level = head.levels[levelFor(head.levels, per)];
  const size = single ? 1 : level.size;
  const [i0, j0] = [Math.max(0, Math.floor(view.y / size)), Math.max(0, Math.floor(view.x / size))];
  const i1 = Math.min(Math.ceil(head.n / size), Math.ceil((view.y + height / view.scale / view.tall) / size));
  const j1 = Math.min(Math.ceil(head.m / size), Math.ceil((view.x + width / view.scale) / size));
  const skip = without === null ? -1 : Math.floor(without / size);
  let top = 0;
  for (let i = i0; i < i1; i++)
    for (let j = j0; j < j1; j++) {
      const tile = single ? head.tile(Math.floor(i / Head.TILE), Math.floor(j / Head.TILE), false) : null;
      const x = single ? (tile ? tile[(i % Head.TILE) * Head.TILE + (j % Head.TILE)] : 0) : level[cellValue][i * level.cols + j];
      if (Math.abs(x) > top && j !== skip) top = Math.abs(x);
    }
  return top;
}

/** Fill an image whose pixels are `ratio` to a CSS pixel. */
export function paint(image: ImageData, head: Head, view: View, ratio: number, style: RasterStyle): Drawn {
  const pixels = new Uint32Array(image.data.buffer);
  const { width, height } = image;
  const per = view.scale * ratio; // device pixels a weight, across
  const down = per * view.tall;
  const single = head.dense === null && head.single && Math.min(per, down) >= 0.999;
  const level = head.levels[levelFor(head.levels, Math.min(per, down))];
  const size = single ? 1 : level.size;
  const columns = new Int32Array(width);
  for (let x = 0; x < width; x++) {
    const j = Math.floor(view.x + (x + 0.5) / per);
    columns[x] = j >= 0 && j < head.m ? j : -1;
  }
  const until = performance.now() + TILE_BUDGET;
  const T = Head.TILE;
  const value = new Float32Array(width);
  const masked = new Uint8Array(width); // masked pairs: transparent, so that the hatching below shows
  let waiting = false;
  let last = -2;
  let tiles: (Float32Array | null)[] = [];
  let tileRow = -1;
  for (let y = 0; y < height; y++) {
    const i = Math.floor(view.y + (y + 0.5) / down);
    const line = y * width;
    if (i < 0 || i >= head.n) {
      pixels.fill(0, line, line + width);
      last = -2;
      continue;
    }
    const at = single ? i : Math.floor(i / size);
    if (at === last) {
      pixels.copyWithin(line, line - width, line);
      continue;
    }
    last = at;
    if (single) {
      if (Math.floor(i / T) !== tileRow) {
        tileRow = Math.floor(i / T);
        tiles = [];
        for (let c = Math.floor(Math.max(0, columns.find((j) => j >= 0) ?? 0) / T); c * T < head.m; c++) {
          if (c * T > view.x + width / per) break;
          tiles[c] = head.tile(tileRow, c, performance.now() < until);
          if (!tiles[c]) waiting = true;
        }
      }
      const coarse = head.levels[0];
      const under = Math.floor(i / coarse.size) * coarse.cols;
      for (let x = 0; x < width; x++) {
        const j = columns[x];
        if (j < 0) continue;
        const tile = tiles[Math.floor(j / T)];
        const at = under + Math.floor(j / coarse.size);
        value[x] = tile ? tile[(i - tileRow * T) * T + (j % T)] : coarse[style.cellValue][at];
        masked[x] = Number(tile ? Number.isNaN(value[x]) : coarse.count?.[at] === 0);
      }
    } else {
      const cells = level[style.cellValue];
      const from = at * level.cols;
      for (let x = 0; x < width; x++) {
        const at = from + Math.floor(columns[x] / size);
        value[x] = columns[x] < 0 ? 0 : cells[at];
        if (level.count) masked[x] = Number(level.count[at] === 0);
      }
    }
    const least = style.least && size === 1 ? style.least[i] : 0;
    for (let x = 0; x < width; x++) {
      const size = Math.abs(value[x]);
      const at = Math.round(255 * place(size < least ? 0 : size, style.top, style.scale));
      pixels[line + x] = columns[x] < 0 || masked[x] ? 0 : (value[x] < 0 ? style.cold : style.colours)[at];
    }
  }
  return { size, waiting };
}

/** A profile at pixel resolution: for each pixel the weight of largest magnitude. */
export function profile(line: Float32Array, from: number, per: number, width: number): Float32Array {
  const made = new Float32Array(width);
  for (let x = 0; x < width; x++) {
    const a = Math.max(0, Math.floor(from + x / per));
    const b = Math.min(line.length, Math.max(a + 1, Math.ceil(from + (x + 1) / per)));
    if (from + (x + 1) / per <= 0) continue;
    for (let j = a; j < b; j++) if (Math.abs(line[j]) > Math.abs(made[x])) made[x] = line[j];
  }
  return made;
}
