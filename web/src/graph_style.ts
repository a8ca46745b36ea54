/** Visual encoding of a graph: weights to edge widths, edge colours and rings; classes to node colours. */

import { COLD, HEAD_COLOURS, palette, place, RAMPS, type Scale } from "./colour";
import type { GraphStyle } from "./graph_renderer";
import type { Edges } from "./edges";
import { FONT, type Inks } from "./theme";

/** Nodes as indexed by the renderer: pure sources first (bipartite graphs), then targets. */
export interface NodeTable {
  count: number;
  first: number;
  names: string[];
  classes: ArrayLike<number> | null;
}

/** The colour map as 256 CSS colours. */
export function shades(dark: boolean): { warm: string[]; cold: string[] } {
  const css = (stops: string[]) =>
    Array.from(palette(stops), (x) => `#${[x & 255, (x >> 8) & 255, (x >> 16) & 255].map((c) => c.toString(16).padStart(2, "0")).join("")}`);
  return { warm: css(dark ? RAMPS.dark : RAMPS.light), cold: css(dark ? COLD.dark : COLD.light) };
}

export function classColour(x: number): string {
  return HEAD_COLOURS[(x + 1) % HEAD_COLOURS.length]; // the first is reserved for weights
}

/** Indices of the edges drawn as wedges: all but self-loops. */
export function drawn(edges: Edges, first: number): Uint32Array {
  const made: number[] = [];
  for (let e = 0; e < edges.source.length; e++) if (first > 0 || edges.source[e] !== edges.target[e]) made.push(e);
  return Uint32Array.from(made);
}

export function endsOf(edges: Edges, slots: Uint32Array, first: number): Uint32Array {
  const made = new Uint32Array(2 * slots.length);
  slots.forEach((e, x) => {
    made[2 * x] = edges.source[e];
    made[2 * x + 1] = first + edges.target[e];
  });
  return made;
}

/** Weight of the self-loop of each node. */
export function loopsOf(edges: Edges): Float32Array {
  const made = new Float32Array(edges.n);
  for (let e = 0; e < edges.w.length; e++) if (edges.source[e] === edges.target[e]) made[edges.target[e]] += edges.w[e];
  return made;
}

/** Maximum edge width and node size in pixels, smaller for large graphs. */
export function sizes(nodes: number, edges: number): { wide: number; large: number } {
  const within = (x: number, low: number, high: number) => Math.max(low, Math.min(high, x));
  return { wide: within(170 / Math.sqrt(edges + 1), 2.6, 12), large: within(130 / Math.sqrt(nodes + 1), 4.5, 14) };
}

export interface StyleOptions {
  scale: Scale;
  top: number;
  mass: number;
}

export function graphStyle(edges: Edges, slots: Uint32Array, nodes: NodeTable, options: StyleOptions, inks: Inks): GraphStyle {
  const { warm, cold } = shades(inks.dark);
  const { wide, large } = sizes(nodes.count, slots.length);
  const at = (w: number) => place(Math.abs(w), options.top, options.scale);
  const shade = (w: number) => (w < 0 ? cold : warm)[Math.round(30 + 225 * at(w))]; // the smallest weight stays visible
  const count = slots.length;
  const edge = { width: new Float32Array(count), colour: new Array<string>(count), order: new Float32Array(count), hidden: new Uint8Array(count) };
  const least = edges.least(options.mass);
  slots.forEach((e, x) => {
    const w = edges.w[e];
    const share = at(w);
    edge.width[x] = 0.5 + (wide - 0.5) * share;
    edge.order[x] = Math.round(255 * share);
    edge.colour[x] = shade(w);
    edge.hidden[x] = Math.abs(w) < least[edges.target[e]] ? 1 : 0;
  });
  const received = edges.received();
  const most = received.reduce((a, b) => Math.max(a, b), 0) || 1;
  const loops = nodes.first > 0 ? null : loopsOf(edges);
  const node = { size: new Float32Array(nodes.count), colour: [] as string[], ring: new Float32Array(nodes.count), ringColour: [] as string[], name: nodes.names };
  for (let x = 0; x < nodes.count; x++) {
    node.size[x] = large * (0.5 + 0.5 * (x < edges.m ? Math.sqrt(received[x] / most) : 0));
    node.colour[x] = nodes.classes ? classColour(nodes.classes[x]) : inks.dark ? "#8f98a8" : "#6b7280";
    node.ring[x] = loops ? 0.5 * at(loops[x]) : 0;
    node.ringColour[x] = loops ? shade(loops[x]) : inks.raised;
  }
  return { node, edge, ink: inks.ink, halo: inks.raised, font: FONT };
}
