/** What is chosen on a page, shared by all components on it: site, head, row, column, and which of two maps. */

import type { MapData } from "./data";
import type { Side } from "./difference";
import type { Head } from "./head";

export interface Choice {
  site: number;
  head: number;
  row: number;
  column: number;
  locked: boolean; // a click keeps the row until the next
  side: Side; // of two maps beside each other
}

/** What a double-click asks for: a token, or a head of a site. */
export interface Act {
  token?: number;
  site?: number;
  head?: number;
}

export class Store extends EventTarget {
  choice: Choice = { site: 0, head: 0, row: 0, column: 0, locked: false, side: "this" };

  /** Tokens and heads (site.head) that were changed in the model. */
  marks = { tokens: new Set<number>(), heads: new Set<string>() };

  constructor(readonly data: MapData) {
    super();
    if (data.about.beside) this.choice.side = "difference";
  }

  /** A head of the chosen site, or of another, on the side that is shown. */
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
