/** A picture that takes long to draw is moved as it is while the camera moves, and drawn anew when it rests. */

import type Sigma from "sigma";

const LONG = 66; // milliseconds from a picture's beginning until the third frame after
const STEADY = 3; // pictures that were quicker than that before each move is drawn
const FEW = 2000; // edges that are drawn at each move anyway
const REST = 160;

/** The shift and the scale that bring points seen from one camera to where another sees them. */
export function shifted(before: [Spot, Spot], now: [Spot, Spot]): { x: number; y: number; scale: number } {
  const scale = (now[1].x - now[0].x) / (before[1].x - before[0].x || 1);
  return { x: now[0].x - scale * before[0].x, y: now[0].y - scale * before[0].y, scale };
}

interface Spot {
  x: number;
  y: number;
}

/** Takes over when sigma draws. `frame` is called whenever the picture stands elsewhere; what is returned stops it. */
export function moving(sigma: Sigma, frame: () => void): () => void {
  const camera = sigma.getCamera();
  const { edges, nodes, labels } = sigma.getCanvases();
  const spots = (state = camera.getState()): [Spot, Spot] =>
    [{ x: 0, y: 0 }, { x: 1, y: 1 }].map((at) => sigma.framedGraphToViewport(at, { cameraState: state })) as [Spot, Spot];
  const few = sigma.getGraph().size <= FEW;
  const draw = sigma.scheduleRender.bind(sigma);
  let [seen, quick, began, timer] = [spots(), 0, 0, 0]; // how many pictures were quick, one after the other
  for (const layer of [edges, nodes, labels]) layer.style.transformOrigin = "0 0";
  const place = (transform: string) => [edges, nodes, labels].forEach((layer) => (layer.style.transform = transform));
  sigma.on("beforeRender", () => void (began = performance.now()));
  sigma.on("afterRender", () => {
    seen = spots();
    place("");
    frame();
    const from = began;
    const done = () => void (quick = performance.now() - from > LONG ? 0 : quick + 1);
    requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done)));
  });
  sigma.scheduleRender = () => {
    if (few || quick >= STEADY) return draw();
    const { x, y, scale } = shifted(seen, spots());
    place(`translate(${x}px, ${y}px) scale(${scale})`);
    frame();
    clearTimeout(timer);
    timer = setTimeout(draw, REST);
    return sigma;
  };
  return () => clearTimeout(timer);
}
