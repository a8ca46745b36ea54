/** Keyboard bindings of the map. */

import { SIDES } from "./difference";
import type { Store } from "./store";

/** Keys that select a weight. */
export const NAVIGATION_KEYS = new Set(["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End", "PageUp", "PageDown"]);

/** zoom(factor) is about the selected weight; 0 resets. */
export function keys(store: Store, step: number, zoom: (factor: number) => void): Record<string, () => void> {
  const { row, column, head, site, side } = store.choice;
  const to = (change: Parameters<Store["choose"]>[0]) => () => store.choose(change);
  return {
    ArrowUp: to({ row: row - step }), ArrowDown: to({ row: row + step }), ArrowLeft: to({ column: column - step }),
    ArrowRight: to({ column: column + step }), Home: to({ column: 0 }), End: to({ column: store.site.m - 1 }),
    PageUp: to({ row: 0 }), PageDown: to({ row: store.site.n - 1 }), Escape: to({ pinned: false }),
    h: to({ head: head + 1 }), H: to({ head: head - 1 }), l: to({ site: site + 1 }), L: to({ site: site - 1 }),
    ...(store.names ? { d: to({ side: SIDES[(SIDES.indexOf(side) + 1) % SIDES.length] }) } : {}),
    "+": () => zoom(1.5), "=": () => zoom(1.5), "-": () => zoom(1 / 1.5), "0": () => zoom(0), Enter: () => zoom(1e9),
  };
}
