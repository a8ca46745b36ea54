/** Interface of the graph renderer. Its implementation (sigma.ts) is a bundle of its own, which only pages with graphs carry. */

export interface GraphScene {
  places: Float32Array; // (nodes, 2)
  ends: Uint32Array; // (edges, 2): attended, attending
}

export interface GraphStyle {
  node: { size: Float32Array; colour: string[]; ring: Float32Array; ringColour: string[]; name: string[] };
  edge: { width: Float32Array; colour: string[]; order: Float32Array; hidden: Uint8Array };
  ink: string;
  halo: string; // outline of labels, legible over edges
  font: string;
}

export interface GraphEvents {
  over(node: number | null): void;
  click(node: number | null): void;
  frame(): void; // a frame was drawn
}

export interface GraphRenderer {
  show(look: GraphStyle): void;
  /** Screen position and size of a node. */
  at(node: number): { x: number; y: number; size: number };
  /** Opacity of edges, nodes and labels. */
  setOpacity(edges: number, nodes: number, names: number): void;
  /** A width in pixels at the current zoom. */
  scaledWidth(width: number): number;
  zoom(factor: number): void;
  resetView(): void;
  reveal(node: number): void;
  resize(): void;
  close(): void;
}

export type OpenRenderer = (box: HTMLElement, scene: GraphScene, look: GraphStyle, events: GraphEvents) => GraphRenderer;

declare global {
  var regardDrawing: OpenRenderer | undefined; // set by graph.js
}

/** Why this browser cannot draw a graph; null if it can. */
export function refusal(): string | null {
  if (!globalThis.regardDrawing) return "This page was written without the graph renderer.";
  const probe = document.createElement("canvas");
  const found = probe.getContext("webgl2") ?? probe.getContext("webgl");
  found?.getExtension("WEBGL_lose_context")?.loseContext();
  return found ? null : "This browser has no WebGL, so the graph is not drawn. The list has the weights of the selected node.";
}
