/** Where things stand: a window onto a map, and columns of tokens with lines between them. */

export interface View {
  x: number; // the column at the left edge
  y: number; // the row at the upper edge
  scale: number; // pixels a weight, across
  tall: number; // and how much higher than wide a weight is: 1, but for maps of few rows or few columns
}

export interface Box {
  width: number;
  height: number;
}

/** The scale at which the whole map is in the box. */
export function fit(n: number, m: number, box: Box, tall: number): number {
  return Math.min(box.width / Math.max(1, m), box.height / Math.max(1, n) / tall);
}

export const CLOSEST = 44; // pixels a weight at the most: room for its number

/** The nearest scale that may be had. */
export function limited(scale: number, n: number, m: number, box: Box, tall: number): number {
  const least = fit(n, m, box, tall);
  return Math.min(Math.max(scale, least), Math.max(CLOSEST, least));
}

/** A window that shows no more than there is, centred where the map is smaller than the box. */
export function clamped(view: View, n: number, m: number, box: Box): View {
  const { tall } = view;
  const scale = limited(view.scale, n, m, box, tall);
  const across = box.width / scale;
  const down = box.height / scale / tall;
  const x = across >= m ? (m - across) / 2 : Math.min(Math.max(view.x, 0), m - across);
  const y = down >= n ? (n - down) / 2 : Math.min(Math.max(view.y, 0), n - down);
  return { x, y, scale, tall };
}

/** Closer by a factor, with the weight under (px, py) where it was. */
export function zoomed(view: View, factor: number, px: number, py: number): View {
  const { tall } = view;
  const scale = view.scale * factor;
  return { x: view.x + px / view.scale - px / scale, y: view.y + (py / view.scale - py / scale) / tall, scale, tall };
}

/** A window moved as little as needed for a weight to be in it. */
export function revealing(view: View, i: number, j: number, box: Box): View {
  const across = box.width / view.scale;
  const down = box.height / view.scale / view.tall;
  const x = j < view.x ? j : j + 1 > view.x + across ? j + 1 - across : view.x;
  const y = i < view.y ? i : i + 1 > view.y + down ? i + 1 - down : view.y;
  return { ...view, x, y };
}

/** How many names to pass over so that those written stand at least `room` pixels apart: 1, 2, 5, 10, ... */
export function stride(scale: number, room: number): number {
  for (let power = 1; ; power *= 10)
    for (const digit of [1, 2, 5]) if (digit * power * scale >= room) return digit * power;
}

/** Indices of a list that is scrolled: those in sight, and a few more. */
export function inSight(count: number, top: number, height: number, line: number): [number, number] {
  return [Math.max(0, Math.floor(top / line) - 1), Math.min(count, Math.ceil((top + height) / line) + 1)];
}

/** A row's largest weights that make up a share of its mass, at most so many, largest last. */
export function strongest(row: Float32Array, share: number, most: number): { j: number; w: number }[] {
  const best: { j: number; w: number }[] = []; // rising; short, so that a long row is read once
  let total = 0;
  for (let j = 0; j < row.length; j++) {
    const w = Math.abs(row[j]);
    total += w;
    if (!(w > 0) || (best.length === most && w <= Math.abs(best[0].w))) continue;
    let at = best.length;
    while (at > 0 && Math.abs(best[at - 1].w) >= w) at--;
    best.splice(at, 0, { j, w: row[j] });
    if (best.length > most) best.shift();
  }
  let sum = 0;
  let first = best.length;
  while (first > 0 && sum < share * total - 1e-7) sum += Math.abs(best[--first].w);
  return best.slice(first);
}
