/** While the camera moves, a slow scene is transformed by CSS instead of redrawn; it is rendered again when the camera rests. */

import type Sigma from "sigma";

const SLOW_FRAME = 66; // milliseconds from the start of a render until the third frame after it
const FAST_FRAMES = 3; // consecutive fast renders before every move is rendered
const SMALL_GRAPH = 2000; // edges up to which every move is rendered
const SETTLE = 160;

/** Translation and scale between two camera states. */
export function shifted(before: [Spot, Spot], now: [Spot, Spot]): { x: number; y: number; scale: number } {
  const scale = (now[1].x - now[0].x) / (before[1].x - before[0].x || 1);
  return { x: now[0].x - scale * before[0].x, y: now[0].y - scale * before[0].y, scale };
}

interface Spot {
  x: number;
  y: number;
}

/** Wraps sigma's scheduleRender. `frame` is called after each render or transform; returns a cleanup function. */
export function deferRender(sigma: Sigma, frame: () => void): () => void {
  const camera = sigma.getCamera();
  const { edges, nodes, labels } = sigma.getCanvases();
  const spots = (state = camera.getState()): [Spot, Spot] =>
    [{ x: 0, y: 0 }, { x: 1, y: 1 }].map((at) => sigma.framedGraphToViewport(at, { cameraState: state })) as [Spot, Spot];
  const few = sigma.getGraph().size <= SMALL_GRAPH;
  const draw = sigma.scheduleRender.bind(sigma);
  let [seen, quick, began, timer] = [spots(), 0, 0, 0]; // number of consecutive fast renders
  for (const layer of [edges, nodes, labels]) layer.style.transformOrigin = "0 0";
  const place = (transform: string) => [edges, nodes, labels].forEach((layer) => (layer.style.transform = transform));
  sigma.on("beforeRender", () => void (began = performance.now()));
  sigma.on("afterRender", () => {
    seen = spots();
    place("");
    frame();
    const from = began;
    const done = () => void (quick = performance.now() - from > SLOW_FRAME ? 0 : quick + 1);
    requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done)));
  });
  sigma.scheduleRender = () => {
    if (few || quick >= FAST_FRAMES) return draw();
    const { x, y, scale } = shifted(seen, spots());
    place(`translate(${x}px, ${y}px) scale(${scale})`);
    frame();
    clearTimeout(timer);
    timer = setTimeout(draw, SETTLE);
    return sigma;
  };
  return () => clearTimeout(timer);
}
