/** The selection shared by all components of a page: site, head, row, column, which of two maps, and a second head. */

import type { MapData, SiteAbout } from "./data";
import { DifferenceHead, type Side } from "./difference";
import type { Head } from "./head";

export interface Choice {
  site: number;
  head: number;
  row: number;
  column: number;
  pinned: boolean; // by a click, until the next
  side: Side; // which of two compared maps
  against: HeadAddress | null; // the head that the selected one is compared with
}

export interface HeadAddress {
  site: number;
  head: number;
}

const MOST = 1e6; // weights of a map whose heads are compared here

/** Whether a head of one site can be subtracted from a head of the other: the same tokens, weight by weight. */
export function comparable(one: SiteAbout, other: SiteAbout): boolean {
  const whole = (site: SiteAbout) => !site.large && !site.beside && site.form !== "cells" && site.form !== "edges" && site.n * site.m <= MOST;
  if (!whole(one) || !whole(other) || one.n !== other.n || one.m !== other.m) return false;
  const same = (x: string[] | null, y: string[] | null) => x === y || (x?.every((name, at) => name === y?.[at]) ?? y === null);
  return one === other || (same(one.rows, other.rows) && same(one.columns, other.columns));
}

/** Target of a double-click: a token, or a head of a site. */
export interface Act {
  token?: number;
  site?: number;
  head?: number;
}

export class Store extends EventTarget {
  choice: Choice = { site: 0, head: 0, row: 0, column: 0, pinned: false, side: "this", against: null };

  /** Tokens and heads (site.head) that are intervened on. */
  marks = { tokens: new Set<number>(), heads: new Set<string>() };

  constructor(readonly data: MapData) {
    super();
    if (data.about.beside) this.choice.side = "difference";
  }

  /** A head of the selected site, or of another one, of the map that is shown. */
  head(head = this.choice.head, site = this.choice.site): Promise<Head> {
    const { against, side } = this.choice;
    if (!against) return this.data.head(site, head, side);
    if (side === "other") return this.data.head(against.site, against.head);
    return side === "this" ? this.data.head(site, head) : this.subtracted(site, head, against);
  }

  /** The selected map minus the other, where there is one. */
  async difference(): Promise<DifferenceHead | null> {
    const { site, head, against } = this.choice;
    if (against) return this.subtracted(site, head, against);
    return this.site.beside ? ((await this.data.head(site, head, "difference")) as DifferenceHead) : null;
  }

  private async subtracted(site: number, head: number, against: HeadAddress): Promise<DifferenceHead> {
    const [a, b] = await Promise.all([this.data.head(site, head), this.data.head(against.site, against.head)]);
    await Promise.all([a.settled, b.settled]);
    return new DifferenceHead(a, b, "=".repeat(a.n), null);
  }

  /** What the two compared maps are called; null where nothing is compared. */
  get names(): [string, string] | null {
    const { site, head, against } = this.choice;
    if (!against) return this.data.about.beside?.names ?? null;
    return [this.headName({ site, head }), this.headName(against)];
  }

  headName({ site, head }: HeadAddress): string {
    return `head ${this.data.sites[site].short}.${head}`;
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
    if (next.against) {
      const { against } = next;
      const other = this.data.sites[against.site];
      if (!other || against.head >= other.heads || !comparable(site, other)) next.against = null;
    }
    if (!next.against && !this.data.about.beside) next.side = "this";
    const old = this.choice;
    if ((Object.keys(next) as (keyof Choice)[]).every((key) => next[key] === old[key])) return;
    this.choice = next;
    this.dispatchEvent(new CustomEvent("choice", { detail: old }));
  }
}

function within(x: number, count: number): number {
  return Math.max(0, Math.min(count - 1, x));
}
