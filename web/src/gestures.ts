/** Pointer gestures on a map: drag to pan, pinch to zoom, tap to pin. */

import { zoomed, type View } from "./layout";

export interface Spot {
  x: number;
  y: number;
}

export interface Moved {
  view: View;
  fingers: Spot[]; // one or two, at their initial positions
}

/** The viewport after the fingers moved: the content stays under them. */
export function dragged(from: Moved, now: Spot[], limit: (scale: number) => number): View {
  const { view, fingers } = from;
  const middle = (spots: Spot[]) => ({ x: spots.reduce((s, p) => s + p.x, 0) / spots.length, y: spots.reduce((s, p) => s + p.y, 0) / spots.length });
  const apart = (spots: Spot[]) => Math.hypot(spots[0].x - spots[1].x, spots[0].y - spots[1].y);
  const [a, b] = [middle(fingers), middle(now)];
  const factor = fingers.length < 2 ? 1 : limit((view.scale * apart(now)) / Math.max(1, apart(fingers))) / view.scale;
  const closer = zoomed(view, factor, a.x, a.y);
  return { ...closer, x: closer.x - (b.x - a.x) / closer.scale, y: closer.y - (b.y - a.y) / closer.scale / closer.tall };
}

export class Gestures {
  private fingers = new Map<number, Spot>();
  private from: Moved | null = null;
  private moved = false;

  constructor(
    private spot: (event: MouseEvent) => Spot, // in pixels from the map's upper left corner
    private view: () => View,
    private limit: (scale: number) => number,
    private look: (view: View) => void,
    private tapped: (event: PointerEvent) => void,
  ) {}

  /** Whether a pointer is down. */
  get busy(): boolean {
    return this.fingers.size > 0;
  }

  private begin(): void {
    const spots = [...this.fingers.values()].slice(0, 2);
    this.from = spots.length ? { view: this.view(), fingers: spots } : null;
  }

  readonly down = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    try {
      (event.target as Element).setPointerCapture(event.pointerId);
    } catch {
      // the pointer is already gone
    }
    if (!this.fingers.size) this.moved = false;
    this.fingers.set(event.pointerId, this.spot(event));
    this.begin();
  };

  readonly move = (event: PointerEvent): void => {
    if (!this.fingers.has(event.pointerId) || !this.from) return;
    this.fingers.set(event.pointerId, this.spot(event));
    const now = [...this.fingers.values()].slice(0, 2);
    const far = now.some((p, x) => Math.abs(p.x - this.from!.fingers[x].x) + Math.abs(p.y - this.from!.fingers[x].y) > 4);
    this.moved ||= far;
    if (this.moved) this.look(dragged(this.from, now, this.limit));
  };

  readonly up = (event: PointerEvent): void => {
    if (!this.fingers.delete(event.pointerId)) return;
    if (!this.fingers.size && !this.moved && event.type === "pointerup") this.tapped(event);
    if (this.fingers.size) this.moved = true; // the remaining finger of a pinch is not a tap
    this.begin();
  };
}
