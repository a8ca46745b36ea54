/** Graph renderer on sigma.js: edges are wedges from the attended to the attending node; the ring of a node is the
 * weight of its self-loop. */

import { createNodeBorderProgram } from "@sigma/node-border";
import { MultiDirectedGraph } from "graphology";
import Sigma from "sigma";
import { EdgeTriangleProgram } from "sigma/rendering";
import type { CameraState } from "sigma/types";
import type { GraphRenderer, GraphEvents, GraphStyle, GraphScene } from "./graph_renderer";
import { deferRender } from "./deferred_render";

const Ringed = createNodeBorderProgram({
  borders: [
    { size: { attribute: "ring", defaultValue: 0, mode: "relative" }, color: { attribute: "ringColour" } },
    { size: { fill: true }, color: { attribute: "color" } },
  ],
});

function graphOf(scene: GraphScene): MultiDirectedGraph {
  const graph = new MultiDirectedGraph({ allowSelfLoops: false });
  for (let x = 0; x < scene.places.length / 2; x++) graph.addNode(x, { x: scene.places[2 * x], y: scene.places[2 * x + 1] });
  for (let e = 0; e < scene.ends.length / 2; e++) graph.addEdgeWithKey(e, scene.ends[2 * e], scene.ends[2 * e + 1]);
  return graph;
}

function dress(graph: MultiDirectedGraph, look: GraphStyle): void {
  const { node, edge } = look;
  graph.updateEachNodeAttributes((key, was) => {
    const x = Number(key);
    return { ...was, size: node.size[x], color: node.colour[x], ring: node.ring[x], ringColour: node.ringColour[x], label: node.name[x] };
  }, { attributes: ["size", "color", "ring", "ringColour", "label"] });
  graph.updateEachEdgeAttributes((key) => {
    const e = Number(key);
    return { size: edge.width[e], color: edge.colour[e], zIndex: edge.order[e], hidden: edge.hidden[e] > 0 };
  }, { attributes: ["size", "color", "zIndex", "hidden"] });
}

function open(box: HTMLElement, scene: GraphScene, look: GraphStyle, events: GraphEvents): GraphRenderer {
  const graph = graphOf(scene);
  dress(graph, look);
  const sigma = new Sigma(graph, box, {
    defaultNodeType: "ringed", nodeProgramClasses: { ringed: Ringed }, defaultEdgeType: "wedge",
    edgeProgramClasses: { wedge: EdgeTriangleProgram }, zIndex: true, allowInvalidContainer: true, minEdgeThickness: 0.5,
    labelSize: 12, labelDensity: 1, labelGridCellSize: 80,
    labelRenderedSizeThreshold: Math.min(6, 0.45 * Math.max(...look.node.size)), minCameraRatio: 0.005, maxCameraRatio: 1.3, stagePadding: 34, inertiaDuration: 120,
    doubleClickTimeout: -Infinity, // disables double taps
    defaultDrawNodeHover: () => undefined, // the component draws the hovered node
    defaultDrawNodeLabel: (context, data) => {
      context.font = `12px ${look.font}`;
      context.lineWidth = 3;
      context.strokeStyle = look.halo;
      context.fillStyle = look.ink;
      context.strokeText(data.label ?? "", data.x + data.size + 3, data.y + 4);
      context.fillText(data.label ?? "", data.x + data.size + 3, data.y + 4);
    },
  });
  const camera = sigma.getCamera();
  const layers = sigma.getCanvases();
  sigma.on("enterNode", ({ node }) => events.over(Number(node)));
  sigma.on("leaveNode", () => events.over(null));
  sigma.on("leaveStage", ({ event }) => sigma.getMouseCaptor().emit("mousemove", { ...event, x: -1, y: -1 })); // else a node that was left straight out of the stage is never entered again
  sigma.on("clickNode", ({ node }) => events.click(Number(node)));
  sigma.on("clickStage", () => events.click(null));
  const stopDeferring = deferRender(sigma, () => events.frame());
  const wheel = (event: WheelEvent) => {
    if (event.deltaY > 0 && camera.ratio >= 1) event.stopImmediatePropagation(); // nothing farther away: the page scrolls
  };
  let goal: CameraState | null = null; // where the camera is on its way to: what comes before it is there counts from here
  const heading = () => goal ?? camera.getState();
  const go = (change: Partial<CameraState>, duration: number) => {
    const next = (goal = { ...heading(), ...change });
    camera.animate(next, { duration }, () => void (goal = goal === next ? null : goal));
  };
  const alone = () => void (sigma.getMouseCaptor().clicks = 0); // else a click before its predecessor's timer has fired, as on a busy machine, would zoom
  box.addEventListener("wheel", wheel, { capture: true });
  box.addEventListener("click", alone, { capture: true });
  return {
    show(next) {
      look = next;
      dress(graph, next);
    },
    at(node) {
      const data = sigma.getNodeDisplayData(String(node))!;
      return { ...sigma.framedGraphToViewport(data, { cameraState: camera.getState() }), size: sigma.scaleSize(data.size) };
    },
    setOpacity(edges, nodes, names) {
      layers.edges.style.opacity = String(edges);
      layers.nodes.style.opacity = String(nodes);
      layers.labels.style.opacity = String(names);
    },
    scaledWidth: (width) => sigma.scaleSize(width),
    zoom: (factor) => go({ ratio: camera.getBoundedRatio(heading().ratio / factor) }, 120),
    resetView: () => go({ x: 0.5, y: 0.5, ratio: 1, angle: 0 }, 200),
    reveal(node) {
      const data = sigma.getNodeDisplayData(String(node))!;
      const { x, y } = sigma.framedGraphToViewport(data, { cameraState: heading() });
      const { width, height } = sigma.getDimensions();
      if (x > 8 && y > 8 && x < width - 8 && y < height - 8) return;
      go({ x: data.x, y: data.y }, 200);
    },
    resize() {
      const { width, height } = sigma.getDimensions();
      if (box.clientWidth === width && box.clientHeight === height) return;
      sigma.resize();
      sigma.scheduleRender();
    },
    close() {
      box.removeEventListener("wheel", wheel, { capture: true });
      box.removeEventListener("click", alone, { capture: true });
      stopDeferring();
      sigma.kill();
    },
  };
}

globalThis.regardDrawing = open;
