/** The selection shared by all components of a page: site, head, row, column, and which of two maps. */

import type { MapData } from "./data";
import type { Side } from "./difference";
import type { Head } from "./head";

export interface Choice {
  site: number;
  head: number;
  row: number;
  column: number;
  pinned: boolean; // by a click, until the next
  side: Side; // which of two compared maps
}

/** Target of a double-click: a token, or a head of a site. */
export interface Act {
  token?: number;
  site?: number;
  head?: number;
}

export class Store extends EventTarget {
  choice: Choice = { site: 0, head: 0, row: 0, column: 0, pinned: false, side: "this" };

  /** Tokens and heads (site.head) that are intervened on. */
  marks = { tokens: new Set<number>(), heads: new Set<string>() };

  constructor(readonly data: MapData) {
    super();
    if (data.about.beside) this.choice.side = "difference";
  }

  /** A head of the selected site, or of another one, of the map that is shown. */
  head(head = this.choice.head, site = this.choice.site): Promise<Head> {
    return this.data.head(site, head, this.choice.side);
  }

  get site() {
    return this.data.sites[this.choice.site];
  }

  choose(change: Partial<Choice>): void {
    const next = { ...this.choice, ...change };
    next.site = within(next.site, this.data.sites.length);
    const site = this.data.sites[next.site];
    next.head = within(next.head, site.heads);
    next.row = within(next.row, site.n);
    next.column = within(next.column, site.m);
    const old = this.choice;
    if ((Object.keys(next) as (keyof Choice)[]).every((key) => next[key] === old[key])) return;
    this.choice = next;
    this.dispatchEvent(new CustomEvent("choice", { detail: old }));
  }
}

function within(x: number, count: number): number {
  return Math.max(0, Math.min(count - 1, x));
}
