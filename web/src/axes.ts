/** What surrounds the heat map: tick labels, profiles of the selected row and column, the crosshair. */

import { COLD, place, written, type Scale } from "./colour";
import type { SiteAbout } from "./data";
import type { Head } from "./head";
import { stride, type View } from "./layout";
import { labelled, shortened } from "./token_names";
import { profile } from "./raster";
import { FONT, type Inks } from "./theme";

export interface Frame {
  left: number;
  upper: number;
  width: number;
  height: number;
  right: number;
  lower: number;
  tall: number; // height over width of a drawn weight
}

const PROFILE = 54;

/** Margins for tick labels (left, top) and profiles (right, bottom). Cells are square unless there are few rows or columns. */
export function margins(site: SiteAbout, width: number, most: number): Frame {
  const named = (list: string[] | null) => (list ? Math.min(13, list.reduce((x, name) => Math.max(x, name.length), 3)) : 5);
  const left = 34 + 6.6 * named(site.rows);
  const upper = site.columns ? 34 + 5 * named(site.columns) : 40;
  const right = PROFILE + 14;
  const lower = PROFILE + 12;
  const across = Math.max(80, Math.floor(width - left - right));
  const highest = Math.max(80, Math.floor(Math.min(most - upper - lower, across)));
  const { n, m } = site;
  let [wide, high, tall] = [across, highest, 1];
  if (m > 2.5 * n) {
    high = Math.round(Math.min(highest, Math.max((across / m) * n, Math.min(220, 30 * n)))); // few rows: higher ones
    tall = high / n / (across / m);
  } else if (n > 2.5 * m) {
    wide = Math.round(Math.min(across, Math.max((highest / n) * m, Math.min(280, 40 * m)))); // few columns: wider ones
    tall = highest / n / (wide / m);
  } else {
    wide = Math.min(across, Math.ceil((highest * m) / Math.max(1, n)));
    high = Math.min(highest, Math.ceil((wide * n) / Math.max(1, m)));
  }
  return { left: Math.round(left), upper: Math.round(upper), width: wide, height: high, right, lower, tall };
}

export interface AxesScene {
  frame: Frame;
  view: View;
  site: SiteAbout;
  inks: Inks;
  row: number;
  column: number;
  lines: { row: Float32Array; column: Float32Array };
  pinned: boolean;
  excluded: number;
  top: number;
  scale: Scale;
  head: Head;
  focused: boolean;
}

/** Hatching under the heat map: masked pairs are transparent above it. */
export function hatch(context: CanvasRenderingContext2D, scene: Pick<AxesScene, "frame" | "view" | "site" | "inks">): void {
  const { x0, y0, x1, y1 } = edges(scene);
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const line = tile.getContext("2d")!;
  line.fillStyle = scene.inks.paper;
  line.fillRect(0, 0, 8, 8);
  line.strokeStyle = scene.inks.line;
  line.lineWidth = 1.2;
  for (const shift of [-8, 0, 8]) {
    line.beginPath();
    line.moveTo(shift, 8);
    line.lineTo(shift + 8, 0);
    line.stroke();
  }
  context.fillStyle = context.createPattern(tile, "repeat")!;
  context.fillRect(x0, y0, x1 - x0, y1 - y0);
}

/** The visible part of the map, on the canvas. */
function edges({ frame, view, site }: Pick<AxesScene, "frame" | "view" | "site">): { x0: number; y0: number; x1: number; y1: number } {
  const down = view.scale * view.tall;
  return {
    x0: frame.left + Math.max(0, -view.x * view.scale), y0: frame.upper + Math.max(0, -view.y * down),
    x1: Math.min(frame.left + frame.width, frame.left + (site.m - view.x) * view.scale),
    y1: Math.min(frame.upper + frame.height, frame.upper + (site.n - view.y) * down),
  };
}

export function drawAxes(context: CanvasRenderingContext2D, scene: AxesScene): void {
  const { inks } = scene;
  const { x0, y0, x1, y1 } = edges(scene);
  context.strokeStyle = inks.line;
  context.lineWidth = 1;
  context.strokeRect(x0 - 0.5, y0 - 0.5, x1 - x0 + 1, y1 - y0 + 1);
  names(context, scene, x0, y0, x1, y1);
  numbers(context, scene);
  cross(context, scene, x0, y0, x1, y1);
  profiles(context, scene, x0, y0, x1, y1);
}

function names(context: CanvasRenderingContext2D, scene: AxesScene, x0: number, y0: number, x1: number, y1: number): void {
  const { frame, view, site, inks, row, column } = scene;
  const down = view.scale * view.tall;
  context.font = `12px ${FONT}`;
  context.fillStyle = inks.ink;
  const axis = (text: string, x: number, y: number, turn: number) => {
    context.save();
    context.translate(x, y);
    context.rotate(turn);
    context.font = `italic 600 12px ${FONT}`;
    context.fillStyle = inks.soft;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(text, 0, 0);
    context.restore();
  };
  axis("key (attended) →", (x0 + x1) / 2, 9, 0);
  axis("← query (attending)", 9, (y0 + y1) / 2, -Math.PI / 2);
  const step = stride(down, site.rows ? 12 : 16);
  const first = Math.max(0, Math.ceil(view.y / step) * step);
  context.textBaseline = "middle";
  context.textAlign = "right";
  const put = (i: number, strong: boolean) => {
    const y = frame.upper + (i + 0.5 - view.y) * down;
    if (y < y0 - 1 || y > y1 + 1) return;
    context.font = `${strong ? "600 " : ""}12px ${FONT}`;
    context.fillStyle = strong ? inks.mark : inks.ink;
    context.fillText(shortened(labelled(site, "rows", i), 13), x0 - 6, y);
  };
  for (let i = first; i < Math.min(site.n, view.y + frame.height / down); i += step)
    if (i === row || Math.abs(i - row) * down >= 12) put(i, i === row);
  if (row % step) put(row, true);
  const near = site.columns ? 13 : 14 + 7 * String(site.m).length;
  const side = stride(view.scale, near);
  const slant = site.columns ? -Math.PI / 4 : 0;
  const write = (j: number, strong: boolean) => {
    const x = frame.left + (j + 0.5 - view.x) * view.scale;
    if (x < x0 - 1 || x > x1 + 1) return;
    context.save();
    context.translate(x + (slant ? 3 : 0), y0 - 7);
    context.rotate(slant);
    context.textAlign = slant ? "left" : "center";
    context.font = `${strong ? "600 " : ""}12px ${FONT}`;
    context.fillStyle = strong ? inks.mark : inks.ink;
    context.fillText(shortened(labelled(site, "columns", j), 13), 0, 0);
    context.restore();
  };
  for (let j = Math.max(0, Math.ceil(view.x / side) * side); j < Math.min(site.m, view.x + frame.width / view.scale); j += side)
    if (j === column || Math.abs(j - column) * view.scale >= near) write(j, j === column);
  if (column % side) write(column, true);
}

/** The weights as numbers, once cells are large enough. */
function numbers(context: CanvasRenderingContext2D, scene: AxesScene): void {
  const { frame, view, head, site } = scene;
  const down = view.scale * view.tall;
  if (view.scale < 34 || down < 13 || !head.single) return;
  context.save();
  context.beginPath();
  context.rect(frame.left, frame.upper, frame.width, frame.height);
  context.clip();
  context.font = `10px ${FONT}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  const i1 = Math.min(site.n, Math.ceil(view.y + frame.height / down));
  const j1 = Math.min(site.m, Math.ceil(view.x + frame.width / view.scale));
  for (let i = Math.max(0, Math.floor(view.y)); i < i1; i++)
    for (let j = Math.max(0, Math.floor(view.x)); j < j1; j++) {
      const w = head.weight(i, j).value;
      if (!(Math.abs(w) >= 0.0005)) continue;
      const strong = place(Math.abs(w), scene.top, scene.scale) > (scene.inks.dark ? 0.5 : 0.6); // contrast with the cell colour
      context.fillStyle = strong ? (scene.inks.dark ? "#1d1206" : "#fff8ea") : scene.inks.ink;
      context.fillText(w.toFixed(3).replace(/^(-?)0/, "$1"), frame.left + (j + 0.5 - view.x) * view.scale, frame.upper + (i + 0.5 - view.y) * down);
    }
  context.restore();
}

function cross(context: CanvasRenderingContext2D, scene: AxesScene, x0: number, y0: number, x1: number, y1: number): void {
  const { frame, view, inks, row, column } = scene;
  const x = frame.left + (column - view.x) * view.scale;
  const y = frame.upper + (row - view.y) * view.scale * view.tall;
  const size = Math.max(1, view.scale);
  const high = Math.max(1, view.scale * view.tall);
  context.save();
  context.beginPath();
  context.rect(x0 - 2, y0 - 2, x1 - x0 + 4, y1 - y0 + 4);
  context.clip();
  context.strokeStyle = inks.mark;
  context.globalAlpha = scene.pinned ? 0.9 : 0.55;
  context.lineWidth = 1;
  context.strokeRect(x0, Math.round(y) - 0.5, x1 - x0, high + 1);
  context.strokeRect(Math.round(x) - 0.5, y0, size + 1, y1 - y0);
  context.globalAlpha = 1;
  context.lineWidth = scene.pinned ? 2.5 : 1.5;
  const pad = Math.min(size, high) < 6 ? 4 : 0;
  context.strokeRect(x - pad - 0.5, y - pad - 0.5, size + 2 * pad + 1, high + 2 * pad + 1);
  context.restore();
  if (scene.excluded >= 0) {
    const at = frame.left + (scene.excluded + 0.5 - view.x) * view.scale;
    if (at >= x0 && at <= x1) {
      context.fillStyle = inks.soft;
      context.beginPath();
      context.moveTo(at - 4, y1 + 8);
      context.lineTo(at + 4, y1 + 8);
      context.lineTo(at, y1 + 2);
      context.fill();
    }
  }
}

/** Profiles of the selected row (below) and column (right), each scaled to its maximum. */
function profiles(context: CanvasRenderingContext2D, scene: AxesScene, x0: number, y0: number, x1: number, y1: number): void {
  const { frame, view, inks, lines } = scene;
  const across = profile(lines.row, view.x, view.scale, Math.floor(frame.width));
  const down = profile(lines.column, view.y, view.scale * view.tall, Math.floor(frame.height));
  const high = across.reduce((a, b) => Math.max(a, Math.abs(b)), 0) || 1;
  const wide = down.reduce((a, b) => Math.max(a, Math.abs(b)), 0) || 1;
  const [below, beside] = [y1 + 10, x1 + 10];
  const cold = (inks.dark ? COLD.dark : COLD.light)[4]; // below zero
  context.globalAlpha = 0.85;
  for (let x = 0; x < across.length; x++) {
    const h = (PROFILE - 14) * (Math.abs(across[x]) / high);
    context.fillStyle = across[x] < 0 ? cold : inks.mark;
    if (h > 0.2) context.fillRect(frame.left + x, below + PROFILE - 14 - h, 1, h);
  }
  for (let y = 0; y < down.length; y++) {
    const w = (PROFILE - 10) * (Math.abs(down[y]) / wide);
    context.fillStyle = down[y] < 0 ? cold : inks.mark;
    if (w > 0.2) context.fillRect(beside, frame.upper + y, w, 1);
  }
  context.globalAlpha = 1;
  context.strokeStyle = inks.line;
  context.beginPath();
  context.moveTo(x0, below + PROFILE - 13.5);
  context.lineTo(x1, below + PROFILE - 13.5);
  context.moveTo(beside - 0.5, y0);
  context.lineTo(beside - 0.5, y1);
  context.stroke();
  context.font = `10.5px ${FONT}`;
  context.fillStyle = inks.soft;
  context.textBaseline = "top";
  context.textAlign = "left";
  context.fillText(`weights of the selected row, max ${written(high)}`, x0, below + PROFILE - 11);
  context.save();
  context.translate(beside + PROFILE - 8, y0);
  context.rotate(Math.PI / 2);
  context.textBaseline = "bottom";
  context.fillText(`${y1 - y0 < 210 ? "" : "weights of the selected column, "}max ${written(wide)}`, 0, 0);
  context.restore();
}
