/** Geometry: the viewport of a map, and scrolled lists of tokens. */

export interface View {
  x: number; // the column at the left edge
  y: number; // the row at the upper edge
  scale: number; // pixels per weight, horizontally
  tall: number; // height over width of a weight: 1 unless there are few rows or few columns
}

export interface Box {
  width: number;
  height: number;
}

/** The scale at which the whole map fits. */
export function fit(n: number, m: number, box: Box, tall: number): number {
  return Math.min(box.width / Math.max(1, m), box.height / Math.max(1, n) / tall);
}

export const CLOSEST = 44; // maximum pixels per weight: room for its number

/** Clamp a scale. */
export function limited(scale: number, n: number, m: number, box: Box, tall: number): number {
  const least = fit(n, m, box, tall);
  return Math.min(Math.max(scale, least), Math.max(CLOSEST, least));
}

/** Clamp the viewport to the map, centred where the map is smaller than the box. */
export function clamped(view: View, n: number, m: number, box: Box): View {
  const { tall } = view;
  const scale = limited(view.scale, n, m, box, tall);
  const across = box.width / scale;
  const down = box.height / scale / tall;
  const x = across >= m ? (m - across) / 2 : Math.min(Math.max(view.x, 0), m - across);
  const y = down >= n ? (n - down) / 2 : Math.min(Math.max(view.y, 0), n - down);
  return { x, y, scale, tall };
}

/** Zoom by a factor about (px, py). */
export function zoomed(view: View, factor: number, px: number, py: number): View {
  const { tall } = view;
  const scale = view.scale * factor;
  return { x: view.x + px / view.scale - px / scale, y: view.y + (py / view.scale - py / scale) / tall, scale, tall };
}

/** Scroll as little as needed to show a weight. */
export function revealing(view: View, i: number, j: number, box: Box): View {
  const across = box.width / view.scale;
  const down = box.height / view.scale / view.tall;
  const x = j < view.x ? j : j + 1 > view.x + across ? j + 1 - across : view.x;
  const y = i < view.y ? i : i + 1 > view.y + down ? i + 1 - down : view.y;
  return { ...view, x, y };
}

/** Tick step (1, 2, 5, 10, ...) such that labels are at least `room` pixels apart. */
export function stride(scale: number, room: number): number {
  for (let power = 1; ; power *= 10)
    for (const digit of [1, 2, 5]) if (digit * power * scale >= room) return digit * power;
}

/** Visible indices of a scrolled list, plus a margin. */
export function inSight(count: number, top: number, height: number, line: number): [number, number] {
  return [Math.max(0, Math.floor(top / line) - 1), Math.min(count, Math.ceil((top + height) / line) + 1)];
}

/** Top-p of a row: the largest weights that add up to a share of it, at most `most`, largest last. */
export function strongest(row: Float32Array, share: number, most: number): { j: number; w: number }[] {
  const best: { j: number; w: number }[] = []; // ascending; short, so that a long row is scanned once
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
