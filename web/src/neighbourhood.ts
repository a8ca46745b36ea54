/** The neighbourhood of one node over the dimmed graph: edges as wedges, with their weights. */

import { written } from "./colour";
import type { GraphRenderer } from "./graph_renderer";
import type { Neighbour } from "./edges";
import { shortened } from "./token_names";
import { FONT, type Inks } from "./theme";

export interface Neighbourhood {
  node: number; // as indexed by the renderer
  ends: (Neighbour & { at: number; self: boolean })[]; // strongest first; `at` as indexed by the renderer
  inward: boolean; // edges to what the node attends to; otherwise edges from what attends to it
  chosen: number | null; // the highlighted neighbour
}

export interface Paint {
  drawing: GraphRenderer;
  inks: Inks;
  name(node: number): string;
  colour(w: number): string;
  fill(node: number): string;
  width(w: number): number;
}

const LINES = 600; // edges drawn
const NUMBERS = 60; // and labelled with weights, without overlap

interface Box {
  x0: number;
  y0: number;
  x1: number;
  y1: number;
}

/** Whether a label box overlaps an earlier one; if not, it is reserved. */
function taken(boxes: Box[], box: Box): boolean {
  if (boxes.some((b) => b.x0 < box.x1 && box.x0 < b.x1 && b.y0 < box.y1 && box.y0 < b.y1)) return true;
  boxes.push(box);
  return false;
}

export function paintNeighbourhood(context: CanvasRenderingContext2D, neighbourhood: Neighbourhood, paint: Paint): void {
  const { drawing, inks } = paint;
  const centre = drawing.at(neighbourhood.node);
  const lines = neighbourhood.ends.slice(0, LINES);
  for (const end of [...lines].reverse()) {
    if (end.self) continue;
    const other = drawing.at(end.at);
    wedge(context, neighbourhood.inward ? other : centre, neighbourhood.inward ? centre : other, Math.max(1.2, drawing.scaledWidth(paint.width(end.w))), paint.colour(end.w));
  }
  const own = lines.find((end) => end.self);
  if (own) loop(context, centre, paint.colour(own.w), Math.max(1.5, 0.5 * drawing.scaledWidth(paint.width(own.w))));
  for (const end of lines) if (!end.self) dot(context, drawing.at(end.at), paint.fill(end.at), end.node === neighbourhood.chosen ? inks.mark : inks.raised, end.node === neighbourhood.chosen);
  dot(context, centre, paint.fill(neighbourhood.node), inks.mark, true);
  const boxes: Box[] = [];
  label(context, boxes, paint.name(neighbourhood.node), centre.x + centre.size + 5, centre.y, inks, true);
  if (own) number(context, boxes, own.w, centre.x, centre.y - 2.6 * loopSize(centre.size) - 4, inks, neighbourhood.chosen === own.node);
  for (const end of lines.slice(0, NUMBERS)) {
    if (end.self) continue;
    const other = drawing.at(end.at);
    const marked = end.node === neighbourhood.chosen;
    number(context, boxes, end.w, other.x + 0.36 * (centre.x - other.x), other.y + 0.36 * (centre.y - other.y), inks, marked);
    label(context, boxes, paint.name(end.at), other.x + other.size + 4, other.y, inks, marked);
  }
}

/** A ring around one node, and its name. */
export function paintMark(context: CanvasRenderingContext2D, node: number, paint: Paint): void {
  const at = paint.drawing.at(node);
  context.strokeStyle = paint.inks.mark;
  context.lineWidth = 2;
  context.beginPath();
  context.arc(at.x, at.y, at.size + 3, 0, 2 * Math.PI);
  context.stroke();
  label(context, [], paint.name(node), at.x + at.size + 6, at.y, paint.inks, true);
}

type Spot = { x: number; y: number; size: number };

function wedge(context: CanvasRenderingContext2D, from: Spot, to: Spot, width: number, colour: string): void {
  const long = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const [nx, ny] = [(-(to.y - from.y) / long) * (width / 2), ((to.x - from.x) / long) * (width / 2)];
  context.fillStyle = colour;
  context.beginPath();
  context.moveTo(from.x + nx, from.y + ny);
  context.lineTo(from.x - nx, from.y - ny);
  context.lineTo(to.x - 0.12 * nx, to.y - 0.12 * ny);
  context.lineTo(to.x + 0.12 * nx, to.y + 0.12 * ny);
  context.fill();
}

const loopSize = (size: number) => Math.max(9, 0.9 * size);

function loop(context: CanvasRenderingContext2D, at: Spot, colour: string, width: number): void {
  const r = loopSize(at.size);
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.beginPath();
  context.arc(at.x, at.y - at.size - 0.6 * r, r, 0, 2 * Math.PI);
  context.stroke();
}

function dot(context: CanvasRenderingContext2D, at: Spot, fill: string, ring: string, strong: boolean): void {
  context.beginPath();
  context.arc(at.x, at.y, Math.max(3, at.size), 0, 2 * Math.PI);
  context.fillStyle = fill;
  context.fill();
  context.strokeStyle = ring;
  context.lineWidth = strong ? 2.5 : 1;
  context.stroke();
}

function number(context: CanvasRenderingContext2D, boxes: Box[], w: number, x: number, y: number, inks: Inks, strong: boolean): void {
  const text = written(w);
  context.font = `${strong ? "700" : "600"} 11.5px ${FONT}`;
  const half = context.measureText(text).width / 2 + 3;
  if (taken(boxes, { x0: x - half, x1: x + half, y0: y - 8, y1: y + 8 })) return;
  context.fillStyle = inks.raised;
  context.globalAlpha = 0.86;
  context.fillRect(x - half, y - 8, 2 * half, 16);
  context.globalAlpha = 1;
  context.fillStyle = strong ? inks.mark : inks.ink;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(text, x, y + 0.5);
}

function label(context: CanvasRenderingContext2D, boxes: Box[], name: string, x: number, y: number, inks: Inks, strong: boolean): void {
  const text = shortened(name, 24);
  context.font = `${strong ? "600 " : ""}12.5px ${FONT}`;
  const box = { x0: x, x1: x + context.measureText(text).width, y0: y - 8, y1: y + 8 };
  if (taken(boxes, box)) return;
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.lineWidth = 3;
  context.strokeStyle = inks.raised;
  context.strokeText(text, x, y);
  context.fillStyle = strong ? inks.mark : inks.ink;
  context.fillText(text, x, y);
}
