/** What draws a graph, and what it is told. The drawing itself (sigma.ts) is a file of its own: pages without graphs do
 * not carry it. */

export interface Scene {
  places: Float32Array; // (nodes, 2)
  ends: Uint32Array; // (edges, 2): attended, attending
}

export interface Look {
  node: { size: Float32Array; colour: string[]; ring: Float32Array; ringColour: string[]; name: string[] };
  edge: { width: Float32Array; colour: string[]; order: Float32Array; hidden: Uint8Array };
  ink: string;
  halo: string; // around names, so that they can be read over edges
  font: string;
}

export interface Heard {
  over(node: number | null): void;
  click(node: number | null): void;
  frame(): void; // a picture was drawn
}

export interface Drawing {
  show(look: Look): void;
  /** Where a node is on the screen, and how large. */
  at(node: number): { x: number; y: number; size: number };
  /** How strongly edges, nodes and names are seen, from 0 to 1. */
  fade(edges: number, nodes: number, names: number): void;
  /** How many pixels a width is, as near as the graph is now. */
  wide(width: number): number;
  zoom(factor: number): void;
  whole(): void;
  reveal(node: number): void;
  resize(): void;
  close(): void;
}

export type Open = (box: HTMLElement, scene: Scene, look: Look, heard: Heard) => Drawing;

declare global {
  var regardDrawing: Open | undefined; // set by graph.js
}

/** Whether this browser can draw a graph: a sentence if not. */
export function refusal(): string | null {
  if (!globalThis.regardDrawing) return "This page carries nothing that draws graphs.";
  const probe = document.createElement("canvas");
  const found = probe.getContext("webgl2") ?? probe.getContext("webgl");
  found?.getExtension("WEBGL_lose_context")?.loseContext();
  return found ? null : "This browser has no WebGL, so the graph is not drawn. The list has the weights of the chosen node.";
}
